"""The graph network, trained from nothing in seconds. ``make train-test`` runs this: it needs torch.

The hall has rooms and doors; a question names a room and asks for what is two doors away by its colour's door. Only the
graph tells: all rooms have the same words.
"""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from kbnav.encoders.trained import read_card
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.retrieval.base import build_retriever
from kbnav.retrieval.qagnn import Builder, CandidateList, tensors, together
from kbnav.retrieval.qagnn_model import Layer, Network, Sizes
from kbnav.settings.model import Settings
from kbnav.training.data import Split, examples, split
from kbnav.training.qagnn import QAGNNOptions, train_qagnn
from tests.trained.halls import DOORS, names
from tests.training.parts import goes_on_after_a_kill, other, task

OPTIONS = QAGNNOptions(
    systems=("bm25",), depth=20, nodes=60, width=32, layers=2, epochs=12, rate=3e-3, batch=10, device="cpu", patience=12
)


def asked(first: int, last: int) -> list[tuple[str, str, list[str]]]:
    return [
        (f"{number}/{place}", f"What is behind the {door} of {names()[number]}?", [f"t{number}-{place}"])
        for number in range(first, last)
        for place, door in enumerate(DOORS)
    ]


@pytest.fixture(scope="module")
def parts(hall: SkbKB) -> Split:
    return split(examples(asked(0, 40), hall.skb), examples(asked(40, 50), hall.skb), {"halls": "0" * 64})


@pytest.fixture(scope="module")
def trained(hall: SkbKB, parts: Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("qagnn") / "trained"
    train_qagnn(task(hall, parts, out), OPTIONS)
    return out


def hits(kb: SkbKB, system: str, **options: object) -> float:
    retriever = build_retriever(system, kb, Settings(), options)
    tried = asked(50, 60)
    return sum(retriever.retrieve(text, 1).ids[0] == wanted[0] for _, text, wanted in tried) / len(tried)


def test_it_learns_which_relation_is_meant_on_rooms_it_has_not_seen(hall, trained):
    card = read_card(trained, "qagnn")
    assert card.before["hit@1"] < 0.5
    assert card.after["hit@1"] > 0.8
    assert hits(hall, "qagnn", trained=str(trained), depth=20) > 0.8
    assert hits(hall, "bm25") < 0.5  # a third of the things that the room holds, by chance


def test_subgraphs_in_one_batch_score_as_they_do_alone(hall):
    skb = hall.skb
    builder, relations = Builder(skb, skb.vectors, most=40), len(skb.meta.relations)
    torch.manual_seed(0)
    network = Network(Sizes(skb.vectors.dimensions, 2, relations, 2, 16, 2)).eval()
    graphs = [
        builder.build(
            text, CandidateList([skb.number(f"t{one}-0"), skb.number(f"t{one}-1")], np.ones((2, 2), np.float32))
        )
        for one, (_, text, _) in enumerate(asked(0, 4))
    ]
    with torch.no_grad():
        whole = network(**tensors(together(graphs, skb.vectors, relations)))["scores"]
        alone = [network(**tensors(together([one], skb.vectors, relations)))["scores"] for one in graphs]
    assert torch.allclose(whole, torch.cat(alone), atol=1e-5)


def test_a_node_takes_what_reaches_it_by_attention_worked_out_one_edge_after_another():
    torch.manual_seed(3)
    layer = Layer(8).eval()
    nodes, edges = 3 * torch.randn(4, 8), 3 * torch.randn(5, 8)
    sources, targets = torch.tensor([0, 1, 2, 3, 0]), torch.tensor([3, 3, 3, 0, 1])
    with torch.no_grad():
        found = layer(nodes, edges, sources, targets)
        for place in range(4):
            reaching = [one for one in range(5) if int(targets[one]) == place]
            sent = [torch.cat([nodes[sources[one]], edges[one]]) for one in reaching]
            likeness = [float(layer.query(nodes[place]) @ layer.key(one)) / math.sqrt(8) for one in sent]
            total = sum(math.exp(one) for one in likeness)
            taken = torch.zeros(8)
            for share, one in zip(likeness, sent, strict=True):
                taken += math.exp(share) / total * layer.value(one)
            expected = layer.norm(nodes[place] + layer.mix(torch.cat([nodes[place], taken])))
            assert torch.allclose(found[place], expected, atol=1e-5), place


def test_a_score_depends_on_all_nodes_of_its_own_graph_and_on_no_other_graph(hall):
    skb = hall.skb
    builder, relations = Builder(skb, skb.vectors, most=40), len(skb.meta.relations)
    torch.manual_seed(0)
    network = Network(Sizes(skb.vectors.dimensions, 2, relations, 2, 16, 1)).eval()
    graphs = [
        builder.build(text, CandidateList([skb.number(f"t{one}-0")], np.ones((1, 2), np.float32)))
        for one, (_, text, _) in enumerate(asked(0, 2))
    ]
    batch = together(graphs, skb.vectors, relations)
    none = np.zeros(0, np.int64)  # no edges: only the pooled graph tells a candidate of the other nodes
    batch = batch._replace(sources=none, targets=none, relations=none)

    def scores(change: int | None) -> list[float]:
        given = tensors(batch._replace(vectors=batch.vectors.copy()))
        if change is not None:
            given["vectors"][change] *= -3.0
        with torch.no_grad():
            return network(**given)["scores"].tolist()

    plain = scores(None)
    for own, nodes in enumerate(np.split(np.arange(len(batch.owner)), [len(graphs[0].nodes) + 1])):
        other = next(place for place in nodes[1:] if place not in batch.candidates)
        changed = scores(int(other))
        assert abs(changed[own] - plain[own]) > 1e-6
        assert changed[1 - own] == pytest.approx(plain[1 - own], abs=1e-6)


def test_a_training_that_was_killed_goes_on_to_the_same_weights(hall, parts, tmp_path):
    goes_on_after_a_kill(train_qagnn, hall, parts, other(OPTIONS, epochs=3), tmp_path)
