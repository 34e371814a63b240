"""Which nodes of a type have all the words of a phrase: the textual requirement, decided by code.

Words are compared stemmed, as the SKB's text index has them, and a word and its synonyms in the lexicon are one. A node
has a word where its name, its aliases or its document do. What says the same in words that the lexicon does not know
is not found; a model would find some of it (STaRK, section 2.4, step 4), code cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbnav.evaluation.synthesis.lexicon import Lexicon
from kbnav.knowledge.skb.rendering import indexed_text
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import TextSearch

Numbers = npt.NDArray[np.int32]


class Texts:
    """The words of all nodes of some types."""

    def __init__(self, skb: SKB, index: TextSearch, lexicon: Lexicon, fields: Mapping[str, Sequence[str]]) -> None:
        """Read every node of the types in ``fields``, which has the fields that phrases may be taken from."""
        self._skb, self._index, self._lexicon, self._fields = skb, index, lexicon, dict(fields)
        self._postings = {kind: self._indexed(*skb.type_range(kind)) for kind in self._fields}

    def words(self, text: str) -> frozenset[str]:
        """The different words of a text, each as what stands for it and its synonyms."""
        return frozenset(self._lexicon.stands_for(word) for word in self._index.words(text))

    def holders(self, kind: str, words: frozenset[str]) -> Numbers:
        """The nodes of a type that have every one of the words, ascending."""
        postings = self._postings[kind]
        lists = sorted((postings.get(word, _NONE) for word in words), key=len)
        found = lists[0] if lists else _NONE
        for other in lists[1:]:
            found = np.intersect1d(found, other, assume_unique=True)
        return found

    def sources(self, node: int) -> Iterator[str]:
        """The parts of a node's text that phrases may be taken from."""
        fields = self._skb.documents[node]
        for name in self._fields[self._skb.type_name(node)]:
            yield from _strings(fields.get(name))

    def name_words(self, node: int) -> frozenset[str]:
        """The words of a node's name and aliases."""
        return self.words(" ; ".join([self._skb.nodes.label(node), *self._skb.nodes.aliases(node)]))

    def plain(self, node: int) -> str:
        """All that is written of a node, for comparing literally; of STaRK's nodes what STaRK renders."""
        if self._skb.meta.style != "plain":
            return indexed_text(self._skb, node)
        parts = [self._skb.nodes.label(node), *self._skb.nodes.aliases(node), *_strings(self._skb.documents[node])]
        return " \n ".join(parts)

    def _indexed(self, first: int, end: int) -> dict[str, Numbers]:
        found: dict[str, list[int]] = {}
        for node in range(first, end):
            for word in self.words(self.plain(node)):
                found.setdefault(word, []).append(node)
        return {word: np.array(nodes, np.int32) for word, nodes in found.items()}


_NONE: Numbers = np.zeros(0, np.int32)


def text_fields(skb: SKB, kind: str, sample: int = 200) -> list[str]:
    """The fields of a type's documents that hold running text: in the first few, six words or more on the average."""
    first, end = skb.type_range(kind)
    lengths: dict[str, list[int]] = {}
    for node in range(first, min(end, first + sample)):
        for name, value in skb.documents[node].items():
            if name not in skb.meta.alias_fields and (texts := list(_strings(value))):
                lengths.setdefault(name, []).append(sum(len(text.split()) for text in texts))
    return [name for name, found in lengths.items() if sum(found) >= _RUNNING * len(found)]


_RUNNING = 6


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
