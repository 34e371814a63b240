"""Programs, the functions that they may call, and the sandbox that they run in."""

import ast
import hashlib
import math
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from kbnav.errors import BadArguments, CredentialsError, UnknownId
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.calls import ModelCalls
from kbnav.models.scripted import ScriptedModel
from kbnav.planning.training import LabelledQuestion
from kbnav.programs.api import Api, ApiLimits
from kbnav.programs.api.functions import MOST_ITEMS, MOST_PHRASE, OverLimit
from kbnav.programs.api.knowledge import MOST_TEXT
from kbnav.programs.program import MOST_CHARACTERS, BadProgram, Program, ProgramLimit
from kbnav.programs.sandbox import Sandbox, SandboxLimits
from kbnav.programs.steps import Comparison, Trial, compare
from tests.models.stub import Faltering
from tests.programs.attacks import ATTACKS, CANARY, Attack

SCORE = "def score(query, candidates, **parameters):\n    return {}\n"


def test_a_program_has_an_entry_and_parameters():
    source = 'PARAMETERS = {"a": 0.5, "b": -2, "c": "x", "d": True}\n' + SCORE
    program = Program.read(source)
    assert (program.entry, dict(program.parameters)) == ("score", {"a": 0.5, "b": -2, "c": "x", "d": True})
    assert program.sha256 == hashlib.sha256(source.encode()).hexdigest()
    assert Program.read("def retrieve(query): return {}").entry == "retrieve"
    assert Program.read("PARAMETERS: dict[str, float] = {'a': 1.0}\n" + SCORE).parameters == {"a": 1.0}


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("x = 1\ndef score(query, candidates:\n    pass", 2, "SyntaxError"),
        ("x = 1", 0, "neither score(query, candidates"),
        (SCORE + "def retrieve(query): return {}", 3, "second entry"),
        (SCORE + SCORE, 3, "second entry"),
        ("def score(q, c): return {}", 1, "must begin as score(query, candidates, …)"),
        ("class A:\n" + "    def score(self, query, candidates): return {}", 0, "neither"),
        ("PARAMETERS = {'a': 1}\ndef score(query, candidates): return {}", 2, "does not take 'a'"),
        ("def score(query, candidates, a): return {}", 1, "needs 'a', which PARAMETERS lacks"),
        ("PARAMETERS = dict(a=1)\n" + SCORE, 1, "a dict of names with plain"),
        ("PARAMETERS = {'a': 1e999}\n" + SCORE, 1, "'a' is no finite number"),
        ("def score(query, candidates):\n    breakpoint()\n    return {}", 2, "waits for a person"),
        ("def score(query, candidates):\n    import pdb\n    pdb.set_trace()\n    return {}", 2, "a debugger"),
        ("x = 'caf\ud800'\n" + SCORE, 0, "no Unicode"),
        ("\0" + SCORE, 0, "null bytes"),
        ("#" * (MOST_CHARACTERS + 1), 0, "32000 are allowed"),
        ("x = " + "(" * 5000 + ")" * 5000, 0, "nested"),
        ("x = " + "-" * 30000 + "1", 0, "nested"),
    ],
)
def test_what_is_none_is_told_with_its_line(source, line, said):
    with pytest.raises(BadProgram) as error:
        Program.read(source)
    assert [problem.line for problem in error.value.problems] == [line]
    assert said in str(error.value)


@pytest.mark.parametrize("part", ["x.y" + ".y" * 9000, "1" + "+1" * 9000, "f" + "()" * 9000, "x" + "[0]" * 9000])
def test_long_chains_are_read_or_refused_and_do_no_harm(part):
    with suppress(BadProgram):
        assert Program.read(f"z = {part}\n{SCORE}").entry == "score"


def test_an_escape_that_python_would_warn_of_is_no_fault():
    assert Program.read("import re\nP = re.compile('\\d')\n" + SCORE).entry == "score"


def compared(new: Sequence[float], best: Sequence[float], failed: int = 0) -> Comparison:
    errors = ["line 1: no"] * failed + [""] * len(new)
    asked = LabelledQuestion("q", ("a",))
    trials = [Trial(asked, (), {}, {"mrr": one}, error) for one, error in zip(new, errors, strict=False)]
    return compare(trials, best)


@pytest.mark.parametrize(
    ("new", "best", "accepted"),
    [
        ([0.6] * 120, [0.5] * 120, True),
        ([0.5] * 120, [0.5] * 120, False),
        ([0.6] * 60 + [0.0] * 60, [0.5] * 120, False),
        ([1.0] + [0.5] * 119, [0.5] * 120, False),  # one better: p is 1
        ([1.0] * 5 + [0.5] * 115, [0.5] * 120, True),  # p is 2 / 2**5, below 0.1
        ([1.0] * 4 + [0.5] * 116, [0.5] * 120, False),  # p is 2 / 2**4, above it
        ([1.0, 0.5] + [1.0] * 8, [0.5, 0.5] + [1.0] * 8, True),  # the mean before is 0.9, the ceiling
        ([1.0] * 10, [0.5, 0.49] + [1.0] * 8, False),  # and here a hair less
        ([1.0, 1.0, 0.9] + [1.0] * 17, [0.5, 0.5] + [1.0] * 18, False),  # one is lost
        ([1 / 3] * 120, [0.333333] * 120, False),  # as a journal keeps it: no query is better by a hair
    ],
)
def test_a_program_is_accepted_for_a_gain_that_is_not_chance(new, best, accepted):
    assert compared(new, best).accepted is accepted


