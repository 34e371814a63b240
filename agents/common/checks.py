"""What form of answer a question wants, read off its words alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from kbnav.agents.common.state import LIMITS
from kbnav.agents.offline.question import Kind as QuestionKind
from kbnav.agents.offline.question import read_question
from kbnav.answers.lexicon import Asks
from kbnav.answers.tables import AnswerTable, Cell, Term
from kbnav.errors import KbnavError, QuerySyntaxError
from kbnav.knowledge.base import KnowledgeBase, asked_by
from kbnav.knowledge.sparql.rewriting import asked_limit, outer_limit
from kbnav.knowledge.sparql.syntax import Filter, Path, Pattern, Query, Triples, Values, groups_of, parse_query
from kbnav.knowledge.sparql.tokens import Token, tokenize
from kbnav.knowledge.sparql.vocabulary import Terms, Vocabulary, entity_ids, vocabulary_of
from kbnav.runs.trajectory import Doubt, Kind, Outcome
from kbnav.settings.systems import kb_kind
from kbnav.tools.context import Context

_MORE = {
    "en": "more less fewer earlier later sooner older younger taller shorter longer larger bigger smaller heavier "
    "lighter higher lower closer nearer deeper faster slower richer poorer newer hotter colder wider better worse "
    "first",
    "de": "mehr weniger früher später eher älter jünger größer kleiner länger kürzer höher niedriger schwerer leichter "
    "schneller langsamer tiefer näher breiter zuerst",
    "fr": "plus moins premier première mieux",
    "es": "más menos mayor menor primero primera antes",
}
"""Words that compare."""
_OR = {"en": r"\bor\b|\b(?:out of|between)\b.+\band\b", "de": r"\boder\b", "fr": r"\bou\b", "es": r"\bo\b"}
_ONLY = {
    "en": "highest lowest cheapest greatest earliest latest newest oldest youngest largest biggest smallest tallest "
    "shortest longest heaviest lightest richest deepest fastest slowest best worst nearest closest strongest most "
    "least "
    "second third fourth fifth 2nd 3rd 4th 5th",
    "de": "höchste höchsten niedrigste meisten wenigsten größte größten kleinste kleinsten älteste ältesten jüngste "
    "jüngsten längste längsten kürzeste tiefste schnellste beste zweite zweiten dritte dritten",
    "fr": "deuxième second seconde troisième",
    "es": "segundo segunda tercer tercero tercera",
}
"""Superlatives and ordinals: one thing is asked for."""
_NOT_ONLY = re.compile(r"\bat (?:most|least)\b|\bmost of\b|\bbest[- ]known\b|\bleast of\b", re.IGNORECASE)
_SORTED = {
    "en": "highest lowest cheapest greatest earliest latest newest oldest youngest largest biggest smallest tallest "
    "shortest longest heaviest lightest richest deepest fastest slowest most least",
    "de": "höchste höchsten niedrigste meisten wenigsten größte größten kleinste kleinsten älteste ältesten jüngste "
    "jüngsten längste längsten kürzeste tiefste schnellste",
}
_EXCEPT = {
    "en": r"\b(?:except|apart from|aside from|besides|other than|excluding|without|(?<=which )other|(?<=what )other)\b",
    "de": r"\b(?:außer|abgesehen von|ohne|(?<=welche )anderen?)\b",
    "fr": r"\b(?:sauf|hormis|à part|excepté|sans|(?<=quels )autres|(?<=quelles )autres)\b",
    "es": r"\b(?:excepto|salvo|aparte de|sin|(?<=qué )otr[oa]s)\b",
}
_NOW = {
    "en": "still currently current now nowadays today incumbent",
    "de": "noch derzeit derzeitige aktuell aktuelle heute momentan",
    "fr": "actuel actuelle actuels actuelles actuellement encore",
    "es": "actual actuales actualmente todavía aún hoy",
}
_YEAR = {
    "en": r"\b(?:which|what) year\b",
    "de": r"\bwelche[mns]? jahr\b",
    "fr": r"\bquelle année\b",
    "es": r"\bqué año\b",
}
_SEVERAL = {
    "en": r"\b(?:which|what|the|are|were|top)\s+(?:two|three|four|five|six|seven|eight|nine|ten|\d+)\b|\b(?:who|which|"
    r"what) (?:are|were)\b|\b(?:which|what)\s+(?:\w+\s+){0,2}?(?!does\b)\w{2,}[^s\W]s\b",
    "de": r"\bwelche[nr]?\s+\w*(?:en|er|s)\b",
}
"""Several things are asked for."""
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,.]*\d(?![\w%])")


@dataclass(frozen=True)
class Wanted:
    """What a question wants.

    ``choice``: one of the things that it names. ``only``, ``sorted``, ``exception`` and ``now`` are the words that ask
    for one thing, for an end of an order, for leaving something out, and for what is so now; empty where there are
    none. ``numbers`` are those of two digits or more.
    """

    kind: QuestionKind
    asks: Asks
    year: bool = False
    choice: bool = False
    only: str = ""
    sorted: str = ""
    exception: str = ""
    now: str = ""
    numbers: tuple[str, ...] = ()


def read_wanted(question: str, language: str) -> Wanted:
    """What the question wants; in languages other than English, German, French and Spanish only its kind is read."""
    read, code = read_question(question, language), language.split("-")[0]
    text = read.text.casefold()
    bare = _NOT_ONLY.sub(" ", text)
    choice = bool(_found(_OR, code, text) and _word(_MORE, code, text))
    several = bool(_found(_SEVERAL, code, bare))
    return Wanted(
        "values" if choice else read.kind,
        read.asks,
        year=bool(_found(_YEAR, code, text)),
        choice=choice,
        only="" if several else _word(_ONLY, code, bare),
        sorted=_word(_SORTED, code, bare),
        exception=_found(_EXCEPT, code, text),
        now=_word(_NOW, code, text),
        numbers=tuple(dict.fromkeys(_NUMBER.findall(read.text))),
    )


def _found(patterns: Mapping[str, str], code: str, text: str) -> str:
    pattern = patterns.get(code, "")
    found = re.search(pattern, text) if pattern else None
    return found[0] if found else ""


def _word(words: Mapping[str, str], code: str, text: str) -> str:
    """The first of a language's words that stands in the text."""
    known = words.get(code, "").split()
    return next((word for word in re.findall(r"[\w’']+", text) if word in known), "")


