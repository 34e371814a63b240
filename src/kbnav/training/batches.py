"""Batches in which no document is an answer of another question of the batch: all of them are negatives there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple


class Row(NamedTuple):
    """What a question learns from at once: the first of ``documents`` answers it, the others do not.

    Both hold keys of documents, equal for equal texts; ``answers`` are all that answer the question.
    """

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
    """A trainer class of the library whose batches are such, anew in every epoch and the same for the same seed.

    Each epoch has as many batches, a multiple of the processes.
    """
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

    class Trainer(plain_trainer(trainer)):  # type: ignore[misc]
        def get_batch_sampler(self, dataset: Any, **given: Any) -> Any:
            return Sampler(dataset, **given)

    return Trainer


def plain_trainer(trainer: Any) -> Any:
    """A trainer class of the library that makes no model card of the library's."""

    class Trainer(trainer):  # type: ignore[misc]
        def add_model_card_callback(self, default_args_dict: Any) -> None:
            """None."""

    return Trainer
