"""How results are shown to a model: short, exact, and the same wherever they come from."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from kbnav.answers.tables import ENTITY_IRI, AnswerTable, Cell, Term
from kbnav.knowledge.base import (
    INVERSE,
    ClassProfile,
    Entity,
    Entry,
    Example,
    Neighborhood,
    PropertyProfile,
    SearchResult,
    Share,
    Statement,
    Value,
)
from kbnav.knowledge.sparql.remarks import Measure, Measures, Row
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, WIKIDATA_VOCABULARY, Vocabulary, shortened, wikibase_prefixes
from kbnav.knowledge.wikidata.entities import date_text
from kbnav.tools.context import Shown

_COLUMNS = 20
"""Columns of a result that are shown at most."""
_FEW_VALUES = 12
"""Different values up to which a column of a cut result lists them."""
_UNCUT = sys.maxsize
_IDENTIFIERS = 8
"""Identifiers not shown that are named at most."""
_RELATIONS = 8
"""Relations that are counted below a part of an entity's edges."""
_OF_ONE = 5
"""Edges of one property, of many edges, that are shown."""
_ADDRESSES = 2
"""Addresses of one property that are shown."""
_INDIRECT = " [by p:/ps: only, not wdt:]"
_UNLABELLED = "What has no label is found only by what it is linked to."
_WORTH_SHOWING = 0.3
"""Share of the best edge's score below which an edge is not shown."""


def entity_name(entity: Entity) -> str:
    """``label (ID)``, or the id alone where there is no other label."""
    return f"{entity.label} ({entity.id})" if entity.label and entity.label != entity.id else entity.id


def value_text(value: Value, width: int) -> str:
    """A value on one line, with its id where it is an entity."""
    text = cut(value.text, width)
    return f"{text} ({value.id})" if value.id and text and text != value.id else text or value.id


