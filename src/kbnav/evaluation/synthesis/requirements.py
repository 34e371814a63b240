"""Relational requirements: a template with its start nodes, drawn so that a chosen gold node answers it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from kbnav.evaluation.synthesis.templates import Branch, Template
from kbnav.evaluation.synthesis.texts import Numbers
from kbnav.knowledge.base import Direction
from kbnav.knowledge.skb.graph import Hop
from kbnav.knowledge.skb.store import SKB

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
    candidates: Numbers
    alone: tuple[int, ...]


def candidates(skb: SKB, template: Template, starts: tuple[int, ...]) -> list[Numbers]:
    """Where each branch leads from its start node; the start nodes themselves are left out.

    A negated branch gives the nodes of the answers' type that no node of its start type leads to.
    """
    outside = np.array(sorted(starts), np.int32)
    found = []
    for branch in template.branches:
        ends = _without(skb, branch) if branch.negated else skb.graph.ends(starts[branch.slot], hops(skb, branch))
        found.append(np.setdiff1d(ends, outside, assume_unique=True))
    return found


def _without(skb: SKB, branch: Branch) -> Numbers:
    """The nodes that no node of a negated branch's start type leads to, ascending."""
    reached = skb.graph.expand(_numbers(skb, branch.start), hops(skb, branch)[0])
    return np.setdiff1d(_numbers(skb, branch.legs[-1].type), reached, assume_unique=True)


def _numbers(skb: SKB, kind: str) -> Numbers:
    return np.arange(*skb.type_range(kind), dtype=np.int32)


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
            near = _towards(skb, branch, place, near, start)
        if not len(near):
            return None
        walk.append(int(chance.choice(near.tolist())))
    return tuple(reversed(walk))


def _towards(skb: SKB, branch: Branch, place: int, near: Numbers, start: int) -> Numbers:
    """Those nodes before leg ``place`` that can be reached from ``start``."""
    reached = skb.graph.ends(start, hops(skb, branch)[:place])
    return np.intersect1d(near, reached, assume_unique=True).astype(np.int32)
