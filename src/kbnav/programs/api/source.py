"""What the API needs of a knowledge base, whatever its kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kbnav.errors import BadArguments, TellModel, UnknownId
from kbnav.knowledge.base import INVERSE, Capability, Direction, KnowledgeBase, Statement
from kbnav.knowledge.skb.graph import WAYS, Hop, Nodes
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import get_doc_info, get_rel_info

if TYPE_CHECKING:
    from kbnav.encoders import Encoder


MOST_TEXT = 20_000_000
"""Characters that one call gives."""


class NotHere(TellModel):
    """A function that this knowledge base cannot serve; a program sees a NotImplementedError."""


class Source(Protocol):
    """A knowledge base behind the functions of the API: many ids a call, plain data out.

    Ids that are none raise UnknownId; what the knowledge base cannot do raises NotHere. Used by several threads.
    """

    @property
    def encoder(self) -> Encoder | None:
        """That of the knowledge base's own vectors; None where it has none."""
        ...

    def unknown(self, ids: Iterable[str]) -> list[str]:
        """Those that are no ids of nodes."""
        ...

    def of_type(self, node_type: str, limit: int) -> list[str]:
        """Ids of the nodes of a type, in a fixed order."""
        ...

    def types(self, ids: Sequence[str]) -> dict[str, str]:
        """The type of each; empty where it has none."""
        ...

    def names(self, ids: Sequence[str]) -> dict[str, str]:
        """The name of each, its id where it has none."""
        ...

    def texts(self, ids: Sequence[str], *, own: bool, relations: bool) -> dict[str, str]:
        """Of each its own text, its relations as text, or both."""
        ...

    def fields(self, ids: Sequence[str], field: str) -> dict[str, str]:
        """One field of each document as text; empty where it lacks it."""
        ...

    def related(self, ids: Sequence[str], relation: str, direction: Direction, limit: int) -> dict[str, list[str]]:
        """Neighbours of each, at most ``limit``; by any relation where ``relation`` is empty."""
        ...

    def relations(self, ids: Sequence[str], limit: int) -> dict[str, dict[str, list[str]]]:
        """Neighbours of each by relation, at most ``limit`` of one; those that come in under ``^relation``."""
        ...

    def follow(self, ids: Sequence[str], path: Sequence[str], limit: int) -> list[str]:
        """The nodes at the end of a path of relations, ``^`` before one that is followed backwards."""
        ...

    def find(self, names: Sequence[str], node_type: str, limit: int) -> dict[str, list[str]]:
        """Nodes by each name, best first."""
        ...

    def search(self, query: str, node_type: str, limit: int) -> dict[str, float]:
        """Nodes by text, best first."""
        ...

    def bm25(self, query: str, ids: Sequence[str]) -> dict[str, float]:
        """BM25 of the query with the text of each, 0 where no word is shared."""
        ...

    def similarity(self, query: str, ids: Sequence[str]) -> Mapping[str, float] | None:
        """The cosine of the query with each by the knowledge base's own vectors; None where it has none."""
        ...


def bounded(texts: Iterable[tuple[str, str]]) -> dict[str, str]:
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

    def _ids(self, nodes: Nodes) -> list[str]:
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


_ITEM = re.compile(r"Q[1-9]\d*")
_PROPERTY = re.compile(r"\^?P[1-9]\d*")
_BATCH = 200
"""Items that one query names."""
_ONE_BY_ONE = 100
"""Items that a call asks for each by itself."""
_INSTANCE_OF = "P31"


