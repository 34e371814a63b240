"""What questions are asked about: templates, gold nodes and start nodes, sampled and kept apart by split.

Of STaRK's four steps (section 2.4) this is the first; what follows is done by rules (``generate``) or by models
(``pipeline``).
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kbnav.errors import UsageError
from kbnav.evaluation.synthesis.check import relations_fault
from kbnav.evaluation.synthesis.records import SPLITS, Report, Route, Split, Synthesized
from kbnav.evaluation.synthesis.requirements import Requirement, draw
from kbnav.evaluation.synthesis.templates import (
    Template,
    by_shape,
    check_template,
    derive_templates,
    parse_template,
)
from kbnav.evaluation.synthesis.texts import text_fields
from kbnav.evaluation.synthesis.wording import Wording
from kbnav.knowledge.skb.names import NameIndex, normalise
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import TextSearch

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
