"""Relation templates: paths through the schema that meet in the answer (STaRK, appendix B)."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial, reduce
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kbnav.errors import UsageError
from kbnav.knowledge.base import Direction
from kbnav.knowledge.skb.graph import Hop, NodeNumbers
from kbnav.knowledge.skb.schema import Meta
from kbnav.knowledge.skb.store import SKB
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import to_json

SAME = "same"
"""Begins a branch that starts from the same node as the first."""
NOT = "!"
"""Stands before the relation of a negated leg."""
_LEG = re.compile(r"\s+(<-|-)(\S|\S.*?\S)(->|-)\s+")


@dataclass(frozen=True)
class Leg:
    """A relation followed ``out``, ``in`` or either way to a type; ``negated``: the nodes that none leads to."""

    relation: str
    direction: Direction
    type: str
    negated: bool = False

    def __str__(self) -> str:
        head, tail = {"out": ("-", "->"), "in": ("<-", "-"), "both": ("-", "-")}[self.direction]
        return f"{head}{NOT if self.negated else ''}{self.relation}{tail} {self.type}"


@dataclass(frozen=True)
class Branch:
    """From a node of type ``start`` (``slot``) along legs to the answer; negated: no such node leads to it."""

    start: str
    legs: tuple[Leg, ...]
    slot: int = 0

    @property
    def negated(self) -> bool:
        """Whether it says what the answers are without."""
        return self.legs[-1].negated

    def __str__(self) -> str:
        return " ".join([self.start, *map(str, self.legs)])


@dataclass(frozen=True)
class Template:
    """Branches that meet in the answer; several may start from the first one's node."""

    branches: tuple[Branch, ...]

    @property
    def answer(self) -> str:
        """The type of the answers."""
        return self.branches[0].legs[-1].type

    @property
    def shape(self) -> str:
        """Hops of branches, as ``2&1``; ``!`` negates one, ``=`` for ``&`` starts it from the first one's node."""
        first, *others = self.branches
        joints = ("&!" if one.negated else "=" if one.slot == first.slot else "&" for one in others)
        return str(len(first.legs)) + "".join(
            f"{joint}{len(one.legs)}" for joint, one in zip(joints, others, strict=True)
        )

    def __str__(self) -> str:
        first, *others = self.branches
        parts = [str(first)]
        for branch in others:
            same = branch.slot == first.slot and not branch.negated
            parts.append(" ".join([SAME, *map(str, branch.legs)]) if same else str(branch))
        return " & ".join(parts)


def parse_template(text: str) -> Template:
    """Read ``Disease -DuG-> Gene & Compound -CbG-> Gene``; ``<-r-`` goes backwards, ``-r-`` either way.

    ``Symptom <-DpS- Disease & Compound -!CtD-> Disease`` asks for diseases that no compound treats: a branch of one
    negated leg. Raises UsageError where it is not such a text, or where its branches end in different types.
    """
    branches: list[Branch] = []
    for part in text.split(" & "):
        start, *rest = _LEG.split(part.strip())
        legs = tuple(
            Leg(relation.removeprefix(NOT), _direction(text, head, tail), kind.strip(), relation.startswith(NOT))
            for head, relation, tail, kind in zip(rest[::4], rest[1::4], rest[2::4], rest[3::4], strict=True)
        )
        same = start == SAME and bool(branches)
        if not legs or not start or (start == SAME and not same):
            raise UsageError(f"not a template: {text!r}; one reads 'Disease -DuG-> Gene & Compound -CbG-> Gene'")
        if any(leg.negated for leg in legs) and (same or not branches or len(legs) > 1):
            raise UsageError(f"{text!r}: a negated relation is a branch of its own behind another, as in '& a -!r-> b'")
        slot = 0 if same else len({branch.slot for branch in branches if not branch.negated})
        branches.append(Branch(branches[0].start if same else start, legs, -1 if legs[-1].negated else slot))
    found = Template(tuple(branches))
    if len({branch.legs[-1].type for branch in branches}) > 1:
        raise UsageError(f"the branches of {text!r} end in different types")
    return found


def _direction(text: str, head: str, tail: str) -> Direction:
    if (head, tail) == ("<-", "->"):
        raise UsageError(f"not a template: {text!r} follows a relation both ways; write -relation- for that")
    return "in" if head == "<-" else "out" if tail == "->" else "both"


