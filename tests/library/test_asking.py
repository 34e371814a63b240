"""The library: a knowledge base is opened, asked, awaited, watched, and what it says is plain data."""

import asyncio
import copy
import gc
import io
import pickle
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import ToolException
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from rich.console import Console

import kbnav
from kbnav.agents.spinach import build_spinach
from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.console import print_run
from kbnav.errors import CredentialsError, ServiceError, Stopped, UsageError
from kbnav.knowledge.open import bundled_mirror, open_kb
from kbnav.knowledge.serving import MirrorServer
from kbnav.models.cancellation import Cancellation
from kbnav.models.scripted import ScriptedModel, says
from kbnav.retrieval.expansion import build_prf
from kbnav.runs.trajectory import Doubt, Outcome, load_run
from kbnav.settings.model import Settings
from tests import typed_caller
from tests.agents.parts import NumbersKB
from tests.apps.web.parts import Explorer
from tests.models.stub import Faltering

MARIE = "Which elements were discovered by Marie Curie?"
ROWS = [{"answer": "Q979", "answerLabel": "polonium"}, {"answer": "Q1128", "answerLabel": "radium"}]
POLONIUM = "SELECT ?who { wd:Q979 wdt:P61 ?who }"


def explorer(*before: AIMessage) -> ScriptedModel:
    """Asks who discovered polonium, finishes, and writes."""
    asks = says(("execute_query", {"query": POLONIUM}))
    return ScriptedModel(replies=[*before, asks, says(("finish", {})), AIMessage("The Curies.")])