ROOT = Path(__file__).parents[2]


PLACES = ["place:averhythe", "place:ropewalk-lane"]


def test_a_program_ranks_its_candidates_by_what_the_api_says(sandbox, api):
    program = Program.read(
        """
PARAMETERS = {"weight": 4.0}

def score(query, candidates, weight):
    texts = texts_of(candidates)
    debug("texts", len(texts))
    found = token_recall(query, [texts[node] for node in candidates])
    return {node: weight * part for node, part in zip(candidates, found)}
"""
    )
    outcome = sandbox.run(program, "a seaport known for its instrument makers", PLACES, api)
    assert outcome.error is None
    assert list(outcome.scores) == PLACES
    assert outcome.scores[PLACES[0]] == 4.0
    assert outcome.debug == "texts 2"
    assert outcome.calls == {"texts_of": 1, "debug": 1, "token_recall": 1}


RANKED = "    return {node: place for place, node in enumerate(candidates)}\n"


def run(sandbox, api, body):
    return sandbox.run(Program.read(f"def score(query, candidates):\n{body}{RANKED}"), "q", PLACES, api)


def test_a_program_may_find_its_own_candidates(sandbox, api):
    program = Program.read("def retrieve(query, limit=3):\n    return search(query, limit=limit)\n")
    outcome = sandbox.run(program, "a seaport of instrument makers", [], api)
    assert outcome.error is None
    assert len(outcome.scores) == 3
    assert list(outcome.scores.values()) == sorted(outcome.scores.values(), reverse=True)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("None", "must give a dict"),
        ("{}", "gave no scores"),
        ("{'nowhere': 1, **{node: 2 for node in candidates}}", "no candidates: 'nowhere'"),
        ("{node: float('nan') for node in candidates}", "not finite"),
        ("{node: 10 ** 400 for node in candidates}", "not finite"),
        ("{node: 'high' for node in candidates}", "a str for a score"),
        ("{node: 0.5 for node in candidates}", "the same score"),
    ],
)
def test_scores_are_ids_that_are_known_with_finite_numbers_not_all_equal(sandbox, api, returned, said):
    program = Program.read(f"def score(query, candidates):\n    return {returned}\n")
    outcome = sandbox.run(program, "q", PLACES, api)
    assert (outcome.error.kind, outcome.scores) == ("scores", {})
    assert said in outcome.error.message


def test_equal_scores_keep_the_order_of_the_candidates(sandbox, api):
    nodes = ["place:north-mole", "place:averhythe", "place:gullgate", "place:heron-yard"]
    program = Program.read(
        "def score(query, candidates):\n    return {n: int(n == candidates[2]) for n in candidates[::-1]}\n"
    )
    assert list(sandbox.run(program, "q", nodes, api).scores) == [nodes[2], nodes[0], nodes[1], nodes[3]]


def test_equal_seeds_give_equal_runs(sandbox, api):
    body = "    import random\n    debug(random.random(), hash('x'), {str(i) for i in range(5)})\n"
    first, second = run(sandbox, api, body), run(sandbox, api, body)
    assert first.error is None
    assert first.debug == second.debug != ""


def test_the_clock_stands_still(sandbox, api):
    outcome = run(sandbox, api, "    import datetime, time\n    debug(datetime.datetime.now().year, time.time())\n")
    assert outcome.debug.startswith("2024 1704067200")


def test_a_query_with_half_a_character_is_no_trouble(sandbox, api):
    program = Program.read("def score(query, candidates):\n    debug(len(query))\n" + RANKED)
    assert sandbox.run(program, "caf\ud800", PLACES, api).ok


def test_a_key_that_is_refused_ends_the_run_and_not_the_sandbox(sandbox, demo_kb, api):
    refusing = Api(demo_kb, model=ModelCalls(Faltering(replies=[CredentialsError("the key is refused")]), "scripted"))
    body = "    try:\n        score_texts('q', ['a'])\n    except BaseException: pass\n"
    with pytest.raises(CredentialsError):
        run(sandbox, refusing, body)
    assert run(sandbox, api, "").ok


def test_limits_end_what_is_under_way(api):
    limits = SandboxLimits(seconds=0.2, memory=32 << 20, output=500)
    with Sandbox(limits) as sandbox:
        assert run(sandbox, api, "    while True: pass\n").error.kind == "time"
        assert run(sandbox, api, "    x = [0] * 10**8\n").error.kind == "memory"
        assert run(sandbox, api, "    for i in range(100): print('y' * 20)\n").error.kind == "output"
        assert run(sandbox, api, "    f = lambda: f()\n    f()\n").error.kind == "recursion"


