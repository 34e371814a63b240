"""The part of a graph that the graph network looks at: no torch is needed to build it."""

import numpy as np

from kbnav.retrieval.qagnn import Builder, CandidateList, inside, together
from tests.trained.halls import DOORS, names


def test_a_subgraph_has_the_edges_between_its_nodes_and_no_others(hall):
    skb = hall.skb
    builder = Builder(skb, skb.vectors, most=30)
    found = CandidateList([skb.number("t3-0"), skb.number("t3-1"), skb.number("t9-2")], np.zeros((3, 2), np.float32))
    graph = builder.build(f"What is behind the red door of {names()[3]}?", found)
    assert len(graph.nodes) <= 30
    assert graph.nodes[graph.candidates].tolist() == found.nodes
    assert skb.number("r3") in graph.nodes[graph.roles == 0]
    assert skb.number("r9") in graph.nodes[graph.roles == 2]  # a neighbour of a candidate
    every = {
        (source, relation, target)
        for source in graph.nodes.tolist()
        for relation in range(len(DOORS))
        for target in skb.graph.row(source, "out", relation).nodes.tolist()
        if target in graph.nodes
    }
    ends = zip(graph.nodes[graph.sources], graph.relations, graph.nodes[graph.targets], strict=True)
    assert {tuple(int(one) for one in edge) for edge in ends} == every
    assert len(graph.sources) == len(every)
    assert [len(one) for one in inside(skb.graph, np.zeros(0, np.int64))] == [0, 0, 0]


def test_subgraphs_are_put_together_with_a_question_node_each(hall):
    skb = hall.skb
    builder = Builder(skb, skb.vectors, most=20)
    graphs = [
        builder.build(
            f"{door} of {names()[one]}", CandidateList([skb.number(f"t{one}-0")], np.full((1, 2), one, np.float32))
        )
        for one, door in ((4, "red door"), (7, "blue door"))
    ]
    batch = together(graphs, skb.vectors, len(DOORS))
    sizes = [len(one.nodes) for one in graphs]
    assert batch.questions.tolist() == [0, sizes[0] + 1]
    assert np.bincount(batch.owner).tolist() == [size + 1 for size in sizes]
    assert not batch.vectors[batch.questions].any()
    assert np.array_equal(
        batch.vectors[batch.candidates], skb.vectors.rows(np.array([skb.number("t4-0"), skb.number("t7-0")]))
    )
    assert batch.features[:, 0].tolist() == [4, 7]
    assert len(batch.sources) == 2 * (sum(len(one.sources) for one in graphs) + sum(sizes))
    assert np.array_equal(batch.owner[batch.sources], batch.owner[batch.targets])  # no edge leads to another question
    assert set(batch.relations.tolist()) <= set(range(2 * len(DOORS) + 2))
