"""Cheap checks of an answer by rule: form, number, what the question says and the query does not.

None asks a model, and of the knowledge base one thing at most: the units of amounts that are compared. How often they
are right is measured by ``benchmarks/answer_checks.py``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path as File

from kbnav.agents.common.state import LIMITS
from kbnav.answers.parsing import QuestionKind, read_question
from kbnav.answers.tables import AnswerTable
from kbnav.errors import KbnavError, QuerySyntaxError
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.knowledge.several import asked_by
from kbnav.knowledge.sparql.remarks import units_query, values_query
from kbnav.knowledge.sparql.rewriting import asked_limit, outer_limit
from kbnav.knowledge.sparql.syntax import parse_query
from kbnav.knowledge.sparql.tokens import tokenize
from kbnav.knowledge.sparql.vocabulary import vocabulary_of
from kbnav.runs.trajectory import Doubt, DoubtKind, Outcome
from kbnav.settings.systems import kb_kind
from kbnav.tools.context import Context

_NOT_ONLY = re.compile(r"\bat (?:most|least)\b|\bmost of\b|\bbest[- ]known\b|\bleast of\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,.]*\d(?![\w%])")
_WHOLE_DATE = re.compile(r"[+-]?\d{4,}-\d\d-\d\d")
_NUMERIC = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_EXTREME = re.compile(r"\b(?:MIN|MAX)\s*\(", re.IGNORECASE)
_OF_ALL = re.compile(
    r"\b(?:COUNT|SUM|AVG|MIN|MAX)\s*\(|\bORDER\s+BY\b.*\bLIMIT\b|\b(?:MINUS|NOT\s+EXISTS)\b|!\s*\(?\s*(?:BOUND|EXISTS)\b"
    r"|prov:was|\A(?!.*(?:wdt:P\d+|\?\w+ =) [\"\d])(?:(?!wd:Q).)*:(?:P279 \*|P31|P106) wd:Q\d+(?!.*wd:Q)",
    re.IGNORECASE | re.DOTALL,
)
"""What is so of a part may be otherwise of the whole: numbers, a class, orders, references, what is missing."""
_ORDERS = ("ORDER", "MAX", "MIN", "MINUS", "NOT", "HAVING", "<", ">", "<=", ">=")
"""Words and signs by which a query takes an end of an order."""


def with_doubts(outcome: Outcome, question: str, context: Context) -> Outcome:
    """The outcome with its doubts; one without an answer, or whose answer is no query's result, has none."""
    if outcome.status not in ("answered", "best effort") or outcome.table is None or not outcome.query:
        return outcome
    found = copy_doubts(context.kb, outcome.query)
    found += check_answer(question, context.language, outcome.query, outcome.table)
    first = outcome.table.rows[0] if outcome.table.rows else ()
    # A result with dates sorts by these, or compares them.
    dated = any(cell is not None and (cell.datatype or "").endswith(("#dateTime", "#date")) for cell in first)
    if outcome.stop not in LIMITS and not dated:
        found += compared_values(asked_by(context.kb, outcome.query), outcome.query, outcome.table, context.language)
    return replace(outcome, doubts=(*outcome.doubts, *found))


def copy_doubts(kb: KnowledgeBase, query: str) -> tuple[Doubt, ...]:
    """A doubt where a copy of a part is asked, and what the query finds may be otherwise of the whole."""
    with suppress(QuerySyntaxError):
        said = " ".join('"' if token.kind == "string" else token.text for token in tokenize(query))
        if _OF_ALL.search(said) and is_mirror(asked_by(kb, query).state()):
            return (Doubt("copy"),)
    return ()


def check_answer(question: str, language: str, query: str, table: AnswerTable) -> tuple[Doubt, ...]:
    """What speaks against a table as the answer to a question; nothing where the query cannot be read."""
    try:
        read = parse_query(query)
    except QuerySyntaxError:
        return ()
    tails = (read.tail, *(one.tail for one in read.selects))
    ends = {name for tail in tails for key in tail.keys("ORDER BY") for name in key.variables}
    ends |= {one.variable for one in read.expressions if _EXTREME.search(one.place.of(query))}
    wanted = read_expectation(question, language)
    found = (*_of_form(wanted, ends, table), *_of_query(wanted, query, table))
    return tuple(Doubt(kind, about) for kind, about in found)


# What a question wants, read off its words


@dataclass(frozen=True)
class Expectation:
    """What a ``question`` wants.

    ``choice``: one of the things that it names; ``each``: a number of each of several. ``only``, ``sorted`` and
    ``exception`` are the words that ask for one thing, for an end of an order, and for leaving something out; empty
    where there are none. ``numbers`` are those of two digits or more.
    """

    question: str
    kind: QuestionKind
    year: bool = False
    choice: bool = False
    each: bool = False
    only: str = ""
    sorted: str = ""
    exception: str = ""
    numbers: tuple[str, ...] = ()


