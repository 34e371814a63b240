"""SPARQL on an SKB: the same guard, checks and answer table as for Wikidata, on the store of ``rdf.build``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from kbnav.answers.tables import AnswerTable
from kbnav.errors import DataError, QueryRefused, QuerySyntaxError, QueryTimeout, ServiceError, UnknownId
from kbnav.knowledge.skb.rdf import local_name
from kbnav.knowledge.sparql.check import check
from kbnav.knowledge.sparql.guard import guard
from kbnav.knowledge.sparql.tokens import refuse_oversized, syntax_error, tokenize
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES, add_prefixes, declared_prefixes, expand
from kbnav.knowledge.wikidata.mirror.pool import MOST_BYTES, QueryError, QueryPool

_LISTED = 50
LABELLED = 100
"""Rows whose nodes are labelled: half from the beginning, half from the end."""


class Vocabulary(NamedTuple):
    """What queries to an SKB may name: local names of types and relations, and which ids are nodes'."""

    name: str
    types: Sequence[str]
    relations: Sequence[str]
    is_node: Callable[[str], bool]


class SparqlStore:
    """Runs read-only queries in child processes with hard limits; threads may share it."""

    def __init__(
        self,
        folder: Path,
        vocabulary: Vocabulary,
        *,
        timeout: float,
        memory_limit: int,
        size: int,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Prepare to query the store in ``folder``; nothing is started before the first query.

        ``timeout`` is in seconds, ``memory_limit`` in bytes for each of up to ``size`` child processes. A result
        has at most ``most_bytes``.
        """
        self._most_bytes = most_bytes
        self._vocabulary = vocabulary
        self._pool = QueryPool(folder, size=size, timeout=timeout, memory_limit=memory_limit)

    def query(self, text: str) -> AnswerTable:
        """Run a query; the prefixes of ``SKB_PREFIXES`` need not be declared, and no SERVICE is allowed.

        Raises QuerySyntaxError, QueryRefused, QueryTimeout, and UnknownId for a node, type or relation that is none.
        """
        refuse_oversized(text)
        guard(text, ())
        _refuse_unknown_prefix(text)
        _refuse_unknown_term(text, self._vocabulary)  # first, because it says how a name must be written
        check(text, services=(), strict=True)
        try:
            result = self._pool.query(add_prefixes(text, SKB_PREFIXES), "json", "json", most_bytes=self._most_bytes)
        except QueryError as error:
            raise self._told(error) from error
        return AnswerTable.from_sparql_json(json.loads(result.body))

    def _told(self, error: QueryError) -> Exception:
        if error.reason in ("timeout", "memory"):
            return QueryTimeout(f"{error}; make it simpler: name a node, fewer patterns, or a LIMIT in a subquery")
        if error.reason == "syntax":
            return QuerySyntaxError(f"syntax error: {error}")
        if error.reason == "size":
            return QueryRefused(str(error))
        if error.reason == "broken":
            return DataError(f"{self._vocabulary.name}: its triples cannot be read: {error}")
        if error.reason == "busy":
            return ServiceError(f"{self._vocabulary.name} does not answer now: {error}; ask again later")
        return QueryRefused(f"the query could not be run: {error}")

    def close(self) -> None:
        """End the child processes."""
        self._pool.close()


def _refuse_unknown_prefix(query: str) -> None:
    """Say which prefixes there are here before the parser, which knows Wikidata's too, lets others pass."""
    tokens = tokenize(query)
    known = {**SKB_PREFIXES, **declared_prefixes(tokens)}
    before = None
    for token in tokens:
        prefix = token.text.split(":", 1)[0] if token.kind == "name" else ""
        if prefix not in (*known, "", "_") and not (before and before.is_word("PREFIX")):
            names = ", ".join(f"{name}:" for name in known)
            raise syntax_error(query, token.start, f"the prefix `{prefix}:` means nothing here; there are {names}")
        before = token


def _refuse_unknown_term(query: str, vocabulary: Vocabulary) -> None:
    tokens = tokenize(query)
    declared = {**SKB_PREFIXES, **declared_prefixes(tokens)}
    closed = {"type": vocabulary.types, "rel": vocabulary.relations}
    for iri in dict.fromkeys(expand(token, declared) for token in tokens):
        for prefix, names in closed.items():
            local = iri.removeprefix(SKB_PREFIXES[prefix])
            if local not in ("", iri) and local not in names:
                some = ", ".join(f"{prefix}:{name}" for name in names[:_LISTED])
                raise UnknownId(f"there is no {prefix}:{local} in {vocabulary.name}; there are: {some}")
        local = iri.removeprefix(SKB_PREFIXES["node"])
        if local not in ("", iri):
            node = unquote(local.replace("\\", ""))
            if not vocabulary.is_node(node):
                raise UnknownId(f"there is no node:{local} in {vocabulary.name}; use ids as results show them")
            if local_name(node) != local:
                raise UnknownId(f"node:{local} must be written node:{local_name(node)}")


def node_ids(table: AnswerTable) -> Iterator[str]:
    """Ids of the nodes in the first and last rows of a result."""
    half = LABELLED // 2
    rows = table.rows if len(table.rows) <= LABELLED else (*table.rows[:half], *table.rows[-half:])
    for row in rows:
        yield from (cell.entity_id for cell in row if cell is not None and cell.entity_id)
