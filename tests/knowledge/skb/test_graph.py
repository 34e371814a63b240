"""The graph and what an explorer sees of it, against its files, a plain model, and all walks of a small one."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kbnav
from kbnav.errors import UnknownId
from kbnav.knowledge.skb.exploring import Explorer
from kbnav.knowledge.skb.graph import Graph, Hop, write_graph
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.search import instances
from kbnav.knowledge.skb.store import SKB


def graph_of(edges: list[tuple[int, int, int]], nodes: int, relations: int, folder: Path) -> Graph:
    columns = np.array(edges, np.int64).reshape(-1, 3).T
    write_graph(folder, nodes, relations, (columns[0], columns[1], columns[2]))
    return Graph(folder, relations)


edge_lists = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3), st.integers(0, 11)), max_size=60)


@given(edge_lists, st.integers(0, 11), st.sampled_from([None, 0, 1, 2, 3]))
@settings(max_examples=60)
def test_rows_neighbours_and_degrees_are_those_of_the_set_of_edges(edges, node, relation):
    with tempfile.TemporaryDirectory() as folder:
        graph = graph_of(edges, 12, 4, Path(folder))
    distinct = {edge for edge in edges if relation in (None, edge[1])}
    out = sorted((kind, target) for source, kind, target in distinct if source == node)
    into = sorted((kind, source) for source, kind, target in distinct if target == node)
    row = graph.row(node, "out", relation)
    assert list(zip(row.relations.tolist(), row.nodes.tolist(), strict=True)) == out
    row = graph.row(node, "in", relation)
    assert list(zip(row.relations.tolist(), row.nodes.tolist(), strict=True)) == into
    assert graph.neighbors(node, relation, "out").tolist() == sorted({target for _, target in out})
    assert graph.neighbors(node, relation).tolist() == sorted({other for _, other in out + into})
    assert relation is not None or graph.degree(node) == len(out) + len(into)
    assert graph.edges == len(set(edges))


@given(edge_lists, st.lists(st.integers(0, 11), min_size=1, unique=True), st.sampled_from(["out", "in", "both"]))
@settings(max_examples=60)
def test_a_hop_from_many_nodes_is_the_union_of_the_hops_from_each(edges, nodes, direction):
    with tempfile.TemporaryDirectory() as folder:
        graph = graph_of(edges, 12, 4, Path(folder))
    found = graph.expand(np.array(nodes, np.int32), Hop(2, direction, (3, 9)))  # type: ignore[arg-type]
    expected = set()
    for source, relation, target in edges:
        if relation == 2 and direction in ("out", "both") and source in nodes and 3 <= target < 9:
            expected.add(target)
        if relation == 2 and direction in ("in", "both") and target in nodes and 3 <= source < 9:
            expected.add(source)
    assert found.tolist() == sorted(expected)
    capped = graph.expand(np.array(nodes, np.int32), Hop(2, direction, (3, 9)), limit=2)  # type: ignore[arg-type]
    assert len(capped) == min(2, len(expected))
    assert set(capped.tolist()) <= expected


def test_type_tuples_of_hetionet_are_those_counted_in_the_file(hetionet, hetionet_edges):
    counted = Counter((source.split("::")[0], name, target.split("::")[0]) for source, name, target in hetionet_edges)
    assert {(item.source, item.relation, item.target): item.count for item in hetionet.meta.tuples} == dict(counted)


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


KINDS = ("Disease::", "Compound::", "Symptom::")
MS = "Disease::DOID:2377"


@pytest.fixture(scope="module")
def edges(hetionet_edges: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Those among diseases, compounds and symptoms: source, relation, target."""
    return [one for one in hetionet_edges if one[0].startswith(KINDS) and one[2].startswith(KINDS)]


@pytest.fixture
def explorer(clinic: SkbKB) -> Explorer:
    return Explorer(clinic)


def test_the_relations_of_a_node_are_those_of_the_file_with_their_counts(explorer, edges):
    expected = Counter(relation for source, relation, _ in edges if source == MS)
    expected.update(f"^{relation}" for _, relation, target in edges if target == MS)
    around = explorer.around(MS, 3)
    assert {kin.relation: kin.count for kin in around} == expected
    assert [kin.count for kin in around] == sorted(expected.values(), reverse=True)
    assert all(len(kin.first) == min(3, kin.count) for kin in around)
    symptoms = sorted(target for source, relation, target in edges if (source, relation) == (MS, "DpS"))
    pages = [explorer.neighbors(MS, "DpS", start, 20) for start in range(0, len(symptoms), 20)]
    assert {page.total for page in pages} == {len(symptoms)}
    assert sorted(one.id for page in pages for one in page.nodes) == symptoms
    with pytest.raises(UnknownId):
        explorer.around("Disease::none", 3)
