"""What a result does not say of itself: units, several values of one thing, ties that a LIMIT cuts, rows left out.

Each remark asks at most two bounded queries, and only where the form of the query gives rise to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass

from kbnav.answers.tables import AnswerTable, Cell
from kbnav.errors import QuerySyntaxError, TellModel
from kbnav.knowledge.sparql.diagnose import Part, parts_of
from kbnav.knowledge.sparql.syntax import (
    Group,
    Nested,
    Path,
    Pattern,
    Query,
    Triples,
    Value,
    is_variable,
    parse_query,
    read_query,
)
from kbnav.knowledge.sparql.tokens import edited, tokenize
from kbnav.knowledge.sparql.vocabulary import (
    INSTANCE_OF,
    STANDARD_PREFIXES,
    SUBCLASS_OF,
    Terms,
    Vocabulary,
    text_literal,
)

RunQuery = Callable[[str], AnswerTable]
Row = tuple[Cell, ...]
_COMPARED = ("ORDER BY", "HAVING")
_MEASURED = frozenset(("<", ">", "<=", ">=", "+", "-", "*", "/", "SUM", "AVG", "MAX", "MIN"))
"""Words and signs of an expression that compares amounts, or reckons with them."""
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
_OTHERS = 8
"""Other forms of a pattern that are counted."""
_CONDITION = 80
"""Characters of a condition by which it is named."""
_POINT_IN_TIME = "P585"
_SELECT = re.compile(r"SELECT(\s+(?:DISTINCT|REDUCED))?", re.IGNORECASE)


@dataclass(frozen=True)
class Measure:
    """What a cell's number or date does not say: the unit's name, empty for none, and the date's precision, 0 to 14."""

    unit: str = ""
    precision: int | None = None


Measures = Mapping[tuple[Row, int], Measure]
"""By the row and the place of the cell in it."""


def measures(query: str, table: AnswerTable, rows: Sequence[Row], run: RunQuery, words: Vocabulary) -> Measures:
    """The units of amounts and the precisions of dates in some rows, found by one query; empty where it fails."""
    try:
        read = read_query(query)
    except QuerySyntaxError:
        return {}
    places = {f"?{name}": place for place, name in enumerate(table.columns)}
    parts, looked = list[str](), list[tuple[int | None, int]]()
    for use in _uses(query, read, words):
        place, at = places.get(use.value), places.get(use.thing)
        if place is None or (at is None and is_variable(use.thing)) or (at, place) in looked:
            continue
        pairs = dict.fromkeys(
            (use.thing if at is None else f"<{thing.value}>" if (thing := row[at]) else "", _written(row[place]))
            for row in rows
        )
        listed = " ".join(f"({thing} {value})" for thing, value in pairs if thing and value)
        if listed:
            parts.append(
                f"{{ VALUES (?thing ?value) {{ {listed} }} ?thing p:{use.name} ?st . ?st ps:{use.name} ?value ; "
                f"psv:{use.name} ?node . BIND({len(looked)} AS ?place) }}"
            )
            looked.append((at, place))
    if not parts:
        return {}
    about = "OPTIONAL { ?node wikibase:quantityUnit ?unit } OPTIONAL { ?node wikibase:timePrecision ?precision }"
    try:
        answer = run(
            f"{read.prologue}SELECT DISTINCT ?place ?thing ?value ?unit ?precision WHERE "
            f"{{ {' UNION '.join(parts)} {about} }} LIMIT {_COUNTED}"
        )
    except TellModel:
        return {}
    known: dict[tuple[int, str, str], set[Measure]] = {}
    for row in answer.rows:
        number, thing, value, unit, precision = row
        if number and thing and value:
            at, place = looked[int(number.value)]
            name = answer.entity(unit) or ""
            name = "" if name == _NO_UNIT else answer.label(unit) or name
            one = Measure(name, int(precision.value) if precision else None)
            known.setdefault((place, "" if at is None else thing.value, value.value), set()).add(one)
    return {
        (row, place): next(iter(same))
        for at, place in looked
        for row in rows
        if len(same := known.get((place, "" if at is None else _text(row[at]), _text(row[place])), set())) == 1
    }


def _text(cell: Cell) -> str:
    return cell.value if cell is not None else ""


def _written(cell: Cell) -> str:
    """An amount or a date as a query writes it; empty for anything else."""
    measured = cell is not None and (cell.datatype or "").endswith(("#decimal", "#double", "#dateTime"))
    return f"{text_literal(cell.value)}^^<{cell.datatype}>" if cell is not None and measured else ""


