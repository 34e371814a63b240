"""Groups of queries that one program can serve: patterns, who belongs to which, and where a new query goes.

A model reads some training queries and proposes patterns, assigns all queries in batches, and is asked once more for
those left over. Groups too small to validate are merged with the nearest.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kbnav.models.calls import Ask
from kbnav.planning.training import LabelledQuestion
from kbnav.prompts import render
from kbnav.runs.trajectory import Trace

READ = 200
"""Training queries that the model reads."""
MOST = 6
"""Groups; the paper has 12 (section 5.4)."""
SMALLEST = 20
"""Validation queries of a group; of fewer, little can be said."""
_BATCH = 40
_COMMON = 0.02
_VOCABULARY = 400
_WORD = re.compile(r"[^\W\d_]+")
_NUMBERED = re.compile(r"^\W*(\d+)\W+(.+?)\s*$", re.MULTILINE)
_ASSIGNED = re.compile(r"^\W*(\d+)\s*[:.)=-]+>?\s*\D{0,10}(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Group:
    """Queries of one pattern, by their ids."""

    id: str
    pattern: str
    training: tuple[str, ...]
    validation: tuple[str, ...]


@dataclass(frozen=True)
class Centroids:
    """The mean of each group's queries over the words that many queries have, all of length 1."""

    words: tuple[str, ...]
    vectors: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, groups: Sequence[Sequence[str]]) -> Centroids:
        """Of the texts of each group, over the words that many of them have."""
        vocabulary = common_words([text for texts in groups for text in texts])
        means = [bags(texts, vocabulary).mean(axis=0) for texts in groups]
        found = [mean / (float(np.linalg.norm(mean)) or 1.0) for mean in means]
        return cls(vocabulary, tuple(tuple(round(float(one), 5) for one in row) for row in found))

    def nearest(self, texts: Sequence[str]) -> list[int]:
        """The place of the nearest group for each text; the first of several."""
        likeness = bags(texts, self.words) @ np.array(self.vectors).T
        return [int(place) for place in likeness.argmax(axis=1)]


def common_words(texts: Sequence[str]) -> tuple[str, ...]:
    """Words, function words too, that 2 % of the texts have and two at least, the commonest first."""
    counts = Counter(word for text in texts for word in set(_WORD.findall(text.casefold())))
    least = max(2, _COMMON * len(texts))
    chosen = sorted((word for word, count in counts.items() if count >= least), key=lambda one: (-counts[one], one))
    return tuple(chosen[:_VOCABULARY])


def bags(texts: Sequence[str], vocabulary: Sequence[str]) -> NDArray[np.float64]:
    """Which of the words each text has, [texts, words], each row of length 1 or 0."""
    place = {word: number for number, word in enumerate(vocabulary)}
    found = np.zeros((len(texts), max(1, len(vocabulary))))
    for row, text in enumerate(texts):
        for word in _WORD.findall(text.casefold()):
            if word in place:
                found[row, place[word]] = 1.0
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    found /= np.where(norms > 0, norms, 1.0)
    return found


