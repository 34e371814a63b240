"""A report as one HTML file that fetches nothing: style and script are in it.

Texts of models, knowledge bases and datasets are hostile until escaped: the templates escape everything, and the page's
own policy lets no script run but the one whose hash it names.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from kbnav.answers.tables import AnswerTable, Cell, Ranking
from kbnav.evaluation.records import GoldAnswer
from kbnav.evaluation.report.data import CLASSES, QuestionResult, Report, metric_name
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES
from kbnav.runs.trajectory import Outcome

if TYPE_CHECKING:
    from jinja2 import Template

ROWS = 50
"""Rows of a table that are shown."""
CHARACTERS = 6_000
"""Characters of an observation or a query that are shown."""
_PACKAGE = "kbnav.evaluation.report"
_PREFIX = re.compile(r"\s*PREFIX\s+(\w+):\s*<([^<>]*)>", re.IGNORECASE)


def template(package: str, name: str, **filters: Callable[..., Any]) -> Template:
    """A template of a package's folder ``templates``; values are escaped, and one that is not given is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= filters
    return environment.get_template(name)


@cache
def inside(package: str, name: str) -> str:
    """A file of the same folder, such as a style sheet, to be put into a page."""
    return (resources.files(package) / "templates" / name).read_text(encoding="utf-8")


def shortened(text: str, width: int = CHARACTERS) -> str:
    """A text of ``width`` characters at most, and how many more it has."""
    return text if len(text) <= width else f"{text[:width]}… ({len(text) - width:,} more characters)"


@cache
def _template() -> Template:
    return template(_PACKAGE, "report.html", shorten=shortened, number=_number, metric=metric_name)


def html_report(report: Report, title: str = "Evaluation report") -> str:
    """The whole page as text."""
    from markupsafe import Markup

    script = inside(_PACKAGE, "filter.js")
    text: str = _template().render(
        title=title,
        report=report,
        classes=CLASSES,
        kinds=[kind for kind in CLASSES if any(kind == one.label for run in report.runs for one in run.kinds)],
        questions=list(_questions(report)),
        style=Markup(inside(_PACKAGE, "style.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return text


@dataclass(frozen=True)
class ShownCell:
    """A table's cell as text; ``right`` where the gold answer has the same term."""

    text: str
    title: str = ""
    right: bool = False


@dataclass(frozen=True)
class ShownTable:
    """The first rows of a table or ranking."""

    columns: tuple[str, ...]
    rows: tuple[tuple[ShownCell, ...], ...]
    total: int


@dataclass(frozen=True)
class ShownAnswer:
    """What one run, or the gold answer, says to a question; ``result`` is None for the gold answer."""

    name: str
    result: QuestionResult | None
    query: str
    table: ShownTable | None
    note: str


@dataclass(frozen=True)
class ShownQuestion:
    """A question with its gold answer first."""

    id: str
    text: str
    answers: tuple[ShownAnswer, ...]


def _questions(report: Report) -> Iterator[ShownQuestion]:
    for gold in report.gold.values():
        answers = [ShownAnswer("gold", None, undeclared(gold.query), gold_table(gold), gold.error)]
        for run in report.runs:
            result = run.results.get(gold.id)
            if result is None:
                continue
            if result.record is None:
                answers.append(ShownAnswer(run.name, result, "", None, "not reached"))
                continue
            outcome = result.record.run.outcome
            nothing = f"{outcome.absence.kind}: {outcome.absence.text}" if outcome.absence else ""
            note = " · ".join(filter(None, (outcome.note, nothing)))
            answers.append(ShownAnswer(run.name, result, undeclared(outcome.query), answer_table(outcome, gold), note))
        yield ShownQuestion(gold.id, gold.question, tuple(answers))


def undeclared(query: str) -> str:
    """The query without declarations of the standard prefixes, which can be longer than the query."""
    at = 0
    while (found := _PREFIX.match(query, at)) and STANDARD_PREFIXES.get(found[1]) == found[2]:
        at = found.end()
    return query[at:].strip()


def answer_table(outcome: Outcome, gold: GoldAnswer | None) -> ShownTable | None:
    """What a run found, with what the gold answer has too marked as right; None where it found nothing."""
    right: set[object] = set(gold.nodes) if gold else set()
    if gold and gold.table:
        right |= {cell for row in gold.table.rows for cell in row if cell}
    return _shown(outcome.ranking if outcome.table is None else outcome.table, right)


def gold_table(gold: GoldAnswer) -> ShownTable | None:
    """A gold answer; None where there is none."""
    if gold.nodes:
        return ShownTable(("node",), tuple((ShownCell(node),) for node in gold.nodes[:ROWS]), len(gold.nodes))
    return _shown(gold.table, set())


def _shown(answer: AnswerTable | Ranking | None, right: set[object]) -> ShownTable | None:
    if answer is None:
        return None
    if isinstance(answer, Ranking):
        rows = tuple(
            (ShownCell(node.id, node.label, node.id in right), ShownCell(f"{node.score:.4g}"))
            for node in answer.nodes[:ROWS]
        )
        return ShownTable(("node", "score"), rows, len(answer))
    if answer.boolean is not None:
        return ShownTable(("answer",), ((ShownCell(str(answer.boolean).lower()),),), 1)
    cells = (tuple(_cell(cell, answer, right) for cell in row) for row in answer.rows[:ROWS])
    return ShownTable(answer.columns, tuple(cells), len(answer))


def _cell(cell: Cell, table: AnswerTable, right: set[object]) -> ShownCell:
    if cell is None:
        return ShownCell("", "unbound")
    entity, label = table.entity(cell), table.label(cell)
    text = f"{label} ({entity})" if label else entity or cell.value
    details = [cell.value if entity else "", cell.datatype or "", f"@{cell.language}" if cell.language else ""]
    return ShownCell(shortened(text, 300), " ".join(filter(None, details)), cell in right)


def _number(value: float) -> str:
    """With four significant digits, and thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
