"""Wikidata, a mirror or another Wikibase behind the API, as far as its capabilities go.

A node is an item, a type the class that it is an instance of, a relation or field a property, all by their ids. There
is no index of texts here, so no BM25; what needs a query needs the capability ``execute_query``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kbnav.errors import BadArguments
from kbnav.knowledge.base import INVERSE, Capability, Direction, KnowledgeBase, Statement
from kbnav.programs.api.source import NotHere, bounded

if TYPE_CHECKING:
    from kbnav.encoders import Encoder

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
