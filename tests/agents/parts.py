"""A machine on three small tools, so that what is tested is the machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import QueryEnding, write_plainly
from kbnav.agents.common.policy import ChatPolicy
from kbnav.agents.machine import Event
from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import QuerySyntaxError, ServiceError
from kbnav.knowledge.base import Capability, SearchKind, SearchResult
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import Settings
from kbnav.tools.context import Context, Observation
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.wikidata import finish


class NumbersKB:
    """A knowledge base whose query ``SELECT n`` has n rows; ``broken`` does not parse, ``down`` is a dead service."""

    name = "numbers"
    capabilities: frozenset[Capability] = frozenset({"search_entities", "execute_query"})

    def __init__(self) -> None:
        self.ran: list[str] = []

    def state(self) -> dict[str, Any]:
        return {"kb": self.name}

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        self.ran.append(query)
        word = query.split()[1] if len(query.split()) > 1 else query
        if word == "broken":
            raise QuerySyntaxError("line 1, column 8: expected a variable", line=1, column=8)
        if word == "down":
            raise ServiceError("the query service is down")
        rows = tuple((Term("literal", str(number)),) for number in range(int(word)))
        return AnswerTable(("n",), rows)

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