def check_template(template: Template, meta: Meta) -> None:
    """Raise UsageError where a leg is none of the schema's."""
    known = {(tuple_.source, tuple_.relation, tuple_.target) for tuple_ in meta.tuples}
    for branch in template.branches:
        start = branch.start
        for leg in branch.legs:
            ways = {
                "out": [(start, leg.type)],
                "in": [(leg.type, start)],
                "both": [(start, leg.type), (leg.type, start)],
            }
            if not any((source, leg.relation, target) in known for source, target in ways[leg.direction]):
                raise UsageError(f"{template}: {meta.name} has no edge for {start} {leg}")
            start = leg.type


def derive_templates(meta: Meta, symmetric: Iterable[str] = (), relations: Sequence[str] = ()) -> list[Template]:
    """Every template of one hop, two hops, and two hops that meet in the answer, that the schema has edges for.

    ``symmetric`` relations are followed either way where they stay within a type; ``relations``, where given, are the
    only ones used.
    """
    either = frozenset(symmetric)
    used = [tuple_ for tuple_ in meta.tuples if not relations or tuple_.relation in relations]
    hops = list(dict.fromkeys(hop for one in used for hop in _hops(one.source, one.relation, one.target, either)))
    by_start: dict[str, list[Leg]] = {}
    by_answer: dict[str, list[tuple[str, Leg]]] = {}
    for start, leg in hops:
        by_start.setdefault(start, []).append(leg)
        by_answer.setdefault(leg.type, []).append((start, leg))
    found = [Template((Branch(start, (leg,)),)) for start, leg in hops]
    found += [Template((Branch(start, (leg, after)),)) for start, leg in hops for after in by_start.get(leg.type, ())]
    for ends in by_answer.values():
        found += [
            Template((Branch(one, (first,)), Branch(other, (second,), 1)))
            for (one, first), (other, second) in combinations_with_replacement(ends, 2)
        ]
    return found


def _hops(source: str, relation: str, target: str, symmetric: frozenset[str]) -> Iterator[tuple[str, Leg]]:
    if source == target and relation in symmetric:
        yield source, Leg(relation, "both", target)
        return
    yield source, Leg(relation, "out", target)
    yield target, Leg(relation, "in", source)


_BACK: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


@dataclass(frozen=True)
class Requirement:
    """A grounded template. ``starts`` are the nodes of its slots; ``walks`` one path from start to gold a branch.

    Of a negated branch there is none. ``candidates`` are all the nodes that the relations lead to, start nodes left
    out, ascending; ``alone`` says of each branch how many it leads to by itself.
    """

    template: Template
    starts: tuple[int, ...]
    walks: tuple[tuple[int, ...], ...]
    candidates: NodeNumbers
    alone: tuple[int, ...]


def candidates(skb: SKB, template: Template, starts: tuple[int, ...]) -> list[NodeNumbers]:
    """Where each branch leads from its start node; the start nodes themselves are left out.

    A negated branch gives the nodes of the answers' type that no node of its start type leads to.
    """
    outside = np.array(sorted(starts), np.int32)
    found = []
    for branch in template.branches:
        if branch.negated:
            without, kind = (np.arange(*skb.type_range(one), dtype=np.int32) for one in (branch.start, template.answer))
            ends = np.setdiff1d(kind, skb.graph.expand(without, hops(skb, branch)[0]), assume_unique=True)
        else:
            ends = skb.graph.ends(starts[branch.slot], hops(skb, branch))
        found.append(np.setdiff1d(ends, outside, assume_unique=True))
    return found


def hops(skb: SKB, branch: Branch) -> list[Hop]:
    """A branch as the graph follows it."""
    return [Hop(skb.relation_number(leg.relation), leg.direction, skb.type_range(leg.type)) for leg in branch.legs]


def draw(skb: SKB, template: Template, gold: int, chance: random.Random) -> Requirement | None:
    """A requirement that ``gold`` meets, found by walking back from it; None where the gold node has no such edges."""
    starts: dict[int, int] = {}
    walks: list[tuple[int, ...]] = []
    for branch in template.branches:
        if branch.negated:
            walks.append(())
            continue
        walk = _back(skb, branch, gold, starts.get(branch.slot), chance)
        if walk is None or walk[0] in (gold, *(node for slot, node in starts.items() if slot != branch.slot)):
            return None
        starts[branch.slot] = walk[0]
        walks.append(walk)
    chosen = tuple(starts[slot] for slot in sorted(starts))
    parts = candidates(skb, template, chosen)
    met = reduce(partial(np.intersect1d, assume_unique=True), parts)
    if gold not in met:  # a negated branch leaves it out
        return None
    return Requirement(template, chosen, tuple(walks), met, tuple(map(len, parts)))


