"""RDF files over the SPARQL protocol, read-only, with the limits of a mirror: ``kbnav sparql serve``.

The files go into a store in a temporary folder, which child processes query. Queries see the default graph and all
named graphs as one; ``GRAPH`` sees named graphs apart.
"""

from __future__ import annotations

import gzip
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, cast

from pyoxigraph import RdfFormat, Store

from kbnav.errors import DataError, KbnavError, UsageError
from kbnav.knowledge.serving.http import PLAIN, Asked, Listening, Reply, failure
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES
from kbnav.knowledge.wikidata.mirror.endpoint import sparql_protocol
from kbnav.knowledge.wikidata.mirror.pool import QueryPool

FORMATS: Mapping[str, RdfFormat] = {
    ".ttl": RdfFormat.TURTLE,
    ".nt": RdfFormat.N_TRIPLES,
    ".nq": RdfFormat.N_QUADS,
    ".trig": RdfFormat.TRIG,
    ".rdf": RdfFormat.RDF_XML,
    ".owl": RdfFormat.RDF_XML,
    ".xml": RdfFormat.RDF_XML,
    ".jsonld": RdfFormat.JSON_LD,
}
"""Formats by the end of a file's name, which may have ``.gz`` behind it."""
QUERY_TIMEOUT = 60.0
MEMORY_LIMIT = 2 << 30
_BROKEN = (ArithmeticError, KbnavError, LookupError, OSError, RuntimeError, TypeError, ValueError, sqlite3.Error)
_PREFIXES = {name: iri for name, iri in STANDARD_PREFIXES.items() if "wikidata" not in iri and "bigdata" not in iri}


@dataclass(frozen=True)
class Loaded:
    """What the files hold: statements in all, and in how many named graphs."""

    statements: int
    graphs: int


def load(files: Sequence[Path], folder: Path) -> Loaded:
    """Read files into a new store in a folder.

    Raises UsageError for a file that is absent or of an unknown kind, or a disk that is full, DataError for one that
    does not read, with its line where that is known.
    """
    store = Store(str(folder))
    load_into(store, files)
    store.flush()
    return Loaded(len(store), sum(1 for _ in store.named_graphs()))


def is_rdf(name: str) -> bool:
    """Whether a name is that of a file that is here and read as RDF."""
    return Path(name).is_file() and Path(name.lower().removesuffix(".gz")).suffix in FORMATS


def load_into(store: Store, files: Sequence[Path]) -> None:
    """Read files into a store. Raises as ``load``."""
    for file in files:
        _format(file)
        if not file.is_file():
            raise UsageError(f"{file}: no such file")
    for file in files:
        _load(store, file)


def _format(file: Path) -> RdfFormat:
    suffix = Path(file.name.lower().removesuffix(".gz")).suffix
    if suffix not in FORMATS:
        raise UsageError(
            f"{file}: unknown kind of file; these are read, with or without .gz: {' '.join(sorted(FORMATS))}"
        )
    return FORMATS[suffix]


def _load(store: Store, file: Path) -> None:
    packed = file.suffix.lower() == ".gz"
    # Relative IRIs are the file's own; where it lies on this machine is nobody's business.
    base = f"file:///{file.name.removesuffix('.gz')}"
    try:
        with cast("IO[bytes]", gzip.open(file)) if packed else file.open("rb") as opened:
            store.bulk_load(opened, _format(file), base_iri=base)
    except SyntaxError as error:
        raise DataError(f"{file}:{error.lineno or 0}: {error.msg}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{file}: the compressed data is damaged: {error}") from error
    except ValueError as error:
        raise DataError(f"{file}: {error}") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be loaded: {error}") from error


class RdfServer:
    """Serves RDF files at ``/sparql``; a context manager, and closed at its end. ``loaded`` says what they hold."""

    def __init__(
        self,
        files: Sequence[Path],
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        query_timeout: float = QUERY_TIMEOUT,
        memory_limit: int = MEMORY_LIMIT,
        workers: int = 4,
        names: Collection[str] = (),
    ) -> None:
        """Load the files and listen. Raises as ``load``, and UsageError where the address is taken.

        Args:
            files: RDF; see ``FORMATS``.
            host: address to listen on.
            port: port to listen on; 0: one that is free.
            query_timeout: seconds after which a query is stopped.
            memory_limit: bytes of address space that one query may use; 0: no limit.
            workers: queries that run at once.
            names: under which names, beside addresses and ``localhost``, it may be asked.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="kbnav-sparql-"))
        try:
            self.loaded = load(files, self._folder / "store")
            self._pool = QueryPool(
                self._folder / "store", size=workers, timeout=query_timeout, memory_limit=memory_limit, union=True
            )
            self._listening = Listening(self, host, port, names=names)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def url(self) -> str:
        """Where queries go."""
        return f"{self._listening.url}/sparql"

    @property
    def broken(self) -> tuple[type[BaseException], ...]:
        """See ``Site``."""
        return _BROKEN

    def answer(self, asked: Asked) -> Reply:
        """See ``Site``."""
        if asked.path == "/sparql":
            return sparql_protocol(self._pool, asked, _PREFIXES)
        if asked.path == "/":
            return Reply(200, PLAIN, f"{self.loaded.statements:,} RDF statements at /sparql\n".encode())
        return failure(404, "there is nothing at this path; queries go to /sparql")

    def close(self) -> None:
        """Stop listening, end the queries that run, and remove what was loaded."""
        self._listening.close()
        self._pool.close()
        self._listening.drop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> RdfServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
