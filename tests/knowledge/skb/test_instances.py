"""The ways to follow a relation path, against all walks of a small graph found by trying every pair of edges."""

from collections import Counter
from pathlib import Path

import pytest

import kbnav
from kbnav.knowledge.skb.graph import Hop
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.search import instances
from kbnav.knowledge.skb.store import SKB

DEMO = Path(kbnav.__file__).parent / "data" / "demo"
EDGES = [tuple(line.split("\t")) for line in (DEMO / "edges.tsv").read_text(encoding="utf-8").splitlines()[1:]]


@pytest.fixture
def skb(demo_kb) -> SKB:
    assert isinstance(demo_kb, SkbKB)
    return demo_kb.skb


def hops(skb: SKB, *path: str) -> list[Hop]:
    return [Hop(skb.relation_number(name.removeprefix("^")), "in" if name.startswith("^") else "out") for name in path]


def walks(start: str, *path: str) -> set[tuple[str, ...]]:
    """By the edges' file alone; no walk meets a node twice."""
    found = {(start,)}
    for name in path:
        pairs = [(t, s) if name.startswith("^") else (s, t) for s, r, t in EDGES if r == name.removeprefix("^")]
        found = {(*walk, end) for walk in found for begin, end in pairs if begin == walk[-1] and end not in walk}
    return found


@pytest.mark.parametrize(
    ("start", "path"),
    [
        ("person:kerra-penrose", ("^built by",)),
        ("person:marit-skarrow", ("^made by", "made of")),
        ("workshop:pellow-and-daughters", ("^worked at", "born in")),
        ("place:hartsworth", ("^comes from", "^made of", "made by")),
    ],
)
def test_all_ways_are_found_and_ends_of_many_ways_come_first(skb, start, path):
    expected = walks(start, *path)
    assert expected
    found = instances(skb, skb.number(start), hops(skb, *path), limit=10_000)
    assert {skb.id(walk[-1]) for walk in found.walks} == {walk[-1] for walk in expected}
    assert {tuple(map(skb.id, walk)) for walk in found.walks} <= expected
    ways = Counter(walk[-1] for walk in expected)
    counts = [ways[skb.id(end)] for end in found.ends]
    assert counts == sorted(counts, reverse=True)
    # A first way to every end, then a second to those that have one.
    firsts = found.walks[: len(ways)]
    assert len({walk[-1] for walk in firsts}) == len(ways)
    assert len(found.walks) == sum(min(count, 2) for count in ways.values())
    assert not found.cut


def test_what_fits_the_query_comes_first_and_a_limit_keeps_it(skb):
    start = skb.number("person:marit-skarrow")
    for query, first in (("painted yellow", "ship:keeper"), ("Little Auk", "ship:little-auk")):
        found = instances(skb, start, hops(skb, "^built by"), query=query, limit=1)
        assert [skb.id(walk[-1]) for walk in found.walks] == [first]
        assert len(found.ends) == 2
