"""``kbnav mcp``: an agent's tools, and ``ask``, for clients of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from kbnav.agents.agent import Agent
from kbnav.apps.console import answer_json
from kbnav.errors import KbnavError
from kbnav.language import question_language
from kbnav.session import ask
from kbnav.settings import Web
from kbnav.stopping import Brake
from kbnav.tools.observation import Context
from kbnav.trajectory import versions

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, Tool
    from starlette.types import ASGIApp

ASK = "ask"
_ASK = (
    "Ask a question in any language. An agent navigates the knowledge base on its own and gives back the answer, the "
    "query or the nodes that it rests on, and how it was found. It takes from a second to minutes."
)
_INSTRUCTIONS = (
    "Tools that navigate the knowledge base {kb}: look things up, try small queries, check what comes back, build the "
    "answer from what was seen. `ask` leaves all of it to an agent."
)
AT_ONCE = 8
"""Calls that are worked on at once."""


def build_server(agent: Agent) -> Server[Any]:
    """A server with the tools of an agent, exactly as the agent's own model is told of them, and ``ask``."""
    from mcp.server.lowlevel import Server
    from mcp_types import ListToolsResult

    room = asyncio.Semaphore(AT_ONCE)

    async def tools(
        context: ServerRequestContext[Any],  # noqa: ARG001 - a handler
        params: PaginatedRequestParams | None,  # noqa: ARG001
    ) -> ListToolsResult:
        return ListToolsResult(tools=[*_tools(agent), _ask_tool()])

    async def call(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:  # noqa: ARG001
        arguments = params.arguments or {}
        async with room:
            if params.name == ASK:
                return await _ask(agent, str(arguments.get("question", "")))
            return await asyncio.to_thread(_call, agent, params.name, arguments)

    return Server(
        "kbnav",
        version=versions()["kbnav"],
        instructions=_INSTRUCTIONS.format(kb=agent.kb.name),
        on_list_tools=tools,
        on_call_tool=call,
    )


def _tools(agent: Agent) -> list[Tool]:
    from mcp_types import Tool

    found = []
    for schema in agent.toolbox.schemas:
        function = schema["function"]
        parameters = function["parameters"]
        needed = [name for name in parameters.get("required", []) if name != "thought"]
        found.append(
            Tool(
                name=function["name"],
                description=function["description"],
                input_schema={**parameters, "required": needed},
            )
        )
    return found


def _ask_tool() -> Tool:
    from mcp_types import Tool

    question = {"type": "string", "description": "The question.", "minLength": 1}
    schema = {"type": "object", "properties": {"question": question}, "required": ["question"]}
    return Tool(name=ASK, description=_ASK, input_schema=schema)


def _call(agent: Agent, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """Call one tool; what is thought of the step stands for the question that results are cut to."""
    given = {"thought": "", **arguments}
    try:
        thought, values = agent.toolbox.validate(name, given)
        chosen = agent.settings.language
        language = question_language(thought) if chosen == "auto" else chosen
        context = Context(agent.kb, thought, language, agent.prune, agent.shown)
        seen = agent.toolbox.run(context, name, thought, values)
    except KbnavError as error:
        return _result(str(error), failed=True)
    return _result(seen.text, failed=not seen.ok)


async def _ask(agent: Agent, question: str) -> CallToolResult:
    """Ask the agent; a client that takes its request back stops the run, the model's call too."""
    brake = Brake(asyncio.get_running_loop())
    try:
        run = await asyncio.to_thread(ask, agent, question, brake=brake)
    except asyncio.CancelledError:
        brake.stop()
        raise
    except KbnavError as error:
        return _result(str(error), failed=True)
    answer = json.loads(answer_json(run, agent.settings.endpoints.query_page))
    return _result(answer["answer"] or answer["note"] or answer["status"], answer)


def _result(text: str, data: dict[str, Any] | None = None, *, failed: bool = False) -> CallToolResult:
    from mcp_types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data, is_error=failed)


async def run_stdio(server: Server[Any]) -> None:
    """Talk over standard input and output until the client hangs up."""
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def http_app(server: Server[Any], web: Web) -> ASGIApp:
    """The same over HTTP at ``/mcp``, behind the gate that the chat page is behind."""
    from mcp.server.transport_security import TransportSecuritySettings

    from kbnav.apps.web.security import Gate

    app = server.streamable_http_app(
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the gate does it
    )
    return Gate(app, web)