def read_expectation(question: str, language: str) -> Expectation:
    """What the question wants; in languages other than English, German, French and Spanish only its kind is read."""
    read, code = read_question(question, language), language.split("-")[0]
    text = read.text.casefold()
    bare = _NOT_ONLY.sub(" ", text)

    def pattern(name: str, text: str = text) -> str:
        wanted = _words()[name].get(code)
        found = re.search(wanted, text) if wanted else None
        return found[0] if found else ""

    def word(name: str, text: str = text) -> str:
        known = _words()[name].get(code, "").split()
        return next((word for word in re.findall(r"[\w’']+", text) if word in known), "")

    choice = bool(pattern("or") and word("more"))
    return Expectation(
        question,
        "values" if choice else read.kind,
        year=bool(pattern("year")),
        choice=choice,
        each=bool(word("each")),
        only="" if pattern("several", bare) else word("only", bare),
        sorted=word("sorted", bare),
        exception=pattern("except"),
        numbers=tuple(dict.fromkeys(_NUMBER.findall(read.text))),
    )


@cache
def _words() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(File(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


# The rules: each yields the kind of a doubt and what it is about


Found = Iterator[tuple[DoubtKind, str]]


def _of_form(wanted: Expectation, ends: Set[str], table: AnswerTable) -> Found:
    """Whether the result has the form that the question wants; ``ends``: variables that the query takes an end of."""
    cells = [cell for row in table.rows for cell in row if cell is not None]
    found = tuple(dict.fromkeys(row[0] for row in table.rows if row))  # the first column is what is asked for
    values = wanted.kind == "values"
    truths = {cell.value.casefold() for cell in found if cell and cell.type == "literal"}
    truth = len(found) == 1 and not truths.isdisjoint(("true", "false", "yes", "no"))
    if wanted.kind == "yes-no" and table.boolean is None and not truth:
        yield "truth", ""
    numbers = any(_NUMERIC.fullmatch(cell.value) for cell in cells)
    if wanted.kind == "count" and len(table) and not (numbers and (wanted.each or len(table.rows) == 1)):
        yield "count", ""
    if wanted.kind == "count" and [cell.value for cell in cells] == ["0"]:
        yield "zero", ""
    if wanted.year and any(_WHOLE_DATE.match(cell.value) for cell in cells):
        yield "year", ""
    if values and len(found) > 1 and wanted.choice:
        yield "choice", str(len(found))
    measures = {row[1] for row in table.rows} if len(table.columns) == 2 and f"?{table.columns[1]}" in ends else ()
    measured = "".join(cell.value for cell in measures if cell) if len(measures) == 1 else ""
    tied = wanted.sorted and (_NUMERIC.fullmatch(measured) or _WHOLE_DATE.match(measured))
    if values and len(found) > 1 and not wanted.choice and (tied or wanted.only):
        yield ("tie", str(len(found))) if tied else ("one", wanted.only)


def _of_query(wanted: Expectation, query: str, table: AnswerTable) -> Found:
    """Whether the query has what the question says."""
    labels, parts = list(table.labels.values()), {token.text.upper() for token in tokenize(query)}
    # A property or a thing may say it itself, as "highest point" does; what has nothing above it is the highest.
    if wanted.sorted and parts.isdisjoint(_ORDERS) and not any(wanted.sorted in label.casefold() for label in labels):
        yield "order", wanted.sorted
    # The labels of what the query names may have a number, as in "2020 UEFA Champions League Final".
    digits = re.sub(r"(?<=\d),(?=\d{3})", "", " ".join([query, *labels]))
    missing = [number for number in wanted.numbers if number.replace(",", "") not in digits]
    if missing:
        yield "number", ", ".join(missing)
    if wanted.exception and parts.isdisjoint(("MINUS", "NOT", "!=", "!", "OFFSET")):
        yield "exception", wanted.exception
    limit = outer_limit(query) or 0
    if limit >= 2 and len(table.rows) == limit and "ORDER" not in parts and not asked_limit(wanted.question, limit):
        yield "limit", str(limit)


# Amounts in several units, and several values of one thing


def compared_values(kb: KnowledgeBase, query: str, shown: AnswerTable, language: str) -> tuple[Doubt, ...]:
    """Doubts where what is compared is in several units, or there are several of it; none where that is unknown.

    A list of the things ``shown`` may be sorted by them, which compares no amounts.
    """
    if kb_kind(kb) != "wikibase":
        return ()
    words, doubts = vocabulary_of(kb), list[Doubt]()
    with suppress(KbnavError):  # the answer is there; that it could not be checked takes nothing from it
        if asked := units_query(query, words):
            table = kb.execute_query(asked, language=language)
            if len(table.rows) > 1:
                units = ", ".join(str(table.label(row[0]) or table.entity(row[0])) for row in table.rows)
                doubts.append(Doubt("units", units))
        things = {
            f"?{shown.columns[place]}" for row in shown.rows for place, cell in enumerate(row) if shown.entity(cell)
        }
        if asked := values_query(query, words, things):
            counted = kb.execute_query(asked).rows  # one row of four; a replayed answer may be another query's
            if counted and len(counted[0]) == 4:
                _, _, several, every = (cell.value if cell else "0" for cell in counted[0])
                if several != "0":
                    doubts.append(Doubt("several", f"{several} / {every}"))
    return tuple(doubts)
