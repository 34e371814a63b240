"""No query that changes data or reaches out runs, through whichever door it comes."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests

from kbnav.agents.common.agent import build_agent
from kbnav.answers.tables import Term
from kbnav.errors import QueryRefused, QuerySyntaxError
from kbnav.knowledge.open import bundled_mirror, open_kb
from kbnav.knowledge.sparql.tokens import tokenize
from kbnav.knowledge.sparql.vocabulary import written
from kbnav.knowledge.wikidata.mirror.server import MirrorServer
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
