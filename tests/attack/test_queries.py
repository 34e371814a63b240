"""No query that changes data or reaches out runs, whatever its door; and replies of another shape are refused."""

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from kbnav.agents.common.agent import build_agent
from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import BadResponse, DataError, QueryRefused, QuerySyntaxError
from kbnav.knowledge.endpoint.data import whole
from kbnav.knowledge.open import bundled_mirror, open_kb
from kbnav.knowledge.replies import Reply, read_query
from kbnav.knowledge.serving import MirrorServer
from kbnav.knowledge.skb.files import open_array
from kbnav.knowledge.sparql.tokens import tokenize
from kbnav.knowledge.sparql.vocabulary import written
from kbnav.sessions.session import use
from kbnav.settings.model import Settings
from tests.apps.test_mcp import called, served
from tests.apps.web.parts import Server, Visit, web_settings
from tests.attack.queries import HARMLESS, hostile
from tests.knowledge.wikidata.serving import Answer, Served, in_turn, serving

Door = Callable[[str], str]
"""Sends a query and says what came of it: ``refused``, or ``ran``."""


@pytest.fixture(scope="module")
def trap() -> Iterator[Served]:
    """A server that is never to be asked."""
    with serving(in_turn(Answer(status=404))) as served:
        yield served


def _told(call: Callable[[str], object]) -> Door:
    def door(query: str) -> str:
        try:
            call(query)
        except (QueryRefused, QuerySyntaxError):
            return "refused"
        return "ran"

    return door


@pytest.fixture(scope="module")
def doors(demo_home: Path) -> Iterator[dict[str, Door]]:
    home = demo_home
    with ExitStack() as opened:
        found: dict[str, Door] = {}
        for name in ("mini", "demo"):
            settings = Settings(kb=name, home=home)
            kb = opened.enter_context(open_kb(settings))
            agent = build_agent(kb, settings, "")
            found[f"library, {name}"] = _told(kb.execute_query)
            found[f"tool, {name}"] = _by_tool(agent)
        server = opened.enter_context(MirrorServer(bundled_mirror(home)))
        found["a mirror's own endpoint"] = _by_http(server.endpoints.sparql)
        page = opened.enter_context(Server(web_settings(home, "mini", "demo")))
        visit = Visit(page.url)
        for name in ("mini", "demo"):
            found[f"page, {name}"] = _by_page(visit, name)
        yield found


def _by_tool(agent: Any) -> Door:
    def door(query: str) -> str:
        seen, _ = use(agent, "execute_query", {"query": query})
        return "ran" if seen.ok else "refused"

    return door


def _by_page(visit: Visit, kb: str) -> Door:
    def door(query: str) -> str:
        status = visit("POST", "/api/queries", {"query": query, "kb": kb}).status_code
        return {200: "ran", 422: "refused"}.get(status, str(status))

    return door


def _by_http(url: str) -> Door:
    def door(query: str) -> str:
        return "ran" if requests.post(url, data={"query": query}, timeout=30).ok else "refused"

    return door


@pytest.mark.parametrize(
    "door",
    [*(f"{way}, {kb}" for way in ("library", "tool", "page") for kb in ("mini", "demo")), "a mirror's own endpoint"],
)
def test_no_door_lets_any_through(doors, trap, door, tmp_path):
    slipped = [query for query in hostile(f"{trap.url}/sparql") if doors[door](query) != "refused"]
    assert slipped == []
    assert trap.asked == []
    for query in HARMLESS:
        assert doors[door](query) == "ran", query


@pytest.mark.slow
def test_none_passes_over_mcp(mini_kb, tmp_path, trap):
    queries = [{"query": query, "thought": ""} for query in (*hostile(f"{trap.url}/sparql"), *HARMLESS)]
    with served(Settings(home=tmp_path), mini_kb) as url:
        told = asyncio.run(called(url, "execute_query", *queries, at_once=4))
    assert [text for wrong, text in told[: -len(HARMLESS)] if not wrong] == []
    assert [text for wrong, text in told[-len(HARMLESS) :] if wrong] == []
    assert trap.asked == []


@pytest.mark.parametrize(
    "cell",
    [
        Term("uri", "http://x> . ?s ?p ?o } #"),
        Term("uri", "http://x\n"),
        Term("literal", "1", "http://x> . ?s ?p ?o"),
        Term("literal", "one", None, 'en"@de . ?s ?p ?o'),
        Term("bnode", "b"),
    ],
)
def test_a_cell_of_a_hostile_endpoint_writes_no_query(cell):
    assert written(cell) == "UNDEF"


def test_a_text_is_written_as_one_literal():
    hostile = 'a" } DELETE WHERE { ?s ?p ?o } #\\\n'
    (token,) = tokenize(written(Term("literal", hostile)))
    assert token.kind == "string"


COUNTED = "SELECT ?p (COUNT(*) AS ?n) WHERE { ?s ?p ?o } GROUP BY ?p LIMIT 10"


def replied(columns: object, rows: object, query: str = COUNTED) -> AnswerTable:
    body = json.dumps({"head": {"vars": columns}, "results": {"bindings": rows}}).encode()
    return read_query(Reply(200, body, {}, "https://query.example.org/sparql"), query=query)


def cell(value: object, kind: str = "literal") -> dict[str, object]:
    return {"type": kind, "value": value}


@pytest.mark.parametrize("number", ["many", "", "inf", "nan", "-1", "1e400", "9" * 5_000, "3.5"])
def test_a_count_that_is_no_whole_number_is_refused(number):
    with pytest.raises(BadResponse):
        replied(["p", "n"], [{"p": cell("http://e.org/p", "uri"), "n": cell(number)}])


def test_a_missing_column_is_unbound_and_others_are_brought_into_the_order_asked_for():
    row = {"n": cell("7"), "p": cell("http://e.org/p", "uri")}
    assert replied(["n"], [row]).rows[0][0] is None
    table = replied(["n", "extra", "p"], [row])
    assert table.columns == ("p", "n")
    assert [one.value for one in table.rows[0] if one] == ["http://e.org/p", "7"]
    assert replied([], []).columns == ("p", "n")


def test_a_boolean_is_no_result_of_select_nor_rows_of_ask():
    with pytest.raises(BadResponse):
        read_query(Reply(200, b'{"head": {}, "boolean": true}'), query=COUNTED)
    with pytest.raises(BadResponse):
        replied(["p"], [], "ASK { ?s ?p ?o }")


def test_of_thousands_of_shapes_each_is_read_or_refused():
    chance = random.Random(34)
    odd = [None, 1, "x", [], {}, "inf", "nan", "12", -1, True, {"type": "uri"}, {"value": "x"}, cell("3"), cell(None)]
    for _ in range(3_000):
        columns = chance.choice([["p", "n"], ["n"], ["p"], [], chance.choice(odd), chance.choices(odd, k=2)])
        rows = chance.choice([chance.choice(odd), [{name: chance.choice(odd) for name in "pn"} for _ in range(2)]])
        try:
            table = replied(columns, rows)
        except BadResponse:
            continue
        for _, number in table.rows:
            assert number is None or whole(number) >= 0


@pytest.mark.parametrize("header", ["'''", "((((((", "{'descr':", "  x\n y\n", "\0"])
def test_a_header_of_an_array_that_is_no_python_is_one_clear_line(tmp_path, header):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(3))
    written = path.read_bytes()
    path.write_bytes(written[:10] + header.encode().ljust(117) + b"\n" + written[128:])
    with pytest.raises(DataError, match=r"a\.npy"):
        open_array(path)
