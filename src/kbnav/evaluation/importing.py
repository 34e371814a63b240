"""Answers that another program recorded, as a run that can be scored and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kbnav.answers.tables import AnswerTable
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import Dataset
from kbnav.evaluation.datasets.records import File, Record
from kbnav.evaluation.records import GOLD, QUESTIONS, GoldAnswer, GoldInfo, QuestionRecord, RunInfo
from kbnav.evaluation.runner import begin_run
from kbnav.runs.journal import open_journal
from kbnav.runs.trajectory import Call, Outcome, Run, Step
from kbnav.tools.toolbox import FINISH, QUERY

_TOOLS: Mapping[str, tuple[str, str]] = {
    "search_wikidata": ("search_entities", "query"),
    "get_wikidata_entry": ("get_entry", "entity_id"),
    "get_property_examples": ("get_property_examples", "property_id"),
    "execute_sparql": (QUERY, "query"),
    "stop": (FINISH, ""),
}
"""Tool and argument for each action of a SPINACH recording."""


def import_spinach(predictions: Path, dataset: Dataset, out: Path, *, trajectories: Path | None = None) -> RunInfo:
    """A run from the recordings that the SPINACH authors publish, scored against the gold answers in them.

    ``predictions``: a list of ``question``, ``predicted_sparql``, ``predicted_answer_tuple``, ``gold_sparql`` and
    ``gold_answer_tuple``; ``trajectories``: a list of ``question``, ``engine`` and ``actions``. Questions are found in
    the dataset by their English text; those of the dataset without a prediction belong to the run, unanswered.
    Raises UsageError, DataError.
    """
    recorded = _by_question(predictions)
    acted = _by_question(trajectories) if trajectories else {}
    by_text = {question.text(): question for question in dataset.questions}
    unknown = [text for text in recorded if text not in by_text]
    if unknown:
        raise recorded[unknown[0]].error(f"{dataset.name} has no question {unknown[0]!r}")
    models = {record.text("engine") for record in acted.values()}
    info = RunInfo(
        system="spinach-published",
        model=", ".join(sorted(models)),
        dataset=dataset.name,
        dataset_sha256=dataset.sha256,
        questions=tuple(question.id for question in dataset.questions),
        language="en",
        origin=predictions.name,
    )
    begin_run(out, info)
    with open_journal(out / GOLD) as gold, open_journal(out / QUESTIONS) as questions:
        if (out / QUESTIONS).stat().st_size or (out / GOLD).stat().st_size:
            raise UsageError(f"{out} holds questions already; choose another folder")
        gold.append(GoldInfo(dataset.name, dataset.sha256))
        for text, question in by_text.items():
            record = recorded.get(text)
            if record is None:
                gold.append(GoldAnswer(question.id, text, "stored", question.query, question.answers))
                continue
            answer = _answer(record, "gold_answer_tuple")
            gold.append(GoldAnswer(question.id, text, "stored", record.text("gold_sparql"), answer))
            questions.append(QuestionRecord(question.id, _run(record, acted.get(text), info)))
    return info


def _by_question(path: Path) -> dict[str, Record]:
    file = File.open(path)
    return {record.text("question"): record for record in file.records(file.json())}


def _answer(record: Record, name: str) -> AnswerTable | None:
    value = record.get(name, list, bool, type(None))
    if value is None:
        return None
    return AnswerTable(boolean=value) if isinstance(value, bool) else record.rows(value)


def _run(record: Record, acted: Record | None, info: RunInfo) -> Run:
    table = _answer(record, "predicted_answer_tuple")
    query = record.value.get("predicted_sparql") or ""
    steps = tuple(_steps(acted)) if acted else ()
    stopped = bool(steps) and steps[-1].call.tool == FINISH
    outcome = Outcome(
        "no answer" if table is None else "answered" if stopped or not steps else "best effort",
        "finish" if stopped or not steps else "step budget",
        query=str(query),
        table=table,
    )
    return Run("", record.text("question"), info.system, info.model, "en", steps, (), outcome)


def _steps(record: Record) -> Iterator[Step]:
    queries = record.get("generated_sparqls", list)
    results = {item["sparql"].strip(): item.get("execution_result") for item in queries}
    for number, action in enumerate(record.get("actions", list), 1):
        tool, argument = _TOOLS.get(action["action_name"], (str(action["action_name"]), "argument"))
        arguments = {argument: action["action_argument"]} if argument else {}
        call = Call(tool, arguments, action.get("thought") or "", f"call-{number}", number)
        result = results.get((action["action_argument"] or "").strip()) if tool == QUERY else None
        rows = None if result is None else 1 if isinstance(result, bool) else len(result)
        yield Step(number, call, action.get("observation") or "", tool != QUERY or rows is not None, rows)
