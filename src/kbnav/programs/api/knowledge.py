"""The functions of the API that read the knowledge base (Agent Retriever, section 3 and Figure 9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from kbnav.programs.api.functions import Function
from kbnav.programs.api.source import Source

MOST_IDS = 10_000
"""In one call, and in what it gives."""
Count = Annotated[int, Field(ge=1, le=MOST_IDS)]


class KnowledgeFunctions:
    """What the graph and the documents say. Docstrings are what the writer of a program reads."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @classmethod
    def functions(cls) -> Iterator[Function]:
        """All of them, in the order in which they are told."""
        for method in (
            cls.ids_by_type,
            cls.types_of,
            cls.names_of,
            cls.texts_of,
            cls.relations_text,
            cls.documents_of,
            cls.field_of,
            cls.related,
            cls.relations_of,
            cls.follow_path,
            cls.find_by_name,
            cls.intersect,
        ):
            yield Function("knowledge base", method)

    def ids_by_type(self, node_type: str, limit: Count = 1000) -> list[str]:
        """Ids of the nodes of a type, the first of them in a fixed order."""
        return self._source.of_type(node_type, limit)

    def types_of(self, ids: list[str]) -> dict[str, str]:
        """The type of each node."""
        return self._source.types(ids)

    def names_of(self, ids: list[str]) -> dict[str, str]:
        """The name of each node."""
        return self._source.names(ids)

    def texts_of(self, ids: list[str]) -> dict[str, str]:
        """The text of each node: its name and its own fields, without its relations."""
        return self._source.texts(ids, own=True, relations=False)

    def relations_text(self, ids: list[str]) -> dict[str, str]:
        """The relations of each node as text, with the names of its neighbours."""
        return self._source.texts(ids, own=False, relations=True)

    def documents_of(self, ids: list[str]) -> dict[str, str]:
        """The whole document of each node: its text, then its relations."""
        return self._source.texts(ids, own=True, relations=True)

    def field_of(self, ids: list[str], field: str) -> dict[str, str]:
        """One field of each node as text, such as "description"; "" where a node lacks it."""
        return self._source.fields(ids, field)

    def related(
        self, ids: list[str], relation: str = "", direction: Literal["out", "in", "both"] = "both", limit: Count = 100
    ) -> dict[str, list[str]]:
        """The neighbours of each node by a relation, at most `limit` each; by any relation where it is "".

        "out" follows edges that begin at the node, "in" edges that end there: of an edge a --made by--> b, b is a
        neighbour of a by "out", and a one of b by "in".
        """
        return self._source.related(ids, relation, direction, limit)

    def relations_of(self, ids: list[str], limit: Count = 50) -> dict[str, dict[str, list[str]]]:
        """The neighbours of each node by relation, at most `limit` of one; ^ before the name where edges end there."""
        return self._source.relations(ids, limit)

    def follow_path(self, ids: list[str], path: list[str], limit: Count = 1000) -> list[str]:
        """The nodes at the end of a path of relations from any of some nodes, each once.

        `["has brand", "^has brand"]` leads out by the first relation and back in by the second. Each hop leads to at
        most ten times `limit` nodes, and `limit` are given.
        """
        return self._source.follow(ids, path, limit)

    def find_by_name(self, names: list[str], node_type: str = "", limit: Count = 10) -> dict[str, list[str]]:
        """Ids of the nodes with each name, best first; of one type where it is given.

        Aliases count as names. Case, accents, spaces and punctuation do not matter; behind nodes with the name come
        those with one spelled nearly so, up to three letters wrong in a long name.
        """
        return self._source.find(names, node_type, limit)

    def intersect(self, lists: list[list[str]]) -> list[str]:
        """The ids that are in all of the lists, in the order of the first."""
        others = [set(one) for one in lists[1:]]
        return [node for node in dict.fromkeys(lists[0] if lists else []) if all(node in one for one in others)]
