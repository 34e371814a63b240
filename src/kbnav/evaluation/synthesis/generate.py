"""Synthesizing questions: sample, check, word, and divide into splits (STaRK, section 2.4)."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kbnav.errors import UsageError
from kbnav.evaluation.synthesis.check import TextChecker, TextPart, relations_fault
from kbnav.evaluation.synthesis.lexicon import Lexicon
from kbnav.evaluation.synthesis.records import SPLITS, Report, Route, Split, Synthesized
from kbnav.evaluation.synthesis.requirements import Requirement, draw
from kbnav.evaluation.synthesis.templates import (
    Template,
    by_shape,
    check_template,
    derive_templates,
    parse_template,
)
from kbnav.evaluation.synthesis.texts import Texts, text_fields
from kbnav.evaluation.synthesis.wording import Wording
from kbnav.knowledge.skb.names import NameIndex, normalise
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import TextIndex

SHAPES: Mapping[str, float] = {"1": 3, "2": 3, "1&1": 3, "2&1": 1, "1&2": 1, "2=1": 1, "1=2": 1}
"""How often a shape is sampled, beside the others that the templates have; shapes not named here count 1."""
MOST_CANDIDATES = 5_000
DRAWS = 1_000
"""Requirements sampled for each question that is wanted, before what was found has to do."""

Worder = Callable[[Synthesized, Sequence[str]], str | None]
"""Puts a question, given with its relational clauses, in other words; None where that did not go well."""


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


@dataclass
class _Taken:
    """What questions kept so far hold, so that none leaks from one split into another."""

    golds: set[int] = field(default_factory=set)
    requirements: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    split_of: dict[int, Split] = field(default_factory=dict)


class _Maker:
    """Draws and checks one question after the other."""

    def __init__(self, skb: SKB, wanted: Wanted, wording: Wording) -> None:
        self._skb, self._wanted, self._wording = skb, wanted, wording
        self._index, self._names = _indexes(skb)
        self._lexicon = Lexicon.shipped(self._index.words) if wording.synonyms else Lexicon((), self._index.words)
        templates = _templates(skb, wording)
        fields = _fields(skb, wording, templates)
        self._texts = Texts(skb, self._index, self._lexicon, fields)
        self._checker = TextChecker(skb, self._texts, self._index, self._lexicon, wording.empty)
        usable = [one for one in templates if one.answer in fields or wording.without_text]
        if not usable:
            raise UsageError(f"{skb.meta.name} has no template whose answers have text")
        self._with_text = frozenset(fields)
        self._shapes = _weighted(skb, usable, even=bool(wording.templates))
        self._chance = random.Random(wanted.seed)
        self._taken = _Taken()
        self.report = Report(skb.meta.name, wanted.seed, unused=_unused(skb, wording))

    def attempt(self) -> tuple[Synthesized | None, list[str]]:
        """Sample a requirement and a gold node; the question if it is kept, with its relational clauses."""
        template = self._sample()
        first, end = self._skb.type_range(template.answer)
        gold = self._chance.randrange(first, end)
        split = self._split(gold)
        if self.report.kept[split] >= self._wanted.of(split):
            return None, []  # this split is full
        requirement = draw(self._skb, template, gold, self._chance)
        if requirement is None:
            return None, []  # the gold node has no such edges: nothing was sampled
        self.report.sampled += 1
        made = self._made(requirement, gold, split)
        if isinstance(made, str):
            self.report.drop(made)
            return None, []
        question, clauses = made
        self.report.kept[split] += 1
        self.report.templates[question.template] = self.report.templates.get(question.template, 0) + 1
        return question, clauses

    def _made(self, requirement: Requirement, gold: int, split: Split) -> tuple[Synthesized, list[str]] | str:
        text = requirement.template.answer in self._with_text
        fault = self._taken_already(requirement, gold) or relations_fault(requirement, text=text)
        fault = fault or ("relations: too many candidates" if len(requirement.candidates) > MOST_CANDIDATES else "")
        fault = fault or self._naming_fault(requirement)
        if fault:
            return fault
        part = self._checker.find(requirement, gold, self._chance) if text else None
        if isinstance(part, str):
            return part
        answers = (part.answers if part else requirement.candidates).tolist()
        if any(self._taken.split_of.get(node, split) != split for node in answers):
            return "an answer belongs to another split"
        made = self._worded(requirement, gold, split, part, answers)
        if self._names_answer(made[0].question, answers):
            return "the question names an answer"
        self._taken.golds.add(gold)
        self._taken.requirements.add((str(requirement.template), requirement.starts))
        self._taken.split_of.update(dict.fromkeys(answers, split))
        return made

    def _worded(
        self, requirement: Requirement, gold: int, split: Split, part: TextPart | None, answers: list[int]
    ) -> tuple[Synthesized, list[str]]:
        skb, template = self._skb, requirement.template
        names = [skb.nodes.label(node) for node in requirement.starts]
        text = part.phrase.text if part else ""
        question, clauses = self._wording.question(template, names, text, self._chance)
        number = self.report.kept[split] + 1
        made = Synthesized(
            id=f"{skb.meta.name}-{split}-{number:04}",
            question=question,
            answers=tuple(skb.id(node) for node in answers),
            split=split,
            template=str(template),
            shape=template.shape,
            answer_type=template.answer,
            gold=skb.id(gold),
            paths=tuple(self._routes(requirement)),
            candidates=len(requirement.candidates),
            without=tuple(
                (branch.start, branch.legs[0].relation, branch.legs[0].direction)
                for branch in template.branches
                if branch.negated
            ),
        )
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

    def _routes(self, requirement: Requirement) -> list[Route]:
        skb = self._skb
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
        shape = self._chance.choices(list(self._shapes), [SHAPES.get(one, 1) for one in self._shapes])[0]
        templates, weights = self._shapes[shape]
        return self._chance.choices(templates, cum_weights=weights)[0]

    def _split(self, gold: int) -> Split:
        """The split of a gold node: by a hash of its id, in proportion to what is wanted."""
        digest = hashlib.sha256(f"{self._wanted.seed}\n{self._skb.id(gold)}".encode()).digest()
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
            name = str(self._skb.nodes.names[node])
            if len(normalise(name)) < _SHORTEST_NAME:
                return "a start node's name is too short"
            kind = self._skb.type_range(self._skb.type_name(node))
            if len(self._names.search(name, edits=0, limit=2, ranges=[kind])) > 1:
                return "a start node's name is another's too"
        return ""

    def _names_answer(self, question: str, answers: Sequence[int]) -> bool:
        asked = f" {' '.join(self._index.words(question))} "
        names = (" ".join(self._index.words(str(self._skb.nodes.names[node]))) for node in answers)
        return any(name and f" {name} " in asked for name in names)


_SHORTEST_NAME = 2


def _indexes(skb: SKB) -> tuple[TextIndex, NameIndex]:
    if skb.text is None or skb.names is None:
        raise UsageError(f"{skb.meta.name} was built without indexes of texts and names; build it with --text")
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
