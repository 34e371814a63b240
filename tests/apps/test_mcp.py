"""The MCP server through a real client, over standard input and over HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import uvicorn
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from kbnav.agents.choice import build_agent
from kbnav.apps.mcp import ASK, build_server, http_app
from kbnav.knowledge.base import KnowledgeBase
from kbnav.settings import Settings
from tests.apps.web.parts import until

QUERY = "SELECT ?who { wd:Q979 wdt:P61 ?who }"


@pytest.fixture
def http_server(mini_kb: KnowledgeBase, tmp_path: Path) -> Iterator[str]:
    """The server over HTTP, in a thread."""
    agent = build_agent(mini_kb, Settings(home=tmp_path, language="en"))
    server = uvicorn.Server(
        uvicorn.Config(
            http_app(build_server(agent), agent.settings.web), port=0, log_level="error", timeout_graceful_shutdown=1
        )
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


async def explore(client: Client) -> None:
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"search_entities", "get_entry", "get_property_examples", "execute_query", "search_neighbors"} < set(listed)
    assert {"finish", ASK} < set(listed)
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
        (ASK, {"question": " "}),
    ]:
        assert (await client.call_tool(name, arguments)).is_error, name

    answer = await client.call_tool(ASK, {"question": "Who discovered polonium?"})
    assert answer.content[0].text == "Marie Curie, Pierre Curie"
    assert "wdt:P61" in answer.structured_content["query"]
    assert len(answer.structured_content["table"]["results"]["bindings"]) == 2


def test_a_client_over_http_navigates_and_asks(http_server: str):
    async def talk() -> None:
        async with Client(f"{http_server}/mcp") as client:
            await explore(client)

    asyncio.run(talk())


def test_over_http_other_names_and_other_sites_are_refused(http_server: str):
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        assert requests.post(f"{http_server}/mcp", json={}, headers=headers, timeout=10).status_code in (403, 421)


def test_a_client_over_standard_input_navigates_and_asks(mini_home: Path, mini_kb: KnowledgeBase):
    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", "from kbnav.apps.cli import main; main()", "mcp", "--kb", "mini"],
        env={**os.environ, "KBNAV_HOME": str(mini_home), "KBNAV_LANGUAGE": "en"},
    )

    async def talk() -> None:
        async with Client(stdio_client(command)) as client:
            await explore(client)

    asyncio.run(talk())
