"""Cheap checks of an answer by rule: form, number, what the question says and the query does not.

None asks a model or a service. Each is one function that sees the question, the query and the table; what it doubts is
worded in ``kbnav.runs.warnings``. How often they are right is measured by ``kbnav eval verify``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from kbnav.agents.verification.wanted import Wanted, read_wanted
from kbnav.answers.tables import AnswerTable, Cell, Term
from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.rewriting import asked_limit, outer_limit
from kbnav.knowledge.sparql.syntax import Path, Pattern, Query, Triples, Values, groups_of, parse_query
from kbnav.knowledge.sparql.tokens import Token, tokenize
from kbnav.knowledge.sparql.vocabulary import entity_ids
from kbnav.runs.warnings import Doubt, Kind

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
