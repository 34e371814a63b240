"""Building a mirror from RDF and entity JSON: beside the old one, which is replaced only by a finished one."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import re
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from pyoxigraph import NamedNode, Quad, QuerySolutions, RdfFormat, Store

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.sparql.vocabulary import WIKIDATA
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.dump import Chosen, entities
from kbnav.knowledge.wikidata.mirror.search import build_index
from kbnav.knowledge.wikidata.mirror.store import META, NAMES, TRIPLES, MirrorInfo, Source, read_info
from kbnav.knowledge.work_folder import exchanged, work_folder

Progress = Callable[[str], None]

_PACKED: Mapping[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_RDF = {".nt": RdfFormat.N_TRIPLES, ".ttl": RdfFormat.TURTLE}
_KINDS = (*_RDF, ".json", ".ndjson", ".jsonl")
_CONCEPT_BASE = re.compile(r"https?://[^\s<>\"]+/entity/")
_PROPERTY = re.compile(rf"({_CONCEPT_BASE.pattern})P[1-9]\d*")
_DIRECT_CLAIM = NamedNode(f"{v.WIKIBASE}directClaim")
MADE, REPLACED = "mirror", "replaced"
_REPORT_SECONDS = 5.0
# Counts and dates hang on an entity's page in the export, and on the entity itself in the query service.
_NEWEST = """SELECT ?date { ?entity <http://schema.org/dateModified> ?date
    FILTER(DATATYPE(?date) = <http://www.w3.org/2001/XMLSchema#dateTime>) } ORDER BY DESC(?date) LIMIT 1"""
_PAGE_FACTS = f"""
SELECT ?entity ?p ?o WHERE {{
  ?page a <{v.DATASET.value}> ; <{v.ABOUT.value}> ?entity ; ?p ?o .
  VALUES ?p {{ {" ".join(str(p) for p in (v.STATEMENTS, v.SITELINKS, v.IDENTIFIERS, v.VERSION, v.DATE_MODIFIED))} }}
}}
"""


def build_mirror(
    sources: Sequence[Path],
    out: Path,
    *,
    concept_base: str = "",
    chosen: Chosen | None = None,
    progress: Progress | None = None,
) -> MirrorInfo:
    """Build a mirror in the folder ``out`` from N-Triples, Turtle and entity JSON, plain, gzipped or as bzip2.

    A mirror that is there already stays as it is until the new one is finished. ``progress`` is given lines to show.
    ``concept_base`` is what the IRIs of entities begin with; empty: as the properties have it, else Wikidata's.
    ``chosen`` is what of entity JSON is taken; None: all.

    Raises:
        UsageError: a source that is absent or of an unknown kind, something else at ``out``, or a disk that is full.
        DataError: a source that does not read, with its line.
    """
    say = progress or (lambda _line: None)
    for source in sources:
        _kind(source)
        if not source.is_file():
            raise UsageError(f"{source}: no such file")
    if concept_base and not _CONCEPT_BASE.fullmatch(concept_base):
        raise UsageError(f"{concept_base}: a concept base is an IRI that ends in /entity/, as {WIKIDATA}")
    if not sources:
        raise UsageError("nothing to build a mirror from: name at least one file")
    out = out.absolute()
    _check_target(out)
    try:
        with work_folder(out.parent, out.name, rescue=lambda left: _rescue(left, out)) as work:
            made = work / MADE
            made.mkdir()
            info = _build(sources, made, say, concept_base, chosen or Chosen())
            _put_in_place(made, out, work / REPLACED)
    except (OSError, sqlite3.Error) as error:
        kept = "; the mirror that was there is unchanged" if (out / META).exists() else ""
        raise UsageError(f"cannot build {out}: {error}{kept}") from error
    return info


def _rescue(left: Path, out: Path) -> None:
    """Put back the mirror that a build had taken away when it was killed before it put its own in place."""
    if not out.exists() and (left / REPLACED).is_dir():
        (left / REPLACED).rename(out)


def _check_target(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()):
        try:
            read_info(out)
        except DataError:
            return  # a mirror, if a damaged one
        except UsageError as error:
            raise UsageError(f"{out} is not a mirror: name another folder, or empty this one") from error
    elif out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file: name a folder")


def _build(sources: Sequence[Path], made: Path, say: Progress, concept_base: str, chosen: Chosen) -> MirrorInfo:
    begin = time.monotonic()
    store = Store(str(made / TRIPLES))
    read = tuple(_load(store, source, say, concept_base, chosen) for source in sources)
    base = concept_base or _base_of(store) or WIKIDATA
    of_wikibase = store.query(f'ASK {{ ?entity ?p ?o FILTER(STRSTARTS(STR(?entity), "{base}")) }}')
    if len(store) and not of_wikibase:
        names = " ".join(source.name for source in sources)
        raise UsageError(
            f"nothing in these files is in the form of a Wikibase (no subject begins with {base}), so no mirror can be "
            f"made: `kbnav sparql serve {names}` serves any RDF, and --kb with its address asks it"
        )
    facts = cast(QuerySolutions, store.query(_PAGE_FACTS))
    store.bulk_extend(Quad(row["entity"], row["p"], row["o"]) for row in list(facts))
    store.flush()
    store.optimize()
    triples = len(store)
    say(f"{triples:,} triples in {time.monotonic() - begin:.1f} s; indexing names")
    newest = next(iter(cast(QuerySolutions, store.query(_NEWEST))), None)
    entities, count = build_index(store, made / NAMES, v.Namespaces.of(base))
    del store  # closes it
    info = MirrorInfo(
        built=datetime.now(UTC),
        triples=triples,
        entities=entities,
        names=count,
        sources=read,
        concept_base=base,
        newest=newest["date"].value if newest else "",
    )
    (made / META).write_text(info.model_dump_json(indent=1) + "\n", encoding="utf-8")
    say(f"{entities:,} entities with {count:,} names; done in {time.monotonic() - begin:.1f} s")
    return info


def _put_in_place(made: Path, out: Path, aside: Path) -> None:
    """Have ``out`` be what was made; what was there is left in the folder of the build.

    Where two folders cannot be exchanged, there is a moment without a mirror, and what a kill then leaves is put back
    by the next build.
    """
    if not out.exists():
        made.rename(out)
        return
    if exchanged(made, out):
        return
    out.rename(aside)
    try:
        made.rename(out)
    except OSError:
        aside.rename(out)
        raise


def _kind(source: Path) -> str:
    """The format by the name: ``.nt`` of ``slice.nt.gz``. Raises UsageError for one that is not read."""
    name = Path(source.name.lower())
    suffix = Path(name.stem).suffix if name.suffix in _PACKED else name.suffix
    if suffix not in _KINDS:
        packed = " or ".join(_PACKED)
        raise UsageError(
            f"{source}: unknown kind of file; these are read, with or without {packed}: {' '.join(_KINDS)}"
        )
    return suffix


def _base_of(store: Store) -> str:
    """What the IRI of a property of the store begins with; empty where it has none."""
    for quad in store.quads_for_pattern(None, _DIRECT_CLAIM, None, None):
        found = _PROPERTY.fullmatch(quad.subject.value) if isinstance(quad.subject, NamedNode) else None
        if found:
            return found[1]
    return ""


def _load(store: Store, source: Path, say: Progress, concept_base: str, chosen: Chosen) -> Source:
    """Read one source into the store."""
    begin, before = time.monotonic(), len(store)
    with closing(_Lines(source, say)) as lines:
        try:
            if (kind := _kind(source)) in _RDF:
                store.bulk_load(cast(BinaryIO, lines), _RDF[kind])
            else:
                names = v.Namespaces.of(concept_base or _base_of(store) or WIKIDATA)
                store.bulk_extend(quad for one in entities(lines) for quad in chosen.quads(one, names))
        except SyntaxError as error:
            raise DataError(f"{source}:{error.lineno}: {error.msg}") from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{source}:{lines.count + 1}: the compressed data is damaged here: {error}") from error
        except ValueError as error:
            raise DataError(f"{source}:{lines.count}: {error}") from error
    added, seconds = len(store) - before, time.monotonic() - begin
    say(f"{source.name}: {added:,} triples in {seconds:.1f} s ({added / max(seconds, 0.001):,.0f}/s)")
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Source(name=source.name, bytes=source.stat().st_size, sha256=digest, triples=added)


class _Lines:
    """A source as the bytes in it, which counts lines and tells of progress while it is read."""

    def __init__(self, source: Path, say: Progress) -> None:
        self.count = 0
        self._name, self._say = source.name, say
        self._begin = self._told = time.monotonic()
        unpack = _PACKED.get(source.suffix.lower())
        self._file = cast(IO[bytes], unpack(source) if unpack else source.open("rb"))

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._count(data.count(b"\n"))
        return data

    def __iter__(self) -> Iterator[bytes]:
        for line in self._file:
            self._count(1)
            yield line

    def _count(self, lines: int) -> None:
        self.count += lines
        now = time.monotonic()
        if now - self._told >= _REPORT_SECONDS:
            self._told = now
            self._say(f"{self._name}: {self.count:,} lines ({self.count / (now - self._begin):,.0f}/s)")

    def close(self) -> None:
        self._file.close()
