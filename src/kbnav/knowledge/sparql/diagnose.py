"""Find out which part of a query leaves it without rows, and which kind of nothing that is.

Either a part matches nothing by itself, so that the query asks wrongly or the knowledge base lacks it; or every part
has matches and they do not come together, so that there is no such thing here. What is stated by ``p:`` and ``ps:`` and
not by ``wdt:``, or the reverse, or the other way round, is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from kbnav.answers.tables import AnswerTable
from kbnav.errors import QuerySyntaxError, TellModel
from kbnav.knowledge.sparql.check import fresh_variable
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Element,
    Expression,
    Filter,
    Group,
    Nested,
    Path,
    Pattern,
    Triples,
    UnreadQuery,
    read_query,
)
from kbnav.knowledge.sparql.tokens import AGGREGATES, Token, nesting, tokenize
from kbnav.knowledge.sparql.vocabulary import LABEL_SERVICE, declared_prefixes, expand

Count = Callable[[str], int]
"""Runs a SELECT query whose one value is a number."""

_MAX_PROBES = 6
_COUNTED = 1_000
_WHOLE = ": by what is stated here, there is no such thing."
_PARTIAL = " This copy holds only a part of Wikidata: that it lacks this proves nothing, live Wikidata may have it."


@dataclass(frozen=True)
class _Part:
    """A part of the query's pattern: its text, whether it only takes rows away, and its triple pattern if it is one."""

    text: str
    takes_away: bool = False
    pattern: Pattern | None = None


@dataclass(frozen=True)
class _Parts:
    """The parts of a query's outermost group; ``more`` where others decide about rows, such as HAVING and OFFSET."""

    prologue: str
    parts: tuple[_Part, ...]
    more: bool


@dataclass(frozen=True)
class Diagnosis:
    """Why a query has no rows: ``part`` is the first of its parts that leaves none, ``before`` what stands before it.

    ``pattern`` is the part where it is one triple pattern. ``alone``: it matches nothing even by itself;
    ``takes_away``: it only takes rows away. ``instead`` is another form of it that has matches, or, ``turned``, the
    other way round; ``unused``: its property is not used at all. ``prologue`` are the query's declarations.
    """

    text: str
    part: str
    before: tuple[str, ...] = ()
    pattern: Pattern | None = None
    alone: bool = False
    takes_away: bool = False
    instead: str = ""
    turned: bool = False
    unused: bool = False
    prologue: str = ""


def says_nothing(query: str, table: AnswerTable) -> bool:
    """Whether a result holds nothing: no rows, ``false``, no value in any cell, or the count of nothing."""
    if table.boolean is not None:
        return not table.boolean
    cells = [cell for row in table.rows for cell in row if cell is not None]
    if not cells:
        return True
    with suppress(QuerySyntaxError):
        tokens = tokenize(query)
        counted = any(token.is_word(*AGGREGATES) for token in tokens) and not any(t.is_word("GROUP") for t in tokens)
        return counted and len(table.rows) == 1 and all(cell.value in ("0", "0.0", "0.0E0") for cell in cells)
    return False


def diagnose_empty(
    query: str,
    ask: Callable[[str], bool | int],
    count: Count | None = None,
    *,
    certain: bool = True,
    partial: bool = False,
) -> str | None:
    """What ``diagnosis`` finds, as a sentence or two."""
    found = diagnosis(query, ask, count, certain=certain, partial=partial)
    return found.text if found else None


def diagnosis(
    query: str,
    ask: Callable[[str], bool | int],
    count: Count | None = None,
    *,
    certain: bool = True,
    partial: bool = False,
) -> Diagnosis | None:
    """Find which part of a query leaves it without rows, and why; None where that cannot be told cheaply.

    A pattern that is empty stays so whatever is joined to it, so the first part that empties it is found by bisection.

    Args:
        query: a SELECT or ASK query that parsed, and whose result says nothing.
        ask: runs an ASK query, at most nine of them, and says whether it holds. Where it raises TellModel, as for a
            timeout, no more is said than what was found out before.
        count: counts the matches of another form of a statement, once; without it ``ask`` says whether there are any.
        certain: the pattern has no match; else, as where a count is 0, that is asked first.
        partial: the knowledge base is a part of another.
    """
    try:
        read = _parts(query)
        probes = _Probes(read.prologue, fresh_variable(query, "any"), ask, count)
        return _diagnosed(probes, read.parts, certain and not read.more, partial)
    except (TellModel, QuerySyntaxError, UnreadQuery):
        return None


