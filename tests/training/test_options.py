"""What a training can be told: steps over several batches, what is held out, a kill in its middle, marks as tokens."""

from pathlib import Path

import pytest
import torch

from kbnav.planning.paths import BETWEEN, CLOSE, OPEN
from kbnav.planning.seq2seq import (
    Epoch,
    Seq2Seq,
    Seq2SeqOptions,
    add_marks,
    new_model,
    prompt_ids,
    with_lora,
)
from kbnav.planning.training import Example
from tests.training.test_seq2seq import asked, clinic  # noqa: F401 - fixtures


def test_batches_that_are_gathered_are_as_one_large_batch(clinic, asked, tmp_path):  # noqa: F811
    losses = {}
    for name, more in (("large", {"batch": 8}), ("gathered", {"batch": 2, "accumulation": 4})):
        heard: list[Epoch] = []
        Seq2Seq.train(clinic, asked, tmp_path / name, Seq2SeqOptions(epochs=1, **more), heard.append)
        losses[name] = heard[0].steps, heard[0].loss
    assert losses["gathered"][0] == losses["large"][0]
    assert losses["gathered"][1] == pytest.approx(losses["large"][1], rel=0.1)  # dropout differs
    assert losses["gathered"][1] > 1


def test_the_marks_of_paths_become_tokens_of_any_base_and_are_trained(
    clinic,  # noqa: F811
    asked,  # noqa: F811
    tmp_path,
):
    plain, tokenizer = _base_without_marks(asked, tmp_path / "base")
    assert len(tokenizer(OPEN, add_special_tokens=False)["input_ids"]) > 1
    model, tokens = with_lora(str(tmp_path / "base"), rank=2)
    ids = [tokens(mark, add_special_tokens=False)["input_ids"] for mark in (OPEN, BETWEEN, CLOSE)]
    assert ids == [[len(tokenizer)], [len(tokenizer) + 1], [len(tokenizer) + 2]]
    assert model.get_input_embeddings().weight.shape[0] == plain.get_input_embeddings().weight.shape[0] + 3
    assert add_marks(model.get_base_model(), tokens) == []  # there already
    for dtype in ("float32", "bfloat16"):
        once = Seq2SeqOptions(base=str(tmp_path / "base"), epochs=1, rank=2, dtype=dtype)
        tuned, _ = Seq2Seq.train(clinic, asked[:8], tmp_path / dtype, once)
        again = Seq2Seq.load(tmp_path / dtype, clinic)
        question = "Which drug helps with gout?"
        assert len(again.plan(question, ["x1"]).paths) == len(tuned.plan(question, ["x1"]).paths) > 0
        learned = again._model.get_input_embeddings()(torch.tensor([len(tokenizer)])).detach()
        fresh = with_lora(str(tmp_path / "base"), rank=2)[0].get_input_embeddings()(torch.tensor([len(tokenizer)]))
        assert not torch.equal(learned, fresh.detach())  # the new rows were learned and saved


def _base_without_marks(examples: list[Example], folder: Path):
    """A small model whose tokenizer knows no marks, as a base's does not."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    model, _ = new_model(examples)
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<END>"], initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator((one.question for one in examples), trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<END>", pad_token="<END>")
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return model, tokenizer


def test_a_bases_chat_template_is_around_the_prompt(asked):  # noqa: F811
    _, tokenizer = new_model(asked)
    plain = tokenizer.decode(prompt_ids(tokenizer, "Which drug?", ["gene"]))
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %} assistant:"
    chat = tokenizer.decode(prompt_ids(tokenizer, "Which drug?", ["gene"]))
    assert chat == f"user: {plain.strip()} assistant:"
