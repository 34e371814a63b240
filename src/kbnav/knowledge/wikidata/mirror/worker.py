"""The child of a pool of queries, which runs one after another.

Run as a module: ``python -m … STORE MEMORY_BYTES [NAMES CONCEPT_BASE]``, with a socket as its input. It says that it
is ready, and answers a request in JSON with ``result`` and a media type, then the result; or with a ``QueryError``'s
reason and text.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from pyoxigraph import BlankNode, Literal, NamedNode, QueryResultsFormat, QueryTriples, RdfFormat, Store, Triple

from kbnav.knowledge.sparql.ordering import order_joins
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.links import Links

Term = NamedNode | BlankNode | Literal | Triple
Function = Callable[..., Term | None]

_GEOF = "http://www.opengis.net/def/geosparql/function/"
_EARTH_RADIUS = 6371.0088
"""Kilometres, the mean."""
_POINT = re.compile(r"\s*(?:<[^>]*>\s*)?Point\(\s*([-+.\dE]+)\s+([-+.\dE]+)\s*\)\s*", re.IGNORECASE)

_DURATIONS = f"{v.XSD}dayTimeDuration"
_DURATION = re.compile(r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?")


def functions() -> dict[NamedNode, Function]:
    """The functions by their IRIs; each gives None, an error of SPARQL, where its arguments are not what it takes."""
    return {
        NamedNode(f"{_GEOF}distance"): _distance,
        NamedNode(f"{_GEOF}latitude"): lambda point: _coordinate(point, 1),
        NamedNode(f"{_GEOF}longitude"): lambda point: _coordinate(point, 0),
        NamedNode(f"{v.WIKIBASE}isSomeValue"): _is_some_value,
        NamedNode(f"{v.WIKIBASE}decodeUri"): _decode_uri,
        NamedNode(v.DAYS): _days,
    }


def _distance(one: Term, other: Term) -> Term | None:
    """Kilometres between two points, along a great circle."""
    a, b = _point(one), _point(other)
    if a is None or b is None:
        return None
    (east_a, north_a), (east_b, north_b) = ((math.radians(x), math.radians(y)) for x, y in (a, b))
    half = (
        math.sin((north_b - north_a) / 2) ** 2
        + math.cos(north_a) * math.cos(north_b) * math.sin((east_b - east_a) / 2) ** 2
    )
    return _double(2 * _EARTH_RADIUS * math.asin(min(1.0, math.sqrt(half))))


def _coordinate(point: Term, index: int) -> Term | None:
    found = _point(point)
    return None if found is None else _double(found[index])


def _point(term: Term) -> tuple[float, float] | None:
    """Longitude and latitude of a point."""
    match = _POINT.fullmatch(term.value) if isinstance(term, Literal) else None
    try:
        return None if match is None else (float(match[1]), float(match[2]))
    except ValueError:
        return None


def _double(number: float) -> Literal:
    return Literal(str(number), datatype=NamedNode(f"{v.XSD}double"))


def _days(term: Term) -> Term | None:
    match = _DURATION.fullmatch(term.value) if isinstance(term, Literal) and term.datatype.value == _DURATIONS else None
    if match is None:
        return term
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups()[1:])
    length = days + (hours * 3600 + minutes * 60 + seconds) / 86_400
    return _double(-length if match[1] else length)


def _is_some_value(term: Term) -> Term:
    unknown = isinstance(term, BlankNode) or (isinstance(term, NamedNode) and v.GENID in term.value)
    return Literal("true" if unknown else "false", datatype=NamedNode(f"{v.XSD}boolean"))


def _decode_uri(term: Term) -> Term | None:
    return Literal(unquote(term.value)) if isinstance(term, Literal | NamedNode) else None


_GRAPH_FORMS = {"ntriples": RdfFormat.N_TRIPLES, "turtle": RdfFormat.TURTLE, "rdfxml": RdfFormat.RDF_XML}
_ROW_FORMS = {
    "json": QueryResultsFormat.JSON,
    "xml": QueryResultsFormat.XML,
    "csv": QueryResultsFormat.CSV,
    "tsv": QueryResultsFormat.TSV,
}
_MEDIA = {
    "json": "application/sparql-results+json;charset=utf-8",
    "xml": "application/sparql-results+xml;charset=utf-8",
    "csv": "text/csv;charset=utf-8",
    "tsv": "text/tab-separated-values;charset=utf-8",
    "ntriples": "application/n-triples;charset=utf-8",
    "turtle": "text/turtle;charset=utf-8",
    "rdfxml": "application/rdf+xml;charset=utf-8",
}
_GRACE_SECONDS = 5.0
_STATUS = Path("/proc/self/status")
_NEARLY = 32 << 20
"""Bytes: who has had all but these of the memory that it may have fails for want of it, whatever the error says."""


def _serve(path: str, memory_limit: int, *names: str) -> None:
    """The child's loop: a reply for each request, until its pool is gone. It ends itself where memory runs out.

    What it needs is loaded before its memory is limited: a module that cannot be loaded fails in many ways.
    """
    pool = Connection(os.dup(sys.stdin.fileno()))
    store = links = None
    pool.send_bytes(b"ready")
    while True:
        try:
            request = json.loads(pool.recv_bytes())
        except (EOFError, OSError):
            return
        signal.setitimer(signal.ITIMER_REAL, request["timeout"] + _GRACE_SECONDS)  # where its pool is gone by then
        try:
            if store is None:
                store = Store.read_only(path)
                links = Links(Path(names[0]), v.Namespaces.of(names[1])) if names else None
                if memory_limit:
                    resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
                    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # out of memory, a signal ends the process
            _answer(pool, store, links, request)
        except BaseException as error:  # a panic of the engine's is no Exception
            if _out_of_memory(error, memory_limit):
                os._exit(0)  # in good order would need memory
            if not isinstance(error, OSError | RuntimeError):
                raise
            pool.send_bytes(f"broken {error}".encode(errors="replace"))
        signal.setitimer(signal.ITIMER_REAL, 0)


def _answer(pool: Connection, store: Store, links: Links | None, request: dict[str, Any]) -> None:
    """Run a query and send what comes of it. Raises what has nothing to do with the query."""
    out = _Bounded(request["most_bytes"])
    try:
        form = _write(store, links, request, out)
    except SyntaxError as error:
        said = f"syntax {error.msg}"
    except _TooLarge:
        said = f"size the result is larger than {request['most_bytes'] >> 20} MiB: "
        said += "add a LIMIT, or count instead of listing"
    except RuntimeError as error:
        if "custom function" not in str(error):  # a function that is not there, found before the query runs
            raise
        said = f"syntax {error}"
    except ValueError as error:
        said = f"failed {error}"
    else:
        pool.send_bytes(f"result {_MEDIA[form]}".encode())
        pool.send_bytes(out.getbuffer())
        return
    pool.send_bytes(said.encode(errors="replace"))


def _out_of_memory(error: BaseException, limit: int) -> bool:
    """Whether something failed for want of memory: a thread, a mapped file, an allocation of the engine's."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    if not limit or not _STATUS.exists():
        return False
    try:
        most = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmPeak"))
    except (MemoryError, OSError):
        return True
    return int(most.split()[1]) << 10 > limit - _NEARLY


class _TooLarge(Exception):
    """A result that grows beyond what may be sent."""


class _Bounded(io.BytesIO):
    """Takes so many bytes and no more: a result is counted while it is written, so that it never is in memory whole."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._most:
            raise _TooLarge
        return super().write(data)


def _write(store: Any, links: Links | None, request: dict[str, Any], out: IO[bytes]) -> str:
    """Write a query's result; returns the form it is in."""
    if links and request["form"] == "json" and (listed := links.listed(request["query"])):
        out.write(listed)
        return "json"
    where: dict[str, Any] = {"use_default_graph_as_union": request["union"]}
    if request["graph"]:
        where = {"default_graph": [*map(NamedNode, request["graph"].split())]}
    query = order_joins(request["query"], lambda text: int(next(iter(store.query(text, **where)))[0].value))
    found: Any = store.query(query, custom_functions=functions(), **where)
    if not isinstance(found, QueryTriples):
        found.serialize(out, format=_ROW_FORMS[request["form"]])
        return str(request["form"])
    found.serialize(out, format=_GRAPH_FORMS[request["graph_form"]])
    return str(request["graph_form"])


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
