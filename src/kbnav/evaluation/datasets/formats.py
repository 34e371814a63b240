"""Readers of STaRK: the published CSV with its split indices, and the same questions as JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kbnav.answers.tables import AnswerTable, Cell, Term
from kbnav.evaluation.datasets.records import File, Question, Record, kind
from kbnav.knowledge.skb.importers.files import cells
from kbnav.knowledge.skb.schema import MEMORY, Losses

KBS = ("amazon", "mag", "prime")
HUMAN = "stark_qa_human_generated_eval.csv"
"""The questions that people wrote; early versions have ``written`` in the name."""
HUMAN_TOP_V = 10
"""Nodes of such a question that a model scores, in place of 20 (STaRK, section 3.1)."""
HUMAN_LEFT_OUT = frozenset({"recall@20"})
"""Metrics that are not reported of such questions, which may have more answers (section 3.2)."""


def is_human(dataset: str) -> bool:
    """Whether a dataset's name is that of a set of human-generated questions, STaRK's or one's own."""
    return dataset == "human" or dataset.endswith("-human")


def is_human_file(path: Path) -> bool:
    """Whether a file is named as STaRK names that of human-generated questions."""
    return path.name.startswith("stark_qa_human_")


def table(folder: Path, *, human: bool) -> Path:
    """The CSV of the questions in ``stark_qa/``."""
    if not human:
        return folder / "stark_qa.csv"
    return next((path for path in sorted(folder.glob("*.csv*")) if is_human_file(path)), folder / HUMAN)


def read_stark(file: File) -> Iterator[Question]:
    """STaRK's questions from the published CSV, or from JSON lines, told apart by the file's name."""
    yield from read_stark_csv(file) if ".csv" in file.path.suffixes else read_stark_jsonl(file)


def read_stark_csv(file: File) -> Iterator[Question]:
    """``stark_qa.csv`` or ``stark_qa_human_generated_eval.csv``: ``id``, ``query``, ``answer_ids`` as a list's text."""
    for record in file.csv(("id", "query", "answer_ids")):
        try:
            answers = json.loads(record.text("answer_ids"))
        except ValueError as error:
            raise record.error("'answer_ids' is not a list of node ids") from error
        yield _question(record, answers)


def read_stark_jsonl(file: File) -> Iterator[Question]:
    """One question a line: ``id``, ``query``, ``answer_ids``; ``mor_plan``, where it is, goes to ``meta``."""
    for record in file.json_lines():
        yield _question(record, record.get("answer_ids", list))


def _question(record: Record, answers: object) -> Question:
    if not isinstance(answers, list) or not all(type(answer) is int for answer in answers):
        raise record.error("'answer_ids' is not a list of node ids")
    if not answers:
        raise record.error("a question without an answer")
    return Question(
        id=record.identifier("id"),
        texts={"en": record.text("query")},
        nodes=tuple(map(str, answers)),
        meta=record.meta("mor_plan"),
    )


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
    if path.exists() or not dash:
        return path, 1.0
    return folder / f"{whole}.index", float(share)


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
            answers=plain_table(plain) if plain else _own_answers(record, given),
            nodes=_own_nodes(record),
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


def _own_answers(record: Record, given: Any) -> AnswerTable | None:
    if given is None:
        return None
    if isinstance(given, bool):
        return AnswerTable(boolean=given)
    return record.rows(given) if isinstance(given, list) else record.table(given)


def _own_nodes(record: Record) -> tuple[str, ...]:
    nodes = record.get("nodes", list) if "nodes" in record.value else []
    if not all(isinstance(node, (str, int)) and not isinstance(node, bool) for node in nodes):
        raise record.error("'nodes' must be ids, strings or whole numbers")
    return tuple(map(str, nodes))


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
