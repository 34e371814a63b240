"""Answers as data: typed tables of query results, and rankings of nodes."""

from __future__ import annotations

import csv
import io
import json
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, repeat
from math import isclose
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote, unquote

from pydantic import BeforeValidator

from kbnav.errors import BadResponse


def encodable(text: str) -> str:
    """The text with lone surrogates, which JSON escapes can smuggle in and UTF-8 cannot carry, replaced by ``?``."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_SHORT = reprlib.Repr()
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = 3
_SHORT.maxstring, _SHORT.maxother = 80, 200


def _brief(record: Any) -> str:
    known = ((one.name, getattr(record, one.name), one.default) for one in fields(record))
    told = (f"{name}={_SHORT.repr(value)}" for name, value, usual in known if value != usual and value not in ((), {}))
    return f"{type(record).__name__}({', '.join(told)})"


class Brief:
    """A dataclass whose ``repr`` has the fields that are not as by default, long ones cut."""

    def __init_subclass__(cls) -> None:
        cls.__repr__ = _brief  # type: ignore[method-assign]  # before the dataclass makes one


TermType = Literal["uri", "literal", "bnode"]
_ENTITY = re.compile(r"/(?:entity|prop(?:/[a-z/-]+)?)/([QPL][1-9]\d*(?:-[FS]\d+)?)$")
ENTITY_IRI = re.compile(r"https?://\S+?/entity/([QPL][1-9]\d*(?:-[FS]\d+)?)(?![\w-])")
"""The IRI of a Wikibase entity inside a text, as GROUP_CONCAT makes them."""
SKB_NODE = "urn:kbnav:node/"
"""What the IRIs of an SKB's nodes begin with; the id follows, percent-encoded."""
_XSD = "http://www.w3.org/2001/XMLSchema#"
_LETTER = r"0-9A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u3001-\ud7ff"
_LOCAL = re.compile(rf"[{_LETTER}](?:[{_LETTER}.-]*[{_LETTER}-])?")
"""What may stand behind a prefix as it is (SPARQL 1.1, section 19.8); not %, which Oxigraph misreads behind a dot."""
XSD_STRING = f"{_XSD}string"
_LONG_DOUBLE = re.compile(r"(?=(?:\D*\d){16})[+-]?(?!0+\.0000)\d{1,11}\.\d+")
_INTEGER = re.compile(r"integer|(unsigned)?(long|int|short|byte)|(non)?(negative|positive)Integer", re.IGNORECASE)


class Term(NamedTuple):
    """One RDF term as SPARQL 1.1 JSON results give it; ``datatype`` is None for plain strings."""

    type: TermType
    value: str
    datatype: str | None = None
    language: str | None = None

    @property
    def entity_id(self) -> str | None:
        """``Q42`` where the term is the IRI of a Wikibase entity, or of one of a property's predicates; a node's id."""
        if self.type == "uri" and self.value.startswith(SKB_NODE):
            return unquote(self.value.removeprefix(SKB_NODE))
        found = _ENTITY.search(self.value) if self.type == "uri" else None
        return found[1] if found else None

    @property
    def text(self) -> str:
        """The value to be shown: of a double without the last digits that sums add (60.10000000000001)."""
        long = self.datatype == f"{_XSD}double" and _LONG_DOUBLE.fullmatch(self.value)
        short = f"{float(self.value):.12g}" if long else ""
        return short if long and isclose(float(short), float(self.value), rel_tol=2e-14) else self.value

    def python_value(self) -> str | int | float | bool:
        """An entity's id, a number or truth value as Python's, anything else as its text."""
        kind = (self.datatype or "").removeprefix(_XSD)
        try:
            if _INTEGER.fullmatch(kind):
                return int(self.value)
            if kind in ("decimal", "double", "float"):
                number = float(self.value)  # Wikidata's amounts are decimals: 88 is a whole number
                return int(number) if kind == "decimal" and number.is_integer() else number
        except ValueError:  # an endpoint may say that a text is a number
            return self.value
        if kind == "boolean":
            return self.value in ("true", "1")
        return self.entity_id or self.value


def node_term(node: str) -> Term:
    """The IRI of an SKB's node, by its id."""
    return Term("uri", SKB_NODE + quote(node, safe=""))


Cell = Term | None
"""A table cell: a term, or None where the variable is unbound."""