_DATED = re.compile(r"\d{4}")
_WHOLE_DATE = re.compile(r"[+-]?\d{4,}-\d\d-\d\d")
_NUMERIC = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
ENDINGS = ("P582", "P576", "P570", "P585")
"""Properties, by Wikidata's ids, that say when something ended or when it was so."""

NAMES = ("rdfs:label", "skos:altLabel", "schema:description")


@dataclass(frozen=True)
class Checked:
    """A question with the answer to be checked."""

    question: str
    wanted: Wanted
    text: str
    """The query."""
    read: Query
    tokens: tuple[Token, ...]
    table: AnswerTable
    endings: Collection[str] = ENDINGS

    @property
    def found(self) -> tuple[Cell, ...]:
        """The different things in the first column, which is what is asked for."""
        return tuple(dict.fromkeys(row[0] for row in self.table.rows if row))

    @property
    def cells(self) -> Iterator[Term]:
        """Every cell that has a value."""
        return (cell for row in self.table.rows for cell in row if cell is not None)

    def says(self, *words: str) -> bool:
        """Whether the query has one of these words or signs, in upper case."""
        return any(token.text.upper() in words for token in self.tokens)


Rule = Callable[[Checked], str | None]
"""What the doubt is about, empty where its kind says all; None where there is nothing to doubt."""


def check_answer(
    question: str, language: str, query: str, table: AnswerTable, endings: Collection[str] = ENDINGS
) -> tuple[Doubt, ...]:
    """What speaks against a table as the answer to a question; nothing where the query cannot be read.

    ``endings`` are the knowledge base's own ids of ``ENDINGS``.
    """
    try:
        read, tokens = parse_query(query), tuple(tokenize(query))
    except QuerySyntaxError:
        return ()
    checked = Checked(question, read_wanted(question, language), query, read, tokens, table, endings)
    found = ((kind, rule(checked)) for kind, rule in RULES.items())
    return tuple(Doubt(kind, about) for kind, about in found if about is not None)