async def leave(model: Explorer, asking: Coroutine[Any, Any, object]) -> float:
    """Cancel what is awaited once its model waits; when it ended."""
    task = asyncio.create_task(asking)
    assert await asyncio.to_thread(model.waiting.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return time.monotonic()


@pytest.fixture(scope="module")
def kb(mini_home: Path):
    with kbnav.open("mini", settings=kbnav.Settings(home=mini_home)) as opened:
        yield opened


def test_an_open_knowledge_base_is_searched_read_queried_and_closed(kb):
    assert [(found.id, found.label) for found in kb.search("radium")] == [("Q1128", "radium")]
    assert [found.kind for found in kb.search("discoverer or inventor")] == ["property"]
    assert kb.entry("Q1128", language="de").entity.label == "Radium"
    assert kb.entry(kb.search("radium")[0]) == kb.entry("Q1128")
    links, few = kb.neighbors("Q979", limit=100), kb.neighbors("Q979", limit=2)
    assert "Pierre Curie" in [edge.neighbor.text for edge in links.edges]
    assert (len(few.edges), few.total, links.note) == (2, links.total, "")
    assert f"2 of {links.total}" in few.note
    counted = kb.query("SELECT (COUNT(?who) AS ?n) (2.5 AS ?x) (?n > 1 AS ?many) { wd:Q979 wdt:P61 ?who }")
    assert counted.records() == [{"n": 2, "x": 2.5, "many": True}]
    assert str(kb.query("SELECT (88.0 AS ?whole) (0.5 AS ?half) {}").records()) == "[{'whole': 88, 'half': 0.5}]"
    assert kb.query("ASK { wd:Q979 wdt:P61 wd:Q7186 }").records() == [{"boolean": True}]
    truths = [kb.query(f"{form} {{ wd:Q979 wdt:P61 wd:Q{n} }}") for form in ("ASK", "SELECT *") for n in (7186, 979)]
    assert [bool(one) for one in truths] == [True, False, True, False]
    closed = kbnav.open("mini", settings=kb.settings)
    closed.close()
    with pytest.raises(UsageError, match="the knowledge base mini is closed"):
        closed.query(POLONIUM)
    with pytest.raises(UsageError, match="no knowledge base 'nowhere'"):
        kbnav.open("nowhere")


def test_an_answer_has_text_rows_query_steps_and_a_saved_run(kb):
    steps: list[str] = []
    answer = kbnav.ask(MARIE, kb=kb, on_step=lambda step: steps.append(step.call.tool))
    assert (answer.text, str(answer), answer.status, answer.rows) == ("polonium, radium",) * 2 + ("answered", ROWS)
    assert "wdt:P61 wd:Q7186" in answer.query
    assert answer.link.startswith("https://query.wikidata.org/#SELECT")
    assert sorted(steps) == sorted(step.call.tool for step in answer.steps)  # those side by side end in any order
    assert steps[-2:] == ["execute_query", "finish"]
    saved = load_run(kb.settings.home / "runs" / f"{answer.run.id}.json")
    assert (saved.question, saved.settings["kb"]) == (MARIE, "mini")
    assert "polonium" in kbnav.ask("What is the element with the symbol Po?", kb=kb, language="en").text
    happy = kbnav.ask("Which happy elements were discovered by Marie Curie?", kb=kb)
    left = ["happy", "elements"]
    assert (answer.unused, happy.unused, happy.model_dump(mode="json")["unused"]) == ((), tuple(left), left)


@pytest.mark.parametrize(
    ("question", "language", "text"),
    [
        (MARIE, "de", "Polonium, Radium"),
        (MARIE, "be-tarask", "polonium, radium"),
        ("Wer entdeckte Polonium?", "en", "Marie Curie, Pierre Curie"),
        ("Was Marie Curie a city?", "de", "Nein (keine solche Aussage hier)."),
        ("How old is Marie Curie?", "de", "Geburtsdatum: 1867-11-07; Sterbedatum: 1934-07-04"),
    ],
)
def test_rules_read_a_question_in_its_own_language_and_answer_in_another(kb, question, language, text):
    answer = kbnav.ask(question, kb=kb, language=language)
    assert (answer.text, answer.run.language) == (text, language)


def test_a_cancellation_ends_a_question_from_elsewhere(kb):
    cancellation = Cancellation()
    with pytest.raises(Stopped, match="on request"):
        kbnav.ask(MARIE, kb=kb, on_step=lambda step: cancellation.stop(), cancellation=cancellation)


def test_a_follow_up_knows_the_answer_before(kb):
    first = kbnav.ask("Who discovered polonium?", kb=kb)
    model = explorer()
    second = kbnav.ask("And who found it?", kb=kb, model=model, after=first)
    third = kbnav.ask("Really?", kb=kb, model=explorer(), after=second)
    assert [turn.question for turn in third.run.history] == ["Who discovered polonium?", "And who found it?"]
    assert "Who discovered polonium?" in [message.text for message in model.seen[0]]


def test_any_chat_model_may_be_given_and_what_it_is_asked_is_traced(kb):
    class Listener(BaseCallbackHandler):
        def __init__(self) -> None:
            self.names: dict[object, str] = {}
            self.models: list[tuple[str | None, bool]] = []

        def on_chain_start(self, serialized, inputs, *, run_id, **told):
            self.names[run_id] = told["name"]

        def on_chat_model_start(self, serialized, messages, *, parent_run_id, tags, **told):
            self.models.append((self.names.get(parent_run_id), "mine" in tags))

    listener = Listener()
    answer = kbnav.ask("Who?", kb=kb, model=explorer(), config={"callbacks": [listener], "tags": ["mine"]})
    assert (answer.text, answer.run.model, len(answer.rows)) == ("The Curies.", "scripted", 2)
    assert [name for name in listener.names.values() if name in ("think", "act", "report")] == [
        "think", "act", "think", "act", "report",
    ]  # fmt: skip
    assert listener.models == [("think", True), ("think", True), ("report", True)]


def test_a_knowledge_base_of_ones_own_is_asked_by_a_system_that_is_named(tmp_path):
    model = ScriptedModel(replies=[says(("execute_query", {"query": "SELECT 2"})), says(("finish", {}))])
    settings = kbnav.Settings(home=tmp_path, language="en")
    answer = kbnav.ask("How many?", kb=NumbersKB(), model=model, system=build_spinach, settings=settings)
    assert answer.rows == [{"n": "0"}, {"n": "1"}]
    assert answer.run.settings["kb"] == "numbers"
    with pytest.raises(UsageError, match="nobody"):
        kbnav.ask("How many?", kb=NumbersKB(), system="nobody")
    with pytest.raises(CredentialsError, match="OPENAI_API_KEY"):
        kbnav.ask("How many?", kb=NumbersKB(), model="gpt-4o")


def test_nodes_of_an_skb_are_rows_too(demo_home):
    with kbnav.open("demo", settings=kbnav.Settings(home=demo_home)) as demo:
        answer = kbnav.ask("Which instrument made by somebody from Little Mew has a love letter in it?", kb=demo)
        nodes, (first, *others) = demo.nodes, demo.nodes
        assert (demo.search(first.label)[0].id, len(others) + 1) == (first.id, demo.base.state()["nodes"])
        assert (len(nodes), nodes[0], nodes[-1], [*nodes[1:3]]) == (len(others) + 1, first, others[-1], others[:2])
        assert repr(nodes).startswith(f"<{len(nodes)} nodes: {first.label}, ")
        with pytest.raises(IndexError):
            nodes[len(nodes)]
    assert (answer.rows[0]["rank"], answer.rows[0]["type"]) == (1, "instrument")
    assert ("made by: [person" in answer.query_words, "Little Mew" in answer.query_words, answer.link) == (
        True,
        True,
        "",
    )


def test_questions_are_awaited_side_by_side_and_a_cancelled_one_ends(kb):
    async def both() -> list[str]:
        asked = ("Who discovered polonium?", MARIE)
        return [answer.text for answer in await asyncio.gather(*(kbnav.aask(text, kb=kb) for text in asked))]

    assert asyncio.run(both()) == ["Marie Curie, Pierre Curie", "polonium, radium"]
    with Explorer(held=1) as model:
        asyncio.run(leave(model, kbnav.aask("Who?", kb=kb, model="stub", base_url=model.base_url)))
    last = max((kb.settings.home / "runs").glob("*.json"), key=lambda path: path.stat().st_mtime)
    assert load_run(last).outcome.note == "Stopped on request."
    shown = io.StringIO()
    print_run(Console(file=shown), load_run(last), "")
    assert ("Stopped on request." in shown.getvalue(), "failed" in shown.getvalue()) == (True, False)


def test_a_stream_tells_of_calls_steps_and_the_answer_and_ends_when_it_is_left(kb):
    again = says(("search_entities", {"query": "polonium"}))
    events = list(kbnav.stream("Who?", kb=kb, model=explorer(again, again)))
    kinds = ["call", "step", "dropped", "dropped", "call", "step", "call", "step", "answer"]
    assert [event.kind for event in events] == kinds
    assert [event.step.dropped for event in events if event.kind == "dropped"] == ["rolled back", "repeat"]
    assert events[-1].answer.text == "The Curies."
    left = Faltering(replies=[lambda: time.sleep(0.5) or again])
    leaving = kbnav.stream("Who?", kb=kb, model=left)
    assert next(leaving).call.tool == "search_entities"
    leaving.close()
    assert len(left.seen) <= 2
    with pytest.raises(UsageError, match="the question is empty"):
        next(kbnav.stream(" ", kb=kb))
    cancellation = Cancellation()
    assert len(list(kbnav.stream("Who?", kb=kb, model=explorer(again, again), cancellation=cancellation))) == len(
        events
    )
    stopped = kbnav.stream("Who?", kb=kb, model=explorer(again, again), cancellation=cancellation)
    assert next(stopped).kind == "call"
    cancellation.stop()
    with pytest.raises(Stopped, match="on request"):
        list(stopped)

    async def watched(question: str, **how: Any) -> list[kbnav.Event]:
        return [event async for event in kbnav.astream(question, kb=kb, **how)]

    async def awaited() -> None:
        told = await watched("Who?", model=explorer(again, again))
        assert [(event.kind, event.call) for event in told] == [(event.kind, event.call) for event in events]
        with Explorer(held=1) as model:
            await leave(model, watched("Who?", model="stub", base_url=model.base_url))

    asyncio.run(awaited())


@pytest.mark.parametrize("asked", [kbnav.ask, lambda *given, **how: asyncio.run(kbnav.aask(*given, **how))])
def test_a_call_of_a_model_ends_with_the_time_of_its_question(kb, asked):
    class Endless(ScriptedModel):
        async def _agenerate(self, *args: Any, **kwargs: Any):
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

    ended = threading.Event()
    asked("Who?", kb=kb, model=explorer())  # all that is imported when it is first needed
    settings = kbnav.Settings(home=kb.settings.home, kb="mini", budget={"seconds": 0.5})
    answer = asked("Who?", kb=kb, model=Endless(replies=[]), settings=settings)
    assert "time" in answer.note
    assert ended.wait(10)


def test_a_run_takes_none_of_the_threads_that_its_model_needs(kb):
    class Resolving(ScriptedModel):
        async def _agenerate(self, *args: Any, **kwargs: Any):
            await asyncio.to_thread(int)  # as the address of a host is looked up
            return self._generate(*args, **kwargs)

    async def asked() -> kbnav.Answer:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        settings = kbnav.Settings(home=kb.settings.home, kb="mini", budget={"seconds": 20.0})
        return await kbnav.aask("Who?", kb=kb, model=Resolving(replies=explorer().replies), settings=settings)

    assert asyncio.run(asked()).text == "The Curies."


@pytest.mark.slow
def test_what_strict_types_let_a_caller_write_works(monkeypatch, mini_home):
    monkeypatch.setenv("KBNAV_HOME", str(mini_home))
    with kbnav.open() as kb:
        assert typed_caller.names(kb) == ["radium"]
        assert typed_caller.tools(kb)[0].name == "search_entities"
    assert typed_caller.answered(MARIE).rows == ROWS
    assert asyncio.run(typed_caller.awaited(MARIE)) == typed_caller.graphed(MARIE) == "polonium, radium"
    assert list(typed_caller.watched(MARIE))[-2:] == ["finish", "polonium, radium"]


def test_a_table_becomes_rows_and_a_data_frame_whatever_is_in_it(tmp_path):
    xsd = "http://www.w3.org/2001/XMLSchema#"
    number, wrong = Term("literal", "3", f"{xsd}integer"), Term("literal", "many", f"{xsd}int")
    who = Term("uri", "http://www.wikidata.org/entity/Q7186")
    table = AnswerTable(("who", "n"), ((who, number), (None, wrong)), labels={"Q7186": "Marie"})
    rows = [{"who": "Q7186", "whoLabel": "Marie", "n": 3}, {"who": None, "whoLabel": None, "n": "many"}]
    assert table.records() == rows
    named = replace(table, columns=("who", "whoLabel"))
    assert list(named.records()[0].values()) == ["Q7186", 3]
    assert AnswerTable(("a",)).records() == []
    run = kbnav.ask("?", kb=NumbersKB(), model=ScriptedModel(replies=[]), system="spinach").run
    answer = kbnav.Answer(replace(run, outcome=Outcome("answered", "finish", table=table)))
    pandas = pytest.importorskip("pandas")
    assert answer.to_dataframe()["n"].tolist() == [3, "many"]
    empty = kbnav.Answer(replace(run, outcome=Outcome("answered", "finish", table=AnswerTable(("a",)))))
    assert list(empty.to_dataframe().columns) == ["a"]
    assert isinstance(kbnav.Answer(run).to_dataframe(), pandas.DataFrame)


def greet(context: Any, thought: str, name: str) -> str:
    """Greet somebody.

    Args:
        thought: why.
        name: who.
    """
    return f"Hello, {name}"


def test_an_answer_is_copied_pickled_and_returned_from_fastapi(kb):
    answer = kbnav.ask(MARIE, kb=kb, model="offline")
    sent = pickle.loads(pickle.dumps(answer))
    assert copy.deepcopy(answer).evidence == kb.evidence(answer)
    assert pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(answer)))).evidence == answer.evidence
    assert (sent, sent.rows) == (answer, ROWS)
    with pytest.raises(UsageError, match="was pickled without"):
        _ = sent.evidence
    assert sent.model_dump(mode="json") == {**answer.model_dump(mode="json"), "evidence": None}
    with pytest.raises(ValueError, match="cannot be read back"):
        kbnav.Answer.model_validate_json(answer.model_dump_json())
    app = FastAPI()
    app.get("/bare")(lambda: answer)
    app.get("/typed", response_model=kbnav.Answer)(lambda: answer)
    app.get("/run")(lambda: {"answer": answer, "run": answer.run})
    assert TestClient(app).get("/run").json()["run"]["path"][-1]["call"]["tool"] == "finish"
    for path in ("/bare", "/typed"):
        told = TestClient(app).get(path).json()
        assert (told["text"], told["columns"], told["rows"]) == ("polonium, radium", ["answer"], ROWS)
        assert (told["query"], told["question"], "run" in told) == (answer.query, MARIE, False)
        assert [one["property"] for one in told["evidence"]["rows"][0]] == ["P61", "P31"]
    schema = TestClient(app).get("/openapi.json").json()["components"]["schemas"]["AnswerDocument"]["properties"]
    assert schema.keys() == answer.model_dump().keys() == told.keys()
    assert schema["rows"]["type"] == "array"
    nan = Term("literal", "NaN", "http://www.w3.org/2001/XMLSchema#double")
    table = AnswerTable(("n",), ((nan,),))
    answer = kbnav.Answer(replace(answer.run, outcome=Outcome("answered", "finish", table=table)))
    assert TestClient(app).get("/bare").json()["rows"] == [{"n": None}]