def short_name(iri: str, prefixes: Mapping[str, str]) -> str:
    """``ex:Foo``, by the longest namespace that leaves a plain name; else ``<IRI>``. A query may have either."""
    best, name = "", f"<{iri}>"
    for prefix, namespace in prefixes.items():
        if len(namespace) > len(best) and iri.startswith(namespace) and _LOCAL.fullmatch(iri, len(namespace)):
            best, name = namespace, f"{prefix}:{iri[len(namespace) :]}"
    return name


LABELLED = 100
"""Rows of a result whose entities get labels, where each has to be asked for."""
LABELLED_HERE = 5000
"""The same where they are read on this machine."""


@dataclass(frozen=True)
class AnswerTable:
    """The result of a query.

    ``columns`` are variable names without ``?``; every row has ``len(columns)`` cells. An ASK query has no columns and
    no rows but a ``boolean``. A CONSTRUCT or DESCRIBE result has the columns ``subject``, ``predicate`` and ``object``.
    ``labels`` maps entity ids (``Q42``) to labels in the user's language. With ``prefixes`` every IRI is an entity, and
    its id is the ``short_name``; None: only the IRIs of a Wikibase's or an SKB's entities are, and they say the id.
    ``cut`` is a sentence on rows that the service left out; empty where it gave all, as far as it says. ``note`` is
    what else must be known of where the rows come from. ``concept_base`` is what the IRIs of a Wikibase's entities
    begin with, where IRIs of other sites are to be told from them. ``days`` are dates of 1 January known to the day.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    boolean: bool | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    prefixes: Mapping[str, str] | None = None
    cut: str = ""
    note: str = ""
    concept_base: str = ""
    days: tuple[str, ...] = ()

    def entity(self, cell: Cell) -> str | None:
        """Id of the entity that a cell is; None where it is none."""
        if cell is None or cell.type != "uri":
            return None
        if self.prefixes is not None:
            return short_name(cell.value, self.prefixes)
        own = cell.value.startswith(self.concept_base.removesuffix("entity/"))
        return cell.entity_id if own else None

    def unknown(self, cell: Cell) -> bool:
        """Whether a cell is a value that Wikidata states to be unknown: a blank node, or an IRI in place of one."""
        if cell is None or self.prefixes is not None:
            return False
        return cell.type == "bnode" or (cell.type == "uri" and "/.well-known/genid/" in cell.value)

    def only_year(self, cell: Cell) -> bool:
        """Whether a date stands for its year, which a Wikibase writes as 1 January."""
        date = cell.value if cell is not None and cell.datatype == f"{_XSD}dateTime" else ""
        return date.endswith("-01-01T00:00:00Z") and self.prefixes is None and date not in self.days

    def label(self, cell: Cell) -> str | None:
        """Its label, where that is known."""
        return self.labels.get(used) if (used := self.entity(cell)) else None

    def labelled_rows(self, most: int = LABELLED) -> tuple[tuple[Cell, ...], ...]:
        """The rows whose entities get labels: half from the beginning, half from the end."""
        half = most // 2
        return self.rows if len(self.rows) <= most else (*self.rows[:half], *self.rows[-half:])

    def projected(self, columns: Sequence[str]) -> AnswerTable:
        """The table with some of its columns, in the order given, each row once; whole where it has none of them."""
        places = [self.columns.index(column) for column in columns if column in self.columns]
        if not places or len(places) == len(self.columns):
            return self
        rows = tuple(dict.fromkeys(tuple(row[place] for place in places) for row in self.rows))
        return replace(self, columns=tuple(self.columns[place] for place in places), rows=rows)

    def __len__(self) -> int:
        """Number of rows; an ASK result counts as one row, because it is an answer."""
        return 1 if self.boolean is not None else len(self.rows)

    @classmethod
    def from_sparql_json(cls, document: Mapping[str, Any]) -> AnswerTable:
        """Read a SPARQL 1.1 Query Results JSON document. Raises BadResponse where it is not one."""
        try:
            if "boolean" in document:
                return cls(boolean=bool(document["boolean"]))
            columns = tuple(str(name) for name in document["head"]["vars"])
            rows = tuple(
                tuple(_term(binding[name]) if name in binding else None for name in columns)
                for binding in document["results"]["bindings"]
            )
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadResponse(f"not a SPARQL JSON result: {error!r}") from error
        return cls(columns, rows)

    @classmethod
    def from_records(cls, records: Sequence[Mapping[str, Any]]) -> AnswerTable:
        """Of plain Python values by column: numbers and truth values keep their type, all else but None is text."""
        columns = tuple(dict.fromkeys(name for record in records for name in record))
        rows = (tuple(_plain_term(record.get(name)) for name in columns) for record in records)
        return cls(tuple(map(str, columns)), tuple(rows))

    def to_sparql_json(self) -> dict[str, Any]:
        """The same table as a SPARQL 1.1 Query Results JSON document."""
        if self.boolean is not None:
            return {"head": {}, "boolean": self.boolean}
        return {"head": {"vars": list(self.columns)}, "results": {"bindings": self.bindings()}}

    def bindings(self) -> list[dict[str, dict[str, str]]]:
        """The rows as SPARQL JSON bindings; unbound cells are left out."""
        rows = (zip(self.columns, row, strict=True) for row in self.rows)
        return [{name: _binding(cell) for name, cell in row if cell is not None} for row in rows]

    def __str__(self) -> str:
        """The rows as a Markdown table, labels beside ids."""
        rows = self.records()
        return markdown_table([*rows[0]] if rows else self.columns, (list(row.values()) for row in rows))

    def records(self) -> list[dict[str, Any]]:
        """The rows as plain Python values by column; an unbound cell is None.

        An entity is its id, with its label, where one is known, beside it: ``who`` and ``whoLabel``. Numbers and truth
        values are Python's, all else is text. An ASK result is one row with the column ``boolean``.
        """
        if self.boolean is not None:
            return [{"boolean": self.boolean}]
        named = [
            number
            for number, name in enumerate(self.columns)
            if f"{name}Label" not in self.columns and any(self.label(row[number]) for row in self.rows)
        ]
        records = []
        for row in self.rows:
            record: dict[str, Any] = {}
            for number, (name, cell) in enumerate(zip(self.columns, row, strict=True)):
                is_iri = cell is not None and cell.type == "uri" and self.prefixes is not None
                record[name] = None if cell is None else cell.value if is_iri else cell.python_value()
                if number in named:
                    record[f"{name}Label"] = self.label(cell)
            records.append(record)
        return records

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Its ``records``, so that ``pandas.DataFrame(table)`` has them."""
        return iter(self.records())

    def to_csv(self) -> str:
        """Comma-separated values with a header, as SPARQL 1.1 CSV results give them (values without types)."""
        if self.boolean is not None:
            return csv_text([["boolean"], ["true" if self.boolean else "false"]], end="\r\n")
        rows = (["" if cell is None else cell.value for cell in row] for row in self.rows)
        return csv_text(chain([self.columns], rows), end="\r\n")