def groups_by_model(
    training: Sequence[LabelledQuestion],
    validation: Sequence[LabelledQuestion],
    ask: Ask,
    trace: Trace,
    *,
    most: int = MOST,
    smallest: int = SMALLEST,
    seed: int = 0,
    kinds: Callable[[str], str] = lambda _: "",
) -> list[Group]:
    """Groups by a model's patterns, and one of leftovers; ``kinds``: types of answers. Raises as its calls."""
    drawn = random.Random(seed).sample(list(training), min(READ, len(training)))
    patterns = propose([one.text for one in drawn], most, ask, trace)
    everyone = [*training, *validation]
    chosen = assign(patterns, [one.text for one in everyone], ask, trace)
    left = [place for place, number in enumerate(chosen) if number == 0]
    left_training = [everyone[place] for place in left if place < len(training)]
    if len(left_training) >= smallest and len(patterns) < most:
        again = random.Random(seed + 1).sample(left_training, min(READ, len(left_training)))
        more = propose([one.text for one in again], most - len(patterns), ask, trace)
        for place, number in zip(left, assign(more, [everyone[one].text for one in left], ask, trace), strict=True):
            chosen[place] = number + len(patterns) if number else 0
        patterns += more
    numbers = [*range(1, len(patterns) + 1), 0]
    parts = [[one for one, to in zip(training, chosen, strict=False) if to == number] for number in numbers]
    held = [[one for one, to in zip(validation, chosen[len(training) :], strict=True) if to == n] for n in numbers]
    found = [
        Group("", pattern, tuple(one.id for one in part), tuple(one.id for one in others))
        for pattern, part, others in zip([*patterns, "queries of no other pattern"], parts, held, strict=True)
    ]
    return merged(found, training, validation, smallest=smallest, kinds=kinds)


def propose(texts: Sequence[str], most: int, ask: Ask, trace: Trace) -> list[str]:
    """At most so many patterns that a model sees in queries; one for all where its reply has none."""
    reply = ask(render("agent_retriever/groups.md", queries=list(texts), most=most), trace, purpose="patterns")
    found = [text for _, text in _NUMBERED.findall(reply)]
    return list(dict.fromkeys(found))[:most] or ["any query"]


def assign(patterns: Sequence[str], texts: Sequence[str], ask: Ask, trace: Trace) -> list[int]:
    """The number of each text's pattern, from 1; 0 for none of them, and where the reply does not say."""
    found: list[int] = []
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        prompt = render("agent_retriever/assign.md", patterns=list(patterns), queries=batch)
        reply = ask(prompt, trace, purpose="assign")
        said = {int(query): int(pattern) for query, pattern in _ASSIGNED.findall(reply)}
        numbers = [said.get(number, 0) for number in range(1, len(batch) + 1)]
        found += [number if number <= len(patterns) else 0 for number in numbers]
    return found


def merged(
    groups: Sequence[Group],
    training: Sequence[LabelledQuestion],
    validation: Sequence[LabelledQuestion],
    *,
    smallest: int = SMALLEST,
    kinds: Callable[[str], str] = lambda _: "",
) -> list[Group]:
    """While a group has fewer than ``smallest`` validation queries, the least joins the nearest.

    It joins no group whose answers are mostly of another type, by ``kinds``, unless it has nothing to train or to
    validate on: a program for both would be two.
    """
    texts = {one.id: one.text for one in (*training, *validation)}
    answers = {one.id: one.answers for one in (*training, *validation)}
    found = [group for group in groups if group.training or group.validation]

    def kind(group: Group) -> str:
        nodes = (node for one in (*group.training, *group.validation) for node in answers[one])
        return max(Counter(map(kinds, nodes)).items(), key=lambda one: one[1], default=("", 0))[0]

    def others_of(group: Group) -> list[Group]:
        rest = [one for one in found if one is not group]
        return [one for one in rest if kind(one) == kind(group)] or (
            [] if group.training and group.validation else rest
        )

    while small := [one for one in found if (len(one.validation) < smallest or not one.training) and others_of(one)]:
        least = min(small, key=lambda group: (len(group.validation), len(group.training)))
        others = others_of(least)
        members = [[texts[one] for one in (*group.training, *group.validation)] for group in others]
        centroids = Centroids.of(members)
        own = [texts[one] for one in (*least.training, *least.validation)]
        near = others[Counter(centroids.nearest(own)).most_common(1)[0][0]]
        joined = replace(
            near,
            pattern=f"{near.pattern}; or {least.pattern}",
            training=near.training + least.training,
            validation=near.validation + least.validation,
        )
        found = [joined if group is near else group for group in found if group is not least]
    return [replace(group, id=f"g{number}") for number, group in enumerate(found, 1)]
