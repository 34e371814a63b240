from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kbnav.encoders import Vectors, normalised
from kbnav.encoders.lsa import LSA
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb import vectors
from kbnav.knowledge.skb.schema import NodeText


class Letters:
    """Counts the letters a to e, and remembers what it was asked to encode."""

    def __init__(self, name: str = "letters") -> None:
        self.name = name
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.seen += texts
        return normalised(np.array([[text.count(letter) for letter in "abcde"] for text in texts], dtype=np.float32))


def nodes(names: Sequence[str]) -> Callable[[], list[NodeText]]:
    return lambda: [NodeText(number, 0, name, (), "") for number, name in enumerate(names)]


def built(folder: Path, names: Sequence[str], encoder: Letters, previous: Path | None = None) -> vectors.VectorIndex:
    folder.mkdir(exist_ok=True)
    vectors.build(nodes(names), folder, type_start=[0, len(names)], encoder=encoder, previous=previous)
    return vectors.open(folder, encoder)


def brute_force(rows: Vectors, query: Vectors, limit: int, wanted: Sequence[int]) -> list[tuple[int, float]]:
    scored = [(n, float(rows[n] @ query)) for n in wanted if query.any()]
    return sorted(scored, key=lambda hit: (-hit[1], hit[0]))[:limit]


NUMBERS = st.integers(-2, 2).map(float)  # few values, so that ties are many


@given(data=st.data(), count=st.integers(1, 40), limit=st.integers(0, 45))
def test_search_is_a_full_sort_cut_at_the_limit(data, count, limit):
    rows = data.draw(arrays(np.float32, (count, 3), elements=NUMBERS))
    query = data.draw(arrays(np.float32, 3, elements=NUMBERS))
    cuts = sorted(data.draw(st.lists(st.integers(0, count), min_size=2, max_size=6, unique=True)))
    ranges = list(zip(cuts[::2], cuts[1::2], strict=False))
    among = data.draw(st.lists(st.integers(0, count - 1)))
    index = vectors.VectorIndex(rows, "test", Path("nowhere"), None)
    inside = [n for first, end in ranges for n in range(first, end)]

    assert index.nearest(query, limit=limit) == brute_force(rows, query, limit, range(count))
    assert index.nearest(query, limit=limit, ranges=ranges) == brute_force(rows, query, limit, inside)
    assert index.nearest(query, limit=limit, among=among) == brute_force(rows, query, limit, sorted(set(among)))
    assert index.nearest(query, limit=limit, ranges=ranges, among=among) == brute_force(
        rows, query, limit, sorted(set(among) & set(inside))
    )


def test_search_goes_on_over_more_rows_than_are_held_at_a_time():
    rng = np.random.default_rng(0)
    rows = normalised(rng.standard_normal((200_000, 4)))
    query = rows[150_000]
    index = vectors.VectorIndex(rows, "test", Path("nowhere"), None)

    scores = rows.astype(np.float64) @ query.astype(np.float64)
    expected = np.argsort(-scores, kind="stable")

    assert [n for n, _ in index.nearest(query, limit=20)] == expected[:20].tolist()
    odd = [n for n, _ in index.nearest(query, limit=20, among=range(1, 200_000, 2))]
    assert odd == expected[expected % 2 == 1][:20].tolist()


def test_a_half_done_folder_of_other_texts_gives_no_wrong_vectors(tmp_path):
    built(tmp_path, ["a", "b", "c"], Letters())
    changed = Letters()
    index = built(tmp_path, ["a", "bbbe", "c"], changed)
    assert changed.seen == ["bbbe"]
    assert (index.vectors == Letters().encode(["a", "bbbe", "c"])).all()

    more = Letters()
    assert len(built(tmp_path, ["a", "b", "c", "d"], more).vectors) == 4
    assert len(more.seen) == 4
    assert built(tmp_path, [], Letters()).search("a") == []


def test_a_query_that_is_asked_again_is_not_encoded_again_and_cannot_be_spoilt(tmp_path):
    encoder = Letters()
    index = built(tmp_path, ["ab", "cd"], encoder)
    encoder.seen.clear()
    first = index.search("abc")
    with pytest.raises(ValueError, match="read-only"):
        index.embed("abc")[0] = 7
    assert index.search("abc") == first
    assert index.search("d") != first
    assert encoder.seen == ["abc", "d"]


def test_a_wrong_encoder_is_refused_with_both_names(tmp_path):
    built(tmp_path, ["a"], Letters("this one"))
    with pytest.raises(UsageError, match=r"this one.*that one"):
        vectors.open(tmp_path, Letters("that one"))
    with pytest.raises(UsageError, match="this one"):
        vectors.open(tmp_path).search("a")
    with pytest.raises(UsageError, match="5 numbers"):
        vectors.open(tmp_path).nearest(np.ones(3, dtype=np.float32))


def test_what_is_no_index_is_refused(tmp_path):
    with pytest.raises(DataError, match="not a vector index"):
        vectors.open(tmp_path)
    built(tmp_path, ["aa", "ab"], Letters())
    whole = (tmp_path / "vectors.npy").read_bytes()
    for damaged in (whole[:-1], b"", b"\x93NUMPY"):
        (tmp_path / "vectors.npy").write_bytes(damaged)
        with pytest.raises(DataError, match="not a vector index"):
            vectors.open(tmp_path)
    (tmp_path / "vectors.npy").write_bytes(whole)


TREES = ["oak tree bark", "elm tree leaf", "acorn of oak", "stock market", "bond market", "stock and bond"]


def test_without_an_encoder_lsa_is_fitted_kept_and_used_again(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    vectors.build(nodes(TREES), old, type_start=[0, 6])
    index = vectors.open(old)
    assert index.encoder_name == LSA.load(old).name
    assert {n for n, _ in index.search("oak tree", limit=3)} == {0, 1, 2}
    calls: list[str] = []

    vectors.build(
        nodes([*TREES, "bond"]), new, type_start=[0, 7], previous=old, progress=lambda *call: calls.append(call[0])
    )

    assert vectors.open(new).encoder_name == index.encoder_name
    assert set(calls) == {"vectors"}  # not fitted again
    assert (vectors.open(new).vectors[:6] == index.vectors).all()
