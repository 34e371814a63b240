"""Synthesizing questions by rules: sample requirements, keep splits apart, check, word (STaRK, section 2.4).

Sampling, the first of STaRK's four steps, is shared with ``pipeline``, which has models do the others.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kbnav.errors import UsageError
from kbnav.evaluation.synthesis.templates import (
    SPLITS,
    Requirement,
    Route,
    Split,
    SynthesisReport,
    Synthesized,
    Template,
    check_template,
    derive_templates,
    draw,
    parse_template,
)
from kbnav.evaluation.synthesis.wording import (
    Reworded,
    Thesaurus,
    WordIndex,
    Wording,
    is_content,
    is_literal,
    phrases,
    reword,
    text_fields,
)
from kbnav.knowledge.skb.graph import NodeNumbers
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import NAME_WEIGHT, normalise

SHAPES: Mapping[str, float] = {"1": 3, "2": 3, "1&1": 3, "2&1": 1, "1&2": 1, "2=1": 1, "1=2": 1}
"""How often a shape is sampled, beside the others that the templates have; shapes not named here count 1."""
DRAWS = 1_000
"""Requirements sampled for each question that is wanted, before what was found has to do."""
_MOST_CANDIDATES, _MOST_ANSWERS = 5_000, 20
_MARGIN, _FACTOR = 2, 2
"""Either part alone must be met by so many nodes more than the answers, and by so many times as many."""
_COMMON, _COMMON_AT_LEAST = 0.02, 20
"""A phrase that this share of a type's nodes have, and so many at least, says too little."""
_MOST_PHRASES = 30
"""Phrases of one gold node that are tried."""
_ENOUGH_WORDS, _SHORTEST_NAME = 3, 2


@dataclass(frozen=True)
class SplitSizes:
    """How many questions of each split, and the seed that fixes them all."""

    test: int = 200
    train: int = 0
    val: int = 0
    seed: int = 1

    def of(self, split: Split) -> int:
        """The number of questions of a split."""
        return int(getattr(self, split))

    @property
    def total(self) -> int:
        """The number of all questions."""
        return self.test + self.train + self.val


class Drawn(NamedTuple):
    """A relational requirement, a gold node that meets it, and the split of that node."""

    requirement: Requirement
    gold: int
    split: Split

    @property
    def template(self) -> Template:
        """The template that was drawn."""
        return self.requirement.template


class Dropped(Exception):
    """Why a question is left out."""


def needs_more(part: int, answers: int) -> bool:
    """Whether a part that ``part`` nodes meet leaves the answers open."""
    return part >= answers + _MARGIN and part >= _FACTOR * answers


