"""What ``meta.json`` of an SKB says: format, schema, counts, checksums; and the small types its parts share.

The folder's layout is described in docs/skb-format.md.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kbnav.errors import DataError, UsageError

FORMAT = 2
"""Version of the folder format; a higher one is refused. From 2 on ``Meta.indexed`` says what was indexed."""
META = "meta.json"
WORK = "build"
"""Folder of a build under way, within that of the SKB."""
TRIPLES = "rdf"
"""The stage of a build, and its folder, that holds what SPARQL runs on; it goes on beside other stages."""
LSA = "lsa"
"""``Meta.encoder`` where the encoder was fitted on the texts themselves."""

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total); total is 0 where it is not known."""

Style = Literal["plain", "stark-amazon", "stark-mag", "stark-prime"]
"""How documents are rendered as text; the ``stark-`` ones reproduce STaRK's own."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


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


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NodeType(_Frozen):
    """A node type; its nodes are numbered without a gap, in the order of ``Meta.types``."""

    name: str
    count: Annotated[int, Field(ge=0)]


class Relation(_Frozen):
    """A relation, that is an edge type."""

    name: str
    count: Annotated[int, Field(ge=0)]


class TypeTuple(_Frozen):
    """How many edges lead from one node type by one relation to another; fields are names."""

    source: str
    relation: str
    target: str
    count: Annotated[int, Field(ge=1)]


class Dropped(_Frozen):
    """What a build left out or changed for one reason, with the first few cases."""

    count: int
    examples: tuple[str, ...] = ()


class FileInfo(_Frozen):
    """Size in bytes and SHA-256 of one file."""

    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Meta(_Frozen):
    """The content of ``meta.json``. ``data`` is the folder of the build in use; ``files`` are relative to it."""

    format: int = FORMAT
    name: str
    source: str
    data: Annotated[str, Field(pattern="^data-[0-9a-f]{12}$")]
    style: Style = "plain"
    indexed: Style = "plain"
    """The rendering that texts and vectors were indexed in; format 1, which has no such field, knew the plain one."""
    alias_fields: tuple[str, ...] = ()
    types: tuple[NodeType, ...]
    relations: tuple[Relation, ...]
    tuples: tuple[TypeTuple, ...]
    dropped: Mapping[str, Dropped] = {}
    encoder: str = ""
    sparql: bool = False
    tokens: Annotated[int, Field(ge=0)] | None = None
    """Words, between white space, of all documents as they are indexed without relations; None: not counted."""
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
        """See ``schema_sha256``."""
        return schema_sha256((one.source, one.relation, one.target) for one in self.tuples)

    @property
    def average_degree(self) -> float:
        """Edges of a node on the average, each edge counted at both its ends (STaRK, Table 2)."""
        return 2 * self.edges / self.nodes if self.nodes else 0.0

    @property
    def outdated(self) -> bool:
        """Whether an earlier version built the indexes, from another rendering than the documents' own."""
        return self.indexed != self.style

    @property
    def type_start(self) -> list[int]:
        """Type ``t`` has the node numbers ``type_start[t]`` up to, not including, ``type_start[t + 1]``."""
        return type_starts([kind.count for kind in self.types])


def has_approximate(meta: Meta) -> bool:
    """Whether a build in a folder has an approximate index of vectors."""
    return any(name.split("/")[0].endswith("-ann") for name in meta.files)


def schema_sha256(edges: Iterable[tuple[str, str, str]]) -> str:
    """Of the kinds of edges (source, relation, target), whatever their counts: what a training is bound to."""
    return hashlib.sha256(json.dumps(sorted(edges)).encode()).hexdigest()


def type_starts(counts: Sequence[int]) -> list[int]:
    """Where each type's node numbers begin, and behind the last type the number of nodes."""
    return [0, *accumulate(counts)]


def read_meta(folder: Path) -> Meta:
    """Read ``meta.json`` of an SKB. Raises UsageError where there is none, DataError where it is damaged or too new."""
    path = folder / META
    try:
        document = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"{folder} is not an SKB: {_why_not(folder)}") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("format"), int):
        raise DataError(f"{path}: not the description of an SKB: it has no format number")
    if document["format"] > FORMAT:
        raise DataError(f"{path}: format {document['format']} is newer than {FORMAT}, the newest this version reads")
    checksum = document.pop("checksum", None)
    if checksum != _checksum(document):
        raise DataError(f"{path}: its checksum does not match; the file was changed or damaged")
    try:
        return Meta.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{path}: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from error


def _why_not(folder: Path) -> str:
    if not folder.is_dir():
        return "there is no such folder"
    return "its build was not finished; run it again" if (folder / WORK).is_dir() else f"it has no {META}"


def write_meta(folder: Path, meta: Meta) -> None:
    """Put ``meta.json`` in place in one step: a reader sees the old file or the new one."""
    document = meta.model_dump(mode="json")
    document["checksum"] = _checksum(document)
    new = folder / f"{META}.new"
    with new.open("w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, indent=1)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / META)


def _checksum(document: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
