"""What questions are asked about: templates, gold nodes and start nodes, sampled and kept apart by split.

Of STaRK's four steps (section 2.4) this is the first; what follows is done by rules (``generate``) or by models
(``pipeline``).
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from kbnav.errors import UsageError
from kbnav.evaluation.synthesis.templates import (
    SPLITS,
    Report,
    Requirement,
    Route,
    Split,
    Synthesized,
    Template,
    by_shape,
    check_template,
    derive_templates,
    draw,
    parse_template,
)
from kbnav.evaluation.synthesis.text import (
    Lexicon,
    Numbers,
    Reworded,
    Texts,
    is_content,
    is_literal,
    phrases,
    reword,
    text_fields,
)
from kbnav.evaluation.synthesis.wording import Wording
from kbnav.knowledge.skb.names import NameIndex, normalise
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import NAME_WEIGHT, TextSearch

MOST_ANSWERS = 20
MARGIN, FACTOR = 2, 2
"""Either part alone must be met by ``MARGIN`` nodes more than the answers, and by ``FACTOR`` times as many."""
COMMON, COMMON_AT_LEAST = 0.02, 20
"""A phrase that this share of a type's nodes have, and so many at least, says too little."""
MOST_PHRASES = 30
"""Phrases of one gold node that are tried."""


@dataclass(frozen=True)
class TextPart:
    """A phrase that does its work: with the words that a node must have, and the nodes that are then the answers."""

    phrase: Reworded
    source: str
    words: frozenset[str]
    holders: Numbers
    answers: Numbers


def needs_more(part: int, answers: int) -> bool:
    """Whether a part that ``part`` nodes meet leaves the answers open."""
    return part >= answers + MARGIN and part >= FACTOR * answers


def relations_fault(requirement: Requirement, *, text: bool) -> str:
    """Why a relational requirement is of no use, with a text part or without; empty where it is."""
    count = len(requirement.candidates)
    if not text and count > MOST_ANSWERS:
        return "relations alone: too many answers"
    if text and not needs_more(count, 1):
        return "relations alone pick the answer"
    if len(requirement.alone) > 1 and min(requirement.alone) <= count:
        return "one of the branches alone says as much"
    return ""


class TextChecker:
    """Finds a phrase of the gold node's text which, with the relations and only with them, picks the answers."""

    def __init__(
        self, skb: SKB, texts: Texts, index: TextSearch, lexicon: Lexicon, empty: Collection[str] = ()
    ) -> None:
        """``empty`` are words that say too little to be asked for."""
        self._skb, self._texts, self._index, self._lexicon, self._empty = skb, texts, index, lexicon, frozenset(empty)

    def find(self, requirement: Requirement, gold: int, chance: random.Random) -> TextPart | str:
        """The first phrase that passes, in a random order with synonyms first; else why the last ones did not."""
        fault = "text: no phrase of two or three words with a meaning"
        for _, part in zip(range(MOST_PHRASES), self._parts(gold, chance), strict=False):
            found = self._check(requirement, gold, *part)
            if isinstance(found, TextPart):
                return found
            fault = found
        return fault

    def _parts(self, gold: int, chance: random.Random) -> Iterator[tuple[Reworded, str]]:
        """Phrases of the gold node's text, each reworded, those with a synonym first."""
        found = [
            (reword(phrase, self._lexicon, chance), phrase.text)
            for text in self._texts.sources(gold)
            for phrase in phrases(text, self._empty)
        ]
        chance.shuffle(found)
        return iter(sorted(found, key=lambda one: one[0].how != "synonyms"))

    def _check(self, requirement: Requirement, gold: int, phrase: Reworded, source: str) -> TextPart | str:
        words = self._texts.words(" ".join(word for word in source.split() if is_content(word)))
        told = self._texts.words(" ".join(word for word in phrase.text.split() if is_content(word)))
        if told != words:
            return "text: rewording changed the words it is compared by"
        if is_literal(phrase.text, self._texts.plain(gold)):
            return "text: could not be reworded"
        named = [self._texts.name_words(node) for node in (gold, *requirement.starts)]
        if any(words & one for one in named):
            return "text: shares a word with a name"
        holders = self._texts.holders(requirement.template.answer, words)
        first, end = self._skb.type_range(requirement.template.answer)
        if len(holders) > max(COMMON_AT_LEAST, COMMON * (end - first)):
            return "text: says too little"
        answers = np.intersect1d(requirement.candidates, holders, assume_unique=True)
        if gold not in answers or len(answers) > MOST_ANSWERS:
            return "text: too many answers"
        if not needs_more(len(requirement.candidates), len(answers)):
            return "relations alone pick the answer"
        if not needs_more(len(holders), len(answers)):
            return "text alone picks the answer"
        if self._nearly(requirement.template.answer, words, requirement.candidates, answers):
            return "text: a candidate has all but one of the words"
        for how, first in self._first_by_text(requirement.template.answer, phrase.text):
            if first in answers:
                return f"text alone: {how} puts an answer first"
        return TextPart(phrase, source, words, holders, answers)

    def _nearly(self, kind: str, words: frozenset[str], candidates: Numbers, answers: Numbers) -> bool:
        """Whether another candidate has all but one of three words or more: it might be meant."""
        if len(words) < _ENOUGH:
            return False
        others = np.setdiff1d(candidates, answers, assume_unique=True)
        return any(
            len(np.intersect1d(others, self._texts.holders(kind, words - {word}), assume_unique=True)) for word in words
        )

    def _first_by_text(self, kind: str, text: str) -> Iterator[tuple[str, int]]:
        """What each search for the phrase alone puts first: BM25 of documents, of names too, and vectors, if any."""
        ranges = [self._skb.type_range(kind)]
        for how, weight in (("BM25", 0.0), ("BM25 with names", NAME_WEIGHT)):
            yield from ((how, node) for node, _ in self._index.search(text, limit=1, ranges=ranges, name_weight=weight))
        if self._skb.vectors is not None:
            yield from (("vss", node) for node, _ in self._skb.vectors.search(text, limit=1, ranges=ranges))


