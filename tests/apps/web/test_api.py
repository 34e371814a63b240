"""The REST API, and the traces of what is asked of it."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from unittest.mock import Mock

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from kbnav.agents.common.agent import Agent
from kbnav.apps.web.service import open_service
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.build import build as build_skb
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.maintenance import update
from kbnav.knowledge.wikidata.kb import WikidataKB
from kbnav.models.cancellation import Cancellation, in_thread
from kbnav.settings.model import Settings
from tests.apps.web.own_agent import build
from tests.apps.web.parts import MARIE, Explorer, Server, Visit, web_settings
from tests.knowledge.skb.sources import BARE
from tests.models.stub import Canned


def test_a_question_without_a_session_is_answered_in_one_call(visit):
    visit.http.cookies.clear()  # the answer brings one
    answer = visit("POST", "/api/ask", {"question": "Who discovered polonium?", "kb": "mini"}).json()
    assert (answer["status"], answer["text"]) == ("answered", "Marie Curie, Pierre Curie")
    rows = visit("GET", f"/api/results/{answer['result']['id']}/rows").json()
    assert [cell["id"] for (cell,) in rows["rows"]] == ["Q7186", "Q37463"]
    visit.http.cookies.clear()
    session = visit("POST", "/api/sessions", {"question": MARIE}).json()["id"]
    listed = visit("GET", "/api/sessions?find=Marie").text
    visit.http.cookies.clear()
    assert session not in listed + visit("GET", "/api/sessions").text


def test_systems_are_offered_with_what_they_do_and_only_those_named_where_some_are(visit, fresh_home):
    kbs = {one["key"]: one for one in visit("GET", "/api/options").json()["kbs"]}
    assert kbs["mini"]["systems"] == ["spinach"]  # the others there need a model
    assert kbs["mini"]["about"] == [
        {
            "name": "spinach",
            "about": "Looks things up step by step, and writes queries (SPARQL).",
            "needs": [],
            "uses": ["model"],
        }
    ]
    module = "tests.apps.web.own_agent:build"
    with Server(web_settings(fresh_home, "mini", web_systems=(module, "skb"))) as server:
        own = Visit(server.url)
        assert [one["systems"] for one in own("GET", "/api/options").json()["kbs"]] == [[module]]
        assert own("POST", "/api/sessions", {"system": "spinach"}).status_code == 404
        assert own("POST", "/api/sessions", {"system": "os:system"}).status_code == 404
        for _ in range(2):  # what others' systems go by is not known
            run = own.answered(own.session(), "Who discovered polonium?")
            assert (run["system"], run["status"], run["answer"]["repeated"]) == (module, "done", False)
    with (
        pytest.raises(UsageError, match="none of the systems skb answers questions of"),
        open_service(web_settings(fresh_home, "mini", web_systems=("skb",))),
    ):
        pass


BEGUN, GO_ON = threading.Event(), threading.Event()


def slowly_built(kb: KnowledgeBase, settings: Settings) -> Agent:
    """As one that loads a model."""
    BEGUN.set()
    GO_ON.wait(5)
    return build(kb, settings)


def test_while_a_system_is_built_others_are_at_work(fresh_home):
    name = f"{__name__}:slowly_built"
    with open_service(web_settings(fresh_home, "mini", web_systems=(name, "spinach"))) as service:
        slow = in_thread(partial(service.system, "mini", name, "offline"))
        assert BEGUN.wait(5)
        assert Cancellation().run(partial(service.system, "mini", "spinach", "offline"), 1)[1].name == "spinach"
        GO_ON.set()
        assert slow.result(5) is service.system("mini", name, "offline")


def test_a_server_answers_from_what_has_replaced_an_skb_else_from_the_old_one(fresh_home, tmp_path, monkeypatch):
    rows, path = tmp_path / "n.csv", tmp_path / "own.skb"
    rows.write_text("id,name,type\n1,Ada,person\n")
    build_skb(TableSource([rows]), path, BARE)
    with open_service(web_settings(fresh_home, str(path))) as service:
        asked = ("own.skb", "skb", "offline")
        old = service.system(*asked)
        assert service.system(*asked) is old
        rows.write_text("id,name,type\n2,Eva,person\n")
        update(path, TableSource([rows]), BARE)
        assert service.kb() is old[0]  # until a thread that answers a question has opened the new build
        with monkeypatch.context() as patch:
            patch.setattr("kbnav.apps.web.service.open_kb", opening := Mock(side_effect=OSError("Too many files")))
            assert [service.system(*asked), service.system(*asked)] == [old, old]
        assert (opening.call_count, service.system(*asked)) == (1, old)  # until it changes again
        update(path, TableSource([rows]), BARE)
        new = service.system(*asked)
        assert new[1].kb is new[0].kb is service.kb().kb
        assert [one.kb.labels(["1", "2"]) for one, _ in (old, new)] == [{"1": "Ada"}, {"1": "Ada", "2": "Eva"}]
        (path / "meta.json").write_text("{}")
        assert service.system(*asked) is new


@pytest.mark.parametrize(
    ("kb", "question"), [("mini", "Who discovered radium?"), ("demo", "Which person was born in Little Mew?")]
)
def test_what_rules_have_answered_is_told_again_to_others_as_it_was_found(server, kb, question):
    first, second = Visit(server.url), Visit(server.url)
    found, told = (one.answered(one.session(kb=kb), question) for one in (first, second))
    assert (found["answer"]["repeated"], told["answer"]["repeated"]) == (False, True)
    own = {"run", "result", "seconds", "requests", "repeated"}
    assert len({json.dumps({**run["answer"], **dict.fromkeys(own)}) for run in (found, told)}) == 1
    steps, again = ([{**event, "at": 0} for event in run["events"][:-1]] for run in (found, told))
    assert again == steps
    assert told["answer"]["run"] != found["answer"]["run"]
    base = [f"/api/results/{run['answer']['result']['id']}" for run in (found, told)]
    for part in ("/rows", "/evidence?row=0", "/csv"):
        assert second("GET", base[1] + part).text == first("GET", base[0] + part).text
    assert second("GET", base[0] + "/rows").status_code == 404
    once = second("POST", "/api/ask", {"question": question, "kb": kb}).json()
    assert (once["text"], once["repeated"]) == (told["answer"]["text"], True)
    assert second.answered(told["session"], question)["answer"]["repeated"] is False  # it may be read in another way


def test_a_session_begins_with_its_first_question_and_the_first_rows_come_with_the_end(visit):
    begun = visit("POST", "/api/sessions", {"kb": "mini", "question": "Who discovered polonium?"}).json()
    (run,) = begun["runs"]
    assert (begun["id"], run["question"]) == (run["session"], "Who discovered polonium?")
    assert begun["title"] == run["question"]
    end = list(visit.events(run["id"]))[-1]
    rows = visit("GET", f"/api/results/{run['id']}/rows").json()
    assert end["rows"] == rows
    assert [cell["text"] for (cell,) in rows["rows"]] == ["Marie Curie", "Pierre Curie"]
    assert visit("GET", f"/api/sessions/{begun['id']}").json()["runs"][0]["status"] == "done"
    assert visit("POST", "/api/sessions", {"kb": "mini", "question": " "}).status_code == 422
    assert [one["id"] for one in visit("GET", "/api/sessions").json()] == [begun["id"]]


def test_a_follow_up_knows_the_question_before_also_where_that_was_told_again(visit):
    visit.answered(visit.session(kb="mini"), "Who discovered polonium?")
    session = visit.session(kb="mini")
    visit.answered(session, "Who discovered polonium?")
    run = visit.answered(session, "When was it discovered?")
    assert "wd:Q979 wdt:P575" in run["answer"]["query"]
    assert [one["question"] for one in visit("GET", f"/api/sessions/{session}").json()["runs"]] == [
        "Who discovered polonium?",
        "When was it discovered?",
    ]


def test_events_are_streamed_numbered_and_go_on_behind_a_number(visit):
    run = visit.ask(visit.session(), "Who discovered polonium?")
    told = list(visit.events(run["id"]))
    assert [event["id"] for event in told] == list(range(1, len(told) + 1))
    kinds = [event["kind"] for event in told]
    assert (kinds[0], kinds[-1]) == ("started", "end")
    assert kinds.count("call") == kinds.count("step") >= 3
    later = list(visit.events(run["id"], headers={"Last-Event-ID": "4"}))
    assert later == told[4:]


def test_rows_are_sorted_by_value_and_paged_and_labels_of_the_sorted_column_alone_are_looked_up(visit, monkeypatch):
    query = "SELECT ?element ?number { ?element wdt:P1086 ?number }"
    result = visit("POST", "/api/queries", {"query": query, "kb": "mini"}).json()["result"]
    path = f"/api/results/{result['id']}/rows"
    page = visit("GET", f"{path}?sort=number&descending=true&count=3").json()
    numbers = [int(number["text"]) for _, number in page["rows"]]
    every = visit("GET", f"{path}?count=500").json()["rows"]
    assert numbers == sorted((int(number["text"]) for _, number in every), reverse=True)[:3]
    second = visit("GET", f"{path}?sort=number&descending=true&count=1&start=1").json()
    assert second["rows"][0] == page["rows"][1]
    assert visit("GET", f"{path}?sort=nothing").status_code == 422
    many = (
        "SELECT ?thing ?of { ?thing wdt:P31 [] . [] wdt:P246|wdt:P1086 ?of } ORDER BY ?thing"  # not all have labels yet
    )
    path = f"/api/results/{visit('POST', '/api/queries', {'query': many, 'kb': 'mini'}).json()['result']['id']}/rows"
    asked, labels = list[str](), WikidataKB.labels
    monkeypatch.setattr(WikidataKB, "labels", lambda kb, ids, **more: asked.extend(ids) or labels(kb, ids, **more))
    assert (visit("GET", f"{path}?sort=of&count=1").status_code, len(asked) <= 1) == (200, True)  # of what is shown
    things = [visit("GET", f"{path}?sort=thing&start={at}&count=1").json()["rows"][0][0] for at in range(0, 9000, 900)]
    assert [one["text"] for one in things] == sorted((one["text"] for one in things), key=str.casefold)
    assert 10 < len(asked) <= len(set(asked)) + 11  # once, and again where one is shown


@pytest.mark.parametrize("query", ["DELETE WHERE { ?s ?p ?o }", "SELECT ?x { ?x SERVICE <http://x/> {} }", "SELECT"])
def test_a_query_that_may_not_or_cannot_run_is_refused_with_a_reason(visit, query):
    response = visit("POST", "/api/queries", {"query": query, "kb": "mini"})
    assert response.status_code == 422
    assert response.json()["detail"]


def test_a_deleted_session_is_forgotten(server, visit):
    session = visit.session(kb="mini")
    answered = visit.answered(session, "Who discovered polonium?")
    run, saved = answered["id"], server.app.state.parts.settings.home / "runs" / f"{answered['answer']['run']}.json"
    assert saved.is_file()
    assert "content-type" not in visit("DELETE", f"/api/sessions/{session}").headers
    for path in (f"/api/sessions/{session}", f"/api/runs/{run}", f"/api/results/{run}/rows"):
        assert visit("GET", path).status_code == 404
    assert not saved.exists()
    assert session not in [one["id"] for one in visit("GET", "/api/sessions").json()]


def test_the_text2sparql_interface_gives_the_query(visit):
    question, dataset = "Who discovered polonium?", "https://example.org/elements"
    response = visit("GET", "/", params={"question": question, "dataset": dataset})
    assert response.json() == {
        "dataset": dataset,
        "question": question,
        "query": "SELECT DISTINCT ?answer WHERE { wd:Q979 wdt:P61 ?answer . }",
    }
    assert visit("GET", "/", params={"question": question, "dataset": "https://example.org/x"}).status_code == 404
    assert visit("HEAD", "/").status_code == 200  # as monitors ask


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans that end meanwhile."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def test_a_question_is_a_trace_with_its_calls_in_it(fresh_home, spans):
    with Explorer() as model, Server(web_settings(fresh_home, **model.options())) as server:
        visit = Visit(server.url)
        visit.answered(visit.session(), MARIE)
    ended = spans.get_finished_spans()
    (root,) = [span for span in ended if span.name == "invoke_agent spinach"]
    assert root.attributes["gen_ai.request.model"] == "stub"
    inside = [span for span in ended if span is not root]
    tools = {f"execute_tool {name}" for name in ("search_entities", "execute_query", "finish")}
    assert {span.name for span in inside} == {"chat stub", *tools}
    assert {span.parent and span.parent.span_id for span in inside} == {root.context.span_id}
    chat = next(span for span in inside if span.name == "chat stub")
    assert int(str(chat.attributes["gen_ai.usage.input_tokens"])) > 0
    assert "Marie" not in "".join(span.to_json() for span in ended), "what was asked stays out of traces"


def test_a_failure_marks_its_span_and_tells_no_message(fresh_home, spans):
    class Broken(Explorer):
        def reply(self, asked: object) -> Canned:
            return Canned(b'{"error": {"message": "key sk-1234 is wrong"}}', 401)

    with Broken() as model, Server(web_settings(fresh_home, **model.options())) as server:
        visit = Visit(server.url)
        assert visit.answered(visit.session(), MARIE)["status"] == "failed"
    (chat,) = [span for span in spans.get_finished_spans() if span.name == "chat stub"]
    (root,) = [span for span in spans.get_finished_spans() if span.name.startswith("invoke_agent")]
    assert chat.attributes["error.type"] == "OpenAIAuthenticationError"
    assert root.attributes["error.type"] == "CredentialsError"
    assert not chat.status.is_ok
    assert "sk-1234" not in chat.to_json()


CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]
EXAMPLES = 8
"""Requests made up for each operation."""


@pytest.mark.slow
def test_no_made_up_request_breaks_the_server_or_is_answered_otherwise_than_described(server):
    visit = Visit(server.url)
    described = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) > 20
    for operation in operations:

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def holds(case: schemathesis.Case) -> None:
            response = case.call(base_url=server.url, session=visit.http, timeout=60)
            case.validate_response(response, checks=CHECKS)

        given(case=operation.as_strategy())(holds)()
