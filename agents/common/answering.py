"""What SPARQL agents answer: the table of the last query with rows, and a sentence about it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kbnav.agents.common.state import LIMITS, State
from kbnav.agents.common.writers import plain_answer
from kbnav.answers.tables import AnswerTable
from kbnav.errors import StopRun, TellModel
from kbnav.knowledge.absence import absence_of
from kbnav.knowledge.base import Joint, KnowledgeBase, Shaped, asked_by
from kbnav.knowledge.sparql.rewriting import drop_probe_limit
from kbnav.knowledge.sparql.vocabulary import entity_ids
from kbnav.runs.trajectory import Call, Outcome, Status, Step, Turn, Usage
from kbnav.tools.observation import Context
from kbnav.tools.toolbox import QUERY

_NO_WORDS = "The sentence could not be written; the rows are the answer."
_LOOKS = re.compile(r"^\s*(?:(?:PREFIX|BASE)\b[^\n]*\s+)*(?:CONSTRUCT|DESCRIBE)\b", re.IGNORECASE)


class Writer(Protocol):
    """Puts an answer table into words, in the language of the question."""

    def __call__(self, outcome: Outcome, state: State, context: Context) -> tuple[str, Usage]:
        """The text, and what it cost."""
        ...


@dataclass(frozen=True)
class QueryEnding:
    """The result that finish names is the answer, or else the last with rows; out of budget, the last with rows.

    ``last_executed``: finish takes the last executed query, whatever it gave (SPINACH, section 4.1). ``sentence``: the
    sentence that came with finish is the answer in words, and no model is asked for another.
    """

    write: Writer
    last_executed: bool = False
    sentence: bool = True

    def premature(self, finish: Call, path: Sequence[Step], history: Sequence[Turn]) -> bool:  # noqa: ARG002 - an Ending
        """A finish is premature while no query has rows; the last executed one where that is the answer (section 4.2).

        That there is no answer may be said once a query has run. Whether a result that is named exists says the tool.
        """
        queries = [step for step in path if step.call.tool == QUERY]
        if finish.arguments.get("no_answer"):
            return all(step.rows is None for step in queries)
        if finish.arguments.get("result"):
            return False
        return not any(step.rows for step in (queries[-1:] if self.last_executed else queries))

    def chosen(self, call: Call, path: Sequence[Step]) -> bool:
        """A query with rows may be run once more: it becomes the last, and with that the answer."""
        same = [step for step in path if step.call.key == call.key]
        return not self.last_executed and len(same) == 1 and bool(same[0].rows)

    def conclude(self, state: State, context: Context) -> tuple[Outcome, Usage]:
        """The final query is run once more without the LIMIT it was probed with; its whole table is the answer.

        Where that is no, 0 or empty, or no query had rows, it is found out which kind of nothing that is.
        """
        outcome, usage = self._concluded(state, context)
        return _with_absence(outcome, state, context), usage

    def _concluded(self, state: State, context: Context) -> tuple[Outcome, Usage]:
        stop = state["stop"] or "error"
        status: Status = {"finish": "answered", "refusal": "refused", "error": "failed"}.get(stop, "best effort")  # type: ignore[assignment]
        outcome = Outcome(status, stop, note=state["failure"])
        if stop == "finish" and (given_up := state["path"][-1].call).arguments.get("no_answer"):
            return replace(outcome, status="no answer", note=given_up.thought), Usage()
        taken = self.taken(state)
        if taken is None:
            return replace(outcome, status=status if status in ("refused", "failed") else "no answer"), Usage()
        query = taken.call.query
        if stop in LIMITS and (known := context.tables.get(query)):
            return replace(outcome, query=query, table=known, text=plain_answer(known)), Usage()
        if not taken.rows:
            return replace(outcome, status="no answer", query=query, table=context.tables.get(query)), Usage()
        if status == "best effort" and self._was_chosen(state):
            outcome = replace(outcome, status="answered")
        if status == "failed":
            return replace(outcome, query=query, table=context.tables.get(query)), Usage()
        try:
            final, table, note = _final_table(query, state["question"], context)
        except TellModel as error:  # it ran before; only a session that was killed asks again
            failed = replace(outcome, status="no answer", query=query)
            return failed.noted("The final query failed when it was run again.", str(error)), Usage()
        runs_anywhere = context.kb.declared(final) if isinstance(context.kb, Shaped | Joint) else final
        outcome = replace(outcome, query=runs_anywhere, table=table).noted(*note)
        outcome = outcome.noted(" ".join(filter(None, (table.cut, table.note))))
        try:
            base = asked_by(context.kb, final)
            names = base.labels(ids_in(base, final), language=context.language)
            outcome = replace(outcome, table=replace(table, labels={**table.labels, **names}))
            said = self._said(state) if final == query else ""
            text, usage = (said, Usage()) if said else self.write(outcome, state, context)
        except StopRun as error:  # the rows are there; only the words for them are missing
            return replace(outcome, text=plain_answer(table)).noted(_NO_WORDS, str(error)), Usage()
        return replace(outcome, text=text), usage

    def taken(self, state: State) -> Step | None:
        """The step whose result is the answer; None where there is none."""
        path = state["path"]
        if state["stop"] == "finish":
            number = path[-1].call.arguments.get("result")
            if number:
                return next(
                    (step for step in (*path, *state["discarded"]) if step.result == number and step.rows), None
                )
            if self.last_executed:
                return next(
                    (step for step in reversed(path) if step.call.tool == QUERY and step.rows is not None), None
                )
        return last_with_rows(path) or last_with_rows(state["discarded"])

    def _was_chosen(self, state: State) -> bool:
        """Whether the last action, before the budget was used up, repeated a query to name it as the answer."""
        path = state["path"]
        return bool(path) and self.chosen(path[-1].call, path[:-1])

    def _said(self, state: State) -> str:
        """The sentence that came with finish."""
        if not self.sentence or state["stop"] != "finish":
            return ""
        return str(state["path"][-1].call.arguments.get("answer", "")).strip()


def _with_absence(outcome: Outcome, state: State, context: Context) -> Outcome:
    """With which kind of nothing the answer is: of the final query, or of the last one where none had rows."""
    query, table = outcome.query, outcome.table
    if table is None and outcome.status == "no answer":
        ran = [step.call.query for step in state["path"] if step.call.tool == QUERY and step.rows is not None]
        query = ran[-1] if ran else ""
        table = context.tables.get(query)
    if table is None or not query:
        return outcome
    return replace(outcome, absence=absence_of(asked_by(context.kb, query), query, table, context.language))


def last_with_rows(steps: Sequence[Step]) -> Step | None:
    """The last query with rows; one that only looks at the triples of things (CONSTRUCT) where there is no other."""
    queries = [step for step in steps if step.call.tool == QUERY and step.rows]
    tables = [step for step in queries if not _LOOKS.search(str(step.call.arguments.get("query", "")))]
    return max(tables or queries, key=lambda step: step.number, default=None)


def ids_in(kb: KnowledgeBase, query: str) -> Sequence[str]:
    """Ids of what a query names, as the knowledge base calls it."""
    return kb.ids_in(query) if isinstance(kb, Shaped) else entity_ids(query)


def _final_table(query: str, question: str, context: Context) -> tuple[str, AnswerTable, tuple[str, str]]:
    """The final query, its table, what a reader must know of them, and the error behind it."""
    final = drop_probe_limit(query, question)
    note = ("", "")
    if final != query:
        try:
            table = context.kb.execute_query(final, language=context.language)
            return final, table, ("The LIMIT of the last query was only for probing, and is left out.", "")
        except (TellModel, StopRun) as error:
            note = ("The LIMIT of the query was kept, because it does not run without one.", str(error))
    known = context.tables.get(query)
    return query, known if known is not None else context.kb.execute_query(query, language=context.language), note
