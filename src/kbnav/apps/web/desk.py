"""What clients of the Model Context Protocol ask over HTTP, within the limits that the chat page has."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

from langgraph.checkpoint.memory import InMemorySaver

from kbnav.agents.common.agent import Agent
from kbnav.apps.secrets import secrets_of
from kbnav.apps.web.database import open_sqlite
from kbnav.apps.web.runner import Runner
from kbnav.apps.web.saved import SavedFiles
from kbnav.apps.web.service import Service, served
from kbnav.apps.web.store import Store
from kbnav.errors import LimitReached, StopRun
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.cancellation import Brake
from kbnav.runs.trajectory import Run
from kbnav.settings import systems
from kbnav.settings.model import Settings
from kbnav.settings.systems import SystemEntry

T = TypeVar("T")
DATABASE = "mcp.sqlite"
"""Under ``home``; apart from that of the page, whose servers would take questions over that they cannot answer."""


class Desk:
    """Hands questions to a runner, and lets so many calls of tools in at once, of all and of one user."""

    def __init__(self, service: Service, store: Store) -> None:
        """Of a service with one knowledge base, and one agent or none. Raises as the builder of the first system."""
        (served,) = service.kbs.values()
        self._service, self._store = service, store
        self.kb, self.settings = served.kb, service.settings
        self.retrievers: Sequence[SystemEntry] = [entry for entry in served.systems if entry.kind == "retriever"]
        self._first = served.systems[0].name
        self._limits = service.settings.web
        self._tools = ThreadPoolExecutor(self._limits.runs)
        self._at_work: Counter[str] = Counter()
        """Calls of tools by who asked for them; one that was taken back is at work until its thread is over."""
        first = service.system(*self._choice(""))
        self.agent = first if isinstance(first, Agent) else None

    def _choice(self, system: str) -> tuple[str, str, str]:
        return self.kb.name, system or self._first, self.settings.model

    @asynccontextmanager
    async def opened(self, _: object) -> AsyncIterator[Runner]:
        """The runner, in the server's loop."""
        hide = secrets_of(self._service.settings)
        runner = Runner(self._service, self._store, InMemorySaver(), hide, asyncio.get_running_loop())
        with runner.told_of_the_end():
            runner.start()
            try:
                yield runner
            finally:
                await asyncio.to_thread(runner.close)

    async def ask(self, context: Any, question: str, system: str = "") -> Run:
        """Ask for the visitor of a request; one that is taken back stops the run.

        Raises as ``Runner.ask``, and StopRun where the run failed or was stopped.
        """
        runner: Runner = context.lifespan_context
        owner: str = context.request.state.visitor.owner
        run = await asyncio.to_thread(runner.ask, owner, question, self._choice(system))
        answer: dict[str, Any] = {"note": "The server is shutting down."}
        try:
            async with aclosing(runner.follow(run.id)) as events:
                async for event in events:
                    if event is not None and event.data["kind"] == "end":
                        answer = event.data["answer"]
        except asyncio.CancelledError:
            runner.stop_soon(run)
            raise
        if answer.get("status", "failed") in ("failed", "stopped"):
            raise StopRun(answer["note"])
        saved = self._store.saved.find(answer["run"])
        if saved is None:
            raise StopRun("the run was deleted as soon as it ended")
        return saved

    async def call(self, context: Any, work: Callable[[], T]) -> T:
        """What a tool brings; each model's call that it makes counts as a question of the visitor's.

        Raises LimitReached where too many are at work or were asked, and as the tool.
        """
        owner: str = context.request.state.visitor.owner
        if self._at_work[owner] >= self._limits.runs_per_user:
            raise LimitReached(f"{self._limits.runs_per_user} of your calls are at work; wait for one")
        if self._at_work.total() >= self._limits.runs:
            raise LimitReached("too many calls are at work; try again in a moment")
        loop = asyncio.get_running_loop()
        brake = _Counting(loop, partial(context.lifespan_context.count, owner))
        self._at_work[owner] += 1
        working = loop.run_in_executor(self._tools, brake.within, work)
        working.add_done_callback(lambda _: self._leave(owner))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            brake.stop()
            raise

    def _leave(self, owner: str) -> None:
        """A call is over; who has none left is not kept."""
        self._at_work -= Counter([owner])


class _Counting(Brake):
    """A brake that counts each call of a model, before it is made."""

    def __init__(self, loop: asyncio.AbstractEventLoop, count: Callable[[], None]) -> None:
        super().__init__(loop)
        self._count = count

    def ask(self, call: Callable[[], T], awaited: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """As a brake does. Raises as ``count`` too."""
        self._count()
        return super().ask(call, awaited)


@contextmanager
def open_desk(settings: Settings, kb: KnowledgeBase, system: str = "") -> Iterator[Desk]:
    """A desk for one agent and the retrievers, or for one of these alone.

    Raises as ``build_system``, and UsageError where its database cannot be opened.
    """
    entries = offered_at(kb, system)
    with open_sqlite(settings.home / DATABASE) as database:
        store = Store(database, SavedFiles(settings.home / "runs"))
        store.set_up()
        yield Desk(Service(settings, [served(kb.name, kb, settings, entries)]), store)


def offered_at(kb: KnowledgeBase, system: str = "") -> tuple[SystemEntry, ...]:
    """An agent with the retrievers that rank nodes of the knowledge base; of a retriever nothing else.

    Raises UsageError for an unknown system.
    """
    entry = systems.find(system or systems.usual_agent(kb))
    return (entry,) if entry.kind == "retriever" else (entry, *systems.retrievers_for(kb))
