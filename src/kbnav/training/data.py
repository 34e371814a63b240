"""What retrieval is trained on: questions with the numbers of their answers, and documents as indexes have them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kbnav.encoders.trained import Question, question_digests
from kbnav.errors import UsageError
from kbnav.evaluation.metrics.ranking import STARK_METRICS, mean_scores, ranks_in_lists
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import indexed_text
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import build_retriever
from kbnav.retrieval.qagnn import Floats
from kbnav.settings.model import Settings

_TEXTS_KEPT = 20_000


@dataclass(frozen=True)
class Example:
    """A question with the numbers of the nodes that answer it."""

    id: str
    text: str
    answers: tuple[int, ...]


@dataclass(frozen=True)
class Split:
    """What is learned from, and chosen by; ``datasets``: SHA-256 of the questions' files by dataset."""

    training: tuple[Example, ...]
    validation: tuple[Example, ...]
    datasets: Mapping[str, str]

    @cached_property
    def seen(self) -> tuple[tuple[Question, ...], tuple[Question, ...]]:
        """The questions of both parts, as a card keeps them."""
        learned, apart = ([(one.id, one.text) for one in part] for part in (self.training, self.validation))
        return question_digests(learned), question_digests(apart)


def examples(questions: Iterable[tuple[str, str, Sequence[str]]], skb: SKB) -> list[Example]:
    """Questions, each by its id, text and answers' ids, less those of which the SKB has no answer."""
    found = []
    for name, text, answers in questions:
        numbers = dict.fromkeys(number for number in map(skb.nodes.ids.find, answers) if number >= 0)
        if numbers:
            found.append(Example(name, text, tuple(numbers)))
    return found


def split(
    training: Sequence[Example],
    validation: Sequence[Example],
    datasets: Mapping[str, str],
    *,
    held_out: float = 0.1,
    seed: int = 0,
) -> Split:
    """What is learned from, and validated on (else a share held out), never both. Raises UsageError."""
    if not validation:
        count = max(1, round(held_out * len(training)))
        chosen = set(random.Random(seed).sample(range(len(training)), min(count, len(training))))
        validation = [one for place, one in enumerate(training) if place in chosen]
    apart = {one.text for one in question_digests((one.id, one.text) for one in validation)}
    digests = question_digests((one.id, one.text) for one in training)
    learned = [one for one, digest in zip(training, digests, strict=True) if digest.text not in apart]
    if not learned:
        raise UsageError("there is nothing to learn from: every question is held out or has no answer in the SKB")
    return Split(tuple(learned), tuple(validation), datasets)


class Documents:
    """The documents of an SKB as indexed, with relations or without. Raises UsageError where none has a text."""

    def __init__(self, skb: SKB, *, relations: bool) -> None:
        if not relations and not has_texts(skb):
            raise UsageError(
                f"{skb.meta.name} has no texts to learn from, names apart; build it with --relations, whose documents "
                "have each node's relations"
            )
        self.skb, self.relations = skb, relations
        self.text: Callable[[int], str] = lru_cache(_TEXTS_KEPT)(partial(indexed_text, skb, relations=relations))
        """The document of a node by its number."""


