"""Which neighbours are chosen, and by which way they are reached."""

import csv
from collections.abc import Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.graph import Graph, NodeNumbers, write_graph
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.kar import Scorer, Scores, Surroundings

TREE = [(0, 0, 1), (0, 0, 2), (3, 0, 0), (1, 1, 4), (1, 1, 5), (2, 1, 6), (2, 1, 7), (8, 1, 3), (3, 1, 9)]
"""Node 0 with 1, 2 and 3, and behind each of them two more; (source, relation, target)."""


def graph_of(folder: Path, nodes: int, edges: Sequence[tuple[int, int, int]]) -> Graph:
    folder.mkdir()
    columns = np.array(edges, np.int64).T
    relations = int(columns[1].max()) + 1
    write_graph(folder, nodes, relations, (columns[0], columns[1], columns[2]))
    return Graph(folder, relations)


def scored(values: Sequence[float]) -> Scorer:
    table = np.array(values, np.float32)

    def score(nodes: NodeNumbers) -> Scores:
        return table[nodes]

    return score


def test_the_best_within_two_hops_are_taken_best_first_and_equal_ones_by_distance_and_number(tmp_path):
    surroundings = Surroundings(graph_of(tmp_path / "g", 11, TREE))
    scores = scored([0.9, 0.3, 0.1, 0.0, 0.5, 0.5, 0.7, -0.2, 0.1, 0.2, 0.8])  # 10 is on its own
    found = surroundings.best(0, scores, 4)
    assert [(triple.tail, round(triple.score, 3)) for triple in found.triples] == [
        (6, 0.7),
        (4, 0.5),
        (5, 0.5),
        (1, 0.3),
    ]
    assert (found.neighbours, found.cut) == (9, False)
    everything = surroundings.best(0, scores, 100)
    assert [triple.tail for triple in everything.triples] == [6, 4, 5, 1, 9, 2, 8, 3, 7]
    nothing_fits = surroundings.best(0, scored([0.0] * 11), 5)
    assert [triple.tail for triple in nothing_fits.triples] == [1, 2, 3, 4, 5]  # the near ones first
    far = Surroundings(graph_of(tmp_path / "h", 4, [(0, 0, 3), (3, 0, 1), (1, 0, 2)])).best(0, scored([0.0] * 4), 2)
    assert [triple.tail for triple in far.triples] == [3, 1]


def test_too_many_edges_are_followed_from_the_best_nodes_only(tmp_path):
    graph = graph_of(tmp_path / "g", 10, TREE)
    scores = scored([0, 0.1, 0.9, 0.8, 1, 1, 0.3, 0.3, 0.2, 0.2])
    # 1, 2 and 3 have three edges each: seven are enough for two of them.
    found = Surroundings(graph, edges=7).best(0, scores, 10)
    assert found.cut
    assert {triple.tail for triple in found.triples} == {1, 2, 3, 6, 7, 8, 9}
    # One node is followed however many edges it has.
    found = Surroundings(graph, edges=1).best(0, scores, 10)
    assert {triple.tail for triple in found.triples} == {1, 2, 3, 6, 7}
    whole = Surroundings(graph, edges=9).best(0, scores, 10)
    assert not whole.cut
    assert len(whole.triples) == 9


@pytest.fixture(scope="session")
def demo(demo_kb: KnowledgeBase) -> SKB:
    assert isinstance(demo_kb, SkbKB)
    return demo_kb.skb


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_on_the_demo_all_is_as_a_search_through_its_file_of_edges_finds_it(demo, hops):
    with files("kbnav").joinpath("data", "demo", "edges.tsv").open(encoding="utf-8", newline="") as file:
        edges = {(row["source"], row["relation"], row["target"]) for row in csv.DictReader(file, delimiter="\t")}
    near: dict[str, set[str]] = {}
    for source, _, target in edges:
        near.setdefault(source, set()).add(target)
        near.setdefault(target, set()).add(source)
    table = np.random.default_rng(3).random(len(demo.nodes)).astype(np.float32)
    surroundings = Surroundings(demo.graph, hops=hops)
    for start in range(0, len(demo.nodes), 9):
        reached, level = {demo.id(start)}, {demo.id(start)}
        for _ in range(hops):
            level = {other for node in level for other in near.get(node, ())} - reached
            reached |= level
        expected = sorted((demo.number(node) for node in reached - {demo.id(start)}), key=lambda node: -table[node])
        found = surroundings.best(start, lambda nodes: table[nodes], 10)
        assert [triple.tail for triple in found.triples] == expected[:10]
        assert found.neighbours == len(expected)
        for triple in found.triples:
            chain = [demo.id(node) for node in (triple.head, *(link.node for link in triple.links))]
            for (source, target), link in zip(pairwise(chain), triple.links, strict=True):
                named = {demo.relation_names[one] for one in link.out}
                assert named == {relation for a, relation, b in edges if (a, b) == (source, target)}
                back = {demo.relation_names[one] for one in link.into}
                assert back == {relation for a, relation, b in edges if (a, b) == (target, source)}
                assert named | back


def test_of_several_ways_that_over_the_best_node_is_told(tmp_path):
    diamond = [(0, 0, 1), (0, 0, 2), (1, 0, 3), (2, 0, 3)]
    graph = graph_of(tmp_path / "g", 4, diamond)
    for middle, scores in ((1, [0, 0.2, 0.1, 1]), (2, [0, 0.1, 0.2, 1]), (1, [0, 0.1, 0.1, 1])):
        best = Surroundings(graph).best(0, scored(scores), 1).triples[0]
        assert [link.node for link in best.links] == [middle, 3]
