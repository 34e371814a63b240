"""Agents that walk along links, with scripted models."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from langchain_core.language_models import BaseChatModel

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import Writer, write_plainly
from kbnav.agents.walking.base import Models
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.scripted import ScriptedModel
from kbnav.planning.paths import Hop, Plan, PlannedPath, Planner
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import Settings
from kbnav.settings.systems import find
from kbnav.tools.walking import Ask


@dataclass
class Script:
    """Replies one after another, each also as its cost: one call; keeps the prompts and what they were for."""

    replies: Sequence[str]
    prompts: list[str] = field(default_factory=list)
    purposes: list[str] = field(default_factory=list)
    temperatures: list[float | None] = field(default_factory=list)

    def __call__(
        self, prompt: str, purpose: str, *, temperature: float | None = None, sample: int = 0
    ) -> tuple[str, Usage]:
        self.prompts.append(prompt)
        self.purposes.append(purpose)
        self.temperatures.append(temperature)
        place = len(self.prompts) - 1
        return (self.replies[place] if place < len(self.replies) else ""), Usage(prompt=10, completion=1, calls=1)


@dataclass(frozen=True)
class Given:
    """A planner that gives one plan and costs one call."""

    paths: tuple[PlannedPath, ...]
    notes: tuple[str, ...] = ()
    name: str = "given"

    def plan(self, question: str, nodes: Sequence[str], trace=None) -> Plan:
        if trace is not None:
            trace.spend(Usage(prompt=5, completion=1, calls=1))
        return Plan(self.paths, self.notes)


OWNED = PlannedPath((Hop("owns"),), 0.7, ("person", "house"))
OWNED_IN = PlannedPath((Hop("owns"), Hop("located_in")), 0.2, ("person", "house", "town"))
BY_TEXT = PlannedPath((), 0.1)


def settings(home: Path, *, budget: dict[str, int] | None = None, **options: object) -> Settings:
    return Settings(home=home, kb="village", language="en", model="scripted", options=options, budget=budget or {})


def walker(
    name: str,
    kb: KnowledgeBase,
    own: Settings,
    *,
    ask: Ask | None = None,
    model: BaseChatModel | None = None,
    write: Writer = write_plainly,
    planner: Planner | None = None,
) -> Agent:
    """An agent by scripted models; ``planner`` is used in place of the options'."""
    entry, models = find(name), Models(model or ScriptedModel(replies=[]), ask or Script([]), write)
    given = {"options": entry.read(own.options), "models": models, "planner": planner}
    build = entry.builder()
    built: Agent = build(kb, own, **{one: value for one, value in given.items() if one in build.__annotations__})
    return built
