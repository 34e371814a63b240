"""Amounts that a query compares as plain numbers although they are in different units; one query finds that out."""

from __future__ import annotations

from collections.abc import Iterator

from kbnav.errors import KbnavError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.sparql.syntax import Filter, Path, Pattern, Query, Triples, parse_query
from kbnav.knowledge.sparql.tokens import tokenize
from kbnav.knowledge.sparql.vocabulary import Vocabulary, vocabulary_of
from kbnav.knowledge.sparql.words.languages import phrases_of
from kbnav.knowledge.sparql.words.naming import Naming
from kbnav.runs.warnings import Doubt
from kbnav.settings.systems import kb_kind

_COMPARED = ("ORDER BY", "HAVING")
_ORDERS = ("<", ">", "<=", ">=")
_MOST = 4
"""Units that are named."""


def units_query(query: str, words: Vocabulary) -> str:
    """A query for the units of the first amount that a query sorts, compares or adds up; empty where there is none.

    Raises QuerySyntaxError where it is no query.
    """
    read = parse_query(query)
    naming = Naming.of(query, phrases_of("en"), {}, words)
    compared = set(_compared(query, read))
    for pattern in _direct(read):
        name = naming.property(pattern.verb.name) if isinstance(pattern.verb, Path) else None
        if name is None or name.role != "wdt" or pattern.object not in compared:
            continue
        inner = query[read.where.place.start + 1 : read.where.place.end - 1].rstrip().removesuffix(".")
        statement = (
            f"{pattern.subject} p:{name.id} ?anyStatement . ?anyStatement ps:{name.id} {pattern.object} ; "
            f"psv:{name.id}/wikibase:quantityUnit ?anyUnit ."
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
    tail = read.select.tail if read.select else read.tail
    for modifier in tail.modifiers:
        if modifier.kind in _COMPARED:
            yield from modifier.expression.variables
    for one in read.select.expressions if read.select else ():
        text = query[one.place.start : one.place.end].upper()
        if any(f"{name}(" in text.replace(" ", "") for name in ("SUM", "AVG", "MAX", "MIN")):
            yield from one.variables
    for element in read.where.elements:
        if isinstance(element, Filter):
            place = element.expression.place
            if any(token.text in _ORDERS for token in tokenize(query[place.start : place.end])):
                yield from element.variables
