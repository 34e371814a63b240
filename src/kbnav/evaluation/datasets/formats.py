"""Readers of the published file formats, and of one's own questions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from math import isfinite, nan
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from kbnav.answers.tables import AnswerTable, Cell, Term
from kbnav.evaluation.datasets.records import File, Question, Record, kind
from kbnav.knowledge.skb.importers.files import cells
from kbnav.knowledge.skb.schema import MEMORY

KBS = ("amazon", "mag", "prime")
HUMAN = "stark_qa_human_generated_eval.csv"
"""STaRK's questions that people wrote; early versions have ``written`` in the name."""
HUMAN_TOP_V = 10
"""Nodes of such a question that a model scores, in place of 20 (STaRK, section 3.1)."""
_NUMBER = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?")
_DATE = re.compile(r"\+?(-?\d{4,}-\d\d-\d\d)(?:T00:00:00(?:\.0+)?(?:Z|\+00:00)?)?")
_POINT = re.compile(r"(?:<\S+>\s*)?POINT\s*\(\s*([+-]?\d+(?:\.\d+)?)\s+([+-]?\d+(?:\.\d+)?)\s*\)", re.IGNORECASE)
HUMAN_LEFT_OUT = frozenset({"recall@20"})
"""Metrics that are not reported of such questions, which may have more answers (section 3.2)."""
ENTITY = "http://www.wikidata.org/entity/"
ENTITY_ID = re.compile(r"(?:wd:)?[QPL][1-9]\d*")
BETWEEN = "|"
"""Parts several answers in one cell of one's own table."""
_XSD = "http://www.w3.org/2001/XMLSchema#"
_ORDERED = "RESULT_ORDER_MATTERS"
"""TEXT2SPARQL's feature of questions whose answer is a list in its order."""


def _question(record: Record, meta: Mapping[str, Any] | None = None, answers: AnswerTable | None = None) -> Question:
    name, asked = record.identifier("id"), "utterance" if "utterance" in record.value else "question"
    return Question(name, {"en": record.text(asked)}, record.text("sparql"), answers, meta=meta or {})


def _sparql(record: Record) -> str:
    text = record.get("query", dict).get("sparql", "")
    if not isinstance(text, str):
        raise record.error(f"'sparql' is {kind(text)}, expected str")
    return text


# STaRK


def is_human(dataset: str) -> bool:
    """Whether a dataset's name is that of a set of human-generated questions, STaRK's or one's own."""
    return dataset == "human" or dataset.endswith("-human")


def is_human_file(path: Path) -> bool:
    """Whether a file is named as STaRK names that of human-generated questions."""
    return path.name.startswith("stark_qa_human_")


def stark_table(folder: Path, *, human: bool) -> Path:
    """The CSV of the questions in ``stark_qa/``."""
    if not human:
        return folder / "stark_qa.csv"
    return next((path for path in sorted(folder.glob("*.csv*")) if is_human_file(path)), folder / HUMAN)


def read_stark(file: File) -> Iterator[Question]:
    """STaRK's questions: ``id``, ``query``, ``answer_ids``, from JSON lines or, as a list's text, the published CSV."""
    for record in table_records(file) if ".csv" in file.path.suffixes else file.json_lines():
        answers: Any = record.get("answer_ids", list, str)
        with suppress(ValueError):
            answers = json.loads(answers) if isinstance(answers, str) else answers
        if not isinstance(answers, list) or not all(type(answer) is int for answer in answers):
            raise record.error("'answer_ids' is not a list of node ids")
        if not answers:
            raise record.error("a question without an answer")
        texts, nodes = {"en": record.text("query")}, tuple(map(str, answers))
        yield Question(record.identifier("id"), texts, nodes=nodes, meta=record.meta("mor_plan"))


def read_split(file: File) -> tuple[str, ...]:
    """A split index: the id of one question a line, in its order. Raises DataError naming a line that is not an id."""
    lines = [(number, line.strip()) for number, line in enumerate(file.text().split("\n"), 1) if line.strip()]
    for number, line in lines:
        if not line.isdecimal():
            raise file.error(f"record {number}: {line[:40]!r} is not a question id")
    return tuple(line for _, line in lines)


def split_file(folder: Path, split: str) -> tuple[Path, float]:
    """The index of a split in ``split/``, and the share of its first ids that is meant.

    Of ``test-0.1``, where it has no file of its own, it is the first tenth of the test split, as in STaRK's code.
    """
    path = folder / f"{split}.index"
    whole, dash, share = split.rpartition("-")
    return (path, 1.0) if path.exists() or not dash else (folder / f"{whole}.index", float(share))


# Sets over Wikidata


def read_spinach(file: File) -> Iterator[Question]:
    """SPINACH: a list of records with ``id``, ``question``, ``sparql``, ``title`` and ``url``; no stored answers."""
    for record in file.records(file.json()):
        yield _question(record, record.meta("title", "url"))


