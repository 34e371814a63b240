"""An agent: a machine with its parts, ready to be asked."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from kbnav.agents.common.state import Ending, Policy, State
from kbnav.agents.machine import Machine, RunContext
from kbnav.answers.language import chosen_language, question_language
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase, Meter
from kbnav.models.prices import needed_price, price_of
from kbnav.prompts import prompt_hashes
from kbnav.runs.trajectory import FINISH
from kbnav.settings import systems
from kbnav.settings.model import OFFLINE, Settings
from kbnav.settings.systems import GIVEN
from kbnav.tools.context import Context, Note, Pruner, Shown, prune_by_ranking, read_notes
from kbnav.tools.toolbox import SHOW_ROWS, Toolbox

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

    from kbnav.agents.common.policy import Demonstrations

_log = logging.getLogger(__name__)
_PATIENCE = 5
"""How many times ``limits.query_timeout`` a question waits in all for look-ups that are not answered."""


@dataclass(frozen=True)
class Agent:
    """Everything a question needs but the question: asked through ``kbnav.sessions.session``."""

    name: str
    model: str
    kb: KnowledgeBase
    settings: Settings
    policy: Policy
    toolbox: Toolbox
    ending: Ending
    prune: Pruner = prune_by_ranking(Shown())
    prompts: tuple[str, ...] = ()
    """Folders under ``prompts/``, or one's own by their whole paths, whose files' hashes are saved with every run."""
    shown: Shown = Shown()
    model_tools: Toolbox | None = None
    """What a model chooses from, where the agent's program calls tools of its own besides, such as ``plan``."""

    notes: Sequence[Note] = ()
    """Notes that come with results."""
    demonstrations: Demonstrations | None = None
    """Examples in its prompts."""
    _graphs: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def lookups(self) -> Toolbox:
        """Tools for callers outside of a run (MCP, LangChain): all but ``finish`` and ``show_rows``."""
        return (self.model_tools or self.toolbox).less(FINISH, SHOW_ROWS)

    @property
    def machine(self) -> Machine:
        """The agent's nodes and rules."""
        settings = self.settings
        price = price_of(settings, self.model)
        return Machine(self.policy, self.toolbox, self.ending, settings.budget, settings.checks, price)

    def context(self, question: str, given: Mapping[str, str] = MappingProxyType({})) -> RunContext:
        """What one run's nodes are given; ``given`` are entities that came with the question, labels by id."""
        language = chosen_language(self.settings.language, question)
        read = question_language(question, default=language) if self.model == OFFLINE else language
        meter = Meter(self.settings.budget.requests, _PATIENCE * self.settings.limits.query_timeout)
        seconds = self.settings.budget.seconds
        until = time.monotonic() + seconds if seconds else None
        shown = replace(self.shown, profiles=False) if self.model == OFFLINE else self.shown
        own = Context(self.kb, question, read, self.prune, shown, meter=meter, given=given, notes=self.notes)
        return RunContext(replace(own, answer_language=language), until=until)

    def graph(
        self, checkpointer: BaseCheckpointSaver[Any] | None = None
    ) -> CompiledStateGraph[State, RunContext, State, State]:
        """The machine as a graph; made once, because that takes as long as an easy question."""
        named = ", ".join(tool for tool in self.settings.own_tools if isinstance(tool, str))
        if named and self.model == OFFLINE and not self._graphs:
            _log.warning("rules choose no tool, so that %s will not be called: name a language model", named)
        if checkpointer not in self._graphs:
            self._graphs[checkpointer] = self.machine.graph(checkpointer)
        return self._graphs[checkpointer]  # type: ignore[no-any-return]

    def prompt_hashes(self) -> dict[str, str]:
        """SHA-256 of the agent's prompt files, of the examples in them and of the notes; rules read no prompt."""
        files = prompt_hashes(".", *self.prompts) if self.prompts and self.model != OFFLINE else {}
        notes = "\n".join(note.model_dump_json() for note in self.notes)
        own = {"notes": hashlib.sha256(notes.encode()).hexdigest()} if notes else {}
        return {**files, **own, **(self.demonstrations.hashes if self.demonstrations else {})}


def build_agent(kb: KnowledgeBase, settings: Settings, system: systems.SystemName = "") -> Agent:
    """The agent ``system``; without a name ``skb`` for an SKB, ``spinach`` for everything else.

    Raises UsageError for an unknown name or option, for one that takes from gold answers, and where the agent cannot
    work on this knowledge base or without a model, CredentialsError where its model needs a key.
    """
    return cast("Agent", build_system(kb, settings, system, "agent"))


def build_system(
    kb: KnowledgeBase, settings: Settings, system: systems.SystemName = "", kind: systems.SystemKind | None = None
) -> Any:
    """An agent, or the retriever that is named. Raises as ``build_agent``, and for one of another ``kind``."""
    name = system or systems.usual_agent(kb)
    if wanted := systems.find(name, kind).read(settings.options).from_gold:
        raise UsageError(f"{name} is given {GIVEN[wanted]} by kbnav eval alone: only a dataset's questions have them")
    built = systems.build(name, kb, settings, kind)
    return completed(built, settings) if isinstance(built, Agent) else built


def completed(agent: Agent, settings: Settings) -> Agent:
    """The agent with the settings' notes. Raises UsageError for a limit in dollars without the price of its model."""
    if settings.budget.dollars:
        needed_price(settings, "budget.dollars")
    return replace(agent, notes=read_notes(settings.notes))
