"""Questions of people beside made ones: pairs that are alike (STaRK, Table 6), and the words that one set has alone."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles

from kbnav.errors import UsageError
from kbnav.evaluation.datasets import Dataset
from kbnav.evaluation.markdown import table

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_NAME = re.compile(r"(?<=[\w,;:] )[A-Z][\w'’.-]* [A-Z][\w'’.-]*")
_SHOWN = 12
"""Words of one set alone that are named."""


@dataclass(frozen=True)
class Pair:
    """A person's question, and the made one that is most like it; ``kind`` is what both are."""

    kind: str
    human: str
    made: str
    likeness: float


@dataclass(frozen=True)
class Own:
    """Words that one set has and the other has not: how many of its different words, their share, the commonest."""

    dataset: str
    words: int
    share: float
    commonest: tuple[str, ...]


@dataclass(frozen=True)
class Compared:
    """Two sets of questions compared."""

    pairs: tuple[Pair, ...]
    own: tuple[Own, Own]


def compare(human: Dataset, made: Dataset, count: int = 1) -> Compared:
    """``count`` pairs of each kind, the most alike first; no question is in two. Raises UsageError for an empty set."""
    if not human.questions or not made.questions:
        raise UsageError("a set without questions has nothing to compare")
    people, machine = ([one.text() for one in dataset.questions] for dataset in (human, made))
    lengths = sorted(len(words(text)) for text in (*people, *machine))
    low, _, high = quantiles(lengths, n=4, method="inclusive")
    kinds: dict[str, Callable[[str], bool]] = {
        "short and direct": lambda text: len(words(text)) <= low,
        "names somebody or something": lambda text: bool(_NAME.search(text)) and low < len(words(text)) < high,
        "long, with context": lambda text: len(words(text)) >= high,
    }
    taken: set[str] = set()
    pairs: list[Pair] = []
    for kind, fits in kinds.items():
        found = sorted(
            (
                Pair(kind, one, other, likeness(one, other))
                for one in filter(fits, people)
                for other in filter(fits, machine)
            ),
            key=lambda pair: (-pair.likeness, pair.human, pair.made),
        )
        chosen = 0
        for pair in found:
            if chosen < count and taken.isdisjoint((pair.human, pair.made)):
                taken |= {pair.human, pair.made}
                pairs.append(pair)
                chosen += 1
    return Compared(tuple(pairs), (_own(human, people, machine), _own(made, machine, people)))


def words(text: str) -> list[str]:
    """The words of a question, without case."""
    return [word.casefold() for word in _WORD.findall(text)]


def likeness(one: str, other: str) -> float:
    """From 0 to 1: the share of words that two questions have in common, less where one is longer than the other."""
    first, second = Counter(words(one)), Counter(words(other))
    if not first or not second:
        return 0.0
    shared = (first & second).total() / (first | second).total()
    return shared * math.exp(-abs(math.log(first.total() / second.total())))


def _own(dataset: Dataset, texts: Sequence[str], others: Sequence[str]) -> Own:
    counts = Counter(word for text in texts for word in words(text))
    known = {word for text in others for word in words(text)}
    own = {word: count for word, count in counts.items() if word not in known}
    commonest = sorted(own, key=lambda word: (-own[word], word))[:_SHOWN]
    return Own(dataset.name, len(own), len(own) / len(counts) if counts else 0.0, tuple(commonest))


def markdown(found: Compared) -> str:
    """Table 6, and below it which words only one of the sets has."""
    pairs = table(["Kind", "By people", "Made"], [[one.kind, one.human, one.made] for one in found.pairs])
    own = [[one.dataset, one.words, f"{100 * one.share:.1f}", ", ".join(one.commonest)] for one in found.own]
    return pairs + "\n" + table(["Dataset", "Words of its own", "% of its words", "As in"], own)