def read_qald(file: File) -> Iterator[Question]:
    """QALD JSON; also the list of ``id``, ``question`` and ``sparql`` in which QALD-9-plus is passed on."""
    document = file.json()
    if isinstance(document, list):
        yield from map(_question, file.records(document))
        return
    if not isinstance(document, dict) or "questions" not in document:
        raise file.error("expected an object with 'questions'")
    for record in file.records(document["questions"]):
        items = (item for item in record.get("question", list) if isinstance(item, dict))
        texts = _texts(record, ((item.get("language"), item.get("string")) for item in items))
        query = _sparql(record)
        answers = record.get("answers", list) if "answers" in record.value else []
        if len(answers) > 1:
            raise record.error(f"{len(answers)} answers, expected one SPARQL result")
        yield Question(
            id=record.identifier("id"),
            texts=texts,
            query=query,
            answers=record.table(answers[0]) if answers else None,
            meta=record.meta("answertype", "aggregation", "onlydbo", "hybrid"),
        )


def _texts(record: Record, given: Iterable[tuple[object, object]]) -> dict[str, str]:
    """The texts of a question by language. Raises DataError where there is none."""
    texts = {str(name): text for name, text in given if name and isinstance(text, str) and text.strip()}
    if not texts:
        raise record.error("a question without a text")
    return texts


def read_wikiwebquestions(file: File) -> Iterator[Question]:
    """WikiWebQuestions: JSON lines or a list of ``id``, ``question`` or ``utterance``, ``sparql``, ``info.results``."""
    is_list = file.data.lstrip().startswith(b"[")
    for record in file.records(file.json()) if is_list else file.json_lines():
        info = record.get("info", dict) if "info" in record.value else {}
        yield _question(record, record.meta("paraphrases"), stored_answer(record, info.get("results")))


def read_text2sparql(file: File) -> Iterator[Question]:
    """TEXT2SPARQL: YAML with ``dataset`` and ``questions``, each with ``id``, ``question`` by language, ``query``.

    ``features``, ``classes`` and ``properties`` are kept in ``meta``; ``meta["ordered"]`` says whether the order of the
    rows counts.
    """
    import yaml  # type: ignore[import-untyped]

    try:
        document = yaml.safe_load(file.text())
    except yaml.YAMLError as error:
        raise file.error(f"not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or "questions" not in document:
        raise file.error("expected a mapping with 'questions'")
    for record in file.records(document["questions"]):
        texts = _texts(record, record.get("question", dict).items())
        ordered = _ORDERED in (record.value.get("features") or [])
        yield Question(
            id=record.identifier("id"),
            texts={language: text.strip() for language, text in texts.items()},
            query=_sparql(record).strip() if "query" in record.value else "",
            meta={**record.meta("features", "classes", "properties"), "ordered": ordered},
        )


# One's own questions


def own_question(record: Record) -> Question:
    """A question of one's own by ``id``, ``question``, ``sparql`` and what ``own_answer`` reads. Raises DataError."""
    question = record.get("question", str, dict)
    texts = {"en": record.text("question")} if isinstance(question, str) else question
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts.values()):
        raise record.error("'question' needs a text, or texts by language")
    table, plain, nodes = own_answer(record)
    columns = ("id", "question", "sparql", "answers", "nodes", "meta")
    others = {name: value for name, value in record.value.items() if name not in columns and value}
    return Question(
        id=record.identifier("id"),
        texts=texts,
        query=record.get("sparql", str).strip() if "sparql" in record.value else "",
        answers=table,
        nodes=nodes,
        meta={**others, **(record.get("meta", dict) if "meta" in record.value else {})},
        plain=plain,
    )


def own_answer(record: Record) -> tuple[AnswerTable | None, tuple[str, ...], tuple[str, ...]]:
    """The answer in a record of one's own: a table, the plain answers it was made of, and nodes. Raises DataError.

    ``answers`` are ids or labels as plain texts and numbers, SPARQL JSON bindings, a SPARQL JSON result, or a boolean;
    ``nodes`` are ids of an SKB. In a cell several are parted by ``|``, or are a JSON list.
    """
    given, nodes = record.value.get("answers"), record.value.get("nodes")
    if isinstance(given, str):
        boolean = {"true": True, "false": False}.get(given.strip().lower())
        given = (_cell_values(record, "answers") or None) if boolean is None else boolean
    elif given is not None:
        given = record.get("answers", list, dict, bool)
    if isinstance(nodes, str):
        nodes = _cell_values(record, "nodes")
    elif nodes is not None:
        nodes = record.get("nodes", list)
    if not all(isinstance(node, (str, int)) and not isinstance(node, bool) for node in nodes or ()):
        raise record.error("'nodes' must be ids, strings or whole numbers")
    plain = _plain_answers(record, given) if isinstance(given, list) else None
    table = _plain_table(plain) if plain else stored_answer(record, given)
    return table, tuple(map(str, plain or ())), tuple(map(str, nodes or ()))


def table_records(file: File) -> Iterator[Record]:
    """The rows of a CSV or TSV file, whose delimiter is recognised. Raises UsageError, DataError."""
    lines = cells(file.path, MEMORY)
    _, header = next(lines, (0, []))
    for number, (_, row) in enumerate(lines, 1):
        yield Record(file.path, number, dict(zip(header, row, strict=True)))


