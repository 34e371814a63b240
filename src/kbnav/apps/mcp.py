"""``kbnav mcp``: an agent's tools, ``ask``, and ``retrieve``, for clients of the Model Context Protocol.

Over standard input for the one client that began the process; over HTTP for many, within the limits of the chat page.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kbnav.agents.common.agent import Agent
from kbnav.answers.tables import Ranking
from kbnav.apps.console import (
    absence_text,
    answer_record,
    answer_table,
    call_data,
    evidence_data,
    evidence_lines,
    run_record,
    step_data,
)
from kbnav.apps.secrets import Secrets, secrets_of
from kbnav.errors import BadArguments, KbnavError, LimitReached, StopRun
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.cancellation import Cancellation
from kbnav.retrieval.base import attempt
from kbnav.runs.trajectory import Run, versions
from kbnav.sessions.evidence import run_evidence
from kbnav.sessions.session import ask, saved, use
from kbnav.settings.model import Settings, Web
from kbnav.settings.plugins import needs
from kbnav.settings.systems import SystemEntry, find, retrievers_for, systems, usual_agent

with needs("mcp", "kbnav mcp"):
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        PaginatedRequestParams,
        TextContent,
        Tool,
    )

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from kbnav.apps.web.queue import RunQueue
    from kbnav.apps.web.service import Service
    from kbnav.apps.web.store import Store

T = TypeVar("T")
ASK = "ask"
RETRIEVE = "retrieve"
_ASK = (
    "Ask a question in any language. An agent navigates the knowledge base on its own and gives back the answer, the "
    "query or the nodes that it rests on, and how it was found. It takes from a second to minutes."
)
_INSTRUCTIONS = (
    "Tools that navigate the knowledge base {kb}: look things up, try small queries, check what comes back, build the "
    "answer from what was seen. `ask` leaves all of it to an agent, {agent}: {about}."
)
_RETRIEVE = (
    "Rank the nodes of the knowledge base for a query, best first, with scores and what was done on the way. Systems "
    "to rank by:\n{systems}"
)
_RANKED = "`retrieve` ranks the nodes of the knowledge base {kb} for a query."
MOST_NODES = 100
"""Nodes of a ranking that a client may ask for."""
_NODES = 10
AT_ONCE = 8
"""Calls of one client over standard input that are worked on at once; others wait."""
DATABASE = "mcp.sqlite"
"""Under ``home``; apart from that of the page, whose servers would take questions over that they cannot answer."""


class _Backend:
    """What is asked: the one knowledge base of a service, with one agent or none, and retrievers."""

    def __init__(self, service: Service) -> None:
        """Raises as the builder of the first system."""
        (self._served,) = service.kbs.values()
        self._service, self.kb, self.settings = service, self._served.kb, service.settings
        _, first = service.system(*self._choice(""))
        self.agent = first if isinstance(first, Agent) else None
        self.retrievers = self._served.systems[bool(self.agent) :]

    def _choice(self, system: str) -> tuple[str, str, str]:
        return self.kb.name, system or self._served.systems[0].name, self.settings.model


class LocalBackend(_Backend):
    """For the one client that began this process, and pays for it."""

    opened = nullcontext
    """Nothing is needed."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._threads = ThreadPoolExecutor(AT_ONCE)

    async def ask(self, context: ServerRequestContext[Any], question: str, system: str = "") -> Run:  # noqa: ARG002
        """Ask; a client that takes its request back stops the run, the model's call too."""
        cancellation = Cancellation()
        return await self._done(partial(self._asked, question, self._choice(system), cancellation), cancellation)

    def _asked(self, question: str, choice: tuple[str, str, str], cancellation: Cancellation) -> Run:
        _, found = self._service.system(*choice)
        if isinstance(found, Agent):
            return ask(found, question, cancellation=cancellation)
        settings = self._served.asking(*choice[1:])
        return saved(attempt(found, self.kb, settings, question, cancellation=cancellation), settings)

    async def call(
        self,
        context: ServerRequestContext[Any],  # noqa: ARG002
        work: Callable[[], T],
    ) -> T:
        """In a thread; what is taken back keeps it until it is over."""
        cancellation = Cancellation()
        return await self._done(partial(cancellation.run_here, work), cancellation)

    async def _done(self, work: Callable[[], T], cancellation: Cancellation) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except asyncio.CancelledError:
            cancellation.stop()
            raise


