"""Answers that another program recorded, as a run that can be scored and compared.

They are a table of question and query, or of question and answers; or what SPINACH's authors publish.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbnav.answers.tables import AnswerTable, Ranked, Ranking
from kbnav.errors import UsageError
from kbnav.evaluation import gold as golden
from kbnav.evaluation.datasets.formats import own_answer, stored_answer, table_records, trec_records
from kbnav.evaluation.datasets.records import Dataset, File, Question, Record
from kbnav.evaluation.records import GOLD, QUESTIONS, GoldAnswer, GoldInfo, QuestionRecord, RunInfo
from kbnav.evaluation.runner import Patience, begin_run, kb_state, side_by_side
from kbnav.evaluation.scoring import NAMED, as_in_gold, in_other_words
from kbnav.knowledge.base import KnowledgeBase
from kbnav.runs.journal import open_journal
from kbnav.runs.trajectory import FINISH, QUERY, Call, Outcome, Run, Step
from kbnav.settings.plugins import did_you_mean
from kbnav.settings.systems import kb_kind

_log = logging.getLogger(__name__)
_TOOLS: Mapping[str, tuple[str, str]] = {
    "search_wikidata": ("search_entities", "query"),
    "get_wikidata_entry": ("get_entry", "entity_id"),
    "get_property_examples": ("get_property_examples", "property_id"),
    "execute_sparql": (QUERY, "query"),
    "stop": (FINISH, ""),
}
"""Tool and argument for each action of a SPINACH recording."""
_ONE_OF = ("sparql", "answers", "nodes")
"""Fields of a prediction."""
_ANSWER = (list, bool, type(None))
"""Types of its answers."""
_TREC = ("run", "trec", "txt")
"""What names of TREC runs end in."""


def import_table(
    predictions: Path,
    dataset: Dataset,
    out: Path,
    *,
    system: str,
    model: str = "",
    kb: KnowledgeBase | None = None,
    kb_name: str = "",
    gold: Path | None = None,
    jobs: int = 1,
) -> RunInfo:
    """A run from the predictions of another system, scored and compared as any run of kbnav is.

    ``predictions`` is a TREC run, QALD JSON, CSV, TSV, JSON lines or a JSON list, of one question each: ``id``, or its
    text as ``question``; and ``sparql``, which is executed on ``kb``, or ``answers`` (ids or names, SPARQL JSON
    bindings, a truth value), or ``nodes`` of an SKB, best first; null is no prediction. A question of the dataset
    without one belongs to the run, unanswered; a prediction of another question, and an empty answer, is left out. A
    warning says so, and where nodes are not in ``kb``. Gold answers are stored, of the frozen file ``gold``, or what
    gold queries give on ``kb``.

    A query that fails scores 0. Raises UsageError, DataError, and StopRun where the knowledge base is down.
    """
    found = _read_predictions(predictions, dataset)
    queries = {name: query for name, one in found.items() if (query := str(one.value.get("sparql") or "").strip())}
    if kb is None and queries:
        raise UsageError(f"{predictions} has queries: name by --kb what they are asked of")
    frozen = golden.gold_file(gold, dataset.name) if gold else None
    digest = golden.file_sha256(frozen) if frozen else ""
    asked_of = {"kb": kb_state(kb), "settings": {"kb": kb_name or kb.name}} if kb else {}
    info = _info(system, model, dataset, predictions, gold_sha256=digest, **asked_of)
    _refuse_used(out)
    questions = [question for question in dataset.questions if question.id in found]
    stated = {one.id: _stated(found[one.id], ranked=bool(one.nodes)) for one in questions if one.id not in queries}
    asked, file = dataset.questions, out / GOLD
    if frozen:
        answers = golden.take_gold(dataset, asked, frozen, file)
    else:
        answers = dict(golden.collect_gold(dataset, asked, kb, file, stored=True, jobs=jobs))
    for one, outcome in stated.items():
        if outcome.table and (truth := answers[one].table) and own_answer(found[one])[1]:
            stated[one] = replace(outcome, table=as_in_gold(outcome.table, truth))
    if named := [one for one, outcome in stated.items() if in_other_words(outcome.table, answers[one].table)]:
        _log.warning("questions with %s: %d, the first is %s", NAMED, len(named), named[0])
    _warn_of_nodes([one.ranking for one in stated.values() if one.ranking], answers.values(), kb)
    begin_run(out, info)

    def outcome_of(question: Question) -> tuple[Outcome, bool]:
        if kb is None or question.id in stated:
            return stated[question.id], False
        query = queries[question.id]
        table, error, down = golden.run_query(query, kb)
        if table is None:
            return Outcome("failed", "error", query=query, note=error), down
        return Outcome("answered", "finish", query=query, table=table), False

    patience = Patience()
    with open_journal(out / QUESTIONS) as journal:
        for question, future in side_by_side(questions, outcome_of, jobs=jobs):
            outcome, down = future.result()
            patience.count(outcome.note if down else "")
            error = "QueryFailed" if outcome.status == "failed" else ""
            run = Run("", question.text(), system, model, "en", (), (), outcome)
            journal.append(QuestionRecord(question.id, run, error))
    return info


def is_table(predictions: Path) -> bool:
    """Whether a file is a table of predictions, and not a recording that SPINACH's authors publish."""
    if not predictions.name.removesuffix(".gz").endswith(".json"):
        return True
    records = File.open(predictions).json()
    return not (isinstance(records, list) and records and "predicted_answer_tuple" in (records[0] or {}))


