"""Knowledge bases made of others, and of a few facts."""

import json
from collections.abc import Callable
from typing import Any

import pyoxigraph

from kbnav.answers.tables import AnswerTable
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES


class Over:
    """Another knowledge base, but for what is changed."""

    def __init__(self, base: Any, **changed: Any) -> None:
        self._base, self._changed = base, changed

    def __getattr__(self, name: str) -> Any:
        return self._changed[name] if name in self._changed else getattr(self._base, name)


def asking(facts: str) -> Callable[[str], AnswerTable]:
    """What answers queries of some triples, in Turtle with Wikidata's prefixes, which queries need not declare."""
    prefixes, store = dict(STANDARD_PREFIXES), pyoxigraph.Store()
    declared = "".join(f"PREFIX {name}: <{iri}> " for name, iri in prefixes.items())
    store.update(f"{declared} INSERT DATA {{ {facts} }}")

    def select(query: str) -> AnswerTable:
        found = store.query(query, prefixes=prefixes).serialize(format=pyoxigraph.QueryResultsFormat.JSON)
        return AnswerTable.from_sparql_json(json.loads(found or b""))

    return select
