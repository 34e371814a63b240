"""What a result does not say of itself: units, ranks, several values of one thing, ties at a LIMIT, rows left out.

Each remark asks at most two bounded queries, and only where the form of the query gives rise to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

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
"""How many times as many things another form of a pattern may have that the question perhaps means."""
_OTHERS = 8
"""Other forms of a pattern that are counted."""
_POINT_IN_TIME = "P585"
_DEPRECATED = "DeprecatedRank"
_OUTRANKED = {
    _DEPRECATED: "deprecated (without them: `MINUS { ?st wikibase:rank wikibase:DeprecatedRank }`)",
    "NormalRank": "outranked by a preferred one (the best alone: `?st a wikibase:BestRank`)",
}
"""Ranks of statements that are not the best ones, with what is said of them."""
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
    if not any(_written(cell) for row in rows for cell in row):
        return {}
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
            f"{{ {' UNION '.join(parts)} {about} }} LIMIT {2 * len(rows) * len(parts)}"
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


def remarks(query: str, table: AnswerTable, run: RunQuery, words: Vocabulary, measured: Measures) -> list[str]:
    """What is to be known of a result with rows, one sentence or two each; nothing for a query of another form.

    ``run`` gives the result of a query. Where it raises TellModel, as for a timeout, that remark is left out.
    ``measured`` are the ``measures`` of the rows that are shown.
    """
    try:
        read = read_query(query)
    except QuerySyntaxError:
        return []
    if read.select is None or read.where.select is not None or not table.rows:
        return []
    one, found = _Remarks(query, read, table, run, words, measured), list[str]()
    for tell in (one.values, one.units, one.ranks, one.ties, one.left_out):
        with suppress(TellModel):
            found += tell()
    return found


def units_query(query: str, words: Vocabulary) -> str:
    """A query for units of the first amount compared, commonest first; else empty. Raises QuerySyntaxError."""
    read = parse_query(query)
    uses = _compared_uses(query, read, words)
    return _units_query(query, read, uses[0]) if uses else ""


def values_query(query: str, words: Vocabulary, things: Set[str]) -> str:
    """A query for least, most, several and all of the values by the first property compared, or empty.

    Variables of ``things`` are no values.
    """
    read = parse_query(query)
    uses = (one for one in _compared_uses(query, read, words) if one.value not in things and is_variable(one.thing))
    return next((_values_query(read, use, _things(query, read, use.thing)) for use in uses), "")


def _compared_uses(query: str, read: Query, words: Vocabulary) -> list[_Use]:
    compared = set(_compared(query, read))
    return [use for use in _uses(query, read, words) if use.value in compared] if compared else []


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
    named = [(one, terms.predicate(one.relation)) for one in patterns]
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
    used = [terms.predicate(step.name) for step, back in steps if step.kind == "iri" and not back]
    (role, name), *more = used or [("", "")]
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
    return (
        f"{read.prologue}SELECT ?anyUnit (COUNT(DISTINCT {node}) AS ?anyNumber) WHERE {{ {_inner(query, read)} . {own}"
        f"{node} psv:{use.name}/wikibase:quantityUnit ?anyUnit }} "
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

    def units(self) -> list[str]:
        """The units of an amount that is compared or shown; nothing where the query itself reads them."""
        if "quantityUnit" in self.query or "psn:" in self.query:
            return []
        compared = set(_compared(self.query, self.read))
        for use in _uses(self.query, self.read, self.words):
            cells = [*filter(None, self._cells(use.value)[:20])]
            if cells and not any((cell.datatype or "").endswith(("#decimal", "#double")) for cell in cells):
                continue
            about = f"{use.value} ({use.name})"
            seen = {one.unit for (_, place), one in self.measured.items() if self.table.columns[place] == use.value[1:]}
            if use.value not in compared or seen == {""}:  # these are plain numbers
                if len(seen - {""}) == 1 and cells:
                    return [f"Unit of {about}: {max(seen)}."]
                continue
            units = self._units(_units_query(self.query, self.read, use))
            if not units or (len(units) == 1 and units[0][0] in ("", _NO_UNIT)):
                continue
            if len(units) == 1:
                return [f"Unit of {about}: {units[0][1]}."]
            counts = ", ".join(f"{text} {number}" for _, text, number in units[:_UNITS])
            counts += ", …" if len(units) > _UNITS else ""
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
        cut = any(one.kind == "LIMIT" for one in self.read.tail.modifiers)
        for use in _uses(self.query, self.read, self.words):
            thing, value, name = use.thing, use.value, use.name
            if value not in compared or not is_variable(thing) or use.statement:
                continue
            cells = self._cells(value)
            if any(cell and cell.type == "uri" for cell in cells) or (cells and self._cells(thing) and not cut):
                continue  # ids are no amounts, and rows that are not cut show all values
            things = self._shown(thing)
            row = self.run(_values_query(self.read, use, things)).rows[0]
            least, most, several, number = (int(float(cell.value)) if cell else 0 for cell in row)
            if most < 2:
                continue
            of = f"several for {several:,} of {'the first ' if number >= _COUNTED else ''}{number:,}"
            said = f"{value} ({name}): {least} to {most} values a {thing} ({of}); each is compared."
            time = self.words.of(_POINT_IN_TIME)
            dated = f"{things} {thing} p:{name} ?any, ?any2 . ?any pq:{time} ?date . ?any2 pq:{time} ?date2"
            if time and self._holds(f"{dated} FILTER(?date < ?date2)"):
                later = f"FILTER NOT EXISTS {{ {thing} p:{name}/pq:{time} ?later . FILTER(?later > ?date) }}"
                said += f" The latest: `{thing} p:{name} ?st . ?st ps:{name} {value} ; pq:{time} ?date . {later}`."
            return [said]
        return []

    def _cells(self, variable: str) -> list[Cell]:
        """The cells of a variable in the result; none where that does not show it."""
        name, columns = variable[1:], self.table.columns
        return [row[columns.index(name)] for row in self.table.rows] if name in columns else []

    def _shown(self, thing: str) -> str:
        """The things in the result, or where it does not show them those that the pattern matches."""
        if thing[1:] not in self.table.columns:
            return _things(self.query, self.read, thing)
        cells = dict.fromkeys(cell.value for cell in self._cells(thing) if cell and cell.type == "uri")
        return f"VALUES {thing} {{ {' '.join(f'<{iri}>' for iri in list(cells)[:_COUNTED])} }}"

    def ranks(self) -> list[str]:
        """Deprecated statements that a query counts, and where it reads no qualifiers, those that are outranked."""
        if "wikibase:rank" in self.query or "BestRank" in self.query:
            return []
        kinds = {one.kind for one in self.read.tail.modifiers}
        if kinds and kinds <= {"LIMIT", "OFFSET"} and self.read.select and not self.read.select.expressions:
            return []  # only some rows are looked at, and all would have to be found for this
        terms, between = Terms(self.query, self.words), map("?anyStep{}".format, count())
        parts, read, looked = parts_of(self.query, self.read, terms), dict[str, None](), list[str]()
        inner = " . ".join(part.text for part in parts)
        for steps in (part.pattern.apart(between) for part in parts if part.pattern):
            for step in steps:
                role, name = terms.predicate(step.relation)
                if role == "p" and is_variable(step.object):
                    read[f"p:{name}"] = None
                    way = " . ".join(one.text() for one in steps)
                    looked.append(f"{{ {inner} . {way} . BIND({step.object} AS ?anyStatement) }}")
        if not looked:
            return []
        found = self.run(
            f"{self.read.prologue}SELECT ?anyRank (COUNT(DISTINCT ?anyStatement) AS ?anyNumber) WHERE {{ "
            f"{' UNION '.join(looked)} ?anyStatement wikibase:rank ?anyRank "
            "FILTER NOT EXISTS { ?anyStatement a wikibase:BestRank } } GROUP BY ?anyRank"
        )
        numbers = {rank.value.rpartition("#")[2]: number.value for rank, number in found.rows if rank and number}
        told = [
            f"{numbers[rank]} {said}"
            for rank, said in _OUTRANKED.items()
            if rank in numbers and (rank == _DEPRECATED or "pq:" not in self.query)
        ]
        if not told:
            return []
        return [f"By {', '.join(read)} also those are matched that wdt: leaves out: {'; '.join(told)}."]

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
        """How many more things there are with subclasses, or without a value that is shown."""
        key, parts = self._key(), parts_of(self.query, self.read, Terms(self.query, self.words))
        tail = self.read.tail
        if not key or tail.values or any(one.kind in ("HAVING", "OFFSET") for one in tail.modifiers):
            return []
        others = [one for one in self._others(parts) if any(key in part.variables for part in one[1])][:_OTHERS]
        if not others:
            return []
        counts = [
            f"{{ SELECT (COUNT(*) AS ?count{number}) WHERE {{ {{ SELECT DISTINCT {key} WHERE {{ "
            f"{' . '.join(part.text for part in form)} }} LIMIT {_COUNTED + 1} }} }} }}"
            for number, form in enumerate([parts, *(form for _, form in others)])
        ]
        shown = " ".join(f"?count{number}" for number in range(len(counts)))
        found = self.run(f"{self.read.prologue}SELECT {shown} WHERE {{ {' '.join(counts)} }}")
        base, *wider = (int(cell.value) if cell else 0 for cell in found.rows[0])
        told = [
            f"{number - base} {said}"
            for number, (said, _) in zip(wider, others, strict=True)
            if base < number <= min(_AKIN * base, _COUNTED)
        ]
        if not told:
            return []
        return [f"Different {key} that the conditions match: {base}. Not among them: {'; '.join(told)}."]

    def _others(self, parts: Sequence[Part]) -> Iterator[tuple[str, list[Part]]]:
        """Wider forms of the pattern, each with what is said of those that it has besides."""
        terms, shown = Terms(self.query, self.words), set[str]()
        if select := self.read.select:
            shown = {*select.visible, *(name for one in select.expressions for name in one.variables)}
        compared = {*_compared(self.query, self.read)}
        for place, part in enumerate(parts):
            pattern, rest = part.pattern, [*parts[:place], *parts[place + 1 :]]
            if pattern is None or not is_variable(pattern.subject):
                continue
            used = {name for one in rest for name in one.variables}
            wider = self._wider(pattern, terms)
            if wider:
                path = f"{pattern.subject} {wider} {pattern.object}"
                yield f"more with subclasses (`{path}`)", [*rest, Part(path)]
            held = any(one.pattern is not None and pattern.subject in one.variables for one in rest)
            if held and is_variable(pattern.object) and pattern.object in shown - used - compared:
                yield f"that have no {pattern.object} (OPTIONAL keeps them)", rest

    def _wider(self, pattern: Pattern, terms: Terms) -> str:
        """Of a condition on a class, the path with its subclasses where it is without; empty for another pattern."""
        if not isinstance(pattern.verb, Path) or is_variable(pattern.object):
            return ""
        (first, back), *more = pattern.verb.steps()
        if back or more or first.kind != "iri":
            return ""
        instance, wider = self.words.of(INSTANCE_OF), self.words.of(SUBCLASS_OF)
        if instance and terms.predicate(first.name) == ("wdt", instance):
            return f"wdt:{instance}/wdt:{wider}*" if wider else ""
        if terms.iri(first.name) == STANDARD_PREFIXES["rdf"] + "type":
            return f"a/<{STANDARD_PREFIXES['rdfs']}subClassOf>*"
        return ""

    def _key(self) -> str:
        """The variable of the things that the result is about."""
        select = self.read.select
        if select is None:
            return ""
        plain = [name for name in select.visible if name not in select.computed]
        counted = [name for one in select.expressions for name in one.variables]
        return next(iter([*plain, *counted]), "")

    def _holds(self, pattern: str) -> bool:
        return bool(self.run(f"{self.read.prologue}ASK {{ {pattern} }}").boolean)
