"""Runs as plain data: what happens in one, and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from kbnav.agents.common.answering import plain_ranking
from kbnav.agents.machine import Event
from kbnav.answers.tables import Absence, Ranking
from kbnav.apps.console import call_data, run_record, step_data
from kbnav.apps.web.results import Result, cell_data
from kbnav.apps.web.service import Served, missing_labels
from kbnav.errors import Stopped
from kbnav.runs.citation import query_link
from kbnav.runs.trajectory import Attempt, Call, Step

PAGE = 50
"""Rows of a page."""


class Recorder:
    """A listener that records a run's events as ``call``, ``step`` and ``dropped``; ``call`` numbers link the three."""

    def __init__(self, record: Callable[[dict[str, Any]], None], calls: int = 0) -> None:
        """``calls`` were recorded before, where a run goes on after a restart."""
        self._record, self._calls = record, calls
        self._open: list[tuple[int, Call]] = []
        self._numbers: dict[int, int] = {}

    def __call__(self, event: Event) -> None:
        """Listen to a run."""
        if event.call:
            self._calls += 1
            self._open.append((self._calls, event.call))
            self._record({"kind": "call", "call": self._calls, "turn": event.call.turn, **call_data(event.call)})
        if event.kind == "dropped":
            numbered = ((self._numbers.get(step.number, 0), step) for step in event.steps)
            steps = [{"call": number, "reason": step.dropped, **call_data(step.call)} for number, step in numbered]
            self._record({"kind": "dropped", "steps": steps})
            return
        for step in event.steps:
            number = next((number for number, call in self._open if call == step.call), 0)
            self._open = [pair for pair in self._open if pair[0] != number]
            self._numbers[step.number] = number
            self._record({"kind": "step", "call": number, **step_data(step)})

    def over(self, step: Step) -> None:
        """Listen to a retriever, which tells of its steps once they are over."""
        self(Event("call", step.call))
        self(Event("step", steps=(step,)))


def answer_data(attempt: Attempt, served: Served, result_id: str, result: Result | None) -> dict[str, Any]:
    """The answer as the page shows it; its rows are fetched apart, by the result's id."""
    run, failure = attempt
    record = run_record(run)
    return {
        **record,
        "status": "stopped" if isinstance(failure, Stopped) else record["status"],
        "text": run.outcome.text or plain_ranking(run.outcome.ranking or Ranking()),
        **query_data(record["query"], record["query_labelled"], served),
        "result": result_data(result_id, result) if result else None,
        "model_calls": run.usage.calls,
    }


def failed_answer(why: str) -> dict[str, Any]:
    """The answer of a run that failed before it began."""
    return {"status": "failed", "stop": "error", "text": "", "note": why, "language": "", "query": "", "result": None}


def query_data(query: str, labelled: str, served: Served) -> dict[str, Any]:
    """A query, the same with labels, and where there is one the link that opens it at the query service."""
    usual = served.settings.endpoints.query_page
    return {
        "query": query,
        "query_labelled": labelled,
        "link": query_link(query, served.kb.state(), usual),
    }


def result_data(result_id: str, result: Result, absence: Absence | None = None) -> dict[str, Any]:
    """What is known of a result before its rows are fetched; ``absence`` is which kind of nothing it is."""
    return {
        "absence": asdict(absence) if absence else None,
        "id": result_id,
        "columns": list(result.columns),
        "rows": result.count,
        "total": result.total,
        "cut": result.head.cut,
        "ranking": result.ranking is not None,
    }


def first_rows(result: Result, served: Served) -> dict[str, Any] | None:
    """The first page of rows, as ``/api/results/{id}/rows`` gives it; None where their labels must be looked up."""
    rows, head = [*result.rows(0, PAGE)], result.head
    if missing_labels(rows, head):
        return None
    cells = [[cell_data(cell, head, served.link) for cell in row] for row in rows]
    numbers = list(range(len(rows)))
    return {"columns": list(head.columns), "numbers": numbers, "start": 0, "total": result.count, "rows": cells}
