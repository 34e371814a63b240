"""The functions that programs call, over the demo SKB; expected values are read off its files."""

import math
import re
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from kbnav.errors import BadArguments, UnknownId
from kbnav.models.calls import ModelCalls
from kbnav.models.scripted import ScriptedModel
from kbnav.programs.api import Api, ApiLimits, OutOfCalls
from kbnav.programs.api.functions import MOST_ITEMS, MOST_PHRASE, OverLimit
from kbnav.programs.api.knowledge import MOST_TEXT
from kbnav.programs.program import Program

AVERHYTHE, WALK, YARD, MEW = "place:averhythe", "place:ropewalk-lane", "place:heron-yard", "place:little-mew"


@pytest.fixture
def calls(api):
    return api.open("a query")


def test_nodes_are_found_by_type_and_name(calls):
    assert calls.call("ids_by_type", ("place", 2)) == [AVERHYTHE, WALK]
    assert calls.call("types_of", ([WALK, AVERHYTHE],)) == {WALK: "place", AVERHYTHE: "place"}
    assert calls.call("names_of", ([WALK],)) == {WALK: "Ropewalk Lane"}
    assert calls.call("find_by_name", (["little mew", "nothing of this name"],)) == {
        "little mew": [MEW],
        "nothing of this name": [],
    }
    assert calls.call("find_by_name", (["Little Mew"],), {"node_type": "person"}) == {"Little Mew": []}


def test_texts_have_relations_or_not(calls):
    text, relations, whole = (
        calls.call(name, ([WALK],))[WALK] for name in ("texts_of", "relations_text", "documents_of")
    )
    assert "six hundred paces" in text
    assert "Averhythe" not in text
    assert "Averhythe" in relations
    assert "six hundred" not in relations
    assert "six hundred paces" in whole
    assert "Averhythe" in whole
    assert calls.call("field_of", ([WALK, AVERHYTHE], "aliases")) == {WALK: "the Walk", AVERHYTHE: "the Hythe"}
    assert calls.call("field_of", ([WALK], "weight")) == {WALK: ""}


def test_relations_are_followed_either_way(calls):
    assert calls.call("related", ([WALK, YARD], "located in"))[WALK][0] == AVERHYTHE
    assert calls.call("related", ([YARD], "named after")) == {YARD: ["ship:heron"]}
    assert calls.call("related", (["ship:heron"], "named after", "out")) == {"ship:heron": []}
    assert YARD in calls.call("related", (["ship:heron"], "^named after", "out"))["ship:heron"]
    of_yard = calls.call("relations_of", ([YARD],))[YARD]
    assert of_yard["located_in"] == [AVERHYTHE]
    assert of_yard["^located_in"] == ["workshop:heron-yard"]
    assert len(calls.call("related", ([AVERHYTHE], "located in", "in", 3))[AVERHYTHE]) == 3


def test_texts_are_compared_by_meaning_and_by_words(calls):
    query = "a straight lane for twisting cable"
    near = calls.call("similarity", (query, [AVERHYTHE, WALK]))
    assert list(near) == [AVERHYTHE, WALK]
    assert near[WALK] > near[AVERHYTHE]
    shared = calls.call("bm25", ("twisting", [AVERHYTHE, WALK]))
    assert shared[WALK] > shared[AVERHYTHE] == 0.0
    assert next(iter(calls.call("search", (query, "place", 5)))) == WALK
    first, second = calls.call("embed", (["twisting cable", "twisting cable"],))
    assert first == second
    assert math.isclose(sum(part * part for part in first), 1.0, rel_tol=1e-5)
    chunk = calls.call("best_chunk", ("smell of tar", [WALK], 8))[WALK]
    assert "tar" in chunk
    assert len(chunk.split()) <= 8


def test_strings_are_compared_from_0_to_1(calls):
    texts = ["The River Aver", "rivers of iron", ""]
    assert calls.call("exact_match", ("river aver", texts)) == [1.0, 0.0, 0.0]
    assert calls.call("token_recall", ("river of the Aver in Hythe", texts)) == [pytest.approx(2 / 3), 0.0, 0.0]
    # two shared words of two and of three: 2 * 2 / (2 + 3)
    assert calls.call("token_f1", ("river aver", ["river aver boat"])) == [pytest.approx(0.8)]
    exact, near, none = calls.call("fuzzy", ("river", [*texts[:2], "xyz"]))
    assert (exact, none) == (1.0, 0.0)
    assert 0.8 < near <= 1.0