class SharedBackend(_Backend):
    """Puts questions into the queue of a server, and lets so many calls of tools in at once, of all and of one user."""

    def __init__(self, service: Service, store: Store) -> None:
        super().__init__(service)
        self._store, self._limits = store, service.settings.web
        self._tools = ThreadPoolExecutor(self._limits.runs)
        self._at_work: Counter[str] = Counter()
        """Calls of tools by who asked for them; one that was taken back is at work until its thread is over."""

    @asynccontextmanager
    async def opened(self, _: object) -> AsyncIterator[RunQueue]:
        """The queue, in the server's loop."""
        from langgraph.checkpoint.memory import InMemorySaver

        from kbnav.apps.web.queue import RunQueue

        async with RunQueue(self._service, self._store, InMemorySaver(), secrets_of(self.settings)).running() as queue:
            yield queue

    async def ask(self, context: Any, question: str, system: str = "") -> Run:
        """Ask for a request's visitor; its withdrawal stops the run. Raises as ``RunQueue.ask``, and StopRun."""
        queue: RunQueue = context.lifespan_context
        owner: str = context.request.state.visitor.owner
        run = await asyncio.to_thread(queue.ask, owner, question, self._choice(system))
        answer: dict[str, Any] = {"note": "The server is shutting down."}
        try:
            async with aclosing(queue.follow(run.id)) as following:
                async for events in following:
                    if events and events[-1].data["kind"] == "end":
                        answer = events[-1].data["answer"]
        except asyncio.CancelledError:
            queue.stop_soon(run)
            raise
        if answer.get("status", "failed") in ("failed", "stopped"):
            raise StopRun(answer["note"])
        saved = self._store.saved(answer["run"])
        if saved is None:
            raise StopRun("the run was deleted as soon as it ended")
        return saved

    async def call(self, context: Any, work: Callable[[], T]) -> T:
        """What a tool brings; a model's call in it counts as a question. Raises LimitReached, and as the tool."""
        owner: str = context.request.state.visitor.owner
        if self._at_work[owner] >= self._limits.runs_per_user:
            raise LimitReached(f"{self._limits.runs_per_user} of your calls are at work; wait for one")
        if self._at_work.total() >= self._limits.runs:
            raise LimitReached("too many calls are at work; try again in a moment")
        count = partial(self._store.count_question, owner, self._limits.questions_per_day)
        cancellation = _CountingCancellation(count)
        self._at_work[owner] += 1
        working = asyncio.get_running_loop().run_in_executor(self._tools, cancellation.run_here, work)
        working.add_done_callback(lambda _: self._leave(owner))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            cancellation.stop()
            raise

    def _leave(self, owner: str) -> None:
        """A call is over; who has none left is not kept."""
        self._at_work -= Counter([owner])


class _CountingCancellation(Cancellation):
    """A cancellation that counts each call of a model, before it is made."""

    def __init__(self, count: Callable[[], None]) -> None:
        super().__init__()
        self._count = count

    def ask(self, awaited: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """As a cancellation does. Raises as ``count`` too."""
        self._count()
        return super().ask(awaited)


@contextmanager
def open_shared(settings: Settings, kb: KnowledgeBase, system: str = "") -> Iterator[SharedBackend]:
    """A backend for a service as ``offered_at`` gives it. Raises as that and ``build_system``."""
    from kbnav.apps.web.store import Store, open_sqlite

    with open_sqlite(settings.home / DATABASE) as database:
        store = Store(database, settings.home / "runs")
        store.set_up()
        yield SharedBackend(offered_at(settings, kb, system), store)


def offered_at(settings: Settings, kb: KnowledgeBase, system: str = "") -> Service:
    """An agent with the retrievers of the knowledge base, or a retriever alone. Raises UsageError."""
    from kbnav.apps.web.service import Service, served

    entry = find(system or usual_agent(kb))
    entries = (entry,) if entry.kind == "retriever" else (entry, *retrievers_for(kb))
    return Service(settings, [served(kb.name, kb, settings, entries)])


def build_server(backend: LocalBackend | SharedBackend, hide: Secrets) -> Server[Any]:
    """A server with the tools that an agent offers a model, but ``finish``, described as to the model, and ``ask``.

    Where retrievers rank nodes of the knowledge base, ``retrieve`` asks them.

    Nothing that ``hide`` knows is in what it says.
    """
    agent = backend.agent

    async def tools(
        context: ServerRequestContext[Any],  # noqa: ARG001 - a handler
        params: PaginatedRequestParams | None,  # noqa: ARG001
    ) -> ListToolsResult:
        found = []
        if agent:
            lookups = [tool.lookup for tool in agent.lookups]
            found = [Tool(name=o["name"], description=o["description"], input_schema=o["parameters"]) for o in lookups]
            found.append(_ASK_TOOL)
        return ListToolsResult(tools=[*found, *([_retrieve_tool(backend.retrievers)] if backend.retrievers else [])])

    async def call(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        arguments = params.arguments or {}
        try:
            if params.name == RETRIEVE and backend.retrievers:
                system, query, k = _read_retrieve(arguments, [entry.name for entry in backend.retrievers])
                found = _ranked(await backend.ask(context, query, system), k)
            elif agent is None:
                raise BadArguments(f"There is no tool {params.name!r} here; there is {RETRIEVE}.")
            elif params.name == ASK:
                run = await backend.ask(context, str(arguments.get("question", "")))
                evidence = bool(arguments.get("evidence"))
                answered = partial(_answered, agent, run, evidence)
                found = await backend.call(context, answered) if evidence else answered()
            else:
                seen, _ = await backend.call(context, partial(use, agent, params.name, arguments))
                found = _result(seen.text, failed=not seen.ok)
        except KbnavError as error:
            found = _result(str(error), failed=True)
        return type(found).model_validate(hide.hidden_in(found.model_dump(mode="json")))

    instructions, opened = [], backend.settings.kb
    name = backend.settings.source.title or (backend.kb.name if "/" in opened else opened)  # no folder's address
    if agent:
        known = next((entry.about.rstrip(".") for entry in systems() if entry.name == agent.name), "one of your own")
        instructions.append(_INSTRUCTIONS.format(kb=name, agent=agent.name, about=known))
    if backend.retrievers:
        instructions.append(_RANKED.format(kb=name))
    return Server(
        "kbnav",
        version=versions()["kbnav"],
        instructions=" ".join(instructions),
        lifespan=backend.opened,
        on_list_tools=tools,
        on_call_tool=call,
    )


_PROVE = "Also the statements that make each row true; two queries more."
_ASK_TOOL = Tool(
    name=ASK,
    description=_ASK,
    input_schema={
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "The question.", "minLength": 1},
            "evidence": {"type": "boolean", "description": _PROVE, "default": False},
        },
        "required": ["question"],
    },
)


