"""Late interaction, trained from nothing in seconds. ``make train-test`` runs this: it needs torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kbnav.encoders.trained import Late, Trained
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.build import build_retriever
from kbnav.retrieval.dense import embed
from kbnav.retrieval.late import TOKENS
from kbnav.settings.model import Settings
from kbnav.training.course import Schedule
from kbnav.training.data import Split
from kbnav.training.dense import DenseOptions, train_dense
from tests.trained.shop import build_shop
from tests.training.parts import beats_chance, goes_on_after_a_kill, refuses_another_schema, refuses_seen, task

SCHEDULE = Schedule(epochs=12, rate=5e-3, batch=15, device="cpu", patience=12)


@pytest.fixture(scope="module")
def options(base: Path) -> DenseOptions:
    negatives = (("vss", 2), ("bm25", 1))
    return DenseOptions(base=str(base), kind="late", width=16, negatives=negatives, longest=16, pool=0, positives=1)


@pytest.fixture(scope="module")
def trained(shop: SkbKB, shop_split: Split, options: DenseOptions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("late") / "trained"
    train_dense(task(shop, shop_split, out, SCHEDULE), options)
    embed(out, shop.skb)
    return out


def test_it_beats_chance_and_its_untrained_self_on_questions_it_has_not_seen(shop: SkbKB, trained: Path):
    beats_chance("late", shop, trained)


def test_a_score_is_the_sum_over_the_questions_tokens_of_the_greatest_cosine(shop: SkbKB, trained: Path):
    encoder, question = Late.load(trained), "What has to do with baba, dodo?"
    asked = encoder.encode_queries([question])[0]
    expected = {}
    for node in indexed_texts(shop.skb):
        document = encoder.encode([node.document])[0]
        assert np.allclose(np.linalg.norm(document, axis=1), 1, atol=1e-5)
        expected[shop.skb.id(node.number)] = sum(max(float(a @ b) for b in document) for a in asked)
    found = build_retriever("dense", shop, Settings(), {"trained": str(trained)}).retrieve(question, len(expected))
    assert {one.id: one.score for one in found.nodes} == pytest.approx(expected, abs=5e-3)  # kept in 16 bits
    assert [one.score for one in found.nodes] == sorted((one.score for one in found.nodes), reverse=True)


def test_only_candidates_are_ranked(shop: SkbKB, trained: Path):
    makers = build_retriever("dense", shop, Settings(), {"trained": str(trained), "candidates": ("maker",)})
    assert sorted(makers.retrieve("Who makes goods?", 100).ids) == [f"m{number}" for number in range(5)]


def test_a_training_that_was_killed_goes_on_to_the_same_weights(
    shop: SkbKB, shop_split: Split, options: DenseOptions, tmp_path: Path
):
    goes_on_after_a_kill(train_dense, shop, shop_split, options, replace(SCHEDULE, epochs=3), tmp_path)


def test_what_does_not_fit_is_refused(shop: SkbKB, trained: Path, shop_split: Split, tmp_path: Path):
    refuses_another_schema("dense", trained, tmp_path)
    refuses_seen("dense", shop, trained, shop_split)
    with pytest.raises(UsageError, match="trained as late, not as dense"):
        Trained.load(trained)
    with (
        SKB.open(build_shop(tmp_path / "again", "again")) as again,
        pytest.raises(UsageError, match="vectors of again are of another build of it: kbnav train embed"),
    ):
        build_retriever("dense", SkbKB(again), Settings(), {"trained": str(trained)})


def test_vectors_that_are_there_are_kept_and_those_that_are_gone_are_noticed(shop: SkbKB, trained: Path):
    pieces = sorted((trained / TOKENS).glob("*.npy"))
    assert len(pieces) == 2  # of 65 nodes: the vectors, and how many each has
    before = [(path.name, path.stat().st_mtime_ns) for path in pieces]
    embed(trained, shop.skb)
    assert [(path.name, path.stat().st_mtime_ns) for path in sorted((trained / TOKENS).glob("*.npy"))] == before
    kept = pieces[0].read_bytes()
    pieces[0].unlink()
    with pytest.raises(DataError, match="No such file"):
        build_retriever("dense", shop, Settings(), {"trained": str(trained)})
    embed(trained, shop.skb)
    assert pieces[0].read_bytes() == kept
