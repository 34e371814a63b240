"""An SKB in tables of LanceDB, in a folder or in an object store that many machines read: copied, checked, read.

``nodes`` has a row a node, in the order of their numbers: key (the number), document, and for each index of vectors a
vector. ``files`` has, in pieces, the other files of the SKB, which a reader fetches once for each copy and maps into
its memory. ``builds`` has one row, which describes the SKB and names the versions of the other tables that belong to
it: it is written last, so that no reader meets half a copy.

Ids and order are those of the local store. Vectors are found by LanceDB, and compared once more with the query's as the
local index does: LanceDB adds up in another order, which moves a cosine by a few millionths, so that an exact search
fetches some more than are wanted, and more again until those that are left are clearly worse. An approximate index
proposes nodes for searches without a filter.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from kbnav.encoders import Encoder, Vectors
from kbnav.errors import CredentialsError, DamagedKB, DataError, KbnavError, ServiceError, UsageError
from kbnav.knowledge.skb.files import file_info, reading
from kbnav.knowledge.skb.schema import (
    BUILDS,
    HASHES_FILE,
    NODES,
    RELATIONAL_VECTORS,
    VECTORS,
    VECTORS_FILE,
    Fields,
    FileInfo,
    Hit,
    Meta,
    Progress,
    Range,
    is_address,
    no_progress,
)
from kbnav.knowledge.skb.store import SKB, LocalSKB
from kbnav.knowledge.skb.vectors import VectorSearch, best
from kbnav.settings.plugins import needs

FILES = "files"
FORMAT = 3
KEY, DOCUMENT = "key", "document"
PIECE = 1 << 22
"""Bytes of a file in one row."""
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""Variables that name another S3 server than Amazon's."""

_NO_KEYS = ("Failed to get AWS credentials", "CredentialsNotLoaded", "credential provider was not enabled")
_REFUSED = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "ExpiredToken", "status: 401", "status: 403")
_NO_ANSWER = "kind: Connect|ConnectError|kind: Timeout|error sending request|operation timed out|dns error|status: 503"

_DOCUMENTS_KEPT = 4_096
_DOCUMENTS_AT_ONCE = 1_000
_MORE = 16  # candidates beyond what is wanted, at first
_CLOSE = 1e-5  # how far two ways to add up a cosine may be apart
_ROWS_AT_ONCE = 10_000  # read by their numbers
_EF = 1_600  # candidates that a search of HNSW goes on from: of Hetionet, 400 found 0.89 of the best 20, this many all
ROWS = 1_000
"""Rows that are in memory at once."""
_KEPT = timedelta(days=7)  # for readers of an older copy
_FEWEST = 1_000  # vectors worth an approximate index
_A_PARTITION = 1 << 20  # vectors
_DIGEST = 16  # bytes

Table = Any
"""A table of ``lancedb``."""


def connect(place: str) -> Any:
    """Tables in a folder or at an address (credentials in the environment). Raises UsageError without ``lancedb``."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # else it warns of each table that it makes
    with needs("lance", "an SKB on LanceDB"):
        import lancedb
    options: dict[str, str] = {}
    if is_address(place):
        # By default ten tries in three minutes: a user at a prompt should see sooner that nothing is there.
        options = {"client_max_retries": "3", "client_retry_timeout": "20", "connect_timeout": "10s"}
    if place.startswith("s3://") and (endpoint := s3_endpoint()):
        options |= {"aws_endpoint": endpoint, "allow_http": str(endpoint.startswith("http://")).lower()}
    return lancedb.connect(place, storage_options=options)


def s3_endpoint() -> str:
    """The S3 server that the environment names; empty for Amazon's."""
    return next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), "")


