"""Nodes and edges from RDF in any of its usual formats, also gzipped; of named graphs, all together.

Every IRI and blank node that is a subject, or the object of a link, is a node with its IRI as the id. ``rdf:type``
gives its type (the first there is; the others become the field ``type``), labels its name and ``aliases``. Literals
become fields of the document and links become relations, both named by the last part of their predicate; where two
predicates end alike, the second keeps its whole IRI.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from kbnav.answers.tables import Term
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.importers.files import files_fingerprint
from kbnav.knowledge.skb.schema import EdgeRecord, Losses, NodeRecord, Style

if TYPE_CHECKING:
    from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
NAMES = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
    "http://purl.org/dc/terms/title",
    "http://purl.org/dc/elements/1.1/title",
    "http://www.w3.org/2004/02/skos/core#altLabel",
)
"""Predicates of names, the best first."""
UNTYPED = "resource"
"""Type of a node without ``rdf:type``."""


@dataclass(frozen=True)
class RdfSource:
    """RDF files in memory, texts of one ``language``; ``label_properties`` are predicates of names that go first."""

    files: Sequence[Path]
    language: str = "en"
    label_properties: Sequence[str] = ()
    style: Style = "plain"
    types: Sequence[str] = ()
    relations: Sequence[str] = ()
    alias_fields: Sequence[str] = ("aliases",)

    @property
    def description(self) -> str:
        """The files' names."""
        return "RDF: " + ", ".join(path.name for path in self.files)

    @property
    def fingerprint(self) -> str:
        """Of the files' names, sizes and times."""
        return files_fingerprint(self.files, self.language, *self.label_properties)

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """Every node in the order of its first appearance. Raises UsageError, DataError with file and line."""
        found: dict[str, _Node] = {}
        predicates, types = _LocalNames(), _LocalNames()
        naming = {iri: place for place, iri in enumerate((*self.label_properties, *NAMES))}
        for subject, predicate, value in _triples(self.files):
            node = found.setdefault(subject, _Node())
            name = predicates.of(predicate)
            if predicate == TYPE and isinstance(value, str):
                node.types.append(types.of(value))
            elif isinstance(value, str):
                found.setdefault(value, _Node())
            elif predicate in naming:
                node.names.append((self._fit(value), naming[predicate], value.value))
            elif self._fit(value) < 2:
                node.fields.setdefault(name, []).append(_plain(value))
            else:
                losses.add(f"texts in other languages than {self.language}", f"{subject} {name}: {value.value}")
        for node_id, node in found.items():
            if not node.names:
                losses.add("node without a name (kept, the end of its IRI is shown)", node_id)
            yield node.record(node_id)

    def edges(self, losses: Losses) -> Iterator[EdgeRecord]:  # noqa: ARG002
        """Every link between nodes."""
        predicates = _LocalNames()
        for subject, predicate, value in _triples(self.files):
            name = predicates.of(predicate)
            if isinstance(value, str) and predicate != TYPE:
                yield EdgeRecord(subject, name, value)

    def _fit(self, text: Literal) -> int:
        """0 for a text in the language, 1 for one without any, 2 for others."""
        tag = (text.language or "").lower()
        return 0 if tag.split("-")[0] == self.language else 2 if tag else 1


@dataclass
class _Node:
    types: list[str] = field(default_factory=list)
    names: list[tuple[int, int, str]] = field(default_factory=list)
    """How well each name's language fits, which predicate it is from, and the name."""
    fields: dict[str, list[Any]] = field(default_factory=dict)

    def record(self, node_id: str) -> NodeRecord:
        names = list(dict.fromkeys(name for _, _, name in sorted(self.names, key=lambda item: item[:2])))
        fields: dict[str, Any] = {key: items[0] if len(items) == 1 else items for key, items in self.fields.items()}
        if names[1:]:
            fields["aliases"] = names[1:]
        if self.types[1:]:
            fields["type"] = self.types[1:]
        name = names[0] if names else unquote(_local(node_id)).replace("_", " ")
        return NodeRecord(node_id, self.types[0] if self.types else UNTYPED, name, fields)


class _LocalNames:
    """The last parts of IRIs as names; the whole IRI where another one has that name already."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, iri: str) -> str:
        if iri not in self._names:
            local = unquote(_local(iri))
            self._names[iri] = iri if local in self._taken or not local else local
            self._taken.add(local)
        return self._names[iri]


def _local(iri: str) -> str:
    return iri.rstrip("/#").rsplit("#", 1)[-1].rsplit("/", 1)[-1]


def _plain(value: Literal) -> Any:
    """A literal as a JSON value; one that its datatype does not allow stays a text."""
    found = Term("literal", value.value, value.datatype.value).python_value()
    return float(found) if value.datatype.value.endswith("#decimal") and isinstance(found, int) else found


def _triples(files: Sequence[Path]) -> Iterator[tuple[str, str, str | Literal]]:
    """Subject, predicate, and a node's id or a literal. Blank nodes are numbered as they appear in each file."""
    from pyoxigraph import Literal, NamedNode, Triple, parse

    for place, path in enumerate(files):
        blank: dict[str, str] = {}

        def name(term: NamedNode | BlankNode, blank: dict[str, str] = blank, place: int = place) -> str:
            if isinstance(term, NamedNode):
                return term.value
            return blank.setdefault(term.value, f"_:{place}-{len(blank)}")

        form = rdf_format(path)
        with opened(path) as file:
            for quad in parse(file, format=form):
                subject, value = quad.subject, quad.object
                if isinstance(subject, Triple) or isinstance(value, Triple):
                    raise DataError(f"{path}: statements about statements (RDF 1.2) are not read")
                yield name(subject), quad.predicate.value, value if isinstance(value, Literal) else name(value)


def rdf_format(path: Path) -> RdfFormat:
    """The format by the end of a file's name, which may have ``.gz`` behind it. Raises UsageError for others."""
    from pyoxigraph import RdfFormat

    suffix = Path(path.name.lower().removesuffix(".gz")).suffix.removeprefix(".")
    found = RdfFormat.from_extension({"owl": "rdf"}.get(suffix, suffix))
    if found is None:
        known = ".nt, .ttl, .nq, .trig, .rdf, .owl, .xml, .jsonld, also .gz"
        raise UsageError(f"{path}: the format must show in the name: {known}")
    return found


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """An RDF file, unpacked. Raises UsageError where it cannot be opened, and DataError where reading it fails."""
    try:
        with path.open("rb") as raw:
            yield cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if path.suffix.lower() == ".gz" else raw
    except FileNotFoundError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except SyntaxError as error:
        place = f", line {error.lineno}" if error.lineno else ""
        hint = "; put what the context says into the file" if "remote contexts" in str(error.msg) else ""
        raise DataError(f"{path}{place}: {error.msg}{hint}") from error
    except MemoryError as error:  # pyoxigraph's own limit
        raise DataError(f"{path}: a term is longer than 16 MiB") from error
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{path}: {error}") from error