SHARED = "    x = []\n    for i in range({}): x = [x, x]\n"


def test_values_that_share_their_parts_cost_what_is_read_of_them(sandbox, api):
    outcome = run(sandbox, api, SHARED.format(60) + "    for i in range(50): debug(x)\n")
    assert outcome.ok, outcome.error
    assert outcome.debug.startswith("[[[[[…, …], […, …]], [[…, …], […, …]]], [[[")
    outcome = run(sandbox, api, SHARED.format(60) + "    texts_of(x)\n")
    assert str(outcome.error) == "line 4: ValueError: texts_of: values nested too deep in one call"
    outcome = run(sandbox, api, SHARED.format(60) + "    return {candidates[0]: x}\n")
    assert outcome.error.kind == "scores"


def test_no_file_of_the_package_runs_code_in_its_own_process_and_none_calls_a_debugger():
    for file in (ROOT / "src" / "kbnav" / "programs").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            assert not isinstance(node, ast.Name) or node.id not in ("breakpoint", "set_trace", "exec", "eval"), file


def test_the_example_passes_the_check(sandbox, api):
    source = (ROOT / "examples" / "hetionet-genes" / "program.py").read_text(encoding="utf-8")
    assert source.startswith("# Written by hand")
    assert sandbox.check(Program.read(source), api) == ()


def test_a_check_names_what_is_wrong_with_its_line(sandbox, api):
    program = Program.read("def score(query, candidates):\n    return {n: len(texts_off(n)) for n in candidates}\n")
    problems = sandbox.check(program, api)
    assert [problem.line for problem in problems] == [2]
    assert "texts_off" in problems[0].message


LIMITS = SandboxLimits(seconds=0.2, memory=64 << 20, output=100_000)
HARMLESS = ("[]", "{}", "<")
"""How that begins which a program may have: nothing, and the names of the interpreter's own objects."""
HANGS = 20.0
"""Seconds after which something hangs, on a machine that does much else."""


@pytest.fixture(scope="module")
def hostile() -> Iterator[Sandbox]:
    with Sandbox(LIMITS) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def limited(demo_kb: KnowledgeBase) -> Api:
    return Api(demo_kb, limits=ApiLimits(calls=100, debug_characters=100_000))


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A file and a port with the canary; the environment has it too."""
    file = tmp_path_factory.mktemp("secrets") / "key"
    file.write_text(CANARY)
    os.environ["KBNAV_TEST_CANARY"] = CANARY
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_give, args=(server,), daemon=True).start()
        yield str(file), str(server.getsockname()[1])
    del os.environ["KBNAV_TEST_CANARY"]


def _give(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.sendall(CANARY.encode())


@pytest.mark.slow
@pytest.mark.parametrize("group", ATTACKS)
def test_no_hostile_program_escapes_or_hangs(group, hostile, limited, canaries):
    """Each ends as it must, gets hold of nothing, and leaves a sandbox that works."""
    file, port = canaries
    wrong = []
    for attack in ATTACKS[group]:
        began = time.perf_counter()
        try:
            program = Program.read(attack.source)
        except BadProgram:
            assert "program" in attack.ends, attack.name
            continue
        outcome = hostile.run(program, file, [port, "place:averhythe"], limited)
        kind = outcome.error.kind if outcome.error else ""
        if attack.ends is not None and kind not in attack.ends:
            wrong.append(f"{attack.name}: ended as {kind!r}: {outcome.error}")
        if got := _got(outcome):
            wrong.append(f"{attack.name}: got hold of {got}")
        if time.perf_counter() - began > HANGS:
            wrong.append(f"{attack.name}: went on for {time.perf_counter() - began:.0f} s")
    assert _an_honest_program_runs(hostile, limited)
    assert not wrong, "\n".join(wrong)


def _an_honest_program_runs(sandbox, api) -> bool:
    """Tried a few times: the limit is short, and the machine may do much else."""
    program = Program.read(Attack("honest", "debug(1)").source)
    return any(sandbox.run(program, "q", ["a", "b"], api).ok for _ in range(5))


def _got(outcome) -> str:
    """What a program told of what it may not have."""
    told = f"{outcome.debug}\n{outcome.error}\n{outcome.scores}"
    found = [mark for mark in (CANARY, "root:x:", "kbnav.settings.model", "Settings(") if mark in told]
    told = [line for line in outcome.debug.splitlines() if line.startswith("GOT ")]
    found += [line[:200] for line in told if not line[4:].startswith(HARMLESS)]
    return ", ".join(found)


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
    with pytest.raises(ProgramLimit, match="3 calls"):
        calls.call("intersect", ([],))
    assert calls.counts == {"intersect": 3}
    slow = Api(demo_kb, limits=ApiLimits(seconds=0.0)).open("q")
    slow.call("intersect", ([],))
    with pytest.raises(ProgramLimit, match="seconds"):
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
        with pytest.raises(ProgramLimit, match="seconds"):
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
