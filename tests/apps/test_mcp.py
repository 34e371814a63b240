"""The MCP server through a real client, over standard input and over HTTP."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import requests
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import SecretStr

from kbnav.apps.mcp import ASK, DATABASE, RETRIEVE, LocalBackend, build_server, http_app, offered_at, open_shared
from kbnav.apps.secrets import secrets_of
from kbnav.apps.web.store import Store, open_sqlite
from kbnav.knowledge.base import KnowledgeBase
from kbnav.retrieval.base import build_retriever
from kbnav.settings.model import Price, Settings
from kbnav.settings.systems import find
from tests.apps.web.parts import Explorer, Served, web_settings
from tests.ending import until
from tests.knowledge.parts import Over
from tests.models.stub import ModelStub, completion, failure

MARIE = "Which elements were discovered by Marie Curie?"
QUERY = "SELECT ?who { wd:Q979 wdt:P61 ?who }"


@contextmanager
def served(settings: Settings, kb: KnowledgeBase, system: str = "") -> Iterator[str]:
    """The server over HTTP, in a thread; its address."""
    with (
        open_shared(settings, kb, system) as desk,
        Served(http_app(build_server(desk, secrets_of(settings)), settings.web)) as server,
    ):
        yield server.url


@pytest.fixture
def http_server(mini_kb: KnowledgeBase, tmp_path: Path) -> Iterator[str]:
    """The server over HTTP with the offline policy."""
    with served(Settings(home=tmp_path, language="en"), mini_kb) as url:
        yield url


async def explore(client: Client) -> None:
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    lookups = {"search_entities", "get_entry", "get_property_examples", "execute_query", "search_neighbors"}
    assert set(listed) == {*lookups, ASK}
    assert find("spinach").about.rstrip(".") in client.instructions
    assert listed["search_entities"].input_schema["required"] == ["query"]
    assert "SPARQL" in listed["execute_query"].description

    found = await client.call_tool("search_entities", {"query": "polonium"})
    assert "polonium (Q979): chemical element" in found.content[0].text
    rows = await client.call_tool("execute_query", {"query": QUERY})
    assert "Q37463 (Pierre Curie)" in rows.content[0].text
    for name, arguments in [
        ("execute_query", {"query": "SELECT nothing"}),
        ("get_entry", {"entity_id": "Q999999999"}),
        ("get_entry", {}),
        ("nothing", {}),
        ("finish", {}),
        (ASK, {"question": " "}),
    ]:
        assert (await client.call_tool(name, arguments)).is_error, name

    answer = await client.call_tool(ASK, {"question": "Who discovered polonium?"})
    assert answer.content[0].text == "Marie Curie, Pierre Curie"
    assert "wdt:P61" in answer.structured_content["query"]
    assert len(answer.structured_content["table"]["results"]["bindings"]) == 2
    assert "evidence" not in answer.structured_content

    proven = await client.call_tool(ASK, {"question": "Who discovered polonium?", "evidence": True})
    assert proven.content[0].text.splitlines()[1].startswith("1. Q7186")
    rows = proven.structured_content["evidence"]["rows"]
    assert [[(one["property"], one["value"]) for one in row] for row in rows] == [
        [("P61", "Q7186")],
        [("P61", "Q37463")],
    ]


def test_a_client_over_http_navigates_and_asks(http_server):
    async def talk() -> None:
        async with Client(f"{http_server}/mcp") as client:
            await explore(client)

    asyncio.run(talk())


def test_over_http_other_names_and_other_sites_are_refused(http_server):
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        assert requests.post(f"{http_server}/mcp", json={}, headers=headers, timeout=10).status_code in (403, 421)


async def said(url: str, *questions: str, token: str = "") -> list[tuple[bool, str]]:
    """What is said to questions that are asked at once: whether it is an error, and the text."""
    return await called(url, ASK, *({"question": text} for text in questions), token=token)


async def called(
    url: str, tool: str, *given: dict[str, Any], token: str = "", at_once: int = 20
) -> list[tuple[bool, str]]:
    """What calls of a tool bring, ``at_once`` of them side by side: whether it is an error, and the text."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        found = []
        for start in range(0, len(given), at_once):
            some = given[start : start + at_once]
            found += await asyncio.gather(*(client.call_tool(tool, arguments) for arguments in some))
        return [(bool(one.is_error), one.content[0].text) for one in found]