_ENOUGH = 3


SHAPES: Mapping[str, float] = {"1": 3, "2": 3, "1&1": 3, "2&1": 1, "1&2": 1, "2=1": 1, "1=2": 1}
"""How often a shape is sampled, beside the others that the templates have; shapes not named here count 1."""
MOST_CANDIDATES = 5_000
DRAWS = 1_000
"""Requirements sampled for each question that is wanted, before what was found has to do."""


@dataclass(frozen=True)
class Wanted:
    """How many questions of each split, and the seed that fixes them all."""

    test: int = 200
    train: int = 0
    val: int = 0
    seed: int = 1

    def of(self, split: Split) -> int:
        """The number of questions of a split."""
        return {"test": self.test, "train": self.train, "val": self.val}[split]


@dataclass
class _Taken:
    """What questions kept so far hold, so that none leaks from one split into another."""

    golds: set[int] = field(default_factory=set)
    requirements: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    split_of: dict[int, Split] = field(default_factory=dict)


class Drawn(NamedTuple):
    """A relational requirement, a gold node that meets it, and the split of that node."""

    requirement: Requirement
    gold: int
    split: Split

    @property
    def template(self) -> Template:
        """The template that was drawn."""
        return self.requirement.template


class Sampler:
    """Draws one requirement after the other, and remembers what questions were kept.

    Raises UsageError where the SKB has no index of texts and names, or a template does not fit its schema.
    """

    def __init__(self, skb: SKB, wanted: Wanted, wording: Wording) -> None:
        self.skb, self.index = skb, indexes(skb)[0]
        self._wanted, self._wording, self._names = wanted, wording, indexes(skb)[1]
        templates = _templates(skb, wording)
        self.fields = _fields(skb, wording, templates)
        """The fields of each type that its nodes' text is in; a type without any answers by relations alone."""
        usable = [one for one in templates if one.answer in self.fields or wording.without_text]
        if not usable:
            raise UsageError(f"{skb.meta.name} has no template whose answers have text")
        self._shapes = _weighted(skb, usable, even=bool(wording.templates))
        self.chance = random.Random(wanted.seed)
        self._taken = _Taken()
        self.report = Report(skb.meta.name, wanted.seed, unused=_unused(skb, wording))

    def has_text(self, drawn: Drawn) -> bool:
        """Whether its question is to ask for something in the answers' text."""
        return drawn.template.answer in self.fields

    def draw(self) -> Drawn | None:
        """Sample a requirement and a gold node; None where it is of no use, which the report counts."""
        template = self._sample()
        first, end = self.skb.type_range(template.answer)
        gold = self.chance.randrange(first, end)
        split = self._split(gold)
        if self.report.kept[split] >= self._wanted.of(split):
            return None  # this split is full
        requirement = draw(self.skb, template, gold, self.chance)
        if requirement is None:
            return None  # the gold node has no such edges: nothing was sampled
        self.report.sampled += 1
        drawn = Drawn(requirement, gold, split)
        fault = self._taken_already(requirement, gold) or relations_fault(requirement, text=self.has_text(drawn))
        fault = fault or ("relations: too many candidates" if len(requirement.candidates) > MOST_CANDIDATES else "")
        fault = fault or self._naming_fault(requirement)
        if fault:
            self.report.drop(fault)
            return None
        return drawn

    def names(self, drawn: Drawn) -> list[str]:
        """What the start nodes are called."""
        return [self.skb.nodes.label(node) for node in drawn.requirement.starts]

    def leak(self, drawn: Drawn, answers: Sequence[int]) -> str:
        """Why these answers cannot be asked for in this split; empty where they can."""
        apart = any(self._taken.split_of.get(node, drawn.split) != drawn.split for node in answers)
        return "an answer belongs to another split" if apart else ""

    def record(self, drawn: Drawn, question: str, answers: Sequence[int]) -> Synthesized:
        """The record of a question, with what its relations say of it."""
        skb, template = self.skb, drawn.template
        number = self.report.kept[drawn.split] + 1
        return Synthesized(
            id=f"{skb.meta.name}-{drawn.split}-{number:04}",
            question=question,
            answers=tuple(skb.id(node) for node in answers),
            split=drawn.split,
            template=str(template),
            shape=template.shape,
            answer_type=template.answer,
            gold=skb.id(drawn.gold),
            paths=tuple(self._routes(drawn.requirement)),
            candidates=len(drawn.requirement.candidates),
            without=tuple(
                (branch.start, branch.legs[0].relation, branch.legs[0].direction)
                for branch in template.branches
                if branch.negated
            ),
        )

    def keep(self, drawn: Drawn, answers: Sequence[int]) -> None:
        """Remember a question that is kept."""
        template = str(drawn.template)
        self._taken.golds.add(drawn.gold)
        self._taken.requirements.add((template, drawn.requirement.starts))
        self._taken.split_of.update(dict.fromkeys(answers, drawn.split))
        self.report.kept[drawn.split] += 1
        self.report.templates[template] = self.report.templates.get(template, 0) + 1

    def names_answer(self, question: str, answers: Sequence[int]) -> bool:
        """Whether a question has the name of one of its answers."""
        asked = f" {' '.join(self.index.words(question))} "
        names = (" ".join(self.index.words(str(self.skb.nodes.names[node]))) for node in answers)
        return any(name and f" {name} " in asked for name in names)

    def _routes(self, requirement: Requirement) -> list[Route]:
        skb = self.skb
        return [
            Route(
                start=skb.id(walk[0]),
                start_name=skb.nodes.label(walk[0]),
                hops=tuple((leg.relation, leg.direction) for leg in branch.legs),
                types=(branch.start, *(leg.type for leg in branch.legs)),
                walk=tuple(skb.id(node) for node in walk),
            )
            for branch, walk in zip(requirement.template.branches, requirement.walks, strict=True)
            if not branch.negated
        ]

    def _sample(self) -> Template:
        shape = self.chance.choices(list(self._shapes), [SHAPES.get(one, 1) for one in self._shapes])[0]
        templates, weights = self._shapes[shape]
        return self.chance.choices(templates, cum_weights=weights)[0]

    def _split(self, gold: int) -> Split:
        """The split of a gold node: by a hash of its id, in proportion to what is wanted."""
        digest = hashlib.sha256(f"{self._wanted.seed}\n{self.skb.id(gold)}".encode()).digest()
        place = int.from_bytes(digest[:8], "big") / 2**64 * sum(map(self._wanted.of, SPLITS))
        for split in SPLITS:
            place -= self._wanted.of(split)
            if place < 0:
                return split
        return "test"

    def _taken_already(self, requirement: Requirement, gold: int) -> str:
        if gold in self._taken.golds:
            return "gold node was used before"
        if (str(requirement.template), requirement.starts) in self._taken.requirements:
            return "relations were asked for before"
        return ""

    def _naming_fault(self, requirement: Requirement) -> str:
        """Why a start node cannot be told by its name; empty where each can."""
        for node in requirement.starts:
            name = str(self.skb.nodes.names[node])
            if len(normalise(name)) < _SHORTEST_NAME:
                return "a start node's name is too short"
            kind = self.skb.type_range(self.skb.type_name(node))
            if len(self._names.search(name, edits=0, limit=2, ranges=[kind])) > 1:
                return "a start node's name is another's too"
        return ""


