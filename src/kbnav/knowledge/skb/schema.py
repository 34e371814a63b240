"""What ``meta.json`` of an SKB says, the records that an SKB is built from, and the types its parts share.

The folder's layout is described in docs/skb-format.md.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field, ValidationError

from kbnav.answers.tables import encodable
from kbnav.errors import DataError, UsageError
from kbnav.runs.journal import first_problem, write_whole
from kbnav.settings.model import Strict
from kbnav.settings.plugins import did_you_mean

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FORMAT = 3
"""Version of the folder format; another is refused."""
META = "meta.json"
WORK = "build"
"""Folder of a build under way, within that of the SKB."""
TRIPLES = "rdf"
"""The stage of a build, and its folder, that holds what SPARQL runs on; it goes on beside other stages."""
GRAPH, TEXT, NAMES, VECTORS = "graph", "text", "names", "vectors"
RELATIONAL_TEXT, RELATIONAL_VECTORS = "relational-text", "relational-vectors"
"""The stages and folders of the graph and the indexes; the relational ones are of documents with their relations."""
VECTORS_FILE, HASHES_FILE = "vectors.npy", "hashes.npy"
"""Files of an index of vectors."""
SCHEMES = ("s3://", "gs://", "az://")
"""How the address of a place in an object store begins."""
NODES, BUILDS = "nodes", "builds"
"""Tables of an SKB on LanceDB."""
LSA = "lsa"
"""``Meta.encoder`` where the encoder was fitted on the texts themselves."""
ALIAS_FIELDS = ("aliases", "alias", "synonyms")
"""Document fields that hold other names, where a source does not say otherwise; a dot goes into a nested field."""
UNNAMED = "node without a name (kept, its id is shown)"
"""A reason in ``Meta.dropped``."""
DANGLING = "edge “{}” to a node that does not exist"
"""Another, of edges by a relation."""
UNTYPED = "node"
"""The type of nodes whose records have none."""
EXAMPLES = 5
MEMORY = 2 << 30
"""Bytes that reading one record, pickle or tensor may take, unless a source is given another number."""
DEEPEST = 100
"""How deep the values of a record may be nested."""
_PER_VALUE = 128

Fields = Mapping[str, Any]
"""A document: plain JSON values by field name."""
Hit = tuple[int, float]
"""A node number and its score; higher is better."""
Range = tuple[int, int]
"""Node numbers from the first up to, not including, the second."""
Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total); total is 0 where it is not known."""
Style = Literal["plain", "stark-amazon", "stark-mag", "stark-prime"]
"""How documents are rendered as text; the ``stark-`` ones reproduce STaRK's own."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Ignore the progress."""


class NodeText(NamedTuple):
    """One node as the text, name and vector indexes see it; ``text`` is empty where only names are wanted."""

    number: int
    type: int
    name: str
    aliases: tuple[str, ...]
    text: str
    names_in_text: bool = False
    """Whether ``text`` has the names in it already, as STaRK's rendering does."""

    @property
    def document(self) -> str:
        """All that is indexed of the node: its name, its aliases and its text."""
        if self.names_in_text:
            return self.text
        return "\n".join(part for part in (self.name, ", ".join(self.aliases), self.text) if part)


class NodeType(Strict):
    """A node type; its nodes are numbered without a gap, in the order of ``Meta.types``."""

    name: str
    count: Annotated[int, Field(ge=0)]


class Relation(NodeType):
    """A relation, that is an edge type."""


class TypeTuple(Strict):
    """How many edges lead from one node type by one relation to another; fields are names."""

    source: str
    relation: str
    target: str
    count: Annotated[int, Field(ge=1)]


class Dropped(Strict):
    """What a build left out or changed for one reason, with the first few cases."""

    count: int
    examples: tuple[str, ...] = ()


