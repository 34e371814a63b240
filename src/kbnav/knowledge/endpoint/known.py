"""What is known of an endpoint and its data, found out when it is first needed and kept while it is open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kbnav.errors import TellModel
from kbnav.knowledge.endpoint import vocabulary
from kbnav.knowledge.endpoint.labels import Labels, Select
from kbnav.knowledge.endpoint.names import LABELS, Names, namespace_of
from kbnav.knowledge.endpoint.vocabulary import Word
from kbnav.knowledge.sparql.dialects import Dialect


@dataclass(frozen=True)
class Address:
    """Where an endpoint is, and what is known of it beforehand."""

    url: str
    name: str = ""
    graph: str = ""
    """Default graph."""
    prefixes: Mapping[str, str] | None = None
    labels: tuple[str, ...] = ()
    """Predicates of labels, before those that are looked for anyway."""
    services: tuple[str, ...] = ()
    """IRIs that SERVICE may name."""
    text_index: str = ""
    """Name of its text index, where the engine wants one named."""
    query_page: str = ""
    """Address of a page that opens a query, up to the query's text."""


class Data:
    """Asks each thing once, however many threads want it. All raise what the queries raise."""

    def __init__(self, select: Select, address: Address, dialect: Callable[[], Dialect]) -> None:
        self._select = select
        self._address = address
        self._find_dialect = dialect
        self._lock = threading.RLock()
        self._kept: dict[Any, Any] = {}

    def once(self, key: Any, find: Callable[[], Any]) -> Any:
        """What ``find`` gives, found once for each key."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = find()
            return self._kept[key]

    @property
    def found_names(self) -> Names | None:
        """The prefixes, where they were found out already."""
        return self._kept.get("names")

    @property
    def found_dialect(self) -> Dialect | None:
        """The dialect, where it was found out already."""
        return self._kept.get("dialect")

    @property
    def dialect(self) -> Dialect:
        """What the engine understands."""
        found: Dialect = self.once(
            "dialect", lambda: replace(self._find_dialect(), index_name=self._address.text_index)
        )
        return found

    @property
    def names(self) -> Names:
        """Prefixes: the settings', those that the data publishes, and made-up ones for its other namespaces."""
        found: Names = self.once("names", self._find_names)
        return found

    @property
    def labels(self) -> Labels:
        """Labels by the predicates that the data uses."""
        candidates = tuple(dict.fromkeys((*self._address.labels, *LABELS)))
        found: Labels = self.once(
            "labels", lambda: Labels(self._select, vocabulary.label_predicates(self._select, candidates))
        )
        return found

    def classes(self, code: str) -> tuple[Word, ...]:
        """Classes with their members, described in a language."""
        found: tuple[Word, ...] = self.once(("classes", code), lambda: vocabulary.classes(self._select, code))
        return found

    def properties(self, code: str) -> tuple[Word, ...]:
        """Properties with their uses, described in a language."""
        found: tuple[Word, ...] = self.once(("properties", code), lambda: vocabulary.properties(self._select, code))
        return found

    def _find_names(self) -> Names:
        own = Names(self._address.prefixes or {})
        try:
            words = [word.iri for word in (*self.classes("en"), *self.properties("en"))]
        except TellModel:
            words = []
        things = self._sample_of_things()
        return own.with_namespaces(vocabulary.published_prefixes(self._select), [*words, *things])

    def _sample_of_things(self) -> list[str]:
        """Things of each large class, whose namespaces are worth a prefix where several share them."""
        try:
            largest = [word.iri for word in self.classes("en")[:20]]
            found = [
                row[0].value
                for iri in largest
                for row in self._select(f"SELECT ?s WHERE {{ ?s a <{iri}> }} LIMIT 3").rows
                if row[0] and row[0].type == "uri"
            ]
        except TellModel:
            return []
        spaces = [namespace_of(iri) for iri in found]
        return [iri for iri, space in zip(found, spaces, strict=True) if spaces.count(space) > 2]
