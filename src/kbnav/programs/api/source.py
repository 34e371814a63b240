"""What the API needs of a knowledge base, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from kbnav.errors import BadArguments, TellModel
from kbnav.knowledge.base import Direction

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
