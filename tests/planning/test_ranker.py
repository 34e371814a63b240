"""The ranker learns what its questions say, goes to a file and back, and refuses what it was not trained for."""

import json
from pathlib import Path

import pytest
from benchmarks.plans import judge

from kbnav.encoders import Vectors
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import TEXT, Hop, Plan, PlannedPath, RelationPath, parse_paths
from kbnav.planning.planners import NoPlanner
from kbnav.planning.ranker import Ranker
from kbnav.planning.training import Example, LabelledQuestion, examples
from tests.planning.conftest import EDGES, Words, built

TRAIN = [
    *(
        LabelledQuestion(f"Which drug{s} helps with gout {end}?", ["dA"])
        for s in ("", "s")
        for end in ("best", "now", "today")
    ),
    *(LabelledQuestion(f"What gene is behind scurvy {end}?", ["g2"]) for end in ("then", "now", "today", "mostly")),
    *(LabelledQuestion(f"Which pathway has ABC1 {end}?", ["p1"]) for end in ("then", "now", "today", "mostly")),
    *(LabelledQuestion(f"Which remedy is said to be {end}?", ["dB"]) for end in ("old", "bitter", "rare", "cheap")),
]


def hops_of(plan: Plan) -> tuple[Hop, ...]:
    return plan.paths[0].hops


@pytest.fixture(scope="module")
def trained(clinic: SKB) -> Ranker:
    found = list(examples(TRAIN, clinic, NodeMatcher(clinic, "exact")))
    return Ranker.train(clinic, Words(), found, epochs=150)


@pytest.mark.parametrize(
    ("question", "nodes", "expected"),
    [
        ("Which drug helps with scurvy?", ["x2"], (Hop("treats", "in"),)),
        ("What gene is behind gout?", ["x1"], (Hop("associated"),)),
        ("Which pathway has XYZ2?", ["g2"], (Hop("part_of"),)),
        ("Which remedy is said to be new?", [], TEXT),
    ],
)
def test_a_trained_ranker_knows_the_path_of_a_name_it_has_not_met(trained, question, nodes, expected):
    plan = trained.plan(question, nodes)
    assert hops_of(plan) == expected
    assert plan.paths[0].probability > 0.5
    shares = [path.probability for path in plan.paths]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 1 + 1e-6


def test_paths_begin_at_a_type_that_was_matched(trained):
    for path in trained.plan("Which drug helps with gout?", ["g1"]).paths:
        assert path.is_text or path.start == "gene"
        assert path.is_text or (path.types[0], len(path.types)) == ("gene", len(path.hops) + 1)
    assert [path.hops for path in trained.plan("Which drug helps?", []).paths] == [TEXT]


def test_a_saved_ranker_plans_the_same(trained, clinic, tmp_path):
    trained.save(tmp_path / "planner")
    again = Ranker.load(tmp_path / "planner", clinic, Words())
    for question, nodes in (("Which drug helps with gout?", ["x1"]), ("anything else", ["g1", "x2"])):
        assert again.plan(question, nodes) == trained.plan(question, nodes)


@pytest.mark.parametrize("damage", ["cut", "swapped", "future", "kind", "no json"])
def test_a_damaged_ranker_is_refused(trained, clinic, tmp_path, damage):
    trained.save(tmp_path)
    weights, card = tmp_path / "model" / "ranker.npz", tmp_path / "card.json"
    found = json.loads(card.read_bytes())
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:-20])
    elif damage == "swapped":
        del found["files"]
    elif damage == "future":
        found["format"] = 99
    elif damage == "kind":
        found["kind"] = "seq2seq"
    card.write_text("{" if damage == "no json" else json.dumps(found))
    with pytest.raises(UsageError if damage == "kind" else DataError):
        Ranker.load(tmp_path, clinic, Words())


class Fixed:
    """A planner whose plans are given."""

    name = "fixed"

    def __init__(self, plans: dict[str, list[str]]) -> None:
        self._plans = plans

    def plan(self, question: str, nodes: object, trace: object = None) -> Plan:
        paths = [parse_paths(f"<PATH>{relation}</PATH>")[0] for relation in self._plans[question]]
        return Plan(tuple(PlannedPath(path, 1 / len(paths)) for path in paths))


def example(question: str, *relations: str) -> Example:
    label = {RelationPath((Hop(one),), ("drug", "gene")): 1 / len(relations) for one in relations}
    return Example(question, ("d",), frozenset({"drug"}), label)


def test_judged_by_hand():
    asked = [example("1", "a"), example("2", "a"), example("3", "b", "c"), example("4", *"abcd")]
    plans = {"1": ["a", "b"], "2": ["b", "c", "text", "a"], "3": ["c", "text", "b"], "4": []}
    found = judge(Fixed(plans), asked)
    # first: 1 and 3 are right; of the first three: 1, 0, 1 and, with nothing planned, 0
    assert (found.planner.first, found.planner.first_three, found.planner.planned) == (0.5, 0.5, 0.75)
    # a is right 2.25 times, b and c 0.75 times, d 0.25: always a, b, c finds 1, 1, 2 of 2, 3 of 3
    assert (found.most_frequent.first, found.most_frequent.first_three) == (0.75, 1.0)
    assert judge(NoPlanner(), asked).planner.planned == 0.0


def test_a_symmetric_relation_is_right_either_way_and_counts_once():
    there, back, other = (
        RelationPath((hop,), ("gene", "gene")) for hop in (Hop("near"), Hop("near", "in"), Hop("far"))
    )
    one = Example("1", ("g",), frozenset({"gene"}), {there: 0.5, back: 0.5}, ((there, back),))
    two = Example("2", ("g",), frozenset({"gene"}), {there: 0.25, back: 0.25, other: 0.5}, ((there, back), (other,)))
    plans = {"1": ["^near", "far"], "2": ["near", "^near", "text", "far"]}
    found = judge(Fixed(plans), [one, two])
    # ^near is right; of the second's two paths both are among the first three, near and ^near being one
    assert (found.planner.first, found.planner.first_three) == (1.0, 1.0)
    # near, either way, is right 1.5 times, far 0.5 times
    assert (found.most_frequent.first, found.most_frequent.first_three) == (1.0, 1.0)
    assert judge(Fixed({"1": ["far", "^near"], "2": []}), [one, two]).planner.first_three == 0.5


class OtherWords(Words):
    name = "other words"

    def encode(self, texts: list[str]) -> Vectors:  # type: ignore[override]
        return super().encode(texts)


def test_another_schema_or_encoder_is_refused_with_both_names(trained: Ranker, clinic: SKB, tmp_path: Path):
    trained.save(tmp_path)
    other = built(tmp_path / "other", edges=EDGES + "p1,cites,x1\n", name="ward")
    with SKB.open(other) as ward, pytest.raises(UsageError, match=r"schema of clinic; that of ward is another"):
        Ranker.load(tmp_path, ward, Words())
    with pytest.raises(UsageError, match=r"encoder words; clinic has other words"):
        Ranker.load(tmp_path, clinic, OtherWords())