def has_texts(skb: SKB) -> bool:
    """Whether any document says more than its node's name; a few hundred are looked at, over all types."""
    types = zip(skb.nodes.type_start, skb.nodes.type_start[1:], strict=False)
    some = (node for first, end in types for node in range(first, end, max(1, (end - first) // 200)))
    return any(len(indexed_text(skb, node).split()) > len(str(skb.nodes.names[node]).split()) for node in some)


def draw_pool(split: Split, hard: Mapping[str, Sequence[int]], nodes: int, size: int, seed: int) -> list[int]:
    """At most ``size`` nodes (0: all) to validate among, ascending: answers, ``hard`` ones by id, random ones."""
    if size <= 0 or size >= nodes:
        return list(range(nodes))
    chosen = {node for one in split.validation for node in one.answers}
    for one in split.validation:
        chosen.update(hard.get(one.id, ()))
    rest = [node for node in random.Random(seed).sample(range(nodes), size) if node not in chosen]
    return sorted(chosen | set(rest[: max(0, size - len(chosen))]))


Sources = Mapping[str, int]
"""How many negatives of a question come from which source."""
_DEEPER = 200
"""Answers of a question that a ranking is searched behind."""


def read_sources(parts: Iterable[str]) -> dict[str, int]:
    """``vss=15`` and ``bm25=5`` as a mapping. Raises ValueError."""
    found: dict[str, int] = {}
    for part in parts:
        name, _, count = (one.strip() for one in part.partition("="))
        if not name or not count.isdigit() or not int(count):
            raise ValueError(f"negatives are given as system=count, as in vss=20,bm25=5; not {part!r}")
        found[name] = int(count)
    if not found:
        raise ValueError("no negatives are asked for; vss=20 is as in STaRK")
    return found


class Miner:
    """Finds the negatives of questions; never a node that is an answer, nor one whose document equals an answer's."""

    def __init__(self, kb: SkbKB, documents: Documents, settings: Settings, sources: Sources, seed: int = 0) -> None:
        """Raises UsageError for a source that is no retrieval system, or cannot work on this SKB."""
        self._skb, self._documents, self._seed = kb.skb, documents, seed
        self._counts = sources
        self._systems = {name: build_retriever(name, kb, settings, {}) for name in sources}

    @property
    def count(self) -> int:
        """Negatives of a question."""
        return sum(self._counts.values())

    def hard(self, example: Example, most: int) -> list[int]:
        """What the sources find for a question, answers among it or not, at most so many of each."""
        return list(dict.fromkeys(node for name in self._systems for node in self._top_nodes(name, example, most)))

    def negatives(self, example: Example) -> list[int]:
        """``count`` nodes, random ones of the answers' types where sources have too few. Raises UsageError."""
        nodes, texts = set(example.answers), {self._documents.text(node) for node in example.answers}

        def new(node: int) -> bool:
            """Whether it may be one: no answer, and no document that was there already."""
            if node in nodes or (text := self._documents.text(node)) in texts:
                return False
            nodes.add(node)
            texts.add(text)
            return True

        chosen: list[int] = []
        for name, count in self._counts.items():
            chosen += islice(filter(new, self._top_nodes(name, example, count + _DEEPER)), count)
        filler = chain(self._random(example), range(self._skb.meta.nodes))
        chosen += islice(filter(new, filler), self.count - len(chosen))
        if len(chosen) < self.count:
            raise UsageError(f"{self._skb.meta.name} has not {self.count} documents that differ from the answers'")
        return chosen

    def _top_nodes(self, name: str, example: Example, most: int) -> list[int]:
        return [self._skb.number(node) for node in self._systems[name].retrieve(example.text, most).ids[:most]]

    def _random(self, example: Example) -> Iterator[int]:
        chance = random.Random(f"{self._seed} {example.id}")
        starts = self._skb.nodes.type_start
        types = sorted({self._skb.nodes.type_of(node) for node in example.answers})
        for _ in range(20 * self.count):
            kind = chance.choice(types)
            yield chance.randrange(starts[kind], starts[kind + 1])


def positives(example: Example, most: int, seed: int) -> Sequence[int]:
    """The answers that a question learns from: all, or that many drawn at random."""
    if len(example.answers) <= most:
        return example.answers
    return random.Random(f"{seed} {example.id}").sample(example.answers, most)


@dataclass(frozen=True, eq=False)
class Listed:
    """The candidates of a question, with the features [c, f] of where they came from."""

    example: Example
    nodes: tuple[int, ...]
    features: Floats

    @property
    def right(self) -> npt.NDArray[np.bool_]:
        """Which of them [c] answer it."""
        return np.isin(self.nodes, self.example.answers)


def read_lists(plain: Sequence[Mapping[str, Any]], examples: Sequence[Example]) -> list[Listed]:
    """Candidates from plain data, ``nodes`` and ``features`` of each question."""
    width = max((len(row) for kept in plain for row in kept["features"][:1]), default=0)
    return [
        Listed(one, tuple(kept["nodes"]), np.array(kept["features"], np.float32).reshape(len(kept["nodes"]), width))
        for kept, one in zip(plain, examples, strict=True)
    ]


def means(lists: Sequence[Listed], scores: Sequence[Floats]) -> dict[str, float]:
    """STaRK's metrics by candidates' scores; an answer that is none counts as missed, and ties go against it."""
    ranked = []
    for one, given in zip(lists, scores, strict=True):
        order = sorted(zip(-np.asarray(given), one.right, one.nodes, strict=True))
        ranked.append([str(node) for _, _, node in order])
    answers = [[str(node) for node in one.example.answers] for one in lists]
    return mean_scores(ranks_in_lists(ranked, answers))


class Row(NamedTuple):
    """What a question learns from at once: the first of ``documents``, keys, answers it, and all ``answers`` do."""

    documents: tuple[int, ...]
    answers: frozenset[int]


def batches(rows: Sequence[Row], order: Collection[int], size: int) -> list[list[int]]:
    """The rows in batches of at most ``size``, each put into the first batch that it fits into."""
    found: list[list[int]] = []
    held: list[tuple[set[int], set[int]]] = []
    first = 0  # all batches before it are full
    for place in order:
        row = rows[place]
        for number in range(first, len(found)):
            documents, answers = held[number]
            if len(found[number]) < size and answers.isdisjoint(row.documents) and documents.isdisjoint(row.answers):
                break
        else:
            number = len(found)
            found.append([])
            held.append((set(), set()))
        found[number].append(place)
        held[number][0].update(row.documents)
        held[number][1].update(row.answers)
        while first < len(found) and len(found[first]) == size:
            first += 1
    return found


def answer_free(trainer: Any, rows: Sequence[Row], processes: int) -> Any:
    """A trainer class with such batches, drawn anew each epoch by the seed, a multiple of the processes."""
    import torch
    from sentence_transformers.base.sampler import DefaultBatchSampler

    class Sampler(DefaultBatchSampler):  # type: ignore[misc]
        def _drawn(self, epoch: int) -> list[list[int]]:
            order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(self.seed + epoch)).tolist()
            found = batches(rows, order, self.batch_size)
            while len(found) % processes:
                found.append(found[len(found) % processes - 1])
            return found

        def __iter__(self) -> Iterator[list[int]]:
            drawn = self._drawn(self.epoch)
            for number in range(len(self)):
                yield drawn[number % len(drawn)]

        def __len__(self) -> int:
            if not hasattr(self, "_length"):
                self._length = len(self._drawn(0))
            return int(self._length)

    class Trainer(trainer):  # type: ignore[misc]
        def get_batch_sampler(self, dataset: Any, **given: Any) -> Any:
            return Sampler(dataset, **given)

        def add_model_card_callback(self, default_args_dict: Any) -> None:
            """None: kbnav writes a card of its own."""

    return Trainer


_PLACES = 100
"""Of a ranking, that the mean reciprocal rank looks at."""
_NAMES = {"hit@1": "accuracy@1", "hit@5": "accuracy@5", "recall@20": "recall@20", "mrr": f"mrr@{_PLACES}"}


def validation(examples: Sequence[Example], pool: Mapping[int, str], batch: int) -> Any:
    """What a trainer asks for the scores: each question looks for its answers among the documents of the ``pool``."""
    from sentence_transformers.base.evaluation import BaseEvaluator
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    inner = InformationRetrievalEvaluator(
        {str(place): one.text for place, one in enumerate(examples)},
        {str(node): text for node, text in pool.items()},
        {str(place): {str(node) for node in one.answers if node in pool} for place, one in enumerate(examples)},
        mrr_at_k=[_PLACES],
        ndcg_at_k=[_PLACES],
        accuracy_at_k=[1, 5],
        precision_recall_at_k=[20],
        map_at_k=[_PLACES],
        batch_size=batch,
        write_csv=False,
    )

    class Validation(BaseEvaluator):  # type: ignore[misc]
        """The library's scores, by kbnav's names."""

        def __call__(self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1) -> Any:  # noqa: ARG002
            found = inner(model, None, epoch, steps)
            return {
                name: next(float(value) for key, value in found.items() if key.endswith(f"_{_NAMES[name]}"))
                for name in STARK_METRICS
            }

    return Validation()
