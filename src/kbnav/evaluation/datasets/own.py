"""Readers of one's own questions: JSON lines, and tables as spreadsheets write them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from kbnav.answers.tables import AnswerTable, Cell, Term
from kbnav.evaluation.datasets.question import Question
from kbnav.evaluation.datasets.records import File, Record, kind
from kbnav.evaluation.datasets.wikidata import ENTITY
from kbnav.knowledge.skb.importers.files import cells
from kbnav.knowledge.skb.schema import MEMORY, Losses

ENTITY_ID = re.compile(r"(?:wd:)?[QPL][1-9]\d*")
_XSD = "http://www.w3.org/2001/XMLSchema#"
_COLUMNS = ("id", "question", "sparql", "answers", "nodes")
BETWEEN = "|"
"""Parts several answers in one cell."""


def read_jsonl(file: File) -> Iterator[Question]:
    """One's own questions: JSON lines with ``id`` and ``question`` (a text, or texts by language).

    Optional: ``sparql``; ``answers`` (ids or labels as plain texts and numbers, SPARQL JSON bindings, a SPARQL JSON
    result, or a boolean); ``nodes`` (node ids of an SKB); ``meta`` (an object).
    """
    for record in file.json_lines():
        question = record.get("question", str, dict)
        texts = {"en": record.text("question")} if isinstance(question, str) else question
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts.values()):
            raise record.error("'question' needs a text, or texts by language")
        given = record.get("answers", list, dict, bool) if "answers" in record.value else None
        plain = plain_answers(record, given) if isinstance(given, list) else None
        yield Question(
            id=record.identifier("id"),
            texts=texts,
            query=record.get("sparql", str) if "sparql" in record.value else "",
            answers=plain_table(plain) if plain else _answers(record, given),
            nodes=_nodes(record),
            meta=record.get("meta", dict) if "meta" in record.value else {},
            plain=tuple(map(str, plain or ())),
        )


def read_table(file: File) -> Iterator[Question]:
    """One's own questions: CSV or TSV with the columns ``id`` and ``question``; other columns go to ``meta``.

    Optional: ``sparql``; ``answers`` and ``nodes``, of which several are parted by ``|``, or are a JSON list; true or
    false alone is a boolean.
    """
    for record in table_records(file):
        answers = cell_values(record, "answers")
        boolean = answers[0].lower() == "true" if [one.lower() for one in answers] in (["true"], ["false"]) else None
        plain = answers if answers and boolean is None else []
        yield Question(
            id=record.identifier("id"),
            texts={"en": record.text("question")},
            query=str(record.value.get("sparql", "")).strip(),
            answers=AnswerTable(boolean=boolean) if boolean is not None else plain_table(plain) if plain else None,
            nodes=tuple(cell_values(record, "nodes")),
            meta={name: value for name, value in record.value.items() if name not in _COLUMNS and value},
            plain=tuple(plain),
        )


def table_records(file: File) -> Iterator[Record]:
    """The rows of a CSV or TSV file, whose delimiter and encoding are recognised. Raises UsageError, DataError."""
    lines = cells(file.path, Losses(), MEMORY)
    _, header = next(lines, (0, []))
    for number, (_, row) in enumerate(lines, 1):
        yield Record(file.path, number, dict(zip(header, row, strict=True)))


def cell_values(record: Record, name: str) -> list[str]:
    """The values in a cell: a JSON list, or texts parted by ``|``. Raises DataError."""
    text = str(record.value.get(name) or "").strip()
    if not text.startswith("["):
        return [part.strip() for part in text.split(BETWEEN) if part.strip()]
    try:
        found = json.loads(text)
    except ValueError as error:
        raise record.error(f"{name!r} is not a JSON list: {error}") from error
    return [str(one) for one in plain_answers(record, found) or ()]


def plain_answers(record: Record, given: list[Any]) -> list[str | int | float] | None:
    """Answers that are plain texts or numbers; None where they are bindings. Raises DataError where they are mixed."""
    wrong = [one for one in given if isinstance(one, bool) or not isinstance(one, (str, int, float))]
    if not given or len(wrong) == len(given):
        return None
    if wrong:
        raise record.error(f"answers are texts and numbers, or SPARQL JSON bindings; one is {kind(wrong[0])}")
    if any(not str(one).strip() for one in given):
        raise record.error("an answer is empty")
    return [one.strip() if isinstance(one, str) else one for one in given]


def plain_table(plain: Sequence[str | int | float]) -> AnswerTable:
    """Plain answers as one column: ids of Wikidata (``Q42``, ``wd:Q42``) and IRIs as such, else numbers and texts."""
    return AnswerTable(("answer",), tuple((_cell(one),) for one in plain))


def names_only(question: Question) -> bool:
    """Whether stored answers are names, which match no ids, and so are to be compared as labels."""
    return bool(question.plain) and not any(ENTITY_ID.fullmatch(one) or "://" in one for one in question.plain)


def _cell(value: str | int | float) -> Cell:
    if isinstance(value, int):
        return Term("literal", str(value), f"{_XSD}integer")
    if isinstance(value, float):
        return Term("literal", str(value), f"{_XSD}decimal")
    if ENTITY_ID.fullmatch(value):
        return Term("uri", ENTITY + value.removeprefix("wd:"))
    return Term("uri" if re.match(r"(https?|urn):\S+$", value) else "literal", value)


def _answers(record: Record, given: Any) -> AnswerTable | None:
    if given is None:
        return None
    if isinstance(given, bool):
        return AnswerTable(boolean=given)
    return record.rows(given) if isinstance(given, list) else record.table(given)


def _nodes(record: Record) -> tuple[str, ...]:
    nodes = record.get("nodes", list) if "nodes" in record.value else []
    if not all(isinstance(node, (str, int)) and not isinstance(node, bool) for node in nodes):
        raise record.error("'nodes' must be ids, strings or whole numbers")
    return tuple(map(str, nodes))
