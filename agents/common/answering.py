"""What SPARQL agents answer: the table of the last query with rows, and a sentence about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kbnav.agents.common.writers import plain_answer
from kbnav.agents.machine import State
from kbnav.answers import AnswerTable
from kbnav.errors import StopRun, TellModel
from kbnav.knowledge.sparql.limits import drop_probe_limit
from kbnav.knowledge.sparql.prefixes import entity_ids
from kbnav.tools.observation import Context
from kbnav.tools.toolbox import QUERY
from kbnav.trajectory import Call, Outcome, Status, Step, Turn, Usage


class Writer(Protocol):
    """Puts an answer table into words, in the language of the question."""

    def __call__(self, outcome: Outcome, state: State, context: Context) -> tuple[str, Usage]:
        """The text, and what it cost."""
        ...


@dataclass(frozen=True)
class QueryEnding:
    """The last executed query is the answer (SPINACH, section 4.1); out of budget, the last query with rows."""

    write: Writer

    def premature(self, finish: Call, path: Sequence[Step], history: Sequence[Turn]) -> bool:  # noqa: ARG002 - an Ending
        """A finish is premature while the last executed query has no rows, or there is none (SPINACH, section 4.2).

        That there is no answer may be said once a query has run.
        """
        queries = [step for step in path if step.call.tool == QUERY]
        if finish.arguments.get("no_answer"):
            return all(step.rows is None for step in queries)
        return not queries or not queries[-1].rows

    def conclude(self, state: State, context: Context) -> tuple[Outcome, Usage]:
        """The final query is run once more without the LIMIT it was probed with; its whole table is the answer."""
        stop = state["stop"] or "error"
        status: Status = {"finish": "answered", "refusal": "refused", "error": "failed"}.get(stop, "best effort")  # type: ignore[assignment]
        outcome = Outcome(status, stop, note=state["failure"])
        if stop == "finish" and (given_up := state["path"][-1].call).arguments.get("no_answer"):
            return replace(outcome, status="no answer", note=given_up.thought), Usage()
        query = _last_with_rows(state)
        if query is None:
            return replace(outcome, status=status if status in ("refused", "failed") else "no answer"), Usage()
        if status == "failed":
            return replace(outcome, query=query, table=context.tables.get(query)), Usage()
        try:
            final, table, note = _final_table(query, state["question"], context)
        except TellModel as error:  # it ran before; only a session that was killed asks again
            return replace(outcome, status="no answer", query=query, note=f"The final query failed: {error}"), Usage()
        outcome = replace(outcome, query=final, table=table, note=outcome.note or note)
        try:
            names = context.kb.labels(entity_ids(final), language=context.language)
            outcome = replace(outcome, table=replace(table, labels={**table.labels, **names}))
            text, usage = self.write(outcome, state, context)
        except StopRun as error:  # the rows are there; only the words for them are missing
            note = " ".join(filter(None, [outcome.note, f"Not put into words: {error}."]))
            return replace(outcome, text=plain_answer(table), note=note), Usage()
        return replace(outcome, text=text), usage


def _last_with_rows(state: State) -> str | None:
    """The last query with rows on the path, else among what was rolled back."""
    for steps in (state["path"], state["discarded"]):
        for step in sorted(steps, key=lambda item: -item.number):
            if step.call.tool == QUERY and step.rows:
                return str(step.call.arguments["query"])
    return None


def _final_table(query: str, question: str, context: Context) -> tuple[str, AnswerTable, str]:
    """The final query, its table, and what a reader must know of them."""
    final = drop_probe_limit(query, question)
    note = ""
    if final != query:
        try:
            table = context.kb.execute_query(final, language=context.language)
            return final, table, "The LIMIT of the last query was only for probing, and is left out."
        except (TellModel, StopRun) as error:
            note = f"The LIMIT of the query was kept, because without it: {error}"
    known = context.tables.get(query)
    return query, known if known is not None else context.kb.execute_query(query, language=context.language), note
