"""Paths as text, checked against the schema, followed in the graph, and asked of a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.models.scripted import ScriptedModel
from kbnav.planning.paths import (
    TEXT,
    Hop,
    PathSchema,
    Plan,
    PlannedPath,
    checked,
    instances,
    parse_paths,
    path_text,
    reached,
)
from kbnav.planning.planners import InContext
from kbnav.runs.trajectory import Trace


def hops(text: str) -> tuple[Hop, ...]:
    """``^treats binds``."""
    return tuple(Hop(word[1:], "in") if word.startswith("^") else Hop(word) for word in text.split())


relations = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Zs", "Zl", "Zp"), blacklist_characters="<>\"'`“”*.^→-"), min_size=1
).filter(lambda name: name.casefold() != "text")


@given(st.lists(st.builds(Hop, relations, st.sampled_from(["out", "in"])), max_size=3).map(tuple))
def test_a_path_is_read_as_it_was_written(path: tuple[Hop, ...]) -> None:
    assert parse_paths(path_text(path)) == [path]


@given(st.lists(st.sampled_from(["<PATH>", "</PATH>", "<SEP>", "<path", "^", "text", "a", "->", "\n", " ", "<", ">"])))
def test_no_reply_is_too_odd_to_read(parts: list[str]) -> None:
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
def test_replies_of_models(reply: str, expected: list[str]) -> None:
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
def test_a_path_is_mended_or_dropped(
    schema: PathSchema, proposed: str, starts: str, expected: str | None, note: str
) -> None:
    path = tuple(Hop("part of") for _ in [0]) if proposed == "part of" else hops(proposed)
    plan = checked([(path, 1.0)], schema, starts.split())
    assert [one.hops for one in plan.paths] == ([] if expected is None else [hops(expected)])
    assert [text.replace(" / ", " ") for text in plan.notes] == ([note.replace(" / ", " ")] if note else [])


def test_hubs_are_bounded(clinic: SKB) -> None:
    path = PlannedPath(hops("associated"), 1.0)
    assert [clinic.id(number) for number in reached(clinic, path, ["x1"]).tolist()] == ["g1", "g2"]
    assert [clinic.id(number) for number in reached(clinic, path, ["x1"], limit=1).tolist()] == ["g1"]


def test_instances_are_the_walks_themselves(clinic: SKB) -> None:
    path = PlannedPath(hops("associated ^associated"), 1.0, "disease", ("disease", "gene", "disease"))
    walks = [[clinic.id(number) for number in walk] for walk in instances(clinic, path, ["x1", "dA", "x2"])]
    assert walks == [["x1", "g2", "x2"], ["x2", "g2", "x1"]]
    assert list(instances(clinic, PlannedPath(TEXT, 1.0), ["x1"])) == []


def in_context(clinic: SKB, reply: str, longest: int = 3) -> tuple[Plan, str, Trace]:
    model, trace = ScriptedModel(replies=[AIMessage(reply)]), Trace()
    plan = InContext(clinic, ModelCalls(model, "scripted"), longest).plan("Which drug treats gout?", ["x1"], trace)
    return plan, model.seen[0][-1].text, trace


def test_a_model_is_shown_every_edge_with_an_example(clinic: SKB) -> None:
    plan, prompt, trace = in_context(
        clinic, "<PATH>treats</PATH>\n<PATH>associated<SEP>cures</PATH>\n<PATH>text</PATH>"
    )
    assert "drug -- treats --> disease, as in: Alphazol -- treats --> gout" in prompt
    assert "- gout (disease)" in prompt
    assert "Query: Which drug treats gout?" in prompt
    assert [(path.hops, path.probability) for path in plan.paths] == [
        (hops("^treats"), pytest.approx(3 / 4)),  # weights 1 and 1/3
        (TEXT, pytest.approx(1 / 4)),
    ]
    assert plan.notes == ("treats became ^treats", "dropped associated / cures: there is no relation cures")
    assert len(trace.steps) == 1


@pytest.mark.parametrize(("longest", "kept"), [(2, 1), (3, 2)])
def test_a_model_plans_no_longer_paths_than_it_is_told(clinic: SKB, longest: int, kept: int) -> None:
    long = "<PATH>^treats<SEP>treats<SEP>^treats</PATH>\n<PATH>^treats</PATH>"
    plan, prompt, _ = in_context(clinic, long, longest)
    assert f"a relation path of 1 to {longest} relations" in prompt
    assert len(plan.paths) == kept


def test_a_reply_without_a_path_is_an_empty_plan_that_says_so(clinic: SKB):
    plan, _, _ = in_context(clinic, "I cannot say.")
    assert plan == Plan(notes=("the model's reply has no path",))
