"""Shapes that an endpoint publishes of its own data: VoID's partitions, with counts, and SHACL's, without.

They cost one look-up where a shape that is worked out costs a scan, so that VoID goes before the scan; SHACL tells what
should be, and serves where the scan takes too long. ShEx is published as files, not as triples, and is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from kbnav.answers.tables import AnswerTable, Cell
from kbnav.errors import TellModel
from kbnav.knowledge.base import ClassShape, ShapeProperty, Share
from kbnav.knowledge.endpoint.labels import Select
from kbnav.knowledge.endpoint.names import TYPE
from kbnav.knowledge.endpoint.shapes import Learn, Name

VOID = "http://rdfs.org/ns/void#"
EXTENSION = "http://ldf.fi/void-ext#"
SHACL = "http://www.w3.org/ns/shacl#"
_ROWS = 2_000
_RANGES = 3
_VOID_QUERY = f"""PREFIX void: <{VOID}> PREFIX ext: <{EXTENSION}>
SELECT ?members ?p ?triples ?subjects ?x ?n WHERE {{
  ?part void:class <{{iri}}> ; void:propertyPartition ?property .
  ?property void:property ?p .
  OPTIONAL {{ ?part void:entities ?members }}
  OPTIONAL {{ ?property void:triples ?triples }}
  OPTIONAL {{ ?property void:distinctSubjects ?subjects }}
  OPTIONAL {{
    {{ ?property void:classPartition ?of . ?of void:class ?x }}
    UNION {{ ?property ext:datatypePartition ?of . ?of ext:datatype ?x }}
    OPTIONAL {{ ?of void:triples ?n }}
  }}
}} LIMIT {_ROWS}"""
_SHACL_QUERY = f"""PREFIX sh: <{SHACL}>
SELECT ?p ?min ?max ?x WHERE {{
  {{ ?shape sh:targetClass <{{iri}}> }} UNION {{ <{{iri}}> a sh:NodeShape BIND(<{{iri}}> AS ?shape) }}
  ?shape sh:property ?property .
  ?property sh:path ?p FILTER(isIRI(?p))
  OPTIONAL {{ ?property sh:minCount ?min }}
  OPTIONAL {{ ?property sh:maxCount ?max }}
  OPTIONAL {{ ?property sh:datatype|sh:class ?x }}
}} LIMIT {_ROWS}"""


def by_void(select: Select, learn: Learn, name: Name, iri: str) -> ClassShape | None:
    """The shape by the endpoint's VoID description; None where it has none of this class."""

    def read(rows: list[dict[str, Cell]]) -> ClassShape:
        members = max((_number(row["members"]) for row in rows), default=0)
        found: dict[str, ShapeProperty] = {}
        for p, told in _by_property(rows).items():
            triples, subjects = (max(_number(row[key]) for row in told) for key in ("triples", "subjects"))
            have = min(subjects or triples, members or triples)
            # VoID gives a mean and no maximum: more triples than subjects, and somebody has several.
            most = ceil(triples / subjects) if subjects else 0
            found[p] = ShapeProperty(name(p), have, most, _ranges(told, name))
        properties = sorted(found.values(), key=lambda one: -(one.have or 0))
        return ClassShape(name(iri), members, 0, members + 1, members, tuple(properties), published="VoID")

    return _read(select, learn, _VOID_QUERY, iri, read)


def by_shacl(select: Select, learn: Learn, name: Name, iri: str) -> ClassShape | None:
    """The shape by the endpoint's SHACL shapes, nothing counted; None where it has none of this class."""

    def read(rows: list[dict[str, Cell]]) -> ClassShape:
        properties = [
            ShapeProperty(
                name(p),
                None,
                max(_number(row["max"]) for row in told),
                _ranges(told, name),
                required=any(_number(row["min"]) for row in told),
            )
            for p, told in _by_property(rows).items()
        ]
        properties.sort(key=lambda one: not one.required)
        return ClassShape(name(iri), 0, 0, 0, 0, tuple(properties), published="SHACL")

    return _read(select, learn, _SHACL_QUERY, iri, read)


def _read(
    select: Select, learn: Learn, query: str, iri: str, read: Callable[[list[dict[str, Cell]]], ClassShape]
) -> ClassShape | None:
    try:
        table = select(query.replace("{iri}", iri))
    except TellModel:
        return None
    rows = _rows(table)
    if not rows:
        return None
    learn(list(dict.fromkeys(cell.value for row in rows for key in ("p", "x") if (cell := row[key]))))
    return read(rows)


def _rows(table: AnswerTable) -> list[dict[str, Cell]]:
    found = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return [row for row in found if row["p"] and row["p"].value != TYPE]


def _by_property(rows: list[dict[str, Cell]]) -> dict[str, list[dict[str, Cell]]]:
    found: dict[str, list[dict[str, Cell]]] = {}
    for row in rows:
        found.setdefault(row["p"].value, []).append(row)  # type: ignore[union-attr]
    return found


def _ranges(rows: list[dict[str, Cell]], name: Name) -> tuple[Share, ...]:
    counts: dict[str, int] = {}
    for row in rows:
        if x := row["x"]:
            counts[x.value] = max(counts.get(x.value, 0), _number(row.get("n")))
    commonest = sorted(counts.items(), key=lambda item: -item[1])[:_RANGES]
    return tuple(Share(name(x), number) for x, number in commonest)


def _number(cell: Any) -> int:
    try:
        return int(float(cell.value)) if cell else 0
    except ValueError:
        return 0
