import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbnav.errors import DataError
from kbnav.knowledge.skb import names
from kbnav.knowledge.skb.names import Match, edits_allowed, normalise
from kbnav.knowledge.skb.schema import NodeText


def built(folder: Path, names_of_nodes: Sequence[str | tuple[str, ...]]) -> names.NameIndex:
    folder.mkdir(parents=True, exist_ok=True)
    every = [(held,) if isinstance(held, str) else held for held in names_of_nodes]
    nodes = [NodeText(number, 0, name, tuple(aliases), "") for number, (name, *aliases) in enumerate(every)]
    names.build(nodes, folder, type_start=[0, len(nodes)])
    return names.open(folder)


def edit_distance(a: str, b: str) -> int:
    """Wagner and Fischer's table."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        above, row = row, [i]
        for j, y in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Straße (Köln)", "strassekoln"),
        ("  IL-6 ", "il6"),
        ("IL 6", "il6"),
        ("Ａlzheimer’s", "alzheimers"),
        ("C++", "c++"),
        ("C#", "c"),
        ("...", "..."),
        (" \x00\t", ""),
        ("ガス", "ガス"),  # not カス: the voicing mark tells kana apart
        ("हिंदी", "हिंदी"),
        ("שָׁלוֹם", "שלום"),
        ("한국", "한국"),
        ("İstanbul", "istanbul"),
    ],
)
def test_normalised_names(name, key):
    assert normalise(name) == key


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> names.NameIndex:
    return built(
        tmp_path_factory.mktemp("names"),
        [
            ("English oak", "Quercus robur"),
            "english OAK",
            "English-Oak",
            "Engelish oak",
            "Scots pine",
            "oak",
            "oaf",
            ("", "elm"),
        ],
    )


def test_exact_comes_before_normalised_before_fuzzy(trees):
    assert trees.search("English oak") == [
        Match(0, 1.0, "exact"),
        Match(1, 1.0, "normalised"),
        Match(2, 1.0, "normalised"),
        Match(3, pytest.approx(20 / 21), "fuzzy"),
    ]
    assert trees.search("English oak", limit=2) == trees.search("English oak")[:2]
    assert trees.search("english OAK")[0] == Match(1, 1.0, "exact")


def test_ranges_keep_a_type_and_edits_can_be_forbidden(trees):
    assert [match.number for match in trees.search("English oak", ranges=[(1, 2), (3, 8)])] == [1, 3]
    assert trees.search("English oak", ranges=[]) == []
    assert [match.number for match in trees.search("English oak", edits=0)] == [0, 1, 2]


LETTERS = st.text(alphabet="ab ", max_size=14) | st.text(alphabet="abcdé", max_size=20)


@settings(max_examples=60)
@given(held=st.lists(LETTERS, max_size=25), query=LETTERS, data=st.data())
@example(held=["a" * 60, "a" * 63, "a" * 64], query="a" * 61, data=None)
@example(held=["ab" * 40], query="ab" * 20 + "c" + "ab" * 20, data=None)
@example(held=["é" * 255, "é" * 256], query="é" * 254, data=None)
def test_no_name_within_the_allowed_edits_is_missed(held, query, data, tmp_path_factory):
    if data is not None and held:  # most random names are far from each other: ask for one with a few letters changed
        near = list(data.draw(st.sampled_from(held)))
        for _ in range(data.draw(st.integers(0, 3))):
            place = data.draw(st.integers(0, len(near)))
            near[place : place + data.draw(st.integers(0, 1))] = data.draw(st.sampled_from(["", "a", "c"]))
        query = data.draw(st.sampled_from([query, "".join(near)]))
    index = built(tmp_path_factory.mktemp("names"), held)
    key = normalise(query)
    distances = {n: edit_distance(key, normalise(name)) for n, name in enumerate(held) if normalise(name)}
    expected = {n for n, distance in distances.items() if key and distance <= edits_allowed(len(key))}

    found = index.search(query, limit=100)

    assert {match.number for match in found} == expected
    for match in found:
        same = held[match.number] == query
        assert match.how == ("exact" if same else "fuzzy" if distances[match.number] else "normalised")


def test_what_is_no_index_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match=str(tmp_path)):
        names.open(tmp_path)
    built(tmp_path / "two", ["oak", "elm"])
    built(tmp_path / "three", ["oak", "elm", "fir"])
    for file in (tmp_path / "three").glob("keys-*.npy"):
        shutil.copy(file, tmp_path / "two")
    with pytest.raises(DataError, match="do not fit together"):
        names.open(tmp_path / "two")