@dataclass(frozen=True)
class _Probes:
    """What is asked of the knowledge base."""

    prologue: str
    any: str
    """A variable that the query does not have."""
    ask: Callable[[str], bool | int]
    count: Count | None

    def holds(self, parts: Sequence[_Part]) -> bool:
        # A dot behind a FILTER or a group is allowed, and needed behind triples.
        return bool(self.ask(f"{self.prologue}ASK {{ {' . '.join(part.text for part in parts)} }}"))

    def number(self, parts: Sequence[_Part]) -> str:
        """How many matches some parts have, in words; empty where they have none or that is not known."""
        text = " . ".join(part.text for part in parts)
        if self.count is None:
            return "matches" if self.holds(parts) else ""
        inner = f"SELECT * {{ {text} }} LIMIT {_COUNTED + 1}"
        found = self.count(f"{self.prologue}SELECT (COUNT(*) AS ?{self.any}) {{ {{ {inner} }} }}")
        if found > _COUNTED:
            return f"over {_COUNTED:,} matches"
        return f"{found:,} {'match' if found == 1 else 'matches'}" if found else ""


def _diagnosed(probes: _Probes, parts: Sequence[_Part], certain: bool, partial: bool) -> Diagnosis | None:
    # The bisection, the check before it and the one behind it must fit in the number of probes.
    if not parts or len(parts).bit_length() + (not certain) + 1 > _MAX_PROBES:
        return None
    if not certain and probes.holds(parts):
        return None
    fits, empty = 0, len(parts)
    while empty - fits > 1:
        middle = (fits + empty) // 2
        if probes.holds(parts[:middle]):
            fits = middle
        else:
            empty = middle
    return _told(probes, parts[empty - 1], parts[: empty - 1], partial)


def _told(probes: _Probes, culprit: _Part, before: Sequence[_Part], partial: bool) -> Diagnosis:
    """What is said of the first part that leaves no rows, and of what stands before it."""
    texts = tuple(part.text for part in before)
    elsewhere = _PARTIAL if partial else ""
    if culprit.takes_away:
        said = f"No match: the rest of the pattern matches, but `{culprit.text}` leaves nothing of it.{elsewhere}"
        return Diagnosis(said, culprit.text, texts, takes_away=True, prologue=probes.prologue)
    alone = not before or not probes.holds([culprit])
    hint, instead, turned, unused = "", "", False, False
    with suppress(TellModel):
        hint, instead = _other_form(probes, culprit, before, alone)
        if not hint:
            hint, instead = _turned(probes, culprit, before, alone)
            turned = bool(instead)
        if alone and not hint:
            hint, unused = _use(probes, culprit)
    if alone:
        said = f"No match: `{culprit.text}` matches nothing even by itself{hint}.{elsewhere}"
    else:
        partner = next((part for part in reversed(before) if _share(part, culprit)), before[-1])
        said = (
            f"No match: `{culprit.text}` has matches, but none together with what stands before it (… `{partner.text}`)"
        )
        said += f"{hint}." if hint else f".{elsewhere}" if partial else _WHOLE
    return Diagnosis(said, culprit.text, texts, culprit.pattern, alone, False, instead, turned, unused, probes.prologue)


_VARIABLE = re.compile(r"[?$](\w+)")


def _share(part: _Part, other: _Part) -> bool:
    return bool(set(_VARIABLE.findall(part.text)) & set(_VARIABLE.findall(other.text)))


def _other_form(probes: _Probes, culprit: _Part, before: Sequence[_Part], alone: bool) -> tuple[str, str]:
    """What is said of the same fact in the other form of statements, and that form."""
    pattern = culprit.pattern
    if pattern is None or not isinstance(pattern.verb, Path) or pattern.verb.kind != "iri":
        return "", ""
    prefix, _, name = pattern.verb.name.partition(":")
    rest = [] if alone else list(before)
    other: _Part | None = None
    if prefix == "wdt":
        other = _Part(f"{pattern.subject} p:{name}/ps:{name} {pattern.object}")
    elif prefix == "p":
        other = _Part(f"{pattern.subject} wdt:{name} ?{probes.any}")
    elif prefix == "ps":
        holder = next((one for one in before if _states(one.pattern, name, pattern.subject)), None)
        if holder is not None and holder.pattern is not None:
            other = _Part(f"{holder.pattern.subject} wdt:{name} {pattern.object}")
            rest = [one for one in before if one is not holder] if not alone else []
    if other is not None and (found := probes.number([*rest, other])):
        return f", but `{other.text}` has {found}{'' if alone else ' there'}", other.text
    return "", ""