def test_where_there_is_no_answer_the_note_says_why(kb):
    reason = "Without a language model, “sky” could not be used for an answer."
    answer = kbnav.ask("Why is the sky blue?", kb=kb)
    assert (answer.status, answer.text, answer.note, str(answer)) == ("no answer", "", reason, reason)
    limited = kbnav.Answer(replace(answer.run, outcome=Outcome("no answer", "step budget")))
    assert limited.note == "No answer was found: the steps were used up."


def test_nodes_are_retrieved_without_an_agent(demo_home, kb):
    settings = kbnav.Settings(home=demo_home)
    with kbnav.open("demo", settings=settings) as demo:
        found = kbnav.retrieve("spruce from a wreck", kb=demo, k=np.int64(3))
        assert [row["rank"] for row in found.rows] == [1, 2, 3]
        assert found.rows[0]["id"] == "material:hartsworth-spruce"
        assert load_run(demo_home / "runs" / f"{found.run.id}.json").system == "bm25"
        only = asyncio.run(kbnav.aretrieve("spruce", kb=demo, system="graph-rank", options={"candidates": "ship"}))
        assert {row["type"] for row in only.rows} == {"ship"}
        with pytest.raises(TypeError, match="entry"):
            demo.nodes["ship:heron"]
        assert None not in [row["eLabel"] for row in demo.query("SELECT ?e { ?e a ?type }").records()]
        assert kbnav.retrieve("spruce", kb=demo, system=build_prf).run.system == "prf"
        for k, named, said in ((0, {}, "1 or more"), (3, {}, "without name"), (3, {"name": "it"}, "it gives a list")):
            wrong = SimpleNamespace(prompts={}, retrieve=lambda *_: [], **named)
            with pytest.raises(UsageError, match=said):
                kbnav.retrieve("spruce", kb=demo, k=k, system=lambda kb, settings, wrong=wrong: wrong)
        with pytest.raises(UsageError, match=r"kbnav\.retrieve in Python"):
            kbnav.ask("Who?", kb=demo, system="bm25")
    with pytest.raises(UsageError, match="needs an SKB"):
        kbnav.retrieve("spruce", kb=kb)


