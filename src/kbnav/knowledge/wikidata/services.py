"""Which query service gets a query: the main one, that of scholarly articles, or others where it does not answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from kbnav.answers.tables import AnswerTable
from kbnav.errors import QuerySyntaxError, QueryTimeout, ServiceError
from kbnav.knowledge.base import Meter
from kbnav.knowledge.probing import dialect_at
from kbnav.knowledge.replies import ACCEPT_ROWS, ACCEPT_TRIPLES, Request, is_loopback, read_query
from kbnav.knowledge.sparql.check import QueryForm
from kbnav.knowledge.sparql.dialects import AUTO, DIALECTS, Dialect, dialect_named
from kbnav.knowledge.sparql.rewriting import outer_limit, prepare
from kbnav.knowledge.sparql.vocabulary import add_prefixes
from kbnav.knowledge.wikidata.split import (
    CLASSES,
    LEFT_OUT,
    Divided,
    divide,
    items_of,
    known_query,
    may_be_scholarly,
    names_subgraph,
)
from kbnav.settings.model import Endpoints, is_split

if TYPE_CHECKING:
    from kbnav.knowledge.http import HttpClient

_ASKED = 50
"""Items of one query that the service of articles is asked about."""


def dialect_of(url: str, name: str = "auto") -> Dialect | None:
    """What the engine at a URL understands: as it is named, or by an address that is known; None for any other.

    What is served on this machine is taken for a mirror, which understands what is written for Wikidata's service.
    """
    if name != "auto":
        return dialect_named(name)
    host = urlsplit(url).hostname or ""
    if "qlever" in host:
        return DIALECTS["qlever"]
    return DIALECTS["wdqs"] if host.endswith(".wikidata.org") or is_loopback(url) else None


class Queries(Protocol):
    """What a Wikibase's queries are run by."""

    @property
    def engine(self) -> str:
        """The name of the engine, for people."""

    def run(self, query: str, *, language: str = "en") -> AnswerTable:
        """The result of a model's or person's query."""

    def select(self, query: str) -> AnswerTable:
        """The rows of a query in standard SPARQL that kbnav made itself."""

    def ask(self, url: str, query: str) -> AnswerTable:
        """The rows of a query in standard SPARQL at one service."""

    def metered(self, meter: Meter) -> Queries:
        """The same, its requests counted."""


