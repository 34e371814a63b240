"""Queries in child processes, each with a hard limit of time and memory.

The store's engine does not stop a query by itself, and running out of memory would end the process. So a query runs in
a child: past its time the child is killed, past its memory it dies, and the pool starts another.

Run as a module this file is the child: ``python -m … STORE MEMORY_BYTES``, requests on its input and replies on
its output, both as frames of a length and JSON or bytes.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

Form = Literal["json", "xml", "csv", "tsv", "ntriples", "turtle", "rdfxml"]
_GRAPH_FORMS = frozenset({"ntriples", "turtle", "rdfxml"})
_MEDIA = {
    "json": "application/sparql-results+json;charset=utf-8",
    "xml": "application/sparql-results+xml;charset=utf-8",
    "csv": "text/csv;charset=utf-8",
    "tsv": "text/tab-separated-values;charset=utf-8",
    "ntriples": "application/n-triples;charset=utf-8",
    "turtle": "text/turtle;charset=utf-8",
    "rdfxml": "application/rdf+xml;charset=utf-8",
}
_LENGTH = struct.Struct("!BQ")
_RESULT, _SYNTAX, _FAILED, _BROKEN, _GONE = range(5)
_REASONS = {_SYNTAX: "syntax", _FAILED: "failed", _BROKEN: "broken"}
_GRACE_SECONDS = 5.0


class QueryError(Exception):
    """A query without a result; ``reason`` is ``syntax``, ``timeout``, ``memory``, ``failed`` or ``broken``.

    A query that failed is at fault itself; where the mirror is broken no query may work.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Result:
    """A result as it goes over the wire."""

    media_type: str
    body: bytes


class QueryPool:
    """Child processes that answer queries over one store. Threads may share a pool."""

    def __init__(self, store: Path, *, size: int, timeout: float, memory_limit: int, union: bool = False) -> None:
        """Keep up to ``size`` children; they start when first needed.

        Args:
            store: folder of the store.
            size: queries that run at once; further ones wait for their turn.
            timeout: seconds that a query may take, its turn not counted.
            memory_limit: bytes of address space for each child; 0: no limit.
            union: whether queries see all named graphs as one, beside the default graph.
        """
        self._union = union
        self._timeout = timeout
        self._command = [sys.executable, "-P", "-m", __name__, str(store), str(memory_limit)]
        self._turns = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._busy: set[_Child] = set()
        self._closed = False

    def query(self, text: str, form: Form, graph_form: Form, *, graph: str = "") -> Result:
        """Run a query; SELECT and ASK come in ``form``, CONSTRUCT and DESCRIBE in ``graph_form``.

        ``graph`` is the IRI of the graph that the query is about; empty: the default graph. Raises QueryError.
        """
        request = {"query": text, "form": form, "graph_form": graph_form, "union": self._union, "graph": graph}
        with self._turns:
            child = self._take()
            try:
                return child.ask(request, self._timeout)
            finally:
                self._give_back(child)

    def _take(self) -> _Child:
        with self._lock:
            if self._closed:
                raise QueryError("broken", "the server is being stopped")
            try:
                child = self._idle.pop() if self._idle else _Child(self._command)
            except OSError as error:
                raise QueryError("broken", f"no process can be started for the query: {error}") from error
            self._busy.add(child)
            return child

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            self._busy.discard(child)
            if child.alive() and not self._closed:
                self._idle.append(child)
                return
        child.end()

    def close(self) -> None:
        """End all children; a query that one of them runs fails."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for child in self._busy:  # the thread that uses it does the rest
                child.kill()
        for child in idle:
            child.end()


class _Child:
    """One child process, used by one thread at a time."""

    def __init__(self, command: list[str]) -> None:
        # What its engine prints when memory runs out would only clutter the server's output.
        self._killed = False
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,  # a Ctrl-C in the terminal is for the process that serves, which may end in good order
        )

    def alive(self) -> bool:
        return not self._killed and self._process.poll() is None

    def ask(self, request: dict[str, Any], timeout: float) -> Result:
        expired = threading.Event()

        def stop() -> None:
            expired.set()
            self.kill()

        timer = threading.Timer(timeout, stop)
        timer.daemon = True
        timer.start()
        kind, body = self._exchange(request | {"timeout": timeout})
        timer.cancel()
        if kind == _RESULT:
            media_type, _, rest = body.partition(b"\n")
            return Result(media_type.decode(), rest)
        if expired.is_set():
            raise QueryError("timeout", f"the query took longer than {timeout:g} s")
        if kind == _GONE:
            # Out of memory it ends by a signal, or by itself in good order.
            if self._process.wait() > 0:
                raise QueryError("broken", "the process that was to run the query ended unexpectedly")
            raise QueryError("memory", "the query needed more memory than it may have")
        raise QueryError(_REASONS[kind], body.decode(errors="replace"))

    def kill(self) -> None:
        self._killed = True  # the system may take a moment
        self._process.kill()

    def end(self) -> None:
        """Kill the process, where it still lives, and let go of what belongs to it."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # what was not yet sent can no longer be
                continue
        self._process.wait()

    def _exchange(self, request: dict[str, Any]) -> tuple[int, bytes]:
        if self._process.stdin is None or self._process.stdout is None:
            return _GONE, b""
        try:
            _write(self._process.stdin, 0, json.dumps(request).encode())
            return _read(self._process.stdout) or (_GONE, b"")
        except OSError:  # the pipe broke
            return _GONE, b""


