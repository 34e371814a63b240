"""Find out what leaves a query without rows or values: which of its parts, and which kind of nothing that is.

Either a part matches nothing by itself, so that the query asks wrongly or the knowledge base lacks it; or every part
has matches and they do not come together, so that there is no such thing here. What is stated by ``p:`` and ``ps:`` and
not by ``wdt:``, or the reverse, or the other way round, is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from kbnav.answers.tables import AnswerTable
from kbnav.errors import QuerySyntaxError, TellModel
from kbnav.knowledge.sparql.check import fresh_variable
from kbnav.knowledge.sparql.syntax import (
    Element,
    Filter,
    Nested,
    Path,
    Pattern,
    Query,
    Triples,
    is_literal,
    is_variable,
    read_query,
)
from kbnav.knowledge.sparql.tokens import AGGREGATES, tokenize
from kbnav.knowledge.sparql.vocabulary import LABEL_SERVICE, WIKIDATA_VOCABULARY, Terms

_MAX_PROBES = 6
_WHOLE = ": by what is stated here, there is no such thing."
_PARTIAL = " This copy holds only a part of Wikidata: that it lacks this proves nothing, live Wikidata may have it."
EXCEPTS = re.compile(r"MINUS\b|FILTER\s*\(?\s*NOT\s+EXISTS\b", re.IGNORECASE)
_VARIABLE = re.compile(r"[?$](\w+)")


@dataclass(frozen=True)
class Diagnosis:
    """Why a query has no rows: ``part`` is the first of its parts that leaves none, ``before`` what stands before it.

    ``pattern`` is the part where it is one triple pattern. ``alone``: it matches nothing even by itself;
    ``takes_away``: it only takes rows away. ``instead`` is another form of it that has matches, or, ``turned``, the
    other way round. ``prologue`` are the query's declarations.
    """

    text: str
    part: str
    before: tuple[str, ...] = ()
    pattern: Pattern | None = None
    alone: bool = False
    takes_away: bool = False
    instead: str = ""
    turned: bool = False
    prologue: str = ""


def is_empty_result(query: str, table: AnswerTable) -> bool:
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


def diagnosis(
    query: str,
    ask: Callable[[str], bool],
    *,
    certain: bool = True,
    partial: bool = False,
) -> Diagnosis | None:
    """Find which part of a query leaves it without rows, and why; None where that cannot be told cheaply.

    A pattern that is empty stays so whatever is joined to it, so the first part that empties it is found by bisection.

    ``ask`` runs an ASK query, at most eleven of them, and says whether it holds. Where it raises TellModel, as for a
    timeout, no more is said than what was found out before. ``certain``: the pattern has no match; else, as where a
    count is 0, that is asked first. ``partial``: the knowledge base is a part of another.
    """
    with suppress(TellModel):
        read = read_query(query)
        if read.form in ("SELECT", "ASK") and read.where.select is None:
            return _Probes(query, read, ask).diagnosis(certain, partial)
    return None


@dataclass(frozen=True)
class Part:
    """One condition of a query's outermost group; ``takes_away`` where it only removes rows."""

    text: str
    takes_away: bool = False
    pattern: Pattern | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables in its text, as ``?name``."""
        return tuple(f"?{name}" for name in dict.fromkeys(_VARIABLE.findall(self.text)))


class _Probes:
    def __init__(self, query: str, read: Query, ask: Callable[[str], bool]) -> None:
        self._prologue, self._ask = read.prologue, ask
        self._any = fresh_variable(query, "any")
        self._parts = sorted(parts_of(query, read, Terms(query, WIKIDATA_VOCABULARY)), key=lambda part: part.takes_away)
        # Other parts decide about rows too.
        self._more = bool(read.tail.values) or any(one.kind in ("HAVING", "OFFSET") for one in read.tail.modifiers)

    def diagnosis(self, certain: bool, partial: bool) -> Diagnosis | None:
        parts, certain = self._parts, certain and not self._more
        # The bisection, the check before it and the one behind it must fit in the number of probes.
        if not parts or len(parts).bit_length() + (not certain) + 1 > _MAX_PROBES:
            return None
        if not certain and self._holds(parts):
            return None
        fits, empty = 0, len(parts)
        while empty - fits > 1:
            middle = (fits + empty) // 2
            fits, empty = (middle, empty) if self._holds(parts[:middle]) else (fits, middle)
        return self._explained(parts[empty - 1], parts[: empty - 1], _PARTIAL if partial else "")

    def _explained(self, part: Part, before: Sequence[Part], elsewhere: str) -> Diagnosis:
        texts = tuple(one.text for one in before)
        if part.takes_away:
            text = f"No match: the other conditions have matches, but `{part.text}` leaves nothing of them."
            # To find no exception is what such a query may be for.
            text += " There is none, then." if EXCEPTS.match(part.text) else elsewhere
            return Diagnosis(text, part.text, texts, takes_away=True, prologue=self._prologue)
        alone = not before or not self._holds([part])
        found = Diagnosis("", part.text, texts, part.pattern, alone, prologue=self._prologue)
        hint = ""
        if part.pattern is not None and part.pattern.relation:
            with suppress(TellModel):
                hint, found = self._hinted(found, part.pattern, [] if alone else list(before))
        if alone:
            text = f"No match: `{part.text}` matches nothing even by itself{hint}.{'' if found.instead else elsewhere}"
        else:
            own = set(_VARIABLE.findall(part.text))
            partner = next((one for one in reversed(texts) if own & set(_VARIABLE.findall(one))), texts[-1])
            text = f"No match: `{part.text}` has matches, but none together with what stands before it (… `{partner}`)"
            hint = hint or self._unknown(part, before)
            text += f"{hint}." if hint else f".{elsewhere}" if elsewhere else _WHOLE
        return replace(found, text=text)

    def _unknown(self, part: Part, before: Sequence[Part]) -> str:
        """That all that statements give for the pattern's subject is stated to be unknown; else empty."""
        asked = part.pattern.subject if part.pattern else ""
        leads = "".join(one.text for one in before if one.pattern and one.pattern.object == asked)
        if not is_variable(asked) or not ("wdt:" in leads or "ps:" in leads):
            return ""
        known = f'FILTER(!isBlank({asked}) && !CONTAINS(STR({asked}), "/.well-known/genid/"))'
        return "" if self._holds([*before, Part(known)]) else f": each {asked} is stated to be unknown"

    def _hinted(self, found: Diagnosis, pattern: Pattern, before: list[Part]) -> tuple[str, Diagnosis]:
        """What there is in place of a pattern: another form of statement, the other way round, another use of it."""
        other, rest = self._other_form(pattern, before)
        if other and self._holds([*rest, Part(other)]):
            hint = f", but `{other}` has matches{'' if found.alone else ' there'}"
            return hint, replace(found, instead=other)
        prefix = pattern.relation.partition(":")[0]
        if prefix in ("wdt", "ps") and not is_literal(pattern.object):
            turned = f"{pattern.object} {pattern.relation} {pattern.subject}"
            if self._holds([*before, Part(turned)]):
                hint = f", but the other way round, `{turned}`, it has matches"
                return hint, replace(found, instead=turned, turned=True)
        if not found.alone:
            return "", found
        if not self._holds([Part(f"?{self._any} {pattern.relation} ?{self._any}2")]):
            return f"; nothing here has {pattern.relation}", found
        named = [one for one in (pattern.subject, pattern.object) if not is_variable(one) and not is_literal(one)]
        for one in named:
            uses = f"{{ {one} ?{self._any} ?{self._any}2 }} UNION {{ ?{self._any} ?{self._any}2 {one} }}"
            if not self._holds([Part(uses)]):
                return f"; nothing is stated of {one} here", found
        if len(named) == 1 and pattern.subject == named[0]:
            return f"; {pattern.subject} has no {pattern.relation} here, others have", found
        return f"; {pattern.relation} is used here, but not with {' and '.join(named) or 'this'}", found

    def _other_form(self, pattern: Pattern, before: list[Part]) -> tuple[str, list[Part]]:
        """The other form of the same statement, and the parts that it is to match with; empty where there is none."""
        prefix, _, name = pattern.relation.partition(":")
        if prefix == "wdt":
            return f"{pattern.subject} p:{name}/ps:{name} {pattern.object}", before
        if prefix == "p":
            return f"{pattern.subject} wdt:{name} ?{self._any}", before
        if prefix == "ps":
            leads = Path("iri", f"p:{name}")
            for part in self._parts:
                lead = part.pattern
                if lead is not None and lead.object == pattern.subject and lead.verb == leads:
                    return f"{lead.subject} wdt:{name} {pattern.object}", [one for one in before if one is not part]
        return "", before

    def _holds(self, parts: Sequence[Part]) -> bool:
        # A dot behind a FILTER or a group is allowed, and needed behind triples.
        return self._ask(f"{self._prologue}ASK {{ {' . '.join(part.text for part in parts)} }}")


def parts_of(query: str, read: Query, terms: Terms) -> list[Part]:
    """The conditions of a query's outermost group, triple patterns each by itself; the label service is left out."""
    return [part for element in read.where.elements for part in _parts(query, element, terms)]


def _parts(query: str, element: Element, terms: Terms) -> list[Part]:
    match element:
        case Triples(patterns=patterns):
            named = [
                replace(one, subject=_as_variable(one.subject), object=_as_variable(one.object)) for one in patterns
            ]
            return [Part(one.text(), pattern=one) for one in named]
        case Nested(kind="SERVICE", name=name) if terms.iri(name) == LABEL_SERVICE:
            return []
    takes_away = isinstance(element, Filter) or (isinstance(element, Nested) and element.kind == "MINUS")
    return [Part(element.place.of(query), takes_away)]


def _as_variable(end: str) -> str:
    """A blank node as a variable; anything else as it is."""
    return "?blank" + "".join(filter(str.isalnum, end)) if end.startswith("_:") else end
