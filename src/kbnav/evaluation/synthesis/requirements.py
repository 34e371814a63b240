"""Relational requirements: a template with its start nodes, drawn so that a chosen gold node answers it."""

from __future__ import annotations

import random
from dataclasses import dataclass

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

    ``candidates`` are all the nodes that the relations lead to, start nodes left out, ascending; ``alone`` says of each
    branch how many it leads to by itself.
    """

    template: Template
    starts: tuple[int, ...]
    walks: tuple[tuple[int, ...], ...]
    candidates: Numbers
    alone: tuple[int, ...]


def candidates(skb: SKB, template: Template, starts: tuple[int, ...]) -> list[Numbers]:
    """Where each branch leads from its start node; the start nodes themselves are left out."""
    outside = np.array(sorted(starts), np.int32)
    found = []
    for branch in template.branches:
        ends = skb.graph.ends(starts[branch.slot], hops(skb, branch))
        found.append(np.setdiff1d(ends, outside, assume_unique=True))
    return found


def hops(skb: SKB, branch: Branch) -> list[Hop]:
    """A branch as the graph follows it."""
    return [Hop(skb.relation_number(leg.relation), leg.direction, skb.type_range(leg.type)) for leg in branch.legs]


def draw(skb: SKB, template: Template, gold: int, chance: random.Random) -> Requirement | None:
    """A requirement that ``gold`` meets, found by walking back from it; None where the gold node has no such edges."""
    starts: dict[int, int] = {}
    walks = []
    for branch in template.branches:
        walk = _back(skb, branch, gold, starts.get(branch.slot), chance)
        if walk is None or walk[0] in (gold, *(node for slot, node in starts.items() if slot != branch.slot)):
            return None
        starts[branch.slot] = walk[0]
        walks.append(walk)
    chosen = tuple(starts[slot] for slot in sorted(starts))
    parts = candidates(skb, template, chosen)
    both = parts[0] if len(parts) == 1 else np.intersect1d(parts[0], parts[1], assume_unique=True)
    return Requirement(template, chosen, tuple(walks), both, tuple(map(len, parts)))


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