class FileInfo(Strict):
    """Size in bytes and SHA-256 of one file."""

    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Meta(Strict):
    """The content of ``meta.json``. ``data`` is the folder of the build in use; ``files`` are relative to it."""

    format: int = FORMAT
    name: str
    source: str
    data: Annotated[str, Field(pattern="^data-[0-9a-f]{12}$")]
    style: Style = "plain"
    indexed: Style = "plain"
    """The rendering that texts and vectors were indexed in: the documents' own."""
    alias_fields: tuple[str, ...] = ()
    types: tuple[NodeType, ...]
    relations: tuple[Relation, ...]
    tuples: tuple[TypeTuple, ...]
    dropped: Mapping[str, Dropped] = {}
    encoder: str = ""
    sparql: bool = False
    tokens: Annotated[int, Field(ge=0)] | None = None
    """Words, between white space, of all documents as they are indexed without relations; None: not counted."""
    recipe: Mapping[str, Any] = {}
    """What ``importers.tables.Recipe`` says of it, with paths relative to the SKB's folder; empty: not known."""
    files: Mapping[Annotated[str, Field(pattern=r"^\.?[\w-][\w.-]*(/\.?[\w-][\w.-]*)*$")], FileInfo]

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(kind.count for kind in self.types)

    @property
    def edges(self) -> int:
        """Number of edges; parallel edges of different relations count each."""
        return sum(relation.count for relation in self.relations)

    @property
    def schema_sha256(self) -> str:
        """Of the kinds of edges, whatever their counts: what a training is bound to."""
        edges = sorted((tuple_.source, tuple_.relation, tuple_.target) for tuple_ in self.tuples)
        return hashlib.sha256(json.dumps(edges).encode()).hexdigest()

    @property
    def average_degree(self) -> float:
        """Edges of a node on the average, each edge counted at both its ends (STaRK, Table 2)."""
        return 2 * self.edges / self.nodes if self.nodes else 0.0

    def dropped_since(self, old: Meta) -> dict[str, Dropped]:
        """What was left out or changed since another description, whose cases this counts too."""
        found = dict[str, Dropped]()
        for reason, one in self.dropped.items():
            known = old.dropped.get(reason, Dropped(count=0))
            cases = tuple(case for case in one.examples if case not in known.examples)
            sure = len(cases) if known.count == len(known.examples) else 0  # others may have come since
            if count := max(one.count - known.count, sure):
                found[reason] = Dropped(count=count, examples=cases)
        return found

    @property
    def type_start(self) -> list[int]:
        """Type ``t`` has the node numbers ``type_start[t]`` up to, not including, ``type_start[t + 1]``."""
        return type_starts([kind.count for kind in self.types])


def type_starts(counts: Sequence[int]) -> list[int]:
    """Where each type's node numbers begin, and behind the last type the number of nodes."""
    return [0, *accumulate(counts)]


def folders_beside(path: Path) -> list[str]:
    """The folders of SKBs and mirrors beside a path, as they would be written."""
    return [str(one.parent) for one in path.parent.glob(f"*/{META}")]


def is_address(place: str) -> bool:
    """Whether a place is in an object store."""
    return place.startswith(SCHEMES)


def is_lance(place: str) -> bool:
    """Whether a place is, by its looks, that of tables: an address, or a folder with some."""
    return is_address(place) or any((Path(place) / f"{name}.lance").is_dir() for name in (BUILDS, NODES))


def read_meta(folder: Path) -> Meta:
    """Read ``meta.json`` of an SKB. Raises UsageError where there is none, DataError where it is damaged or too new."""
    path = folder / META
    try:
        document = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        near = did_you_mean(str(folder), folders_beside(folder))
        reason = f"it has no {META}" if folder.is_dir() else f"there is no such folder{near}"
        if (folder / WORK).is_dir():
            reason = "its build was not finished; run it again"
        raise UsageError(f"{folder} is not an SKB: {reason}") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("format"), int):
        raise DataError(f"{path}: not the description of an SKB: it has no format number")
    if document["format"] > FORMAT:
        raise DataError(f"{path}: format {document['format']} is newer than {FORMAT}, the newest this version reads")
    if document["format"] < FORMAT:
        raise DataError(f"{path}: an earlier version of kbnav built it (format {document['format']}): build it again")
    checksum = document.pop("checksum", None)
    if checksum != _checksum(document):
        raise DataError(f"{path}: its checksum does not match; the file was changed or damaged")
    try:
        return Meta.model_validate(document)
    except ValidationError as error:
        raise DataError(f"{path}: {first_problem(error)}") from error


def write_meta(folder: Path, meta: Meta) -> None:
    """Put ``meta.json`` in place in one step: a reader sees the old file or the new one."""
    document = meta.model_dump(mode="json")
    document["checksum"] = _checksum(document)
    write_whole(folder / META, json.dumps(document, ensure_ascii=False, indent=1))