class Sampler:
    """Draws requirements, and remembers what was kept. Raises UsageError for an SKB or template that does not fit."""

    def __init__(self, skb: SKB, wanted: SplitSizes, wording: Wording) -> None:
        if skb.text is None or skb.names is None:
            raise UsageError(f"{skb.meta.name} has no indexes of texts and names; build it without --no-text")
        self.skb, self.index, self._names, self._wanted = skb, skb.text, skb.names, wanted
        templates = [parse_template(text) for text in wording.templates]
        for template in templates:
            check_template(template, skb.meta)
        symmetric = [name for name, words in wording.relations.items() if words.symmetric]
        templates = templates or derive_templates(skb.meta, symmetric, list(wording.relations))
        self.fields = _fields(skb, wording, templates)
        """The fields of each type that its nodes' text is in; a type without any answers by relations alone."""
        usable = [one for one in templates if one.answer in self.fields or wording.without_text]
        if not usable:
            raise UsageError(f"{skb.meta.name} has no template whose answers have text")
        self._shapes = _weighted(skb, usable, even=bool(wording.templates))
        self.chance = random.Random(wanted.seed)
        self._golds: set[int] = set()
        self._requirements: set[tuple[str, tuple[int, ...]]] = set()
        self._split_of: dict[int, Split] = {}
        self.report = SynthesisReport(skb.meta.name, wanted.seed)

    def collect(
        self,
        make: Callable[[Drawn], Synthesized],
        progress: Callable[[int, int], None],
        enough: Callable[[], bool] = lambda: False,
    ) -> list[Synthesized]:
        """Draw and ``make`` questions until there are as many as are wanted; one that is Dropped is counted."""
        found: list[Synthesized] = []
        for _ in range(DRAWS * self._wanted.total):
            if len(found) == self._wanted.total or enough():
                break
            try:
                if (drawn := self.draw()) is None:
                    continue
                found.append(make(drawn))
                progress(len(found), self._wanted.total)
            except Dropped as error:
                self.report.dropped[str(error)] += 1
        return found

    def has_text(self, drawn: Drawn) -> bool:
        """Whether its question is to ask for something in the answers' text."""
        return drawn.template.answer in self.fields

    def draw(self) -> Drawn | None:
        """Sample a requirement and a gold node; None where there is none to sample. Raises Dropped."""
        shape = self.chance.choices(list(self._shapes), [SHAPES.get(one, 1) for one in self._shapes])[0]
        templates, weights = self._shapes[shape]
        template = self.chance.choices(templates, cum_weights=weights)[0]
        gold = self.chance.randrange(*self.skb.type_range(template.answer))
        split = self._split(gold)
        if self.report.kept[split] >= self._wanted.of(split):
            return None  # this split is full
        requirement = draw(self.skb, template, gold, self.chance)
        if requirement is None:
            return None  # the gold node has no such edges: nothing was sampled
        self.report.sampled += 1
        drawn = Drawn(requirement, gold, split)
        self._check(drawn)
        return drawn

    def _split(self, gold: int) -> Split:
        """The split of a gold node: by a hash of its id, in proportion to what is wanted."""
        digest = hashlib.sha256(f"{self._wanted.seed}\n{self.skb.id(gold)}".encode()).digest()
        place = int.from_bytes(digest[:8], "big") / 2**64 * self._wanted.total
        for split in SPLITS:
            place -= self._wanted.of(split)
            if place < 0:
                return split
        return "test"

    def _check(self, drawn: Drawn) -> None:
        """Raise Dropped where a requirement is of no use."""
        requirement = drawn.requirement
        count, text = len(requirement.candidates), self.has_text(drawn)
        if drawn.gold in self._golds:
            raise Dropped("gold node was used before")
        if (str(drawn.template), requirement.starts) in self._requirements:
            raise Dropped("relations were asked for before")
        if not text and count > _MOST_ANSWERS:
            raise Dropped("relations alone: too many answers")
        if text and not needs_more(count, 1):
            raise Dropped("relations alone pick the answer")
        if len(requirement.alone) > 1 and min(requirement.alone) <= count:
            raise Dropped("one of the branches alone says as much")
        if count > _MOST_CANDIDATES:
            raise Dropped("relations: too many candidates")
        for node in requirement.starts:
            name = str(self.skb.nodes.names[node])
            if len(normalise(name)) < _SHORTEST_NAME:
                raise Dropped("a start node's name is too short")
            kind = self.skb.type_range(self.skb.type(node))
            if len(self._names.search(name, edits=0, limit=2, ranges=[kind])) > 1:
                raise Dropped("a start node's name is another's too")

    def names(self, drawn: Drawn) -> list[str]:
        """What the start nodes are called."""
        return [self.skb.name(node) for node in drawn.requirement.starts]

    def check_answers(self, drawn: Drawn, answers: Sequence[int]) -> None:
        """Raise Dropped where an answer is in another split, or there are over 20 outside train (STaRK, 2.3)."""
        if len(answers) > _MOST_ANSWERS and drawn.split != "train":
            raise Dropped("too many answers: for training only")
        if any(self._split_of.get(node, drawn.split) != drawn.split for node in answers):
            raise Dropped("an answer belongs to another split")

    def keep(self, drawn: Drawn, question: str, answers: Sequence[int]) -> Synthesized:
        """The record of a question, which is kept. Raises Dropped where the question names one of its answers."""
        skb, template, requirement = self.skb, drawn.template, drawn.requirement
        asked = f" {' '.join(self.index.words(question))} "
        names = (" ".join(self.index.words(str(skb.nodes.names[node]))) for node in answers)
        if any(name and f" {name} " in asked for name in names):
            raise Dropped("the question names an answer")
        routes = tuple(
            Route(
                start=skb.id(walk[0]),
                start_name=skb.name(walk[0]),
                hops=tuple((leg.relation, leg.direction) for leg in branch.legs),
                types=(branch.start, *(leg.type for leg in branch.legs)),
                walk=tuple(skb.id(node) for node in walk),
            )
            for branch, walk in zip(template.branches, requirement.walks, strict=True)
            if not branch.negated
        )
        negated = [branch for branch in template.branches if branch.negated]
        self._golds.add(drawn.gold)
        self._requirements.add((str(template), requirement.starts))
        self._split_of.update(dict.fromkeys(answers, drawn.split))
        self.report.kept[drawn.split] += 1
        self.report.templates[str(template)] += 1
        return Synthesized(
            id=f"{skb.meta.name}-{drawn.split}-{self.report.kept[drawn.split]:04}",
            question=question,
            answers=tuple(skb.id(node) for node in answers),
            split=drawn.split,
            template=str(template),
            shape=template.shape,
            answer_type=template.answer,
            gold=skb.id(drawn.gold),
            paths=routes,
            candidates=len(requirement.candidates),
            without=tuple((one.start, one.legs[0].relation, one.legs[0].direction) for one in negated),
        )


