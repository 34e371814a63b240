"""The functions of the API that read an SKB (Agent Retriever, section 3).

Docstrings of the two classes are what the writer of a program reads. Ids that are none raise UnknownId; what an
SKB was built without raises NotHere. Used by several threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from kbnav.answers.relevance import content_words
from kbnav.encoders import Vectors
from kbnav.errors import BadArguments, TellModel, UnknownId
from kbnav.knowledge.base import INVERSE, Direction
from kbnav.knowledge.skb.graph import WAYS, Hop, NodeNumbers
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import get_doc_info, get_rel_info
from kbnav.programs.api.functions import Phrase, in_time

MOST_TEXT = 20_000_000
"""Characters that one call gives."""
MOST_IDS = 10_000
"""In one call, and in what it gives."""
MOST_TEXTS = 256
"""That one call may have encoded."""
_ENCODED = 20_000
"""Characters of a text that are encoded. minilm and e5 read fewer, but would first split all into tokens."""
Count = Annotated[int, Field(ge=1, le=MOST_IDS)]
Names = Annotated[list[str], Field(max_length=1_000)]
Hops = Annotated[list[str], Field(max_length=20)]
WordCount = Annotated[int, Field(ge=5, le=1_000)]


class NotHere(TellModel):
    """A function that this SKB cannot serve; a program sees a NotImplementedError."""


class KnowledgeFunctions:
    """What the graph and documents say; relations by any name, shown as ``SkbKB`` does."""

    def __init__(self, kb: SkbKB) -> None:
        self._kb, self._skb = kb, kb.skb

    def ids_by_type(self, node_type: str, limit: Count = 1000) -> list[str]:
        """Ids of the nodes of a type, the first of them in a fixed order."""
        first, end = self._skb.type_range(node_type)
        return [self._skb.id(node) for node in range(first, min(end, first + limit))]

    def types_of(self, ids: list[str]) -> dict[str, str]:
        """The type of each node."""
        return {node: self._skb.type(number) for node, number in self._numbered(ids)}

    def names_of(self, ids: list[str]) -> dict[str, str]:
        """The name of each node."""
        return {node: self._skb.name(number) for node, number in self._numbered(ids)}

    def texts_of(self, ids: list[str]) -> dict[str, str]:
        """The text of each node: its name and its own fields, without its relations."""
        return self._texts(ids, own=True, relations=False)

    def relations_text(self, ids: list[str]) -> dict[str, str]:
        """The relations of each node as text, with the names of its neighbours."""
        return self._texts(ids, own=False, relations=True)

    def documents_of(self, ids: list[str]) -> dict[str, str]:
        """The whole document of each node: its text, then its relations."""
        return self._texts(ids, own=True, relations=True)

    def field_of(self, ids: list[str], field: str) -> dict[str, str]:
        """One field of each node as text, such as "description"; "" where a node lacks it."""
        return _bounded(
            (node, _as_text(_field(self._skb.documents[number], field))) for node, number in self._numbered(ids)
        )

    def related(
        self, ids: list[str], relation: str = "", direction: Literal["out", "in", "both"] = "both", limit: Count = 100
    ) -> dict[str, list[str]]:
        """The neighbours of each node by a relation, at most `limit` each; by any relation where it is "".

        "out" follows edges that begin at the node, "in" edges that end there: of an edge a --made by--> b, b is a
        neighbour of a by "out", and a one of b by "in".
        """
        hop = self._hop(relation, direction) if relation else Hop(None, direction)
        return {
            node: self._ids(self._skb.graph.neighbors(number, hop.relation, hop.direction)[:limit])
            for node, number in self._numbered(ids)
        }

    def relations_of(self, ids: list[str], limit: Count = 50) -> dict[str, dict[str, list[str]]]:
        """The neighbours of each node by relation, at most `limit` of one; ^ before the name where edges end there."""
        return {node: self._relations(number, limit) for node, number in self._numbered(ids)}

    def follow_path(self, ids: list[str], path: Hops, limit: Count = 1000) -> list[str]:
        """The nodes at the end of a path of relations from any of some nodes, each once.

        `["has brand", "^has brand"]` leads out by the first relation and back in by the second. Each hop leads to at
        most ten times `limit` nodes, and `limit` are given; 20 hops at most.
        """
        hops = [self._hop(relation, "out") for relation in path]
        nodes = np.array(sorted(number for _, number in self._numbered(ids)), np.int32)
        for hop in in_time(hops):
            nodes = self._skb.graph.expand(nodes, hop, 10 * limit)
        return self._ids(nodes[:limit])

    def find_by_name(self, names: Names, node_type: str = "", limit: Count = 10) -> dict[str, list[str]]:
        """Ids of the nodes with each name, best first; of one type where it is given.

        Aliases count as names. Case, accents, spaces and punctuation do not matter; behind nodes with the name come
        those with one spelled nearly so, up to two letters wrong in a long name. 1,000 names at most.
        """
        if self._skb.names is None:
            raise NotHere(f"{self._kb.name} was built without an index of names")
        ranges = [self._skb.type_range(node_type)] if node_type else None
        return {
            name: [self._skb.id(match.number) for match in self._skb.names.search(name, limit=limit, ranges=ranges)]
            for name in in_time(names)
        }

    def intersect(self, lists: list[list[str]]) -> list[str]:
        """The ids that are in all of the lists, in the order of the first."""
        others = [set(one) for one in lists[1:]]
        return [node for node in dict.fromkeys(lists[0] if lists else []) if all(node in one for one in others)]

    def _texts(self, ids: Iterable[str], *, own: bool, relations: bool) -> dict[str, str]:
        return _bounded((node, self._text(number, own, relations)) for node, number in self._numbered(ids))

    def _text(self, number: int, own: bool, relations: bool) -> str:
        text = get_doc_info(self._skb, number, add_rel=relations) if own else get_rel_info(self._skb, number)
        return text.strip("\n")

    def _relations(self, number: int, limit: int) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for way in WAYS:
            row = self._skb.graph.row(number, way)
            for relation in np.flatnonzero(np.bincount(row.relations)).tolist():
                name = self._kb.relations.shown[relation]
                key = f"{INVERSE}{name}" if way == "in" else name
                found[key] = self._ids(row.nodes[row.relations == relation][:limit])
        return found

    def _numbered(self, ids: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Each id once with its number. Raises UnknownId that names the first few it does not have, ProgramLimit."""
        found = [(node, self._skb.nodes.ids.find(node)) for node in in_time(dict.fromkeys(ids))]
        unknown = [node for node, number in found if number < 0]
        if unknown:
            more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
            raise UnknownId(f"there is no node {', '.join(repr(node[:80]) for node in unknown[:3])}{more}")
        return in_time(found)

    def _hop(self, relation: str, direction: Direction) -> Hop:
        number, back = self._kb.relations.resolve(relation)
        return Hop(number, _TURNED[direction] if back else direction)

    def _ids(self, nodes: NodeNumbers) -> list[str]:
        return [self._skb.id(number) for number in nodes.tolist()]


