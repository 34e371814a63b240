"""The tables of an SKB on LanceDB, in a folder or an object store, and how they are found.

``nodes`` has a row a node, in the order of their numbers: key (the number), type, document, for each index of texts the
words of names and bodies, for each index of vectors a vector. ``words`` says how many nodes have a word. ``files`` has,
in pieces, the files that every reader maps into its memory: graph, ids, names, and what an encoder fitted. ``builds``
has a row for each finished build, which names the versions of the other tables that belong together: it is written
last, so that no reader meets half a build.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from kbnav.errors import CredentialsError, DataError, KbnavError, ServiceError, UsageError
from kbnav.knowledge.skb.files import file_info, reading
from kbnav.knowledge.skb.schema import RELATIONAL_TEXT, RELATIONAL_VECTORS, TEXT, VECTORS, Meta, Range
from kbnav.settings.plugins import needs

NODES, WORDS, FILES, BUILDS, UNFINISHED = "nodes", "words", "files", "builds", "unfinished"
FORMAT = 2
KEY, TYPE, DOCUMENT = "key", "type", "document"
FIELDS = ("name", "body")
"""Of a text index."""
MOVED = "places/"
"""Files of an SKB whose rows an earlier version of kbnav changed one by one: they are not in the order of nodes."""
PIECE = 1 << 22
"""Bytes of a file in one row."""
SCHEMES = ("s3://", "gs://", "az://")
"""How the address of a place in an object store begins."""
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""Variables that name another S3 server than Amazon's."""

_NO_KEYS = ("Failed to get AWS credentials", "CredentialsNotLoaded", "credential provider was not enabled")
_REFUSED = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "ExpiredToken", "status: 401", "status: 403")
_NO_ANSWER = "kind: Connect|ConnectError|kind: Timeout|error sending request|operation timed out|dns error|status: 503"
_WHOLE = ("nodes/", "graph/", "names/", "rdf/")
_IN_COLUMNS = ("vectors.npy", "hashes.npy", "quantized.npy", "steps.npy")  # the last two of earlier versions

Table = Any
"""A table of ``lancedb``."""
Numbers = npt.NDArray[np.int64]


def is_address(place: str) -> bool:
    """Whether a place is in an object store."""
    return place.startswith(SCHEMES)


def is_lance(place: str) -> bool:
    """Whether a place is, by its looks, that of tables: an address, or a folder with builds or one under way."""
    return is_address(place) or any((Path(place) / f"{name}.lance").is_dir() for name in (BUILDS, UNFINISHED))


def require() -> Any:
    """The package ``lancedb``. Raises UsageError where it is not installed."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # else it warns of each table that it makes
    with needs("lance", "an SKB on LanceDB"):
        import lancedb
    return lancedb


def connect(place: str) -> Any:
    """The tables in a folder or below an address such as s3://bucket/name; credentials are in the environment.

    Raises UsageError without ``lancedb``.
    """
    options: dict[str, str] = {}
    if is_address(place):
        # By default ten tries in three minutes: a user at a prompt should see sooner that nothing is there.
        options = {"client_max_retries": "3", "client_retry_timeout": "20", "connect_timeout": "10s"}
    if place.startswith("s3://") and (endpoint := s3_endpoint()):
        options |= {"aws_endpoint": endpoint, "allow_http": str(endpoint.startswith("http://")).lower()}
    return require().connect(place, storage_options=options)


def s3_endpoint() -> str:
    """The S3 server that the environment names; empty for Amazon's."""
    return next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), "")


@contextmanager
def asking(place: str) -> Iterator[None]:
    """Around calls of LanceDB: what it raises, pages of it, becomes one line that begins with the place.

    Raises CredentialsError, ServiceError where the object store does not answer, and UsageError for all else.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:300]
        raise _trouble(place, error) or UsageError(f"{place}: {first}") from error


@contextmanager
def reaching(place: str) -> Iterator[None]:
    """Around reads of open tables: only what is the object store's fault is reported as by ``asking``."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        if trouble := _trouble(place, error):
            raise trouble from error
        raise


