"""How results are shown to a model: short, exact, and the same wherever they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kbnav.answers import AnswerTable, Cell, Ranking
from kbnav.knowledge.base import Entity, Entry, Example, Neighborhood, SearchResult, Statement, Value
from kbnav.tools.observation import Shown

_COLUMNS = 20
"""Columns of a result that are shown at most."""
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


def search_text(result: SearchResult, query: str, shown: Shown) -> str:
    """Found entities and properties, one a line, and which rung of the search found them."""
    if not result.entities and not result.properties:
        return f'Nothing was found for "{cut(query, shown.cell)}", nor for parts of it. Try another name for it.'
    lines = []
    if result.rung == "shorter":
        lines.append(f'Nothing is named "{cut(query, shown.cell)}"; these match "{result.matched}":')
    elif result.rung == "fulltext":
        lines.append(f'Nothing is named "{cut(query, shown.cell)}"; these mention its words:')
    for entity in result.entities[: shown.entities]:
        lines.append(f"{entity_name(entity)}: {cut(entity.description, shown.cell)}".rstrip(": "))
    for entity in result.properties[: shown.properties]:
        datatype = f" [property, values: {entity.datatype}]" if entity.datatype else " [property]"
        lines.append(f"{entity_name(entity)}: {cut(entity.description, shown.cell)}{datatype}")
    return "\n".join(lines)


def statement_text(statement: Statement, shown: Shown) -> str:
    """``property (P): value [qualifier (P): value; …]``."""
    text = f"{entity_name(statement.property)}: {value_text(statement.value, shown.cell)}"
    if statement.qualifiers:
        qualifiers = "; ".join(
            f"{entity_name(item.property)}: {value_text(item.value, shown.cell)}" for item in statement.qualifiers
        )
        text += f" [{qualifiers}]"
    return text + (" (preferred)" if statement.rank == "preferred" else "")


def entry_text(entry: Entry, kept: Entry, shown: Shown, *, empty: str = "It has no statements of its own.") -> str:
    """An entry whose statements were cut to ``kept``; the properties left out are named. ``empty``: if it has none."""
    head = f"{entity_name(entry.entity)}: {cut(entry.entity.description, shown.cell)}".rstrip(": ")
    lines = [f"{entry.redirected_from} was merged into {entry.entity.id}."] if entry.redirected_from else []
    lines.append(head)
    if entry.entity.datatype:
        lines.append(f"A property whose values are: {entry.entity.datatype}")
    if entry.aliases:
        lines.append("Also called: " + cut("; ".join(entry.aliases), shown.cell))
    if entry.document:
        lines.append(entry.document)
    lines += [f"- {statement_text(statement, shown)}" for statement in kept.statements]
    hidden = Counter(entity_name(one.property) for one in entry.statements)
    hidden.subtract(entity_name(one.property) for one in kept.statements)
    more = [f"{name} ×{number}" if number > 1 else name for name, number in hidden.items() if number > 0]
    if more:
        lines.append(f"Not shown: {', '.join(more)}.")
    elif not entry.statements and empty:
        lines.append(empty)
    return "\n".join(lines)


def examples_text(examples: Sequence[Example], property_id: str) -> str:
    """``subject -- property --> value``, one a line."""
    if not examples:
        return f"No statement uses {property_id}."
    return "\n".join(
        f"{entity_name(item.subject)} -- {entity_name(item.property)} --> {value_text(item.value, 200)}"
        for item in examples
    )


def table_text(table: AnswerTable, shown: Shown) -> str:
    """The first and last rows of a result and the number of rows; cells with their labels."""
    if table.boolean is not None:
        return str(table.boolean)
    if not table.rows:
        return "The query ran and returned no rows."
    left_out = len(table.rows) - 2 * shown.rows
    few = table.rows if left_out <= 0 else (*table.rows[: shown.rows], *table.rows[-shown.rows :])
    rows = ["\t".join(cell_text(cell, table.labels, shown.cell) for cell in row[:_COLUMNS]) for row in few]
    if left_out > 0:
        rows.insert(shown.rows, f"… {left_out} rows not shown …")
    total = f"{len(table.rows)} row{'s' if len(table.rows) != 1 else ''}."
    if len(table.columns) > _COLUMNS:
        total += f" {len(table.columns) - _COLUMNS} more columns are not shown."
    return "\n".join(["\t".join(table.columns[:_COLUMNS]), *rows, total])


def cell_text(cell: Cell, labels: Mapping[str, str], width: int) -> str:
    """An entity as ``ID (label)``, a text with its language, anything else as it is."""
    if cell is None:
        return "(none)"
    used = cell.entity_id
    if used:
        return f"{used} ({cut(labels[used], width)})" if used in labels else used
    text = cut(cell.value, width)
    return f"{text}@{cell.language}" if cell.language else text


def neighborhood_text(neighborhood: Neighborhood, shown: Shown) -> str:
    """Edges in both directions, one a line, best first."""
    name = entity_name(neighborhood.entity)
    if not neighborhood.edges:
        return f"No edge of {name} matches."
    best = max(edge.score for edge in neighborhood.edges)
    shown_edges = [edge for edge in neighborhood.edges if edge.score >= _WORTH_SHOWING * best]
    lines = []
    for edge in shown_edges:
        relation, other = entity_name(edge.relation), value_text(edge.neighbor, shown.cell)
        lines.append(
            f"{name} -- {relation} --> {other}" if edge.direction == "out" else f"{other} -- {relation} --> {name}"
        )
    if neighborhood.total > len(shown_edges):
        lines.append(f"{len(shown_edges)} of {neighborhood.total} edges are shown, best match first.")
    return "\n".join(lines)


def ranking_text(ranking: Ranking) -> str:
    """Nodes with their scores, best first."""
    if not ranking.nodes:
        return "Nothing was found."
    return "\n".join(f"{node.label or node.id} ({node.id}): {node.score:.3f}" for node in ranking.nodes)
