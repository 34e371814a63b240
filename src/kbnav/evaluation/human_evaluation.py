"""Questions that people write, and what people think of questions (STaRK, sections 2.5 and 2.6, appendix D)."""

from __future__ import annotations

import math
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any, NamedTuple

import numpy as np

from kbnav.answers.tables import markdown_table
from kbnav.errors import BadArguments, UsageError
from kbnav.evaluation.datasets.records import Dataset, Question
from kbnav.knowledge.base import Value
from kbnav.knowledge.skb.exploring import Explorer
from kbnav.runs.journal import Journal, open_journal, read_journal
from kbnav.runs.trajectory import now

ASPECTS = ("naturalness", "diversity", "practicality")
LOWEST, NEUTRAL, HIGHEST = 1, 3, 5
CANDIDATES = 20
"""Nodes that are shown to the writer of a question, who marks those that answer it as well."""
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_NAME = re.compile(r"(?<=[\w,;:] )[A-Z][\w'’.-]* [A-Z][\w'’.-]*")


@dataclass(frozen=True)
class Collected:
    """A question as datasets have it; ``meta``: who, when, of which node and SKB, and what was looked at."""

    id: str
    question: str
    nodes: tuple[str, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)


class Collection:
    """The questions collected so far, in a journal; threads may share it."""

    def __init__(
        self, explorer: Explorer, journal: Journal, known: Sequence[Collected], types: Sequence[str] = (), seed: int = 0
    ) -> None:
        """Draws nodes of some ``types``, or of all. Raises UnknownId for a type that there is not."""
        self.explorer = explorer
        self._journal, self._known, self._seed = journal, list(known), seed
        ranges = [explorer.skb.type_range(kind) for kind in types] or [(0, explorer.skb.meta.nodes)]
        self._numbers = np.concatenate([np.arange(*one) for one in ranges])
        self._lock = threading.Lock()

    def drawn(self, who: str, batch: int, count: int) -> list[Value]:
        """Nodes for one person, the same for the same batch: each of the types' nodes is as likely as any other."""
        total = len(self._numbers)
        places = random.Random(f"{self._seed}/{who}/{batch}").sample(range(total), min(count, total))
        return [self.explorer.value(int(self._numbers[place])) for place in places]

    def of(self, who: str) -> list[Collected]:
        """What one person wrote."""
        with self._lock:
            return [one for one in self._known if one.meta.get("by") == who]

    def names(self, question: str, node_id: str) -> bool:
        """Whether a question has a name of its node, which would give the answer away."""
        nodes, number = self.explorer.skb.nodes, self.explorer.skb.number(node_id)
        called = [str(nodes.names[number]), *nodes.aliases(number)]
        asked, *given = (f" {' '.join(_words(text))} " for text in (question, *called))
        return any(name.strip() and name in asked for name in given)

    def candidates(self, question: str, node_id: str) -> list[Value]:
        """Other nodes of the node's type that a search finds, best first, each described by its sentence that fits."""
        kb, skb = self.explorer.kb, self.explorer.skb
        try:
            found = kb.text_query(question, kind=skb.type(skb.number(node_id)), limit=CANDIDATES + 1)
        except BadArguments:  # there is no index of texts
            return []
        others = [node for node in found.nodes if node.id != node_id][:CANDIDATES]
        sentences = kb.excerpts([one.id for one in others], question)
        return [Value(one.label, one.id, one.kind, description=sentences.get(one.id, "")) for one in others]

    def add(self, who: str, question: str, node_id: str, others: Sequence[str], looked_at: Sequence[str]) -> Collected:
        """Keep a question, which is on the disk then; ``others`` of those ``looked_at`` answer it as well.

        Raises UsageError where it has no words or cannot be written, and UnknownId.
        """
        for one in (node_id, *others, *looked_at):
            self.explorer.skb.number(one)
        if not question.strip():
            raise UsageError("the question is empty")
        meta = {"by": who, "when": now(), "kb": self.explorer.kb.name, "node": node_id, "looked_at": list(looked_at)}
        nodes = tuple(dict.fromkeys((node_id, *others)))
        with self._lock:
            made = Collected(f"human-{len(self._known) + 1}", " ".join(question.split()), nodes, meta)
            self._journal.append(made)
            self._known.append(made)
        return made


@contextmanager
def open_collection(path: Path, explorer: Explorer, types: Sequence[str] = (), seed: int = 0) -> Iterator[Collection]:
    """A file of questions, to be added to by this process alone. Raises UsageError, DataError, UnknownId."""
    with open_journal(path) as journal:
        yield Collection(explorer, journal, read_journal(path, Collected), types, seed)


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


