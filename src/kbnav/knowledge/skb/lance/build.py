"""Copying a built SKB from its folder into tables of LanceDB in one pass, and checking the copy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.files import reading
from kbnav.knowledge.skb.lance.store import matrix
from kbnav.knowledge.skb.lance.tables import (
    DOCUMENT,
    FILES,
    KEY,
    NODES,
    PIECE,
    Build,
    column,
    connect,
    is_address,
    is_file,
    open_table,
    piece,
    reaching,
    read_build,
)
from kbnav.knowledge.skb.schema import RELATIONAL_VECTORS, VECTORS, FileInfo, Meta, Progress, no_progress
from kbnav.knowledge.skb.store import SKB, LocalStore
from kbnav.knowledge.skb.vectors import VectorSearch

ROWS = 1_000
"""Rows that are in memory at once."""
_KEPT = timedelta(days=7)  # for readers of an older copy
_FEWEST = 1_000  # vectors worth an approximate index
_A_PARTITION = 1 << 20  # vectors
_DIGEST = 16  # bytes


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
    store = skb.store
    if not isinstance(store, LocalStore):
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
        files = _write_files(tables, store.data, skb.meta, progress)
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
