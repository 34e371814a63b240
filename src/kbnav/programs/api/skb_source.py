"""An SKB behind the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbnav.errors import UnknownId
from kbnav.knowledge.base import INVERSE, Direction
from kbnav.knowledge.skb.graph import WAYS, Hop, NodeNumbers
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import get_doc_info, get_rel_info
from kbnav.programs.api.source import NotHere, bounded

if TYPE_CHECKING:
    from kbnav.encoders import Encoder

_TURNED: Mapping[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


class SkbSource:
    """See ``Source``. Relations have the names that ``SkbKB`` shows; any other name of them is understood."""

    def __init__(self, kb: SkbKB) -> None:
        """Works with whatever indexes the SKB has."""
        self._kb, self._skb = kb, kb.skb

    @property
    def encoder(self) -> Encoder | None:
        """See ``Source``."""
        return self._skb.vectors.encoder if self._skb.vectors is not None else None

    def unknown(self, ids: Iterable[str]) -> list[str]:
        """See ``Source``."""
        return [node for node in ids if self._skb.nodes.ids.find(node) < 0]

    def of_type(self, node_type: str, limit: int) -> list[str]:
        """See ``Source``: in the order of the build."""
        first, end = self._skb.type_range(node_type)
        return [self._skb.id(node) for node in range(first, min(end, first + limit))]

    def types(self, ids: Sequence[str]) -> dict[str, str]:
        """See ``Source``."""
        return {node: self._skb.type_name(number) for node, number in self._numbered(ids)}

    def names(self, ids: Sequence[str]) -> dict[str, str]:
        """See ``Source``."""
        return {node: self._skb.nodes.label(number) for node, number in self._numbered(ids)}

    def texts(self, ids: Sequence[str], *, own: bool, relations: bool) -> dict[str, str]:
        """See ``Source``: as the SKB's style renders documents."""
        return bounded((node, self._text(number, own, relations)) for node, number in self._numbered(ids))

    def _text(self, number: int, own: bool, relations: bool) -> str:
        text = get_doc_info(self._skb, number, add_rel=relations) if own else get_rel_info(self._skb, number)
        return text.strip("\n")

    def fields(self, ids: Sequence[str], field: str) -> dict[str, str]:
        """See ``Source``: lists are joined by ``; ``, ``a.b`` is a field of a field."""
        return bounded(
            (node, _as_text(_field(self._skb.documents[number], field))) for node, number in self._numbered(ids)
        )

    def related(self, ids: Sequence[str], relation: str, direction: Direction, limit: int) -> dict[str, list[str]]:
        """See ``Source``: in the order of the build."""
        hop = self._hop(relation, direction) if relation else Hop(None, direction)
        return {
            node: self._ids(self._skb.graph.neighbors(number, hop.relation, hop.direction)[:limit])
            for node, number in self._numbered(ids)
        }

    def relations(self, ids: Sequence[str], limit: int) -> dict[str, dict[str, list[str]]]:
        """See ``Source``."""
        return {node: self._relations(number, limit) for node, number in self._numbered(ids)}

    def _relations(self, number: int, limit: int) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for way in WAYS:
            row = self._skb.graph.row(number, way)
            for relation in np.flatnonzero(np.bincount(row.relations)).tolist():
                name = self._kb.relations.shown[relation]
                key = f"{INVERSE}{name}" if way == "in" else name
                found[key] = self._ids(row.nodes[row.relations == relation][:limit])
        return found

    def follow(self, ids: Sequence[str], path: Sequence[str], limit: int) -> list[str]:
        """See ``Source``: a hop leads to at most ten times ``limit`` nodes."""
        hops = [self._hop(relation, "out") for relation in path]
        nodes = np.array(sorted(number for _, number in self._numbered(ids)), np.int32)
        for hop in hops:
            nodes = self._skb.graph.expand(nodes, hop, 10 * limit)
        return self._ids(nodes[:limit])

    def find(self, names: Sequence[str], node_type: str, limit: int) -> dict[str, list[str]]:
        """See ``Source``: but for case and accents, then spelled nearly so."""
        if self._skb.names is None:
            raise NotHere(f"{self._kb.name} was built without an index of names")
        ranges = self._ranges(node_type)
        return {
            name: [self._skb.id(match.number) for match in self._skb.names.search(name, limit=limit, ranges=ranges)]
            for name in names
        }

    def search(self, query: str, node_type: str, limit: int) -> dict[str, float]:
        """See ``Source``: by BM25 and by vectors, their scores summed."""
        if self._skb.text is None and self._skb.vectors is None:
            raise NotHere(f"{self._kb.name} was built without an index of texts")
        found = self._kb.text_query(query, kind=node_type or "item", limit=limit)
        return {item.id: item.score for item in found.nodes}

    def bm25(self, query: str, ids: Sequence[str]) -> dict[str, float]:
        """See ``Source``."""
        index = self._skb.relational_text or self._skb.text
        if index is None:
            raise NotHere(f"{self._kb.name} was built without an index of texts")
        numbered = dict(self._numbered(ids))
        hits = dict(index.search(query, limit=len(numbered), among=list(numbered.values()), name_weight=0.0))
        return {node: float(hits.get(number, 0.0)) for node, number in numbered.items()}

    def similarity(self, query: str, ids: Sequence[str]) -> Mapping[str, float] | None:
        """See ``Source``: of documents with relations where the SKB has such vectors."""
        index = self._skb.relational_vectors or self._skb.vectors
        if index is None:
            return None
        numbered = dict(self._numbered(ids))
        hits = dict(index.search(query, limit=len(numbered), among=list(numbered.values()), exact=True))
        return {node: float(hits.get(number, 0.0)) for node, number in numbered.items()}

    def _numbered(self, ids: Sequence[str]) -> list[tuple[str, int]]:
        """Each id once with its number. Raises UnknownId that names the first few it does not have."""
        found = [(node, self._skb.nodes.ids.find(node)) for node in dict.fromkeys(ids)]
        unknown = [node for node, number in found if number < 0]
        if unknown:
            more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
            raise UnknownId(f"there is no node {', '.join(repr(node[:80]) for node in unknown[:3])}{more}")
        return found

    def _hop(self, relation: str, direction: Direction) -> Hop:
        number = self._kb.relations.number(relation.removeprefix(INVERSE))
        return Hop(number, _TURNED[direction] if relation.startswith(INVERSE) else direction)

    def _ids(self, nodes: NodeNumbers) -> list[str]:
        return [self._skb.id(number) for number in nodes.tolist()]

    def _ranges(self, node_type: str) -> list[tuple[int, int]] | None:
        return [self._skb.type_range(node_type)] if node_type else None


def _field(value: Any, field: str) -> Any:
    for part in [field] if isinstance(value, Mapping) and field in value else field.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_as_text(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return "; ".join(_as_text(inner) for inner in value)
    return "" if value is None else str(value)