def test_arguments_are_measured_before_they_are_read(calls):
    shared = ["x"] * 1_000
    with pytest.raises(BadArguments, match=str(MOST_ITEMS)):
        calls.call("intersect", ([shared] * 1_000,))
    doubled: list[object] = []
    for _ in range(200):
        doubled = [doubled, doubled]
    with pytest.raises(BadArguments, match="nested"):
        calls.call("texts_of", (doubled,))
    with pytest.raises(BadArguments, match="256"):
        calls.call("embed", (["x"] * 257,))
    with pytest.raises(BadArguments, match="too long"):  # nothing looks at the clock within one text
        calls.call("fuzzy", ("ab" * 1_000, ["x", "ba" * 5_001]))
    assert calls.call("fuzzy", ("ab" * 1_000, ["ba" * 5_000] * 3)) == [1.0] * 3
    long = "twisting cable " * 2_000
    assert calls.call("embed", ([long + "tar"],)) == calls.call("embed", ([long],))


def test_calls_and_their_time_are_limited(demo_kb):
    calls = Api(demo_kb, limits=ApiLimits(calls=3)).open("q")
    for _ in range(3):
        calls.call("intersect", ([],))
    with pytest.raises(OutOfCalls, match="3 calls"):
        calls.call("intersect", ([],))
    assert calls.counts == {"intersect": 3}
    slow = Api(demo_kb, limits=ApiLimits(seconds=0.0)).open("q")
    slow.call("intersect", ([],))
    with pytest.raises(OutOfCalls, match="seconds"):
        slow.call("intersect", ([],))


@pytest.mark.parametrize(
    ("names", "arguments"),
    [
        (("types_of", "names_of", "texts_of", "relations_text", "documents_of", "related", "relations_of"), ([WALK],)),
        (("field_of",), ([WALK], "name")),
        (("follow_path",), ([WALK], ["located in"])),
        (("find_by_name", "embed"), (["Ropewalk Lane"],)),
        (("similarity", "bm25", "best_chunk"), ("tar", [WALK])),
        (("exact_match", "token_recall", "token_f1", "fuzzy"), ("tar", ["tar"])),
    ],
)
def test_a_call_ends_once_its_time_is_over(demo_kb, names, arguments):
    over = Api(demo_kb, limits=ApiLimits(seconds=0.0))
    for name in names:
        with pytest.raises(OutOfCalls, match="seconds"):
            over.open("q").call(name, arguments)


def _model(replies, seen=None):
    scripted = ScriptedModel(replies=[AIMessage(reply) for reply in replies])
    if seen is not None:
        seen.append(scripted)
    return ModelCalls(scripted, "scripted", jobs=1)


def test_a_model_parses_scores_checks_extracts_summarises_and_classifies(demo_kb):
    replies = [
        'Here it is: {"brand": "Nike", "size": ["9", "10"], "colour": null}',
        "0.8",
        "no idea",
        "Yes.",
        "no",
        "1704",
        "None.",
        "short",
        "**Tools**",
        "something else",
    ]
    calls = Api(demo_kb, model=_model(replies)).open("q")
    assert calls.call("parse_query", ("q", ["brand", "size", "colour"])) == {
        "brand": "Nike",
        "size": "9; 10",
        "colour": "",
    }
    assert calls.call("score_texts", ("q", ["a", "b"])) == [0.8, 0.0]
    assert calls.call("check_texts", ("is red", ["a", "b"])) == [True, False]
    assert calls.call("extract", ("the year", ["a", "b"])) == ["1704", ""]
    assert calls.call("summarise", (["a"], 10)) == ["short"]
    assert calls.call("classify", (["a", "b"], ["Toys", "Tools"])) == ["Tools", ""]
    assert calls.trace.usage.calls == 10
    assert calls.call("score_texts", ("q", [])) == []


def test_a_summary_is_asked_for_in_as_many_words_as_the_program_says(demo_kb):
    seen: list[ScriptedModel] = []
    calls = Api(demo_kb, model=_model(["short", "long"], seen=seen)).open("q")
    calls.call("summarise", (["a"], 17))
    calls.call("summarise", (["a"],))
    asked = [str(messages[-1].content) for model in seen for messages in model.seen]
    assert ["17" in text for text in asked] == [True, False]
    assert "50" in asked[1]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [("find_by_name", (["a name"] * 1001,)), ("follow_path", (["place:heron"], ["born in"] * 21))],
)
def test_what_would_take_a_single_call_long_is_refused(demo_kb, function, arguments):
    with pytest.raises(BadArguments, match="at most"):
        Api(demo_kb).open("?").call(function, arguments, {})