def remarks(
    query: str,
    table: AnswerTable,
    run: RunQuery,
    words: Vocabulary,
    *,
    partial: bool = False,
    measured: Measures | None = None,
) -> list[str]:
    """What is to be known of a result with rows, one sentence or two each; nothing for a query of another form.

    ``run`` gives the result of a query. Where it raises TellModel, as for a timeout, that remark is left out.
    ``partial``: the knowledge base is a part of another, which may state a thing by ``wdt:`` and not by ``p:``.
    ``measured`` are the ``measures`` of the rows that are shown; None: of the first twenty, which are asked for.
    """
    try:
        read = read_query(query)
    except QuerySyntaxError:
        return []
    if read.select is None or read.where.select is not None or not table.rows:
        return []
    if measured is None:
        measured = measures(query, table, table.rows[:20], run, words)
    one, found = _Remarks(query, read, table, run, words, measured, partial), list[str]()
    for tell in (one.values, one.units, one.ties, one.left_out):
        with suppress(TellModel):
            found += tell()
    return found


def units_query(query: str, words: Vocabulary) -> str:
    """A query for units of the first amount compared, commonest first; else empty. Raises QuerySyntaxError."""
    read = parse_query(query)
    compared = set(_compared(query, read))
    return next((_units_query(query, read, use) for use in _uses(query, read, words) if use.value in compared), "")


def values_query(query: str, words: Vocabulary, things: Set[str]) -> str:
    """A query for least, most, several and all of the values by the first property compared, or empty.

    Variables of ``things`` are no values.
    """
    read = parse_query(query)
    compared = set(_compared(query, read)) - things
    uses = (use for use in _uses(query, read, words) if use.value in compared and is_variable(use.thing))
    return next((_values_query(read, use, _things(query, read, use.thing)) for use in uses), "")


@dataclass(frozen=True)
class _Use:
    """A property of a thing with its value, as a query has them; ``statement``: the node's variable, if it has one."""

    thing: str
    value: str
    name: str
    statement: str = ""


def _uses(query: str, read: Query, words: Vocabulary) -> list[_Use]:
    """The uses of a Wikibase's properties, by ``wdt:`` or ``p:`` and ``ps:``, whose variables the result may show."""
    terms, patterns = Terms(query, words), list(_reached(read.where))
    named = [(one, terms.predicate(one.relation) if one.relation else ("", "")) for one in patterns]
    leads = {one.object: one.subject for one, (role, _) in named if role == "p"}
    found = list[_Use]()
    for pattern, (role, name) in named:
        if role == "wdt":
            found.append(_Use(pattern.subject, pattern.object, name))
        elif role == "ps" and pattern.subject in leads:
            found.append(_Use(leads[pattern.subject], pattern.object, name, pattern.subject))
        elif name := _by_nodes(pattern, terms):
            found.append(_Use(pattern.subject, pattern.object, name))
    return found


def _by_nodes(pattern: Pattern, terms: Terms) -> str:
    """The property of a path ``p:P/ps:P``; empty for another pattern."""
    steps = pattern.verb.steps() if isinstance(pattern.verb, Path) else []
    (role, name), *more = [terms.predicate(step.name) for step, back in steps if step.kind == "iri" and not back] or [
        ("", "")
    ]
    return name if len(steps) == 2 and role == "p" and more == [("ps", name)] else ""


def _reached(group: Group) -> Iterator[Pattern]:
    """The triple patterns whose variables are those of the result."""
    if group.select is not None:
        shown = set(group.select.visible)
        yield from (one for one in _reached(group.select.where) if shown.issuperset(one.variables))
    for element in group.elements:
        if isinstance(element, Triples):
            yield from element.patterns
        elif isinstance(element, Nested) and element.kind not in ("MINUS", "SERVICE"):
            for inner in element.groups:
                yield from _reached(inner)


def _units_query(query: str, read: Query, use: _Use) -> str:
    node = use.statement or "?anyStatement"
    own = (
        "" if use.statement else f"{use.thing} p:{use.name} ?anyStatement . ?anyStatement ps:{use.name} {use.value} . "
    )
    return _units_of(read, node, use.name, f"{_inner(query, read)} . {own}")


def _units_of(read: Query, node: str, name: str, pattern: str = "") -> str:
    return (
        f"{read.prologue}SELECT ?anyUnit (COUNT(DISTINCT {node}) AS ?anyNumber) WHERE {{ {pattern}"
        f"{node} psv:{name}/wikibase:quantityUnit ?anyUnit }} "
        f"GROUP BY ?anyUnit ORDER BY DESC(?anyNumber) LIMIT {_UNITS + 1}"
    )


def _values_query(read: Query, use: _Use, things: str) -> str:
    return (
        f"{read.prologue}SELECT (MIN(?anyNumber) AS ?least) (MAX(?anyNumber) AS ?most) "
        "(SUM(IF(?anyNumber > 1, 1, 0)) AS ?several) (COUNT(*) AS ?all) WHERE { "
        f"{{ SELECT {use.thing} (COUNT(DISTINCT ?anyValue) AS ?anyNumber) WHERE {{ {things} "
        f"{use.thing} wdt:{use.name} ?anyValue }} GROUP BY {use.thing} }} }}"
    )


