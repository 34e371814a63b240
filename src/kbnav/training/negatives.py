"""Hard negatives: documents that look like an answer and are none.

STaRK's dense retriever learns from the top 20 false positives of ``vss`` (section 3.1). Here any retrieval system's
false positives may be taken, and nodes that an answer's own relation path leads to without its text (``paths``), which
is what a text encoder tells apart worst.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice

from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.names import NodeMatcher
from kbnav.planning.base import PlannedPath
from kbnav.planning.expansion import reached
from kbnav.planning.training import Asked, made_from
from kbnav.planning.training import examples as labelled
from kbnav.retrieval.build import build_retriever
from kbnav.retrieval.common import RetrievalOptions, candidate_ranges
from kbnav.settings.model import Settings
from kbnav.training.data import Documents, Example

PATHS = "paths"
"""The source that is no retrieval system."""
Sources = Mapping[str, int]
"""How many negatives of a question come from which source."""
_DEEPER = 200
"""Answers of a question that a ranking is searched behind."""


def read_sources(text: str) -> dict[str, int]:
    """``vss=15,bm25=5`` as a mapping. Raises UsageError."""
    found: dict[str, int] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, count = (one.strip() for one in part.partition("="))
        if not name or not count.isdigit() or not int(count):
            raise UsageError(f"negatives are given as system=count, as in vss=20,bm25=5; not {part!r}")
        found[name] = int(count)
    if not found:
        raise UsageError("no negatives are asked for; vss=20 is as in STaRK")
    return found


class Miner:
    """Finds the negatives of questions; never a node that is an answer, nor one whose document equals an answer's."""

    def __init__(self, kb: SkbKB, documents: Documents, settings: Settings, sources: Sources, seed: int = 0) -> None:
        """Raises UsageError for a source that is no retrieval system, or cannot work on this SKB."""
        self._skb, self._documents, self._seed = kb.skb, documents, seed
        self._ranges = candidate_ranges(kb.skb, RetrievalOptions()) or [(0, kb.skb.meta.nodes)]
        self._counts = sources
        self._of: dict[str, Callable[[Example, int], Iterator[int]]] = {}
        for name in sources:
            self._of[name] = self._by_paths() if name == PATHS else self._by_system(name, kb, settings)

    @property
    def count(self) -> int:
        """Negatives of a question."""
        return sum(self._counts.values())

    def hard(self, example: Example, most: int) -> list[int]:
        """What the sources find for a question, answers among it or not, at most so many of each."""
        return list(dict.fromkeys(node for find in self._of.values() for node in islice(find(example, most), most)))

    def negatives(self, example: Example) -> list[int]:
        """Node numbers, ``count`` of them; random nodes of the answers' types where the sources have too few.

        Raises UsageError where the SKB has not so many nodes that are no answer.
        """
        taken = _Taken(example, self._documents)
        chosen: list[int] = []
        for name, count in self._counts.items():
            chosen += islice(filter(taken.new, self._of[name](example, count + _DEEPER)), count)
        filler = chain(self._random(example), range(self._skb.meta.nodes))
        chosen += islice(filter(taken.new, filler), self.count - len(chosen))
        if len(chosen) < self.count:
            raise UsageError(f"{self._skb.meta.name} has not {self.count} documents that differ from the answers'")
        return chosen

    def _random(self, example: Example) -> Iterator[int]:
        """Random nodes of the types of the answers."""
        chance = random.Random(f"{self._seed} {example.id}")
        starts = self._skb.nodes.type_start
        types = sorted({self._skb.nodes.type_of(node) for node in example.answers})
        for _ in range(20 * self.count):
            kind = chance.choice(types)
            yield chance.randrange(starts[kind], starts[kind + 1])

    def _by_system(self, name: str, kb: SkbKB, settings: Settings) -> Callable[[Example, int], Iterator[int]]:
        retriever = build_retriever(name, kb, settings, {})

        def find(example: Example, most: int) -> Iterator[int]:
            yield from map(kb.skb.number, retriever.retrieve(example.text, most).ids)

        return find

    def _by_paths(self) -> Callable[[Example, int], Iterator[int]]:
        """Ends of the most probable relation path to an answer, from the nodes that the question names."""
        skb, matcher = self._skb, NodeMatcher(self._skb, "exact")

        def find(example: Example, most: int) -> Iterator[int]:
            question = Asked(example.text, [skb.id(node) for node in example.answers], made_from(example.meta))
            for found in labelled([question], skb, matcher, known=True):
                for path in sorted(found.label, key=lambda path: -found.label[path]):
                    ends = reached(skb, PlannedPath(path.hops, 1.0, path.start, path.types), found.nodes).tolist()
                    random.Random(f"{self._seed} {example.id}").shuffle(ends)
                    yield from islice(filter(self._may_answer, ends), most)

        return find

    def _may_answer(self, node: int) -> bool:
        return any(first <= node < end for first, end in self._ranges)


class _Taken:
    """Whether a node may still be a negative of a question: no answer, and no document that was there already."""

    def __init__(self, example: Example, documents: Documents) -> None:
        self._documents = documents
        self._nodes = set(example.answers)
        self._texts = {documents.text(node) for node in example.answers}

    def new(self, node: int) -> bool:
        if node in self._nodes or (text := self._documents.text(node)) in self._texts:
            return False
        self._nodes.add(node)
        self._texts.add(text)
        return True


def positives(example: Example, most: int, seed: int) -> Sequence[int]:
    """The answers that a question learns from: all, or that many drawn at random."""
    if len(example.answers) <= most:
        return example.answers
    return random.Random(f"{seed} {example.id}").sample(example.answers, most)