class EmbeddingFunctions(KnowledgeFunctions):
    """What documents share with a query, by words and by vectors."""

    def __init__(self, kb: SkbKB) -> None:
        super().__init__(kb)
        self._vector = lru_cache(4_096)(self._encode)

    def search(self, query: Phrase, node_type: str = "", limit: Count = 100) -> dict[str, float]:
        """The nodes whose text fits the query best, with scores; best first.

        By words (BM25) and by meaning (vectors), their scores summed; either finds at most 200, whatever `limit` is.
        It knows nothing of relations, and `candidates` come from another search.
        """
        if self._skb.text is None and self._skb.vectors is None:
            raise NotHere(f"{self._kb.name} was built without an index of texts")
        found = self._kb.text_query(query, kind=node_type or "item", limit=limit)
        return {item.id: item.score for item in found.nodes}

    def similarity(self, query: Phrase, ids: list[str]) -> dict[str, float]:
        """For each node from -1 to 1 how near its document is to the query in meaning."""
        return self._scored(self._skb.relational_vectors or self._skb.vectors, "vectors", query, ids)

    def bm25(self, query: Phrase, ids: list[str]) -> dict[str, float]:
        """For each node its document's BM25 score, with relations where indexed, 0 where no word is shared."""
        index = self._skb.relational_text or self._skb.text
        return self._scored(index, "an index of texts", query, ids, name_weight=0.0)

    def embed(self, texts: list[str]) -> list[list[float]]:
        """A vector of length 1 for each text's first 20,000 characters, 256 a call; sums of products are cosines."""
        if len(texts) > MOST_TEXTS:
            raise BadArguments(f"embed: {len(texts)} texts, {MOST_TEXTS} are allowed in one call")
        return [self._vector(text).tolist() for text in in_time(texts)]

    def best_chunk(self, query: Phrase, ids: list[str], words: WordCount = 100) -> dict[str, str]:
        """From each node's document the part of so many words that shares most with the query, rare words first."""
        wanted = set(content_words(query))
        chunks = {
            node: [(part, wanted & set(content_words(part))) for part in in_time(_chunks(text, words))]
            for node, text in self._texts(ids, own=True, relations=True).items()
        }
        holders = Counter(word for parts in chunks.values() for _, shared in parts for word in shared)
        return {
            node: max(parts, key=lambda part: sum(1 / holders[word] for word in part[1]), default=("", set()))[0]
            for node, parts in in_time(chunks.items())
        }

    def _scored(self, index: Any, what: str, query: str, ids: list[str], **how: float) -> dict[str, float]:
        """The score of each node by an index, which is ``what``."""
        if index is None:
            raise NotHere(f"{self._kb.name} was built without {what}")
        numbered = dict(self._numbered(ids))
        hits = dict(index.search(query, limit=len(numbered), among=list(numbered.values()), **how))
        return {node: float(hits.get(number, 0.0)) for node, number in numbered.items()}

    def _encode(self, text: str) -> Vectors:
        if self._skb.vectors is None:
            raise NotHere(f"{self._kb.name} has no vectors")
        vector: Vectors = self._skb.vectors.encoder.encode([text[:_ENCODED]])[0]
        return vector


def _chunks(text: str, words: int) -> list[str]:
    parts = text.split()
    return [" ".join(parts[first : first + words]) for first in range(0, len(parts), words)]


def _bounded(texts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Texts by id, as they come. Raises BadArguments where they are more than one call may give."""
    found: dict[str, str] = {}
    room = MOST_TEXT
    for node, text in texts:
        room -= len(text)
        if room < 0:
            raise BadArguments(f"the texts have more than {MOST_TEXT} characters: ask for fewer nodes at once")
        found[node] = text
    return found


_TURNED: Mapping[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


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