class QueryServices:
    """The query services of one Wikibase; ``words`` are the prefixes that a query need not declare."""

    def __init__(
        self,
        endpoints: Endpoints,
        allowed: Collection[str],
        prefixes: Mapping[str, str],
        http: HttpClient,
        probed: dict[str, Dialect] | None = None,
    ) -> None:
        """``probed`` takes the engines that are found out; None: an unknown one is taken for Wikidata's."""
        self._endpoints = endpoints
        self._allowed = allowed
        self._prefixes = prefixes
        self._http = http
        self._probed = probed

    def metered(self, meter: Meter) -> QueryServices:
        """The same services, their requests counted."""
        http = self._http.metered(meter)
        return QueryServices(self._endpoints, self._allowed, self._prefixes, http, self._probed)

    def run(self, query: str, *, language: str = "en") -> AnswerTable:
        """The result of a model's or person's query, with a note where it comes from elsewhere than the main service.

        Raises what ``prepare`` and ``read_query`` raise; places in errors are those of ``query``.
        """
        if not is_split(self._endpoints) or names_subgraph(query):
            return self._with_fallbacks(query, language)
        divided = divide(query)
        if divided:
            return self._divided(divided, query, language)
        table = self._with_fallbacks(query, language)
        if len(table.rows) or table.boolean:
            return _noted(table, LEFT_OUT) if may_be_scholarly(query) else table
        return self._elsewhere(query, table, language)

    def select(self, query: str) -> AnswerTable:
        """The rows of a query in standard SPARQL that kbnav made itself."""
        return self._with_fallbacks(query, "en", checked=True)

    def _elsewhere(self, query: str, nothing: AnswerTable, language: str) -> AnswerTable:
        """A query without rows once more where what it names, or what it may mean, is among the articles."""
        items = items_of(query)[:_ASKED]
        try:
            held = self.ask(self._endpoints.scholarly, known_query(items)) if items else AnswerTable()
            known = {cell.entity_id or "" for row in held.rows for cell in row if cell}
            divided = divide(query, CLASSES | known, guess=may_be_scholarly(query))
            table = self._divided(divided, query, language) if divided else nothing
        except (ServiceError, QueryTimeout, QuerySyntaxError) as error:
            return _noted(nothing, f"{LEFT_OUT} (That service was asked, and failed: {error})")
        if len(table.rows) or table.boolean:
            return table
        return _noted(nothing, LEFT_OUT) if divided or may_be_scholarly(query) else nothing

    def _divided(self, divided: Divided, query: str, language: str) -> AnswerTable:
        """A query about articles at their service, or by federation from the main one."""
        prepare(query, DIALECTS["wdqs"], services=self._allowed, prefixes=self._prefixes)  # says where it is wrong
        if divided.whole:
            return _noted(self._prepared(self._endpoints.scholarly, divided.text, language), divided.note)
        return _noted(self._prepared(self._endpoints.sparql, divided.text, language), divided.note)

    def _with_fallbacks(self, query: str, language: str, *, checked: bool = False) -> AnswerTable:
        """The first service that answers."""
        urls = (self._endpoints.sparql, *self._endpoints.fallbacks)
        why = ""
        for place, url in enumerate(urls, 1):
            try:
                table = self.ask(url, query) if checked else self._prepared(url, query, language)
            except (ServiceError, QueryTimeout) as error:
                if place == len(urls):
                    raise
                why = why or f"{urlsplit(self._endpoints.sparql).netloc} did not answer ({error})"
            else:
                asked = urlsplit(url).netloc
                return _noted(table, f"{why}: {asked} was asked, whose data may be older.") if why else table
        raise ServiceError("no query service is configured (endpoints.sparql)")

    def _prepared(self, url: str, query: str, language: str) -> AnswerTable:
        """A query checked, in the dialect of the service."""
        prepared = prepare(
            query,
            self._dialect(url),
            services=self._allowed,
            prefixes=self._prefixes,
            language=language,
        )
        triples = prepared.form in (QueryForm.CONSTRUCT, QueryForm.DESCRIBE)
        try:
            return self._fetch(url, prepared.text, ACCEPT_TRIPLES if triples else ACCEPT_ROWS)
        except QuerySyntaxError as error:
            added = 0 if prepared.changed else len(prepared.text) - len(query)
            raise _placed(error, added=added) from error

    @property
    def engine(self) -> str:
        """The name of the main service's engine, for people."""
        return self._dialect(self._endpoints.sparql).engine

    def _dialect(self, url: str) -> Dialect:
        """What a service understands; one that is not known is found out once, by a few small queries."""
        known = dialect_of(url, self._endpoints.dialect if url == self._endpoints.sparql else "auto")
        if known or self._probed is None:
            return known or DIALECTS["wdqs"]
        if url not in self._probed:
            self._probed[url] = dialect_at(url, AUTO, self._http)
        return self._probed[url]

    def ask(self, url: str, query: str) -> AnswerTable:
        """The rows of a query in standard SPARQL at one service."""
        return self._fetch(url, add_prefixes(query, self._prefixes), ACCEPT_ROWS)

    def _fetch(self, url: str, text: str, accept: str) -> AnswerTable:
        return self._http.fetch(
            Request("sparql", url, {"query": text}, accept), partial(read_query, limit=outer_limit(text))
        )


def _noted(table: AnswerTable, note: str) -> AnswerTable:
    return replace(table, note=" ".join(part for part in (table.note, note) if part))


def _placed(error: QuerySyntaxError, *, added: int) -> QuerySyntaxError:
    """The service's error with the place in the model's own text: ``added`` characters went before its first line."""
    column = error.column - added if error.line == 1 and error.column > added else error.column
    where = f" at line {error.line}, column {column}" if error.line else ""
    return QuerySyntaxError(f"syntax error{where}: {error}", line=error.line, column=column)
