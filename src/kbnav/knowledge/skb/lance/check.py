"""Reading all of an SKB on LanceDB, to find what is damaged."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any

from kbnav.errors import DataError
from kbnav.knowledge.skb.damage import reading
from kbnav.knowledge.skb.lance.files import is_file
from kbnav.knowledge.skb.lance.rows import Content
from kbnav.knowledge.skb.lance.storage import connect, reaching
from kbnav.knowledge.skb.lance.tables import FILES, NODES, WORDS, Build, open_table, read_build
from kbnav.knowledge.skb.schema import FileInfo, Progress

_ROWS = 1_000


def check(place: str, version: int | None, progress: Progress) -> list[str]:
    """Compare a build's rows and files with what was written; returns the faults, none where it is whole.

    Raises UsageError where it is not an SKB, ServiceError where its object store does not answer.
    """
    build = read_build(place, version)
    tables = connect(place)
    faults = []
    for look in (_rows, _files, _words, _indexes):
        try:
            faults += _looked(place, partial(look, tables, build, progress))
        except DataError as error:
            faults.append(str(error))
    return faults


@reading("a table")
def _looked(place: str, look: Callable[[], list[str]]) -> list[str]:
    with reaching(place):
        return look()


def _rows(tables: Any, build: Build, progress: Progress) -> list[str]:
    nodes = open_table(tables, build, NODES)
    columns, content, done = [field.name for field in nodes.schema], Content(), 0
    for rows in nodes.search().select(columns).limit(build.meta.nodes + 1).to_batches(_ROWS):
        content.add(rows)
        done += rows.num_rows
        progress("rows", done, build.meta.nodes)
    if done != build.meta.nodes:
        return [f"{NODES}: {done} rows where {build.meta.nodes} were written"]
    return [] if content.hex() == build.content else [f"{NODES}: its content is not what was written"]


def _files(tables: Any, build: Build, progress: Progress) -> list[str]:
    table = open_table(tables, build, FILES)
    names = [name for name in build.meta.files if is_file(name)]
    faults = []
    for done, name in enumerate(names, 1):
        digest, size, place = sha256(), 0, 0
        while piece := _piece(table, name, place):
            digest.update(piece)
            size, place = size + len(piece), place + 1
        if FileInfo(bytes=size, sha256=digest.hexdigest()) != build.meta.files[name]:
            faults.append(f"{name}: its content is not what was written")
        progress("files", done, len(names))
    return faults


def _words(tables: Any, build: Build, progress: Progress) -> list[str]:
    """Read the counts of words, of which nothing tells what was written."""
    table, done = open_table(tables, build, WORDS), 0
    for rows in table.search().limit(table.count_rows() or 1).to_batches(_ROWS):
        done += rows.num_rows
        progress("words", done, table.count_rows())
    return []


def _indexes(tables: Any, build: Build, progress: Progress) -> list[str]:
    """Read the indexes, of which nothing tells what was written: faults are what cannot be read."""
    found = [(name, index.name) for name in build.versions for index in open_table(tables, build, name).list_indices()]
    faults = []
    for done, (name, index) in enumerate(found, 1):
        try:
            _read_index(open_table(tables, build, name), index)
        except DataError as error:
            faults.append(str(error))
        progress("indexes", done, len(found))
    return faults


@reading("an index")
def _read_index(table: Any, name: str) -> None:
    with reaching(table.uri):
        table.prewarm_index(name)


def _piece(table: Any, name: str, place: int) -> bytes:
    rows = table.search().where(f"name = '{name}' AND piece = {place}").select(["content"]).limit(1).to_arrow()
    return bytes(rows["content"][0].as_py()) if rows.num_rows else b""