_TYPES: Mapping[str, TermType] = {"uri": "uri", "literal": "literal", "typed-literal": "literal", "bnode": "bnode"}


def _plain_term(value: object) -> Cell:
    if value is None:
        return None
    if isinstance(value, bool):
        return Term("literal", str(value).lower(), f"{_XSD}boolean")
    kind = "integer" if isinstance(value, int) else "double" if isinstance(value, float) else ""
    return Term("literal", encodable(str(value)), f"{_XSD}{kind}" if kind else None)


def _term(binding: Mapping[str, Any]) -> Term:
    if binding["type"] == "triple":
        return Term("literal", _notation(binding))
    kind = _TYPES[binding["type"]]
    datatype = binding.get("datatype")
    return Term(
        kind, encodable(binding["value"]), None if datatype == XSD_STRING else datatype, binding.get("xml:lang")
    )


def _notation(binding: Mapping[str, Any]) -> str:
    """A term as Turtle writes it; a triple term (RDF-star) is read as this text."""
    if binding["type"] == "triple":
        parts = (_notation(binding["value"][part]) for part in ("subject", "predicate", "object"))
        return f"<< {' '.join(parts)} >>"
    term = _term(binding)
    if term.type != "literal":
        return f"<{term.value}>" if term.type == "uri" else f"_:{term.value}"
    tag = f"@{term.language}" if term.language else f"^^<{term.datatype}>" if term.datatype else ""
    return json.dumps(term.value, ensure_ascii=False) + tag


def _binding(term: Term) -> dict[str, str]:
    more = {"datatype": term.datatype, "xml:lang": term.language}
    return {"type": term.type, "value": term.value, **{name: one for name, one in more.items() if one}}


AbsenceKind = Literal[
    "not stated", "stated none", "all excluded", "asks wrongly", "service failed", "split graph", "partial copy"
]
"""Why an answer is no, 0 or empty: nothing such is stated here; it is stated that there is none; a MINUS or NOT EXISTS
excludes all that the rest matches; the query does not ask for what is here; a service failed; the rows may be in the
graph of scholarly articles, which is another; or this is a copy of a part alone."""


