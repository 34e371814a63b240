"""Plans: paths that are read, mended and labelled, and the ranker that learns them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.plans import Made, judge, made, right_paths
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from kbnav.encoders import Vectors
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.models.scripted import ScriptedModel
from kbnav.planning.paths import (
    TEXT,
    TEXT_PATH,
    Hop,
    Plan,
    PlannedPath,
    RelationPath,
    checked,
    parse_paths,
    path_text,
    reached,
)
from kbnav.planning.planners import InContext
from kbnav.planning.ranker import Candidates, Questions, Ranker, Scorer, log_softmax
from kbnav.planning.seq2seq import learnt
from kbnav.planning.training import Example, LabelledQuestion, examples, made_from, path_label
from kbnav.runs.trajectory import Trace
from tests.planning.conftest import EDGES, Words, built


def hops(text: str) -> tuple[Hop, ...]:
    """``^treats binds``."""
    return tuple(Hop(word[1:], "in") if word.startswith("^") else Hop(word) for word in text.split())


relations = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Zs", "Zl", "Zp"), blacklist_characters="<>\"'`“”*.^→-"), min_size=1
).filter(lambda name: name.casefold() != "text")


@given(st.lists(st.builds(Hop, relations, st.sampled_from(["out", "in"])), max_size=3).map(tuple))
def test_a_path_is_read_as_it_was_written(path):
    assert parse_paths(path_text(path)) == [path]


@given(st.lists(st.sampled_from(["<PATH>", "</PATH>", "<SEP>", "<path", "^", "text", "a", "->", "\n", " ", "<", ">"])))
def test_no_reply_is_too_odd_to_read(parts):
    for path in parse_paths("".join(parts)):
        assert all(hop.relation.strip() == hop.relation for hop in path)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("<PATH>a<SEP>^b</PATH>", ["a ^b"]),
        ("1. <path> a <sep> b </path>\n2. <PATH>text</PATH>", ["a b", ""]),
        ("<PATH>a -> ^b", ["a ^b"]),
        ("<PATH>a<SEP>b\nBecause …", ["a b"]),
        ("<PATH>a<PATH>b</PATH>", ["a", "b"]),
        ("<PATH></PATH><PATH><SEP></PATH>", []),
        ("I would follow a, then b.", []),
    ],
)
def test_replies_of_models(reply, expected):
    assert parse_paths(reply) == [hops(text) for text in expected]


@pytest.mark.parametrize(
    ("proposed", "starts", "expected", "note"),
    [
        ("^treats", "disease", "^treats", ""),
        ("treats", "disease", "^treats", "treats became ^treats"),  # turned
        ("Treats", "drug", "treats", "Treats became treats"),
        ("part of", "gene", "part_of", "part of became part_of"),
        ("^ppi", "gene", "ppi", ""),  # stored both ways: the same
        ("associated treats", "gene", "^associated ^treats", "associated treats became ^associated ^treats"),
        ("part_of", "disease", None, "dropped part_of: the schema has no such path from disease"),
        ("treats", "", "treats", ""),  # no node was matched: from anywhere
        ("cures", "drug", None, "dropped cures: there is no relation cures"),
        ("ppi ppi ppi ppi", "gene", None, "dropped ppi / ppi / ppi / ppi: 4 hops, where 3 are allowed"),
        ("", "drug", "", ""),
    ],
)
def test_a_path_is_mended_or_dropped(schema, proposed, starts, expected, note):
    path = tuple(Hop("part of") for _ in [0]) if proposed == "part of" else hops(proposed)
    plan = checked([(path, 1.0)], schema, starts.split())
    assert [one.path.hops for one in plan.paths] == ([] if expected is None else [hops(expected)])
    assert [text.replace(" / ", " ") for text in plan.notes] == ([note.replace(" / ", " ")] if note else [])


def test_hubs_are_bounded(clinic):
    path = RelationPath(hops("associated"), ("disease", "gene"))
    assert [clinic.id(number) for number in reached(clinic, path, ["x1"]).tolist()] == ["g1", "g2"]
    assert [clinic.id(number) for number in reached(clinic, path, ["x1"], limit=1).tolist()] == ["g1"]


def test_a_path_leads_from_nodes_of_its_first_type_to_those_at_its_end(clinic):
    path = RelationPath(hops("associated part_of"), ("disease", "gene", "pathway"))
    assert [clinic.id(number) for number in reached(clinic, path, ["x1", "dA", "x1"]).tolist()] == ["p1"]
    assert not len(reached(clinic, path, ["dA"]))
    assert not len(reached(clinic, TEXT_PATH, ["x1"]))


def in_context(clinic: SKB, reply: str, longest: int = 3) -> tuple[Plan, str, Trace]:
    model, trace = ScriptedModel(replies=[AIMessage(reply)]), Trace()
    plan = InContext(clinic, ModelCalls(model, "scripted"), longest).plan("Which drug treats gout?", ["x1"], trace)
    return plan, model.seen[0][-1].text, trace


def test_a_model_is_shown_every_edge_with_an_example(clinic):
    plan, prompt, trace = in_context(
        clinic, "<PATH>treats</PATH>\n<PATH>associated<SEP>cures</PATH>\n<PATH>text</PATH>"
    )
    assert "drug -- treats --> disease, as in: Alphazol -- treats --> gout" in prompt
    assert "- gout (disease)" in prompt
    assert "Query: Which drug treats gout?" in prompt
    assert [(one.path.hops, one.probability) for one in plan.paths] == [
        (hops("^treats"), pytest.approx(3 / 4)),  # weights 1 and 1/3
        (TEXT, pytest.approx(1 / 4)),
    ]
    assert plan.notes == ("treats became ^treats", "dropped associated / cures: there is no relation cures")
    assert len(trace.steps) == 1


@pytest.mark.parametrize(("longest", "kept"), [(2, 1), (3, 2)])
def test_a_model_plans_no_longer_paths_than_it_is_told(clinic, longest, kept):
    long = "<PATH>^treats<SEP>treats<SEP>^treats</PATH>\n<PATH>^treats</PATH>"
    plan, prompt, _ = in_context(clinic, long, longest)
    assert f"a relation path of 1 to {longest} relations" in prompt
    assert len(plan.paths) == kept


def test_a_reply_without_a_path_is_an_empty_plan_that_says_so(clinic):
    plan, _, _ = in_context(clinic, "I cannot say.")
    assert plan == Plan(notes=("the model's reply has no path",))


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
        (known,) = made([asked], skb, NodeMatcher(skb, "exact"))
        (by_graph,) = made([replace(asked, paths=())], skb, NodeMatcher(skb, "exact"))
    assert right_paths(known) == (tuple(map(path, expected)),)
    assert known.label == {one: pytest.approx(1 / len(expected)) for one in map(path, expected)}
    assert {gold for golds in right_paths(by_graph) for gold in golds} == set(by_graph.label)


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
def test_a_question_with_many_equal_paths_is_not_left_out_of_training(paths, kept, share):
    label = {RelationPath((Hop(f"r{number}"),), ("a", "b")): 1 / paths for number in range(paths)}
    found = learnt(label)
    assert list(found) == list(label)[:kept]
    assert list(found.values()) == pytest.approx([share] * kept)


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
    return plan.paths[0].path.hops


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
    for path, _ in trained.plan("Which drug helps with gout?", ["g1"]).paths:
        assert path == TEXT_PATH or path.start == "gene"
        assert path == TEXT_PATH or (path.types[0], len(path.types)) == ("gene", len(path.hops) + 1)
    assert [one.path.hops for one in trained.plan("Which drug helps?", []).paths] == [TEXT]


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
        return Plan(tuple(PlannedPath(RelationPath(path, ()), 1 / len(paths)) for path in paths))


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
    assert judge(Fixed({one.question: [] for one in asked}), asked).planner.planned == 0.0


def test_a_symmetric_relation_is_right_either_way_and_counts_once():
    there, back, other = (
        RelationPath((hop,), ("gene", "gene")) for hop in (Hop("near"), Hop("near", "in"), Hop("far"))
    )
    one = Made("1", ("g",), frozenset({"gene"}), {there: 0.5, back: 0.5}, ((there, back),))
    two = Made("2", ("g",), frozenset({"gene"}), {there: 0.25, back: 0.25, other: 0.5}, ((there, back), (other,)))
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


def test_another_schema_or_encoder_is_refused_with_both_names(trained, clinic, tmp_path):
    trained.save(tmp_path)
    other = built(tmp_path / "other", edges=EDGES + "p1,cites,x1\n", name="ward")
    with SKB.open(other) as ward, pytest.raises(UsageError, match=r"schema of clinic; that of ward is another"):
        Ranker.load(tmp_path, ward, Words())
    with pytest.raises(UsageError, match=r"encoder words; clinic has other words"):
        Ranker.load(tmp_path, clinic, OtherWords())
