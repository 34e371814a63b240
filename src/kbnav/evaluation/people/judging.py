"""Judging questions: people rate samples of a set on five-point scales, and the rates are STaRK's Table 5."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from kbnav.errors import UsageError
from kbnav.evaluation.datasets import Dataset, Question
from kbnav.evaluation.markdown import table
from kbnav.runs.journal import Journal, open_journal, read_journal

ASPECTS = ("naturalness", "diversity", "practicality")
LOWEST, NEUTRAL, HIGHEST = 1, 3, 5
AVERAGE = "Average"


@dataclass(frozen=True)
class Rating:
    """What one person thinks of a sample of a dataset, each aspect from 1 to 5; ``questions`` are the sample's ids."""

    dataset: str
    by: str
    when: str
    questions: tuple[str, ...]
    naturalness: int
    diversity: int
    practicality: int
    note: str = ""


class Rate(NamedTuple):
    """Shares of the ratings above neutral, and of those at it or above."""

    positive: float
    non_negative: float


@dataclass(frozen=True)
class Rates:
    """A row of Table 5: ``people`` who rated a dataset, and the rates of each aspect."""

    dataset: str
    people: int
    rates: Mapping[str, Rate]


def rates(ratings: Sequence[Rating]) -> list[Rates]:
    """The rates of each dataset over people, of whom the last rating counts, and behind several their average."""
    last = {(one.dataset, one.by): one for one in ratings}
    rows = []
    for dataset in dict.fromkeys(one.dataset for one in ratings):
        own = [one for (name, _), one in last.items() if name == dataset]
        rows.append(
            Rates(dataset, len(own), {aspect: _rate([getattr(one, aspect) for one in own]) for aspect in ASPECTS})
        )
    if len(rows) > 1:
        means = {
            aspect: Rate(*(fmean(parts) for parts in zip(*(row.rates[aspect] for row in rows), strict=True)))
            for aspect in ASPECTS
        }
        rows.append(Rates(AVERAGE, len({one.by for one in ratings}), means))
    return rows


def _rate(given: Sequence[int]) -> Rate:
    return Rate(fmean(one > NEUTRAL for one in given), fmean(one >= NEUTRAL for one in given))


def markdown(rows: Sequence[Rates]) -> str:
    """Positive and non-negative rates in percent, as Table 5 has them."""
    head = ["Dataset", "People", *(aspect.capitalize() for aspect in ASPECTS)]
    cells = [
        [row.dataset, row.people]
        + [f"{100 * rate.positive:.1f} / {100 * rate.non_negative:.1f}" for rate in row.rates.values()]
        for row in rows
    ]
    return table(head, cells)


class Judging:
    """The ratings so far, in a journal; threads may share it."""

    def __init__(
        self, datasets: Sequence[Dataset], journal: Journal, known: Sequence[Rating], count: int, seed: int
    ) -> None:
        """``count`` questions are in each sample. Raises UsageError for two datasets of one name."""
        self.datasets = {one.name: one for one in datasets}
        if len(self.datasets) < len(datasets):
            raise UsageError("two datasets have the same name; give one of the files another")
        self._journal, self._known = journal, list(known)
        self._count, self._seed = count, seed
        self._lock = threading.Lock()

    def sample(self, dataset: str, who: str) -> list[Question]:
        """The questions that one person rates, the same whenever they look."""
        questions = self.datasets[dataset].questions
        chance = random.Random(f"{self._seed}/{dataset}/{who}")
        return chance.sample(questions, min(self._count, len(questions)))

    def left(self, who: str) -> list[str]:
        """The datasets that one person has not rated, in an order of their own, so that none is always first."""
        with self._lock:
            rated = {one.dataset for one in self._known if one.by == who}
        names = [name for name in self.datasets if name not in rated]
        random.Random(f"{self._seed}/{who}").shuffle(names)
        return names

    def add(self, who: str, dataset: str, given: Mapping[str, int], note: str = "") -> Rating:
        """Keep a rating, which is on the disk then. Raises UsageError for one that is not on the scale."""
        wrong = [one for one in ASPECTS if not LOWEST <= given.get(one, 0) <= HIGHEST]
        if wrong or dataset not in self.datasets:
            raise UsageError(f"not rated from {LOWEST} to {HIGHEST}: {', '.join(wrong) or dataset}")
        ids = tuple(one.id for one in self.sample(dataset, who))
        scores = {aspect: given[aspect] for aspect in ASPECTS}
        made = Rating(dataset, who, datetime.now(UTC).isoformat(timespec="seconds"), ids, **scores, note=note.strip())
        with self._lock:
            self._journal.append(made)
            self._known.append(made)
        return made


@contextmanager
def open_judging(path: Path, datasets: Sequence[Dataset], count: int, seed: int) -> Iterator[Judging]:
    """A file of ratings, to be added to by nobody else meanwhile. Raises UsageError, DataError."""
    with open_journal(path) as journal:
        yield Judging(datasets, journal, read_ratings(path), count, seed)


def read_ratings(path: Path) -> list[Rating]:
    """The ratings in a file. Raises UsageError, DataError."""
    found: list[Rating] = read_journal(path, Rating)
    return found