def test_over_http_questions_have_the_limits_of_the_page(mini_kb, tmp_path):
    alice, bob = tokens = ("a-token-of-alice-nevertobeleft", "a-token-of-bob-nevertobeleft")
    web = {"web_tokens": dict(zip(("alice", "bob"), tokens, strict=True)), "web_runs_per_user": 1}
    limits = {"web_questions_per_day": 2, "web_question_seconds": 1.0}
    with Explorer(held=0) as model:
        with served(web_settings(tmp_path, **model.options(), **web, **limits), mini_kb) as url:
            found = asyncio.run(said(url, MARIE, MARIE, MARIE, token=alice))
            waiting = (True, "you have 1 question under way; wait for one to end")
            assert sorted(found) == [(True, "The limit of 1 s for a question was reached."), waiting, waiting]
        model.go_on.set()
        with served(web_settings(tmp_path, **model.options(), **web, web_questions_per_day=2), mini_kb) as url:
            assert asyncio.run(said(url, MARIE, token=alice)) == [(False, "Polonium and radium.")]
            assert asyncio.run(said(url, MARIE, token=alice)) == [(True, "you have asked 2 questions in 24 hours")]
            assert asyncio.run(said(url, MARIE, token=bob)) == [(False, "Polonium and radium.")]
            assert requests.post(f"{url}/mcp", json={}, timeout=10).status_code == 401
        # A reply of the stub is 100 + 20 tokens; at these prices, two of them cost 0.24 dollars.
        prices = {"stub": Price(prompt=1000, completion=1000)}
        options = {**model.options(), "prices": prices, "web_question_dollars": 0.2}
        with served(web_settings(tmp_path / "other", **options), mini_kb) as url:
            assert asyncio.run(said(url, MARIE)) == [(True, "The limit of $0.20 for a question was reached.")]


def test_over_http_what_a_tool_asks_a_model_counts_as_a_question(demo_kb, tmp_path):
    token = "a-token-of-alice-nevertobeleft"

    async def talk(url: str) -> list[tuple[bool, str]]:
        requests = [{"request": text} for text in ("makers", "pupils", "owners")]
        generated = [(await called(url, "generate", request, token=token))[0] for request in requests]
        looked_up = await called(url, "search_neighbors", {"entity_id": "instrument:the-brown-eye"}, token=token)
        return [*generated, *looked_up, *await said(url, "Who?", token=token)]

    with ModelStub([completion("The Brown Eye | made by | Ann")]) as stub:
        limits = {
            "web_tokens": {"alice": token},
            "web_questions_per_day": 8,
        }  # a call asks for three samples, then what holds
        settings = web_settings(tmp_path, model="stub", base_url=stub.base_url, **limits)
        with served(settings, demo_kb, "gog") as url:
            found = asyncio.run(talk(url))
        assert len(stub.requests) == 8
    spent = (True, "you have asked 8 questions in 24 hours")
    assert [failed for failed, _ in found[:2]] == [False, False]
    assert "[generated]" in found[0][1]
    assert found[2] == found[4] == spent
    assert found[3][1].startswith("The Brown Eye (instrument:the-brown-eye): ")


def test_over_http_a_request_that_is_taken_back_stops_its_run(mini_kb, tmp_path):
    async def hang_up(url: str) -> None:
        asking = asyncio.create_task(said(url, MARIE))
        assert await asyncio.to_thread(model.waiting.wait, 60)
        asking.cancel()
        await asyncio.wait([asking])

    with (
        Explorer(held=0) as model,
        served(web_settings(tmp_path, **model.options()), mini_kb) as url,
        open_sqlite(tmp_path / DATABASE) as database,
    ):
        asyncio.run(hang_up(url))
        until(lambda: not Store(database).workers())