_SHORTEST_NAME = 2


def indexes(skb: SKB) -> tuple[TextSearch, NameIndex]:
    """The indexes of texts and names. Raises UsageError where it was built without."""
    if skb.text is None or skb.names is None:
        raise UsageError(f"{skb.meta.name} was built without indexes of texts and names; build it without --no-text")
    return skb.text, skb.names


def _templates(skb: SKB, wording: Wording) -> list[Template]:
    """Those of the wording, checked against the schema, or all that the schema has edges for."""
    given = [parse_template(text) for text in wording.templates]
    for template in given:
        check_template(template, skb.meta)
    return given or derive_templates(skb.meta, wording.symmetric, list(wording.relations))


def _unused(skb: SKB, wording: Wording) -> list[str]:
    """Types and relations that the wording has words for and the SKB does not have."""
    known = {*skb.type_names, *skb.relation_names}
    return [name for name in (*wording.types, *wording.relations) if name not in known]


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

    def weight(template: Template) -> float:
        if even:
            return 1.0
        legs = [leg for branch in template.branches for leg in branch.legs]
        return math.sqrt(min(edges[leg.type, leg.relation] for leg in legs))

    return {
        shape: (list(some), np.cumsum([weight(one) for one in some]).tolist())
        for shape, some in by_shape(templates).items()
    }