def test_results_are_looped_over_and_become_data_frames(kb):
    pandas = pytest.importorskip("pandas")
    assert list(pandas.DataFrame(kb.query(POLONIUM))["whoLabel"]) == ["Marie Curie", "Pierre Curie"]
    assert list(pandas.DataFrame(kbnav.ask(MARIE, kb=kb))["answerLabel"]) == ["polonium", "radium"]
    every = pandas.DataFrame(kb.query("SELECT DISTINCT ?thing { ?thing wdt:P31 ?kind }"))
    assert (len(every) > 100, every["thingLabel"].notna().all()) == (True, True)
    links = pandas.DataFrame(kb.neighbors("Q979", relation="P61", direction="out"))
    assert set(links["neighborLabel"]) == {"Marie Curie", "Pierre Curie"}


def test_objects_are_tools_methods_and_those_of_langchain(kb):
    class Clock:
        def weekday(self, context: object, thought: str, day: int = 1) -> str:
            """Name a day of the week.

            Args:
                thought: Why.
                day: Its number.
            """
            return ["Monday", "Tuesday"][day - 1]

    @langchain_tool
    def double(number: int) -> int:
        """Double a number."""
        if number < 0:
            raise ToolException("no debts")
        return 2 * number

    @langchain_tool
    async def later(number: int) -> int:
        """Add one, some time."""
        return number + 1

    turns = [("weekday", {"day": 2}), ("double", {"number": 21}), ("double", {"number": -1}), ("double", {})]
    turns += [("later", {"number": 1}), ("weekday", {"day": 9})]
    calls = [says(one) for one in (*turns, ("execute_query", {"query": POLONIUM}), ("finish", {}))]
    model = ScriptedModel(replies=[*calls, AIMessage("Them.")])
    answer = kbnav.ask("Who?", kb=kb, model=model, tools=[Clock().weekday, double, later])
    seen = [step.observation for step in answer.steps]
    assert seen[:3] == ["Tuesday", "42", "no debts"]
    assert "number" in seen[3]
    assert seen[4] == "2"
    assert "weekday failed: IndexError" in seen[5]
    assert answer.run.settings["with_tools"] == ["weekday", "double", "later"]


