"""Readers of datasets whose questions were composed by rules and then worded anew (SPINACH, Table 1).

ComplexWebQuestions and GrailQA are over Freebase, KQA Pro over a knowledge base of its own: their queries are counted,
and their stored answers scored against, but a query of theirs has no answer on Wikidata. MCWQ is over Wikidata.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from kbnav.answers.tables import AnswerTable, Term
from kbnav.evaluation.datasets.question import Question
from kbnav.evaluation.datasets.records import File, Record

FREEBASE = "http://rdf.freebase.com/ns/"
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


def read_complexwebquestions(file: File) -> Iterator[Question]:
    """ComplexWebQuestions: a list with ``ID``, ``question``, ``sparql``, and in some splits ``answers`` or ``answer``.

    An answer is a record with ``answer_id`` (a Freebase id, or null) and ``answer``, its name, or the name alone.
    """
    for record in file.records(file.json()):
        answers = record.value.get("answers", record.value.get("answer"))
        terms = None
        if answers is not None:
            listed = answers if isinstance(answers, list) else [answers]
            terms = [_named(record, one, "answer_id", "answer") for one in listed]
        yield Question(
            id=record.identifier("ID"),
            texts={"en": record.text("question")},
            query=_text(record, "sparql"),
            answers=_column(terms),
            meta=record.meta("compositionality_type", "machine_question", "webqsp_ID"),
        )


def read_grailqa(file: File) -> Iterator[Question]:
    """GrailQA: a list with ``qid``, ``question``, ``sparql_query``, ``s_expression``, ``level`` and ``answer``.

    An answer's ``answer_type`` is Entity, with a Freebase id as ``answer_argument``, or Value, with a literal. The
    public test set has questions only.
    """
    for record in file.records(file.json()):
        answers = record.get("answer", list) if "answer" in record.value else None
        yield Question(
            id=record.identifier("qid"),
            texts={"en": record.text("question")},
            query=_text(record, "sparql_query"),
            answers=_column(None if answers is None else [_grail_term(record, one) for one in answers]),
            meta=record.meta("level", "function", "num_node", "num_edge", "s_expression"),
        )


def read_kqa_pro(file: File) -> Iterator[Question]:
    """KQA Pro: a list with ``question``, ``sparql``, ``program``, ``choices`` and ``answer``, a text; ids are places.

    The test set has questions and choices only.
    """
    for record in file.records(file.json()):
        answer = _text(record, "answer")
        yield Question(
            id=str(record.number),
            texts={"en": record.text("question")},
            query=_text(record, "sparql"),
            answers=_column([Term("literal", answer)] if answer else None),
            meta=record.meta("program", "choices"),
        )


def read_mcwq(file: File) -> Iterator[Question]:
    """MCWQ: a list with ``CFQquestionIdx`` (at first ``questionIdx``), ``questionWithBrackets`` and ``sparql``.

    Brackets stand around names and are taken away; ``questionWithBrackets_he``, ``_kn`` and ``_zh`` are the other
    languages. ``expectedResponse`` is the answer of a yes-no question as it was expected, and goes to ``meta``.
    """
    for record in file.records(file.json()):
        texts = {"en": _BRACKETS.sub(r"\1", record.text("questionWithBrackets"))}
        for language in ("he", "kn", "zh"):
            if text := _text(record, f"questionWithBrackets_{language}"):
                texts[language] = _BRACKETS.sub(r"\1", text)
        yield Question(
            id=record.identifier("CFQquestionIdx" if "CFQquestionIdx" in record.value else "questionIdx"),
            texts=texts,
            query=record.text("sparql"),
            meta=record.meta("recursionDepth", "questionTemplate", "expectedResponse"),
        )


def _text(record: Record, name: str) -> str:
    """A field that may be missing or null; else it must be a text."""
    return "" if record.value.get(name) is None else str(record.get(name, str)).strip()


def _column(terms: Iterable[Term] | None) -> AnswerTable | None:
    return None if terms is None else AnswerTable(("answer",), tuple((term,) for term in terms))


def _named(record: Record, answer: Any, identifier: str, name: str) -> Term:
    """An answer with a Freebase id as that, any other by its name."""
    if isinstance(answer, dict) and isinstance(answer.get(identifier), str):
        return Term("uri", FREEBASE + answer[identifier])
    text = answer.get(name) if isinstance(answer, dict) else answer
    if not isinstance(text, str):
        raise record.error("an answer with neither an id nor a name")
    return Term("literal", text)


def _grail_term(record: Record, answer: Any) -> Term:
    value = answer.get("answer_argument") if isinstance(answer, dict) else None
    if not isinstance(value, str) or answer.get("answer_type") not in ("Entity", "Value"):
        raise record.error("an answer is neither an Entity nor a Value with an answer_argument")
    return Term("uri", FREEBASE + value) if answer["answer_type"] == "Entity" else Term("literal", value)
