"""Which relation paths of the schema a question may mean, from a node it names to the type it asks for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from kbnav.answers.language import singular
from kbnav.answers.relevance import fit
from kbnav.knowledge.base import Direction
from kbnav.knowledge.skb.question_reading import Mention, Reading, name_words
from kbnav.knowledge.skb.schema import Meta

_ABBREVIATED = re.compile(r"[A-Z]{1,3}([a-z])[a-z]{0,2}[<>]?[A-Z]{1,3}")
"""Relations named by the initials of a type, a verb and a type, as Hetionet's ``CbG`` is: compound binds gene."""
_INITIAL = 0.7
"""How well a word fits a verb of which only the first letter is known."""
_FARTHER = 0.6
"""Weight of words that stand elsewhere in the question than where the relation should be named."""
_HOP = 0.3
_TYPE_NAMED = 0.5
_TYPE_UNNAMED = -0.4
_LONGEST = 2
_COMMONEST = 50
"""Relations of a type that are followed though no word names them."""


@dataclass(frozen=True)
class Step:
    """One relation followed; ``direction`` is seen from where the path comes from, ``both`` within one type.

    An empty ``relation`` is any, an empty ``target`` any type.
    """

    relation: str
    direction: Direction
    target: str


@dataclass(frozen=True)
class Path:
    """From a node, along steps, to the type of the last one."""

    node: int
    steps: tuple[Step, ...]
    score: float
    used: frozenset[int] = frozenset()
    """Places of the question's words that name its relations."""

    @property
    def target(self) -> str:
        """The type at its end."""
        return self.steps[-1].target


class Paths:
    """The schema of an SKB, searched for paths."""

    def __init__(self, meta: Meta) -> None:
        self._steps: dict[str, list[Step]] = {kind.name: [] for kind in meta.types}
        self._relations = [relation.name for relation in meta.relations]
        for one in meta.tuples:
            if one.source == one.target:
                self._steps[one.source].append(Step(one.relation, "both", one.target))
            else:
                self._steps[one.source].append(Step(one.relation, "out", one.target))
                self._steps[one.target].append(Step(one.relation, "in", one.source))
        edges: Counter[tuple[str, str]] = Counter()
        for one in meta.tuples:
            edges.update({(one.source, one.relation): one.count, (one.target, one.relation): one.count})
        ranked = {
            kind: sorted(steps, key=lambda step: -edges[kind, step.relation]) for kind, steps in self._steps.items()
        }
        self._common = {kind: frozenset(steps[:_COMMONEST]) for kind, steps in ranked.items()}
        self._fits = lru_cache(maxsize=1024)(self._word_fits)

    def propose(self, reading: Reading, mention: Mention, node: int, kind: str) -> list[Path]:
        """Paths from ``node``, of type ``kind``, to the type that is asked for (to any, where none is), best first."""
        before, near = self._surroundings(reading, mention)
        found = []
        named = {relation for place in reading.words for relation in self._fits(reading.tokens[place].low)}
        for steps in self._walks(kind, named, _LONGEST):
            if reading.asked in ("", steps[-1].target):
                found.append(self._scored(reading, mention, node, steps, before, near))
        return sorted(found, key=lambda path: (-path.score, len(path.steps)))

    def _walks(self, kind: str, named: Set[str], longest: int) -> Iterator[tuple[Step, ...]]:
        """Of a type with very many relations, the commonest and those that are ``named``."""
        for step in self._steps[kind]:
            if step not in self._common[kind] and step.relation not in named:
                continue
            yield (step,)
            if longest > 1:
                for rest in self._walks(step.target, named, longest - 1):
                    yield (step, *rest)

    def _surroundings(self, reading: Reading, mention: Mention) -> tuple[int, tuple[int, ...]]:
        """Where the part of the question about this mention begins, and the places of its words.

        The part is what follows the mention before it; of the last mention, also what follows itself.
        """
        before = max((one.end for one in reading.mentions if one.end <= mention.first), default=0)
        last = mention.end >= max((one.end for one in reading.mentions), default=0)
        end = len(reading.tokens) if last else mention.first
        return before, tuple(place for place in reading.words if before <= place < end)

    def _scored(
        self, reading: Reading, mention: Mention, node: int, steps: tuple[Step, ...], before: int, near: tuple[int, ...]
    ) -> Path:
        """Relations count by how well they fit the words where they should be named, types by whether they are named.

        Read backwards from the mention: first the words of its own relation, then the type that leads to, then the
        words of the next relation.
        """
        score, used = -_HOP * (len(steps) - 1), set()
        end = mention.first
        for number, step in enumerate(steps):
            named = [one for one in reading.types if one.name == step.target and before <= one.first < end]
            start = named[-1].end if named and number + 1 < len(steps) else before
            here = tuple(place for place in near if start <= place < end)
            fits, places = self._best(reading, step.relation, here, near)
            score += fits / len(steps)
            used |= places
            if number + 1 < len(steps):
                score += _TYPE_NAMED if named else _TYPE_UNNAMED
                end = named[-1].first if named else end
        passed = {step.target for step in steps}
        unused = {one.name for one in reading.types if before <= one.first < mention.first and one.name not in passed}
        if not reading.asked and any(one.name == steps[-1].target for one in reading.types):
            score -= _TYPE_NAMED  # what is asked for goes by another name
        return Path(node, steps, round(score - _TYPE_NAMED * len(unused), 4), frozenset(used))

    def _best(
        self, reading: Reading, relation: str, here: tuple[int, ...], near: tuple[int, ...]
    ) -> tuple[float, set[int]]:
        """How well a relation fits the words here; else those near by; else those of the whole question."""
        for weight, places in ((1.0, here), (_FARTHER, near), (_FARTHER, reading.words)):
            found = {place: self._fits(reading.tokens[place].low).get(relation, 0.0) for place in places}
            best = max(found.values(), default=0.0)
            if best > 0:
                return weight * best, {place for place, value in found.items() if value > 0}
        return 0.0, set()

    def _word_fits(self, word: str) -> Mapping[str, float]:
        """The relations that one word may name."""
        fits = fit(singular(word), [" ".join(map(singular, name_words(name))) for name in self._relations])
        found = {name: value for name, value in zip(self._relations, fits, strict=True) if value > 0}
        for name in self._relations:
            abbreviated = _ABBREVIATED.fullmatch(name)
            if abbreviated and word.startswith(abbreviated[1]):
                found[name] = max(found.get(name, 0.0), _INITIAL)
        return found


def leftover(reading: Reading, paths: Sequence[Path]) -> str:
    """The words that name neither nodes nor types nor the relations of the paths: what a document should say."""
    used = set().union(*(path.used for path in paths))
    return reading.text([place for place in reading.words if place not in used])
