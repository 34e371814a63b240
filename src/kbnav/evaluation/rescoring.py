"""Runs scored otherwise than usual: by labels, for systems that answer in words, and as STaRK's code ranks."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.records import LABELS, QuestionRecord, SavedRun
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.skb.kb import as_skb
from kbnav.retrieval.base import RetrievalOptions, candidate_ranges
from kbnav.runs.journal import write_whole
from kbnav.settings.model import Settings

_NUMBER = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?")
_MIDNIGHT = re.compile(r"(\d{4,}-\d\d-\d\d)t00:00:00z?\Z")
_ARTICLES = frozenset({"a", "an", "the"})
_TRUTH: Mapping[str, bool] = {"true": True, "yes": True, "false": False, "no": False}


def by_labels(folder: Path, run: SavedRun, settings: Settings, kb: str = "") -> SavedRun:
    """The run with normalised English labels in place of ids, in the tables of answers and gold (SPINACH, appendix D).

    Labels of all ids are asked for in one batched call of the run's knowledge base, or of ``kb``, and kept in the run's
    folder, so that the run is scored the same again. An id without a label stays.

    Raises UsageError where gold answers are nodes, and StopRun where the knowledge base fails.
    """
    if any(one.nodes for one in run.gold.values()):
        raise UsageError("--by labels compares tables, and the gold answers of this run are nodes")
    tables = [one.table for one in run.gold.values()] + [one.run.outcome.table for one in run.records.values()]
    cells = (cell for table in tables if table for row in table.rows for cell in row if cell)
    ids = list(dict.fromkeys(cell.entity_id for cell in cells if cell.entity_id))
    labels = _labels(folder / LABELS, ids, settings, kb or str(run.info.settings.get("kb", "")))
    gold = {name: replace(one, table=_with_labels(one.table, labels)) for name, one in run.gold.items()}

    def labelled(record: QuestionRecord) -> QuestionRecord:
        table, wanted = _with_labels(record.run.outcome.table, labels), gold.get(record.id)
        if table and wanted and wanted.table and wanted.table.boolean is not None:
            cells = [cell.value for row in table.rows for cell in row if cell]
            table = AnswerTable(boolean=_TRUTH[cells[0]]) if len(cells) == 1 and cells[0] in _TRUTH else table
        return replace(record, run=replace(record.run, outcome=replace(record.run.outcome, table=table)))

    return replace(run, gold=gold, records={name: labelled(one) for name, one in run.records.items()}, by="labels")


def normalised(text: str) -> str:
    """The text without case, punctuation, articles and white space more than one; a number as a number.

    Midnight is left off a date. Hyphens and slashes part words, other punctuation does not: ``U.S.`` is ``us``.
    """
    plain = unicodedata.normalize("NFKC", text).casefold().strip()
    if _NUMBER.fullmatch(plain):
        return str(Decimal(plain.replace(",", "")).normalize())
    kept = []
    for letter in _MIDNIGHT.sub(r"\1", plain):
        kind = unicodedata.category(letter)
        kept.append(letter if not kind.startswith("P") else " " if kind == "Pd" or letter == "/" else "")
    words = "".join(kept).split()
    return " ".join([word for word in words if word not in _ARTICLES] or words) or plain


def _labels(path: Path, ids: list[str], settings: Settings, kb: str) -> Mapping[str, str]:
    """Labels by id, from the file that keeps them and, what it lacks, from the knowledge base."""
    try:
        known: dict[str, str] = json.loads(path.read_bytes()) if path.exists() else {}
    except ValueError as error:
        raise DataError(f"{path}: not JSON; remove it, and labels are fetched anew") from error
    missing = [id_ for id_ in ids if id_ not in known]
    if missing and not kb:
        raise UsageError(f"{path.parent} does not say where its ids have their labels: name that by --kb")
    if missing:
        with open_kb(settings.model_copy(update={"kb": kb})) as opened:
            found = opened.labels(missing, language="en")
        known |= {one: found.get(one, "") for one in missing}
        write_whole(path, json.dumps(dict(sorted(known.items())), ensure_ascii=False, indent=0) + "\n")
    return known


def _with_labels(table: AnswerTable | None, labels: Mapping[str, str]) -> AnswerTable | None:
    if table is None or table.boolean is not None:
        return table

    def term(cell: Term) -> Term:
        name = cell.entity_id
        return Term("literal", normalised(labels.get(name) or name if name else cell.value))

    return AnswerTable(table.columns, tuple(tuple(cell and term(cell) for cell in row) for row in table.rows))


def stark_compat(run: SavedRun, settings: Settings, kb: str = "") -> SavedRun:
    """The run with the candidates of the SKB that it was run on, or of ``kb``, so that it is scored like STaRK's.

    Every candidate is ranked then, and equals in the candidates' order: STaRK's by their number there, others in the
    order of the SKB. Raises UsageError where that is no SKB or another one than the run's.
    """
    name = kb or str(run.info.settings.get("kb", ""))
    with open_kb(settings.model_copy(update={"kb": name})) as opened:
        skb = as_skb(opened, "stark-compat").skb
        was = run.info.kb.get("nodes"), run.info.kb.get("edges")
        if was != (skb.meta.nodes, skb.meta.edges):
            raise UsageError(
                f"{name} is not the SKB of the run, which has {was[0]} nodes and {was[1]} edges; name it: --kb"
            )
        types = tuple(run.info.settings.get("options", {}).get("candidates", ()))
        ranges = candidate_ranges(skb, RetrievalOptions(candidates=types)) or [(0, len(skb.nodes))]
        ids = [skb.id(node) for first, end in ranges for node in range(first, end)]
        return replace(run, candidates=tuple(sorted(ids, key=int) if skb.meta.style != "plain" else ids))