def _info(system: str, model: str, dataset: Dataset, predictions: Path, **more: Any) -> RunInfo:
    ids = tuple(question.id for question in dataset.questions)
    return RunInfo(system, model, dataset.name, dataset.sha256, ids, "en", origin=predictions.name, **more)


def _refuse_used(out: Path) -> None:
    if (out / QUESTIONS).exists() and (out / QUESTIONS).stat().st_size:
        raise UsageError(f"{out} holds questions already; choose another folder")


def _read_predictions(path: Path, dataset: Dataset) -> dict[str, Record]:
    """The predictions by the id of their question. Raises UsageError, DataError."""
    file, kind = File.open(path), path.name.removesuffix(".gz").rpartition(".")[2]
    readers = {"csv": table_records, "tsv": table_records, "jsonl": File.json_lines, "json": _json_records}
    readers |= dict.fromkeys(_TREC, trec_records)
    if kind not in readers:
        raise UsageError(f"{path}: predictions are .{', .'.join(readers)} (the last {len(_TREC)} TREC), also with .gz")
    records = list(readers[kind](file))
    if not records:
        raise file.error("no predictions")
    ids = {question.id for question in dataset.questions}
    texts = {" ".join(text.split()): one.id for one in dataset.questions for text in one.texts.values()}
    found: dict[str, Record] = {}
    others: list[str] = []
    empty = 0
    for record in records:
        if not record.value.keys() & set(_ONE_OF):
            raise record.error(f"a prediction has one of sparql, answers, nodes; it has {', '.join(record.value)}")
        values = (record.value.get(key) for key in ("id", "question"))
        name, text = ("" if value is None else " ".join(str(value).split()) for value in values)
        place = name if name in ids else texts.get(text, "")
        if not place:
            others.append(name or text)
            continue
        if place in found:
            raise record.error(f"question {place} was predicted before")
        if isinstance(given := record.value.get("answers"), list):
            full = [one for one in given if str(one).strip()]
            empty += len(given) - len(full)
            record = Record(path, record.number, {**record.value, "answers": full})
        found[place] = record
    if empty:
        _log.warning("empty answers are left out: %d", empty)
    if others and not found:
        raise file.error(f"{dataset.name} has no question {others[0]!r}{did_you_mean(others[0], ids)}")
    if others:
        what = f"{len(others)} of {len(records)} predictions are of questions that {dataset.name} does not have"
        _log.warning("%s, the first is %r: they are left out", what, others[0])
    return {name: one for name, one in found.items() if any(one.value.get(key) is not None for key in _ONE_OF)}


def _json_records(file: File) -> Iterator[Record]:
    """The members of a list; of QALD JSON each question's answer, or its query where it has none. Raises DataError."""
    document = file.json()
    if not isinstance(document, dict) or "questions" not in document:
        yield from file.records(document)
        return
    for record in file.records(document["questions"]):
        answers = record.get("answers", list) if record.value.get("answers") else []
        query = record.get("query", dict) if record.value.get("query") and not answers else {}
        found = {"answers": answers[0] if answers else None, "sparql": query.get("sparql")}
        yield Record(file.path, record.number, {"id": record.value.get("id"), **found})