def _back(skb: SKB, branch: Branch, gold: int, start: int | None, chance: random.Random) -> tuple[int, ...] | None:
    """A walk from a start node to the gold node; ``start`` is the node it must begin at, if any."""
    kinds = [branch.start, *(leg.type for leg in branch.legs)]
    walk = [gold]
    for place in range(len(branch.legs) - 1, -1, -1):
        leg = branch.legs[place]
        back = Hop(skb.relation_number(leg.relation), _BACK[leg.direction], skb.type_range(kinds[place]))
        near = skb.graph.expand(np.array(walk[-1:], np.int32), back)
        near = np.setdiff1d(near, np.array(walk, np.int32), assume_unique=True)
        if start is not None:
            reached = skb.graph.ends(start, hops(skb, branch)[:place])
            near = np.intersect1d(near, reached, assume_unique=True).astype(np.int32)
        if not len(near):
            return None
        walk.append(int(chance.choice(near.tolist())))
    return tuple(reversed(walk))


Split = Literal["test", "train", "val"]
SPLITS: tuple[Split, ...] = ("test", "train", "val")


@dataclass(frozen=True)
class Route:
    """A branch by ``hops`` (relation, ``out``, ``in`` or ``both``) through ``types``; ``walk``: ids of one way."""

    start: str
    start_name: str
    hops: tuple[tuple[str, str], ...]
    types: tuple[str, ...]
    walk: tuple[str, ...]


@dataclass(frozen=True)
class Synthesized:
    """A question that was kept.

    ``text`` is the phrase as it is asked for, ``text_source`` as the gold node's document has it, ``text_words`` the
    words that decide whether a node has it; all are empty where the question has relations only. ``candidates`` counts
    the nodes that the relations lead to, ``holders`` those of the type that have the text.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    split: Split
    template: str
    shape: str
    answer_type: str
    gold: str
    paths: tuple[Route, ...]
    candidates: int
    without: tuple[tuple[str, str, str], ...] = ()
    """What no answer has: a type, a relation and the way from a node of that type to the answer."""
    text: str = ""
    text_source: str = ""
    text_words: tuple[str, ...] = ()
    reworded_by: str = ""
    holders: int = 0
    worded_by: str = "rules"
    pipeline: Mapping[str, Any] = field(default_factory=dict)
    """Of a question that models made: the requirements of the text, those used, and the query before its rewriting."""

    def record(self) -> dict[str, Any]:
        """As ``kbnav.evaluation.datasets`` reads one's own questions."""
        meta = asdict(self)
        if not self.pipeline:
            del meta["pipeline"]
        return {"id": meta.pop("id"), "question": meta.pop("question"), "nodes": meta.pop("answers"), "meta": meta}


@dataclass
class SynthesisReport:
    """How a set came about: what was sampled, kept, and dropped for which reason."""

    kb: str
    seed: int
    sampled: int = 0
    kept: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    dropped: Counter[str] = field(default_factory=Counter)
    templates: Counter[str] = field(default_factory=Counter)
    pipeline: dict[str, Any] = field(default_factory=dict)
    """Where models made the questions: which, what they cost, and what verification found."""
    made_of: dict[str, str] = field(default_factory=dict)
    """What the SKB was made of, such as an archive, its date and a hash, where that is known."""


def write_questions(out: Path, questions: Sequence[Synthesized], report: SynthesisReport) -> list[Path]:
    """Write ``out`` (the test questions), ``-train`` and ``-val`` beside it, and the report; the files made."""
    path = out.with_name(f"{out.name.removesuffix('.jsonl')}.report.json")
    made = write_splits(out, questions)
    write_whole(path, to_json(report) + "\n")
    return [*made, path]


def write_splits(out: Path, questions: Sequence[Synthesized]) -> list[Path]:
    """Write ``out`` (the test questions), ``-train`` and ``-val`` beside it; the files made."""
    stem = out.name.removesuffix(".jsonl")
    made = []
    for split in SPLITS:
        chosen = [question for question in questions if question.split == split]
        if chosen:
            path = out if split == "test" else out.with_name(f"{stem}-{split}.jsonl")
            lines = [json.dumps(question.record(), ensure_ascii=False) for question in chosen]
            write_whole(path, "\n".join(lines) + "\n")
            made.append(path)
    return made
