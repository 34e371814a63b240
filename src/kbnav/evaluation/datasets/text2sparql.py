"""Reader of the TEXT2SPARQL challenge's files: YAML, questions in several languages, a reference query each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbnav.evaluation.datasets.question import Question
from kbnav.evaluation.datasets.records import File, Record, kind

ORDERED = "RESULT_ORDER_MATTERS"
"""The feature of questions whose answer is a list in its order."""


def read_text2sparql(file: File) -> Iterator[Question]:
    """TEXT2SPARQL: a mapping with ``dataset`` and ``questions``, each with ``id``, ``question`` by language, ``query``.

    ``features``, ``classes`` and ``properties`` are kept in ``meta``; ``meta["ordered"]`` says whether the order of the
    rows counts.
    """
    document = _yaml(file)
    if not isinstance(document, dict) or "questions" not in document:
        raise file.error("expected a mapping with 'questions'")
    for record in file.records(document["questions"]):
        features = record.value.get("features") or []
        yield Question(
            id=record.identifier("id"),
            texts=_texts(record),
            query=_query(record),
            meta={**record.meta("features", "classes", "properties"), "ordered": ORDERED in features},
        )


def _yaml(file: File) -> Any:
    import yaml  # type: ignore[import-untyped]

    try:
        return yaml.safe_load(file.text())
    except yaml.YAMLError as error:
        raise file.error(f"not YAML: {' '.join(str(error).split())}") from error


def _texts(record: Record) -> dict[str, str]:
    texts = record.get("question", dict)
    wrong = [text for text in texts.values() if not isinstance(text, str)]
    if wrong or not any(text.strip() for text in texts.values()):
        raise record.error(f"a question is {kind(wrong[0])}, expected str" if wrong else "a question without a text")
    return {str(language): text.strip() for language, text in texts.items() if text.strip()}


def _query(record: Record) -> str:
    query = record.get("query", dict) if "query" in record.value else {}
    text = query.get("sparql", "")
    if not isinstance(text, str):
        raise record.error(f"'sparql' is {kind(text)}, expected str")
    return text.strip()
