"""An open mirror: its queries, its action API and its documents, for the HTTP routes and for a knowledge base here."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbnav.answers.tables import AnswerTable, encodable
from kbnav.errors import KbnavError, QueryRefused, QuerySyntaxError, QueryTimeout, ServiceError
from kbnav.knowledge.base import current_meter
from kbnav.knowledge.replies import SIMPLER
from kbnav.knowledge.sparql.dialects import DIALECTS, GEOF_WIKIDATA
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.sparql.tokens import edited, tokenize
from kbnav.knowledge.sparql.vocabulary import add_prefixes, wikibase_prefixes
from kbnav.knowledge.wikidata.api import ActionApi, api_error
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.api import Documents, MirrorApi
from kbnav.knowledge.wikidata.mirror.pool import Form, Gone, QueryError, QueryPool, Result
from kbnav.knowledge.wikidata.mirror.search import Index
from kbnav.knowledge.wikidata.mirror.store import NAMES, TRIPLES, open_store, read_info
from kbnav.models.cancellation import current_cancellation

QUERY_TIMEOUT = 60.0
"""Seconds; that of Wikidata's query service."""
MEMORY_LIMIT = 2 << 30
"""Bytes of address space for one query."""
MIRROR = replace(
    DIALECTS["oxigraph"],
    federation=False,
    closed=True,
    geo=GEOF_WIKIDATA,
    functions=DIALECTS["wdqs"].functions,
    days=v.DAYS,
)
"""What a mirror understands beyond what is rewritten: Oxigraph with the functions of ``worker``."""
BROKEN = (ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError, sqlite3.Error)
"""What reading a damaged or vanished store or index may raise, deep in code that is right for a sound one."""
MOST_CACHED, LARGEST_CACHED = 1000, 1 << 14
"""Results of queries that are kept, and bytes of each."""
_CHANGING = re.compile(r"\b(?:NOW|RAND|UUID|STRUUID|BNODE)\s*\(", re.IGNORECASE)
"""What a query may hold that gives something else each time."""


class Mirror:
    """The mirror in a folder. Threads may share one.

    Raises UsageError where there is no mirror, DataError where it is damaged.
    """

    def __init__(
        self, path: Path, *, query_timeout: float = QUERY_TIMEOUT, memory_limit: int = MEMORY_LIMIT, workers: int = 4
    ) -> None:
        """``workers`` queries run at once, each in ``query_timeout`` seconds and ``memory_limit`` bytes (0: any)."""
        self.info = read_info(path)
        self.prefixes = wikibase_prefixes(self.info.concept_base)
        self.documents = Documents(open_store(path), self.info.concept_base)
        self._index = Index(path)
        self.pool = QueryPool(
            path / TRIPLES,
            size=workers,
            timeout=query_timeout,
            memory_limit=memory_limit,
            links=(path / NAMES, self.info.concept_base),
        )
        self.pool.now = self.info.newest
        self.api = MirrorApi(self.documents, self._index, self.info)

    def close(self) -> None:
        """End the queries that run, and let go of the files."""
        self.pool.close()
        self._index.close()


def run_query(
    pool: QueryPool,
    query: str,
    prefixes: Mapping[str, str],
    *,
    form: Form = "json",
    graph_form: Form = "ntriples",
    language: str = "en",
    services: Collection[str] = (),
    graph: str = "",
    gone: Gone | None = None,
) -> Result:
    """Run one query as Wikidata's service understands it; ``prefixes`` need not be declared.

    Raises QuerySyntaxError and QueryRefused before it runs, and QueryError.
    """
    prepared = prepare(query, MIRROR, services=services, prefixes=prefixes, language=language).text
    if pool.now:  # what is later than the copy is not in it
        tokens = tokenize(prepared)
        calls = [one for one in zip(tokens, tokens[1:], tokens[2:], strict=False) if one[0].is_word("NOW")]
        time = f'"{pool.now}"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
        prepared = edited(prepared, {(name.start, last.end): time for name, _, last in calls})
    return pool.query(prepared, form, graph_form, graph=graph, gone=gone)


class LocalApi(ActionApi):
    """A mirror's action API, asked in this process. Raises ServiceError where the mirror is damaged."""

    def __init__(self, mirror: Mirror, namespaces: Mapping[str, str]) -> None:
        self._mirror, self._namespaces = mirror, namespaces

    def call(self, **params: str) -> Mapping[str, Any]:
        """See ``ActionApi``."""
        current_meter().count("api")
        failure = ""
        try:
            body, code = self._mirror.api.answer({name: encodable(value) for name, value in params.items()})
        except BROKEN as error:
            failure = f"the mirror failed: {type(error).__name__}: {error}"
        if failure:
            raise ServiceError(failure)  # without its cause: what the frames of that hold must not leave this thread
        _check_run()
        if code:
            raise api_error("the mirror", body["error"])
        return body


class LocalQueries:
    """A mirror's queries, run by this process's own pool; as ``QueryService``. Threads may share one.

    The results that were asked for last are kept: a mirror's data do not change.
    """

    engine = DIALECTS["wdqs"].engine
    """The name of the engine whose language it understands."""

    def __init__(self, mirror: Mirror, prefixes: Mapping[str, str], allowed: Collection[str], name: str) -> None:
        self._mirror, self._prefixes, self._allowed, self._name = mirror, prefixes, allowed, name
        self._lock = threading.Lock()
        self._recent: OrderedDict[tuple[str, str], Result] = OrderedDict()

    def run(self, query: str, *, language: str = "en") -> AnswerTable:
        """The result of a model's or person's query. Raises what ``prepare`` raises, QueryTimeout, ServiceError."""
        current_meter().count("sparql")
        with self._lock:
            result = self._recent.get((query, language))
        if result is None:
            pool = self._mirror.pool
            try:
                result = run_query(pool, query, self._prefixes, language=language, services=self._allowed)
            except QueryError as error:
                _check_run()
                raise self._reported(error) from error
            if len(result.body) <= LARGEST_CACHED and not _CHANGING.search(query):
                with self._lock:
                    self._recent[query, language] = result
                    if len(self._recent) > MOST_CACHED:
                        self._recent.popitem(last=False)
        return result.table()

    def select(self, query: str) -> AnswerTable:
        """The rows of a query in standard SPARQL that kbnav made itself."""
        return self.run(add_prefixes(query, self._prefixes))

    def _reported(self, error: QueryError) -> KbnavError:
        match error.reason:
            case "timeout":
                limit = f"the query was stopped after {self._mirror.pool.timeout:g} s, the limit of this copy"
                return QueryTimeout(f"{limit}; make it simpler: {SIMPLER}")
            case "syntax":
                return QuerySyntaxError(f"syntax error: {error}")
            case "busy":
                return ServiceError(f"{self._name} does not answer now: {error}; ask again later")
            case "broken":
                return ServiceError(f"the mirror failed: {error}")
        return QueryRefused(f"the query service refuses the query: {error}")


def _check_run() -> None:
    """Raise Stopped, or CancelledError, where the run is over that this code is a part of."""
    if cancellation := current_cancellation():
        cancellation.check()
