"""The graph against the files it was built from, and against a plain model of itself."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kbnav.knowledge.skb.graph import Graph, Hop, write_graph


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
    assert graph.degree(node, "both", relation) == len(out) + len(into)
    assert graph.degree(node, "in", relation) == len(into)
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


def test_a_node_with_200000_neighbours(tmp_path):
    spokes = np.arange(1, 200_001)
    write_graph(tmp_path, 200_001, 2, (np.zeros(200_000, np.int64), spokes % 2, spokes))
    graph = Graph(tmp_path, 2)
    assert graph.degree(0) == 200_000
    assert graph.neighbors(0, 1, "out").tolist() == list(range(1, 200_001, 2))
    assert len(graph.expand(np.array([0], np.int32), Hop(), limit=100)) == 100


def test_more_relations_than_one_byte_holds(tmp_path):
    graph = graph_of([(0, 254, 1), (0, 255, 1), (1, 300, 0)], 2, 301, tmp_path)
    assert graph.row(0, "out", 255).relations.tolist() == [255]
    assert graph.row(0, "in", 300).nodes.tolist() == [1]


def test_type_tuples_of_hetionet_are_those_counted_in_the_file(hetionet, hetionet_edges):
    counted = Counter((source.split("::")[0], name, target.split("::")[0]) for source, name, target in hetionet_edges)
    assert {(item.source, item.relation, item.target): item.count for item in hetionet.meta.tuples} == dict(counted)
