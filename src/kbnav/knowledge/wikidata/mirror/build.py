"""Building a mirror from RDF and entity JSON: beside the old one, which is replaced only by a finished one.

Sources are streamed into the store as N-Triples, in pieces. After a piece the store is kept as it is then, by hard
links, with how far the sources are read. A build that is killed, interrupted or stopped by a full disk goes on from
there when the same is asked for again.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, cast

from pyoxigraph import BlankNode, NamedNode, Quad, QuerySolutions, RdfFormat, Store, parse

from kbnav.errors import DataError, KbnavError, UsageError
from kbnav.knowledge.sparql.vocabulary import WIKIDATA
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.chosen import IDENTIFIERS, ITEMS, NODES, Chosen, Filter
from kbnav.knowledge.wikidata.mirror.links import FACTS, TEXTS, TRUTHY, VALUES, Picked
from kbnav.knowledge.wikidata.mirror.mirror import META, NAMES, TRIPLES, MirrorInfo, Source, read_info
from kbnav.knowledge.wikidata.mirror.rdf import datatypes, entities, quads
from kbnav.knowledge.wikidata.mirror.search import build_index
from kbnav.runs.journal import exchanged, work_folder

_CONCEPT_BASE = re.compile(r"https?://[^\s<>\"]+/entity/")
_PROPERTY = re.compile(rf"({_CONCEPT_BASE.pattern})P[1-9]\d*")
_DIRECT_CLAIM = NamedNode(f"{v.WIKIBASE}directClaim")
MADE, REPLACED, SAVED, STATE = "mirror", "replaced", "saved", "state.2.json"
PIECE = 16 << 30
"""Bytes of lines that are loaded before the store is kept: each load makes the engine merge its files again."""
PART = 8 << 20
"""Bytes of lines that are in memory at once."""
MOST_WAITING = 100_000
"""Triples with blank nodes that wait for one another: the engine merges its files after each load, however small."""
# Counts and dates hang on an entity's page in the export, and on the entity itself in the query service.
_NEWEST = """SELECT ?date { ?entity <http://schema.org/dateModified> ?date
    FILTER(DATATYPE(?date) = <http://www.w3.org/2001/XMLSchema#dateTime>) } ORDER BY DESC(?date) LIMIT 1"""


def build_mirror(
    sources: Sequence[Path],
    out: Path,
    *,
    concept_base: str = "",
    chosen: Chosen | None = None,
    progress: Progress | None = None,
    piece: int = PIECE,
) -> MirrorInfo:
    """Build a mirror in the folder ``out`` from N-Triples, Turtle and entity JSON, plain, gzipped or as bzip2.

    A mirror that is there already stays as it is until the new one is finished. ``progress`` is given lines to show.
    ``concept_base`` is what the IRIs of entities begin with; empty: as the properties have it, else Wikidata's.
    ``chosen`` is what is taken of the sources; None: all. ``piece``: bytes of lines that are loaded at once.

    Raises:
        UsageError: a source that is absent or of an unknown kind, something else at ``out``, or a disk that is full.
        DataError: a source that does not read, with its line.
    """
    say = progress or (lambda _line: None)
    for source in sources:
        kind_of(source)
        if not source.is_file():
            raise UsageError(f"{source}: no such file")
    if concept_base and not _CONCEPT_BASE.fullmatch(concept_base):
        raise UsageError(f"{concept_base}: a concept base is an IRI that ends in /entity/, as {WIKIDATA}")
    if not sources:
        raise UsageError("nothing to build a mirror from: name at least one file")
    out = out.absolute()
    _check_target(out)
    saved = out.parent / f".{out.name}.{SAVED}"
    try:
        with work_folder(out.parent, out.name, rescue=lambda left: _rescue(left, out, saved)) as work:
            build = _Build(sources, work, say, concept_base, chosen or Chosen(), piece)
            try:
                info = build.run(saved)
            except BaseException as error:
                _let_go(error)
                if (newest := _newest(work)) and not isinstance(error, KbnavError) and not saved.exists():
                    newest.rename(saved)
                    error.add_note("; what was loaded is kept: the same command continues it")
                raise
            _put_in_place(work / MADE, out, work / REPLACED)
    except (OSError, sqlite3.Error) as error:
        said = [str(error), *getattr(error, "__notes__", ())]
        kept = "; the mirror that was there is unchanged" if (out / META).exists() else ""
        raise UsageError(f"cannot build {out}: {''.join(said)}{kept}") from error
    return info


def _rescue(left: Path, out: Path, saved: Path) -> None:
    """Keep what a killed build had loaded, and put back the mirror that it had taken away to put its own in place."""
    if not out.exists() and (left / REPLACED).is_dir():
        (left / REPLACED).rename(out)
    if (newest := _newest(left)) and not saved.exists():
        newest.rename(saved)


def _let_go(error: BaseException | None) -> None:
    """Close the store, which may still write, by what the frames of an error hold of it."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _newest(work: Path) -> Path | None:
    """What a build's folder has of it as it was last kept."""
    whole = [one for one in work.glob(f"{SAVED}.*") if (one / STATE).exists()]
    return max(whole, key=lambda one: int(one.suffix[1:]), default=None)


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


class _Build:
    """A build in its folder: what is loaded, and how far the sources are read."""

    def __init__(
        self, sources: Sequence[Path], work: Path, say: Progress, concept_base: str, chosen: Chosen, piece: int
    ) -> None:
        self._sources, self._work, self._say, self._base, self._piece = sources, work, say, concept_base, piece
        files = [[str(one.absolute()), one.stat().st_size, one.stat().st_mtime_ns] for one in sources]
        self._asked = json.loads(json.dumps([concept_base, asdict(chosen), files]))
        shared = any(kind_of(one) == ".ttl" for one in sources)
        base = v.Namespaces.of(concept_base or WIKIDATA)
        self._filter = Filter(chosen, base, shared_nodes=shared) if chosen else None
        self._picked = Picked(work, base)
        self._read: list[Source] = []
        self._blank: list[Quad] = []
        self._at = self._taken = self._unsaved = self._saves = 0
        self._loaded = False

    def run(self, saved: Path) -> MirrorInfo:
        """Write everything into the folder of what is made, from the beginning or from what is saved."""
        begin, made = time.monotonic(), self._work / MADE
        made.mkdir()
        self._go_on(saved, made / TRIPLES)
        store = Store(str(made / TRIPLES))
        for source in self._sources[len(self._read) :]:
            self._load(store, source)
        base = self._base or _base_of(store) or WIKIDATA
        here = v.Namespaces.of(base)
        if not self._loaded:
            self._decide(store)
            self._check(store, base)
        if base != (self._base or WIKIDATA):  # what was picked is of another
            (self._work / "again").mkdir()
            self._picked = Picked(self._work / "again", here)
            for quad in store:
                self._picked.take(written([quad]))
        self._picked.write()
        with ThreadPoolExecutor(1) as beside:
            facts, whole = beside.submit(self._add_facts, store), beside.submit(self._finish, store)
            self._say(f"loaded in {time.monotonic() - begin:.1f} s; indexing names")
            entities, count = build_index(store, self._picked, made / NAMES, here, self._say, facts.result)
            triples = whole.result()
        newest = next(iter(cast(QuerySolutions, store.query(_NEWEST))), None)
        del store  # closes it
        info = MirrorInfo(
            built=datetime.now(UTC),
            triples=triples,
            entities=entities,
            names=count,
            sources=tuple(self._read),
            concept_base=base,
            newest=newest["date"].value if newest else "",
        )
        (made / META).write_text(info.model_dump_json(indent=1) + "\n", encoding="utf-8")
        self._say(f"{entities:,} entities with {count:,} names; done in {time.monotonic() - begin:.1f} s")
        return info

    def _add_facts(self, store: Store) -> None:
        if not self._loaded:
            facts = Feed(path.read_bytes() for path in self._picked.files(FACTS))
            store.bulk_load(cast(IO[bytes], facts), RdfFormat.N_TRIPLES, lenient=True)

    def _finish(self, store: Store) -> int:
        """Keep the store with all in it, for which the engine merges many of its files, and have it merge the rest."""
        if not self._loaded:
            store.bulk_extend(self._blank)
            self._loaded = True
            self._save(store)
        store.optimize()
        return len(store)

    def _check(self, store: Store, base: str) -> None:
        of_wikibase = store.query(f'ASK {{ ?entity ?p ?o FILTER(STRSTARTS(STR(?entity), "{base}")) }}')
        if not of_wikibase and next(store.quads_for_pattern(None, None, None, None), None):
            names = " ".join(source.name for source in self._sources)
            raise UsageError(
                f"nothing in these files is in the form of a Wikibase (no subject begins with {base}), so no mirror "
                f"can be made: `kbnav sparql serve {names}` serves any RDF, and --kb with its address asks it"
            )

    def _load(self, store: Store, source: Path) -> None:
        """Read one source into the store, or the rest of it."""
        self._save(store)
        begin = time.monotonic()
        names = v.Namespaces.of(self._base or _base_of(store) or WIKIDATA)
        with ThreadPoolExecutor(1) as beside, source.open("rb") as file, closing(Lines(source, self._say)) as lines:
            whole = beside.submit(hashlib.file_digest, file, "sha256")  # stops where an error closes the file
            try:
                self._add(store, self._chosen(pieces(lines, min(PART, self._piece), names, skip=self._at)), keep=True)
                digest = whole.result().hexdigest()
            except SyntaxError as error:
                line = f" behind line {self._at}" if self._filter else f":{error.lineno}"
                raise DataError(f"{source}{line}: {error.msg}") from error
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise DataError(f"{source}:{lines.count + 1}: the compressed data is damaged here: {error}") from error
            except ValueError as error:
                raise DataError(f"{source}:{lines.count}: {error}") from error
        seconds = time.monotonic() - begin
        rate = f"{self._taken / max(seconds, 0.001):,.0f}/s"
        self._say(f"{source.name}: {self._taken:,} triples in {seconds:.1f} s ({rate})")
        size = source.stat().st_size
        self._read.append(Source(name=source.name, bytes=size, sha256=digest, triples=self._taken))
        self._at = self._taken = 0

    def _chosen(self, parts: Iterator[Piece]) -> Iterator[Piece]:
        """What is taken of the parts; what is not decided yet is put aside."""
        for part in parts:
            if self._filter:
                self._filter.external |= part.external
                part.lines = self._filter.take(part.lines)
                self._put_aside(self._filter)
            yield part
        if self._filter:
            yield Piece(self._at, self._at, self._filter.rest())

    def _add(self, store: Store, parts: Iterator[Piece], *, keep: bool) -> None:
        """Load all parts; ``keep``: the store is kept after each whole piece. Raises SyntaxError with its line."""
        for part in parts:
            try:
                feed = Feed(self._lines(chain([part], parts), part.first))
                store.bulk_load(cast(IO[bytes], feed), RdfFormat.N_TRIPLES, lenient=True)
            except SyntaxError as error:
                error.lineno = part.first + (error.lineno or 1)
                raise
            if len(self._blank) >= MOST_WAITING:
                store.bulk_extend(self._blank)
                self._blank.clear()
            if keep and self._unsaved >= self._piece:
                self._save(store)

    def _lines(self, parts: Iterable[Piece], first: int) -> Iterator[bytes]:
        """A piece of the parts but for lines with blank nodes; a blank node of a source is the same in all its pieces.

        Raises SyntaxError with the line's number, counted from behind line ``first``.
        """
        end = self._unsaved + self._piece
        for part in parts:
            lines, data = part.lines, b"".join(part.lines)
            self._picked.take(lines)
            some = enumerate(lines if b"_:" in data else ())
            blank = [place for place, line in some if line.startswith(b"_:") or b" _:" in line]
            try:
                apart = parse(b"".join(lines[place] for place in blank), RdfFormat.N_TRIPLES, lenient=True)
                self._blank += map(self._own, apart)
            except SyntaxError as error:
                error.lineno = part.first - first + 1 + blank[(error.lineno or 1) - 1]
                raise
            for place in blank:
                lines[place] = b"\n"
            data = b"".join(lines) if blank else data
            self._at = part.last
            self._taken += len(blank) + data.startswith(b"<") + data.count(b"\n<")
            self._unsaved += len(data)
            yield data
            if self._unsaved >= end or len(self._blank) >= MOST_WAITING:
                return

    def _own(self, quad: Quad) -> Quad:
        own: list[Any] = [
            BlankNode(f"s{len(self._read)}{term.value}") if isinstance(term, BlankNode) else term
            for term in (quad.subject, quad.object)
        ]
        return Quad(own[0], quad.predicate, own[1])

    def _put_aside(self, chosen: Filter) -> None:
        """Write what is not decided yet into files of its own."""
        for kind, lines in chosen.aside.items():
            if lines:
                with gzip.open(self._work / f"{kind}.{len(self._files(kind)):06}", "wb", 1) as file:
                    file.writelines(lines)
                lines.clear()

    def _files(self, *kinds: str) -> list[Path]:
        return sorted(path for kind in kinds for path in self._work.glob(f"{kind}.*"))

    def _decide(self, store: Store) -> None:
        """Load what of the lines that were put aside is taken, now that all is known."""
        chosen = self._filter
        if chosen is None:
            return
        chosen.finish()
        every = {ITEMS: chosen.take, IDENTIFIERS: chosen.take_identifiers, NODES: chosen.take_nodes}

        def decided() -> Iterator[Piece]:
            for kind, take in every.items():
                for path in self._files(kind):
                    with gzip.open(path) as file:
                        yield Piece(0, 0, take(file.readlines()))
                yield Piece(0, 0, chosen.rest())

        self._add(store, decided(), keep=False)

    def _save(self, store: Store) -> None:
        """Keep the store as it is now, unless little came in since it was kept last."""
        if self._unsaved < self._piece // 2 and not (self._loaded and self._saves):
            return
        store.flush()
        self._picked.write()
        folder = self._work / f"{SAVED}.{self._saves + 1}"
        folder.mkdir()
        store.backup(str(folder / TRIPLES))
        for path in self._files(ITEMS, IDENTIFIERS, NODES, TEXTS, VALUES, FACTS, TRUTHY):
            os.link(path, folder / path.name)
        state = {
            "asked": self._asked,
            "read": [one.model_dump() for one in self._read],
            "counts": [self._at, self._taken, self._saves + 1],
            "blank": "".join(f"{quad} .\n" for quad in self._blank),
            "filter": self._filter.state() if self._filter else None,
            "loaded": self._loaded,
        }
        (folder / "writing").write_text(json.dumps(state))
        (folder / "writing").rename(folder / STATE)
        shutil.rmtree(self._work / f"{SAVED}.{self._saves}", ignore_errors=True)
        self._saves, self._unsaved = self._saves + 1, 0

    def _go_on(self, saved: Path, store: Path) -> None:
        """Begin with what is saved of the same build, if there is."""
        if not (saved / STATE).exists():
            shutil.rmtree(saved, ignore_errors=True)  # of an older version
            return
        state = json.loads((saved / STATE).read_bytes())
        if state["asked"] != self._asked:
            shutil.rmtree(saved)
            return
        self._at, self._taken, self._saves = state["counts"]
        mine = self._work / f"{SAVED}.{self._saves}"
        saved.rename(mine)
        Store(str(mine / TRIPLES)).backup(str(store))
        for path in mine.iterdir():
            if path.suffix[1:].isdecimal():
                os.link(path, self._work / path.name)
        if self._filter:
            self._filter.restore(state["filter"])
        self._blank = list(parse(state["blank"], RdfFormat.N_TRIPLES, lenient=True))
        self._read = [Source.model_validate(one) for one in state["read"]]
        self._loaded = state["loaded"]
        self._say(f"going on with what was loaded before: {len(self._read)} files, and {self._at:,} lines of the next")


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


def _base_of(store: Store) -> str:
    """What the IRI of a property of the store begins with; empty where it has none."""
    for quad in store.quads_for_pattern(None, _DIRECT_CLAIM, None, None):
        found = _PROPERTY.fullmatch(quad.subject.value) if isinstance(quad.subject, NamedNode) else None
        if found:
            return found[1]
    return ""


Progress = Callable[[str], None]
_PACKED: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_KINDS = (".nt", ".ttl", ".json", ".ndjson", ".jsonl")
_REPORT_SECONDS = 5.0
_READ = 256 << 10
"""Bytes that are read at once."""


def kind_of(source: Path) -> str:
    """The format by the name: ``.nt`` of ``slice.nt.gz``. Raises UsageError for one that is not read."""
    name = Path(source.name.lower())
    suffix = Path(name.stem).suffix if name.suffix in _PACKED else name.suffix
    if suffix not in _KINDS:
        packed = " or ".join(_PACKED)
        raise UsageError(
            f"{source}: unknown kind of file; these are read, with or without {packed}: {' '.join(_KINDS)}"
        )
    return suffix


@dataclass
class Piece:
    """Lines of N-Triples; how far the source had been read before them, and is with them; what properties are ids."""

    first: int
    last: int
    lines: list[bytes]
    external: dict[bytes, bool] = field(default_factory=dict)


class Lines:
    """The lines of a source, unpacked; they are counted, and told of while they are read."""

    def __init__(self, source: Path, say: Progress) -> None:
        self.source, self.count = source, 0
        self._say, self._size = say, max(source.stat().st_size, 1)
        self._begin = self._told = time.monotonic()
        self._raw = source.open("rb")
        unpack = _PACKED.get(source.suffix.lower())
        self._file = cast(IO[bytes], io.BufferedReader(unpack(self._raw), _READ) if unpack else self._raw)
        self._from: tuple[float, int] | None = None

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = self._file.read(size)
        self._count(data.count(b"\n"))
        return data

    def some(self) -> list[bytes]:
        """The next lines; none at the end."""
        lines = self._file.readlines(_READ)
        if lines and not lines[-1].endswith(b"\n"):  # the last of the file
            lines[-1] += b"\n"
        self._count(len(lines))
        return lines

    def __iter__(self) -> Iterator[bytes]:
        for line in self._file:
            self._count(1)
            yield line

    def skip(self, lines: int) -> None:
        """Go on behind so many lines."""
        self.count += sum(1 for _ in islice(self._file, lines))

    def _count(self, lines: int) -> None:
        self.count += lines
        now = time.monotonic()
        if now - self._told < _REPORT_SECONDS:
            return
        share = self._raw.tell() / self._size
        self._from = self._from or (share, self.count)  # what was skipped went faster
        self._told, begun, before = now, *self._from
        seconds = now - self._begin - _REPORT_SECONDS
        left = f", {_time((1 - share) * seconds / (share - begun))} left" if share > begun else ""
        rate = f"{(self.count - before) / max(seconds, _REPORT_SECONDS):,.0f}/s"
        self._say(f"{self.source.name}: {self.count:,} lines ({rate}), {share:.0%}{left}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    hours = f"{minutes // 60} h " if minutes >= 60 else ""
    return f"{hours}{minutes % 60} min" if minutes else f"{seconds:.0f} s"


class Feed:
    """A file to read from that is made while it is read."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts, self._part, self._place = parts, b"", 0

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; none at the end."""
        if self._place == len(self._part):
            self._part, self._place = next(filter(None, self._parts), b""), 0
        begin, self._place = self._place, min(self._place + size, len(self._part))
        return self._part[begin : self._place]


def pieces(lines: Lines, size: int, names: v.Namespaces, *, skip: int) -> Iterator[Piece]:
    """Pieces of about ``size`` bytes; the first begins behind ``skip`` of a piece before.

    Raises SyntaxError, ValueError and what unpacking raises.
    """
    match kind_of(lines.source):
        case ".nt":
            lines.skip(skip)
            return _grouped(size, ((one, lines.count, {}) for one in iter(lines.some, [])), skip)
        case ".ttl":
            triples = enumerate(parse(cast(IO[bytes], lines), RdfFormat.TURTLE, lenient=True), 1)
            return _grouped(size, ((written([quad]), at, {}) for at, quad in islice(triples, skip, None)), skip)
    return _grouped(size, _entities(lines, names, skip), skip)


def _entities(lines: Lines, names: v.Namespaces, skip: int) -> Iterator[tuple[list[bytes], int, dict[bytes, bool]]]:
    head = list(islice(lines, min(skip, 1)))
    lines.skip(skip - len(head))
    for one in entities(chain((line for line in head if line.strip() == b"["), lines)):
        yield written(quads(one, names)), lines.count, datatypes(one)


def written(some: Iterable[Quad]) -> list[bytes]:
    """Quads as lines of N-Triples."""
    return [f"{one.subject} {one.predicate} {one.object} .\n".encode() for one in some]


def _grouped(size: int, parts: Iterator[tuple[list[bytes], int, dict[bytes, bool]]], first: int) -> Iterator[Piece]:
    piece, length = Piece(first, first, []), 0
    for lines, at, external in parts:
        piece.lines += lines
        piece.last, length = at, length + sum(map(len, lines))
        piece.external |= external
        if length >= size:
            yield piece
            piece, length = Piece(at, at, []), 0
    if piece.lines:
        yield piece