def trec_records(file: File) -> Iterator[Record]:
    """Topics of a TREC run with documents, best first, or of qrels with the relevant ones and their grades.

    Equal scores are ordered as by trec_eval: by the documents' ids, falling. Raises DataError.
    """
    found: dict[str, dict[str, float]] = {}
    for number, line in enumerate(file.text().strip().splitlines(), 1):
        fields = [*map(unquote, line.split())]
        try:
            topic, _, document, score = fields[:3] + (fields[3:] if len(fields) == 4 else fields[4:-1])
            value = float(score)
        except ValueError:
            value = nan
        if not isfinite(value):
            raise Record(file.path, number, {}).error(f"no line of a TREC run or of qrels: {line[:80]!r}")
        scored = found.setdefault(topic, {})
        if document in scored:
            raise Record(file.path, number, {}).error(f"the topic {topic!r} has {document!r} a second time")
        scored[document] = value
        is_run = len(fields) == 6
    for number, (topic, scored) in enumerate(found.items(), 1):
        ranked = sorted(((score, document) for document, score in scored.items()), reverse=True)
        scores, nodes = ([one[place] for one in ranked if is_run or one[0] > 0] for place in (0, 1))
        yield Record(file.path, number, {"id": topic, "question": topic, "nodes": nodes, "scores": scores})


def read_qrels(file: File) -> Iterator[Question]:
    """TREC's relevance judgements: the relevant documents of each topic, with their grades."""
    for one in (record.value for record in trec_records(file)):
        yield Question(one["id"], {"en": one["id"]}, nodes=tuple(one["nodes"]), grades=tuple(one["scores"]))


def _cell_values(record: Record, name: str) -> list[str]:
    """The values in a cell: a JSON list, or texts parted by ``|``. Raises DataError."""
    text = str(record.value.get(name) or "").strip()
    if not text.startswith("["):
        return [part.strip() for part in text.split(BETWEEN) if part.strip()]
    try:
        found = json.loads(text)
    except ValueError as error:
        raise record.error(f"{name!r} is not a JSON list: {error}") from error
    return [str(one) for one in _plain_answers(record, found) or ()]


def _plain_answers(record: Record, given: list[Any]) -> list[str | int | float] | None:
    """Answers that are plain texts or numbers; None where they are bindings. Raises DataError where they are mixed."""
    wrong = [one for one in given if isinstance(one, bool) or not isinstance(one, (str, int, float))]
    if not given or len(wrong) == len(given):
        return None
    if wrong:
        raise record.error(f"answers are texts and numbers, or SPARQL JSON bindings; one is {kind(wrong[0])}")
    if any(not str(one).strip() for one in given):
        raise record.error(f"an answer of question {record.value.get('id') or record.value.get('question')!r} is empty")
    return [one.strip() if isinstance(one, str) else one for one in given]


def _plain_table(plain: Sequence[str | int | float]) -> AnswerTable:
    """Plain answers as one column: ids of Wikidata (``Q42``, ``wd:Q42``) and IRIs as such, else numbers and texts."""

    def cell(value: str | int | float) -> Cell:
        if not isinstance(value, str):
            return Term("literal", str(value), f"{_XSD}{'integer' if isinstance(value, int) else 'decimal'}")
        if ENTITY_ID.fullmatch(value):
            return Term("uri", ENTITY + value.removeprefix("wd:"))
        return Term("uri" if re.match(r"(https?|urn):\S+$", value) else "literal", value)

    return AnswerTable(("answer",), tuple((cell(one),) for one in plain))


def stored_answer(record: Record, given: Any) -> AnswerTable | None:
    """SPARQL JSON bindings, a SPARQL JSON result or a boolean as a table. Raises DataError."""
    if given is None:
        return None
    if isinstance(given, bool):
        return AnswerTable(boolean=given)
    return record.table({"head": {}, "results": {"bindings": given}} if isinstance(given, list) else given)


def meaning(value: str) -> object:
    """What a plain value is compared by: its number, its day, the coordinates of its point, else its text."""
    if (number := number_in(value)) is not None:
        return number
    if date := _DATE.fullmatch(value):
        return date[1]
    point = _POINT.fullmatch(value)
    return (float(point[1]), float(point[2])) if point else value


def number_in(text: str) -> Decimal | None:
    """The number that the text is, as in ``1,500.0``; None where it is none."""
    return Decimal(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


Reader = Callable[[File], Iterator[Question]]
FORMATS: Mapping[str, Reader] = MappingProxyType(
    {
        "spinach": read_spinach,
        "qald-7": read_qald,
        "qald-9-plus": read_qald,
        "qald-10": read_qald,
        "wikiwebquestions": read_wikiwebquestions,
        "stark-amazon": read_stark,
        "stark-mag": read_stark,
        "stark-prime": read_stark,
        "text2sparql": read_text2sparql,
        "jsonl": lambda file: map(own_question, file.json_lines()),
        "table": lambda file: map(own_question, table_records(file)),
        "qrels": read_qrels,
    }
)
"""Reader of each format; SOURCES has the same keys."""
