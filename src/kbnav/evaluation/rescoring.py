"""A run scored by labels, for systems that answer in words: ids become English labels (SPINACH, appendix D)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import FATAL, DataError, StopRun, TellModel, UsageError
from kbnav.evaluation.gold import file_sha256
from kbnav.evaluation.metrics import row_major
from kbnav.evaluation.records import COPY, LABELS, GoldAnswer, QuestionRecord, SavedRun
from kbnav.evaluation.runner import Patience
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.serving.rdf import RdfServer, is_rdf
from kbnav.knowledge.skb.kb import as_skb
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import RetrievalOptions, candidate_ranges
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


def stark_compat(run: SavedRun, settings: Settings, kb: str = "") -> SavedRun:
    """The run with the candidates of the SKB that it was run on, or of ``kb``, so that it is scored like STaRK's.

    Raises UsageError where that is no SKB or another one than the run's.
    """
    name = kb or str(run.info.settings.get("kb", ""))
    with open_kb(settings.model_copy(update={"kb": name})) as opened:
        skb = as_skb(opened, "stark-compat").skb
        was = run.info.kb.get("nodes"), run.info.kb.get("edges")
        if was != (skb.meta.nodes, skb.meta.edges):
            raise UsageError(
                f"{name} is not the SKB of the run, which has {was[0]} nodes and {was[1]} edges; name it: --kb"
            )
        return replace(run, candidates=_candidates(skb, run.info.settings.get("options", {}).get("candidates", ())))


def _candidates(skb: SKB, types: tuple[str, ...]) -> tuple[str, ...]:
    """The ids of the nodes that may answer: STaRK's by their number there, others in the order of the SKB."""
    ranges = candidate_ranges(skb, RetrievalOptions(candidates=tuple(types))) or [(0, len(skb.nodes))]
    ids = [skb.id(node) for first, end in ranges for node in range(first, end)]
    return tuple(sorted(ids, key=int) if skb.meta.style != "plain" else ids)


def checked_on_copy(folder: Path, run: SavedRun, settings: Settings, kb: str) -> SavedRun:
    """The run with what each question scores on the knowledge base ``kb``, kept in the run's folder.

    ``kb`` may also be a file of RDF, which is served meanwhile.

    Raises UsageError where no question has a gold query, or the run is of rankings, and StopRun where the knowledge
    base is down.
    """
    if any(one.nodes for one in run.gold.values()):
        raise UsageError("--copy asks queries again, and this run answers with nodes")
    asked = [name for name, gold in run.gold.items() if gold.query and gold.known]
    if not asked:
        raise UsageError("--copy asks the gold queries of the copy, and no question of the run has one")
    file = Path(kb) if is_rdf(kb) else None
    told = f"{kb} {file_sha256(file)}" if file else kb
    kept = _kept(folder / COPY, told, run)
    missing = [name for name in asked if name not in kept]
    if missing:
        with _opened(settings, kb, file) as base:
            patience = Patience()
            for name in missing:
                found = _scores(run, name, base, patience)
                if found is not None:
                    kept[name] = found
        document = {"kb": told, "started": run.info.started, "questions": dict(sorted(kept.items()))}
        write_whole(folder / COPY, json.dumps(document, ensure_ascii=False, indent=0) + "\n")
    return replace(run, on_copy={name: kept[name] for name in asked if name in kept})


@contextmanager
def _opened(settings: Settings, kb: str, file: Path | None) -> Iterator[KnowledgeBase]:
    with ExitStack() as stack:
        url = stack.enter_context(RdfServer([file], workers=1)).url if file else kb
        yield stack.enter_context(open_kb(settings.model_copy(update={"kb": url})))


def _kept(path: Path, kb: str, run: SavedRun) -> dict[str, Mapping[str, float]]:
    """What was found on this copy before."""
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_bytes())
        same = document["kb"] == kb and document["started"] == run.info.started
        return dict(document["questions"]) if same else {}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not what was written; remove it, and the copy is asked anew") from error


def _scores(run: SavedRun, name: str, base: KnowledgeBase, patience: Patience) -> Mapping[str, float] | None:
    """F1 and EM on the copy; None where the gold query gives nothing to compare with."""
    gold = _asked(run.gold[name].query, base, patience)
    if gold is None:
        return None
    record = run.records.get(name)
    query = record.run.outcome.query if record else ""
    score = row_major(_asked(query, base, patience) if query else None, gold)
    return {"f1": score.f1, "em": score.em}


def _asked(query: str, base: KnowledgeBase, patience: Patience) -> AnswerTable | None:
    """The result; None where the query fails."""
    try:
        table = base.execute_query(query)
    except TellModel:
        return None
    except FATAL:
        raise
    except StopRun as error:
        patience.count(str(error))
        return None
    patience.count("")
    return table