STOCK = [{"article": "tin", "pieces": 3, "kilos": 0.5, "sold": True}, {"article": "lead", "pieces": 0}]


def stock(context: Any, thought: str, shop: str) -> Any:
    """Look up what a shop has.

    Args:
        thought: Why.
        shop: Which.
    """
    return STOCK


def test_rows_that_a_tool_of_ones_own_gives_can_be_the_answer(kb):
    def answered(*calls: tuple[str, dict[str, Any]]) -> kbnav.Answer:
        model = ScriptedModel(replies=[*map(says, calls), AIMessage("In words.")])
        return kbnav.ask("What is there?", kb=kb, model=model, tools=[stock])

    looked, asked = ("stock", {"shop": "a"}), ("execute_query", {"query": POLONIUM})
    alone = answered(looked, ("finish", {}))
    whole = [STOCK[0], {**STOCK[1], "kilos": None, "sold": None}]
    assert (alone.status, alone.text, alone.rows, alone.query) == ("answered", "In words.", whole, "")
    named = answered(asked, looked, ("finish", {"result": 2, "columns": "article"}))
    assert named.rows == [{"article": "tin"}, {"article": "lead"}]
    assert answered(asked, looked, ("finish", {"result": 1})).query == POLONIUM


@pytest.mark.parametrize(
    "wrong",
    [
        lambda kb: kbnav.ask(None, kb=kb),
        lambda kb: kbnav.ask("Who?", kb=kb, settings={"model": "gpt-4o"}),
        lambda kb: kbnav.open("mini", settings={"language": "de"}),
        lambda kb: kbnav.Settings(budget={"dolars": 1}),
        lambda kb: kbnav.ask("Who discovered polonium?", kb=kb, language="german"),
        lambda kb: kbnav.ask("Who discovered polonium?", kb=kb, language="xx"),
        lambda kb: kb.query(POLONIUM, language="de,en"),
        lambda kb: kbnav.ask("Who discovered polonium?", kb=kb, modle="gpt-4o"),
        lambda kb: kbnav.ask("Who discovered polonium?", kb=42),
        lambda kb: kbnav.ask("Who discovered polonium?", kb=kb, model=42),
        lambda kb: asyncio.run(kbnav.aask("Who discovered polonium?", kb=kb, cancellation=Cancellation())),
        lambda kb: list(kbnav.stream("Who discovered polonium?", kb=kb, on_step=print)),
        lambda kb: kbnav.ask("Who discovered polonium?", kb=kb, model=explorer(), tools=greet),
        lambda kb: kbnav.ask("Who discovered polonium?", kb=kb, system=lambda kb: None),
        lambda kb: kbnav.ask("How many?", kb=NumbersKB()),
        lambda kb: kbnav.ask("When was she born?", kb=kb, after="Marie Curie"),
        lambda kb: kbnav.ask("Who?", kb=kb, options="preset=paper"),
        lambda kb: kbnav.ask("Who?", kb=kb, options={"with_tools": ["greet"]}),
        lambda kb: kbnav.ask("Who?", kb=kb, on_step=1),
        lambda kb: kb.search(None),
        lambda kb: kb.query(kb.search),
        lambda kb: kb.neighbors("Q979", direction="up"),
        lambda kb: kb.neighbors("Q979", limit="3"),
        lambda kb: kb.search("radium", limit="3"),
        lambda kb: kbnav.ask("Who?", kb=kb, config=5),
        lambda kb: kbnav.graph(kb).invoke({"messages": [HumanMessage(MARIE), AIMessage("Radium.")]}),
    ],
)
def test_what_is_of_a_wrong_type_or_name_is_refused(kb, wrong):
    said = r"is a text|takes kbnav|dollars|did you mean '(model|settings)'|no language code, such as en, de"
    said += "|no argument '(cancellation|on_step)|takes (the Answer|a |names|SPARQL|one of out)|kb and set"
    with pytest.raises((UsageError, TypeError), match=f"{said}|rules cannot ask numbers|end with a q|Settings.with_t"):
        wrong(kb)


