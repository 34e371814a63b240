from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbnav.encoders import Vectors, normalised
from kbnav.errors import DataError
from kbnav.knowledge.skb import embedding, quantized, vectors
from kbnav.knowledge.skb.schema import NodeText

COUNT = 40_000  # more than a search compares in full at once


class Given:
    """An encoder that knows the vector of each text."""

    name = "given"

    def __init__(self, rows: Vectors) -> None:
        self._rows = rows

    def encode(self, texts: Sequence[str]) -> Vectors:
        return self._rows[[int(text) for text in texts]]


def index_of(rows: Vectors, folder: Path) -> vectors.VectorIndex:
    nodes = [NodeText(number, 0, str(number), (), "") for number in range(len(rows))]
    folder.mkdir(exist_ok=True)
    embedding.build(lambda: nodes, folder, type_start=[0, len(rows)], encoder=Given(rows))
    return vectors.open(folder)


def clustered(seed: int = 0, count: int = COUNT) -> Vectors:
    random = np.random.default_rng(seed)
    groups = random.standard_normal((200, 32), dtype=np.float32)
    return normalised(groups[random.integers(200, size=count)] + 0.4 * random.standard_normal((count, 32)))


@settings(max_examples=200)
@given(
    seed=st.integers(0, 10_000),
    size=st.floats(1e-3, 1e3),
    limit=st.integers(1, 30),
    cut=st.tuples(st.integers(0, 300), st.integers(0, 300)),
)
def test_candidates_hold_the_best_whatever_the_vectors(
    tmp_path_factory: pytest.TempPathFactory, seed: int, size: float, limit: int, cut: tuple[int, int]
) -> None:
    random = np.random.default_rng(seed)
    rows = (random.standard_normal((300, 8)) * random.choice([0, 0.01, 1], (300, 1)) * size).astype(np.float32)
    query = random.standard_normal(8).astype(np.float32)
    ranges = [(min(cut), max(cut))]
    folder = tmp_path_factory.mktemp("quantized")

    found = quantized.Quantized(folder, rows.shape, quantized.build(rows, folder)).candidates(query, limit, ranges, 1)

    scores = rows.astype(np.float64) @ query
    best = sorted(range(*ranges[0]), key=lambda n: -scores[n])[:limit]
    assert found is None or set(best) <= set(found.tolist())
    assert found is None or found.tolist() == sorted(set(found.tolist()))


def test_a_built_index_compares_few_vectors_in_full_and_misses_nothing(tmp_path: Path) -> None:
    rows = clustered()
    index = index_of(rows, tmp_path)
    full = vectors.VectorIndex(rows, "given", tmp_path, None)
    int8 = quantized.Quantized(tmp_path, rows.shape, quantized.build(rows, tmp_path))

    for query in clustered(1, 20):
        few = int8.candidates(query, 20, [(0, COUNT)], 2)
        assert few is not None
        assert len(few) < COUNT // 20
        assert index.nearest(query) == full.nearest(query)
        ranges = [(30_000, 39_999), (5, 20_000)]
        for asked in (query, -query):  # the first was compared with all rows before, the other was not
            assert index.nearest(asked, limit=50, ranges=ranges) == full.nearest(asked, limit=50, ranges=ranges)


def test_an_opened_index_goes_by_its_quantized_vectors(tmp_path: Path) -> None:
    rows, query = clustered(), clustered(1, 1)[0]
    index_of(rows, tmp_path)
    numbers = np.load(tmp_path / quantized.NUMBERS, mmap_mode="r+")
    numbers[:] = np.rint(-127 * query / np.abs(query).max())  # as far off as can be, but for one
    numbers[7] *= -1
    numbers.flush()
    assert [node for node, _ in vectors.open(tmp_path).nearest(query, limit=1)] == [7]


def test_a_scorer_is_exact_for_the_best_of_the_nodes_asked_for(tmp_path: Path) -> None:
    rows = clustered()
    index = index_of(rows, tmp_path)
    nodes = np.random.default_rng(2).choice(COUNT, 20_000, replace=False)
    for query in clustered(1, 5):
        score, exact = index.scorer(query), rows @ query
        found = score(nodes)
        best = np.argsort(-exact[nodes])[: vectors.SURE]
        assert found[best] == pytest.approx(exact[nodes][best], abs=1e-6)
        assert set(np.argsort(-found)[: vectors.SURE]) == set(best)
        assert np.abs(found - exact[nodes]).max() < 0.05
        assert score(nodes[:50]) == pytest.approx(exact[nodes[:50]], abs=1e-6)
        plain = vectors.VectorIndex(rows, "given", tmp_path, None).scorer(query)
        assert plain(nodes) == pytest.approx(exact[nodes], abs=1e-6)


def test_equal_vectors_are_ranked_by_number_although_their_rounding_tells_nothing(tmp_path: Path) -> None:
    index = index_of(np.repeat(clustered(count=2), COUNT // 2, axis=0), tmp_path)
    assert [n for n, _ in index.nearest(index.vectors[COUNT - 1], limit=3)] == [
        COUNT // 2,
        COUNT // 2 + 1,
        COUNT // 2 + 2,
    ]


def test_vectors_without_direction_are_no_hindrance(tmp_path: Path) -> None:
    rows = clustered()
    rows[::2] = 0
    index = index_of(rows, tmp_path)
    assert index.nearest(rows[4321])[0] == (4321, pytest.approx(1))
    assert [n for n, _ in index.nearest(np.zeros(32, dtype=np.float32), limit=3)] == [0, 1, 2]


@pytest.mark.parametrize("name", [quantized.NUMBERS, quantized.STEPS])
def test_damaged_files_are_refused(tmp_path: Path, name: str) -> None:
    index_of(clustered(), tmp_path)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:1000])
    with pytest.raises(DataError, match="not a vector index"):
        vectors.open(tmp_path)
    np.save(tmp_path / name, np.zeros(3, dtype=np.int8 if name == quantized.NUMBERS else np.float32))
    with pytest.raises(DataError, match="not a vector index"):
        vectors.open(tmp_path)