def _warn_of_nodes(rankings: Sequence[Ranking], gold: Iterable[GoldAnswer], kb: KnowledgeBase | None) -> None:
    """Say where ids of ranked nodes are not in an SKB, or not written as in the gold answers."""
    nodes = dict.fromkeys(node for ranking in rankings for node in ranking.ids)
    if kb and kb_kind(kb) == "skb":
        labels = kb.labels([*nodes], language="en")
        if absent := [node for node in nodes if not labels.get(node)]:
            _log.warning("%d of %d nodes are not in %s, the first is %r", len(absent), len(nodes), kb.name, absent[0])
    elif nodes and not any(one in nodes for answer in gold for one in answer.nodes):
        _log.warning("no node of the predictions, such as %r, is a gold answer: all will score 0", next(iter(nodes)))


def _stated(record: Record, *, ranked: bool) -> Outcome:
    """Answers or nodes that the record names itself; ``ranked``: answers are nodes, best first. Raises DataError."""
    table, plain, nodes = own_answer(record)
    if ranked and not nodes:
        nodes = plain
    if nodes:
        ranked_nodes = tuple(Ranked(node, -float(place)) for place, node in enumerate(dict.fromkeys(nodes)))
        return Outcome("answered", "finish", ranking=Ranking(ranked_nodes))
    if table is None or (not plain and table.boolean is None and not table.columns):
        return Outcome("no answer", "finish", table=AnswerTable(("answer",), ()))
    return Outcome("answered", "finish", table=table)


def import_spinach(predictions: Path, dataset: Dataset, out: Path, *, trajectories: Path | None = None) -> RunInfo:
    """A run from the recordings that the SPINACH authors publish, scored against the gold answers in them.

    ``predictions``: a list of ``question``, ``predicted_sparql``, ``predicted_answer_tuple``, ``gold_sparql`` and
    ``gold_answer_tuple``; ``trajectories``: a list of ``question``, ``engine`` and ``actions``. Questions are found in
    the dataset by their English text; those of the dataset without a prediction belong to the run, unanswered.
    Raises UsageError, DataError.
    """

    def by_question(path: Path) -> dict[str, Record]:
        file = File.open(path)
        return {record.text("question"): record for record in file.records(file.json())}

    recorded = by_question(predictions)
    acted = by_question(trajectories) if trajectories else {}
    by_text = {question.text(): question for question in dataset.questions}
    unknown = [text for text in recorded if text not in by_text]
    if unknown:
        raise recorded[unknown[0]].error(f"{dataset.name} has no question {unknown[0]!r}")
    models = {record.text("engine") for record in acted.values()}
    info = _info("spinach-published", ", ".join(sorted(models)), dataset, predictions)
    _refuse_used(out)
    begin_run(out, info)
    with open_journal(out / GOLD) as gold, open_journal(out / QUESTIONS) as questions:
        gold.append(GoldInfo(dataset.name, dataset.sha256))
        for text, question in by_text.items():
            record = recorded.get(text)
            if record is None:
                gold.append(GoldAnswer(question.id, text, "stored", question.query, question.answers))
                continue
            answer = stored_answer(record, record.get("gold_answer_tuple", *_ANSWER))
            gold.append(GoldAnswer(question.id, text, "stored", record.text("gold_sparql"), answer))
            questions.append(QuestionRecord(question.id, _recorded_run(record, acted.get(text), info)))
    return info


def _recorded_run(record: Record, acted: Record | None, info: RunInfo) -> Run:
    table = stored_answer(record, record.get("predicted_answer_tuple", *_ANSWER))
    steps = tuple(_recorded_steps(acted)) if acted else ()
    stopped = not steps or steps[-1].call.tool == FINISH
    outcome = Outcome(
        "no answer" if table is None else "answered" if stopped else "best effort",
        "finish" if stopped else "step budget",
        query=str(record.value.get("predicted_sparql") or ""),
        table=table,
    )
    return Run("", record.text("question"), info.system, info.model, "en", steps, (), outcome)


def _recorded_steps(record: Record) -> Iterator[Step]:
    queries = record.get("generated_sparqls", list)
    results = {item["sparql"].strip(): item.get("execution_result") for item in queries}
    for number, action in enumerate(record.get("actions", list), 1):
        tool, argument = _TOOLS.get(action["action_name"], (str(action["action_name"]), "argument"))
        arguments = {argument: action["action_argument"]} if argument else {}
        call = Call(tool, arguments, action.get("thought") or "", f"call-{number}", number)
        result = results.get((action["action_argument"] or "").strip()) if tool == QUERY else None
        rows = None if result is None else 1 if isinstance(result, bool) else len(result)
        yield Step(number, call, action.get("observation") or "", tool != QUERY or rows is not None, rows)
