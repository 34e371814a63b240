"""What a result does not say of itself: units, several values of one thing, ties that a LIMIT cuts, rows left out.

Each remark asks at most two bounded queries, and only where the form of the query gives rise to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kbnav.answers.tables import AnswerTable, Cell
from kbnav.errors import QuerySyntaxError, TellModel
from kbnav.knowledge.sparql.diagnose import Part, parts_of
from kbnav.knowledge.sparql.syntax import (
    Filter,
    Nested,
    Path,
    Pattern,
    Query,
    Triples,
    Value,
    is_variable,
    parse_query,
    read_query,
    visible,
)
from kbnav.knowledge.sparql.tokens import edited, tokenize
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, STANDARD_PREFIXES, SUBCLASS_OF, Terms, Vocabulary

Run = Callable[[str], AnswerTable]
_COMPARED = ("ORDER BY", "HAVING")
_ORDERS = ("<", ">", "<=", ">=")
_UNITS = 4
"""Units that are named."""
_NO_UNIT = "Q199"
"""The unit of plain numbers."""
_COUNTED = 1_000
"""Things up to which a remark counts."""
_TIED = 100
"""Equal rows up to which a remark counts."""
_AKIN = 5
"""How many times as many things a pattern may have without a condition that the question perhaps did not need."""
_OTHERS = 6
"""Other forms of a pattern that are counted."""
_PATHS = 20_000
"""Things up to which a path of any length is counted."""
_POINT_IN_TIME = "P585"
_SELECT = re.compile(r"SELECT(\s+(?:DISTINCT|REDUCED))?", re.IGNORECASE)


def remarks(query: str, table: AnswerTable, run: Run, words: Vocabulary, *, partial: bool = False) -> list[str]:
    """What is to be known of a result with rows, one sentence or two each; nothing for a query of another form.

    ``run`` gives the result of a query. Where it raises TellModel, as for a timeout, that remark is left out.
    ``partial``: the knowledge base is a part of another, which may state a thing by ``wdt:`` and not by ``p:``.
    """
    try:
        read = read_query(query)
    except QuerySyntaxError:
        return []
    if read.select is None or read.where.select is not None or not table.rows:
        return []
    one, found = _Remarks(query, read, table, run, words), list[str]()
    for tell in (one.units, one.values, one.ties, lambda: one.left_out(partial)):
        with suppress(TellModel):
            found += tell()
    return found


def loose_optional(query: str) -> str:
    """A warning of an OPTIONAL that shares no variable with what stands before it; empty where there is none.

    It is joined to all of that, whatever stands behind it.
    """
    try:
        groups = read_query(query).groups
    except QuerySyntaxError:
        return ""
    for group in groups:
        before = set[str]()
        for element in group.elements:
            inner = set(visible(element))
            if isinstance(element, Nested) and element.kind == "OPTIONAL" and before and inner and not before & inner:
                text = " ".join(element.place.of(query).split())
                later = inner & {name for one in group.elements for name in visible(one) if one is not element}
                move = f": put it behind what binds {', '.join(sorted(later))}" if later else ""
                return f"(`{text}` shares no variable with what stands before it, and multiplies the rows{move}.)\n"
            before |= inner
    return ""


def begin_with(query: str, run: Run) -> str:
    """What a stopped query with several paths of any length should begin with; empty where it has not several.

    It is the path with a known end that leads to the fewest things; they are counted with ``run``, as of ``remarks``.
    """
    try:
        read = read_query(query)
    except QuerySyntaxError:
        return ""
    number, known = 0, list[str]()
    for pattern in (
        one
        for group in read.groups
        for element in group.elements
        if isinstance(element, Triples)
        for one in element.patterns
    ):
        steps = pattern.verb.steps() if isinstance(pattern.verb, Path) else []
        for place, (step, back) in enumerate(steps):
            if step.kind not in ("*", "+"):
                continue
            number += 1
            path = f"^({step.text()})" if back else step.text()
            if place == len(steps) - 1 and not is_variable(pattern.object):
                known.append(f"?begin {path} {pattern.object}")
            elif place == 0 and not is_variable(pattern.subject):
                known.append(f"{pattern.subject} {path} ?begin")
    if number < 2 or not known:
        return ""
    sizes = dict[str, int]()
    for text in dict.fromkeys(known):
        first = f"SELECT DISTINCT ?begin WHERE {{ {text} }} LIMIT {_PATHS + 1}"
        with suppress(TellModel):
            count = run(f"{read.prologue}SELECT (COUNT(*) AS ?count) WHERE {{ {{ {first} }} }}").rows[0][0]
            sizes[text] = int(count.value) if count else 0
    if not sizes:
        return ""
    text = min(sizes, key=lambda one: sizes[one])
    size = f"{sizes[text]:,}" if sizes[text] <= _PATHS else f"more than {_PATHS:,}"
    return (
        f"Of its {number} paths of any length `{text}` leads to the fewest ({size}): begin with "
        f"`{{ SELECT DISTINCT ?begin WHERE {{ {text} }} }}`, then what links to ?begin, and the other paths last."
    )


def units_query(query: str, words: Vocabulary, shown: Sequence[str] = ()) -> str:
    """A query for the units of the first amount that a query compares, with how many have each; empty: there is none.

    The commonest goes first. ``shown``: further variables whose units are wanted. Raises QuerySyntaxError.
    """
    read = parse_query(query)
    return next((_units_query(query, read, *one) for one in _direct(query, read, words, shown)), "")


def values_query(query: str, words: Vocabulary) -> str:
    """A query for how many values the things have whose first property a query compares; empty: it compares none.

    Its row: the least, the most, how many have several, and how many there are. Raises QuerySyntaxError.
    """
    read = parse_query(query)
    return next(
        (_values_query(query, read, *one) for one in _direct(query, read, words) if is_variable(one[0].subject)), ""
    )


def _units_query(query: str, read: Query, pattern: Pattern, name: str) -> str:
    statement = (
        f"{pattern.subject} p:{name} ?anyStatement . ?anyStatement ps:{name} {pattern.object} ; "
        f"psv:{name}/wikibase:quantityUnit ?anyUnit ."
    )
    return (
        f"{read.prologue}SELECT ?anyUnit (COUNT(DISTINCT ?anyStatement) AS ?anyNumber) "
        f"WHERE {{ {_inner(query, read)} . {statement} }} GROUP BY ?anyUnit ORDER BY DESC(?anyNumber) LIMIT {_UNITS}"
    )


def _values_query(query: str, read: Query, pattern: Pattern, name: str) -> str:
    subject = pattern.subject
    return (
        f"{read.prologue}SELECT (MIN(?anyNumber) AS ?least) (MAX(?anyNumber) AS ?most) "
        "(SUM(IF(?anyNumber > 1, 1, 0)) AS ?several) (COUNT(*) AS ?all) WHERE { "
        f"{{ SELECT {subject} (COUNT(DISTINCT ?anyValue) AS ?anyNumber) WHERE {{ "
        f"{{ SELECT DISTINCT {subject} WHERE {{ {_inner(query, read)} }} LIMIT {_COUNTED} }} "
        f"{subject} wdt:{name} ?anyValue }} GROUP BY {subject} }} }}"
    )


def _inner(query: str, read: Query) -> str:
    return query[read.where.place.start + 1 : read.where.place.end - 1].rstrip().removesuffix(".")


def _direct(query: str, read: Query, words: Vocabulary, shown: Sequence[str] = ()) -> Iterator[tuple[Pattern, str]]:
    """The patterns by ``wdt:`` whose values are compared or shown, with their property's id."""
    terms, wanted = Terms(query, words), {*_compared(query, read), *shown}
    outermost = [element for element in read.where.elements if isinstance(element, Triples)]
    for pattern in (pattern for element in outermost for pattern in element.patterns):
        role, name = terms.predicate(pattern.relation) if pattern.relation else ("", "")
        if role == "wdt" and pattern.object in wanted:
            yield pattern, name


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