def _turned(probes: _Probes, culprit: _Part, before: Sequence[_Part], alone: bool) -> tuple[str, str]:
    """What is said of the same fact the other way round, and its text, where that has matches."""
    pattern = culprit.pattern
    if pattern is None or not isinstance(pattern.verb, Path) or pattern.verb.kind != "iri":
        return "", ""
    prefix = pattern.verb.name.partition(":")[0]
    if prefix in ("wdt", "ps") and not pattern.object.startswith('"') and not pattern.object[:1].isdigit():
        turned = _Part(f"{pattern.object} {pattern.verb.name} {pattern.subject}")
        if probes.holds([*([] if alone else before), turned]):
            return f", but the other way round, `{turned.text}`, it has matches", turned.text
    return "", ""


def _states(pattern: Pattern | None, name: str, statement: str) -> bool:
    """Whether a pattern leads by ``p:`` and this property to a statement node."""
    return pattern is not None and pattern.object == statement and pattern.verb == Path("iri", f"p:{name}")


def _use(probes: _Probes, culprit: _Part) -> tuple[str, bool]:
    """What is said of the use of the property of a part that matches nothing, and whether there is none at all."""
    pattern = culprit.pattern
    if pattern is None or not isinstance(pattern.verb, Path) or pattern.verb.kind != "iri":
        return "", False
    if probes.holds([_Part(f"?{probes.any} {pattern.verb.name} ?{probes.any}2")]):
        return f"; {pattern.verb.name} is used here, but not so: check the direction and the ids beside it", False
    return f"; nothing here has {pattern.verb.name}", True


def _parts(query: str) -> _Parts:
    """The parts of the outermost group. Raises UnreadQuery where they are not known."""
    tokens = tokenize(query)
    read = read_query(query)
    if read.form not in ("SELECT", "ASK") or read.where.select is not None:
        raise UnreadQuery(read.form)
    parents = nesting(query, tokens).parent
    outer = [token for token, parent in zip(tokens, parents, strict=True) if parent < 0]
    parts = [part for element in read.where.elements for part in _of(query, element, tokens)]
    kept = [part for part in parts if not part.takes_away] + [part for part in parts if part.takes_away]
    more = any(token.is_word("HAVING", "OFFSET", "VALUES") for token in outer)
    return _Parts(read.prologue, tuple(kept), more)


def _of(query: str, element: Element, tokens: Sequence[Token]) -> list[_Part]:
    text = query[element.place.start : element.place.end]
    match element:
        case Triples(patterns=patterns):
            return [_Part(_text(one), pattern=one) for one in patterns]
        case Nested(kind="SERVICE", name=name):
            named = next(token for token in tokens if token.text == name)
            return [] if expand(named, declared_prefixes(tokens)) == LABEL_SERVICE else [_Part(text)]
    return [
        _Part(text, takes_away=isinstance(element, Filter) or (isinstance(element, Nested) and element.kind == "MINUS"))
    ]


def _text(pattern: Pattern) -> str:
    ends = (pattern.subject, pattern.object)
    subject, last = ("?blank" + "".join(filter(str.isalnum, end)) if end.startswith("_:") else end for end in ends)
    return f"{subject} {pattern.verb if isinstance(pattern.verb, str) else pattern.verb.text()} {last}"


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
                yield from _told_pitfalls(query, element, element.expression, around - before - {element.variable})
            before.add(element.variable)
        elif isinstance(element, Filter):
            yield from _told_pitfalls(query, element, element.expression, around - set(group.visible))
        else:
            before |= set(Group(element.place, (element,)).visible)


def _told_pitfalls(
    query: str, element: Bind | Filter, expression: Expression, unbound: frozenset[str]
) -> Iterator[str]:
    lost = [name for name in dict.fromkeys(expression.variables) if name in unbound]
    if lost:
        text = " ".join(query[element.place.start : element.place.end].split())
        yield (
            f"In `{text}` {', '.join(lost)} has no value: it stands in a group of its own ({{ … }}, UNION), which is "
            "evaluated before it is joined; repeat in it, first, the pattern that binds it."
        )
