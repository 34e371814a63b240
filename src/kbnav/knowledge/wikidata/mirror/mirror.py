"""An open mirror: its queries, its action API and its documents, for the HTTP routes and for a knowledge base here."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from kbnav.answers.tables import AnswerTable, encodable
from kbnav.errors import KbnavError, QueryRefused, QuerySyntaxError, QueryTimeout, ServiceError
from kbnav.knowledge.base import Meter
from kbnav.knowledge.replies import SIMPLER
from kbnav.knowledge.sparql.dialects import DIALECTS, GEOF_WIKIDATA
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.sparql.vocabulary import add_prefixes, wikibase_prefixes
from kbnav.knowledge.wikidata.api import ActionApi, api_error
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.api import Documents, MirrorApi
from kbnav.knowledge.wikidata.mirror.pool import Form, Gone, QueryError, QueryPool, Result
from kbnav.knowledge.wikidata.mirror.search import Index
from kbnav.knowledge.wikidata.mirror.store import TRIPLES, open_store, read_info
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
CACHED_BYTES = 16 << 20
"""Of results, together. What is looked up of names and common entities is looked up for most questions."""
LARGEST_CACHED = 1 << 18
_CHANGING = re.compile(r"\b(?:NOW|RAND|UUID|STRUUID|BNODE)\s*\(", re.IGNORECASE)
"""What a query may hold that gives something else each time."""
T = TypeVar("T")


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
        self.pool = QueryPool(path / TRIPLES, size=workers, timeout=query_timeout, memory_limit=memory_limit)
        self.api = MirrorApi(self.documents, self._index, self.info)

    def entity_data(self, entity_id: str) -> dict[str, Any] | None:
        """The document of Special:EntityData for an id, redirects followed; None where there is no such entity."""
        target = self.documents.resolve(entity_id) if v.is_entity_id(entity_id) else ""
        document = self.documents.document(target) if target else None
        return None if document is None else {"entities": {target: document}}

    def entity_turtle(self, entity_id: str) -> bytes | None:
        """The triples of an entity, without those of its statements' nodes, and the usual prefixes."""
        target = self.documents.resolve(entity_id)
        return self.documents.turtle(target, self.prefixes) if target else None

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
    graph_form: Form = "json",
    language: str = "en",
    services: Collection[str] = (),
    graph: str = "",
    gone: Gone | None = None,
) -> Result:
    """Run one query as Wikidata's service understands it; ``prefixes`` need not be declared.

    Raises QuerySyntaxError and QueryRefused before it runs, and QueryError.
    """
    prepared = prepare(query, MIRROR, services=services, prefixes=prefixes, language=language).text
    return pool.query(prepared, form, graph_form, graph=graph, gone=gone)


class _Recent:
    """The results that were asked for last, up to so many bytes; threads share it. A mirror's data do not change."""

    def __init__(self, most: int = CACHED_BYTES) -> None:
        self._most, self._size = most, 0
        self._lock = threading.Lock()
        self._results: OrderedDict[object, tuple[int, Any]] = OrderedDict()

    def get(self, key: object, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """The result of a key; made where it is not here, by several threads where they come at once."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key][1]  # type: ignore[no-any-return]
        made = make()
        if (bytes_ := size(made)) <= min(LARGEST_CACHED, self._most):
            with self._lock:
                self._size += bytes_ - self._results.pop(key, (0, None))[0]
                self._results[key] = bytes_, made
                while self._size > self._most:
                    self._size -= self._results.popitem(last=False)[1][0]
        return made


class LocalApi(ActionApi):
    """A mirror's action API, asked in this process. Raises ServiceError where the mirror is damaged."""

    def __init__(self, mirror: Mirror, namespaces: Mapping[str, str], meter: Meter | None = None) -> None:
        self._mirror, self._namespaces, self._meter = mirror, namespaces, meter
        self._recent = _Recent()

    def metered(self, meter: Meter) -> LocalApi:
        """The same, its requests counted."""
        other = LocalApi(self._mirror, self._namespaces, meter)
        other._recent = self._recent
        return other

    def call(self, **params: str) -> Mapping[str, Any]:
        """See ``ActionApi``."""
        if self._meter:
            self._meter.count("api")
        asked = {name: encodable(value) for name, value in params.items()}
        body, code = self._recent.get(
            tuple(sorted(asked.items())),
            lambda: _undamaged(lambda: self._mirror.api.answer({**asked, "format": "json"})),
            lambda answer: LARGEST_CACHED + 1 if answer[1] else len(json.dumps(answer[0])),
        )
        check_run()
        if code:
            raise api_error("the mirror", body["error"])
        return body


class LocalQueries:
    """A mirror's queries, run by this process's own pool; as ``QueryService``."""

    def __init__(self, mirror: Mirror, prefixes: Mapping[str, str], allowed: Collection[str], name: str) -> None:
        self._mirror, self._prefixes, self._allowed, self._name = mirror, prefixes, allowed, name
        self._meter: Meter | None = None
        self._recent = _Recent()

    def metered(self, meter: Meter) -> LocalQueries:
        """The same, its requests counted."""
        other = LocalQueries(self._mirror, self._prefixes, self._allowed, self._name)
        other._meter, other._recent = meter, self._recent
        return other

    @property
    def engine(self) -> str:
        """The name of the engine whose language it understands."""
        return DIALECTS["wdqs"].engine

    def run(self, query: str, *, language: str = "en") -> AnswerTable:
        """The result of a model's or person's query. Raises what ``prepare`` raises, QueryTimeout, ServiceError."""
        if self._meter:
            self._meter.count("sparql")

        def make() -> Result:
            pool, prefixes = self._mirror.pool, self._prefixes
            return run_query(pool, query, prefixes, language=language, services=self._allowed)

        try:
            if _CHANGING.search(query):
                result = make()
            else:
                result = self._recent.get((query, language), make, lambda one: len(one.body))
        except QueryError as error:
            check_run()
            raise self._reported(error) from error
        return AnswerTable.from_sparql_json(json.loads(result.body))

    def select(self, query: str) -> AnswerTable:
        """The rows of a query in standard SPARQL that kbnav made itself."""
        return self.run(add_prefixes(query, self._prefixes))

    def _reported(self, error: QueryError) -> KbnavError:
        if error.reason == "timeout":
            limit = f"the query was stopped after {self._mirror.pool.timeout:g} s, the limit of this copy"
            return QueryTimeout(f"{limit}; make it simpler: {SIMPLER}")
        if error.reason == "syntax":
            return QuerySyntaxError(f"syntax error: {error}")
        if error.reason == "busy":
            return ServiceError(f"{self._name} does not answer now: {error}; ask again later")
        if error.reason == "broken":
            return ServiceError(f"the mirror failed: {error}")
        return QueryRefused(f"the query service refuses the query: {error}")


def _undamaged(call: Callable[[], T]) -> T:
    """The result of a call. Raises ServiceError where the mirror is damaged."""
    try:
        return call()
    except BROKEN as error:
        said = f"the mirror failed: {type(error).__name__}: {error}"
    raise ServiceError(said)  # without its cause: what the frames of that hold must not leave this thread


def check_run() -> None:
    """Raise Stopped, or CancelledError, where the run is over that this code is a part of."""
    if cancellation := current_cancellation():
        cancellation.check()
