"""``kbnav mcp``: an agent's tools, and ``ask``, for clients of the Model Context Protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import ValidationError

from kbnav.agents.common.agent import Agent
from kbnav.apps.console import answer_record
from kbnav.apps.secrets import Secrets
from kbnav.errors import KbnavError
from kbnav.session import ask, use
from kbnav.settings import Web
from kbnav.stopping import Brake
from kbnav.systems import systems
from kbnav.trajectory import Run, versions

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.shared.message import SessionMessage
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, Tool
    from starlette.types import ASGIApp

T = TypeVar("T")
ASK = "ask"
_ASK = (
    "Ask a question in any language. An agent navigates the knowledge base on its own and gives back the answer, the "
    "query or the nodes that it rests on, and how it was found. It takes from a second to minutes."
)
_INSTRUCTIONS = (
    "Tools that navigate the knowledge base {kb}: look things up, try small queries, check what comes back, build the "
    "answer from what was seen. `ask` leaves all of it to an agent, {agent}: {about}."
)
AT_ONCE = 8
"""Calls of one client over standard input that are worked on at once; others wait."""


class Desk(Protocol):
    """Does the work that is asked for, within limits; raises KbnavError where a limit is reached."""

    agent: Agent

    def opened(self, server: Server[Any]) -> AbstractAsyncContextManager[Any]:
        """What the work needs while the server runs; it is the ``lifespan_context`` of requests."""
        ...

    async def ask(self, context: ServerRequestContext[Any], question: str) -> Run:
        """The agent's run on a question. Raises StopRun where it failed or was stopped."""
        ...

    async def call(self, context: ServerRequestContext[Any], work: Callable[[], CallToolResult]) -> CallToolResult:
        """What the call of a tool brings."""
        ...


class OwnDesk:
    """For the one client that began this process, and pays for it."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._room = ThreadPoolExecutor(AT_ONCE)

    @asynccontextmanager
    async def opened(self, server: Server[Any]) -> AsyncIterator[None]:  # noqa: ARG002 - as the protocol says
        """Nothing is needed."""
        yield

    async def ask(self, context: ServerRequestContext[Any], question: str) -> Run:  # noqa: ARG002
        """Ask the agent; a client that takes its request back stops the run, the model's call too."""
        brake = Brake(asyncio.get_running_loop())
        return await self._done(partial(ask, self.agent, question, brake=brake), brake)

    async def call(
        self,
        context: ServerRequestContext[Any],  # noqa: ARG002
        work: Callable[[], CallToolResult],
    ) -> CallToolResult:
        """When there is room; what is taken back keeps its room until it is over."""
        brake = Brake(asyncio.get_running_loop())
        return await self._done(partial(brake.within, work), brake)

    async def _done(self, work: Callable[[], T], brake: Brake) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._room, work)
        except asyncio.CancelledError:
            brake.stop()
            raise


def build_server(desk: Desk, hide: Secrets) -> Server[Any]:
    """A server with the tools that an agent offers a model, but ``finish``, told of in the same words, and ``ask``.

    Nothing that ``hide`` knows is in what it says.
    """
    from mcp.server.lowlevel import Server
    from mcp_types import ListToolsResult

    agent = desk.agent

    async def tools(
        context: ServerRequestContext[Any],  # noqa: ARG001 - a handler
        params: PaginatedRequestParams | None,  # noqa: ARG001
    ) -> ListToolsResult:
        return ListToolsResult(tools=[*_tools(agent), _ask_tool()])

    async def call(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        arguments = params.arguments or {}
        try:
            if params.name == ASK:
                run = await desk.ask(context, str(arguments.get("question", "")))
                answer = answer_record(run, agent.settings.endpoints.query_page)
                found = _result(answer["answer"] or answer["note"] or answer["status"], answer)
            else:
                found = await desk.call(context, partial(_call, agent, params.name, arguments))
        except KbnavError as error:
            found = _result(str(error), failed=True)
        return type(found).model_validate(hide.hidden_in(found.model_dump(mode="json")))

    return Server(
        "kbnav",
        version=versions()["kbnav"],
        instructions=_INSTRUCTIONS.format(kb=agent.kb.name, agent=agent.name, about=_about(agent)),
        lifespan=desk.opened,
        on_list_tools=tools,
        on_call_tool=call,
    )


def _about(agent: Agent) -> str:
    """What the agent is, as the registry says it; one of somebody's own may not be in it."""
    known = next((entry.about for entry in systems() if entry.name == agent.name), "")
    return known.rstrip(".") or "one of your own"


def _tools(agent: Agent) -> list[Tool]:
    from mcp_types import Tool

    return [
        Tool(name=told["name"], description=told["description"], input_schema=told["parameters"])
        for told in (tool.lookup for tool in agent.lookups)
    ]


def _ask_tool() -> Tool:
    from mcp_types import Tool

    question = {"type": "string", "description": "The question.", "minLength": 1}
    schema = {"type": "object", "properties": {"question": question}, "required": ["question"]}
    return Tool(name=ASK, description=_ASK, input_schema=schema)


def _call(agent: Agent, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """Call one tool. Raises KbnavError where it cannot be called so."""
    seen, _ = use(agent, name, arguments)
    return _result(seen.text, failed=not seen.ok)


def _result(text: str, data: dict[str, Any] | None = None, *, failed: bool = False) -> CallToolResult:
    from mcp_types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data, is_error=failed)


async def run_stdio(server: Server[Any]) -> None:
    """Talk over standard input and output until the client hangs up."""
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(_Readable(read, write), write, server.create_initialization_options())


class _Readable:
    """What a client sends; to what is no message it is told so, where the library drops it and the client waits."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read, self._write = read, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._read, name)

    async def __aenter__(self) -> _Readable:
        await self._read.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._read.__aexit__(*error)

    def __aiter__(self) -> _Readable:
        return self

    async def __anext__(self) -> Any:
        return await self._next(self._read.__anext__)

    async def receive(self) -> Any:
        """The next message."""
        return await self._next(self._read.receive)

    async def _next(self, take: Callable[[], Any]) -> Any:
        while isinstance(item := await take(), Exception):
            await self._write.send(_unreadable(item))
        return item


def _unreadable(error: Exception) -> SessionMessage:
    """The reply to a line that is no JSON, or no message (JSON-RPC 2.0, section 5.1)."""
    from mcp.shared.message import SessionMessage
    from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError

    found = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    if not found or found[0]["type"] == "json_invalid":
        return SessionMessage(
            JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=PARSE_ERROR, message="this line is no JSON"))
        )
    names = (one["input"].get("id") for one in found if isinstance(one["input"], dict))
    known = next((name for name in names if isinstance(name, (int, str)) and not isinstance(name, bool)), None)
    told = ErrorData(code=INVALID_REQUEST, message="this line is no message of JSON-RPC 2.0")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=known, error=told))


def http_app(server: Server[Any], web: Web) -> ASGIApp:
    """The same over HTTP at ``/mcp``, behind the gate that the chat page is behind."""
    from mcp.server.transport_security import TransportSecuritySettings

    from kbnav.apps.web.security import Gate

    app = server.streamable_http_app(
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the gate does it
    )
    return Gate(app, web)