@dataclass(frozen=True)
class Absence:
    """Which kind of nothing an answer is, in ``text``; ``part`` leaves no rows, ``instead`` would, where known."""

    kind: AbsenceKind
    text: str = ""
    part: str = ""
    instead: str = ""


Basis = Literal["", "generated", "seen"]
"""Why a node is in a ranking: it was chosen from what the knowledge base shows; it was chosen on facts that a model
generated; or it was not chosen, only seen on the way."""


class Ranked(NamedTuple):
    """One node of a ranking."""

    id: str
    score: float
    label: str = ""
    kind: str = ""
    """Type of the node."""
    basis: Basis = ""


_RECORD = ("rank", "name", "id", "type", "score", "basis")
"""What is told of a node, as ``Ranking.records`` name it."""
_Saved = Annotated[Ranked, BeforeValidator(lambda node: node[:5] if isinstance(node, list) else node)]
"""A node as a run's file has it; a sixth place is left out."""


@dataclass(frozen=True)
class Ranking:
    """Nodes with scores, best first; what retrieval systems and SKB agents return.

    ``found`` is of the query that found them: for each node a row, the node first, then what else the query gives.
    """

    nodes: tuple[_Saved, ...] = ()
    found: AnswerTable | None = None

    def __post_init__(self) -> None:
        # checkpoints give lists back
        object.__setattr__(self, "nodes", tuple(Ranked(*node[:5]) for node in self.nodes))
        if self.found is not None and len(self.found.rows) != len(self.nodes):
            raise ValueError(f"a ranking has {len(self.nodes)} nodes and {len(self.found.rows)} rows of its query")

    @property
    def ids(self) -> Sequence[str]:
        """The nodes' ids, best first."""
        return [node.id for node in self.nodes]

    @property
    def chosen(self) -> Sequence[Ranked]:
        """The nodes that are the answer, without those only seen on the way."""
        return [node for node in self.nodes if node.basis != "seen"]

    @property
    def scored(self) -> bool:
        """Whether the scores say more than the ranks: 1/rank is how an agent's choice is written down."""
        return any(abs(node.score - 1 / rank) > 0.001 for rank, node in enumerate(self.chosen, 1))

    def records(self) -> list[dict[str, Any]]:
        """The nodes as plain data: rank (from 1), name, id, type, score and basis, then what a query gave with them."""
        found = self.found or AnswerTable(("",), tuple((None,) for _ in self.nodes))
        records = []
        for rank, (node, more) in enumerate(zip(self.nodes, found.records(), strict=True), 1):
            own = dict(zip(_RECORD, (rank, node.label, node.id, node.kind, node.score, node.basis), strict=True))
            own_column = (found.columns[0], f"{found.columns[0]}Label")
            records.append(own | {name: value for name, value in more.items() if name not in own_column})
        return records

    def lines(self, fields: Sequence[Mapping[str, Any]] = ()) -> Iterator[Sequence[Any]]:
        """Names of columns, then the records, each with ``fields`` of its node; no scores that repeat the ranks."""
        left_out = () if self.scored else ("score",)
        records = [{name: one[name] for name in one if name not in left_out} for one in self.records()]
        own = [*records[0]] if records else _RECORD
        named = [{f"{name} (field)" if name in own else name: value for name, value in one.items()} for one in fields]
        columns = [*own, *dict.fromkeys(chain.from_iterable(named))]
        records = [one | more for one, more in zip(records, named or repeat({}), strict=False)]
        yield columns
        yield from ([record.get(name, "") for name in columns] for record in records)

    def __len__(self) -> int:
        return len(self.nodes)


# What could begin a link, an image, code, emphasis or HTML, or end the cell.
_ACTIVE = re.compile(r"([\\`*\[\]<>|])")


def csv_text(rows: Iterable[Iterable[object]], end: str = "\n") -> str:
    """Rows as comma-separated values, each line with this ``end``."""
    out = io.StringIO()
    csv.writer(out, lineterminator=end).writerows(rows)
    return out.getvalue()


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; cells are plain text on one line, whatever they hold."""
    lines = [[markdown_text(cell) for cell in line] for line in (header, *rows)]
    lines.insert(1, ["---"] * len(header))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def markdown_text(value: object) -> str:
    """The value as one line of text in which nothing is markup."""
    return _ACTIVE.sub(r"\\\1", " ".join(str(value).split()))
