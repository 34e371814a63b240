"""Answers as one HTML file that fetches nothing: rows, query in words, statements behind the rows, every step.

What a model or a knowledge base says is hostile until escaped: the template escapes everything, no script runs, and the
page's own policy lets nothing be fetched.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from kbnav.apps.console import (
    absence_text,
    answer_table,
    closing_lines,
    labelled_query,
    note_text,
    row_lines,
    spent_words,
)
from kbnav.apps.texts import Texts
from kbnav.evaluation.report import inside, shortened, template
from kbnav.knowledge.evidence import Provenance
from kbnav.knowledge.sparql.verbalization import verbalize_answer
from kbnav.runs.trajectory import Run, asked_with, citation, knowledge_base, query_link
from kbnav.tools.show import readable_text

ROWS = 2_000
"""Rows of an answer in the file."""
CHARACTERS = 4_000
"""Characters of one observation."""
_CELL = 500


def shared_page(answers: Sequence[tuple[Run, Provenance | None]], query_page: str = "") -> str:
    """The whole file as text; beside each run what makes its rows true, where that was looked up."""
    from markupsafe import Markup

    shorten = partial(shortened, width=CHARACTERS)
    text: str = template("kbnav.apps", "shared.html", shorten=shorten, arguments=_arguments).render(
        title=answers[0][0].question,
        answers=[_view(run, evidence, query_page) for run, evidence in answers],
        style=Markup(inside("kbnav.apps", "shared.css")),
        most=ROWS,
    )
    return text


def _view(run: Run, evidence: Provenance | None, query_page: str) -> dict[str, object]:
    """What the template takes of an answer; ``statements`` has a list of lines for each of the first rows."""
    outcome = run.outcome
    table = answer_table(outcome)
    columns, rows = table.columns, [[readable_text(cell, table, _CELL) for cell in row] for row in table.rows[:ROWS]]
    if table.boolean is not None:
        columns, rows = ("answer",), [["yes" if table.boolean else "no"]]
    words = verbalize_answer(outcome.query, outcome.result, run.language)
    return {
        "run": run,
        "text": outcome.text or ("" if outcome.note else outcome.status),
        "note": note_text(run),
        "absence": absence_text(outcome.absence) if outcome.absence else "",
        "columns": columns,
        "rows": rows,
        "total": len(table),
        "words": words.text() if words else "",
        "query": labelled_query(run) if outcome.query else "",
        "link": query_link(outcome.query, run.kb, query_page),
        "statements": list(row_lines(evidence, table)) if evidence else [],
        "closing": list(closing_lines(evidence)) if evidence else [],
        "kb": knowledge_base(run),
        "by": asked_with(run),
        "spent": spent_words(run, Texts("en")),
        "citation": citation(run, query_page),
    }


def _arguments(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """A call's arguments that say something, as text."""
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in arguments.items()
        if value not in ("", None, [], {})
    ]