def _write(stream: IO[bytes], kind: int, body: bytes) -> None:
    stream.write(_LENGTH.pack(kind, len(body)))
    stream.write(body)
    stream.flush()


def _read(stream: IO[bytes]) -> tuple[int, bytes] | None:
    """One frame; None where the other side is gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    kind, length = _LENGTH.unpack(head)
    body = stream.read(length)
    return (kind, body) if len(body) == length else None


def _serve(path: str, memory_limit: int) -> None:
    """The child's loop: a reply for each request, until its input ends."""
    from pyoxigraph import Store

    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    store = None
    while (frame := _read(requests)) is not None:
        request = json.loads(frame[1])
        _stop_after(request["timeout"] + _GRACE_SECONDS)
        try:
            if store is None:
                store = Store.read_only(path)
                _limit_memory(memory_limit)
            reply = _RESULT, _run(store, request)
        except SyntaxError as error:
            reply = _SYNTAX, str(error.msg).encode()
        except MemoryError:
            return
        except RuntimeError as error:  # a function that is not there, found before the query runs; or a damaged store
            unknown = "custom function" in str(error)
            reply = (_SYNTAX if unknown else _BROKEN), str(error).encode()
        except OSError as error:
            reply = _BROKEN, str(error).encode()
        except ValueError as error:
            reply = _FAILED, str(error).encode()
        _write(replies, *reply)
        _stop_after(0)


def _stop_after(seconds: float) -> None:
    """Have the system end this process, whatever it does then; 0: no more. For children whose server has died."""
    if sys.platform != "win32":
        import signal

        signal.setitimer(signal.ITIMER_REAL, seconds)


def _limit_memory(limit: int) -> None:
    if limit and sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # running out of memory ends the process by a signal


def _run(store: Any, request: dict[str, Any]) -> bytes:
    """The media type, a line's end, and the result."""
    from pyoxigraph import NamedNode, QueryResultsFormat, QueryTriples, RdfFormat

    from kbnav.knowledge.sparql.ordering import order_joins
    from kbnav.knowledge.wikidata.mirror.functions import functions

    where: dict[str, Any] = {"use_default_graph_as_union": request["union"]}
    if request["graph"]:
        where = {"default_graph": NamedNode(request["graph"])}
    query = order_joins(request["query"], lambda text: int(next(iter(store.query(text, **where)))[0].value))
    found = store.query(query, custom_functions=functions(), **where)
    if isinstance(found, QueryTriples):
        form = request["graph_form"]
        if form not in _GRAPH_FORMS:
            return f"{_MEDIA['json']}\n".encode() + _triples_json(found)
        formats = {"ntriples": RdfFormat.N_TRIPLES, "turtle": RdfFormat.TURTLE, "rdfxml": RdfFormat.RDF_XML}
        body = found.serialize(format=formats[form])
    else:
        form = request["form"]
        results = {
            "json": QueryResultsFormat.JSON,
            "xml": QueryResultsFormat.XML,
            "csv": QueryResultsFormat.CSV,
            "tsv": QueryResultsFormat.TSV,
        }
        body = found.serialize(format=results[form])
    return f"{_MEDIA[form]}\n".encode() + (body or b"")


def _triples_json(triples: Any) -> bytes:
    """Triples as a table of subject, predicate and object, as the query service gives them in JSON."""
    rows = [_parts(triple) for triple in triples]
    document = {"head": {"vars": ["subject", "predicate", "object"]}, "results": {"bindings": rows}}
    return json.dumps(document, ensure_ascii=False).encode()


def _parts(triple: Any) -> dict[str, Any]:
    return {"subject": _term(triple.subject), "predicate": _term(triple.predicate), "object": _term(triple.object)}


def _term(term: Any) -> dict[str, Any]:
    from pyoxigraph import BlankNode, NamedNode, Triple

    if isinstance(term, Triple):
        return {"type": "triple", "value": _parts(term)}
    if isinstance(term, NamedNode | BlankNode):
        return {"type": "uri" if isinstance(term, NamedNode) else "bnode", "value": term.value}
    found = {"type": "literal", "value": term.value}
    if term.language:
        found["xml:lang"] = term.language
    elif term.datatype.value != "http://www.w3.org/2001/XMLSchema#string":
        found["datatype"] = term.datatype.value
    return found


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