@contextmanager
def reaching(place: str, *, writing: bool = False) -> Iterator[None]:
    """Around calls of LanceDB: what is the object store's fault, pages of it, becomes one line that names the place.

    Raises CredentialsError, ServiceError where the object store does not answer, UsageError where there is no such
    bucket, and where something is to be written for all else; other errors of a reader are raised as they are.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        if trouble := _trouble(place, error):
            raise trouble from error
        if "KeyboardInterrupt" in str(error):  # as Arrow passes it on
            raise KeyboardInterrupt from error
        if writing:
            first = (str(error).splitlines() or [type(error).__name__])[0][:300]
            raise UsageError(f"{place}: {first}") from error
        raise


def _trouble(place: str, error: BaseException) -> KbnavError | None:
    message, bucket = str(error), urlsplit(place).netloc
    where = s3_endpoint() or "its object store"
    if any(mark in message for mark in _NO_KEYS):
        return CredentialsError(
            f"{place}: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    if "NoSuchBucket" in message:
        return UsageError(f"{place}: there is no bucket {bucket!r} at {where}")
    if any(mark in message for mark in _REFUSED):
        return CredentialsError(f"{place}: {where} refuses the credentials")
    if re.search(_NO_ANSWER, message):
        return ServiceError(f"{place}: {where} does not answer")
    return None


@dataclass(frozen=True)
class Build:
    """What the row of ``builds`` says: the SKB's description, and the versions of the tables by name."""

    meta: Meta
    versions: dict[str, int]
    vectors: dict[str, int]
    """Numbers of a vector, by index of vectors."""
    content: str
    """Of the rows of ``nodes``: see ``row_digest``."""
    approximate: bool
    """Whether there is an approximate index of the vectors."""

    def save(self, tables: Any) -> None:
        """Let it be the one in use."""
        document = {"format": FORMAT, **asdict(self), "meta": self.meta.model_dump(mode="json")}
        tables.create_table(BUILDS, [{"build": json.dumps(document)}], mode="overwrite")


@reading("the description of its tables")
def read_build(place: str) -> Build:
    """The build in use. Raises UsageError where there is none, DataError where it is damaged or of another format."""
    if not is_address(place) and not Path(place).is_dir():
        raise UsageError(f"{place} is not an SKB on LanceDB: there is no such folder")
    with reaching(place):
        tables = connect(place)
        if BUILDS not in tables.list_tables().tables:
            raise UsageError(f"{place} is not an SKB on LanceDB: no finished copy of one is there")
        rows = tables.open_table(BUILDS).to_arrow().to_pylist()
    try:
        found = json.loads(rows[0]["build"])
        if (written := found.pop("format")) != FORMAT:
            what = "copy the SKB again" if written < FORMAT else "a newer version of kbnav wrote them"
            raise DataError(f"{place}: tables of format {written}, where this version reads {FORMAT}: {what}")
        return Build(**{**found, "meta": Meta.model_validate(found["meta"])})
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{place}: not the description of an SKB: {error!r}") from error


def open_table(tables: Any, build: Build, name: str) -> Table:
    """A table as it was when a build was finished."""
    table = tables.open_table(name)
    table.checkout(build.versions[name])
    return table


def column(part: str) -> str:
    """The column of an index of vectors."""
    return part.replace("-", "_")


def is_file(name: str) -> bool:
    """Whether a file of an SKB in a folder stays a file; what the others hold is in the columns of ``nodes``."""
    folder, _, rest = name.partition("/")
    return folder != "documents" and rest not in (VECTORS_FILE, HASHES_FILE)


def piece(table: Table, name: str, place: int) -> bytes:
    """One piece of a file, empty where there is none."""
    rows = table.search().where(f"name = '{name}' AND piece = {place}").select(["content"]).limit(1).to_arrow()
    return bytes(rows["content"][0].as_py()) if rows.num_rows else b""


