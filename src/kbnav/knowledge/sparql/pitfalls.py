"""Ways of writing a query by which a value is lost without an error, told where a result shows that it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kbnav.answers.tables import AnswerTable
from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.reading import UnreadQuery, read_query
from kbnav.knowledge.sparql.syntax import Bind, Expression, Filter, Group, Nested
from kbnav.knowledge.sparql.tokens import Token, tokenize


def lost_values(query: str, table: AnswerTable) -> list[str]:
    """What a query loses without an error, a sentence each; nothing where its result lacks nothing.

    ``GROUP_CONCAT`` of things, which many services take for texts only; and a BIND or FILTER that needs a variable from
    outside its group, which has no value there: a group is evaluated before it is joined (SPARQL 1.1, section 18.2).
    """
    if table.boolean:
        return []
    lacking = {f"?{name}" for place, name in enumerate(table.columns) if any(row[place] is None for row in table.rows)}
    try:
        found = [*_joined_things(tokenize(query), lacking)]
        read = read_query(query)
    except (QuerySyntaxError, UnreadQuery):
        return []
    full = {f"?{name}" for name in table.columns} - lacking if table.rows else set()
    return [*found, *_cut_off(query, read.where, frozenset(read.where.visible), full)]


def _joined_things(tokens: Sequence[Token], lacking: set[str]) -> Iterator[str]:
    """``GROUP_CONCAT(?x)`` whose column has empty cells."""
    for place, token in enumerate(tokens):
        if not token.is_word("GROUP_CONCAT"):
            continue
        inside = [one for one in tokens[place + 2 : place + 5] if not one.is_word("DISTINCT")]
        behind = pairwise(tokens[place:])
        column = next(("?" + two.text[1:] for one, two in behind if one.is_word("AS")), "")
        if column in lacking and [one.kind for one in inside[:1]] == ["variable"] and inside[1].text in (")", ";"):
            text = inside[0].text
            yield (
                f"{column} is empty: GROUP_CONCAT({text}) joins texts here, and {text} is a thing or has no value in "
                f"places; write GROUP_CONCAT(STR({text}))."
            )


def _cut_off(query: str, group: Group, around: frozenset[str], full: set[str]) -> Iterator[str]:
    """The BINDs and FILTERs in inner groups that use what only the groups ``around`` them bind."""
    for element in group.elements:
        if not isinstance(element, Nested):
            continue
        for inner in element.groups:
            if element.kind == "UNION" and inner.select is None:
                yield from _of_group(query, inner, around, full)
            yield from _cut_off(query, inner, around, full)


def _of_group(query: str, group: Group, around: frozenset[str], full: set[str]) -> Iterator[str]:
    before: set[str] = set()
    for element in group.elements:
        if isinstance(element, Bind):
            if element.variable not in full:
                yield from _told(query, element, element.expression, around - before - {element.variable})
            before.add(element.variable)
        elif isinstance(element, Filter):
            yield from _told(query, element, element.expression, around - set(group.visible))
        else:
            before |= set(Group(element.place, (element,)).visible)


def _told(query: str, element: Bind | Filter, expression: Expression, unbound: frozenset[str]) -> Iterator[str]:
    lost = [name for name in dict.fromkeys(expression.variables) if name in unbound]
    if lost:
        text = " ".join(query[element.place.start : element.place.end].split())
        yield (
            f"In `{text}` {', '.join(lost)} has no value: it stands in a group of its own ({{ … }}, UNION), which is "
            "evaluated before it is joined; repeat in it, first, the pattern that binds it."
        )
