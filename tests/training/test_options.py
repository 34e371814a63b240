"""What a training can be told: steps over several batches, what is held out, a kill in its middle, marks as tokens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kbnav.errors import UsageError
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import BETWEEN, CLOSE, OPEN
from kbnav.planning.seq2seq import (
    CHECKPOINT,
    Epoch,
    Schedule,
    Seq2Seq,
    add_marks,
    device_of,
    dtype_of,
    held_out,
    new_model,
    prompt_ids,
    with_lora,
)
from kbnav.planning.training import Example
from tests.training.test_seq2seq import asked, clinic  # noqa: F401 - fixtures

SHORT = Schedule(epochs=3, batch=8)


class Killed(BaseException):
    """Ends a training from outside."""


def kill_after(epoch: int):
    def heard(one: Epoch) -> None:
        if one.number == epoch:
            raise Killed

    return heard


def weights_of(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def test_a_training_that_was_killed_goes_on_to_the_same_weights(clinic: SKB, asked: list[Example], tmp_path: Path):  # noqa: F811
    whole: list[Epoch] = []
    Seq2Seq.train(clinic, asked, tmp_path / "whole", schedule=SHORT, listener=whole.append)
    with pytest.raises(Killed):
        Seq2Seq.train(clinic, asked, tmp_path / "killed", schedule=SHORT, listener=kill_after(1))
    assert (tmp_path / "killed" / CHECKPOINT).exists()
    assert not (tmp_path / "killed" / "planner.json").exists()
    other = replace(SHORT, rate=1e-4)
    with pytest.raises(UsageError, match="of a training with other questions or options"):
        Seq2Seq.train(clinic, asked, tmp_path / "killed", schedule=other)
    rest: list[Epoch] = []
    Seq2Seq.train(clinic, asked, tmp_path / "killed", schedule=SHORT, listener=rest.append)
    assert [one.number for one in rest] == [2, 3]
    assert rest == whole[1:]
    assert weights_of(tmp_path / "killed") == weights_of(tmp_path / "whole")
    assert not (tmp_path / "killed" / CHECKPOINT).exists()


def test_batches_that_are_gathered_are_as_one_large_batch(clinic: SKB, asked: list[Example], tmp_path: Path):  # noqa: F811
    once = Schedule(epochs=1, batch=8, steps=2)
    losses = {}
    for name, schedule in (("large", once), ("gathered", replace(once, batch=2, accumulation=4))):
        heard: list[Epoch] = []
        Seq2Seq.train(clinic, asked, tmp_path / name, schedule=schedule, listener=heard.append)
        assert heard[0].steps == 2  # of eight pairs each
        losses[name] = heard[0].loss
    assert losses["gathered"] == pytest.approx(losses["large"], rel=0.1)  # dropout differs
    assert losses["gathered"] > 1


def test_what_is_held_out_is_not_learned_from_and_its_loss_is_kept(
    clinic: SKB,  # noqa: F811
    asked: list[Example],  # noqa: F811
    tmp_path: Path,
):
    kept, apart = held_out(asked, 0.25, seed=0)
    assert (len(kept), len(apart)) == (round(0.75 * len(asked)), round(0.25 * len(asked)))
    assert {one.question for one in kept}.isdisjoint(one.question for one in apart)
    with pytest.raises(UsageError, match="too few to hold"):
        held_out(asked[:1], 0.5, seed=0)
    Seq2Seq.train(clinic, asked, tmp_path, schedule=replace(SHORT, epochs=6, validation=0.25, beams=2))
    description = json.loads((tmp_path / "planner.json").read_text())
    losses = [one["validation"] for one in description["losses"]]
    assert losses[-1] < losses[0]
    assert len(Seq2Seq.load(tmp_path, clinic).plan("Which drug helps with gout?", ["x1"]).paths) <= 2
    assert description["beams"] == 2


def test_the_marks_of_paths_become_tokens_of_any_base_and_are_trained(
    clinic: SKB,  # noqa: F811
    asked: list[Example],  # noqa: F811
    tmp_path: Path,
):
    plain, tokenizer = _base_without_marks(asked, tmp_path / "base")
    assert len(tokenizer(OPEN, add_special_tokens=False)["input_ids"]) > 1
    model, tokens = with_lora(str(tmp_path / "base"), rank=2)
    ids = [tokens(mark, add_special_tokens=False)["input_ids"] for mark in (OPEN, BETWEEN, CLOSE)]
    assert ids == [[len(tokenizer)], [len(tokenizer) + 1], [len(tokenizer) + 2]]
    assert model.get_input_embeddings().weight.shape[0] == plain.get_input_embeddings().weight.shape[0] + 3
    assert add_marks(model.get_base_model(), tokens) == []  # there already
    for dtype in ("float32", "bfloat16"):
        schedule = Schedule(epochs=1, steps=2, rank=2, dtype=dtype, checkpointing=True)
        tuned, _ = Seq2Seq.train(clinic, asked, tmp_path / dtype, base=str(tmp_path / "base"), schedule=schedule)
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


def test_a_bases_chat_template_is_around_the_prompt(asked: list[Example]):  # noqa: F811
    _, tokenizer = new_model(asked)
    plain = tokenizer.decode(prompt_ids(tokenizer, "Which drug?", ["gene"]))
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %} assistant:"
    chat = tokenizer.decode(prompt_ids(tokenizer, "Which drug?", ["gene"]))
    assert chat == f"user: {plain.strip()} assistant:"


def test_the_device_and_type_are_chosen_or_named():
    assert device_of("cpu") == "cpu"
    assert device_of("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(UsageError, match="no device 'quantum'"):
        device_of("quantum")
    assert [dtype_of("auto", one) for one in ("cpu", "cuda")] == ["float32", "bfloat16"]
    assert dtype_of("float16", "cpu") == "float16"
