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
from kbnav.knowledge.replies import Again, Lagged, Reply, read_query
from kbnav.knowledge.wikidata.api import read_api
from tests.knowledge.wikidata.serving import JSON, Answer, client, serving

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
    assert table.rows[2][2] is not None
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
