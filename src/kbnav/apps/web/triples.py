"""A result as RDF: the triples of a graph as they are, and a table in the W3C's vocabulary of result sets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kbnav.answers.tables import Cell, Term
from kbnav.apps.web.results import Kept

_RS = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
_A = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_NOT_IRI = re.compile(r"[\x00-\x20<>\"{}|^`\\\\]")
_NOT_LABEL = re.compile(r"[^0-9A-Za-z]")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})
_GRAPH = ("subject", "predicate", "object")


def triples(result: Kept, exact: bool = False) -> Iterator[str]:  # noqa: ARG001 - as the other forms
    """N-Triples: what CONSTRUCT or DESCRIBE gave, or of a table its variables, solutions and bindings.

    The vocabulary is that of the SPARQL working group's test cases, ``rs:ResultSet``.
    """
    if result.columns == _GRAPH:
        for row in result.rows():
            if all(cell is not None for cell in row):
                yield " ".join(_term(cell) for cell in row) + " .\n"
        return
    yield f"_:set {_A} {_rs('ResultSet')} .\n"
    for column in result.columns:
        yield f"_:set {_rs('resultVariable')} {_term(Term('literal', column))} .\n"
    for number, row in enumerate(result.rows()):
        lines = [f"_:set {_rs('solution')} _:s{number} .\n"]
        for place, cell in enumerate(row):
            if cell is not None:
                one = f"_:s{number}x{place}"
                lines += [
                    f"_:s{number} {_rs('binding')} {one} .\n",
                    f"{one} {_rs('variable')} {_term(Term('literal', result.columns[place]))} .\n",
                    f"{one} {_rs('value')} {_term(cell)} .\n",
                ]
        yield "".join(lines)


def _rs(name: str) -> str:
    return f"<{_RS}{name}>"


def _term(cell: Cell) -> str:
    assert cell is not None
    if cell.type == "uri":
        return f"<{_iri(cell.value)}>"
    if cell.type == "bnode":
        return f"_:b{_NOT_LABEL.sub('x', cell.value)}"
    tag = f"@{cell.language}" if cell.language else f"^^<{_iri(cell.datatype)}>" if cell.datatype else ""
    return f'"{cell.value.translate(_ESCAPES)}"{tag}'


def _iri(text: str) -> str:
    return _NOT_IRI.sub(lambda found: f"%{ord(found[0]):02X}", text)
