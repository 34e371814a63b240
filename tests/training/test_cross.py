"""The reranker, trained from nothing in seconds. ``make train-test`` runs this: it needs torch."""

from __future__ import annotations

import shutil
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder

from kbnav.encoders.trained import MODEL, read_card
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.retrieval.base import build_retriever
from kbnav.retrieval.cross import CrossScorer
from kbnav.settings.model import Settings
from kbnav.training.cross import CrossOptions, train_cross
from kbnav.training.data import Split, examples, split
from kbnav.training.models import export
from kbnav.training.task import Schedule
from tests.trained.shop import DOCUMENT, THEMES, good
from tests.training.parts import goes_on_after_a_kill, refuses_another_schema, refuses_seen, task

SCHEDULE = Schedule(epochs=6, rate=5e-3, batch=10, device="cpu", patience=6)


def asked(themes: range) -> list[tuple[str, str, tuple[str], dict[str, object]]]:
    """Of the two goods of a theme the one for two coins is right, which no question says."""
    forms = ("Which good is item {}?", "Name goods of item {}.")
    return [
        (f"{theme}/{place}", form.format(theme), (good(theme, 1),), {})
        for theme in themes
        for place, form in enumerate(forms)
    ]


@pytest.fixture(scope="module")
def parts(shop: SkbKB) -> Split:
    return split(examples(asked(range(15)), shop.skb), examples(asked(range(15, 20)), shop.skb), {"shop": "0" * 64})


@pytest.fixture(scope="module")
def options(base: Path) -> CrossOptions:
    return CrossOptions(base=str(base), layers=1, longest=48, systems=("bm25",), depth=12, listed=6)


@pytest.fixture(scope="module")
def trained(shop: SkbKB, parts: Split, options: CrossOptions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cross") / "trained"
    train_cross(task(shop, parts, out, SCHEDULE), options)
    return out


def hits(kb: SkbKB, system: str, **options: object) -> float:
    retriever = build_retriever(system, kb, Settings(), options)
    tried = asked(range(20, THEMES))
    return statistics.fmean(retriever.retrieve(text, 1).ids[0] == wanted[0] for _, text, wanted, _ in tried)


def test_it_beats_chance_its_untrained_self_and_what_it_ranks_again(shop: SkbKB, trained: Path):
    card = read_card(trained, "cross")
    assert card.before["hit@1"] < 0.6
    assert card.after["hit@1"] > 0.9
    assert hits(shop, "bm25") <= 0.5
    assert hits(shop, "cross", trained=str(trained)) > 0.9


def test_what_is_exported_scores_as_what_was_trained(trained: Path, tmp_path: Path):
    plain, folder = CrossEncoder(str(trained / MODEL)), tmp_path / MODEL
    shutil.copytree(trained / MODEL, folder)
    export(CrossEncoder(str(folder), device="cpu"), folder, int8=False)
    query = "Which good is item 3?"
    texts = [f"name: item {number} {number % 2}. for {1 + number % 2} coins" for number in range(20)]
    texts += ["", " ".join(DOCUMENT)]
    pairs = [(query, text) for text in texts]
    theirs = plain.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
    floats, few = CrossScorer(folder, 48), CrossScorer(trained / MODEL, 48)
    assert np.allclose(floats.score(query, texts), theirs, atol=1e-4)
    assert np.allclose([floats.score(query, [text])[0] for text in texts], theirs, atol=1e-4)
    assert np.corrcoef(few.score(query, texts), theirs)[0, 1] > 0.9  # its weights are bytes
    assert few.score(query, []).shape == (0,)


def test_a_training_that_was_killed_goes_on_to_the_same_weights(
    shop: SkbKB, parts: Split, options: CrossOptions, tmp_path: Path
):
    goes_on_after_a_kill(train_cross, shop, parts, options, replace(SCHEDULE, epochs=3), tmp_path)


def test_a_student_learns_the_scores_of_its_teacher(
    shop: SkbKB, parts: Split, options: CrossOptions, trained: Path, tmp_path: Path
):
    taught = replace(options, teacher=str(trained))
    card = train_cross(task(shop, parts, tmp_path / "student", SCHEDULE), taught)
    assert card is not None
    assert card.after["hit@1"] > 0.9 > card.before["hit@1"]


def test_what_does_not_fit_is_refused_and_nothing_is_written(
    shop: SkbKB, parts: Split, options: CrossOptions, trained: Path, tmp_path: Path
):
    refuses_another_schema("cross", trained, tmp_path)
    refuses_seen("cross", shop, trained, parts)
    out = tmp_path / "out"
    for more, said in (
        ({"layers": 7}, "has 1 layers, not 7"),
        ({"base": str(tmp_path / "nothing")}, "no such folder"),
        ({"systems": ("bm52",)}, "no retriever 'bm52'"),
        ({"teacher": str(tmp_path / "nothing")}, "no such folder"),
    ):
        with pytest.raises(UsageError, match=said):
            train_cross(task(shop, parts, out, SCHEDULE), replace(options, **more))
        assert not out.exists()
    silent = split(examples([("a", "zzz", ["m0"], {})], shop.skb), examples([("b", "yyy", ["m0"], {})], shop.skb), {})
    with pytest.raises(UsageError, match="the systems list no node that is no answer"):
        train_cross(task(shop, silent, out, SCHEDULE), options)
    assert not out.exists()
    with pytest.raises(UsageError, match="is not made of"):
        build_retriever("cross", shop, Settings(), {"trained": str(trained), "stages": {"prf": {}}})
    with pytest.raises(DataError, match="cannot be read"):
        CrossScorer(tmp_path / "other", 8)
