"""Checking a plan against the schema: what cannot be is mended where one change does it, and dropped otherwise."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from kbnav.planning.base import Hop, Plan, PlannedPath
from kbnav.planning.schema import TEXT_PATH, PathSchema, RelationPath

LONGEST = 3
"""Hops of a path that a model proposes; a longer one is dropped."""


def checked(
    proposed: Sequence[tuple[tuple[Hop, ...], float]], schema: PathSchema, starts: Collection[str], most: int = 10
) -> Plan:
    """A plan of the paths that the schema allows from the types ``starts`` (empty: from any).

    Args:
        proposed: Paths with weights of any sum; the plan's probabilities are in proportion.
        schema: Says what is possible.
        starts: The types of the matched nodes.
        most: Paths that are kept.

    Every path is mended by the first of these that makes it possible, which the plan's notes say; else it is dropped:
    relations written otherwise (case, ``_`` for space) are named as the schema has them; hops are turned, the fewest;
    a hop is put in, the one with the most edges. Where several walks through the types fit, its weight is shared.
    """
    shares: dict[RelationPath, float] = {}
    notes: list[str] = []
    for hops, weight in proposed:
        walks, note = _mended(hops, schema, starts)
        if note:
            notes.append(note)
        for walk in walks:
            shares[walk] = shares.get(walk, 0.0) + weight / len(walks)
    best = sorted(shares.items(), key=lambda item: -item[1])[:most]
    total = sum(share for _, share in best)
    return Plan(
        tuple(PlannedPath(path.hops, share / total, path.start, path.types) for path, share in best if total > 0),
        tuple(notes),
    )


def _mended(hops: Sequence[Hop], schema: PathSchema, starts: Collection[str]) -> tuple[list[RelationPath], str]:
    """The walks a path may mean, and what was done to it."""
    written = _said(hops)
    if not hops:
        return [TEXT_PATH], ""
    if len(hops) > LONGEST:
        return [], f"dropped {written}: {len(hops)} hops, where {LONGEST} are allowed"
    known = {_bare(relation): relation for relation in schema.relations}
    unknown = [
        hop.relation for hop in hops if hop.relation not in schema.relations and _bare(hop.relation) not in known
    ]
    if unknown:
        return [], f"dropped {written}: there is no relation {unknown[0]}"
    named = [hop if hop.relation in schema.relations else Hop(known[_bare(hop.relation)], hop.way) for hop in hops]
    for tried in _turned(named):
        if walks := schema.follow(tried, starts):
            return walks, "" if tuple(tried) == tuple(hops) else f"{written} became {_said(tried)}"
    for tried in _longer(named, schema):
        if walks := schema.follow(tried, starts):
            return walks, f"{written} became {_said(tried)}"
    whence = f" from {' or '.join(sorted(starts))}" if starts else ""
    return [], f"dropped {written}: the schema has no such path{whence}"


def _bare(relation: str) -> str:
    return re.sub(r"[\W_]+", " ", relation.casefold()).strip()


def _turned(hops: Sequence[Hop]) -> Iterator[tuple[Hop, ...]]:
    """The path itself, then with one hop turned, then with two, and so on."""
    for count in range(len(hops) + 1):
        for places in combinations(range(len(hops)), count):
            yield tuple(
                Hop(hop.relation, "in" if hop.way == "out" else "out") if place in places else hop
                for place, hop in enumerate(hops)
            )


def _longer(hops: Sequence[Hop], schema: PathSchema) -> Iterator[tuple[Hop, ...]]:
    """The path with a hop put in, turned as little as can be: that of the relation with the most edges first."""
    sizes = dict.fromkeys(schema.relations, 0)
    for edge in schema.edges:
        sizes[edge.relation] += edge.edges
    for turned in _turned(hops):
        for relation in sorted(sizes, key=lambda name: (-sizes[name], name)):
            for place in range(len(hops) + 1):
                for hop in (Hop(relation), Hop(relation, "in")):
                    yield (*turned[:place], hop, *turned[place:])


def _said(hops: Sequence[Hop]) -> str:
    return " / ".join(map(str, hops)) or "text"
