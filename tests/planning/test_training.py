"""Labels counted by hand on the graph of conftest.py, the KL loss worked out on paper, and what the scorer learns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kbnav.errors import DataError
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import TEXT_PATH, Hop, RelationPath
from kbnav.planning.ranker import Candidates, Questions, Scorer, log_softmax
from kbnav.planning.seq2seq import learnt
from kbnav.planning.training import LabelledQuestion, examples, made_from, path_label
from tests.planning.conftest import EDGES, built


def path(text: str) -> RelationPath:
    """``disease ^treats drug``: types and relations in turn."""
    words = text.split()
    hops = [Hop(word[1:], "in") if word.startswith("^") else Hop(word) for word in words[1::2]]
    return RelationPath(tuple(hops), tuple(words[::2]))


@pytest.mark.parametrize(
    ("nodes", "answers", "expected"),
    [
        (["x1"], ["dA"], ["disease ^treats drug"]),
        (["dA"], ["g1"], ["drug binds gene", "drug blocks gene"]),  # and not the longer one by the disease
        # by the disease, and by g1, which it binds and blocks
        (
            ["dA"],
            ["g2"],
            ["drug binds gene ppi gene", "drug blocks gene ppi gene", "drug treats disease associated gene"],
        ),
        (["g1"], ["g2"], ["gene ppi gene"]),  # stored both ways: not ^ppi as well
        (["p1"], ["x1"], ["pathway ^part_of gene ^associated disease"]),  # over two genes: one relation path
        (["x1"], ["dA", "p1"], ["disease ^treats drug", "disease associated gene part_of pathway"]),
        (["x1"], ["x1", "dA"], ["disease ^treats drug"]),  # a node that is itself an answer adds nothing
        # associated links two matched nodes with the answer, ^treats one: they count the same
        (["x1", "x2"], ["g2", "dA"], ["disease associated gene", "disease ^treats drug"]),
        (["x1"], ["x1"], []),
        ([], ["dB"], []),
    ],
)
def test_labels_are_uniform_over_the_shortest_paths(clinic, schema, nodes, answers, expected):
    numbers = list(map(clinic.number, nodes)), list(map(clinic.number, answers))
    label = path_label(clinic, schema, *numbers, weighing="uniform")
    assert label == {one: pytest.approx(1 / len(expected)) for one in map(path, expected)} or (
        not expected and label == {TEXT_PATH: 1.0}
    )


@pytest.mark.parametrize(
    ("nodes", "answers", "named", "known"),
    [
        (["p1"], ["dB"], True, False),  # named, and three hops away: no path is known
        (["p1"], ["dB"], False, True),  # only near by meaning, and not linked: it is the text that leads to the answer
        (["x1", "dA"], ["dA"], False, True),  # an answer is among the nearest, whatever leads to it besides
        (["x1"], [], True, False),
        (["x1"], [], False, False),
    ],
)
def test_text_is_right_only_where_nothing_that_is_named_lies_too_far_away(clinic, schema, nodes, answers, named, known):
    numbers = list(map(clinic.number, nodes)), list(map(clinic.number, answers))
    for weighing in ("uniform", "likelihood"):
        label = path_label(clinic, schema, *numbers, weighing, named=named)  # type: ignore[arg-type]
        assert label == ({TEXT_PATH: 1.0} if known else {})


@pytest.mark.parametrize(
    ("nodes", "answers", "expected"),
    [
        # binds and ppi, blocks and ppi lead to g2 alone; treats and associated to both genes; associated too
        (
            ["dA", "x1"],
            ["g2"],
            {
                "drug binds gene ppi gene": 1 / 3,
                "drug blocks gene ppi gene": 1 / 3,
                "drug treats disease associated gene": 1 / 6,
                "disease associated gene": 1 / 6,
            },
        ),
        (["x1"], ["g1", "g2", "dA"], {"disease associated gene": 1 / 2, "disease ^treats drug": 1 / 2}),  # 2/2 and 1/1
        (["x1"], ["g1", "dA"], {"disease associated gene": 1 / 3, "disease ^treats drug": 2 / 3}),  # 1/2 and 1/1
        (["x1", "dB"], ["dA"], {"disease ^treats drug": 1.0}),  # no path leads from the other drug
        (["x1"], ["x1"], {}),
    ],
)
def test_labels_by_likelihood_count_a_path_by_how_few_nodes_it_leads_to(clinic, schema, nodes, answers, expected):
    label = path_label(clinic, schema, list(map(clinic.number, nodes)), list(map(clinic.number, answers)))
    assert label == ({path(text): pytest.approx(share) for text, share in expected.items()} or {TEXT_PATH: 1.0})


def recorded(*hops: tuple[str, str]) -> dict[str, Any]:
    """The record of a question about genes with one branch of these hops."""
    return {"paths": [{"hops": list(map(list, hops)), "types": ["gene"] * (len(hops) + 1)}]}


@pytest.mark.parametrize(
    ("hops", "expected"),
    [
        ([("near", "both")], ["gene near gene", "gene ^near gene"]),  # stored one way
        ([("ppi", "both")], ["gene ppi gene"]),  # stored both ways: out is all there is
        ([("ppi", "in")], ["gene ppi gene"]),
        ([("near", "both"), ("ppi", "both")], ["gene near gene ppi gene", "gene ^near gene ppi gene"]),
        ([("unheard", "in")], ["gene ^unheard gene"]),  # no path of the schema: never right
    ],
)
def test_a_record_of_a_symmetric_relation_is_the_paths_of_the_schema_that_it_may_be(tmp_path, hops, expected):
    asked = LabelledQuestion("What is near ABC1?", ["g2"], made_from(recorded(*hops)))
    with SKB.open(built(tmp_path, edges=f"{EDGES}g1,near,g2\n")) as skb:
        (known,) = examples([asked], skb, NodeMatcher(skb, "exact"), known=True)
        (found,) = examples([asked], skb, NodeMatcher(skb, "exact"))
    assert known.golds == (tuple(map(path, expected)),)
    assert known.label == {one: pytest.approx(1 / len(expected)) for one in map(path, expected)}
    assert {gold for golds in found.golds for gold in golds} == set(found.label)  # without the record: by the graph


@pytest.mark.parametrize("record", [{"paths": [{"hops": [["ppi", "up"]], "types": []}]}, {"paths": [{}]}])
def test_a_record_that_has_no_relation_paths_is_refused(record):
    with pytest.raises(DataError, match="a question's paths are not relation paths"):
        made_from(record)
    assert made_from({}) == ()


def asked(texts: Sequence[str], width: int = 2) -> Questions:
    return Questions(texts, np.zeros((len(texts), width), np.float32))


def test_the_loss_of_a_separable_task_falls_to_nothing_and_ties_stay_ties():
    texts = [f"{word} of {word[1]}{number}" for number in range(30) for word in ("cause", "cure", "kind")]
    target = np.tile(np.array([[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]], np.float32), (30, 1))
    candidates = Candidates(
        [frozenset({"a", "x"}), frozenset({"b", "x"}), frozenset({"c"})], np.zeros((3, 2), np.float32)
    )
    scorer = Scorer.fit(asked(texts), candidates, target, epochs=150)
    fresh = asked(["cause of n99", "cure of n98", "kind of n97"])
    logs = log_softmax(scorer.scores(fresh, candidates))
    assert np.exp(logs) == pytest.approx(target[:3], abs=0.05)
    untrained = log_softmax(Scorer.untrained(2).scores(fresh, candidates))
    assert np.abs(np.exp(untrained) - target[:3]).max() > 0.3


@pytest.mark.parametrize(
    ("paths", "kept", "share"), [(2, 2, 1 / 2), (50, 50, 1 / 50), (51, 50, 1 / 50), (400, 50, 1 / 50)]
)
def test_a_question_with_many_equal_paths_is_not_left_out_of_training(paths: int, kept: int, share: float):
    label = {RelationPath((Hop(f"r{number}"),), ("a", "b")): 1 / paths for number in range(paths)}
    found = learnt(label)
    assert list(found) == list(label)[:kept]
    assert list(found.values()) == pytest.approx([share] * kept)