def _trouble(place: str, error: BaseException) -> KbnavError | None:
    """The error to raise where a store cannot be reached or refuses; None for any other."""
    message, bucket = str(error), urlsplit(place).netloc
    where = s3_endpoint() or "its object store"
    if any(mark in message for mark in _NO_KEYS):
        return CredentialsError(
            f"{place}: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    if "NoSuchBucket" in message:
        return UsageError(f"{place}: there is no bucket {bucket!r} at {where}")
    if any(mark in message for mark in _REFUSED):
        code = re.search(r"<Code>(\w+)</Code>", message)
        return CredentialsError(f"{place}: {where} refuses the credentials{f' ({code[1]})' if code else ''}")
    if re.search(_NO_ANSWER, message):
        return ServiceError(f"{place}: {where} does not answer")
    return None


@dataclass(frozen=True)
class TextStats:
    """What BM25 must know of all texts of an index: the words of the names and of the bodies, counted together."""

    name_words: int
    body_words: int
    stretch: float
    """The most that a text is longer than the length it counts as (see ``store.LanceText``), as a ratio."""


@dataclass(frozen=True)
class Build:
    """One build of an SKB: its description, and the versions of the tables by name."""

    meta: Meta
    versions: dict[str, int]
    text: dict[str, TextStats]
    """By index of texts."""
    vectors: dict[str, int]
    """Numbers of a vector, by index of vectors."""
    content: str
    """Of the rows of ``nodes``: see ``build.Content``."""
    approximate: bool = False
    """Whether there is an approximate index of the vectors."""
    number: int = 0
    """What names the build: 1 for the first in its place."""
    written: str = ""
    """When it was finished: ISO 8601, UTC."""

    def dump(self) -> str:
        """As JSON, without the number and the time."""
        rest = {name: value for name, value in asdict(self).items() if name not in ("meta", "number", "written")}
        rest["next_key"] = self.meta.nodes  # earlier versions want it
        return json.dumps({"format": FORMAT, "meta": self.meta.model_dump(mode="json"), **rest})

    @classmethod
    def load(cls, place: str, row: Mapping[str, Any]) -> Build:
        """What a row of ``builds`` says. Raises DataError."""
        try:
            found = json.loads(row["build"])
            if (written := found.pop("format")) != FORMAT:
                what = "build it again" if written < FORMAT else "a newer version of kbnav wrote them"
                raise DataError(f"{place}: tables of format {written}, where this version reads {FORMAT}: {what}")
            found["text"] = {name: TextStats(**one) for name, one in found["text"].items()}
            found["meta"] = Meta.model_validate(found["meta"])
            found.pop("next_key")
            if any(name.startswith(MOVED) for name in found["meta"].files):
                raise DataError(f"{place}: an earlier version of kbnav updated it row by row: build it again")
            return cls(**found, number=row["number"], written=row["written"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{place}: not the description of an SKB: {error!r}") from error


def table_names(tables: Any) -> set[str]:
    """The tables that there are."""
    return set(tables.list_tables().tables)


def read_builds(place: str) -> list[Build]:
    """All finished builds, the oldest first. Raises UsageError where there is none."""
    if not is_address(place) and not Path(place).is_dir():
        raise UsageError(f"{place} is not an SKB on LanceDB: there is no such folder")
    with asking(place):
        tables = connect(place)
        names = table_names(tables)
        if BUILDS not in names:
            unfinished = UNFINISHED in names
            reason = "its build was not finished; run it again" if unfinished else "there are no tables of one"
            raise UsageError(f"{place} is not an SKB on LanceDB: {reason}")
    if not (rows := _rows(place, tables)):
        raise DataError(f"{place}: the list of builds is empty")
    return sorted((Build.load(place, row) for row in rows), key=lambda build: build.number)


@reading("the list of builds")
def _rows(place: str, tables: Any) -> list[Mapping[str, Any]]:
    with reaching(place):
        rows: list[Mapping[str, Any]] = tables.open_table(BUILDS).to_arrow().to_pylist()
    return rows


def read_build(place: str, version: int | None = None) -> Build:
    """A build by its number; None: the last. Raises UsageError where there is none."""
    builds = read_builds(place)
    found = {build.number: build for build in builds}.get(version or builds[-1].number)
    if found is None:
        there = ", ".join(str(build.number) for build in builds)
        raise UsageError(f"{place} has no version {version}; there are: {there}")
    return found


def open_table(tables: Any, build: Build, name: str) -> Table:
    """A table as it was when a build was finished."""
    table = tables.open_table(name)
    table.checkout(build.versions[name])
    return table


def finish(tables: Any, build: Build) -> Build:
    """Let a build be the one in use: its tables' versions get a name, which keeps them, and readers find it."""
    import pyarrow as pa

    schema = pa.schema([("number", pa.int64()), ("written", pa.string()), ("build", pa.large_string())])
    there = BUILDS in table_names(tables)
    builds = tables.open_table(BUILDS) if there else tables.create_table(BUILDS, schema=schema)
    numbers = builds.search().select(["number"]).limit(builds.count_rows() or 1).to_arrow()["number"].to_pylist()
    number, now = max(numbers, default=0) + 1, datetime.now(UTC).isoformat(timespec="seconds")
    for name, version in build.versions.items():
        tags, tag = tables.open_table(name).tags, build_tag(number)
        (tags.update if tag in tags.list() else tags.create)(tag, version)
    builds.add([{"number": number, "written": now, "build": build.dump()}])
    return replace(build, number=number, written=now)


def build_tag(number: int) -> str:
    """What the versions of a build's tables are called there."""
    return f"build-{number}"


def column(part: str, field: str = "") -> str:
    """The column of an index; of one of texts, of its ``name`` or ``body``."""
    return "_".join(filter(None, (part.replace("-", "_"), field)))


def where_words(part: str, words: Iterable[str]) -> str:
    """The condition that keeps the rows of some words of an index in the table ``words``."""
    listed = ", ".join("'" + word.replace("'", "''") + "'" for word in words)
    return f"part = '{part}' AND word IN ({listed})"


def conditions(
    type_start: Sequence[int], ranges: Sequence[Range] | None, among: Collection[int] | None, most: int
) -> list[str]:
    """Conditions that keep nodes in any of the ranges and among those given, for a query each; "" for all.

    One names ``most`` nodes at most.
    """
    if among is not None:
        keys = inside(among, ranges).tolist()
        parts = (keys[first : first + most] for first in range(0, len(keys), most))
        return [f"{KEY} IN ({', '.join(map(str, part))})" for part in parts]
    if ranges is None:
        return [""]
    types = {bounds: number for number, bounds in enumerate(pairwise(type_start))}
    within = [
        f"{TYPE} = {types[first, end]}" if (first, end) in types else f"({KEY} >= {first} AND {KEY} < {end})"
        for first, end in ranges
        if first < end
    ]
    return [f"({' OR '.join(within)})"] if within else []


def inside(among: Collection[int], ranges: Sequence[Range] | None) -> Numbers:
    """The nodes of a collection, each once, ascending, that are in any of the ranges."""
    nodes = np.unique(np.fromiter(among, np.int64, len(among)))
    if ranges is None:
        return nodes
    kept = [(nodes >= first) & (nodes < end) for first, end in ranges]
    return nodes[np.any([np.zeros(len(nodes), bool), *kept], axis=0)]


def is_file(name: str) -> bool:
    """Whether a file of a build in a folder stays a file; what the others hold is in the columns of ``nodes``."""
    folder, _, rest = name.partition("/")
    if folder in (TEXT, RELATIONAL_TEXT):
        return rest == "text.json"
    return name.startswith(_WHOLE) or (folder in (VECTORS, RELATIONAL_VECTORS) and rest not in _IN_COLUMNS)


def file_schema() -> Any:
    """The columns of the table ``files``."""
    import pyarrow as pa

    return pa.schema([("name", pa.string()), ("piece", pa.int64()), ("content", pa.large_binary())])


def pieces(data: Path, name: str) -> Iterator[Any]:
    """A file of a build as batches of the table ``files``."""
    import pyarrow as pa

    with (data / name).open("rb") as file:
        place = 0
        while (part := file.read(PIECE)) or not place:
            columns = [pa.array([name]), pa.array([place], pa.int64()), pa.array([part], pa.large_binary())]
            yield pa.record_batch(columns, schema=file_schema())
            place += 1


def piece(table: Table, name: str, place: int) -> bytes:
    """One piece of a file, empty where there is none."""
    rows = table.search().where(f"name = '{name}' AND piece = {place}").select(["content"]).limit(1).to_arrow()
    return bytes(rows["content"][0].as_py()) if rows.num_rows else b""


def fetch(table: Table, meta: Meta, folder: Path, below: str) -> Path:
    """Write the files whose names begin so into a folder, where they are not there yet; returns the folder below it.

    Each comes into its place whole, so that processes that fetch at the same time do no harm. Raises DataError where
    one is not what was written.
    """
    for name, info in meta.files.items():
        path = folder / name
        if not (name.startswith(below) and is_file(name)) or (path.is_file() and path.stat().st_size == info.bytes):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".fetched-", delete=False) as part:
            try:
                for place in range(max(1, -(-info.bytes // PIECE))):
                    part.write(piece(table, name, place))
                part.flush()
                if file_info(Path(part.name)) != info:
                    raise DataError(f"{name}: its content is not what was written")
                Path(part.name).replace(path)
            except BaseException:
                Path(part.name).unlink()
                raise
    return folder / below.rstrip("/")
