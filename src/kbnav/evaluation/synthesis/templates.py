"""Relation templates: paths through the schema that meet in the answer (STaRK, appendix B)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from kbnav.errors import UsageError
from kbnav.knowledge.base import Direction
from kbnav.knowledge.skb.schema import Meta

SAME = "same"
"""Begins a branch that starts from the same node as the first."""
NOT = "!"
"""Stands before the relation of a negated leg."""
_LEG = re.compile(r"\s+(<-|-)(\S|\S.*?\S)(->|-)\s+")


@dataclass(frozen=True)
class Leg:
    """One relation, followed from source to target (``out``), backwards (``in``) or either way, to nodes of a type.

    A ``negated`` one is that of the nodes that no node leads to by it.
    """

    relation: str
    direction: Direction
    type: str
    negated: bool = False

    def __str__(self) -> str:
        head, tail = {"out": ("-", "->"), "in": ("<-", "-"), "both": ("-", "-")}[self.direction]
        return f"{head}{NOT if self.negated else ''}{self.relation}{tail} {self.type}"


@dataclass(frozen=True)
class Branch:
    """From a node of the type ``start`` along legs to the answer; ``slot`` numbers the node within the template.

    A negated branch has one leg and no slot: no node of the type ``start`` may lead to the answer.
    """

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
    def slots(self) -> int:
        """How many start nodes it takes."""
        return len({branch.slot for branch in self.branches if not branch.negated})

    @property
    def shape(self) -> str:
        """Hops of each branch: ``1``, ``2``, ``1&1``, ``2&1``, and ``&!1`` of a negated one.

        ``=`` stands for ``&`` before a branch that starts from the first one's node.
        """
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
    known = {(one.source, one.relation, one.target) for one in meta.tuples}
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
    used = [one for one in meta.tuples if not relations or one.relation in relations]
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


def by_shape(templates: Iterable[Template]) -> Mapping[str, list[Template]]:
    """Templates by their shape, in their order."""
    found: dict[str, list[Template]] = {}
    for template in templates:
        found.setdefault(template.shape, []).append(template)
    return found
