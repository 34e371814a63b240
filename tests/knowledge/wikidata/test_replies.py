"""Whatever a service sends, the readers give data or one of kbnav's errors."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import (
    BadArguments,
    BadResponse,
    Banned,
    CredentialsError,
    KbnavError,
    QueryRefused,
    QuerySyntaxError,
    QueryTimeout,
    ServiceError,
    UnknownId,
)
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.http_store import Throttle
from kbnav.knowledge.open import QLEVER, open_kb
from kbnav.knowledge.replies import LEFT_OUT, Again, Lagged, Reply, read_query
from kbnav.knowledge.sparql.vocabulary import LABEL_SERVICE, STANDARD_PREFIXES
from kbnav.knowledge.wikidata.api import read_api
from kbnav.knowledge.wikidata.kb import QueryService
from kbnav.settings.model import Endpoints, Settings
from tests.clock import Clock
from tests.knowledge.wikidata.serving import JSON, ROWS, Answer, Asked, client, serving

JSON_ROWS = b"""{ "head" : { "vars" : [ "item", "n" ] }, "results" : { "bindings" : [ {
  "item" : { "type" : "uri", "value" : "http://www.wikidata.org/entity/Q1" },
  "n" : { "datatype" : "http://www.w3.org/2001/XMLSchema#integer", "type" : "literal", "value" : "1" } } ] } }"""
TRACE = (
    b"SPARQL-QUERY: queryStr=SELECT ?syntax WHERE { ?s ?p 'TimeoutException' }\n"
    b"java.util.concurrent.ExecutionException: java.util.concurrent.ExecutionException: %b\n"
    b"\tat java.util.concurrent.FutureTask.report(FutureTask.java:122)\n"
    b"Caused by: java.util.concurrent.TimeoutException\n"
)


def query_error(status: int, body: bytes, media: str = "text/plain") -> KbnavError:
    with pytest.raises(KbnavError) as caught:
        read_query(Reply(status, body, {"content-type": media}, "https://query.example.org/sparql"))
    return caught.value


@given(st.integers(0, len(JSON_ROWS) - 1), st.binary(max_size=40), st.sampled_from([200, 400, 404, 429, 500, 503, 504]))
def test_an_answer_cut_anywhere_with_anything_behind_it_is_an_error(at, behind, status):
    reply = Reply(status, JSON_ROWS[:at] + behind, {"content-type": "application/sparql-results+json"})
    for read in (read_query, read_api):
        with suppress(KbnavError, Again):
            read(reply)


@given(st.integers(30, len(JSON_ROWS) - 1))
def test_a_trace_spliced_in_anywhere_is_a_timeout(at):
    spliced = JSON_ROWS[:at] + TRACE % b"java.util.concurrent.TimeoutException"
    assert isinstance(query_error(200, spliced, "application/sparql-results+json"), QueryTimeout)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"Virtuoso S1T00 Error SR171: Transaction timed out"),
        (429, b'{"exception": "Operation timed out. The limit was 30s", "status": "ERROR"}'),
        (200, b'{"exception": "Operation timed out.", "status": "ERROR"}'),
        (504, b"<html><head><title>504 Gateway Time-out</title></head></html>"),
    ],
)
def test_the_timeouts_of_other_services_are_recognised(status, body):
    assert isinstance(query_error(status, body), QueryTimeout)


def test_a_copy_s_own_time_limit_is_told_with_its_seconds():
    error = query_error(500, TRACE % b"java.util.concurrent.TimeoutException: the query took longer than 7.5 s")
    assert isinstance(error, QueryTimeout)
    assert str(error).startswith("the query was stopped after 7.5 s, the limit of this copy; make it simpler: ")


def test_triples_are_read_as_rows():
    turtle = b'@prefix e: <http://e.org/> . e:a e:p "x"@en , 5 , _:b .'
    table = read_query(Reply(200, turtle, {"content-type": "text/turtle; charset=utf-8"}))
    assert table.columns == ("subject", "predicate", "object")
    assert [row[2] for row in table.rows][:2] == [
        Term("literal", "x", None, "en"),
        Term("literal", "5", "http://www.w3.org/2001/XMLSchema#integer"),
    ]
    assert table.rows[2][2].type == "bnode"
    assert isinstance(query_error(200, b"<a> <b", "text/turtle"), BadResponse)
    cut_off = b"<http://a.org/> <http://b.org/> " + TRACE % b"java.util.concurrent.TimeoutException"
    assert isinstance(query_error(200, cut_off, "text/turtle"), QueryTimeout)


def test_blazegraph_s_construct_rows_lose_their_empty_graph_column():
    cell = '{"type": "uri", "value": "http://e.org/a"}'
    body = f"""{{"head": {{"vars": ["subject", "predicate", "object", "context"]}}, "results": {{"bindings":
        [{{"subject": {cell}, "predicate": {cell}, "object": {cell}}}]}}}}"""
    term = Term("uri", "http://e.org/a")
    expected = AnswerTable(("subject", "predicate", "object"), ((term, term, term),))
    assert read_query(Reply(200, body.encode())) == expected


def test_control_characters_and_a_byte_order_mark_do_no_harm():
    body = (
        b'\xef\xbb\xbf{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "literal", "value": "x\ty"}}]}}'
    )
    assert read_query(Reply(200, body)).rows == ((Term("literal", "x\ty"),),)


EXPECTED: Mapping[str, type[KbnavError]] = {
    "wdqs_timeout_200_truncated": QueryTimeout,
    "wdqs_429_throttled": ServiceError,
    "wdqs_429_retry_0": ServiceError,
    "wdqs_504_nginx": QueryTimeout,
    "wdqs_400_malformed": QuerySyntaxError,
    "wdqs_triples_mode_400": QueryRefused,
    "wdqs_timeout_json_spliced": QueryTimeout,
    "wdqs_query_timeout_messages": QueryTimeout,
    "qlever_400": QuerySyntaxError,
    "mw_maxlag_queryservice": Lagged,
    "mw_maxlag_db": Lagged,
    "mw_badtoken": CredentialsError,
    "mw_editconflict_formatversion2": ServiceError,
    "mw_ratelimited": ServiceError,
    "mw_readonly": ServiceError,
    "mw_failed_save_abusefilter": ServiceError,
    "wb_no_such_entity": UnknownId,
}


def errors(shared_data: Path) -> dict[str, dict[str, Any]]:
    records = json.loads((shared_data / "api-errors" / "errors.json").read_text())
    for record in records:
        if "file" in record:
            record["body"] = (shared_data / "api-errors" / record["file"]).read_text()
    return {record["kind"]: record for record in records}


def outcome(answer: Answer, *, sparql: bool = False, entity: str = "Q42") -> Any:
    """What the client makes of an answer to everything: an error, or the result."""
    with serving(lambda _: answer) as served, client(served.url, retries=1) as opened:
        try:
            if sparql:
                return opened.kb.execute_query("SELECT * WHERE { ?s ?p ?o }")
            return opened.kb.get_entry(entity)
        except KbnavError as error:
            return error


def test_every_recorded_error_has_its_own_kind(shared_data):
    records = errors(shared_data)
    assert set(records) >= set(EXPECTED)
    for kind, record in records.items():
        sparql = kind.startswith(("wdqs", "qlever"))
        answer = Answer(record["body"], record.get("http_status", 200), JSON, record.get("headers", {}))
        found = outcome(answer, sparql=sparql)
        expected = Banned if "banned" in kind else EXPECTED[kind]
        assert type(found) is expected, kind
        assert "\n" not in str(found), kind
        assert "java." not in str(found), kind
        assert len(str(found)) < 500, kind


EMPTY = b'{"head": {"vars": ["one"]}, "results": {"bindings": []}}'


class Answers(HttpClient):
    """Answers every query with one reply; ``sent`` are the queries."""

    def __init__(self, body: bytes, headers: dict[str, str]) -> None:
        self.sent: list[str] = []
        self._reply = Reply(200, body, {"content-type": ROWS, **headers})

    def fetch(self, request, read):  # type: ignore[no-untyped-def]
        self.sent.append(request.params["query"])
        return read(self._reply)


@pytest.mark.parametrize(
    ("url", "query", "lacking"),
    [
        (Endpoints().sparql, "SELECT ?a { ?a wdt:P50 wd:Q4 }", True),
        (Endpoints().sparql, "SELECT ?a { ?a wdt:P31/wdt:P279* wd:Q13442814 }", True),
        (Endpoints().sparql, "SELECT ?a { ?a wdt:P19 wd:Q4 }", False),
        (Endpoints().sparql, "SELECT ?a { SERVICE wdsubgraph:scholarly_articles { ?a wdt:P50 wd:Q4 } }", False),
        (QLEVER, "SELECT ?a { ?a wdt:P50 wd:Q4 }", False),
    ],
)
def test_a_result_that_may_lack_scholarly_articles_says_so(url, query, lacking):
    allowed = Settings().services
    service = QueryService(Endpoints(sparql=url), allowed, STANDARD_PREFIXES, Answers(EMPTY, {}))
    assert service.run(query).note == (LEFT_OUT if lacking else "")


ONE = b'{"head": {"vars": ["one"]}, "results": {"bindings": [{"one": {"type": "literal", "value": "1"}}]}}'
VIRTUOSO = {"server": "Virtuoso/08.03.3332 (Linux)"}


def test_an_engine_that_is_not_known_by_its_address_is_found_out_once():
    endpoints = Endpoints(sparql="https://wikidata.example.org/sparql")
    query = (
        'SELECT ?p ?pLabel { wd:Q937 wdt:P19 ?p . SERVICE wikibase:label { bd:serviceParam wikibase:language "en" } }'
    )
    counts = []
    asked = Answers(ONE, VIRTUOSO)
    service = QueryService(endpoints, (), STANDARD_PREFIXES, asked)
    for _ in range(2):
        asked.sent.clear()
        service.run(query)
        counts.append(len(asked.sent))
        assert "wikibase:label" not in asked.sent[-1]
    assert 1 < counts[0] <= 7
    assert counts[1] == 1
    unasked = Answers(ONE, VIRTUOSO)
    said = endpoints.model_copy(update={"dialect": "wdqs"})
    QueryService(said, [LABEL_SERVICE], STANDARD_PREFIXES, unasked).run(query)
    assert len(unasked.sent) == 1
    assert "wikibase:label" in unasked.sent[0]


def test_wikidata_by_qlever_is_a_knowledge_base_by_name(tmp_path):
    with open_kb(Settings(kb="wikidata-qlever", contact="a@example.org", home=tmp_path)) as kb:
        endpoints = kb.state()["endpoints"]
    assert endpoints["sparql"] == QLEVER
    assert endpoints["dialect"] == "qlever"
    assert endpoints["api"] == Endpoints().api
    assert "qlever.dev" in endpoints["query_page"]
    assert json.dumps(endpoints)


ITEMS = [
    {"QID": "Q7186", "similarity_score": 0.91, "source": "Vector Search"},
    {"QID": "Q37463", "similarity_score": 0.72, "source": "Keyword Search"},
    {"QID": "Q1128", "similarity_score": 0.5},
]
NAMES = {"Q7186": "Marie Curie", "Q37463": "Pierre Curie", "P61": "discoverer or inventor"}


def service(asked: Asked) -> Answer:
    if asked.path == "/vector/item/query/":
        return Answer(ITEMS[: int(asked.params["K"])])
    if asked.path == "/vector/property/query/":
        return Answer([{"PID": "P61", "similarity_score": 0.8}])
    ids = asked.params["ids"].split("|")
    found = {one: {"id": one, "labels": {"en": {"value": NAMES[one]}}} for one in ids if one in NAMES}
    return Answer({"entities": found | {one: {"id": one, "missing": ""} for one in ids if one not in NAMES}})


def test_entities_come_with_similarity_and_label_best_first():
    with serving(service) as served, client(served.url, vector=served.url + "/vector") as opened:
        assert "vector_query" in opened.kb.capabilities
        found = opened.kb.vector_query("who discovered radium?", limit=3)
        assert [tuple(node)[:3] for node in found.nodes] == [
            ("Q7186", 0.91, "Marie Curie"),
            ("Q37463", 0.72, "Pierre Curie"),
            ("Q1128", 0.5, ""),
        ]
        assert opened.kb.vector_query("found by", kind="property").ids == ["P61"]
        asked = served.asked_for(query="who discovered radium?")
        assert [(one.method, one.params["K"]) for one in asked] == [("GET", "3")]


@pytest.mark.parametrize(("text", "kind"), [("x", "lexeme"), ("", "item"), ("  ", "item")])
def test_bad_arguments_are_told_to_the_model(text, kind):
    with serving(service) as served, client(served.url, vector=served.url + "/vector") as opened:
        with pytest.raises(BadArguments):
            opened.kb.vector_query(text, kind=kind)
        assert served.asked == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer({}), BadResponse),
        (Answer([{"id": "Q1"}]), BadResponse),
        (Answer(["Q1"]), BadResponse),
        (Answer([{"QID": "Q1", "similarity_score": "high"}]), BadResponse),
        (Answer("<html>", type="text/html"), BadResponse),
        (Answer({"detail": "K"}, 422), BadArguments),
        (Answer("key?", 401), CredentialsError),
        (Answer("gone", 404), ServiceError),
        (Answer("down", 503), ServiceError),
    ],
)
def test_what_is_not_an_answer_is_refused(answer, error):
    with serving(lambda _: answer) as served:
        vector = served.url + "/vector"
        with client(served.url, vector=vector, retries=1) as opened, pytest.raises(error):
            opened.kb.vector_query("x")


def test_it_is_asked_at_most_as_often_as_it_allows(tmp_path):
    clock = Clock()
    throttle = Throttle(tmp_path / "limits.sqlite", clock=clock, sleep=clock.sleep)
    with serving(service) as served:
        vector = served.url + "/vector"
        with client(served.url, vector=vector, throttle=throttle) as opened:
            for number in range(30):
                opened.kb.vector_query(f"text {number}")
            assert clock.now == 0
            opened.kb.vector_query("one more")
            assert clock.now >= 60
