"""Putting an answer table or a ranking into words: by a model, or plainly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kbnav.agents.common.beam import facts_for
from kbnav.agents.common.state import State
from kbnav.answers.tables import AnswerTable, Cell, Ranking
from kbnav.knowledge.sparql.presentation import comment_labels
from kbnav.models.streaming import asking_for
from kbnav.prompts import render
from kbnav.runs.trajectory import Outcome, Usage
from kbnav.tools.observation import Context, Shown
from kbnav.tools.show import cell_text, cut, table_text
from kbnav.tools.toolbox import FINISH
from kbnav.tools.walking import fact_text

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_NAMED = 10
"""Rows that a plain answer names."""
_LONG = 200
"""Characters of a value in a plain answer."""
WORDED = 50
"""Rows up to which a model puts a result into words whole."""


@dataclass(frozen=True)
class ModelWriter:
    """Asks a model, at temperature 0, for one to three sentences in the language of the question."""

    model: BaseChatModel
    shown: Shown = Shown()

    def __call__(self, outcome: Outcome, state: State, context: Context) -> tuple[str, Usage]:
        """The model's text; nothing is asked where there is no table."""
        from kbnav.models.chat import ask

        if outcome.table is None:
            return "", Usage()
        last = state["path"][-1].call if state["path"] else None
        prompt = render(
            "spinach/answer.md",
            earlier=state["history"],
            question=state["question"],
            query=comment_labels(outcome.query, outcome.table.labels),
            table=table_text(outcome.table, replace(self.shown, whole_rows=WORDED)),
            most=WORDED,
            remark=last.thought if last and last.tool == FINISH else "",
            best_effort=outcome.status == "best effort",
            language=context.language,
        )
        with asking_for("answer"):
            text, usage = ask(self.model, prompt)
        return text.strip() or plain_answer(outcome.table), usage


@dataclass(frozen=True)
class RankingWriter:
    """As ``ModelWriter``, for ranked nodes."""

    model: BaseChatModel

    def __call__(self, outcome: Outcome, state: State, context: Context) -> tuple[str, Usage]:
        """The model's text; nothing is asked where there is no ranking."""
        from kbnav.models.chat import ask

        if outcome.ranking is None:
            return "", Usage()
        last = state["path"][-1].call if state["path"] else None
        named = [node.id for node in outcome.ranking.chosen[:_NAMED]]
        facts = facts_for(named, state["path"], state["question"])
        prompt = render(
            "skb/answer.md",
            earlier=state["history"],
            question=state["question"],
            nodes=outcome.ranking.chosen[:_NAMED],
            more=max(0, len(outcome.ranking.chosen) - _NAMED),
            facts=[fact_text(fact) for fact in facts],
            generated=any(fact.generated for fact in facts),
            remark=last.thought if last and last.tool == FINISH else "",
            best_effort=outcome.status == "best effort",
            language=context.language,
        )
        with asking_for("answer"):
            text, usage = ask(self.model, prompt)
        return text.strip() or plain_ranking(outcome.ranking), usage


def write_plainly(outcome: Outcome, state: State, context: Context) -> tuple[str, Usage]:  # noqa: ARG001 - a Writer
    """The values themselves, which read the same in every language: ``polonium, radium``."""
    return (plain_answer(outcome.table) if outcome.table is not None else ""), Usage()


def write_ranking_plainly(outcome: Outcome, state: State, context: Context) -> tuple[str, Usage]:  # noqa: ARG001 - a Writer
    """The names of the nodes, best first."""
    return (plain_ranking(outcome.ranking) if outcome.ranking is not None else ""), Usage()


def plain_ranking(ranking: Ranking) -> str:
    """The names of the first ten nodes that were chosen, ids where they have none."""
    nodes = ranking.chosen
    more = f" … (+{len(nodes) - _NAMED})" if len(nodes) > _NAMED else ""
    return ", ".join(node.label or node.id for node in nodes[:_NAMED]) + more


def plain_answer(table: AnswerTable) -> str:
    """The first column's values, or whole rows where there are several columns; at most ten are named."""
    if table.boolean is not None:
        return "✓ (true)" if table.boolean else "✗ (no such statement here)"
    texts = [", ".join(_plain(table, cell) for cell in row) for row in table.rows[:_NAMED]]
    more = f" … (+{len(table.rows) - _NAMED})" if len(table.rows) > _NAMED else ""
    return ("; " if len(table.columns) > 1 else ", ").join(texts) + more


def _plain(table: AnswerTable, cell: Cell) -> str:
    """An entity by its label alone, and a day without its midnight."""
    used = table.entity(cell)
    if used:
        return cut(table.labels.get(used, used), _LONG)
    return cell_text(cell, table, _LONG).removesuffix("T00:00:00Z")
