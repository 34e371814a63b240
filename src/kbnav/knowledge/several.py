"""Several knowledge bases asked together: each keeps its own ids, and everything says where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from kbnav.answers.question import in_kb, kb_of
from kbnav.answers.tables import AnswerTable, Ranking
from kbnav.errors import BadArguments, UnknownId
from kbnav.knowledge.base import (
    Capability,
    Entry,
    Example,
    KnowledgeBase,
    Neighborhood,
    SearchKind,
    SearchResult,
    is_mirror,
)
from kbnav.knowledge.replies import is_loopback
from kbnav.knowledge.sparql.vocabulary import Vocabulary, vocabulary_of
from kbnav.settings.systems import kb_kind

T = TypeVar("T")


class SeveralKB:
    """Knowledge bases by name, asked in turn; a query is for the one of its line ``# kb: NAME`` (``in_kb``).

    ``parts`` has them by the names that tools and results know them by, in the order they were named.
    """

    def __init__(self, parts: Mapping[str, KnowledgeBase], addresses: Mapping[str, str]) -> None:
        """``addresses`` are the IRIs by which SERVICE may name them; those that have one."""
        self.parts: Mapping[str, KnowledgeBase] = MappingProxyType(dict(parts))
        self._addresses = dict(addresses)
        self.name = " + ".join(parts)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What one of them can do, at least."""
        return frozenset(one for kb in self.parts.values() for one in kb.capabilities)

    @property
    def vocabulary(self) -> Vocabulary:
        """That of the first Wikibase among them."""
        wikibases = (kb for kb in self.parts.values() if kb_kind(kb) == "wikibase")
        return vocabulary_of(next(wikibases, None))

    def state(self) -> Mapping[str, Any]:
        """The states of all, by their names. No secrets."""
        return {"kind": "several", "kbs": {name: dict(kb.state()) for name, kb in self.parts.items()}}

    def part(self, name: str) -> KnowledgeBase:
        """One of them. Raises BadArguments for another name."""
        if name not in self.parts:
            wrong = f"there is no knowledge base {name!r} here" if name else "a query is for one knowledge base"
            raise BadArguments(f"{wrong}: name one of {', '.join(self.parts)}, by kb or by a first line `# kb: NAME`")
        return self.parts[name]

    def address(self, name: str) -> str:
        """The IRI by which SERVICE names one of them; empty where it has none."""
        return self._addresses.get(name, "")

    def unreachable(self, asked: str, other: str) -> str:
        """Why a query of ``asked`` cannot reach ``other`` by SERVICE, as far as is known here; empty where it may."""
        kb, url = self.parts[asked], self.address(other)
        if kb_kind(kb) == "skb" or is_mirror(kb.state()):
            return f"{asked} is on this machine and asks no other"
        if not url:
            return f"{other} has no address that others could ask"
        own = self.address(asked)
        if is_loopback(url) and not (own and is_loopback(own)):
            return f"{urlsplit(url).netloc} is an address of this machine alone"
        return ""

    def search_entities(
        self, query: str, *, language: str = "en", limit: int = 8, kind: SearchKind = "any"
    ) -> SearchResult:
        """See ``KnowledgeBase``; what the first finds, then the next, up to ``limit`` of each."""
        found = {
            name: kb.search_entities(query, language=language, limit=limit, kind=kind)
            for name, kb in self.parts.items()
        }
        best = min(found.values(), key=lambda one: (one.rung != "exact", one.rung == "none"))
        return replace(
            best,
            entities=tuple(replace(one, source=name) for name, result in found.items() for one in result.entities),
            properties=tuple(replace(one, source=name) for name, result in found.items() for one in result.properties),
            values=tuple(one for result in found.values() for one in result.values),
        )

    def get_entry(self, entity_id: str, *, language: str = "en") -> Entry:
        """See ``KnowledgeBase``; of the first that knows the id."""
        name, entry = self._first(lambda kb: kb.get_entry(entity_id, language=language))
        return replace(entry, entity=replace(entry.entity, source=name))

    def get_property_examples(self, property_id: str, *, language: str = "en", limit: int = 5) -> Sequence[Example]:
        """See ``KnowledgeBase``; of the first that knows the id."""
        return self._first(lambda kb: kb.get_property_examples(property_id, language=language, limit=limit))[1]

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        """See ``KnowledgeBase``. Raises BadArguments where the query does not say which one it is for."""
        name, text = kb_of(query)
        table = self.part(name).execute_query(text, language=language)
        return replace(table, note=said_from(name, table.note))

    def declared(self, query: str) -> str:
        """A query, still saying which one it is for, with the prefixes declared that the usual ones leave out."""
        name, text = kb_of(query)
        declare = getattr(self.part(name), "declared", None)
        return in_kb(declare(text) if declare else text, name)

    def search_neighbors(self, entity_id: str, **options: Any) -> Neighborhood:
        """See ``KnowledgeBase``; of the first that knows the id."""
        name, found = self._first(lambda kb: kb.search_neighbors(entity_id, **options))
        return replace(found, entity=replace(found.entity, source=name))

    def vector_query(self, text: str, **options: object) -> Ranking:  # noqa: ARG002
        """Nearness in one is not that in another, so that one has to be named. Raises BadArguments."""
        raise BadArguments(f"vector_query: name one knowledge base of {', '.join(self.parts)}")

    def labels(self, ids: Sequence[str], *, language: str = "en") -> Mapping[str, str]:
        """See ``KnowledgeBase``; an id that means one thing here and another there is left out."""
        found: dict[str, set[str]] = {}
        for kb in self.parts.values():
            for one, label in kb.labels(ids, language=language).items():
                found.setdefault(one, set()).add(label)
        return {one: labels.pop() for one, labels in found.items() if len(labels) == 1}

    def _first(self, ask: Callable[[KnowledgeBase], T]) -> tuple[str, T]:
        for name, kb in self.parts.items():
            with suppress(UnknownId):
                return name, ask(kb)
        raise UnknownId(f"none of {', '.join(self.parts)} knows this id: search for the name to find its id")


def said_from(name: str, note: str) -> str:
    """A table's note that says, first of all, which of several knowledge bases the rows are from."""
    said = f"From {name}."
    return note if note.startswith(said) else " ".join(filter(None, (said, note)))


def asked_by(kb: KnowledgeBase, query: str) -> KnowledgeBase:
    """The knowledge base that runs a query: of several, the one that the query is for. Raises BadArguments."""
    return kb.part(kb_of(query)[0]) if isinstance(kb, SeveralKB) else kb
