"""A report as one HTML file that fetches nothing: style and script are in it.

Texts of models, knowledge bases and datasets are hostile until escaped: the templates escape everything, and the page's
own policy lets no script run but the one whose hash it names.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from kbnav.answers.tables import AnswerTable, Cell, Ranking
from kbnav.evaluation.report.data import CLASSES, QuestionResult, Report, metric_name
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES

ROWS = 50
"""Rows of a table that are shown."""
CHARACTERS = 6_000
"""Characters of an observation or a query that are shown."""
_PACKAGE = "kbnav.evaluation.report"
_PREFIX = re.compile(r"\s*PREFIX\s+(\w+):\s*<([^<>]*)>", re.IGNORECASE)


def template(package: str, name: str, **filters: Callable[..., Any]) -> Template:
    """A template of a package's folder ``templates``; values are escaped, and one that is not given is an error."""
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


def html_report(report: Report, title: str = "Evaluation report") -> str:
    """The whole page as text."""
    script = inside(_PACKAGE, "filter.js")
    filters: dict[str, Callable[..., Any]] = {"shorten": shortened, "metric": metric_name, "total": Counter.total}
    text: str = template(_PACKAGE, "report.html", number=_number, **filters).render(
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


class HtmlCell(NamedTuple):
    """A table's cell as text; ``right`` where the gold answer has the same term."""

    text: str
    title: str = ""
    right: bool = False


class HtmlTable(NamedTuple):
    """The first rows of a table or ranking."""

    columns: Sequence[str]
    rows: Sequence[Sequence[HtmlCell]]
    total: int


def _questions(report: Report) -> Iterator[dict[str, Any]]:
    """Each question with what the gold answer, without a result, and each run say to it."""
    for gold in report.gold.values():
        if gold.nodes:
            rows = [(HtmlCell(node),) for node in gold.nodes[:ROWS]]
            table: HtmlTable | None = HtmlTable(("node",), rows, len(gold.nodes))
        else:
            table = _table(gold.table, set())
        answers = [_answer("gold", None, gold.query, table, gold.error)]
        right: set[object] = set(gold.nodes)
        if gold.table:
            right |= {cell for row in gold.table.rows for cell in row if cell}
        for run in report.runs:
            result = run.results.get(gold.id)
            if result is None:
                continue
            if result.record is None:
                answers.append(_answer(run.name, result, "", None, "not reached"))
                continue
            outcome = result.record.run.outcome
            nothing = f"{outcome.absence.kind}: {outcome.absence.text}" if outcome.absence else ""
            note = " · ".join(filter(None, (outcome.note, nothing)))
            table = _table(outcome.ranking if outcome.table is None else outcome.table, right)
            answers.append(_answer(run.name, result, outcome.query, table, note))
        yield {"id": gold.id, "text": gold.question, "answers": answers}


def _answer(
    name: str, result: QuestionResult | None, query: str, table: HtmlTable | None, note: str
) -> dict[str, object]:
    """For the template; declarations of standard prefixes, which can be longer than the query, are left out."""
    at = 0
    while (found := _PREFIX.match(query, at)) and STANDARD_PREFIXES.get(found[1]) == found[2]:
        at = found.end()
    return {"name": name, "result": result, "query": query[at:].strip(), "table": table, "note": note}


def _table(answer: AnswerTable | Ranking | None, right: set[object]) -> HtmlTable | None:
    if answer is None:
        return None
    if isinstance(answer, Ranking):
        nodes = (
            (HtmlCell(node.id, node.label, node.id in right), HtmlCell(f"{node.score:.4g}"))
            for node in answer.nodes[:ROWS]
        )
        return HtmlTable(("node", "score"), list(nodes), len(answer))
    if answer.boolean is not None:
        return HtmlTable(("answer",), [[HtmlCell(str(answer.boolean).lower())]], 1)
    cells = [[_cell(cell, answer, right) for cell in row] for row in answer.rows[:ROWS]]
    return HtmlTable(answer.columns, cells, len(answer))


def _cell(cell: Cell, table: AnswerTable, right: set[object]) -> HtmlCell:
    if cell is None:
        return HtmlCell("", "unbound")
    entity, label = table.entity(cell), table.label(cell)
    text = f"{label} ({entity})" if label else entity or cell.value
    details = [cell.value if entity else "", cell.datatype or "", f"@{cell.language}" if cell.language else ""]
    return HtmlCell(shortened(text, 300), " ".join(filter(None, details)), cell in right)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