@pytest.mark.parametrize("error", [ValueError("too hot"), KeyError("city"), TypeError("no"), RuntimeError("down")])
def test_the_error_of_a_model_of_ones_own_comes_as_it_is(kb, error):
    for ask in (
        lambda model: kbnav.ask("Who?", kb=kb, model=model),
        lambda model: list(kbnav.stream("Who?", kb=kb, model=model)),
        lambda model: kbnav.graph(kb, model=model).invoke({"question": "Who?"}),
    ):
        with pytest.raises(type(error)) as raised:
            ask(Faltering(replies=[error]))
        assert raised.value is error


def test_a_finish_that_nothing_came_before_says_why_it_was_not_accepted(kb):
    model = ScriptedModel(replies=[says(("greet", {"name": "Ann"})), *[says(("finish", {"answer": "42 EUR"}))] * 40])
    steps: list[Any] = []
    answer = kbnav.ask("How much?", kb=kb, model=model, tools=[greet], on_step=steps.append)
    refused = [step for step in steps if step.dropped == "premature finish"]
    assert (answer.status, {step.ok for step in refused}) == ("no answer", {False})
    assert all("a tool's text is none" in text for text in (answer.note, *(step.observation for step in refused)))


def test_an_answer_is_printed_and_shown_in_a_notebook_as_what_it_says(kb, demo_home):
    answer = kbnav.ask(MARIE, kb=kb)
    assert repr(answer) == "<Answer 'polonium, radium': answered, rows: 2>"
    told = "polonium (Q979) — discoverer or inventor (P61) — Marie Curie (Q7186)"
    assert str(answer.evidence).splitlines()[0] == told
    assert (str(Doubt("one")), len({answer, answer})) == (Doubt("one").text, 1)
    assert {"text", "rows", "to_dataframe"} <= {*dir(answer)} - {"parse_obj", "schema", "_look"} == {*dir(answer)}
    assert repr(kb.search("radium")[0]).startswith("Entity(id='Q1128', label='radium', description='chemical")
    assert repr(kb.query(POLONIUM)).endswith("{'who': 'Q37463', 'whoLabel': 'Pierre Curie'}], rows: 2>")
    assert max(len(repr(one)) for one in (*answer.steps, answer.run, answer.evidence)) < 3000
    assert str(answer.run.outcome.table).splitlines()[::2] == ["| answer | answerLabel |", "| Q979 | polonium |"]
    assert "<td>answerLabel</td></tr><tr><td>Q979</td><td>polonium</td>" in answer._repr_html_()
    odd = AnswerTable.from_records([{"a": "<b>"}] * 30)
    html = kbnav.Answer(replace(answer.run, outcome=Outcome("answered", "finish", table=odd)))._repr_html_()
    assert (html.count("&lt;b&gt;"), "<b>" in html, "30" in html) == (10, False, True)
    found = kbnav.retrieve("spruce from a wreck", kb="demo", k=12, settings=kbnav.Settings(home=demo_home))
    assert str(found).splitlines()[0] == "1. Hartsworth spruce (material:hartsworth-spruce)"
    assert len(str(found).splitlines()) == 10