def _checksum(document: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


class NodeRecord(NamedTuple):
    """A node: its id, type, name, and the fields of its document (plain JSON values)."""

    id: str
    type: str
    name: str
    fields: Fields
    left_out: str = ""
    """Why it is none: the reason that it is counted by. Empty for all others."""


class EdgeRecord(NamedTuple):
    """A directed edge between two node ids; or that it is to be deleted."""

    source: str
    relation: str
    target: str
    deleted: bool = False

    @property
    def case(self) -> str:
        """What it is called among losses."""
        return f"{self.source} {self.relation} {self.target}"


class EdgeArrays(NamedTuple):
    """Edges, shape [edges] each, by positions in ``Source.nodes`` and in ``Source.relations``."""

    source: npt.NDArray[np.integer[Any]]
    relation: npt.NDArray[np.integer[Any]]
    target: npt.NDArray[np.integer[Any]]


class Source(Protocol):
    """Where an SKB is built from. ``nodes`` is read to its end before ``edges``, each once a build."""

    @property
    def description(self) -> str:
        """One line for ``meta.json``: the format and the files' names."""

    @property
    def fingerprint(self) -> str:
        """Changes when the input does; a build that was cut off goes on only where it is the same."""

    @property
    def style(self) -> Style:
        """How documents are rendered."""

    @property
    def types(self) -> Sequence[str]:
        """Types to number first, in this order; others follow as they appear."""

    @property
    def relations(self) -> Sequence[str]:
        """Relations to number first, in this order; others follow as they appear."""

    @property
    def alias_fields(self) -> Sequence[str]:
        """Document fields with other names of the node."""

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """Every node; what is left out is counted in ``losses``. Raises DataError with file and line."""

    def edges(self, losses: Losses) -> Iterator[EdgeRecord | EdgeArrays]:
        """Every edge; what is left out is counted in ``losses``. Raises DataError with file and line."""


@dataclass
class Losses:
    """Counts what a build leaves out, by reason, and keeps the first few cases of each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    again: list[EdgeRecord] = field(default_factory=list)
    """Edges to nodes that did not exist, which an earlier build counted, and which are read anew."""

    def add(self, reason: str, case: str, count: int = 1) -> None:
        """Count one case, or ``count`` cases of which ``case`` is the first."""
        self.counts[reason] += count
        examples = self.examples.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            examples.append(encodable(case[:200]))

    def take(self, report: Mapping[str, Mapping[str, Any]]) -> None:
        """Count what another's ``report`` has."""
        for reason, one in report.items():
            self.counts[reason] += one["count"]
            cases = dict.fromkeys((*self.examples.get(reason, ()), *one["examples"]))
            self.examples[reason] = [*cases][:EXAMPLES]

    def take_back(self, given: Sequence[EdgeRecord], counted: Set[EdgeRecord]) -> None:
        """Forget edges to nodes that did not exist: ``counted``, and of ``given`` the cases; all with all cases."""
        cases = {edge.case for edge in given}
        whole = {reason for reason, known in self.examples.items() if known and cases.issuperset(known)}
        for edge in dict.fromkeys((*counted, *given)):
            reason = DANGLING.format(edge.relation)
            if reason in self.counts and (edge in counted or reason in whole or edge.case in self.examples[reason]):
                self.counts[reason] -= 1
                self.examples[reason] = [one for one in self.examples[reason] if one != edge.case]
                if self.counts[reason] <= 0:
                    del self.counts[reason], self.examples[reason]

    def report(self) -> dict[str, dict[str, Any]]:
        """The counts and examples by reason, each as a ``Dropped``."""
        return {reason: {"count": count, "examples": self.examples[reason]} for reason, count in self.counts.items()}

    @property
    def dropped(self) -> dict[str, Dropped]:
        """The same, as what a description has."""
        return {reason: Dropped.model_validate(one) for reason, one in self.report().items()}


def refuse_unbounded(value: Any, memory: int, place: str) -> None:
    """Raise DataError, which begins with ``place``, where plain data is nested too deep or unfolds to too much.

    Data from a pickle may hold one list many times, or itself; written out, it would have no end.
    """
    most = max(memory // _PER_VALUE, 1)
    left, todo = most, [(value, 0)]
    while todo:
        one, depth = todo.pop()
        if depth > DEEPEST:
            raise DataError(f"{place}: nested more than {DEEPEST} deep")
        if isinstance(one, (list, tuple, dict)):
            left -= len(one)
            if left < 0:
                raise DataError(f"{place}: more than {most:,} values in one record")
            todo += [(inner, depth + 1) for inner in (one.values() if isinstance(one, dict) else one)]