def test_the_limit_of_prompts_is_enforced_for_each_function_and_each_query(demo_kb):
    seen: list[ScriptedModel] = []
    api = Api(demo_kb, model=_model(["1"] * 20, seen=seen), limits=ApiLimits(model_prompts=3))
    calls = api.open("q")
    calls.call("score_texts", ("q", ["a", "b"]))
    with pytest.raises(OverLimit, match="3 prompts are allowed for a query, 2 were sent"):
        calls.call("score_texts", ("q", ["c", "d"]))
    assert len(seen[0].seen) == 2
    calls.call("score_texts", ("q", ["c"]))
    calls.call("check_texts", ("q", ["c", "d", "e"]))
    with pytest.raises(OverLimit):
        calls.call("score_texts", ("q", ["c"]))
    assert len(seen[0].seen) == 6
    assert api.open("another").call("score_texts", ("q", ["c"])) == [1.0]


def test_the_page_names_every_function_and_its_example_runs(demo_kb, sandbox):
    page = (Path(__file__).parents[2] / "docs" / "agent-retriever.md").read_text(encoding="utf-8")
    table = page.partition("| group | functions |")[2].partition("\n\n")[0]
    assert set(re.findall("`([a-z_0-9]+)`", table)) == set(Api(demo_kb, model=_model([])).functions)
    program = Program.read(page.partition("```python\n")[2].partition("```")[0])
    assert not sandbox.check(program, Api(demo_kb))
    assert sandbox.run(program, "twisting cable", [AVERHYTHE, WALK], Api(demo_kb)).ok


def test_what_a_writer_reads_says_every_bound_that_is_enforced(api, calls):
    bounded = {
        "ids_by_type": ["place"],
        "related": [[WALK]],
        "relations_of": [[WALK]],
        "follow_path": [[WALK], ["located in"]],
        "find_by_name": [["Little Mew"]],
        "search": ["cable"],
    }
    for name, arguments in bounded.items():
        assert api.functions[name].doc.endswith("`limit` is from 1 to 10,000."), name
        assert calls.call(name, arguments, {"limit": 10_000})
        for limit in (0, 10_001):
            with pytest.raises(BadArguments, match=f"{name}: limit: Input should be"):
                calls.call(name, arguments, {"limit": limit})
    assert api.functions["best_chunk"].doc.endswith("`words` is from 5 to 1,000.")
    assert api.functions["types_of"].doc == "The type of each node."
    for limit in ("2,000 calls", f"{MOST_ITEMS:,} values", f"{MOST_TEXT:,} characters", f"{MOST_PHRASE:,} characters"):
        assert limit in api.prompt


@pytest.mark.parametrize(
    ("name", "args", "error", "said"),
    [
        ("texts_of", (["nowhere"],), UnknownId, "nowhere"),
        ("texts_of", ("place:averhythe",), BadArguments, "ids"),
        ("texts_of", ([1],), BadArguments, "texts_of(ids: list[str])"),
        ("texts_of", (), BadArguments, "ids"),
        ("related", ([AVERHYTHE], "is near"), UnknownId, "is near"),
        ("related", ([AVERHYTHE], "", "sideways"), BadArguments, "direction"),
        ("ids_by_type", ("planet",), UnknownId, "planet"),
        ("ids_by_type", ("place", 0), BadArguments, "limit"),
        ("open", ("/etc/passwd",), BadArguments, "no function"),
        ("__class__", (), BadArguments, "no function"),
    ],
)
def test_wrong_arguments_are_typed_errors(calls, name, args, error, said):
    with pytest.raises(error, match=re.escape(said)):
        calls.call(name, args)


def test_what_is_told_is_short_whatever_it_is(api):
    calls = api.open("q")
    doubled: list[object] = []
    for _ in range(200):
        doubled = [doubled, doubled]
    calls.call("debug", (doubled, {"a": 10**5000}, "x" * 5_000, list(range(10_000))))
    assert len(calls.feedback.text) < 10_000
    for _ in range(50):
        calls.call("debug", ("y" * 1_000,))
    assert len(calls.feedback.text) <= api.limits.debug_characters + 100
    assert "more characters" in calls.feedback.text