def _things(query: str, read: Query, thing: str) -> str:
    """The things that a query's pattern matches, the first thousand."""
    return f"{{ SELECT DISTINCT {thing} WHERE {{ {_inner(query, read)} }} LIMIT {_COUNTED} }}"


def _inner(query: str, read: Query) -> str:
    return query[read.where.place.start + 1 : read.where.place.end - 1].rstrip().removesuffix(".")


def _compared(query: str, read: Query) -> Iterator[str]:
    """Variables that are sorted by, compared by size, added up or reckoned with."""
    for tail in (read.tail, *(one.tail for one in read.selects)):
        for kind in _COMPARED:
            for key in tail.keys(kind):
                yield from key.variables
    for one in read.expressions:
        if not _MEASURED.isdisjoint(token.text.upper() for token in tokenize(one.place.of(query))):
            yield from one.variables


@dataclass(frozen=True)
class _Remarks:
    query: str
    read: Query
    table: AnswerTable
    run: RunQuery
    words: Vocabulary
    measured: Measures
    partial: bool

    def units(self) -> list[str]:
        """The units of an amount that is compared or shown; nothing where the query itself reads them."""
        if "quantityUnit" in self.query or "psn:" in self.query:
            return []
        compared, columns = set(_compared(self.query, self.read)), [f"?{name}" for name in self.table.columns]
        for use in _uses(self.query, self.read, self.words):
            cells = [row[columns.index(use.value)] for row in self.table.rows[:20]] if use.value in columns else []
            if any(cells) and not any(map(_is_decimal, cells)):
                continue
            about = f"{use.value} ({use.name})"
            seen = {one.unit for (_, place), one in self.measured.items() if columns[place] == use.value}
            if use.value not in compared or seen == {""}:  # these are plain numbers
                if len(seen - {""}) == 1 and any(cells):
                    return [f"Unit of {about}: {max(seen)}."]
                continue
            units = self._units(_units_query(self.query, self.read, use))
            if not units and self.partial:  # the statement's node is not here, but those of others may be
                units = self._units(_units_of(self.read, "?any", use.name))
                if len(units) > 1:
                    return [f"The unit of {about} is not stated here. Where it is: {_counts(units)}."]
            if not units or (len(units) == 1 and units[0][0] in ("", _NO_UNIT)):
                continue
            if len(units) == 1:
                return [f"Unit of {about}: {units[0][1]}."]
            counts = _counts(units)
            many = f"{about} is in several units: {counts}. As plain numbers they cannot be compared. "
            node = use.statement or "?st"
            if self._holds(f"?any psn:{use.name} ?any2"):
                path = f"psn:{use.name}/wikibase:quantityAmount {use.value}"
                return [f"{many}In one unit: `{f'{node} ' if use.statement else f'{use.thing} p:{use.name}/'}{path}`."]
            own = "" if use.statement else f"{use.thing} p:{use.name} ?st . ?st ps:{use.name} {use.value} ; "
            form = f"{own or f'{node} '}psv:{use.name}/wikibase:quantityUnit wd:{units[0][0]}"
            return [f"{many}Only one unit: `{form}`."]
        return []

    def _units(self, query: str) -> list[tuple[str, str, str]]:
        """Of such a query's rows: the id of the unit, its name with that, and how many have it."""
        found = self.run(query)
        return [
            (one, f"{label} ({one})" if (label := found.label(unit)) else one, number.value)
            for unit, number in found.rows
            if unit and number and (one := found.entity(unit) or "")
        ]

    def values(self) -> list[str]:
        """Several best values of one thing, where each is compared by itself."""
        compared = set(_compared(self.query, self.read))
        for use in _uses(self.query, self.read, self.words):
            thing, value, name = use.thing, use.value, use.name
            if value not in compared or not is_variable(thing) or use.statement:
                continue
            row = self.run(_values_query(self.read, use, self._shown(thing))).rows[0]
            least, most, several, number = (int(float(cell.value)) if cell else 0 for cell in row)
            if most < 2:
                continue
            of = f"several for {several:,} of {'the first ' if number >= _COUNTED else ''}{number:,}"
            said = (
                f"{value} ({name}): {least} to {most} values a {thing} ({of}); each is compared, not only the latest."
            )
            time = self.words.of(_POINT_IN_TIME)
            if time and self._holds(f"?any p:{name}/pq:{time} ?any2"):
                later = f"FILTER NOT EXISTS {{ {thing} p:{name}/pq:{time} ?later . FILTER(?later > ?date) }}"
                said += f" The latest: `{thing} p:{name} ?st . ?st ps:{name} {value} ; pq:{time} ?date . {later}`."
            return [said]
        return []

    def _shown(self, thing: str) -> str:
        """The things in the result, or where it does not show them those that the pattern matches."""
        if thing[1:] not in self.table.columns:
            return _things(self.query, self.read, thing)
        place = self.table.columns.index(thing[1:])
        cells = dict.fromkeys(cell.value for row in self.table.rows if (cell := row[place]) and cell.type == "uri")
        return f"VALUES {thing} {{ {' '.join(f'<{iri}>' for iri in list(cells)[:_COUNTED])} }}"

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

    def left_out(self) -> list[str]:
        """How many more things there are without a condition, with subclasses, or by another form of statement."""
        key, parts = self._key(), parts_of(self.query, self.read, Terms(self.query, self.words))
        tail = self.read.tail
        if not key or len(parts) < 1 or tail.values or any(one.kind in ("HAVING", "OFFSET") for one in tail.modifiers):
            return []
        others = [one for one in self._others(parts) if any(key in part.variables for part in one[1])][:_OTHERS]
        if not others:
            return []
        counts = [
            f"{{ SELECT (COUNT(*) AS ?count{number}) WHERE {{ {{ SELECT DISTINCT {key} WHERE {{ "
            f"{' . '.join(part.text for part in form)} }} LIMIT {_COUNTED + 1} }} }} }}"
            for number, form in enumerate([parts, *(form for _, form, _ in others)])
        ]
        found = self.run(f"{self.read.prologue}SELECT * WHERE {{ {' '.join(counts)} }}")
        by_name = dict(zip(found.columns, found.rows[0], strict=True))
        numbers = [int(cell.value) if (cell := by_name.get(f"count{one}")) else 0 for one in range(len(counts))]
        base = numbers[0]
        worth = [
            (number, said)
            for number, (said, _, form) in zip(numbers[1:], others, strict=True)
            if base < number <= (_COUNTED if form else min(_AKIN * base, _COUNTED))
        ]
        if not worth:
            return []
        told = "; ".join(f"{number} {said}" for number, said in sorted(worth, key=lambda pair: -pair[0]))
        return [f"Different {key} that the conditions match: {base}. There are {told}."]

    def _others(self, parts: Sequence[Part]) -> Iterator[tuple[str, list[Part], bool]]:
        """Other forms of the pattern, each with how it differs, and whether that is only how a statement is written."""
        terms, shown = Terms(self.query, self.words), self._read_outside()
        compared = {*_compared(self.query, self.read)}
        for place, part in enumerate(parts):
            pattern, rest = part.pattern, [*parts[:place], *parts[place + 1 :]]
            text = " ".join(part.text.split())
            without = f"without `{text if len(text) <= _CONDITION else f'{text[: _CONDITION - 1]}…'}`"
            if pattern is None:
                if part.takes_away:
                    yield without, rest, False
                continue
            if not is_variable(pattern.subject):
                continue
            used = {name for one in rest for name in one.variables}
            held = any(one.pattern is not None and pattern.subject in one.variables for one in rest)
            wider = self._wider(pattern, terms)
            if wider and wider[0]:
                path = f"{pattern.subject} {wider[0]} {pattern.object}"
                yield f"with subclasses (`{path}`)", [*rest, Part(path)], False
            if held and (not is_variable(pattern.object) or pattern.object not in used | compared):
                kept = " (OPTIONAL keeps them)" if is_variable(pattern.object) and pattern.object in shown else ""
                yield without + kept, rest, False
            role, name = terms.predicate(pattern.relation) if pattern.relation else ("", "")
            if not self.partial or (wider and wider[1]):
                continue
            if role == "wdt":
                path = f"{pattern.subject} p:{name}/ps:{name} {pattern.object}"
                yield f"by statement nodes (`{path}`)", [*rest, Part(path)], True
            if (role == "p" and is_variable(pattern.object)) or (name := _by_nodes(pattern, terms)):
                path = f"{pattern.subject} wdt:{name} {'?anyValue' if role else pattern.object}"
                kept_parts = [one for one in rest if not role or pattern.object not in one.variables]
                bound = {name for one in kept_parts if not one.takes_away for name in one.variables} | {pattern.object}
                lost = {name for one in rest if not one.takes_away for name in one.variables} - bound
                kept_parts = [one for one in kept_parts if lost.isdisjoint(one.variables)]
                lack = f"with `{path}` (this copy may lack statement nodes p:{name} of the others)"
                yield lack, [*kept_parts, Part(path)], True

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


def _counts(units: Sequence[tuple[str, str, str]]) -> str:
    """The commonest units, each with how many have it."""
    told = [f"{text} {number}" for _, text, number in units[:_UNITS]]
    return ", ".join([*told, *(["…"] if len(units) > _UNITS else [])])


def _is_decimal(cell: Cell) -> bool:
    return cell is not None and (cell.datatype or "").endswith(("#decimal", "#double"))