class WikibaseSource:
    """See ``Source``."""

    encoder: Encoder | None = None

    def __init__(self, kb: KnowledgeBase) -> None:
        """Whatever ``kb`` cannot do raises NotHere when it is called."""
        self._kb = kb

    def unknown(self, ids: Iterable[str]) -> list[str]:
        """See ``Source``: those that are no ids of items; whether there is such an item is not asked."""
        return [node for node in ids if not _ITEM.fullmatch(node)]

    def of_type(self, node_type: str, limit: int) -> list[str]:
        """See ``Source``: the class by its id."""
        _check([node_type], _ITEM, "a class, as Q5")
        return self._column(f"SELECT DISTINCT ?x {{ ?x wdt:{_INSTANCE_OF} wd:{node_type} }} LIMIT {limit}")

    def types(self, ids: Sequence[str]) -> dict[str, str]:
        """See ``Source``: the ids of the classes, joined by ``; ``."""
        return self.fields(ids, _INSTANCE_OF)

    def names(self, ids: Sequence[str]) -> dict[str, str]:
        """See ``Source``."""
        labels = self._kb.labels(self._items(ids))
        return {node: labels.get(node, node) for node in dict.fromkeys(ids)}

    def texts(self, ids: Sequence[str], *, own: bool, relations: bool) -> dict[str, str]:
        """See ``Source``: name, description and aliases; relations are statements, a line each."""
        return bounded((node, self._text(node, own, relations)) for node in self._few(ids, "get_entry"))

    def _text(self, node: str, own: bool, relations: bool) -> str:
        entry = self._kb.get_entry(node)
        lines = [entry.entity.label or node, entry.entity.description, "; ".join(entry.aliases)] if own else []
        lines += [_line(one) for one in entry.statements] if relations else []
        return "\n".join(line for line in lines if line)

    def fields(self, ids: Sequence[str], field: str) -> dict[str, str]:
        """See ``Source``: the values of a property, joined by ``; ``, an item by its id."""
        _check([field], _PROPERTY, "a property, as P31")
        found: dict[str, list[str]] = {node: [] for node in self._items(ids)}
        for node, value in self._pairs(ids, f"?x wdt:{field} ?y"):
            found[node].append(value)
        return bounded((node, "; ".join(values)) for node, values in found.items())

    def related(self, ids: Sequence[str], relation: str, direction: Direction, limit: int) -> dict[str, list[str]]:
        """See ``Source``: other items only."""
        if not relation:
            return {node: self._neighbors(node, direction, limit) for node in self._few(ids, "search_neighbors")}
        _check([relation], _PROPERTY, "a property, as P31")
        path = _path(relation)
        ways = {"out": [path], "in": [f"^({path})"], "both": [path, f"^({path})"]}[direction]
        found: dict[str, list[str]] = {node: [] for node in self._items(ids)}
        for node, other in self._pairs(ids, f"?x {'|'.join(ways)} ?y"):
            if len(found[node]) < limit and _ITEM.fullmatch(other):
                found[node].append(other)
        return found

    def _neighbors(self, node: str, direction: Direction, limit: int) -> list[str]:
        edges = self._kb.search_neighbors(node, direction=direction, limit=limit).edges
        return list(dict.fromkeys(edge.neighbor.id for edge in edges if edge.neighbor.id))

    def relations(self, ids: Sequence[str], limit: int) -> dict[str, dict[str, list[str]]]:
        """See ``Source``: of at most a thousand edges of each, and twenty times ``limit``."""
        found: dict[str, dict[str, list[str]]] = {}
        for node in self._few(ids, "search_neighbors"):
            by_relation = found.setdefault(node, {})
            for edge in self._kb.search_neighbors(node, limit=min(20 * limit, 1_000)).edges:
                name = f"{INVERSE if edge.direction == 'in' else ''}{edge.relation.id}"
                nodes = by_relation.setdefault(name, [])
                if edge.neighbor.id and len(nodes) < limit:
                    nodes.append(edge.neighbor.id)
        return found

    def follow(self, ids: Sequence[str], path: Sequence[str], limit: int) -> list[str]:
        """See ``Source``."""
        _check(path, _PROPERTY, "a property, as P31 or ^P31")
        if not path:
            return self._items(ids)[:limit]
        whole = "/".join(_path(relation) for relation in path)
        found: dict[str, None] = {}
        for part in _batches(self._items(ids)):
            query = f"SELECT DISTINCT ?y {{ {_values(part)} ?x {whole} ?y FILTER(ISIRI(?y)) }} LIMIT {limit}"
            found |= dict.fromkeys(node for node in self._column(query) if _ITEM.fullmatch(node))
        return list(found)[:limit]

    def find(self, names: Sequence[str], node_type: str, limit: int) -> dict[str, list[str]]:
        """See ``Source``. A type is not looked at here: ``types_of`` tells it."""
        self._needs("search_entities")
        if node_type:
            raise NotHere("find_by_name does not look at types in a Wikibase: ask types_of of what it finds")
        if len(names) > _ONE_BY_ONE:
            raise BadArguments(f"{len(names)} names, {_ONE_BY_ONE} are allowed at once here")
        return {
            name: [one.id for one in self._kb.search_entities(name, kind="item", limit=limit).entities]
            for name in names
        }

    def search(self, query: str, node_type: str, limit: int) -> dict[str, float]:
        """See ``Source``: by the vector service where there is one, else by the search, the first scored 1."""
        if node_type:
            raise NotHere("search does not look at types in a Wikibase: ask types_of of what it finds")
        if "vector_query" in self._kb.capabilities:
            return {one.id: one.score for one in self._kb.vector_query(query, limit=limit).nodes}
        self._needs("search_entities")
        found = self._kb.search_entities(query, kind="item", limit=min(limit, 50)).entities
        return {one.id: 1.0 / place for place, one in enumerate(found, 1)}

    def bm25(self, query: str, ids: Sequence[str]) -> dict[str, float]:  # noqa: ARG002
        """Not here."""
        raise NotHere(f"{self._kb.name} has no index of texts: compare texts_of by token_recall instead")

    def similarity(self, query: str, ids: Sequence[str]) -> Mapping[str, float] | None:  # noqa: ARG002
        """None: there are no vectors of one's own."""
        return None

    def _pairs(self, ids: Sequence[str], pattern: str) -> Iterator[tuple[str, ...]]:
        """``?x`` and ``?y`` of a pattern, for ``?x`` among items; other values by their text."""
        for part in _batches(self._items(ids)):
            yield from self._rows(f"SELECT ?x ?y {{ {_values(part)} {pattern} }}")

    def _column(self, query: str) -> list[str]:
        return [row[0] for row in self._rows(query)]

    def _rows(self, query: str) -> Iterator[tuple[str, ...]]:
        self._needs("execute_query")
        for row in self._kb.execute_query(query).rows:
            yield tuple("" if cell is None else cell.entity_id or cell.value for cell in row)

    def _items(self, ids: Sequence[str]) -> list[str]:
        nodes = list(dict.fromkeys(ids))
        _check(nodes, _ITEM, "an item, as Q42")
        return nodes

    def _few(self, ids: Sequence[str], capability: Capability) -> list[str]:
        self._needs(capability)
        nodes = self._items(ids)
        if len(nodes) > _ONE_BY_ONE:
            raise BadArguments(f"{len(nodes)} items, {_ONE_BY_ONE} are allowed at once here")
        return nodes

    def _needs(self, capability: Capability) -> None:
        if capability not in self._kb.capabilities:
            raise NotHere(f"{self._kb.name} cannot do this: it has no {capability}")


def _check(ids: Iterable[str], form: re.Pattern[str], what: str) -> None:
    wrong = next((one for one in ids if not form.fullmatch(one)), None)
    if wrong is not None:
        raise BadArguments(f"{wrong[:80]!r} is not the id of {what}")


def _batches(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(items), _BATCH):
        yield items[first : first + _BATCH]


def _path(relation: str) -> str:
    name = relation.removeprefix(INVERSE)
    return f"^wdt:{name}" if relation.startswith(INVERSE) else f"wdt:{name}"


def _values(items: Iterable[str]) -> str:
    return f"VALUES ?x {{ {' '.join(f'wd:{item}' for item in items)} }}"


def _line(statement: Statement) -> str:
    return f"{statement.property.label or statement.property.id}: {statement.value.text}"


def open_source(kb: KnowledgeBase) -> Source:
    """What the functions of the API read."""
    return SkbSource(kb) if isinstance(kb, SkbKB) else WikibaseSource(kb)