def _fields(skb: SKB, wording: Wording, templates: Sequence[Template]) -> dict[str, tuple[str, ...]]:
    """The fields that phrases are taken from, by type; where the wording names none, those with running text."""
    kinds = dict.fromkeys(template.answer for template in templates)
    if wording.types:
        found = {kind: wording.types[kind].fields for kind in kinds if kind in wording.types}
    else:
        found = {kind: tuple(text_fields(skb, kind)) for kind in kinds}
    return {kind: names for kind, names in found.items() if names}


def _weighted(skb: SKB, templates: Sequence[Template], *, even: bool) -> dict[str, tuple[list[Template], list[float]]]:
    """Templates by shape with running sums of weights: the square root of the edges of their rarest leg, or all 1."""
    edges: dict[tuple[str, str], int] = {}
    for one in skb.meta.tuples:
        for kind in (one.source, one.target):
            edges[kind, one.relation] = edges.get((kind, one.relation), 0) + one.count
    found: dict[str, tuple[list[Template], list[float]]] = {}
    for template in templates:
        legs = [leg for branch in template.branches for leg in branch.legs]
        weight = 1.0 if even else math.sqrt(min(edges[leg.type, leg.relation] for leg in legs))
        some, sums = found.setdefault(template.shape, ([], []))
        some.append(template)
        sums.append((sums[-1] if sums else 0.0) + weight)
    return found


def synthesize(
    skb: SKB,
    wanted: SplitSizes,
    wording: Wording,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
) -> tuple[list[Synthesized], SynthesisReport]:
    """Questions on an SKB with the report, the same by SKB, wording and seed. Raises UsageError as ``Sampler``."""
    sampler = Sampler(skb, wanted, wording)
    checker = _TextChecker(sampler, wording)

    def make(drawn: Drawn) -> Synthesized:
        part = checker.find(drawn) if sampler.has_text(drawn) else None
        answers = (part.answers if part else drawn.requirement.candidates).tolist()
        sampler.check_answers(drawn, answers)
        text = part.phrase.text if part else ""
        question, _ = wording.question(drawn.template, sampler.names(drawn), text, sampler.chance)
        made = sampler.keep(drawn, question, answers)
        if part is None:
            return made
        return replace(
            made,
            text=text,
            text_source=part.source,
            text_words=tuple(sorted(part.words)),
            reworded_by=part.phrase.how,
            holders=len(part.holders),
        )

    return sampler.collect(make, progress), sampler.report


