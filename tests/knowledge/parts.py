"""Knowledge bases made of others, and of a few facts."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyoxigraph

from kbnav.answers.tables import AnswerTable
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.settings.model import Settings


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


@contextmanager
def mirror_of(facts: str, folder: Path) -> Iterator[KnowledgeBase]:
    """A mirror of some triples, in Turtle with Wikidata's prefixes, built in a folder."""
    declared = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in STANDARD_PREFIXES.items())
    (folder / "facts.ttl").write_text(declared + facts, encoding="utf-8")
    build_mirror([folder / "facts.ttl"], folder / "mirror")
    with open_kb(Settings(kb=str(folder / "mirror"), home=folder / "home")) as kb:
        yield kb