def test_functions_are_tools_and_a_model_that_calls_none_is_refused(kb, caplog):
    calls = [says(("greet", {"name": "Ann"})), says(("execute_query", {"query": POLONIUM})), says(("finish", {}))]
    answer = kbnav.ask("Who?", kb=kb, model=ScriptedModel(replies=[*calls, AIMessage("Them.")]), tools=[greet])
    assert answer.steps[0].observation == "Hello, Ann"
    with pytest.raises(UsageError, match="docstring"):
        kbnav.ask("Who?", kb=kb, model=explorer(), tools=[lambda context, thought: ""])
    bare = lambda context, thought, name: ""  # noqa: E731
    bare.__doc__ = greet.__doc__
    with pytest.raises(UsageError, match="cannot be a tool"):
        kbnav.ask("Who?", kb=kb, model=explorer(), tools=[partial(greet)])
    with pytest.raises(UsageError, match="no type is given of thought, name"):
        kbnav.ask("Who?", kb=kb, model=explorer(), tools=[bare])
    with pytest.raises(UsageError, match="rules answer here, which call no tools"):
        kbnav.ask("Who?", kb=kb, model="offline", tools=[greet])
    assert "greet" in [tool.name for tool in kbnav.langchain_tools(kb, tools=[greet])]
    chosen = kbnav.langchain_tools(kb, tools=["get_entry", greet, "search_entities"])
    assert [tool.name for tool in chosen] == ["search_entities", "get_entry", "greet"]
    assert caplog.text == ""  # the error says what rules do not call, and an agent elsewhere calls what it is given
    for wrong, said in ((["get_entri"], "did you mean 'get_entry'"), ("get_entry", "a list of tools")):
        with pytest.raises(UsageError, match=said):
            kbnav.langchain_tools(kb, tools=wrong)
    with pytest.raises(kbnav.KbnavError, match="FakeListChatModel cannot call tools"):
        kbnav.ask("Who?", kb=kb, model=FakeListChatModel(responses=["x"]))


