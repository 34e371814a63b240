"""A small SPARQL endpoint on the loopback address, which keeps what it is asked and may refuse some of it."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyoxigraph

from tests.knowledge.wikidata.serving import ROWS, Answer, Asked
from tests.knowledge.wikidata.serving import serving as listening

TRIPLES = "application/n-triples"


@dataclass
class Served:
    """What listens: ``requests`` are the paths and queries that came, oldest first."""

    store: pyoxigraph.Store
    url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    refuse: Callable[[str], tuple[int, str] | None] = lambda query: None
    """From a query to a status and a text, where it is refused."""
    get_only: bool = False
    rows: int = 0
    """The most rows that a result has, as an endpoint has it that does not say so; 0: all."""

    @property
    def queries(self) -> list[str]:
        return [query for path, query in self.requests if path == "/sparql"]

    def answer(self, asked: Asked) -> Answer:
        if self.get_only and asked.method == "POST":
            return Answer("Method Not Allowed", 405, "text/plain")
        query = asked.params.get("query", "")
        self.requests.append((asked.path, query))
        self.headers.append(asked.headers)
        if asked.path != "/sparql":
            return Answer("<html><title>Not here</title></html>", 404, "text/html")
        if refused := self.refuse(query):
            return Answer(refused[1], refused[0], "text/plain")
        graphs = [*map(pyoxigraph.NamedNode, asked.params.get("default-graph-uri", "").split())]
        options: dict[str, Any] = {"default_graph": graphs} if graphs else {}
        try:
            result = self.store.query(query, **options)
            triples = isinstance(result, pyoxigraph.QueryTriples)
            kind = pyoxigraph.RdfFormat.N_TRIPLES if triples else pyoxigraph.QueryResultsFormat.JSON
            body = result.serialize(format=kind)
            if self.rows and not triples:
                document = json.loads(body or b"")
                del document.get("results", {}).get("bindings", [])[self.rows :]
                body = json.dumps(document).encode()
        except (SyntaxError, ValueError, RuntimeError) as error:
            return Answer(f"MalformedQueryException: {error}", 400, "text/plain")
        return Answer(body or b"", type=TRIPLES if triples else ROWS)


@contextmanager
def serving(*turtle: str | bytes) -> Iterator[Served]:
    """Some Turtle, served meanwhile."""
    store = pyoxigraph.Store()
    for one in turtle:
        store.bulk_load(input=one.encode() if isinstance(one, str) else one, format=pyoxigraph.RdfFormat.TRIG)
    served = Served(store)
    with listening(served.answer) as server:
        served.url = f"{server.url}/sparql"
        yield served
