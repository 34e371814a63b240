"""A sample of wrong answers on a sheet, to be read and labelled by hand, and the labels read back (SPINACH, 5.4)."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from kbnav.answers.tables import AnswerTable, Cell, Ranking
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.records import GoldAnswer, QuestionRecord, SavedRun
from kbnav.evaluation.report.classes import error_class
from kbnav.evaluation.scoring import main_metric, score_run
from kbnav.runs.journal import write_whole

SHEET = "errors.csv"
"""The sheet's name in the folder of its run, where reports look for it."""
LABELS: Mapping[str, str] = {
    "property": "a property was not found, or used wrongly (40 % in the paper)",
    "complex query": "the query that is needed was not managed (30 %)",
    "exploration": "too little was looked at before the budget ended (15 %)",
    "extra clause": "the question was read with a condition that it does not have (10 %)",
    "format": "right, but for the form of the answer (5 %)",
}
"""The paper's labels, which the sheet proposes; any other may be written."""
COLUMNS = ("id", "question", "score", "class", "gold", "answer", "gold query", "query", "label", "remark")
_SHOWN = 10
"""Rows of an answer that the sheet shows."""


@dataclass(frozen=True)
class Labelled:
    """A question of the sheet: its automatic class, and the label that a person gave it, empty where none did yet."""

    id: str
    kind: str
    label: str


def write_sheet(run: SavedRun, path: Path, *, below: float = 0.05, count: int = 20, seed: int = 1) -> tuple[int, int]:
    """Draw questions whose main score is less than ``below`` and write them as CSV, in the run's order.

    Gives back how many were drawn, of how many. Raises UsageError where the file holds labels already, or no question
    is wrong enough.
    """
    if path.exists() and any(one.label for one in read_sheet(path)):
        raise UsageError(f"{path} holds labels; name another file with --out, or move it away")
    scores = score_run(run)
    metric = main_metric(scores.metrics)
    wrong = [one for one in scores.questions if one.values[metric] < below and one.id in run.records]
    if not wrong:
        raise UsageError(f"no question that was answered has {metric} below {below}")
    drawn = {one.id for one in Random(seed).sample(wrong, min(count, len(wrong)))}
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for one in wrong:
        if one.id in drawn:
            record, gold = run.records[one.id], run.gold[one.id]
            line = _line(record, gold, one.values[metric], error_class(record, gold, one.values))
            writer.writerow({name: _harmless(text) for name, text in line.items()})
    write_whole(path, out.getvalue())
    return len(drawn), len(wrong)


def _line(record: QuestionRecord, gold: GoldAnswer, score: float, kind: str) -> dict[str, str]:
    outcome = record.run.outcome
    return {
        "id": record.id,
        "question": record.run.question,
        "score": f"{score:.4f}",
        "class": kind,
        "gold": _table(gold.table) if gold.table is not None else "; ".join(gold.nodes[:_SHOWN]),
        "answer": _table(outcome.table) if outcome.table is not None else _ranking(outcome.ranking),
        "gold query": gold.query,
        "query": outcome.query,
        "label": "",
        "remark": "",
    }


def _table(table: AnswerTable | None) -> str:
    if table is None:
        return ""
    if table.boolean is not None:
        return str(table.boolean).lower()
    rows = [" | ".join(_cell(cell, table) for cell in row) for row in table.rows[:_SHOWN]]
    return "\n".join([*rows, *([f"… {len(table) - _SHOWN} more rows"] if len(table) > _SHOWN else [])])


def _cell(cell: Cell, table: AnswerTable) -> str:
    if cell is None:
        return ""
    name, label = table.entity(cell), table.label(cell)
    return (f"{label} ({name})" if label else name) if name else cell.value


def _ranking(ranking: Ranking | None) -> str:
    nodes = ranking.nodes[:_SHOWN] if ranking else ()
    return "; ".join(f"{node.label} ({node.id})" if node.label else node.id for node in nodes)


def _harmless(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def read_sheet(path: Path) -> list[Labelled]:
    """The labels of a sheet. Raises UsageError where it cannot be read, DataError where it is none."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    if rows and not {"id", "class", "label"} <= rows[0].keys():
        raise DataError(f"{path}: a sheet of errors has the columns id, class and label")
    return [Labelled(row["id"], row["class"], " ".join((row["label"] or "").split()).casefold()) for row in rows]


def labels_of(folder: Path) -> list[Labelled]:
    """The labels given by hand to a run's errors; none where it has no sheet. Raises as ``read_sheet`` does."""
    path = folder / SHEET
    return [one for one in read_sheet(path) if one.label] if path.exists() else []