def _truth(one: Checked) -> str | None:
    return "" if one.wanted.kind == "yes-no" and one.table.boolean is None and not _is_truth(one) else None


def _is_truth(one: Checked) -> bool:
    """Whether the result is one truth value that the query computes."""
    (cell,) = one.found if len(one.found) == 1 else (None,)
    return cell is not None and cell.type == "literal" and cell.value.casefold() in ("true", "false", "yes", "no")


def _count(one: Checked) -> str | None:
    if one.wanted.kind != "count" or not len(one.table):
        return None
    numbers = any(_NUMERIC.fullmatch(cell.value) for cell in one.cells)
    return None if len(one.table.rows) == 1 and numbers else ""


def _zero(one: Checked) -> str | None:
    values = [cell.value for cell in one.cells]
    return "" if one.wanted.kind == "count" and values == ["0"] else None


def _year(one: Checked) -> str | None:
    return "" if one.wanted.year and any(_WHOLE_DATE.match(cell.value) for cell in one.cells) else None


def _time(one: Checked) -> str | None:
    if one.wanted.asks != "time" or one.wanted.kind != "values" or not one.table.rows:
        return None
    return None if any(cell.type == "literal" and _DATED.search(cell.value) for cell in one.cells) else ""


def _thing(one: Checked) -> str | None:
    if one.wanted.asks not in ("person", "place") or one.wanted.kind != "values" or not len(one.table):
        return None
    return None if any(cell.type != "literal" or not _NUMERIC.fullmatch(cell.value) for cell in one.cells) else ""


def _choice(one: Checked) -> str | None:
    several = one.wanted.choice and one.wanted.kind == "values" and len(one.found) > 1
    return str(len(one.found)) if several else None


def _one(one: Checked) -> str | None:
    several = one.wanted.kind == "values" and not one.wanted.choice and len(one.found) > 1
    return one.wanted.only or None if several else None


def _order(one: Checked) -> str | None:
    """A property or a thing may say it itself, as "highest point" does; what has nothing above it is the highest."""
    word = one.wanted.sorted
    said = any(word in label.casefold() for label in one.table.labels.values())
    if not word or said or one.says("ORDER", "MAX", "MIN", "MINUS", "NOT", "HAVING", "<", ">", "<=", ">="):
        return None
    return word


def _number(one: Checked) -> str | None:
    """The labels of what the query names may have it, as in "2020 UEFA Champions League Final"."""
    text = " ".join([one.text, *one.table.labels.values()])
    digits = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    missing = [number for number in one.wanted.numbers if number.replace(",", "") not in digits]
    return ", ".join(missing) if missing else None


def _exception(one: Checked) -> str | None:
    excludes = one.says("MINUS", "NOT", "!=", "!", "OFFSET")
    return None if excludes else one.wanted.exception or None


def _now(one: Checked) -> str | None:
    looks = set(one.endings) & set(entity_ids(one.text)) or one.says("ORDER", "MAX")
    several = len(one.found) > 1 or one.wanted.kind == "count"
    return (one.wanted.now or None) if several and not looks else None


def _listed(one: Checked) -> str | None:
    """Things that are only in VALUES, and in no condition, are the query writer's own word."""
    select = one.read.select
    shown = select.visible[:1] if select else ()
    if not shown or one.wanted.choice:
        return None
    inside = [element for group in groups_of(one.read.where) for element in group.elements]
    rows = max((one.rows for one in inside if isinstance(one, Values) and shown[0] in one.variables), default=0)
    patterns = [pattern for one in inside if isinstance(one, Triples) for pattern in one.patterns]
    looked_up = any(shown[0] in pattern.variables and not _names(pattern) for pattern in patterns)
    return str(rows) if rows > 1 and not looked_up else None


def _names(pattern: Pattern) -> bool:
    """Whether a pattern asks for a name only."""
    return isinstance(pattern.verb, Path) and pattern.verb.name in NAMES


def _repeats(one: Checked) -> str | None:
    repeated = len(one.table.rows) - len(set(one.table.rows))
    return str(repeated) if repeated else None


def _limit(one: Checked) -> str | None:
    limit = outer_limit(one.text)
    if limit is None or limit < 2 or len(one.table.rows) != limit or one.says("ORDER"):
        return None
    return None if asked_limit(one.question, limit) else str(limit)