def an_agent(model: ScriptedModel, tools: list) -> object:
    """LangGraph's own example of an agent: a model, a node of tools, and a way back."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.bind_tools(tools).invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


def without_thought(tool: str, **arguments: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": "1"}])


def test_somebody_elses_agent_navigates_with_the_tools(mini_home):
    tools = kbnav.langchain_tools("mini", settings=kbnav.Settings(home=mini_home, language="en"))
    gc.collect()  # nothing but the tools holds the knowledge base, which must stay open
    names = ["search_entities", "get_entry", "get_property_examples", "execute_query", "search_neighbors"]
    assert [tool.name for tool in tools] == names
    assert tools[3].args.keys() == {"thought", "query"}
    replies = [
        without_thought("search_entities", query="polonium"),
        says(("execute_query", {"query": POLONIUM})),
        without_thought("execute_query", query="SELECT nothing"),
        without_thought("get_entry"),
        AIMessage("The Curies."),
    ]
    said = an_agent(ScriptedModel(replies=replies), tools).invoke({"messages": [HumanMessage("Who?")]})["messages"]
    found, rows, broken, wrong = (message for message in said if isinstance(message, ToolMessage))
    assert "polonium (Q979)" in found.text
    assert len(rows.artifact) == 2
    assert (found.status, rows.status, broken.status, wrong.status) == ("success", "success", "error", "error")
    assert "syntax error at line 1" in broken.text
    assert "entity_id: Field required" in wrong.text
    assert asyncio.run(tools[0].ainvoke({"query": "radium"})).startswith("radium (Q1128)")


def test_a_graph_is_invoked_awaited_and_streamed_with_a_question_or_messages(kb):
    graph = kbnav.graph(kb, model=explorer())
    nodes = [name for update in graph.stream({"question": "Who?"}, stream_mode="updates") for name in update]
    assert nodes == ["begin", "think", "act", "think", "act", "report", "answer"]
    offline = kbnav.graph(kb)
    state = offline.invoke({"question": MARIE})
    assert (state["answer"], len(state["outcome"].table)) == ("polonium, radium", 2)
    assert offline.get_input_jsonschema()["properties"].keys() == {"question", "messages"}
    assert {"answer", "outcome"} < offline.get_output_jsonschema()["properties"].keys()
    said = asyncio.run(offline.ainvoke({"messages": [HumanMessage("Who discovered polonium?")]}))["messages"]
    assert [message.text for message in said] == ["Who discovered polonium?", "Marie Curie, Pierre Curie"]
    custom = [event.kind for event in offline.stream({"question": MARIE}, stream_mode="custom")]
    assert custom[0] == "call"
    assert custom[-1] == "step"


def test_a_graph_is_a_node_of_a_larger_one(kb):
    larger = StateGraph(MessagesState)
    larger.add_node("wikidata", kbnav.graph(kb))
    larger.add_edge(START, "wikidata")
    said = larger.compile().invoke({"messages": [HumanMessage(MARIE)]})["messages"]
    assert [message.text for message in said] == [MARIE, "polonium, radium"]


def test_a_thread_is_a_chat_and_is_read_back_without_a_warning(kb, caplog):
    model = ScriptedModel(replies=explorer().replies * 4)
    graph = kbnav.graph(kb, model=model, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    questions = ["Who?", "Who?", "And then?", "And before?"]
    for asked in (*({"question": one} for one in questions[:3]), {"messages": [HumanMessage(questions[3])]}):
        state = graph.invoke(asked, thread)
        assert [turn.question for turn in state["history"]] == questions[: len(state["history"])]
    said = [text for question in questions for text in (question, "The Curies.")]
    assert ([message.text for message in state["messages"]], len(state["history"])) == (said, 3)
    assert "unregistered" not in caplog.text


def test_a_task_that_is_cancelled_gives_up_its_call_of_the_model_and_goes_on_later(kb):
    thread = {"configurable": {"thread_id": "1"}}
    with Explorer(held=1) as model:
        own = kb.settings.model_copy(update={"model_timeout": 30.0, "model_retries": 0, **model.options()})
        graph = kbnav.graph(kb, settings=own, checkpointer=InMemorySaver())
        ended = asyncio.run(leave(model, graph.ainvoke({"question": "Who?"}, thread)))
        assert time.monotonic() - ended < 20  # the loop waits for its threads when it ends
        model.go_on.set()
        assert graph.invoke(None, thread)["answer"] == "Polonium and radium."


def test_a_dead_service_raises_and_what_was_not_ended_goes_on_in_its_thread(tmp_path):
    settings = kbnav.Settings(home=tmp_path, language="en")
    down = ScriptedModel(replies=[says(("execute_query", {"query": "SELECT down"}))])
    with pytest.raises(ServiceError, match="the query service is down"):
        kbnav.graph(NumbersKB(), model=down, system="spinach", settings=settings).invoke({"question": "How many?"})
    memory, thread = InMemorySaver(), {"configurable": {"thread_id": "1"}}
    first = ScriptedModel(replies=[says(("execute_query", {"query": "SELECT 2"}))])
    begun = kbnav.graph(NumbersKB(), model=first, system="spinach", settings=settings, checkpointer=memory)
    begun.invoke({"question": "How many?"}, thread, interrupt_after=["act"])
    second = ScriptedModel(replies=[says(("finish", {})), AIMessage("Two.")])
    later = kbnav.graph(NumbersKB(), model=second, system="spinach", settings=settings, checkpointer=memory)
    state = later.invoke(None, thread)
    assert (state["answer"], len(state["outcome"].table)) == ("Two.", 2)


def test_a_served_mirror_is_known_to_be_one_by_its_url(mini_home, tmp_path):
    with MirrorServer(bundled_mirror(mini_home)) as server, open_kb(Settings(kb=server.url, home=tmp_path)) as kb:
        assert kb.state()["mirror"]["built"].startswith("20")
        assert kb.labels(["Q7186"]) == {"Q7186": "Marie Curie"}