Worder = Callable[[Synthesized, Sequence[str]], str | None]
"""Puts a question, given with its relational clauses, in other words; None where that did not go well."""


def synthesize(
    skb: SKB,
    wanted: Wanted,
    wording: Wording | None = None,
    *,
    worder: Worder | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
) -> tuple[list[Synthesized], Report]:
    """Questions on an SKB, in the order they were found, with the report; the same for the same SKB, wording and seed.

    Raises UsageError where the SKB has no index of texts and names, or a template does not fit its schema.
    """
    maker = _Maker(skb, wanted, wording or Wording())
    total = wanted.test + wanted.train + wanted.val
    found: list[Synthesized] = []
    for _ in range(DRAWS * total):
        if len(found) == total:
            break
        question, clauses = maker.attempt()
        if question is None:
            continue
        if worder and (text := worder(question, clauses)):
            question = replace(question, question=text, worded_by="model")
        found.append(question)
        progress(len(found), total)
    return found, maker.report


class _Maker:
    """Draws and checks one question after the other."""

    def __init__(self, skb: SKB, wanted: Wanted, wording: Wording) -> None:
        self._sampler, self._wording = Sampler(skb, wanted, wording), wording
        index = self._sampler.index
        lexicon = Lexicon.shipped(index.words) if wording.synonyms else Lexicon((), index.words)
        texts = Texts(skb, index, lexicon, self._sampler.fields)
        self._checker = TextChecker(skb, texts, index, lexicon, wording.empty)

    @property
    def report(self) -> Report:
        """What became of all that was sampled."""
        return self._sampler.report

    def attempt(self) -> tuple[Synthesized | None, list[str]]:
        """Sample a requirement and a gold node; the question if it is kept, with its relational clauses."""
        drawn = self._sampler.draw()
        if drawn is None:
            return None, []
        made = self._made(drawn)
        if isinstance(made, str):
            self.report.drop(made)
            return None, []
        return made

    def _made(self, drawn: Drawn) -> tuple[Synthesized, list[str]] | str:
        sampler, requirement = self._sampler, drawn.requirement
        part = self._checker.find(requirement, drawn.gold, sampler.chance) if sampler.has_text(drawn) else None
        if isinstance(part, str):
            return part
        answers = (part.answers if part else requirement.candidates).tolist()
        if fault := sampler.leak(drawn, answers):
            return fault
        made = self._worded(drawn, part, answers)
        if sampler.names_answer(made[0].question, answers):
            return "the question names an answer"
        sampler.keep(drawn, answers)
        return made

    def _worded(self, drawn: Drawn, part: TextPart | None, answers: list[int]) -> tuple[Synthesized, list[str]]:
        text = part.phrase.text if part else ""
        sampler = self._sampler
        question, clauses = self._wording.question(drawn.template, sampler.names(drawn), text, sampler.chance)
        made = sampler.record(drawn, question, answers)
        if part:
            made = replace(
                made,
                text=text,
                text_source=part.source,
                text_words=tuple(sorted(part.words)),
                reworded_by=part.phrase.how,
                holders=len(part.holders),
            )
        return made, clauses