def fetch(table: Table, meta: Meta, folder: Path, part: str) -> Path:
    """Write the files of a part of the SKB below a folder, where they are not there yet; returns their own.

    Each comes into its place whole, so that processes that fetch at the same time do no harm. Raises DataError where
    one is not what was written.
    """
    wanted = {name: info for name, info in meta.files.items() if name.startswith(f"{part}/") and is_file(name)}
    for name, info in wanted.items():
        path = folder / name
        if path.is_file() and path.stat().st_size == info.bytes:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".fetched-", delete=False) as new:
            try:
                for place in range(max(1, -(-info.bytes // PIECE))):
                    new.write(piece(table, name, place))
                new.flush()
                if file_info(Path(new.name)) != info:
                    raise DataError(f"{name}: its content is not what was written")
                Path(new.name).replace(path)
            except BaseException:
                Path(new.name).unlink()
                raise
    return folder / part


def matrix(values: Any) -> Vectors:
    """The vectors [n, d] in a column of Arrow's."""
    whole = values.combine_chunks() if hasattr(values, "combine_chunks") else values
    flat = np.asarray(whole.flatten().to_numpy(zero_copy_only=False), np.float32)
    found: Vectors = flat.reshape(-1, values.type.list_size)
    return found


class LanceDocuments(Sequence[Fields]):
    """The documents in the table of nodes, by node number; safe to share between threads."""

    def __init__(self, nodes: Table, count: int) -> None:
        self._table, self._count = nodes, count
        self._one = lru_cache(_DOCUMENTS_KEPT)(lambda node: self._read([node])[0])

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, node: Any) -> Any:
        return self._parse(self._one(int(node)))

    def __iter__(self) -> Iterator[Fields]:
        for first in range(0, self._count, _DOCUMENTS_AT_ONCE):
            nodes = list(range(first, min(first + _DOCUMENTS_AT_ONCE, self._count)))
            yield from map(self._parse, self._read(nodes))

    @reading("the documents")
    def _read(self, nodes: list[int]) -> list[str]:
        with reaching(self._table.uri):
            rows = self._table.take_offsets(nodes).select([KEY, DOCUMENT]).to_arrow()
        found = dict(zip(rows[KEY].to_pylist(), rows[DOCUMENT].to_pylist(), strict=True))
        return [found[node] for node in nodes]

    def _parse(self, line: str) -> Fields:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise DamagedKB("a document that is not an object")
        return fields


class LanceVectors(VectorSearch):
    """Vectors in a column of the table of nodes."""

    def __init__(self, nodes: Table, build: Build, part: str, folder: Path, encoder: Encoder | None) -> None:
        super().__init__(build.meta.nodes, build.vectors[part], build.meta.encoder, folder, encoder)
        self._table, self._column, self._approximate = nodes, column(part), build.approximate

    @reading("the index of vectors")
    def rows(self, nodes: npt.NDArray[np.integer]) -> Vectors:
        """See ``VectorSearch``."""
        different, places = np.unique(np.asarray(nodes, np.int64), return_inverse=True)
        found = np.zeros((len(different), self.dimensions), np.float32)
        for first in range(0, len(different), _ROWS_AT_ONCE):
            part = different[first : first + _ROWS_AT_ONCE]
            with reaching(self._table.uri):
                rows = self._table.take_offsets(part.tolist()).select([KEY, self._column]).to_arrow()
            numbers = rows[KEY].to_numpy()
            order = np.argsort(numbers)
            if not np.array_equal(numbers[order], part):
                raise DamagedKB("the rows of the table of nodes are not where they were written")
            found[first : first + len(part)] = matrix(rows[self._column])[order]
        return found[places]

    def _nearest(
        self,
        query: Vectors,
        limit: int,
        ranges: Sequence[Range] | None,
        among: Collection[int] | None,
    ) -> list[Hit]:
        if among is not None:
            nodes = np.unique(np.fromiter(among, np.int64, len(among)))
            if ranges is not None:
                nodes = nodes[[any(first <= node < end for first, end in ranges) for node in nodes.tolist()]]
            return best(nodes, np.vecdot(self.rows(nodes), query), limit)
        if ranges is None and self._approximate:
            return self._best_of(self._search(query, 2 * limit + _MORE, approximate=True), query, limit)
        within = [f"({KEY} >= {first} AND {KEY} < {end})" for first, end in ranges or () if first < end]
        if ranges is not None and not within:
            return []
        depth = limit + _MORE
        while True:
            found = self._search(query, depth, " OR ".join(within))
            hits = self._best_of(found, query, limit)
            if found.num_rows < depth or hits[-1][1] > 1 - max(found["_distance"].to_pylist()) + _CLOSE:
                return hits
            depth *= 4

    def _search(self, query: Vectors, depth: int, where: str = "", *, approximate: bool = False) -> Table:
        search = self._table.search(query, vector_column_name=self._column).distance_type("dot").limit(depth)
        search = search.ef(max(_EF, 2 * depth)) if approximate else search.bypass_vector_index()
        search = search.select([KEY, "_distance", self._column])
        with reaching(self._table.uri):
            return (search.where(where, prefilter=True) if where else search).to_arrow()

    def _best_of(self, found: Table, query: Vectors, limit: int) -> list[Hit]:
        return best(found[KEY].to_numpy(), np.vecdot(matrix(found[self._column]), query), limit)


class LanceSKB(SKB):
    """An SKB in tables."""

    def __init__(self, place: str, build: Build, cache: Path) -> None:
        """``open_tables`` is what to call."""
        self._build, self._here = build, cache / build.meta.data
        self.approximate, tables = build.approximate, connect(place)
        self._files, self._table = (open_table(tables, build, name) for name in (FILES, NODES))
        super().__init__(place, build.meta, LanceDocuments(self._table, build.meta.nodes))

    @reading("the table of files")
    def folder(self, part: str) -> Path:
        """See ``SKB``; fetched where it is not there yet."""
        with reaching(self.place):
            return fetch(self._files, self.meta, self._here, part)

    @reading("the index of vectors")
    def _vectors(self, part: str) -> LanceVectors:
        return LanceVectors(self._table, self._build, part, self.folder(part), self.encoder)

    def sizes(self) -> dict[str, int]:
        """Bytes by table."""
        with reaching(self.place):
            return {table.name: int(table.stats()["total_bytes"]) for table in (self._table, self._files)}

    def close(self) -> None:
        """Do nothing: nothing is held."""


@reading("its tables")
def open_tables(place: str, cache: Path) -> LanceSKB:
    """Open the copy in use, fetching maps into ``cache``. Raises UsageError, DataError, ServiceError."""
    build = read_build(place)
    with reaching(place):
        return LanceSKB(place, build, cache)


def row_digest(rows: Any) -> int:
    """What rows of Arrow's hold together, in whatever order they come: the sum of their hashes. It finds damage."""
    keys, documents, *vectors = (rows[name] for name in rows.schema.names)
    cells = zip(keys.to_pylist(), documents.to_pylist(), *map(matrix, vectors), strict=True)
    return sum(
        int.from_bytes(
            hashlib.blake2b(
                b"\0".join([b"%d" % key, document.encode(), *(one.tobytes() for one in of)]), digest_size=_DIGEST
            ).digest()
        )
        for key, document, *of in cells
    )


def _content(digests: int) -> str:
    return f"{digests % (1 << 8 * _DIGEST):032x}"


def write(skb: SKB, place: str, *, approximate: bool = False, progress: Progress = no_progress) -> Build:
    """Copy an SKB from its folder to a folder of tables or an address; who reads an older copy keeps it for some days.

    With ``approximate`` the vectors get LanceDB's approximate index, for searches without a type or nodes.
    A copy that was killed is none: the older one stays in use. Raises UsageError where the SKB is not in a folder or
    cannot be written there, and ServiceError where the object store does not answer.
    """
    if not isinstance(skb, LocalSKB):
        raise UsageError(f"{skb.place} is on LanceDB already")
    with reaching(place, writing=True):
        tables = connect(place)

    import pyarrow as pa
    from lancedb.index import BTree, HnswSq

    indexes = {VECTORS: skb.vectors, RELATIONAL_VECTORS: skb.relational_vectors}
    vectors = {part: index for part, index in indexes.items() if index is not None}
    sizes = {part: index.dimensions for part, index in vectors.items()}
    columns = [(column(part), pa.list_(pa.float32(), size)) for part, size in sizes.items()]
    schema = pa.schema([(KEY, pa.int64()), (DOCUMENT, pa.large_string()), *columns])
    digests, count = 0, skb.meta.nodes
    approximate = approximate and count >= _FEWEST

    def rows() -> Iterator[Any]:
        nonlocal digests
        for done, batch in _rows(skb, vectors, schema):
            digests += row_digest(batch)
            progress("tables", done, count)
            yield batch

    with reaching(place, writing=True):
        nodes = tables.create_table(NODES, pa.RecordBatchReader.from_batches(schema, rows()), mode="overwrite")
        nodes.create_index(KEY, config=BTree())
        for part in vectors if approximate else ():
            progress("approximate index", 0, 1)
            nodes.create_index(
                column(part), config=HnswSq(distance_type="dot", num_partitions=-(-count // _A_PARTITION))
            )
        files = _write_files(tables, skb.data, skb.meta, progress)
        versions = {NODES: nodes.version, FILES: files.version}
        built = Build(skb.meta, versions, sizes, _content(digests), approximate)
        built.save(tables)
        for table in (nodes, files):
            table.optimize(cleanup_older_than=_KEPT)
    return built


def _rows(skb: SKB, vectors: dict[str, VectorSearch], schema: Any) -> Iterator[tuple[int, Any]]:
    import pyarrow as pa

    documents, count = iter(skb.documents), skb.meta.nodes
    for first in range(0, count, ROWS):
        end = min(first + ROWS, count)
        lines = [json.dumps(one, ensure_ascii=False) for one in islice(documents, end - first)]
        arrays = [pa.array(range(first, end), pa.int64()), pa.array(lines, pa.large_string())]
        for index in vectors.values():
            flat = pa.array(np.ascontiguousarray(index.rows(np.arange(first, end)), np.float32).ravel())
            arrays.append(pa.FixedSizeListArray.from_arrays(flat, index.dimensions))
        yield end, pa.record_batch(arrays, schema=schema)


def _write_files(tables: Any, data: Path, meta: Meta, progress: Progress) -> Any:
    import pyarrow as pa

    schema = pa.schema([("name", pa.string()), ("piece", pa.int64()), ("content", pa.large_binary())])
    names = [name for name in meta.files if is_file(name)]

    def pieces() -> Iterator[Any]:
        for done, name in enumerate(names, 1):
            with (data / name).open("rb") as file:
                place = 0
                while (part := file.read(PIECE)) or not place:
                    columns = [pa.array([name]), pa.array([place], pa.int64()), pa.array([part], pa.large_binary())]
                    yield pa.record_batch(columns, schema=schema)
                    place += 1
            progress("files", done, len(names))

    return tables.create_table(FILES, pa.RecordBatchReader.from_batches(schema, pieces()), mode="overwrite")


def refuse_other(place: str) -> None:
    """See that tables can be made in a place, before that takes long. Raises as ``write``."""
    with reaching(place, writing=True):
        tables = connect(place)
        if is_address(place):
            tables.list_tables()
            return
    folder = Path(place)
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not any(folder.glob("*.lance")))):
        raise UsageError(f"{place} is there and is not an SKB on LanceDB; choose another place")


def check(place: str, progress: Progress) -> list[str]:
    """Compare rows and files with what was written; returns the faults, none where it is whole.

    Of indexes, faults are what cannot be read. Raises UsageError where it is not an SKB, ServiceError where its object
    store does not answer.
    """
    build = read_build(place)
    tables = connect(place)

    @reading("a table")
    def read(part: Callable[[], list[str]]) -> list[str]:
        with reaching(place):
            return part()

    faults = []
    for part in (_check_rows, _check_files):
        try:
            faults += read(partial(part, tables, build, progress))
        except DataError as error:
            faults.append(str(error))
    return faults


def _check_rows(tables: Any, build: Build, progress: Progress) -> list[str]:
    nodes = open_table(tables, build, NODES)
    columns, digests, done = [field.name for field in nodes.schema], 0, 0
    for rows in nodes.search().select(columns).limit(build.meta.nodes + 1).to_batches(ROWS):
        digests += row_digest(rows)
        done += rows.num_rows
        progress("rows", done, build.meta.nodes)
    for index in nodes.list_indices():
        nodes.prewarm_index(index.name)
    if done != build.meta.nodes:
        return [f"{NODES}: {done} rows where {build.meta.nodes} were written"]
    return [] if _content(digests) == build.content else [f"{NODES}: its content is not what was written"]


def _check_files(tables: Any, build: Build, progress: Progress) -> list[str]:
    table = open_table(tables, build, FILES)
    names = [name for name in build.meta.files if is_file(name)]
    faults = []
    for done, name in enumerate(names, 1):
        digest, size, place = hashlib.sha256(), 0, 0
        while part := piece(table, name, place):
            digest.update(part)
            size, place = size + len(part), place + 1
        if FileInfo(bytes=size, sha256=digest.hexdigest()) != build.meta.files[name]:
            faults.append(f"{name}: its content is not what was written")
        progress("files", done, len(names))
    return faults