def _retrieve_tool(retrievers: Sequence[SystemEntry]) -> Tool:
    listed = "\n".join(f"- {entry.name}: {entry.about}" for entry in retrievers)
    names = [entry.name for entry in retrievers]
    schema = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words, or a question.", "minLength": 1},
            "system": {"type": "string", "description": "What ranks.", "enum": names, "default": names[0]},
            "k": {"type": "integer", "description": "Nodes.", "minimum": 1, "maximum": MOST_NODES, "default": _NODES},
        },
        "required": ["query"],
    }
    return Tool(name=RETRIEVE, description=_RETRIEVE.format(systems=listed), input_schema=schema)


def _read_retrieve(arguments: dict[str, Any], names: Sequence[str]) -> tuple[str, str, int]:
    """System, query, and how many nodes. Raises BadArguments."""
    system, k = arguments.get("system") or names[0], arguments.get("k", _NODES)
    if system not in names:
        raise BadArguments(f"no system {system!r} ranks here; there are: {', '.join(names)}")
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MOST_NODES:
        raise BadArguments(f"k: a number from 1 to {MOST_NODES}")
    return system, str(arguments.get("query", "")), k


def _answered(agent: Agent, run: Run, evidence: bool) -> CallToolResult:
    """An answer; with the statements that make its rows true, where they are asked for."""
    answer = answer_record(run, agent.settings.endpoints.query_page)
    lines = [answer["answer"] or answer["note"] or answer["status"]]
    if run.outcome.absence:
        lines.append(absence_text(run.outcome.absence))
    if evidence and (found := run_evidence(agent.kb, run)):
        table = answer_table(run.outcome)
        answer["evidence"] = evidence_data(found, table)
        lines += evidence_lines(found, table)
    return _result("\n".join(lines), answer)


def _ranked(run: Run, k: int) -> CallToolResult:
    """A ranking, a line a node, with the steps that led to it."""
    ranking = run.outcome.ranking or Ranking()
    records = ranking.records()[:k]
    lines = [f"{one['rank']}. {one['name']} ({one['type']}, {one['id']}) {one['score']:.4g}" for one in records]
    steps = [{**call_data(step.call), **step_data(step)} for step in run.steps]
    data = {"query": run.question, "system": run.system, "model": run.model, **run_record(run)}
    return _result("\n".join(lines) or "nothing was found", {**data, "ranking": records, "steps": steps})


def _result(text: str, data: dict[str, Any] | None = None, *, failed: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data, is_error=failed)


async def run_stdio(server: Server[Any]) -> None:
    """Talk over standard input and output until the client hangs up."""
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def http_app(server: Server[Any], web: Web) -> ASGIApp:
    """The same over HTTP at ``/mcp``, behind the gate that the chat page is behind."""
    from kbnav.apps.web.auth import Gate

    app = server.streamable_http_app(
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the gate does it
    )
    return Gate(app, web)
