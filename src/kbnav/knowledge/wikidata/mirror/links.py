"""The members of a class, listed without the engine: what points at what by truthy statements, as results write it.

``?x wdt:P106/wdt:P279* wd:Q36180`` is evaluated in a tenth of the time in which the engine then finds the names of its
rows: each is looked up in a dictionary of all terms, in 3 to 6 µs. Here the ids that have an entity as value stand
together, by property and value. For the same reason a build picks them from the lines that it loads (``Picked``).
"""

from __future__ import annotations

import json
import re
import sqlite3
from array import array
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql import syntax
from kbnav.knowledge.sparql.vocabulary import WIKIDATA_VOCABULARY, Terms
from kbnav.knowledge.wikidata.mirror import vocabulary as v

if TYPE_CHECKING:
    import numpy as np

SCHEMA = "CREATE TABLE link (property TEXT, value TEXT, subjects TEXT, PRIMARY KEY (property, value)) WITHOUT ROWID;"


_KINDS = "QPLEFS"
_BITS = 34
"""Of an entity's number."""
_WAITING = 1 << 20
"""Lines and numbers that wait in memory to be written."""
_TEXT, _VALUE, _FACT = -1, -2, -3
"""Kinds of predicates; a truthy one's is the number of the property, and that of any other 0."""
_WIKIDATA = b"//www.wikidata.org/"
"""Whose properties may stand beside those of another Wikibase."""
TEXTS, VALUES, FACTS, TRUTHY = "texts", "values", "facts", "truthy"


class Picked:
    """What of the lines on their way into a store the index is made of, in files of a folder; ``here``: whose lines.

    Facts of entities' pages are written as lines about the entities themselves, where the query service has them.
    Truthy statements are three numbers each: subject, property, value. An entity's has, from the lowest bit on, its
    kind, its number and that of a form or sense; anything else is a checksum below zero.
    """

    def __init__(self, folder: Path, here: v.Namespaces) -> None:
        self._folder, self._here, self._wd = folder, here, here.wd.encode()
        self._entity = re.compile(rb"<%s([QPLE])([1-9]\d{0,9})(?:-([FS])([1-9]\d{0,6}))?>" % re.escape(self._wd))
        of_page = (v.STATEMENTS, v.SITELINKS, v.IDENTIFIERS, v.VERSION, v.DATE_MODIFIED)
        self._kinds = {str(one).encode(): _FACT for one in of_page}
        self._kinds |= {str(one).encode(): _TEXT for one in (v.RDFS_LABEL, v.ALT_LABEL, v.DESCRIPTION)}
        self._truthy = array("q")
        self._lines: dict[str, list[bytes]] = {TEXTS: [], VALUES: [], FACTS: []}

    def take(self, lines: Iterable[bytes]) -> None:
        """Pick from lines of N-Triples."""
        before, start, kinds, truthy = b"", 0, self._kinds, self._truthy
        texts, values, facts = self._lines.values()
        for line in lines:
            if len(parts := line.split(None, 2)) < 3:  # a comment
                continue
            subject, predicate, value = parts
            kind = kinds.get(predicate)
            if kind is None:
                kind = kinds[predicate] = self._kind(predicate)
            if not kind:
                continue
            if kind == _TEXT:
                texts.append(line)
            elif kind == _FACT:
                page, _, name = subject.partition(b":EntityData/")  # before it "Special" in the wiki's language
                if name and (_WIKIDATA in self._wd or _WIKIDATA not in page):
                    facts.append(b"<%s%s %s %s" % (self._wd, name, predicate, value))
            else:
                bare = value.rstrip(b". \t\r\n")
                if bare[:1] == b'"' and (bare[-1:] != b">" or bare.endswith(b"#string>")):
                    values.append(line)
                if kind != _VALUE:
                    if subject != before:
                        before, start = subject, self._number(subject)
                    truthy.extend((start, kind, self._number(bare)))
        if len(truthy) + len(texts) + len(values) + len(facts) > _WAITING:
            self.write()

    def _kind(self, predicate: bytes) -> int:
        namespace, _, name = predicate[1:-1].decode().rpartition("P")
        if not name.isdecimal():
            return 0
        return int(name) if namespace == self._here.wdt else _VALUE * (namespace in (self._here.ps, self._here.pq))

    def _number(self, term: bytes) -> int:
        if found := self._entity.fullmatch(term):
            return int(found[4] or 0) << 3 + _BITS | int(found[2]) << 3 | b"QPLEFS".index(found[3] or found[1])
        return -1 - crc32(term)

    def write(self) -> None:
        """Write what waits."""
        data = {kind: b"".join(some) for kind, some in self._lines.items()} | {TRUTHY: self._truthy.tobytes()}
        for kind, waiting in data.items():
            (self._folder / f"{kind}.{len(self.files(kind)):06}").write_bytes(waiting)
        del self._truthy[:]
        for some in self._lines.values():
            some.clear()

    def files(self, kind: str) -> list[Path]:
        """What is written of a kind."""
        return sorted(self._folder.glob(f"{kind}.*"))

    def texts(self) -> Iterator[tuple[str, Literal, NamedNode]]:
        """Names and descriptions of items and properties with their predicates, some perhaps twice."""
        subject, entity = None, ""
        for path in self.files(TEXTS):
            for quad in parse(path=path, format=RdfFormat.N_TRIPLES, lenient=True):
                if quad.subject != subject:
                    subject = quad.subject
                    entity = self._here.local_id(subject.value) if isinstance(subject, NamedNode) else ""
                if entity[:1] in ("Q", "P") and isinstance(quad.object, Literal):
                    yield entity, quad.object, quad.predicate

    def values(self, props: Collection[str]) -> Iterator[tuple[str, str]]:
        """Entity and text of statements and qualifiers of some properties, the same ones perhaps twice."""
        for path in self.files(VALUES):
            with path.open("rb") as file:
                some = [line for line in file if line.split(None, 2)[1].rpartition(b"/")[2][:-1].decode() in props]
            for quad in parse(b"".join(some), RdfFormat.N_TRIPLES, lenient=True):
                if isinstance(quad.subject, NamedNode) and isinstance(quad.object, Literal) and quad.object.value:
                    # a statement's IRI begins with the entity's id, as Wikibase's RDF has it
                    iri = quad.subject.value.removeprefix(self._here.wds)
                    yield self._here.local_id(iri) or iri.partition("-")[0].upper(), quad.object.value

    def truthy(self) -> np.ndarray:
        """Truthy statements [n, 3], each once, by property and value."""
        import numpy as np  # only a build needs it

        rows = np.concatenate([np.fromfile(one, np.int64) for one in self.files(TRUTHY)]).reshape(-1, 3)
        rows = rows[np.lexsort((rows[:, 0], rows[:, 2], rows[:, 1]))]
        return rows[np.diff(rows, axis=0, prepend=0).any(axis=1)]