@dataclass(frozen=True)
class _Remarks:
    query: str
    read: Query
    table: AnswerTable
    run: Run
    words: Vocabulary

    def units(self) -> list[str]:
        """The units of an amount that is compared or shown."""
        numbers = [
            f"?{name}"
            for place, name in enumerate(self.table.columns)
            if any(row[place] is not None and _is_decimal(row[place]) for row in self.table.rows[:20])
        ]
        for pattern, name in _direct(self.query, self.read, self.words, numbers):
            found = self.run(_units_query(self.query, self.read, pattern, name))
            units = [
                (found.entity(unit), found.label(unit), number.value) for unit, number in found.rows if unit and number
            ]
            if not units or (len(units) == 1 and units[0][0] in ("", _NO_UNIT)):
                continue
            about = f"{pattern.object} ({name})"
            told = [f"{label} ({one})" if label else str(one) for one, label, _ in units]
            if len(units) == 1:
                return [f"Unit of {about}: {told[0]}."]
            counts = ", ".join(f"{text} {number}" for text, (_, _, number) in zip(told, units, strict=True))
            many = f"{about} is in several units: {counts}. As plain numbers they cannot be compared. "
            if self._holds(f"?any psn:{name} ?any2"):
                path = f"p:{name}/psn:{name}/wikibase:quantityAmount"
                return [f"{many}In one unit: `{pattern.subject} {path} {pattern.object}`."]
            form = f"p:{name} ?st . ?st ps:{name} {pattern.object} ; psv:{name}/wikibase:quantityUnit wd:{units[0][0]}"
            return [f"{many}Only one unit: `{pattern.subject} {form}`."]
        return []

    def values(self) -> list[str]:
        """Several best values of one thing, where each is compared by itself."""
        for pattern, name in _direct(self.query, self.read, self.words):
            if not is_variable(pattern.subject):
                continue
            row = self.run(_values_query(self.query, self.read, pattern, name)).rows[0]
            least, most, several, number = (int(float(cell.value)) if cell else 0 for cell in row)
            if most < 2:
                continue
            of = f"several for {several:,} of {'the first ' if number >= _COUNTED else ''}{number:,}"
            subject, value = pattern.subject, pattern.object
            said = (
                f"{value} ({name}): {least} to {most} values a {subject} ({of}); each is compared, not only the latest."
            )
            time = self.words.of(_POINT_IN_TIME)
            if time and self._holds(f"?any p:{name}/pq:{time} ?any2"):
                later = f"FILTER NOT EXISTS {{ {subject} p:{name}/pq:{time} ?later . FILTER(?later > ?date) }}"
                said += f" The latest: `{subject} p:{name} ?st . ?st ps:{name} {value} ; pq:{time} ?date . {later}`."
            return [said]
        return []

    def ties(self) -> list[str]:
        """Rows behind a LIMIT that are equal to the last one in what the result is sorted by first."""
        tail, select = self.read.tail, self.read.select
        limits, offsets = ([one for one in tail.modifiers if one.kind == kind] for kind in ("LIMIT", "OFFSET"))
        keys = tail.keys("ORDER BY")
        if not keys or select is None or len(limits) != 1 or limits[0].number != len(self.table.rows):
            return []
        key = keys[0]
        if isinstance(key.node, Value) and key.node.text.replace("$", "?", 1) in select.visible:
            column, added = key.node.text[1:], ""
        else:
            column = "anyKey"
            added = f" ({key.place.of(self.query).strip()} AS ?anyKey)"
        head = _SELECT.match(self.query, select.place.start)
        if head is None or (added and select.star):
            return []
        start = sum(one.number for one in offsets) + limits[0].number - 1
        edits = {(one.place.start, one.place.end): "" for one in offsets}
        edits[limits[0].place.start, limits[0].place.end] = f"LIMIT {_TIED + 1} OFFSET {start}"
        if added:
            edits[head.end(), head.end()] = added
        found = self.run(edited(self.query, edits))
        if column not in found.columns:
            return []
        last, *behind = (row[found.columns.index(column)] for row in found.rows) if found.rows else (None,)
        equal = sum(cell is not None and last is not None and cell.value == last.value for cell in behind)
        if not equal or last is None:
            return []
        more = f"{equal} more row{'s have' if equal > 1 else ' has'}" if equal < _TIED else f"{_TIED} or more rows have"
        by = key.place.of(self.query).strip().removeprefix("(").removesuffix(")") if added else f"?{column}"
        return [f"The LIMIT cuts a tie: {more} the same {by} ({found.label(last) or last.value}) as the last one."]

    def left_out(self, partial: bool) -> list[str]:
        """How many more things there are without a condition, with subclasses, or by another form of statement."""
        key, parts = self._key(), parts_of(self.query, self.read, Terms(self.query, self.words))
        tail = self.read.tail
        if not key or len(parts) < 1 or tail.values or any(one.kind in ("HAVING", "OFFSET") for one in tail.modifiers):
            return []
        others = [one for one in self._others(parts, partial) if any(key in part.variables for part in one[1])][
            :_OTHERS
        ]
        if not others:
            return []
        counts = [
            f"{{ SELECT (COUNT(*) AS ?count{number}) WHERE {{ {{ SELECT DISTINCT {key} WHERE {{ "
            f"{' . '.join(part.text for part in form)} }} LIMIT {_COUNTED + 1} }} }} }}"
            for number, form in enumerate([parts, *(form for _, form in others)])
        ]
        found = self.run(f"{self.read.prologue}SELECT * WHERE {{ {' '.join(counts)} }}")
        by_name = dict(zip(found.columns, found.rows[0], strict=True))
        numbers = [int(cell.value) if (cell := by_name.get(f"count{one}")) else 0 for one in range(len(counts))]
        base = numbers[0]
        worth = [
            (number, said)
            for number, (said, _) in zip(numbers[1:], others, strict=True)
            if base < number <= min(_AKIN * base, _COUNTED)
        ]
        if not worth:
            return []
        told = "; ".join(f"{number} {said}" for number, said in sorted(worth, key=lambda pair: -pair[0]))
        return [f"Different {key} that the conditions match: {base}. There are {told}."]

    def _others(self, parts: Sequence[Part], partial: bool) -> Iterator[tuple[str, list[Part]]]:
        """Other forms of the pattern, each with how it differs."""
        terms, compared, shown = (
            Terms(self.query, self.words),
            set(_compared(self.query, self.read)),
            self._read_outside(),
        )
        for place, part in enumerate(parts):
            pattern, rest = part.pattern, [*parts[:place], *parts[place + 1 :]]
            if pattern is None or not is_variable(pattern.subject):
                continue
            used = {name for one in rest for name in one.variables}
            held = any(one.pattern is not None and pattern.subject in one.variables for one in rest)
            if wider := self._wider(pattern, terms):
                path, subclasses = wider
                if path:
                    text = f"{pattern.subject} {path} {pattern.object}"
                    yield f"with subclasses (`{text}`)", [*rest, Part(text)]
                if held and not is_variable(pattern.object):
                    yield f"without `{part.text}`", rest
                if subclasses:
                    continue
            elif held and is_variable(pattern.object) and pattern.object not in used | compared:
                yield f"without `{part.text}`" + (" (OPTIONAL keeps them)" if pattern.object in shown else ""), rest
            role, name = terms.predicate(pattern.relation) if pattern.relation else ("", "")
            if not partial or not name:
                continue
            if role == "wdt":
                text = f"{pattern.subject} p:{name}/ps:{name} {pattern.object}"
                yield f"by statement nodes (`{text}`)", [*rest, Part(text)]
            if role == "p" and is_variable(pattern.object):
                text = f"{pattern.subject} wdt:{name} ?anyValue"
                kept = [one for one in rest if pattern.object not in one.variables]
                bound = {name for one in kept if not one.takes_away for name in one.variables}
                kept = [one for one in kept if not one.takes_away or bound >= set(one.variables)]
                yield f"with `{text}`, of which the others lack the statement node p:{name}", [*kept, Part(text)]

    def _wider(self, pattern: Pattern, terms: Terms) -> tuple[str, bool] | None:
        """Of a condition on a class, the path with its subclasses where it is without; None for another pattern."""
        if not isinstance(pattern.verb, Path):
            return None
        (first, back), *more = pattern.verb.steps()
        if back or first.kind != "iri":
            return None
        instance, wider = self.words.of(INSTANCE_OF), self.words.of(SUBCLASS_OF)
        if instance and terms.predicate(first.name) == ("wdt", instance):
            path = f"wdt:{instance}/wdt:{wider}*" if wider else ""
        elif terms.iri(first.name) == STANDARD_PREFIXES["rdf"] + "type":
            path = f"a/<{STANDARD_PREFIXES['rdfs']}subClassOf>*"
        else:
            return None
        return ("" if more or is_variable(pattern.object) else path), bool(more)

    def _key(self) -> str:
        """The variable of the things that the result is about."""
        select = self.read.select
        if select is None:
            return ""
        plain = [name for name in select.visible if name not in select.computed]
        counted = [name for one in select.expressions for name in one.variables]
        return next(iter([*plain, *counted]), "")

    def _read_outside(self) -> set[str]:
        select = self.read.select
        return {*select.visible, *(name for one in select.expressions for name in one.variables)} if select else set()

    def _holds(self, pattern: str) -> bool:
        return bool(self.run(f"{self.read.prologue}ASK {{ {pattern} }}").boolean)


def _is_decimal(cell: Cell) -> bool:
    return cell is not None and (cell.datatype or "").endswith(("#decimal", "#double"))
