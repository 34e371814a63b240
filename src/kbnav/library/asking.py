"""Ask one question: wait for the answer, await it, or watch the steps."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.choice import build_agent
from kbnav.agents.machine import Event as MachineEvent
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.evidence import Provenance
from kbnav.library.answer import Answer
from kbnav.library.kb import KB
from kbnav.library.kb import open as open_named
from kbnav.models.cancellation import Brake
from kbnav.runs.trajectory import Call, Run, Step
from kbnav.sessions import session
from kbnav.sessions.evidence import run_evidence
from kbnav.settings.model import Settings, load_settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig

AnyKB = KB | KnowledgeBase | str | os.PathLike[str]
"""An open knowledge base, one of your own making, or what ``kbnav.open`` opens."""


@dataclass(frozen=True)
class Event:
    """What ``kbnav.stream`` tells.

    ``call`` is an action before it is run; ``step`` an action with what it brought; ``dropped`` a step that was taken
    off the path; ``answer`` comes last.
    """

    kind: Literal["call", "step", "dropped", "answer"]
    call: Call | None = None
    step: Step | None = None
    answer: Answer | None = None


@dataclass(frozen=True)
class How:
    """What is asked of, and by what; the parameters of ``ask``."""

    kb: AnyKB | None = None
    model: str | BaseChatModel | None = None
    system: str = ""
    language: str | None = None
    base_url: str | None = None
    options: Mapping[str, Any] | None = None
    settings: Settings | None = None

    @contextmanager
    def agent(self) -> Iterator[Agent]:
        """What answers, its knowledge base open meanwhile."""
        kb = self.opened()
        with nullcontext() if kb is self.kb else kb:
            yield self.built(kb)

    def evidence(self, run: Run) -> Provenance:
        """What makes the rows of an answer true. Raises UsageError where its knowledge base is closed."""
        kb = self.opened()
        with nullcontext() if kb is self.kb else kb:
            return run_evidence(kb.base, run) or Provenance()

    def opened(self) -> KB:
        """The knowledge base: that which was given, or newly opened."""
        if isinstance(self.kb, KB):
            return self.kb
        if self.kb is None or isinstance(self.kb, str | os.PathLike):
            return open_named(self.kb, settings=self.settings)
        settings = self.settings or load_settings()
        return KB(self.kb, settings.model_copy(update={"kb": self.kb.name}))

    def built(self, kb: KB) -> Agent:
        """What answers questions of an open knowledge base."""
        told = {"language": self.language, "base_url": self.base_url, "options": self.options}
        given = {name: value for name, value in told.items() if value is not None}
        settings = (self.settings or kb.settings).model_copy(update={"kb": kb.settings.kb, **given})
        if self.model is not None:
            settings = settings.asking(self.model)
        return build_agent(kb.base, settings, self.system)


def ask(
    question: str,
    *,
    kb: AnyKB | None = None,
    model: str | BaseChatModel | None = None,
    system: str = "",
    language: str | None = None,
    base_url: str | None = None,
    options: Mapping[str, Any] | None = None,
    on_step: Callable[[Step], None] | None = None,
    after: Answer | None = None,
    config: RunnableConfig | None = None,
    settings: Settings | None = None,
) -> Answer:
    """Ask a question and wait for its answer. The run is saved, as the command line does: ``kbnav show last``.

    Args:
        question: in any language.
        kb: what to ask: an open knowledge base, or what ``kbnav.open`` opens; None: that of the settings (``mini``).
        model: ``offline`` (rules, a baseline), the name of a chat model, or any LangChain chat model that can call
            tools; None: that of the settings.
        system: what answers, such as ``spinach``; empty: what fits the knowledge base.
        language: language code of labels and answer; None: that of the question.
        base_url: an OpenAI-compatible endpoint; None: that of the settings, or OpenAI's.
        options: options of the system, as ``--set`` gives them.
        on_step: called with every step when it is done, and once more where it is taken back (``dropped`` is set).
        after: the answer that this question follows up.
        config: LangChain's: callbacks, tags and metadata, for the run and for every call of a model in it.
        settings: all other settings; None: those of the knowledge base, the environment and ``kbnav.toml``.

    Raises:
        UsageError: an unknown name or an option that cannot be.
        ServiceError: a model or a knowledge base that failed and stayed failed; CredentialsError where a key is
            missing. Both are ``kbnav.KbnavError``; the run up to then is saved before.
    """
    how = How(kb, model, system, language, base_url, options, settings)
    return _asked(how, question, after, config, _steps_to(on_step))


async def aask(
    question: str,
    *,
    kb: AnyKB | None = None,
    model: str | BaseChatModel | None = None,
    system: str = "",
    language: str | None = None,
    base_url: str | None = None,
    options: Mapping[str, Any] | None = None,
    on_step: Callable[[Step], None] | None = None,
    after: Answer | None = None,
    config: RunnableConfig | None = None,
    settings: Settings | None = None,
) -> Answer:
    """As ``ask``, awaited. Cancelling it ends the run, the call of the model too. ``on_step`` runs in a thread."""
    how = How(kb, model, system, language, base_url, options, settings)
    brake = Brake(asyncio.get_running_loop())
    try:
        return await asyncio.to_thread(_asked, how, question, after, config, _steps_to(on_step), brake)
    except asyncio.CancelledError:
        brake.stop()
        raise


def stream(
    question: str,
    *,
    kb: AnyKB | None = None,
    model: str | BaseChatModel | None = None,
    system: str = "",
    language: str | None = None,
    base_url: str | None = None,
    options: Mapping[str, Any] | None = None,
    after: Answer | None = None,
    config: RunnableConfig | None = None,
    settings: Settings | None = None,
) -> Iterator[Event]:
    """As ``ask``, telling what happens as it happens; the answer comes last. To leave the loop ends the run."""
    how = How(kb, model, system, language, base_url, options, settings)
    told: SimpleQueue[Event | BaseException] = SimpleQueue()
    brake = Brake()

    def tell(event: MachineEvent) -> None:
        for one in _parts(event):
            told.put(one)

    def work() -> None:
        try:
            answer = _asked(how, question, after, config, tell, brake)
            told.put(Event("answer", answer=answer))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that listens
            told.put(error)

    thread = threading.Thread(target=copy_context().run, args=(work,), daemon=True, name="kbnav-stream")
    thread.start()
    try:
        while True:
            event = told.get()
            if isinstance(event, BaseException):
                raise event
            yield event
            if event.kind == "answer":
                return
    finally:
        brake.stop()
        thread.join()


def _asked(
    how: How,
    question: str,
    after: Answer | None,
    config: RunnableConfig | None,
    on_event: Callable[[MachineEvent], None] | None,
    brake: Brake | None = None,
) -> Answer:
    history = after.history if after else ()
    with how.agent() as agent:
        run = session.ask(agent, question, on_event=on_event, history=history, brake=brake, config=config)
        return Answer(run, agent.settings.endpoints.query_page, how.evidence)


def _steps_to(on_step: Callable[[Step], None] | None) -> Callable[[MachineEvent], None] | None:
    """A listener that passes on steps alone."""
    if on_step is None:
        return None

    def listen(event: MachineEvent) -> None:
        for step in event.steps:
            on_step(step)

    return listen


def _parts(event: MachineEvent) -> list[Event]:
    """The machine's event as one or more that a reader of the stream is told."""
    if event.kind == "call":
        return [Event("call", call=event.call)]
    return [Event(event.kind, call=step.call, step=step) for step in event.steps]
