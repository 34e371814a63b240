"""A Wikibase's query service by HTTP, each query in the dialect of its engine.

Wikidata's service has no scholarly articles: since May 2025 they are in a graph of their own, behind a service of their
own (https://www.wikidata.org/wiki/Wikidata:SPARQL_query_service/WDQS_graph_split). A result that may lack them says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kbnav.answers.tables import AnswerTable
from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.probing import dialect_at
from kbnav.knowledge.replies import ACCEPT_ROWS, ACCEPT_TRIPLES, LEFT_OUT, Request, is_loopback, read_query
from kbnav.knowledge.sparql.dialects import AUTO, DIALECTS, Dialect
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.sparql.vocabulary import add_prefixes
from kbnav.settings.model import Endpoints

if TYPE_CHECKING:
    from kbnav.knowledge.http import HttpClient

_OF_ARTICLES = re.compile(
    r"(?:wdt:|p:|prop/(?:direct/)?)P(?:50|356|698|818|921|932|1433|2093|2860)\b"
    r"|(?:wd:|entity/)Q(?:13442814|18918145|7318358|1504425|815382|23927052|580922|1348305|45182324)\b"
)
"""Properties that mostly articles have (author, DOI, PubMed, arXiv, main subject, PMC, published in, author's name,
cites), and the classes of articles."""


def is_split(url: str) -> bool:
    """Whether the scholarly articles are not behind this query service but another."""
    return (urlsplit(url).hostname or "").endswith(".wikidata.org")


def _dialect_of(url: str, name: str, http: HttpClient) -> Dialect:
    """What the engine at a URL understands: as it is named, or by an address that is known, else as it is found out.

    What is served on this machine is taken for a mirror, which understands what is written for Wikidata's service.
    """
    if name == AUTO and "qlever" in (urlsplit(url).hostname or ""):
        return DIALECTS["qlever"]
    if name == AUTO and (is_split(url) or is_loopback(url)):
        return DIALECTS["wdqs"]
    return dialect_at(url, name, http)


class QueryService:
    """The query service of one Wikibase; ``prefixes`` are those that a query need not declare."""

    def __init__(
        self,
        endpoints: Endpoints,
        allowed: Collection[str],
        prefixes: Mapping[str, str],
        http: HttpClient,
    ) -> None:
        self._endpoints, self._allowed, self._prefixes, self._http = endpoints, allowed, prefixes, http
        self._dialect = cache(partial(_dialect_of, endpoints.sparql, endpoints.dialect, http))

    def run(self, query: str, *, language: str = "en") -> AnswerTable:
        """A query's result, and whether scholarly articles may be missing. Raises as ``prepare``, ``read_query``."""
        prepared = prepare(query, self._dialect(), services=self._allowed, prefixes=self._prefixes, language=language)
        triples = prepared.form in ("CONSTRUCT", "DESCRIBE")
        try:
            table = self._fetch(prepared.text, ACCEPT_TRIPLES if triples else ACCEPT_ROWS)
        except QuerySyntaxError as error:  # what was put before the query's first line moved the place
            added = 0 if prepared.changed else len(prepared.text) - len(query)
            column = error.column - added if error.line == 1 and error.column > added else error.column
            where = f" at line {error.line}, column {column}" if error.line else ""
            raise QuerySyntaxError(f"syntax error{where}: {error}", line=error.line, column=column) from error
        if is_split(self._endpoints.sparql) and "subgraph" not in query and _OF_ARTICLES.search(query):
            return replace(table, note=f"{table.note} {LEFT_OUT}".strip())
        return table

    def select(self, query: str) -> AnswerTable:
        """The rows of a query in standard SPARQL that kbnav made itself."""
        return self._fetch(add_prefixes(query, self._prefixes), ACCEPT_ROWS)

    @property
    def engine(self) -> str:
        """The name of the service's engine, for people."""
        return self._dialect().engine

    def _fetch(self, text: str, accept: str) -> AnswerTable:
        request = Request("sparql", self._endpoints.sparql, {"query": text}, accept)
        return self._http.fetch(request, partial(read_query, query=text))
