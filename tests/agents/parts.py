"""A machine on three small tools, so that what is tested is the machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import QueryEnding, Writer, write_plainly
from kbnav.agents.common.policy import ChatPolicy
from kbnav.agents.machine import Event
from kbnav.agents.walking.base import Models
from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import QuerySyntaxError, ServiceError
from kbnav.knowledge.base import Capability, KnowledgeBase, SearchKind, SearchResult
from kbnav.models.calls import Ask
from kbnav.models.scripted import ScriptedModel, says
from kbnav.planning.paths import TEXT_PATH, Hop, Plan, PlannedPath, Planner, RelationPath
from kbnav.runs.trajectory import Trace, Usage
from kbnav.settings.model import Settings
from kbnav.settings.systems import find
from kbnav.tools.context import Context, Observation
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.wikidata import finish


class NumbersKB:
    """A knowledge base whose query ``SELECT n`` has n rows; ``broken`` does not parse, ``down`` is a dead service.

    ``before`` is called with each query before it is answered.
    """

    name = "numbers"
    capabilities: frozenset[Capability] = frozenset({"search_entities", "execute_query"})

    def __init__(self, before: Callable[[str], object] = len) -> None:
        self.ran: list[str] = []
        self.before = before

    def state(self) -> dict[str, Any]:
        return {"kb": self.name}

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        self.before(query)
        self.ran.append(query)
        word = query.split()[1] if len(query.split()) > 1 else query
        if word == "broken":
            raise QuerySyntaxError("line 1, column 8: expected a variable", line=1, column=8)
        if word == "down":
            raise ServiceError("the query service is down")
        return AnswerTable(("n",), tuple((Term("literal", str(number)),) for number in range(int(word))))

    def search_entities(
        self, query: str, *, language: str = "en", limit: int = 8, kind: SearchKind = "any"
    ) -> SearchResult:
        return SearchResult()

    def labels(self, ids: Sequence[str], *, language: str = "en") -> dict[str, str]:
        return {}


def look(context: Context, thought: str, at: str) -> Observation:
    """Look at something.

    Args:
        thought: Why.
        at: What to look at.
    """
    context.kb.ran.append(f"look {at}")  # type: ignore[attr-defined]
    return Observation(f"seen: {at}")


def execute_query(context: Context, thought: str, query: str) -> Observation:
    """Run a query.

    Args:
        thought: Why.
        query: The query.
    """
    table = context.kb.execute_query(query)
    context.tables[query] = table
    return Observation(f"{len(table)} rows", rows=len(table))


def agent_of(replies: Sequence[AIMessage], home: Path, *, kb: NumbersKB | None = None, **budget: Any) -> Agent:
    """An agent with a scripted model on the tools above."""
    kb = kb or NumbersKB()
    settings = Settings(home=home, language="en", budget=budget, model="scripted")  # type: ignore[arg-type]
    toolbox = Toolbox([look, execute_query, finish], kb.capabilities)
    return Agent(
        name="test",
        model="scripted",
        kb=kb,
        settings=settings,
        policy=ChatPolicy(ScriptedModel(replies=list(replies)), toolbox, "spinach/policy.md", settings.budget),
        toolbox=toolbox,
        ending=QueryEnding(write_plainly),
        prune=lambda entry, question: (entry, Usage()),
    )


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)


def looks(at: str) -> AIMessage:
    return says(("look", {"at": at}))


def runs(rows: object) -> AIMessage:
    return says(("execute_query", {"query": f"SELECT {rows}"}))


def finishes() -> AIMessage:
    return says(("finish", {}))


def near(node: str, **more: object) -> AIMessage:
    return says(("search_neighbors", {"entity_id": node, **more}))


@dataclass
class Script:
    """Replies one after another, each also as its cost: one call; keeps the prompts and what they were for."""

    replies: Sequence[str]
    prompts: list[str] = field(default_factory=list)
    purposes: list[str] = field(default_factory=list)
    temperatures: list[float | None] = field(default_factory=list)

    def __call__(
        self, prompt: str, trace: Trace, *, purpose: str, temperature: float | None = None, sample: int = 0
    ) -> str:
        self.prompts.append(prompt)
        self.purposes.append(purpose)
        self.temperatures.append(temperature)
        place = len(self.prompts) - 1
        trace.spend(Usage(prompt=10, completion=1, calls=1))
        return self.replies[place] if place < len(self.replies) else ""


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


OWNED = PlannedPath(RelationPath((Hop("owns"),), ("person", "house")), 0.7)
OWNED_IN = PlannedPath(RelationPath((Hop("owns"), Hop("located_in")), ("person", "house", "town")), 0.2)
BY_TEXT = PlannedPath(TEXT_PATH, 0.1)


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
