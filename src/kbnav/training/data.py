"""What retrieval is trained on: questions with the numbers of their answers, and documents as indexes have them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from kbnav.encoders.trained_card import Question, kept
from kbnav.errors import UsageError
from kbnav.knowledge.skb.rendering import indexed_text
from kbnav.knowledge.skb.store import SKB

_TEXTS_KEPT = 20_000


@dataclass(frozen=True)
class Example:
    """A question with the numbers of the nodes that answer it; ``meta`` is what else its record says."""

    id: str
    text: str
    answers: tuple[int, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Split:
    """What is learned from, and what the best state is chosen by.

    ``datasets`` are the SHA-256 of the questions' files by the names of their datasets.
    """

    training: tuple[Example, ...]
    validation: tuple[Example, ...]
    datasets: Mapping[str, str]

    @cached_property
    def seen(self) -> tuple[tuple[Question, ...], tuple[Question, ...]]:
        """The questions of both parts, as a card keeps them."""
        training, validation = (kept((one.id, one.text) for one in part) for part in (self.training, self.validation))
        return training, validation


def examples(questions: Iterable[tuple[str, str, Sequence[str], Mapping[str, Any]]], skb: SKB) -> list[Example]:
    """Questions, each by its id, text, answers' ids and record, less those of which the SKB has no answer."""
    found = []
    for name, text, answers, meta in questions:
        numbers = dict.fromkeys(number for number in map(skb.nodes.ids.find, answers) if number >= 0)
        if numbers:
            found.append(Example(name, text, tuple(numbers), meta))
    return found


def split(
    training: Sequence[Example],
    validation: Sequence[Example],
    datasets: Mapping[str, str],
    *,
    held_out: float = 0.1,
    seed: int = 0,
) -> Split:
    """What is learned from and validated on; without validation questions a share of the training ones is held out.

    A question of both is validated on and not learned from. Raises UsageError where a part would be empty.
    """
    if not validation:
        count = max(1, round(held_out * len(training)))
        chosen = set(random.Random(seed).sample(range(len(training)), min(count, len(training))))
        validation = [one for place, one in enumerate(training) if place in chosen]
    apart = {one.text for one in kept((one.id, one.text) for one in validation)}
    digests = kept((one.id, one.text) for one in training)
    learned = [one for one, digest in zip(training, digests, strict=True) if digest.text not in apart]
    if not learned:
        raise UsageError(
            "there is nothing to learn from: no question that has an answer in the SKB and is not held out"
        )
    return Split(tuple(learned), tuple(validation), datasets)


class Documents:
    """The documents of an SKB as its indexes have them, with relations or without.

    Raises UsageError where no node has a text beside its name, and no relations are in the documents.
    """

    def __init__(self, skb: SKB, *, relations: bool) -> None:
        if not relations and not has_texts(skb):
            raise UsageError(
                f"{skb.meta.name} has no texts to learn from, names apart; build it with --relations, whose documents "
                "have each node's relations"
            )
        self.skb, self.relations = skb, relations
        self.text: Callable[[int], str] = lru_cache(_TEXTS_KEPT)(self._text)
        """The document of a node by its number."""

    def _text(self, node: int) -> str:
        return indexed_text(self.skb, node, relations=self.relations)


def has_texts(skb: SKB) -> bool:
    """Whether any document says more than its node's name; a few hundred are looked at, over all types."""
    for first, end in zip(skb.nodes.type_start, skb.nodes.type_start[1:], strict=False):
        for node in range(first, end, max(1, (end - first) // 200)):
            if len(indexed_text(skb, node).split()) > len(str(skb.nodes.names[node]).split()):
                return True
    return False


def draw_pool(split: Split, hard: Mapping[str, Sequence[int]], nodes: int, size: int, seed: int) -> list[int]:
    """The nodes among which validation questions look for their answers, ascending: at most ``size``, 0 for all.

    They are the answers, what an untrained system finds for each question (``hard``, by id), and random ones.
    """
    if size <= 0 or size >= nodes:
        return list(range(nodes))
    chosen = {node for one in split.validation for node in one.answers}
    for one in split.validation:
        chosen.update(hard.get(one.id, ()))
    rest = [node for node in random.Random(seed).sample(range(nodes), size) if node not in chosen]
    return sorted(chosen | set(rest[: max(0, size - len(chosen))]))
