"""Amounts that a query compares as plain numbers although they are in different units; one query finds that out."""

from __future__ import annotations

from collections.abc import Iterator

from kbnav.errors import KbnavError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.sparql.syntax import Filter, Pattern, Query, Triples, parse_query
from kbnav.knowledge.sparql.tokens import tokenize
from kbnav.knowledge.sparql.vocabulary import Terms, Vocabulary, vocabulary_of
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
