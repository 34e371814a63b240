"""The relations of an SKB: one name for each, the same wherever it is shown, written or asked for; found by words.

A name is as short as tells it apart: of a path (``/people/person/place_of_birth``) the last part, without ``_`` at its
ends, and with ``_`` for a space, as SPARQL writes it. Where two would be the same, both keep their whole names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kbnav.answers.relevance import relevance
from kbnav.errors import UnknownId
from kbnav.knowledge.base import INVERSE, Entity
from kbnav.knowledge.skb.graph import WAYS
from kbnav.knowledge.skb.rdf import local_names
from kbnav.knowledge.skb.schema import TypeTuple

if TYPE_CHECKING:
    from kbnav.knowledge.skb.store import SKB

_NAMED = 20
"""Relations that are named where one is asked for that is none."""
_EXAMPLE = 60
"""Characters of a node's name that stands for others."""


class RelationNames:
    """The names that are shown, what else is understood for them, and how SPARQL's store has them."""

    def __init__(self, names: Sequence[str]) -> None:
        short = [_short(name) for name in names]
        spread = Counter([*short, *(_tidy(name) for name in names)])
        whole = [_tidy(name) for name in names]
        # A short name counts for itself and, where it is the whole one too, once more.
        self.shown = tuple(
            brief if spread[brief] == 1 + (brief == full) else (full if whole.count(full) == 1 else name)
            for name, brief, full in zip(names, short, whole, strict=True)
        )
        self._numbers: dict[str, int] = {}
        for forms in (self.shown, names, whole, local_names(names)):
            for number, form in enumerate(forms):
                self._numbers.setdefault(form, number)
        stored = dict(zip(self.shown, local_names(names), strict=True))
        self._stored = {one: local for one, local in stored.items() if one != local}
        longest = sorted(map(re.escape, self._stored), key=len, reverse=True)
        self._written = re.compile(rf"\brel:({'|'.join(longest)})(?![\w:%-]|\.\w)") if longest else None

    def find(self, name: str) -> int | None:
        """The number of a relation by any of its names, spaces for ``_`` allowed; None where there is none."""
        wanted = name.strip().removeprefix("rel:")
        return next((self._numbers[one] for one in (wanted, wanted.replace(" ", "_")) if one in self._numbers), None)

    def display(self, name: str) -> str:
        """Any name of a relation as it is shown, with the ``^`` that may stand before it; unknown ones as they are."""
        back = "^" if name.startswith("^") else ""
        number = self.find(name.removeprefix(back))
        return name if number is None else f"{back}{self.shown[number]}"

    def stored(self, query: str) -> str:
        """A SPARQL query with ``rel:`` and a name as it is shown put as the store has it."""
        return self._written.sub(lambda found: f"rel:{self._stored[found[1]]}", query) if self._written else query


class Relations(RelationNames):
    """The relations of one SKB, by their names, by words, and those of a node."""

    def __init__(self, skb: SKB) -> None:
        super().__init__(skb.relation_names)
        self._skb = skb

    def number(self, name: str) -> int:
        """The number of a relation by any of its names. Raises UnknownId, which names the nearest."""
        return self.asked(name)[0]

    def asked(self, name: str, otherwise: str = "") -> tuple[int, bool]:
        """Number of a relation, and whether it is asked for backwards; ``rel:`` and ``_`` for a space are accepted.

        Raises UnknownId, which says ``otherwise`` or names the nearest.
        """
        number = self.find(name.removeprefix(INVERSE))
        if number is not None:
            return number, name.startswith(INVERSE)
        where = self._skb.meta.name
        if otherwise:
            raise UnknownId(f"{otherwise} in {where}")
        near = [one.id for one in self.like(name, _NAMED)] or self.shown[:_NAMED]
        raise UnknownId(f"there is no relation {name!r} in {where}; the nearest by name: {', '.join(near)}")

    def entity(self, relation: int, *, inverse: bool = False) -> Entity:
        """A relation as what entries and edges name."""
        name = f"{INVERSE if inverse else ''}{self.shown[relation]}"
        return Entity(name, name, kind="property")

    def text(self, relation: int) -> str:
        """What a relation links how often, a line for each pair of types."""
        name = self._skb.relation_names[relation]
        lines = [
            f"{item.source} -> {item.target}: {item.count} edges"
            for item in self._skb.meta.tuples
            if item.relation == name
        ]
        return "\n".join(lines)

    def like(self, query: str, limit: int) -> tuple[Entity, ...]:
        """The relations whose names or types have words of a query, best first."""
        entities = [self.entity(number) for number in range(len(self.shown))]
        described = [
            replace(entity, description=self.text(number).replace("\n", "; ")) for number, entity in enumerate(entities)
        ]
        texts = [f"{entity.label} {entity.description}" for entity in described]
        scored = sorted(zip(relevance(query, texts), described, strict=True), key=lambda pair: -pair[0])
        return tuple(entity for score, entity in scored if score > 0)[:limit]

    def ranked(self, query: str) -> list[tuple[TypeTuple, float]]:
        """All kinds of links with how well relation and types fit a query, best first, then those with most links."""
        tuples = sorted(self._skb.meta.tuples, key=lambda one: -one.count)
        texts = [f"{one.relation} {one.source} {one.target}".replace("_", " ") for one in tuples]
        return sorted(zip(tuples, relevance(query, texts), strict=True), key=lambda pair: -pair[1])

    def leads_to(self, name: str, kind: str) -> list[str]:
        """The types that a relation, ``^`` before it if followed backwards, leads to from a type, those of most first.

        Raises UnknownId.
        """
        number, back = self.asked(name)
        stored = self._skb.relation_names[number]
        own = [one for one in self._skb.meta.tuples if one.relation == stored]
        ends = [(one.count, one.source if back else one.target, one.target if back else one.source) for one in own]
        return [far for _, far, near in sorted(ends, key=lambda end: -end[0]) if near == kind]

    def kinds_like(self, query: str, limit: int) -> list[str]:
        """Kinds of links whose relation or types have words of a query: ``source -- relation --> target: count``."""
        return [
            f"- {one.source} -- {self.display(one.relation)} --> {one.target}: {one.count:,}"
            for one, score in self.ranked(query)[:limit]
            if score > 0
        ]

    def of_node(self, entity_id: str, query: str, limit: int) -> list[str]:
        """A node's relations with their counts and an example of each, those like the query first; what was cut said.

        Raises UnknownId.
        """
        node = self._skb.number(entity_id)
        found = []
        for way in WAYS:
            row = self._skb.graph.row(node, way)
            for relation in np.unique(row.relations).tolist():
                nodes = row.nodes[row.relations == relation]
                name = f"{INVERSE if way == 'in' else ''}{self.shown[relation]}"
                example = self._skb.nodes.label(int(nodes[0]))[:_EXAMPLE]
                found.append((name, len(nodes), f"- {name}: {len(nodes):,}, such as {example}"))
        scores = relevance(query, [name.replace("_", " ") for name, _, _ in found])
        order = sorted(range(len(found)), key=lambda place: (-scores[place], -found[place][1]))
        head = f"{self._skb.nodes.label(node)} ({entity_id}){':' if found else ' has no links.'}"
        cut = [f"and {len(found) - limit} more, with fewer links"] if len(found) > limit else []
        return [head, *(found[place][2] for place in order[:limit]), *cut]


def _tidy(name: str) -> str:
    return name.replace(" ", "_")


def _short(name: str) -> str:
    return _tidy(re.split(r"[/#]", name.rstrip("/#"))[-1].strip("_ ")) or _tidy(name)
