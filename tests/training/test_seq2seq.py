"""A language model made and trained here writes paths that exist. ``make train-test`` runs this: it needs torch."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from benchmarks.plans import judge

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import BETWEEN, CLOSE, OPEN, TEXT, Hop, PathSchema
from kbnav.planning.seq2seq import Epoch, Seq2Seq, Seq2SeqOptions, add_marks, new_model, prompt_ids, with_lora
from kbnav.planning.training import Example, LabelledQuestion, examples
from tests.planning.conftest import EDGES, built

ENDS = ("best", "now", "today", "soon", "at all", "mostly", "as they say", "again")
TRAIN = [
    *(
        LabelledQuestion(f"Which drug helps with {name} {end}?", [drug])
        for name, drug in (("gout", "dA"), ("scurvy", "dB"))
        for end in ENDS
    ),
    *(LabelledQuestion(f"What gene is behind {name} {end}?", ["g2"]) for name in ("gout", "scurvy") for end in ENDS),
    *(LabelledQuestion(f"Which pathway has {name} {end}?", ["p1"]) for name in ("ABC1", "XYZ2") for end in ENDS),
    *(LabelledQuestion(f"Which remedy is {end} said to be old?", ["dB"]) for end in ENDS),
]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SKB]:
    with SKB.open(built(tmp_path_factory.mktemp("clinic"))) as skb:
        yield skb


@pytest.fixture(scope="module")
def asked(clinic: SKB) -> list[Example]:
    return list(examples(TRAIN, clinic, NodeMatcher(clinic, "exact")))


@pytest.fixture(scope="module")
def folder(clinic: SKB, asked: list[Example], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("seq2seq") / "planner"
    Seq2Seq.train(clinic, asked, out, Seq2SeqOptions(epochs=25), print)
    return out


@pytest.mark.parametrize(
    ("question", "nodes", "expected"),
    [
        ("Which drug helps with gout, tell me?", ["x1"], (Hop("treats", "in"),)),
        ("What gene is behind scurvy, tell me?", ["x2"], (Hop("associated"),)),
        ("Which pathway has ABC1, tell me?", ["g1"], (Hop("part_of"),)),
        ("Which remedy is often said to be old?", [], TEXT),
    ],
)
def test_it_learns_its_questions(clinic, folder, question, nodes, expected):
    assert Seq2Seq.load(folder, clinic).plan(question, nodes).paths[0].path.hops == expected


def test_it_beats_the_most_frequent_path(clinic, folder, asked):
    found = judge(Seq2Seq.load(folder, clinic), asked)
    assert found.planner.first > 0.9 > found.most_frequent.first


def test_beams_are_paths_of_the_schema_whatever_is_asked(clinic, folder):
    planner, schema = Seq2Seq.load(folder, clinic), PathSchema.of(clinic)
    for question, starts in (("Xyzzy?", {"gene"}), ("Which drug?", {"disease", "pathway"}), ("", {"drug"})):
        beams = planner.beams(question, frozenset(starts))
        assert len({hops for hops, _ in beams}) == 3
        assert all(not hops or schema.follow(hops, starts) for hops, _ in beams)
        shares = [share for _, share in beams]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) <= 1 + 1e-5
    assert [hops for hops, _ in planner.beams("Which drug?", frozenset())] == [TEXT]


def test_the_loss_is_the_label_s_share_of_the_negative_log_likelihood():
    """Two paths of one token, shares 3/4 and 1/4, over four equally probable tokens: ln 4."""
    from kbnav.planning.seq2seq import loss

    class Even:
        def __call__(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> object:
            return type("Output", (), {"logits": torch.zeros((*input_ids.shape, 4))})

    pairs = [([1, 2], [3], 0.75), ([1], [2], 0.25)]
    assert float(loss(Even(), 0, pairs)) == pytest.approx(math.log(4))
    assert float(loss(Even(), 0, [([1], [2, 3], 0.5)])) == pytest.approx(2 * math.log(4))


def test_lora_on_a_model_that_exists(clinic, folder, asked, tmp_path):
    """The model trained above stands for a pretrained one: the weights that LoRA adds are all that is kept."""
    once = Seq2SeqOptions(base=str(folder / "model"), epochs=1)
    tuned, cut = Seq2Seq.train(clinic, asked[:8], tmp_path / "lora", once, print)
    assert cut == 0
    kept = {path.name for path in (tmp_path / "lora" / "model").iterdir()}
    assert "adapter_model.safetensors" in kept
    assert "model.safetensors" not in kept
    again = Seq2Seq.load(tmp_path / "lora", clinic)
    question = "Which drug helps with gout?"
    assert again.plan(question, ["x1"]) == tuned.plan(question, ["x1"])


def test_what_does_not_fit_is_refused(clinic, folder, asked, tmp_path):
    other = built(tmp_path / "other", edges=EDGES + "p1,cites,x1\n", name="ward")
    with SKB.open(other) as ward, pytest.raises(UsageError, match="schema of clinic; that of ward is another"):
        Seq2Seq.load(folder, ward)
    with pytest.raises(UsageError, match="no causal language model"):
        Seq2Seq.train(clinic, asked, tmp_path / "x", Seq2SeqOptions(base=str(tmp_path / "nothing")), print)
    with pytest.raises(UsageError, match="no questions"):
        Seq2Seq.train(clinic, [], tmp_path / "x", Seq2SeqOptions(), print)
    (tmp_path / "model").mkdir()
    (tmp_path / "card.json").write_bytes((folder / "card.json").read_bytes())
    with pytest.raises(DataError, match="not those that were written"):
        Seq2Seq.load(tmp_path, clinic)


@pytest.mark.parametrize("limit", [512, 128])
def test_a_question_longer_than_the_model_reads_loses_its_end_and_the_plan_says_so(clinic, folder, limit):
    planner = Seq2Seq.load(folder, clinic)
    planner._model.config.max_position_embeddings = limit
    asked = "Which drug helps with gout, tell me?"
    long = f"{asked} {'It hurts in the big toe. ' * 400}"
    plan = planner.plan(long, ["x1"])
    assert plan.paths[0].path.hops == (Hop("treats", "in"),)
    (note,) = plan.notes
    read = int(note.split("the first ")[1].split(" of")[0].replace(",", ""))
    assert note == f"The planner read the first {read:,} of the question's {len(long):,} characters."
    assert len(asked) < read < len(long)
    assert planner.plan(long[:read], ["x1"]).notes == ()
    assert planner.plan(long[: read + 1], ["x1"]).notes != ()  # as much as there is room for
    assert planner.plan(long[:read], ["x1"]).paths == plan.paths


def test_a_model_too_small_for_any_question_is_refused(clinic, folder):
    planner = Seq2Seq.load(folder, clinic)
    planner._model.config.max_position_embeddings = 30
    with pytest.raises(UsageError, match="reads too few tokens"):
        planner.plan("Which drug helps with gout?", ["x1"])


def test_batches_that_are_gathered_are_as_one_large_batch(clinic, asked, tmp_path):
    losses = {}
    for name, more in (("large", {"batch": 8}), ("gathered", {"batch": 2, "accumulation": 4})):
        heard: list[Epoch] = []
        Seq2Seq.train(clinic, asked, tmp_path / name, Seq2SeqOptions(epochs=1, **more), heard.append)
        losses[name] = heard[0].steps, heard[0].loss
    assert losses["gathered"][0] == losses["large"][0]
    assert losses["gathered"][1] == pytest.approx(losses["large"][1], rel=0.1)  # dropout differs
    assert losses["gathered"][1] > 1


def test_a_training_that_was_stopped_goes_on_to_the_same_weights(clinic, asked, tmp_path):
    def stop(epoch: Epoch) -> None:
        raise KeyboardInterrupt

    heard: list[Epoch] = []
    options = Seq2SeqOptions(epochs=3)
    whole, _ = Seq2Seq.train(clinic, asked, tmp_path / "whole", options, heard.append)
    with pytest.raises(KeyboardInterrupt):
        Seq2Seq.train(clinic, asked, tmp_path / "stopped", options, stop)
    with pytest.raises(UsageError, match="other questions or options"):
        Seq2Seq.train(clinic, asked, tmp_path / "stopped", Seq2SeqOptions(epochs=2), print)
    again, _ = Seq2Seq.train(clinic, asked, tmp_path / "stopped", options, heard.append)
    assert [epoch.number for epoch in heard] == [1, 2, 3, 2, 3]
    assert heard[3:] == heard[1:3]
    weights = again._model.state_dict()
    assert all(torch.equal(one, weights[name]) for name, one in whole._model.state_dict().items())
    assert {path.name for path in (tmp_path / "stopped").iterdir()} == {"card.json", "model"}


def test_the_marks_of_paths_become_tokens_of_any_base_and_are_trained(clinic, asked, tmp_path):
    plain, tokenizer = _base_without_marks(asked, tmp_path / "base")
    assert len(tokenizer(OPEN, add_special_tokens=False)["input_ids"]) > 1
    model, tokens = with_lora(str(tmp_path / "base"), rank=2)
    ids = [tokens(mark, add_special_tokens=False)["input_ids"] for mark in (OPEN, BETWEEN, CLOSE)]
    assert ids == [[len(tokenizer)], [len(tokenizer) + 1], [len(tokenizer) + 2]]
    assert model.get_input_embeddings().weight.shape[0] == plain.get_input_embeddings().weight.shape[0] + 3
    assert add_marks(model.get_base_model(), tokens) == []  # there already
    for dtype in ("float32", "bfloat16"):
        once = Seq2SeqOptions(base=str(tmp_path / "base"), epochs=1, rank=2, dtype=dtype)
        tuned, _ = Seq2Seq.train(clinic, asked[:8], tmp_path / dtype, once, print)
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


def test_a_bases_chat_template_is_around_the_prompt(asked):
    _, tokenizer = new_model(asked)
    plain = tokenizer.decode(prompt_ids(tokenizer, "Which drug?", ["gene"]))
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %} assistant:"
    chat = tokenizer.decode(prompt_ids(tokenizer, "Which drug?", ["gene"]))
    assert chat == f"user: {plain.strip()} assistant:"