class Judging:
    """The ratings so far, in a journal; threads may share it."""

    def __init__(
        self, datasets: Sequence[Dataset], journal: Journal, known: Sequence[Rating], count: int, seed: int
    ) -> None:
        """``count`` questions are in each sample. Raises UsageError for two datasets of one name."""
        self.datasets = {dataset.name: dataset for dataset in datasets}
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
        made = Rating(dataset, who, now(), ids, **{aspect: given[aspect] for aspect in ASPECTS}, note=note.strip())
        with self._lock:
            self._journal.append(made)
            self._known.append(made)
        return made


@contextmanager
def open_judging(path: Path, datasets: Sequence[Dataset], count: int, seed: int) -> Iterator[Judging]:
    """A file of ratings, to be added to by this process alone. Raises UsageError, DataError."""
    with open_journal(path) as journal:
        yield Judging(datasets, journal, read_journal(path, Rating), count, seed)


class Rate(NamedTuple):
    """Shares of the ratings above neutral, and of those at it or above."""

    positive: float
    non_negative: float

    def __str__(self) -> str:
        return f"{100 * self.positive:.1f} / {100 * self.non_negative:.1f}"


@dataclass(frozen=True)
class Rates:
    """A row of STaRK's Table 5: ``people`` who rated a dataset, and the rates of each aspect."""

    dataset: str
    people: int
    rates: Mapping[str, Rate]


def rating_rates(ratings: Sequence[Rating]) -> list[Rates]:
    """The rates of each dataset, each person's last rating counted; after several datasets, their average."""
    last = {(one.dataset, one.by): one for one in ratings}
    rows = []
    for dataset in dict.fromkeys(one.dataset for one in ratings):
        own = [one for (name, _), one in last.items() if name == dataset]
        rates = {}
        for aspect in ASPECTS:
            given = [getattr(one, aspect) for one in own]
            rates[aspect] = Rate(fmean(one > NEUTRAL for one in given), fmean(one >= NEUTRAL for one in given))
        rows.append(Rates(dataset, len(own), rates))
    if len(rows) > 1:
        means = {
            aspect: Rate(*(fmean(parts) for parts in zip(*(row.rates[aspect] for row in rows), strict=True)))
            for aspect in ASPECTS
        }
        rows.append(Rates("Average", len({one.by for one in ratings}), means))
    return rows


def ratings_markdown(rows: Sequence[Rates]) -> str:
    """Positive and non-negative rates in percent, as Table 5 has them."""
    cells = [(row.dataset, row.people, *row.rates.values()) for row in rows]
    return markdown_table(["Dataset", "People", *(aspect.capitalize() for aspect in ASPECTS)], cells)


@dataclass(frozen=True)
class Pair:
    """A person's question, and the made one that is most like it; ``kind`` is what both are."""

    kind: str
    human: str
    made: str
    likeness: float


def compare_questions(human: Dataset, made: Dataset, count: int = 1) -> list[Pair]:
    """``count`` pairs of human and made questions a kind, most alike first (STaRK, Table 6). Raises UsageError."""
    if not human.questions or not made.questions:
        raise UsageError("a set without questions has nothing to compare")
    people, machine = ([question.text() for question in dataset.questions] for dataset in (human, made))
    low, _, high = quantiles(sorted(len(_words(text)) for text in (*people, *machine)), n=4, method="inclusive")
    kinds: dict[str, Callable[[str], bool]] = {
        "short and direct": lambda text: len(_words(text)) <= low,
        "names somebody or something": lambda text: bool(_NAME.search(text)) and low < len(_words(text)) < high,
        "long, with context": lambda text: len(_words(text)) >= high,
    }
    taken: set[str] = set()
    pairs: list[Pair] = []
    for kind, fits in kinds.items():
        found = [
            Pair(kind, one, other, likeness(one, other))
            for one in filter(fits, people)
            for other in filter(fits, machine)
        ]
        left = count
        for pair in sorted(found, key=lambda pair: (-pair.likeness, pair.human, pair.made)):
            if left and taken.isdisjoint((pair.human, pair.made)):
                taken |= {pair.human, pair.made}
                pairs.append(pair)
                left -= 1
    return pairs


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def likeness(one: str, other: str) -> float:
    """From 0 to 1: the share of words that two questions have in common, less where one is longer than the other."""
    first, second = Counter(_words(one)), Counter(_words(other))
    if not first or not second:
        return 0.0
    shared = (first & second).total() / (first | second).total()
    return shared * math.exp(-abs(math.log(first.total() / second.total())))
