"""The tables of an SKB on LanceDB, in a folder or an object store, and how they are found.

``nodes`` has a row a node, in the order of their numbers: key (the number), document, and for each index of vectors a
vector. ``files`` has, in pieces, the other files of the SKB, which a reader maps into its memory. ``builds`` has one
row, which describes the SKB and names the versions of the other tables that belong to it: it is written last, so that
no reader meets half a copy.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kbnav.errors import CredentialsError, DataError, KbnavError, ServiceError, UsageError
from kbnav.knowledge.skb.files import file_info, reading
from kbnav.knowledge.skb.schema import HASHES_FILE, VECTORS_FILE, Meta
from kbnav.settings.plugins import needs

NODES, FILES, BUILDS = "nodes", "files", "builds"
FORMAT = 3
KEY, DOCUMENT = "key", "document"
PIECE = 1 << 22
"""Bytes of a file in one row."""
SCHEMES = ("s3://", "gs://", "az://")
"""How the address of a place in an object store begins."""
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""Variables that name another S3 server than Amazon's."""

_NO_KEYS = ("Failed to get AWS credentials", "CredentialsNotLoaded", "credential provider was not enabled")
_REFUSED = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "ExpiredToken", "status: 401", "status: 403")
_NO_ANSWER = "kind: Connect|ConnectError|kind: Timeout|error sending request|operation timed out|dns error|status: 503"

Table = Any
"""A table of ``lancedb``."""


def is_address(place: str) -> bool:
    """Whether a place is in an object store."""
    return place.startswith(SCHEMES)


def is_lance(place: str) -> bool:
    """Whether a place is, by its looks, that of tables: an address, or a folder with some."""
    return is_address(place) or any((Path(place) / f"{name}.lance").is_dir() for name in (BUILDS, NODES))


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
    """Of the rows of ``nodes``: see ``build.row_digest``."""
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
