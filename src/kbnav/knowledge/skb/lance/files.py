"""Files of an SKB in a table, in pieces, and how they come to the machine that maps them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbnav.errors import DataError
from kbnav.knowledge.skb.folder import file_info
from kbnav.knowledge.skb.lance.tables import Table
from kbnav.knowledge.skb.schema import Meta

PIECE = 1 << 22  # bytes
_WHOLE = ("nodes/", "graph/", "names/", "rdf/", "places/")
_IN_TABLES = ("vectors.npy", "hashes.npy", "quantized.npy", "steps.npy")


def is_file(name: str) -> bool:
    """Whether a file of a build in a folder stays a file; what the others hold is in the columns of ``nodes``."""
    folder, _, rest = name.partition("/")
    if folder in ("text", "relational-text"):
        return rest == "text.json"
    return name.startswith(_WHOLE) or (folder in ("vectors", "relational-vectors") and rest not in _IN_TABLES)


def pieces(data: Path, name: str) -> Iterator[Any]:
    """A file of a build as batches of the table ``files``."""
    import pyarrow as pa

    with (data / name).open("rb") as file:
        place = 0
        while (part := file.read(PIECE)) or not place:
            columns = [pa.array([name]), pa.array([place], pa.int64()), pa.array([part], pa.large_binary())]
            yield pa.record_batch(columns, schema=schema())
            place += 1


def schema() -> Any:
    """The columns of the table ``files``."""
    import pyarrow as pa

    return pa.schema([("name", pa.string()), ("piece", pa.int64()), ("content", pa.large_binary())])


def fetch(table: Table, meta: Meta, folder: Path, below: str) -> Path:
    """Write the files whose names begin so into a folder, where they are not there yet; returns the folder below it.

    Each comes into its place whole, so that processes that fetch at the same time do no harm. Raises DataError where
    one is not what was written.
    """
    for name, told in meta.files.items():
        path = folder / name
        if not (name.startswith(below) and is_file(name)) or (path.is_file() and path.stat().st_size == told.bytes):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".fetched-", delete=False) as part:
            try:
                for place in range(max(1, -(-told.bytes // PIECE))):
                    where = f"name = '{name}' AND piece = {place}"
                    rows = table.search().where(where).select(["content"]).limit(1).to_arrow()
                    part.write(rows["content"][0].as_py() if rows.num_rows else b"")
                part.flush()
                if file_info(Path(part.name)) != told:
                    raise DataError(f"{name}: its content is not what was written")
                Path(part.name).replace(path)
            except BaseException:
                Path(part.name).unlink()
                raise
    return folder / below.rstrip("/")