@dataclass(frozen=True)
class _TextPart:
    """A phrase that does its work: with the words that a node must have, and the nodes that are then the answers."""

    phrase: Reworded
    source: str
    words: frozenset[str]
    holders: NodeNumbers
    answers: NodeNumbers


class _TextChecker:
    """Finds a phrase of the gold node's text which, with the relations and only with them, picks the answers."""

    def __init__(self, sampler: Sampler, wording: Wording) -> None:
        self._skb, self._index, self._chance = sampler.skb, sampler.index, sampler.chance
        words = sampler.index.words
        self._thesaurus = Thesaurus.shipped(words) if wording.synonyms else Thesaurus((), words)
        self._words = WordIndex(sampler.skb, sampler.index, self._thesaurus, sampler.fields)
        self._empty = frozenset(wording.empty)

    def find(self, drawn: Drawn) -> _TextPart:
        """The first phrase that passes, in a random order with synonyms first. Raises Dropped as the last one did."""
        found = [
            (reword(phrase, self._thesaurus, self._chance), phrase.text)
            for text in self._words.sources(drawn.gold)
            for phrase in phrases(text, self._empty)
        ]
        self._chance.shuffle(found)
        fault = Dropped("text: no phrase of two or three words with a meaning")
        for phrase, source in sorted(found, key=lambda one: one[0].how != "synonyms")[:_MOST_PHRASES]:
            try:
                return self._check(drawn.requirement, drawn.gold, phrase, source)
            except Dropped as error:
                fault = error
        raise fault

    def _check(self, requirement: Requirement, gold: int, phrase: Reworded, source: str) -> _TextPart:
        kind, candidates = requirement.template.answer, requirement.candidates
        words, reworded = (
            self._words.words(" ".join(word for word in text.split() if is_content(word)))
            for text in (source, phrase.text)
        )
        if reworded != words:
            raise Dropped("text: rewording changed the words it is compared by")
        if is_literal(phrase.text, self._words.plain(gold)):
            raise Dropped("text: could not be reworded")
        if any(words & self._words.name_words(node) for node in (gold, *requirement.starts)):
            raise Dropped("text: shares a word with a name")
        holders = self._words.holders(kind, words)
        first, end = self._skb.type_range(kind)
        if len(holders) > max(_COMMON_AT_LEAST, _COMMON * (end - first)):
            raise Dropped("text: says too little")
        answers = np.intersect1d(candidates, holders, assume_unique=True)
        if gold not in answers or len(answers) > _MOST_ANSWERS:
            raise Dropped("text: too many answers")
        if not needs_more(len(candidates), len(answers)):
            raise Dropped("relations alone pick the answer")
        if not needs_more(len(holders), len(answers)):
            raise Dropped("text alone picks the answer")
        if self._nearly(kind, words, np.setdiff1d(candidates, answers, assume_unique=True)):
            raise Dropped("text: a candidate has all but one of the words")
        for how, best in self._first_by_text(kind, phrase.text):
            if best in answers:
                raise Dropped(f"text alone: {how} puts an answer first")
        return _TextPart(phrase, source, words, holders, answers)

    def _nearly(self, kind: str, words: frozenset[str], others: NodeNumbers) -> bool:
        """Whether another candidate has all but one of three words or more: it might be meant."""
        return len(words) >= _ENOUGH_WORDS and any(
            len(np.intersect1d(others, self._words.holders(kind, words - {word}), assume_unique=True)) for word in words
        )

    def _first_by_text(self, kind: str, text: str) -> Iterator[tuple[str, int]]:
        """What each search for the phrase alone puts first: BM25 of documents, of names too, and vectors, if any."""
        ranges = [self._skb.type_range(kind)]
        for how, weight in (("BM25", 0.0), ("BM25 with names", NAME_WEIGHT)):
            yield from ((how, node) for node, _ in self._index.search(text, limit=1, ranges=ranges, name_weight=weight))
        if self._skb.vectors is not None:
            yield from (("vss", node) for node, _ in self._skb.vectors.search(text, limit=1, ranges=ranges))
