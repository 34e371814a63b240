"""Answers as one HTML file that fetches nothing: rows, query in words, statements behind the rows, every step.

What a model or a knowledge base says is hostile until escaped: the template escapes everything, no script runs, and the
page's own policy lets nothing be fetched. The description for programs is in it as JSON-LD.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from kbnav.apps.absence_words import absence_text
from kbnav.apps.console import labelled_query, spent_words
from kbnav.apps.evidence import answer_table, closing_lines, row_lines
from kbnav.apps.sharing.crate import Told, metadata
from kbnav.evaluation.report.page import inside, shortened, template
from kbnav.knowledge.sparql.verbalization import verbalize_answer
from kbnav.runs.trajectory import Run
from kbnav.sessions.citation import asked_with, citation, knowledge_base, link_of
from kbnav.tools.show import cell_text

if TYPE_CHECKING:
    from jinja2 import Template

ROWS = 2_000
"""Rows of an answer in the file."""
CHARACTERS = 4_000
"""Characters of one observation."""
_CELL = 500


@dataclass(frozen=True)
class Shown:
    """One answer as the template takes it; ``statements`` has a list of lines for each of the first rows."""

    run: Run
    said: str
    absence: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: int
    words: str
    query: str
    link: str
    statements: Sequence[Sequence[str]]
    closing: Sequence[str]
    kb: str
    by: str
    spent: str
    citation: str


def page(told: Sequence[Told], query_page: str = "") -> str:
    """The whole file as text."""
    from markupsafe import Markup

    # In a script only what would end it must be written otherwise.
    data = json.dumps(metadata(told, query_page), ensure_ascii=True).replace("<", "\\u003c")
    text: str = _template().render(
        title=told[0].run.question,
        answers=[_shown(one, query_page) for one in told],
        data=Markup(data),
        style=Markup(_file("shared.css")),
        most=ROWS,
    )
    return text


def _shown(one: Told, query_page: str) -> Shown:
    run, outcome = one.run, one.run.outcome
    table = answer_table(outcome)
    columns: Sequence[str]
    if table.boolean is not None:
        columns, rows = ("answer",), [["yes" if table.boolean else "no"]]
    else:
        columns = table.columns
        rows = [[cell_text(cell, table, _CELL) for cell in row] for row in table.rows[:ROWS]]
    words = verbalize_answer(outcome.query, outcome.table, run.language)
    return Shown(
        run=run,
        said=outcome.text or ("" if outcome.note else outcome.status),
        absence=absence_text(outcome.absence) if outcome.absence else "",
        columns=columns,
        rows=rows,
        total=len(table),
        words=words.text() if words else "",
        query=labelled_query(run) if outcome.query else "",
        link=link_of(run, query_page),
        statements=list(row_lines(one.evidence, table)) if one.evidence else [],
        closing=list(closing_lines(one.evidence)) if one.evidence else [],
        kb=knowledge_base(run),
        by=asked_with(run),
        spent=spent_words(run),
        citation=citation(run, query_page),
    )


@cache
def _template() -> Template:
    return template("kbnav.apps.sharing", "shared.html", shorten=_shorten, arguments=_arguments)


def _file(name: str) -> str:
    return inside("kbnav.apps.sharing", name)


def _shorten(text: str) -> str:
    return shortened(text, CHARACTERS)


def _arguments(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """A call's arguments that say something, as text."""
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in arguments.items()
        if value not in ("", None, [], {})
    ]