def cut(text: str, width: int) -> str:
    """One line of at most ``width`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def search_text(
    result: SearchResult, query: str, shown: Shown, *, begins: bool = False, unlabelled: bool = False
) -> str:
    """Found entities and properties, one a line, and which rung of the search found them.

    ``begins``: an exact match may be the beginning of a name only, which is told then; ``unlabelled``: many things have
    no label here, which is told where nothing has the name.
    """
    asked, wanted = cut(query, shown.cell), " ".join(query.split()).casefold()
    values = [f"- {entity_name(one.subject)}, {statement_text(one.statement, shown)}" for one in result.values]
    if values:
        values.insert(0, f'"{asked}" is a value, or a part of one, in:')
    values += [result.note] if result.note else []
    if result.rung == "value" and not result.values:
        nothing = f'No statement or qualifier was found with "{asked}" in a text.'
        return "\n".join([f"{nothing} Addresses, numbers and dates are not searched.", *values])
    if not result.entities and not result.properties:
        if values:
            return "\n".join(values)
        meant = f'Did you mean "{cut(result.suggestion, shown.cell)}"?'
        other = f"It may be written otherwise here: try another word for it, or a part of one. {_UNLABELLED}"
        return f'The search found nothing for "{asked}". {meant if result.suggestion else other}'
    lines = []
    without = f' (without "{cut(result.dropped, shown.cell)}")' if result.dropped else ""
    if result.rung == "shorter":
        lines.append(f'Nothing is named "{asked}"; these match "{result.matched}"{without}:')
    elif result.rung == "near":
        lines.append(f'Nothing is named "{asked}"; near:')
    elif result.rung == "fulltext":
        lines.append(f'Nothing is named "{asked}"; these mention its words{without}:')
    most = shown.properties if result.entities else shown.entities
    named, others = list[str](), list[str]()
    for one in (*result.entities[: shown.entities], *result.properties[:most]):
        also = f', also "{cut(one.alias, shown.cell)}"' if one.alias else ""
        text = f"{entity_name(one)}{also}: {cut(one.description, shown.cell)}".rstrip(": ")
        if one in result.properties:
            text += f" [property, values: {one.datatype}]" if one.datatype else " [property]"
        so = not begins or result.rung != "exact" or wanted in (one.label.casefold(), one.alias.casefold())
        (named if so else others).append(text)
    lines += named
    if others:
        lines += ["These only have a name that begins so:" if named else f'Names that begin with "{asked}":', *others]
    if unlabelled and lines[0].startswith("Nothing") and (result.rung != "shorter" or result.dropped):
        lines.append(_UNLABELLED)
    return "\n".join([*values, *lines])


def statement_text(statement: Statement, shown: Shown) -> str:
    """``property (P): value [qualifier (P): value; …]``."""
    return statement_lines([statement], shown)[0].removeprefix("- ")


def statement_lines(statements: Sequence[Statement], shown: Shown) -> list[str]:
    """A line for each property; a value with qualifiers or a rank has one of its own.

    What is stated several times of one value is told once, with the qualifiers of each.
    """
    merged: dict[tuple[str, str, str, str], list[Statement]] = {}
    for one in statements:
        key = (one.property.id, one.value.id or one.value.text, one.value.special, one.rank)
        merged.setdefault(key, []).append(one)
    lines, plain = list[str](), dict[str, int]()
    addresses: Counter[str] = Counter()
    for same in merged.values():
        if same[0].property.datatype == "url":
            addresses[entity_name(same[0].property)] += 1
            if addresses[entity_name(same[0].property)] > _ADDRESSES:
                continue
        texts = [
            "; ".join(f"{entity_name(of.property)}: {value_text(of.value, shown.cell)}" for of in one.qualifiers)
            for one in same
        ]
        different = list(dict.fromkeys(filter(None, texts)))
        times = f" (stated {len(same)} times)" if len(same) > 1 and len(different) > 1 else ""
        rank = " (preferred)" if same[0].rank == "preferred" else ""
        name, value = entity_name(same[0].property), value_text(same[0].value, shown.cell)
        if different or rank:
            lines.append(f"- {name}: {value}{''.join(f' [{text}]' for text in different)}{rank}{times}")
        elif name in plain:
            lines[plain[name]] += f"; {value}"
        else:
            plain[name] = len(lines)
            lines.append(f"- {name}: {value}")
    more = {name: number - _ADDRESSES for name, number in addresses.items() if number > _ADDRESSES}
    return [*lines, *(f"- {name}: {number} more addresses" for name, number in more.items())]


def entry_text(
    entry: Entry,
    kept: Entry,
    shown: Shown,
    *,
    empty: str = "It has no statements of its own.",
    about: Sequence[str] = (),
) -> str:
    """An entry whose statements were cut to ``kept``; the properties left out are named. ``empty``: if it has none.

    ``about`` are lines that come before its statements.
    """
    head = f"{entity_name(entry.entity)}: {cut(entry.entity.description, shown.cell)}".rstrip(": ")
    lines = [f"{entry.redirected_from} was merged into {entry.entity.id}."] if entry.redirected_from else []
    lines.append(head)
    if entry.entity.datatype:
        lines.append(f"A property whose values are: {entry.entity.datatype}")
    if entry.aliases:
        lines.append("Also called: " + cut("; ".join(entry.aliases), shown.cell))
    if entry.document:
        lines.append(entry.document)
    lines += about
    lines += statement_lines([*kept.statements, *kept.identifiers], shown)
    hidden = Counter(entity_name(one.property) for one in entry.statements)
    hidden.subtract(entity_name(one.property) for one in kept.statements)
    more = [f"{name} ×{number}" if number > 1 else name for name, number in hidden.items() if number > 0]
    if more:
        lines.append(f"Not shown: {', '.join(more)}.")
    elif not entry.statements and not entry.identifiers and empty:
        lines.append(empty)
    kept_ids = {one.property.id for one in kept.identifiers}
    hidden_ids = [entity_name(one.property) for one in entry.identifiers if one.property.id not in kept_ids]
    if names := list(dict.fromkeys(hidden_ids)):
        rest = f" and {len(names) - _IDENTIFIERS} more" if len(names) > _IDENTIFIERS else ""
        lines.append(f"Identifiers not shown: {', '.join(names[:_IDENTIFIERS])}{rest}.")
    for reason, (noun, text) in _OMITTED.items():
        if number := (entry.omitted or {}).get(reason, 0):
            lines.append(text.format(_count(number, noun)))
    return "\n".join(lines)


_OMITTED = {
    "deprecated": ("deprecated statement", "{} not shown."),
    "unknown property": ("statement", "{} of properties that have no page here not shown."),
    "other language": ("text", "{} in other languages not shown."),
    "beyond the limit": ("statement", "At least {} more were not fetched: query for them by their property."),
}
"""What is left out of an entry, by its reason: what is counted, and what is said of it."""


def examples_text(examples: Sequence[Example], property_id: str) -> str:
    """``subject -- property --> value``, one a line."""
    if not examples:
        return f"No statement uses {property_id}."
    return "\n".join(
        f"{entity_name(item.subject)} -- {entity_name(item.property)} --> {value_text(item.value, 200)}"
        for item in examples
    )


_NOT_MEASURED: Measures = MappingProxyType({})


def _row_texts(table: AnswerTable, shown: Shown, measured: Measures = _NOT_MEASURED) -> list[str]:
    """The rows: dates as precise as they are known, and amounts of one column in several units each with its own."""
    units: dict[int, set[str]] = {}
    for (_, place), one in measured.items():
        units.setdefault(place, set()).add(one.unit)

    def text(row: Row, place: int) -> str:
        one = measured.get((row, place), Measure())
        unit = f" {one.unit}" if one.unit and len(units[place]) > 1 else ""
        return _told(row[place], table, shown, one.precision) + unit

    lines = ["\t".join(text(row, place) for place in range(len(row[:_COLUMNS]))) for row in table.rows]
    return _told_apart(lines, table.rows) if shown.whole_rows else lines


def _told(cell: Cell, table: AnswerTable, shown: Shown, precision: int | None = None) -> str:
    """A cell, a date of a Wikibase in the form that entries show."""
    dated = cell is not None and shown.whole_rows and table.prefixes is None
    return (date_text(cell, precision) if cell and dated else "") or cell_text(cell, table, shown.cell)


def rows_shown(table: AnswerTable, shown: Shown) -> tuple[Row, ...]:
    """The rows that ``table_text`` shows: all, or the first and the last of many."""
    rows, total = table.rows, len(table.rows)
    whole = total <= 2 * shown.rows + bool(shown.whole_rows)
    if not whole and total <= shown.whole_rows:
        whole = sum(len(line.encode()) + 1 for line in _row_texts(table, shown)) <= shown.whole_bytes
    return tuple(rows) if whole else (*rows[: shown.rows], *rows[total - shown.rows :])


def table_text(table: AnswerTable, shown: Shown, *, name: str = "", measured: Measures = _NOT_MEASURED) -> str:
    """The rows of a result, or the first and the last of many, and what the whole is like; cells with their labels.

    ``name`` is what the result is called, such as ``Result 3``; ``measured`` are units and precisions of its cells. A
    cut hides two rows or more: its own line is as long as one. Different values and empty cells are counted by column,
    unless the paper's way is asked for.
    """
    if table.boolean is not None:
        said = f"{name}: {table.boolean}" if name else str(table.boolean)
        return f"{said}\n{table.note}" if table.note else said
    if not table.rows:
        said = f"{name}: the query ran and returned no rows." if name else "The query ran and returned no rows."
        return " ".join(filter(None, (said, table.cut, table.note)))
    columns, total = table.columns[:_COLUMNS], len(table.rows)
    lines = _row_texts(table, shown, measured)
    seen = rows_shown(table, shown)
    if len(seen) < total:
        hidden = f"… {total - 2 * shown.rows} rows not shown …"
        lines = [*lines[: shown.rows], hidden, *lines[total - shown.rows :]]
    about = f"{name}: {_count(total, 'row')}" if name else _count(total, "row")
    far = len(table.columns) - len(columns)
    more = f" {far} more columns are not shown." if far else ""
    if not shown.whole_rows:
        about = " ".join(filter(None, (f"{about}.{more}", table.cut, table.note)))
        return "\n".join(["\t".join(columns), *lines, about])
    if total > 1:
        distinct = (len({row[place] for row in table.rows} - {None}) for place in range(len(columns)))
        about += "; distinct: " + ", ".join(f"{one} {own}" for one, own in zip(columns, distinct, strict=True))
        about += "".join(_few(table, place, shown) for place in range(len(columns)) if len(seen) < total)
    empty = [sum(row[place] is None for row in table.rows) for place in range(len(columns))]
    if any(empty):
        about += "; empty: " + ", ".join(f"{one} {none}" for one, none in zip(columns, empty, strict=True) if none)
    ids = {table.entity(cell) for row in seen for cell in row[:_COLUMNS]}
    nameless = table.prefixes is None and any(one and one not in table.labels for one in ids)
    below = [
        f"{about}.{more}",
        f"NOT ALL: {table.cut}" if table.cut else "",
        table.note,
        "Ids that stand alone have no label." if nameless else "",
    ]
    return "\n".join(["\t".join(columns), *lines, *filter(None, below)])


def _few(table: AnswerTable, place: int, shown: Shown) -> str:
    """The values of a column that has few, each with its number of rows; empty where it has many, or but one."""
    counts = Counter(row[place] for row in table.rows if row[place] is not None)
    if not 1 < len(counts) <= _FEW_VALUES:
        return ""
    told = ", ".join(f"{_told(value, table, shown)} ×{number:,}" for value, number in counts.most_common())
    return f"; {table.columns[place]}: {told}"


def _told_apart(lines: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """The lines of rows, those that read the same of different rows with the terms in which these differ."""
    alike: dict[str, set[Sequence[Cell]]] = {}
    for line, row in zip(lines, rows, strict=True):
        alike.setdefault(line, set()).add(row)
    told = []
    for line, row in zip(lines, rows, strict=True):
        same = alike[line]
        differing = [cell for place, cell in enumerate(row) if len(same) > 1 and len({o[place] for o in same}) > 1]
        terms = ", ".join(_term(cell) for cell in differing if cell is not None)
        told.append(f"{line} [{terms}]" if terms else line)
    return told


def _term(cell: Term) -> str:
    """A term as Turtle writes it, which tells its kind and datatype."""
    if cell.type == "uri":
        return f"<{cell.value}>"
    if cell.type == "bnode":
        return f"_:{cell.value}"
    return f'"{cell.value}"' + (f"^^{re.split('[#/]', cell.datatype)[-1]}" if cell.datatype else "")


def rows_text(table: AnswerTable, shown: Shown, *, start: int, contains: str) -> tuple[str, Sequence[Row]]:
    """A page of a result's rows from row ``start`` (counted from 1), of those only that hold a text; and these rows.

    The text is looked for in the whole row, of which long cells and far columns are cut where it is shown.
    """
    text = contains.casefold()
    whole = ("\t".join(cell_text(cell, table, _UNCUT) for cell in row).casefold() for row in table.rows)
    wanted = [number for number, line in enumerate(whole, 1) if text in line]
    page: list[str] = []
    later = [number for number in wanted if number >= start]
    for number in later[: max(1, shown.whole_rows)]:
        [line] = _row_texts(replace(table, rows=(table.rows[number - 1],)), shown)
        page.append(f"{number}\t{line}")
        if sum(len(line.encode()) for line in page) > shown.whole_bytes:
            break
    total = _count(len(table.rows), "row")
    if contains:
        total = f"{len(wanted)} of {len(table.rows)} rows contain “{contains}”"
    more = len(later) - len(page)
    total += f"; {more} more after these." if more else "."
    text = "\n".join(["\t".join(["row", *table.columns[:_COLUMNS]]), *page, total])
    return text, [table.rows[number - 1] for number in later[: len(page)]]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def cell_text(cell: Cell, table: AnswerTable, width: int) -> str:
    """A cell of a table: an entity as ``ID (label)``, also inside a text; a text with its language; others as is."""
    if cell is None:
        return "(none)"
    if table.unknown(cell):
        return "unknown value"

    def labelled(one: str) -> str:
        return f"{one} ({cut(table.labels[one], width)})" if table.labels.get(one, one) != one else one

    if used := table.entity(cell):
        form = (
            "" if table.prefixes is not None else shortened(cell.value, _prefixes(table.concept_base)).partition(":")[0]
        )
        return labelled(used) if form in ("", "wd", "wds", "node") else f"{form}:{labelled(used)}"
    if short := short_iri(cell, table):
        return cut(short, width)
    base = table.concept_base
    text = ENTITY_IRI.sub(lambda found: labelled(found[1]) if found[0].startswith(base) else found[0], cell.text)
    return f"{cut(text, width)}@{cell.language}" if cell.language else cut(text, width)


def readable_text(cell: Cell, table: AnswerTable, width: int) -> str:
    """The same for people: a date without a clock at midnight, and as a year where it is ``only_year``."""
    year = date_text(cell) if cell is not None and table.only_year(cell) else ""
    return year or cell_text(cell, table, width).removesuffix("T00:00:00Z")


def short_iri(cell: Term, table: AnswerTable) -> str:
    """``wds:Q1-2`` for an IRI whose prefix queries need not declare; empty for any other term."""
    return shortened(cell.value, _prefixes(table.concept_base)) if cell.type == "uri" else ""


@cache
def _prefixes(concept_base: str) -> Mapping[str, str] | None:
    return wikibase_prefixes(concept_base) if concept_base else None


def neighborhood_text(neighborhood: Neighborhood, shown: Shown, *, offset: int = 0) -> str:
    """Edges in both directions, one a line, best first, from the one at ``offset``."""
    name = entity_name(neighborhood.entity)
    if not neighborhood.edges:
        return f"No edge of {name} matches."
    best = max(edge.score for edge in neighborhood.edges)
    whole = offset or neighborhood.total <= shown.edges
    worth = [edge for edge in neighborhood.edges if whole or edge.score >= _WORTH_SHOWING * best]
    edges, lines = worth[offset : offset + shown.edges], list[str]()
    every = {share.entity.id: share for share in neighborhood.relations}
    ways = Counter(edge.way for edge in edges)
    many = {
        way for way, number in ways.items() if number > _OF_ONE + 1 and len(every) > 1 and not whole and way in every
    }
    seen = Counter[str]()
    for edge in edges:
        seen[way := edge.way] += 1
        if way in many and seen[way] > _OF_ONE:
            continue
        relation, other = entity_name(edge.relation), value_text(edge.neighbor, shown.cell)
        text = f"{name} -- {relation} --> {other}" if edge.direction == "out" else f"{other} -- {relation} --> {name}"
        lines.append(text + (_INDIRECT if edge.indirect else ""))
    edges = edges[: len(lines)]
    for way in sorted(many):
        told, one = every[way].entity, way.removeprefix(INVERSE)
        lines.append(f"{entity_name(told)}: {every[way].count - _OF_ONE:,} more, seen by relation={one}.")
    if neighborhood.total > len(edges):
        which = f"{offset + 1} to {offset + len(edges)}" if offset else f"{len(edges)}"
        lines.append(f"{which} of {neighborhood.total} edges are shown{', best match first' if best else ''}.")
        few = neighborhood.relations[:_RELATIONS]
        if len(few) > 1:
            counts = ", ".join(f"{entity_name(share.entity)} ×{share.count:,}" for share in few)
            lines.append(
                f"By property (^: coming in): {counts}{', …' if len(neighborhood.relations) > _RELATIONS else ''}."
            )
    return "\n".join([*lines, *([neighborhood.note] if neighborhood.note else [])])


_LEAST = 0.02
"""Share below which a qualifier, unit or class is not worth a word."""


def property_text(profile: PropertyProfile, property_id: str, shown: Shown) -> str:
    """How a property is used, and two statements with their qualifiers."""
    direct, whole = (times(number, profile.limit) for number in (profile.direct, profile.statements))
    told = f"{direct} as wdt:{property_id} (best rank) and {whole} as p:{property_id} (all statements)"
    lines = [f"{property_id} is used {told}."]
    sampled = profile.sampled
    if sampled and profile.subjects:
        many = f"{sampled / profile.subjects:.1f}".removesuffix(".0")
        of = f"In the first {sampled:,} statements" if sampled < profile.statements else "In all of them"
        lines.append(f"{of}: {many} a subject{listed('; qualifiers', profile.qualifiers, sampled)}.")
    kinds = [
        listed("Subjects are", profile.subject_classes, min(profile.direct, 1_000)),
        listed("values are", profile.value_classes, min(profile.direct, 1_000)),
        listed("units are", profile.units, sampled),
    ]
    if any(kinds):
        text = "; ".join(kind for kind in kinds if kind)
        lines.append(f"{text[0].upper()}{text[1:]}.")
    for use in profile.uses:
        # The property has been named; its id alone is read more easily.
        lines.append(f"With qualifiers: {entity_name(use.subject)} -- {statement_text(use.statement, shown)}")
    return "\n".join(lines)


UNTYPED = {"rdfs:Resource": "things of no class here", "rdfs:Literal": "texts in a language"}
"""What values are called that have neither class nor datatype."""


def kind_name(entity: Entity) -> str:
    """A class or datatype; what has neither is called the same everywhere."""
    return UNTYPED.get(entity.id) or entity_name(entity)


def uses_text(profile: PropertyProfile, property_id: str) -> str:
    """How a property is used."""
    lines = [f"{property_id} is used {times(profile.direct, profile.limit)}."]
    if profile.sampled and profile.subjects and profile.sampled >= profile.direct:  # a sample cuts subjects apart
        many = f"{profile.sampled / profile.subjects:.1f}".removesuffix(".0")
        lines.append(f"Each subject has {many} of them in the mean.")

    def shares(head: str, classes: Sequence[Share]) -> str:
        named = [Share(Entity(kind_name(one.entity)), one.count) for one in classes]
        return listed(head, named, profile.sampled)

    kinds = [shares("Subjects are", profile.subject_classes), shares("values are", profile.value_classes)]
    if any(kinds):
        text = "; ".join(kind for kind in kinds if kind)
        of = f" (of the first {profile.sampled:,})" if profile.sampled < profile.direct else ""
        lines.append(f"{text[0].upper()}{text[1:]}{of}.")
    return "\n".join(lines)


CLASS = "A class with "
"""What begins the line of a class."""


def class_text(profile: ClassProfile, words: Vocabulary = WIKIDATA_VOCABULARY) -> str:
    """How many members a class has, and what they have; empty for what is no class."""
    if not profile.below:
        return ""
    direct, below = (counted(number, profile.limit) for number in (profile.direct, profile.below))
    of = "their" if profile.sampled >= profile.below else f"of the first {profile.sampled:,} the"
    used = ", ".join(
        f"{entity_name(share.entity)} {share.count:,}"
        for share in profile.properties
        if share.entity.id != words.of(INSTANCE_OF)
    )
    return (
        f"{CLASS}{direct} direct instances (wdt:{words.of(INSTANCE_OF)}), {below} with those of its subclasses "
        f"({words.to_class}); {of} properties, with how many have them: {used}."
    )


def incoming_text(shares: Sequence[Share]) -> str:
    """The edges that come in, counted by property; empty where there are none."""
    if not shares:
        return ""
    return (
        "Edges that come in: "
        + ", ".join(f"{entity_name(one.entity)} {f'×{one.count:,}' if one.count > 1 else 'once'}" for one in shares)
        + "."
    )


def times(number: int, limit: int | None = None) -> str:
    """``once``, or so many times; over ``limit`` as ``counted``."""
    return "once" if number == 1 else f"{counted(number, number if limit is None else limit)} times"


def counted(number: int, limit: int) -> str:
    """A count, or that it is over the limit up to which was counted."""
    return f"over {limit:,}" if number > limit else f"{number:,}"


def listed(head: str, shares: Sequence[Share], total: int) -> str:
    """The shares of a sample that are worth a word, in percent; empty where there are none."""
    worth = [share for share in shares if total and share.count >= _LEAST * total]
    if not worth:
        return ""
    return f"{head} {', '.join(f'{entity_name(one.entity)} {100 * one.count / total:.0f} %' for one in worth)}"
