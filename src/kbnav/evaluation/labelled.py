"""A run scored by labels, for systems that answer in words: ids become English labels (SPINACH, appendix D)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.records import LABELS, GoldAnswer, QuestionRecord, SavedRun
from kbnav.knowledge.open import open_kb
from kbnav.runs.journal import write_whole
from kbnav.settings.model import Settings

_NUMBER = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?")
_MIDNIGHT = re.compile(r"(\d{4,}-\d\d-\d\d)t00:00:00z?\Z")
_ARTICLES = frozenset({"a", "an", "the"})
_TRUTH: Mapping[str, bool] = {"true": True, "yes": True, "false": False, "no": False}


def by_labels(folder: Path, run: SavedRun, settings: Settings, kb: str = "") -> SavedRun:
    """The run with normalised English labels in the tables of answers and gold, so that names are what is compared.

    Labels of all ids are asked for in one batched call of the run's knowledge base, or of ``kb``, and kept in the run's
    folder, so that the run is scored the same again. An id without a label stays.

    Raises UsageError where gold answers are nodes, and StopRun where the knowledge base fails.
    """
    if any(one.nodes for one in run.gold.values()):
        raise UsageError("--by labels compares tables, and the gold answers of this run are nodes")
    labels = _labels(folder, dict.fromkeys(_ids(run)), settings, kb or str(run.info.settings.get("kb", "")))
    gold = {name: _gold(one, labels) for name, one in run.gold.items()}
    records = {name: _record(one, gold.get(name), labels) for name, one in run.records.items()}
    return replace(run, gold=gold, records=records, by="labels")


def normalised(text: str) -> str:
    """The text without case, punctuation, articles and white space more than one; a number as a number.

    Midnight is left off a date. Hyphens and slashes part words, other punctuation does not: ``U.S.`` is ``us``.
    """
    plain = unicodedata.normalize("NFKC", text).casefold().strip()
    if _NUMBER.fullmatch(plain):
        return str(Decimal(plain.replace(",", "")).normalize())
    parted = "".join(_without_punctuation(_MIDNIGHT.sub(r"\1", plain)))
    words = parted.split()
    return " ".join([word for word in words if word not in _ARTICLES] or words) or plain


def _without_punctuation(text: str) -> Iterator[str]:
    for letter in text:
        kind = unicodedata.category(letter)
        if not kind.startswith("P"):
            yield letter
        elif kind == "Pd" or letter == "/":
            yield " "


def _ids(run: SavedRun) -> Iterator[str]:
    """Ids in the tables of gold and answers."""
    tables = [one.table for one in run.gold.values()] + [one.run.outcome.table for one in run.records.values()]
    for table in tables:
        for row in table.rows if table else ():
            yield from (cell.entity_id for cell in row if cell and cell.entity_id)


def _labels(folder: Path, ids: Iterable[str], settings: Settings, kb: str) -> Mapping[str, str]:
    """Labels by id, from the file that keeps them and, what it lacks, from the knowledge base."""
    path = folder / LABELS
    try:
        known: dict[str, str] = json.loads(path.read_bytes()) if path.exists() else {}
    except ValueError as error:
        raise DataError(f"{path}: not JSON; remove it, and labels are fetched anew") from error
    missing = [one for one in ids if one not in known]
    if missing:
        with open_kb(settings.model_copy(update={"kb": kb})) as opened:
            found = opened.labels(missing, language="en")
        known |= {one: found.get(one, "") for one in missing}
        write_whole(path, json.dumps(dict(sorted(known.items())), ensure_ascii=False, indent=0) + "\n")
    return known


def _gold(answer: GoldAnswer, labels: Mapping[str, str]) -> GoldAnswer:
    return replace(answer, table=_in_words(answer.table, labels))


def _record(record: QuestionRecord, gold: GoldAnswer | None, labels: Mapping[str, str]) -> QuestionRecord:
    table = _in_words(record.run.outcome.table, labels)
    if table and gold and gold.table and gold.table.boolean is not None:
        table = _truth(table)
    return replace(record, run=replace(record.run, outcome=replace(record.run.outcome, table=table)))


def _in_words(table: AnswerTable | None, labels: Mapping[str, str]) -> AnswerTable | None:
    if table is None or table.boolean is not None:
        return table
    rows = tuple(tuple(cell and Term("literal", normalised(_text(cell, labels))) for cell in row) for row in table.rows)
    return AnswerTable(table.columns, rows)


def _text(cell: Term, labels: Mapping[str, str]) -> str:
    return (labels.get(cell.entity_id) or cell.entity_id) if cell.entity_id else cell.value


def _truth(table: AnswerTable) -> AnswerTable:
    """A table of one cell that says yes or no as a truth value."""
    cells = [cell.value for row in table.rows for cell in row if cell]
    return AnswerTable(boolean=_TRUTH[cells[0]]) if len(cells) == 1 and cells[0] in _TRUTH else table
