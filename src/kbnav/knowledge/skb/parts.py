"""What an SKB is read through, whatever holds its data: retrievers, agents and apps know these protocols and no files.

The graph, the ids and names and the index of names are small enough to be files on every machine that reads them, and
so are ``Graph``, ``Strings`` and ``NameIndex`` everywhere. Documents, texts and vectors may be elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from kbnav.encoders import Encoder, Vectors

Fields = Mapping[str, Any]
"""A document: plain JSON values by field name."""
Hit = tuple[int, float]
"""A node number and its score; higher is better."""
Range = tuple[int, int]
"""Node numbers from the first up to, not including, the second."""
NAME_WEIGHT = 2.0
"""What a match in a name counts, one in the body counting 1."""


class Documents(Protocol):
    """The documents by node number; safe to share between threads."""

    def __len__(self) -> int: ...

    def __getitem__(self, node: int, /) -> Fields:
        """The fields of a node's document. Raises DamagedKB where it cannot be read."""
        ...

    def __iter__(self) -> Iterator[Fields]:
        """Every document, in the order of node numbers."""
        ...


class TextSearch(Protocol):
    """BM25 over names and documents; safe to share between threads."""

    nodes: int
    """Number of nodes."""

    def words(self, text: str) -> list[str]:
        """The words of a text in the form they are indexed in."""
        ...

    def holders(self, word: str) -> int:
        """How many nodes have a word, in any of its forms; of several words, the rarest counts."""
        ...

    def shares(self, query: str, texts: Iterable[str]) -> list[float]:
        """How much of a query each text has, from 0 to 1: its words in any of their forms, rare ones counting more."""
        ...

    def unread(self, text: str) -> int:
        """How many different words of a query a search leaves out because it is too long."""
        ...

    def search(
        self,
        query: str,
        *,
        limit: int = 20,
        ranges: Sequence[Range] | None = None,
        among: Collection[int] | None = None,
        name_weight: float = NAME_WEIGHT,
    ) -> list[Hit]:
        """The best ``limit`` nodes that share a word with the query; equal scores by number.

        ``query`` is plain text: it has no operators. ``ranges`` keeps the nodes in any of the ranges (a node type is
        one), ``among`` the nodes given; scores are those of a search without a filter. With a ``name_weight`` of 0 a
        node is one document, in which its name stands as any other words do.
        """
        ...


class VectorSearch(Protocol):
    """Vectors of nodes, searched by cosine; safe to share between threads."""

    @property
    def count(self) -> int:
        """Number of vectors, one a node."""
        ...

    @property
    def dimensions(self) -> int:
        """Numbers of a vector."""
        ...

    @property
    def encoder_name(self) -> str:
        """The encoder that made the vectors."""
        ...

    @property
    def encoder(self) -> Encoder:
        """The encoder that queries need. Raises UsageError where it must be given and was not."""
        ...

    def open_all(self) -> None:
        """Open what is else opened when it is first needed. Raises DataError where it is damaged."""
        ...

    def embed(self, text: str) -> Vectors:
        """The vector [d] of a query, read-only. Raises as ``encoder`` and as its ``encode``."""
        ...

    def rows(self, nodes: npt.NDArray[np.integer]) -> Vectors:
        """The vectors [n, d] of nodes [n]."""
        ...

    def search(
        self,
        text: str,
        *,
        limit: int = 20,
        ranges: Sequence[Range] | None = None,
        among: Collection[int] | None = None,
        exact: bool = False,
    ) -> list[Hit]:
        """The nodes most similar in meaning to a text, as ``nearest`` gives them."""
        ...

    def nearest(
        self,
        vector: Vectors,
        *,
        limit: int = 20,
        ranges: Sequence[Range] | None = None,
        among: Collection[int] | None = None,
        exact: bool = False,
    ) -> list[Hit]:
        """The best ``limit`` node numbers and their cosines with a vector [d] of length 1; equal ones by number.

        ``ranges`` keeps the nodes in any of the ranges (a node type is one; they do not overlap), ``among`` the nodes
        given. Without either, an approximate index is asked where there is one; with ``exact`` it is not. Raises
        UsageError for a vector of another length.
        """
        ...

    def scorer(self, vector: Vectors) -> Callable[[npt.NDArray[np.integer]], Vectors]:
        """A function that gives nodes [n] their cosines [n] with a vector [d] of length 1, for many nodes many times.

        Where not all can be exact at once, the best are, and the others are lower.
        """
        ...