RULES: Mapping[Kind, Rule] = {
    "truth": _truth,
    "count": _count,
    "zero": _zero,
    "year": _year,
    "time": _time,
    "thing": _thing,
    "choice": _choice,
    "one": _one,
    "order": _order,
    "number": _number,
    "exception": _exception,
    "now": _now,
    "listed": _listed,
    "repeats": _repeats,
    "limit": _limit,
}
"""Every rule by the kind of its doubt."""


_COMPARED = ("ORDER BY", "HAVING")
_ORDERS = ("<", ">", "<=", ">=")
_MOST = 4
"""Units that are named."""


def units_query(query: str, words: Vocabulary) -> str:
    """A query for the units of the first amount that a query sorts, compares or adds up; empty where there is none.

    Raises QuerySyntaxError where it is no query.
    """
    read = parse_query(query)
    terms = Terms(query, words)
    compared = set(_compared(query, read))
    for pattern in _direct(read):
        role, name = terms.predicate(pattern.relation) if pattern.relation else ("", "")
        if role != "wdt" or pattern.object not in compared:
            continue
        inner = query[read.where.place.start + 1 : read.where.place.end - 1].rstrip().removesuffix(".")
        statement = (
            f"{pattern.subject} p:{name} ?anyStatement . ?anyStatement ps:{name} {pattern.object} ; "
            f"psv:{name}/wikibase:quantityUnit ?anyUnit ."
        )
        return f"{read.prologue}SELECT DISTINCT ?anyUnit WHERE {{ {inner} . {statement} }} LIMIT {_MOST}"
    return ""


def mixed_units(kb: KnowledgeBase, query: str, language: str) -> tuple[Doubt, ...]:
    """A doubt where what the query compares is in several units; none where that cannot be found out."""
    if kb_kind(kb) != "wikibase":
        return ()
    try:
        asked = units_query(query, vocabulary_of(kb))
        table = kb.execute_query(asked, language=language) if asked else None
    except KbnavError:  # the answer is there; that it could not be checked takes nothing from it
        return ()
    if table is None or len(table.rows) < 2:
        return ()
    return (Doubt("units", ", ".join(str(table.label(row[0]) or table.entity(row[0])) for row in table.rows)),)


def _direct(read: Query) -> Iterator[Pattern]:
    """Patterns of the outermost group."""
    for element in read.where.elements:
        if isinstance(element, Triples):
            yield from element.patterns


def _compared(query: str, read: Query) -> Iterator[str]:
    """Variables that are sorted by, compared by size, or added up."""
    for modifier in read.tail.modifiers:
        if modifier.kind in _COMPARED:
            for key in modifier.expressions:
                yield from key.variables
    for one in read.select.expressions if read.select else ():
        text = one.place.of(query).upper()
        if any(f"{name}(" in text.replace(" ", "") for name in ("SUM", "AVG", "MAX", "MIN")):
            yield from one.variables
    for element in read.where.elements:
        if isinstance(element, Filter) and any(
            token.text in _ORDERS for token in tokenize(element.expression.place.of(query))
        ):
            yield from element.expression.variables


def with_doubts(outcome: Outcome, question: str, context: Context) -> Outcome:
    """The outcome with its doubts; one without an answer, or whose answer is no query's result, has none."""
    if outcome.status not in ("answered", "best effort") or outcome.table is None or not outcome.query:
        return outcome
    found = find_doubts(question, outcome.query, outcome.table, context)
    if outcome.stop not in LIMITS and not _dated(outcome.table):
        found += mixed_units(asked_by(context.kb, outcome.query), outcome.query, context.language)
    return replace(outcome, doubts=(*outcome.doubts, *found))


def _dated(table: AnswerTable) -> bool:
    """Whether a result shows dates, which are what it sorts by or compares then."""
    first = table.rows[0] if table.rows else ()
    return any(cell is not None and (cell.datatype or "").endswith(("#dateTime", "#date")) for cell in first)


def find_doubts(question: str, query: str, table: AnswerTable, context: Context) -> tuple[Doubt, ...]:
    """What the rules find, with the ids of the knowledge base that the query is for."""
    endings = vocabulary_of(asked_by(context.kb, query)).each(ENDINGS)
    return check_answer(question, context.language, query, table, endings)