def add_links(index: sqlite3.Connection, truthy: np.ndarray) -> None:
    """Write what has an entity as value, of the properties that only entities have. Raises sqlite3.Error."""
    import numpy as np  # only a build needs it

    others = np.unique(truthy[truthy[:, 0] < 0, 1])
    truthy = truthy[~np.isin(truthy[:, 1], others)]
    held = np.unique(truthy[:, 1]).tolist()
    truthy = truthy[truthy[:, 2] >= 0]
    begins = np.flatnonzero(np.diff(truthy[:, 1:], axis=0, prepend=0).any(axis=1)).tolist()
    subjects, places = np.unique(truthy[:, 0], return_inverse=True)
    ids = [_id(subject) for subject in subjects.tolist()]
    rows = (
        (f"P{prop}", _id(value), " ".join(map(ids.__getitem__, places[begin:end].tolist())))
        for (begin, end), (prop, value) in zip(
            pairwise([*begins, len(truthy)]), truthy[begins, 1:].tolist(), strict=True
        )
    )
    index.executemany("INSERT INTO link VALUES (?, ?, ?)", chain(((f"P{prop}", "", "") for prop in held), rows))


def _id(number: int) -> str:
    kind, whole, part = _KINDS[number & 7], number >> 3 & (1 << _BITS) - 1, number >> 3 + _BITS
    return f"L{whole}-{kind}{part}" if part else f"{kind}{whole}"


class Links:
    """The links of a mirror, to read from."""

    def __init__(self, path: Path, here: v.Namespaces) -> None:
        """Open the index at ``path``. Raises sqlite3.Error."""
        self._sqlite = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        self._here = here

    def listed(self, query: str) -> bytes | None:
        """The result, in JSON, of ``SELECT ?x { ?x PATH ENTITY }``; None for any other query, which the engine runs.

        The path is a sequence of properties, each with ``*`` or ``+`` or without; rows come as often as SPARQL has it.
        """
        with suppress(QuerySyntaxError, sqlite3.Error):  # a damaged index is none of the engine's concern
            read = syntax.read_query(query)
            match read:
                case syntax.Query(
                    select=syntax.Select(expressions=(), tail=syntax.Tail((), ())) as select,
                    where=syntax.Group(elements=(syntax.Triples(patterns=(pattern,)),)),
                ) if select.visible == (pattern.subject,) and isinstance(pattern.verb, syntax.Path):
                    found = self._back(pattern, Terms(query, WIKIDATA_VOCABULARY))
                    if found is None:
                        return None
                    name = json.dumps(pattern.subject[1:])
                    begin = f'{{{name}:{{"type":"uri","value":"{self._here.wd}'
                    ids = dict.fromkeys(found) if select.distinct else found
                    rows = '"}},'.join(begin + one for one in ids) + '"}}' * bool(ids)
                    return f'{{"head":{{"vars":[{name}]}},"results":{{"bindings":[{rows}]}}}}'.encode()
        return None

    def _back(self, pattern: syntax.Pattern, terms: Terms) -> list[str] | None:
        """What leads to the pattern's object, as often as by different ways; None where that is not known here."""
        end = self._here.local_id(terms.iri(pattern.object))
        if not end or isinstance(pattern.verb, str):
            return None
        found = [end]
        for path, turned in reversed(pattern.verb.steps()):
            edge = path.parts[0] if path.kind in ("*", "+") else path
            name = terms.iri(edge.name) if edge.kind == "iri" and not turned else ""
            prop = name.removeprefix(self._here.wdt)
            if prop == name or not self._holds(prop):
                return None
            if path is edge:
                found = [one for start in found for one in self._subjects(prop, start)]
            else:
                found = [one for start in found for one in self._closure(prop, start, path.kind == "*")]
        return None if found == [end] else found  # whether the store has it at all is not known here

    def _closure(self, prop: str, start: str, zero: bool) -> Iterable[str]:
        """What leads to an entity in one step or more, or with ``zero`` in none, each once."""
        found, left = {start: None} if zero else {}, [start]
        while left:
            for one in self._subjects(prop, left.pop()):
                if one not in found:
                    found[one] = None
                    left.append(one)
        return found

    def _holds(self, prop: str) -> bool:
        return bool(self._sqlite.execute("SELECT 1 FROM link WHERE property = ? AND value = ''", (prop,)).fetchone())

    def _subjects(self, prop: str, value: str) -> list[str]:
        found = "SELECT subjects FROM link WHERE property = ? AND value = ?"
        row = self._sqlite.execute(found, (prop, value)).fetchone()
        return row[0].split(" ") if row else []