def test_over_http_a_call_that_is_taken_back_keeps_its_place_until_it_is_over(mini_kb, tmp_path):
    tokens = [f"a-token-of-{name}-nevertobeleft" for name in ("alice", "bob", "carol")]
    web = {"web_tokens": dict(zip(("alice", "bob", "carol"), tokens, strict=True))}
    waiting, go_on = threading.Semaphore(0), threading.Event()

    def held(query: str, **options: Any) -> Any:
        waiting.release()
        go_on.wait(250)
        return mini_kb.execute_query(query, **options)

    async def query(url: str, token: str) -> tuple[bool, str]:
        return (await called(url, "execute_query", {"query": QUERY}, token=token))[0]

    async def take_back(url: str, token: str) -> None:
        asking = asyncio.create_task(query(url, token))
        assert await asyncio.to_thread(waiting.acquire, timeout=60)
        asking.cancel()
        await asyncio.wait([asking])

    settings = web_settings(tmp_path, **web, web_runs=2, web_runs_per_user=1)
    with served(settings, Over(mini_kb, execute_query=held)) as url:
        asyncio.run(take_back(url, tokens[0]))
        assert asyncio.run(query(url, tokens[0])) == (True, "1 of your calls are at work; wait for one")
        asyncio.run(take_back(url, tokens[1]))
        assert asyncio.run(query(url, tokens[2])) == (True, "too many calls are at work; try again in a moment")
        go_on.set()
        until(lambda: not asyncio.run(query(url, tokens[0]))[0])


RANKED = {"query": "love letter"}
BUILT: list[Any] = []


def counted(kb: KnowledgeBase, settings: Settings) -> Any:
    """A retriever of one's own, which does not say its kind."""
    BUILT.append(build_retriever("bm25", kb, settings))
    return BUILT[-1]


def test_a_retriever_that_does_not_say_its_kind_is_built_once(demo_kb, tmp_path):
    LocalBackend(offered_at(web_settings(tmp_path), demo_kb, f"{__name__}:counted"))
    assert len(BUILT) == 1


def test_retrievers_rank_over_http_within_the_limits(demo_kb, tmp_path):
    async def talk(url: str) -> None:
        async with Client(f"{url}/mcp") as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert ASK in listed
            names = listed[RETRIEVE].input_schema["properties"]["system"]["enum"]
            assert names[0] == "bm25"
            assert "agent-retriever" not in names
            assert f"- vss: {find('vss').about}" in listed[RETRIEVE].description
            found = await client.call_tool(RETRIEVE, {**RANKED, "system": "graph-rank", "k": 2})
            assert found.content[0].text.startswith("1. The Brown Eye (instrument, ")
            data = found.structured_content
            assert [one["rank"] for one in data["ranking"]] == [1, 2]
            assert [step["tool"] for step in data["steps"]] == ["link", "follow", "describe"]
            assert (data["status"], data["system"]) == ("answered", "graph-rank")
            for wrong in ({}, {**RANKED, "system": "skb"}, {**RANKED, "k": 0}, {**RANKED, "k": True}):
                assert (await client.call_tool(RETRIEVE, wrong)).is_error, wrong

    token = "a-token-of-alice-nevertobeleft"
    with served(web_settings(tmp_path), demo_kb) as url:
        asyncio.run(talk(url))
    with served(web_settings(tmp_path / "other", web_questions_per_day=1, web_tokens={"alice": token}), demo_kb) as url:
        assert not asyncio.run(called(url, RETRIEVE, RANKED, token=token))[0][0]
        refused = asyncio.run(called(url, RETRIEVE, RANKED, token=token))
        assert refused == [(True, "you have asked 1 question in 24 hours")]


def test_no_key_is_in_what_a_client_is_told(mini_kb, tmp_path):
    key = "sk-a-nevertobeleft-1234567890"

    async def own(desk: LocalBackend) -> list[str]:
        async with Client(build_server(desk, secrets_of(settings))) as client:
            tools = [(ASK, {"question": MARIE}), ("get_entry", {"entity_id": key}), (key, {})]
            return [(await client.call_tool(name, given)).content[0].text for name, given in tools]

    with ModelStub([failure(401, f"Incorrect API key provided: {key}")] * 2) as stub:
        settings = web_settings(tmp_path, model="stub", base_url=stub.base_url, api_key=SecretStr(key))
        with served(settings, mini_kb) as url:
            told = [text for _, text in asyncio.run(said(url, MARIE))]
        told += asyncio.run(own(LocalBackend(offered_at(settings, mini_kb))))
    assert len(told) == 4
    assert all("[hidden]" in text and key not in text for text in told), told


def test_a_client_over_standard_input_navigates_and_asks(mini_home, mini_kb):
    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", "from kbnav.apps.cli import main; main()", "mcp", "--kb", "mini"],
        env={**os.environ, "KBNAV_HOME": str(mini_home), "KBNAV_LANGUAGE": "en"},
    )

    async def talk() -> None:
        async with Client(stdio_client(command)) as client:
            await explore(client)

    asyncio.run(talk())
