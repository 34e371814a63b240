"""Readers of the question sets over Wikidata, one a published file format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kbnav.answers.tables import AnswerTable, Cell, Term
from kbnav.evaluation.datasets.question import Question
from kbnav.evaluation.datasets.records import File, Record, kind

ENTITY = "http://www.wikidata.org/entity/"
DATE_TIME = "http://www.w3.org/2001/XMLSchema#dateTime"
_DATE = re.compile(r"[+-]?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def read_spinach(file: File) -> Iterator[Question]:
    """SPINACH: a list of records with ``id``, ``question``, ``sparql``, ``title`` and ``url``; no stored answers."""
    for record in file.records(file.json()):
        yield _plain(record, record.meta("title", "url"))


def read_qald(file: File) -> Iterator[Question]:
    """QALD JSON; also the list of ``id``, ``question`` and ``sparql`` in which QALD-9-plus is passed on."""
    document = file.json()
    if isinstance(document, list):
        for record in file.records(document):
            yield _plain(record, {})
        return
    if not isinstance(document, dict) or "questions" not in document:
        raise file.error("expected an object with 'questions'")
    for record in file.records(document["questions"]):
        yield Question(
            id=record.identifier("id"),
            texts=_qald_texts(record),
            query=_qald_query(record),
            answers=_qald_answer(record),
            meta=record.meta("answertype", "aggregation", "onlydbo", "hybrid"),
        )


def _qald_texts(record: Record) -> dict[str, str]:
    texts = {}
    for item in record.get("question", list):
        if not isinstance(item, dict) or not isinstance(item.get("language"), str):
            raise record.error("a question without a language")
        if isinstance(item.get("string"), str) and item["string"].strip():
            texts[item["language"]] = item["string"]
    if not texts:
        raise record.error("a question without a text")
    return texts


def _qald_query(record: Record) -> str:
    query = record.get("query", dict).get("sparql", "")
    if not isinstance(query, str):
        raise record.error(f"'sparql' is {kind(query)}, expected str")
    return query


def _qald_answer(record: Record) -> AnswerTable | None:
    answers = record.get("answers", list) if "answers" in record.value else []
    if len(answers) > 1:
        raise record.error(f"{len(answers)} answers, expected one SPARQL result")
    return record.table(answers[0]) if answers else None


def read_wikiwebquestions(file: File) -> Iterator[Question]:
    """WikiWebQuestions: JSON lines with ``id``, ``question``, ``sparql``; answers in ``info.results`` where stored.

    SPINACH's authors pass it on as a list.
    """
    is_list = file.data.lstrip().startswith(b"[")
    for record in file.records(file.json()) if is_list else file.json_lines():
        info = record.get("info", dict) if "info" in record.value else {}
        answers = None
        if "results" in info:
            boolean = isinstance(info["results"], bool)
            answers = AnswerTable(boolean=info["results"]) if boolean else record.rows(info["results"])
        yield _plain(record, record.meta("paraphrases"), answers)


def read_lcquad2(file: File) -> Iterator[Question]:
    """LC-QuAD 2.0: a list with ``uid``, ``question``, ``NNQT_question``, ``paraphrased_question``, ``sparql_wikidata``.

    Some questions of the published files are null or say only that they do not apply: then the paraphrase stands in,
    and then the template's text; ``meta["text_from"]`` names the field that was used.
    """
    fields = ("question", "paraphrased_question", "NNQT_question")
    for record in file.records(file.json()):
        usable = (name for name in fields if _says_something(record.value.get(name)))
        used = next(usable, None)
        if used is None:
            raise record.error(f"none of {', '.join(fields)} has a text")
        yield Question(
            id=record.identifier("uid"),
            texts={"en": record.value[used].strip()},
            query=record.text("sparql_wikidata").strip(),
            meta={"text_from": used, **record.meta("subgraph", "template_index", "template")},
        )


def _says_something(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lower() not in ("", "n/a", "na", "none", "[]")


def read_rubq(file: File) -> Iterator[Question]:
    """RuBQ 2.0: Russian questions with an English machine translation; questions without an answer have no query."""
    for record in file.records(file.json()):
        answers = record.get("answers", list)
        query = record.value.get("query")
        texts = {"ru": record.text("question_text"), "en": record.text("question_eng")}
        keys = ("type", "value", "datatype", "xml:lang")
        rows = [
            {"answer": {key: item[key] for key in keys if key in item}} for item in answers if isinstance(item, dict)
        ]
        yield Question(
            id=record.identifier("uid"),
            texts=texts,
            query=query if isinstance(query, str) else "",
            answers=record.rows(rows),
            meta=record.meta("tags", "answer_text", "RuBQ_version"),
        )


def read_tempqa(file: File) -> Iterator[Question]:
    """TempQA-WD: a list with ``ID``, ``TEXT``, ``SPARQL`` and ``ANSWERS`` (``wd:`` names, dates, other literals)."""
    for record in file.records(file.json()):
        cells = [_tempqa_cell(record, answer) for answer in record.get("ANSWERS", list)]
        yield Question(
            id=record.identifier("ID"),
            texts={"en": record.text("TEXT")},
            query=record.text("SPARQL"),
            answers=AnswerTable(("answer",), tuple((cell,) for cell in cells)),
            meta=record.meta("TYPE", "CATEGORY", "TEMPORAL_SIGNAL", "DATA_SOURCE"),
        )


def _tempqa_cell(record: Record, answer: Any) -> Cell:
    if not isinstance(answer, str):
        raise record.error(f"an answer is {kind(answer)}, expected str")
    if answer.startswith("wd:"):
        return Term("uri", ENTITY + answer.removeprefix("wd:"))
    return Term("literal", answer, DATE_TIME if _DATE.fullmatch(answer) else None)


def read_simplequestions(file: File) -> Iterator[Question]:
    """SimpleQuestions over Wikidata: subject, property, object and question, tab-separated.

    A property written ``R…`` runs from object to subject. The file gives one answer of each question, of perhaps many;
    the query is made from subject and property, and the id is the line's number.
    """
    for number, line in enumerate(file.text().split("\n"), 1):
        if not line.strip():
            continue
        fields = dict(zip(("subject", "property", "object", "question"), line.split("\t"), strict=False))
        record = Record(file.path, number, fields)
        subject, relation, answer = (record.text(name).strip() for name in ("subject", "property", "object"))
        if not re.fullmatch(r"Q\d+\t[PR]\d+\tQ\d+", f"{subject}\t{relation}\t{answer}"):
            raise record.error("expected an item, a property and an item")
        predicate = f"wdt:P{relation[1:]}"
        pattern = f"wd:{subject} {predicate} ?x" if relation.startswith("P") else f"?x {predicate} wd:{subject}"
        yield Question(
            id=str(number),
            texts={"en": record.text("question").strip()},
            query=f"SELECT DISTINCT ?x WHERE {{ {pattern} . }}",
            answers=AnswerTable(("x",), ((Term("uri", ENTITY + answer),),)),
        )


def _plain(record: Record, meta: dict[str, Any], answers: AnswerTable | None = None) -> Question:
    return Question(
        id=record.identifier("id"),
        texts={"en": record.text("question")},
        query=record.text("sparql"),
        answers=answers,
        meta=meta,
    )
