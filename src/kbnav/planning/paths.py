"""Planners by name, and what they give: relation paths that exist in an SKB's schema, each with a probability."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

from kbnav import encoders
from kbnav.encoders import Encoder
from kbnav.errors import UsageError
from kbnav.knowledge.skb import graph
from kbnav.knowledge.skb.graph import NodeNumbers
from kbnav.knowledge.skb.matching import NEAREST, Variant
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.prompts import prompt_hashes, render
from kbnav.runs.trajectory import Trace
from kbnav.settings.systems import Options

Way = Literal["out", "in"]


class Hop(NamedTuple):
    """One relation, followed from source to target (``out``) or backwards (``in``)."""

    relation: str
    way: Way = "out"

    def __str__(self) -> str:
        return self.relation if self.way == "out" else f"^{self.relation}"


TEXT: tuple[Hop, ...] = ()
"""The path ``text``: no relation is followed, the answer is looked for by its document (PASemiQA, section 4.1.2)."""


class RelationPath(NamedTuple):
    """Hops, and the node types met: one more than hops, or none for the path ``text``."""

    hops: tuple[Hop, ...]
    types: tuple[str, ...]

    @property
    def start(self) -> str:
        """The type it begins at; empty for ``text``."""
        return self.types[0] if self.types else ""


TEXT_PATH = RelationPath(TEXT, ())


class PlannedPath(NamedTuple):
    """A path from a matched node, and how probable it is that it leads to the answer."""

    path: RelationPath
    probability: float


@dataclass(frozen=True)
class Plan:
    """Paths, the most probable first, their probabilities summing to 1 at most; ``notes`` say what was mended."""

    paths: tuple[PlannedPath, ...] = ()
    notes: Sequence[str] = field(default=())


class Planner(Protocol):
    """Plans for one SKB. Calls are made from several threads at once."""

    @property
    def name(self) -> str:
        """As in ``--planner``: ``in-context``, ``ranker``, ``seq2seq``."""

    def plan(self, question: str, nodes: Sequence[str], trace: Trace | None = None) -> Plan:
        """Paths for a question from the matched nodes. Model calls go to ``trace``."""


MOST_PATHS = 4_000
"""Paths of one schema that are told apart; of more, those with the most edges are kept."""
_SAMPLE = 50
"""Edges looked at to see whether a relation is stored both ways."""


class SchemaEdge(NamedTuple):
    """A relation from one node type to another, and how many edges it has."""

    source: str
    relation: str
    target: str
    edges: int = 1


class PathSchema:
    """The edges there are between types. A relation stored both ways is followed ``out`` only: ``in`` is the same."""

    def __init__(self, edges: Iterable[SchemaEdge], both_ways: Iterable[tuple[str, str, str]] = ()) -> None:
        """``both_ways`` are the edges (source, relation, target) whose every edge is also stored the other way."""
        self.edges = tuple(sorted(edges))
        self._both_ways = frozenset(both_ways)

    @classmethod
    def of(cls, skb: SKB) -> PathSchema:
        """The schema of an SKB; whether a relation is stored both ways is seen on a sample of its edges."""
        edges = [SchemaEdge(tuple_.source, tuple_.relation, tuple_.target, tuple_.count) for tuple_ in skb.meta.tuples]
        return cls(edges, [edge[:3] for edge in edges if _is_stored_both_ways(edge, edges, skb)])

    @cached_property
    def relations(self) -> tuple[str, ...]:
        """Every relation, in alphabetical order."""
        return tuple(sorted({edge.relation for edge in self.edges}))

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Every type that has edges, in alphabetical order."""
        return tuple(sorted({kind for edge in self.edges for kind in (edge.source, edge.target)}))

    @cached_property
    def _steps(self) -> Mapping[str, Sequence[tuple[Hop, str, int]]]:
        found: defaultdict[str, list[tuple[Hop, str, int]]] = defaultdict(list)
        for source, relation, target, count in self.edges:
            found[source].append((Hop(relation), target, count))
            if (source, relation, target) not in self._both_ways:
                found[target].append((Hop(relation, "in"), source, count))
        return found

    def step(self, kind: str, hop: Hop) -> list[str]:
        """The types that a hop leads to from a type; none where the schema has no such edge."""
        return [target for one, target, _ in self._steps.get(kind, ()) if one == self.canonical(kind, hop)]

    def canonical(self, kind: str, hop: Hop) -> Hop:
        """The hop itself, or ``out`` for the ``in`` of a relation that is stored both ways."""
        turned = Hop(hop.relation)
        both = hop.way == "in" and any(
            (kind, hop.relation, target) in self._both_ways
            for one, target, _ in self._steps.get(kind, ())
            if one == turned
        )
        return turned if both else hop

    def follow(self, hops: Sequence[Hop], starts: Iterable[str] = ()) -> list[RelationPath]:
        """Every way through the types that some hops have, from any of ``starts``, or from any type at all."""
        if not hops:
            return [TEXT_PATH]
        walks = [RelationPath((), (kind,)) for kind in (tuple(starts) or self.types)]
        for hop in hops:
            walks = [
                RelationPath((*walk.hops, self.canonical(walk.types[-1], hop)), (*walk.types, kind))
                for walk in walks
                for kind in self.step(walk.types[-1], hop)
            ]
        return walks

    def paths(self, longest: int = 2, most: int = MOST_PATHS) -> list[RelationPath]:
        """``text`` and paths of 1 to ``longest`` hops, those whose rarest hop has most edges first, ``most`` in all."""
        found = [TEXT_PATH]
        level = [(RelationPath((), (kind,)), sum(edge.edges for edge in self.edges)) for kind in self.types]
        for _ in range(longest):
            level = [
                (RelationPath((*path.hops, hop), (*path.types, target)), min(edges, count))
                for path, edges in level
                for hop, target, count in self._steps.get(path.types[-1], ())
            ]
            level.sort(key=lambda pair: (-pair[1], pair[0]))
            found += [path for path, _ in level[: max(0, most - len(found))]]
        return found


def _is_stored_both_ways(edge: SchemaEdge, edges: Sequence[SchemaEdge], skb: SKB) -> bool:
    turned = SchemaEdge(edge.target, edge.relation, edge.source, edge.edges)
    if turned not in edges:
        return False
    relation = skb.relation_number(edge.relation)
    sample = skb.graph.sample(relation, skb.type_range(edge.source), skb.type_range(edge.target), _SAMPLE)
    return all(skb.graph.has_edge(target, relation, source) for source, target in sample)


def example_edge(skb: SKB, source: str, relation: str, target: str) -> tuple[str, ...]:
    """The names of two nodes that such an edge links; empty where there is none."""
    found = skb.graph.sample(skb.relation_number(relation), skb.type_range(source), skb.type_range(target), 1)
    return tuple(skb.name(node) for node in found[0]) if found else ()


OPEN, BETWEEN, CLOSE = "<PATH>", "<SEP>", "</PATH>"
NO_RELATION = "text"
"""Stands for the path ``text``; a relation of that name cannot be told from it where it is the only hop."""
BACKWARDS = "^"
_PATH = re.compile(r"<\s*PATH\s*>(.*?)(?:<\s*/\s*PATH\s*>|(?=<\s*PATH\s*>)|\n|$)", re.IGNORECASE | re.DOTALL)
_BETWEEN = re.compile(r"<\s*/?\s*SEP\s*/?\s*>", re.IGNORECASE)
_ARROW = re.compile(r"\s+-+>\s+|\s*→\s*")
_MARKS = " \t\r\n\"'`“”*."


def path_text(hops: Sequence[Hop]) -> str:
    """A path as a planner's model writes it."""
    return f"{OPEN}{BETWEEN.join(map(str, hops)) or NO_RELATION}{CLOSE}"


def parse_paths(reply: str) -> list[tuple[Hop, ...]]:
    """The paths in a model's reply, each once, in their order; none where it has no ``<PATH>``.

    Case and space of the marks, quotation marks, arrows for ``<SEP>`` and a missing ``</PATH>`` are put up with. The
    names are the model's own: they may be those of no relation.
    """
    found: dict[tuple[Hop, ...], None] = {}
    for inside in _PATH.findall(reply):
        names = [name.strip(_MARKS) for name in _BETWEEN.split(inside)]
        if len(names) == 1:
            names = [name.strip(_MARKS) for name in _ARROW.split(inside)]
        names = [name for name in names if name]
        if [name.casefold() for name in names] == [NO_RELATION]:
            found.setdefault(TEXT)
        elif names:
            found.setdefault(tuple(map(_hop, names)))
    return list(found)


def _hop(name: str) -> Hop:
    return Hop(name.removeprefix(BACKWARDS).strip(), "in") if name.startswith(BACKWARDS) else Hop(name)


LONGEST = 3
"""Hops of a path that a model proposes, unless told otherwise; a longer one is dropped."""


def checked(
    proposed: Sequence[tuple[tuple[Hop, ...], float]],
    schema: PathSchema,
    starts: Collection[str],
    most: int = 10,
    longest: int = LONGEST,
) -> Plan:
    """A plan of the paths that the schema allows from the types ``starts`` (empty: from any).

    Args:
        proposed: Paths with weights of any sum; the plan's probabilities are in proportion.
        schema: Says what is possible.
        starts: The types of the matched nodes.
        most: Paths that are kept.
        longest: Hops that a path may have.

    Every path is mended by the first of these that makes it possible, which the plan's notes say; else it is dropped:
    relations written otherwise (case, ``_`` for space) are named as the schema has them; hops are turned, the fewest.
    Where several walks through the types fit, its weight is shared.
    """
    shares: dict[RelationPath, float] = {}
    notes: list[str] = []
    for hops, weight in proposed:
        walks, note = _mended(hops, schema, starts, longest)
        if note:
            notes.append(note)
        for walk in walks:
            shares[walk] = shares.get(walk, 0.0) + weight / len(walks)
    best = sorted(shares.items(), key=lambda item: -item[1])[:most]
    total = sum(share for _, share in best)
    return Plan(
        tuple(PlannedPath(path, share / total) for path, share in best if total > 0),
        tuple(notes),
    )


def _mended(
    hops: Sequence[Hop], schema: PathSchema, starts: Collection[str], longest: int
) -> tuple[list[RelationPath], str]:
    written = _hops_text(hops)
    if not hops:
        return [TEXT_PATH], ""
    if len(hops) > longest:
        return [], f"dropped {written}: {len(hops)} hops, where {longest} are allowed"
    known = {_bare(relation): relation for relation in schema.relations}
    unknown = [
        hop.relation for hop in hops if hop.relation not in schema.relations and _bare(hop.relation) not in known
    ]
    if unknown:
        return [], f"dropped {written}: there is no relation {unknown[0]}"
    named = [hop if hop.relation in schema.relations else Hop(known[_bare(hop.relation)], hop.way) for hop in hops]
    for tried in _turned(named):
        if walks := schema.follow(tried, starts):
            return walks, "" if tuple(tried) == tuple(hops) else f"{written} became {_hops_text(tried)}"
    whence = f" from {' or '.join(sorted(starts))}" if starts else ""
    return [], f"dropped {written}: the schema has no such path{whence}"


def _bare(relation: str) -> str:
    return re.sub(r"[\W_]+", " ", relation.casefold()).strip()


def _turned(hops: Sequence[Hop]) -> Iterator[tuple[Hop, ...]]:
    for count in range(len(hops) + 1):
        for places in combinations(range(len(hops)), count):
            yield tuple(
                Hop(hop.relation, "in" if hop.way == "out" else "out") if place in places else hop
                for place, hop in enumerate(hops)
            )


def _hops_text(hops: Sequence[Hop]) -> str:
    return " / ".join(map(str, hops)) or "text"


MOST_REACHED = 10_000
"""Nodes that are followed of each hop of a path: hubs lead to a large part of the graph."""


def reached(skb: SKB, path: RelationPath, nodes: Sequence[str], limit: int = MOST_REACHED) -> NodeNumbers:
    """The nodes, ascending, that a path leads to from nodes of its first type; none for ``text``. Raises UnknownId."""
    if not path.hops:
        return np.zeros(0, np.int32)
    numbers = {skb.number(node) for node in nodes}
    found = np.array(sorted(number for number in numbers if skb.type(number) == path.start), np.int32)
    for hop, kind in zip(path.hops, path.types[1:], strict=True):
        step = graph.Hop(skb.relation_number(hop.relation), hop.way, skb.type_range(kind))
        found = skb.graph.expand(found, step, limit)
    return found


PlannerName = Literal["none", "in-context", "ranker", "seq2seq"]


def encoder_of(skb: SKB) -> Encoder:
    """The encoder of the SKB's vectors, else minilm. Raises UsageError where there is neither."""
    if skb.vectors is not None:
        return skb.vectors.encoder
    found = encoders.default(lambda _: None)
    if found is None:
        raise UsageError(f"the planner ranker needs an encoder: {skb.meta.name} has no vectors and minilm is not there")
    return found


class PlanOptions(Options):
    """Options of every system with a plan."""

    planner: PlannerName = "none"
    """What plans the relation paths."""
    trained: str = ""
    """Folder of a trained planner (``kbnav train ranker``); given alone, it is a ``ranker``."""
    matching: Variant = "hybrid"
    """How the nodes that the question names are found."""
    hops: int = Field(default=LONGEST, ge=1, le=4)
    """Links of a path that ``in-context`` plans at most; trained planners know paths of 2."""

    @property
    def nearest(self) -> int:
        """Nodes that are matched by meaning."""
        return NEAREST

    @model_validator(mode="before")
    @classmethod
    def _named_by_what_is_trained(cls, given: Any) -> Any:
        return {"planner": "ranker", **given} if isinstance(given, dict) and given.get("trained") else given

    @field_validator("trained")
    @classmethod
    def _of_one_that_learns(cls, value: str, info: ValidationInfo) -> str:
        if value and info.data.get("planner") in ("none", "in-context"):
            raise ValueError(f"the planner {info.data['planner']} is not trained; ranker and seq2seq are")
        return value


MOST_EDGES = 80
"""Edges between types that a prompt shows, the most frequent first."""
MOST_NODES = 20
PROPOSED = 3
"""Paths that are asked for, and kept."""


class InContext:
    """The planner. The model's paths count 1, 1/2, 1/3 in its order."""

    name = "in-context"

    def __init__(self, skb: SKB, calls: ModelCalls, longest: int) -> None:
        self._skb, self._calls, self._longest = skb, calls, longest
        self._schema = PathSchema.of(skb)

    @property
    def prompts(self) -> dict[str, str]:
        """SHA-256 of the prompt's file."""
        return prompt_hashes("planner")

    def plan(self, question: str, nodes: Sequence[str], trace: Trace | None = None) -> Plan:
        """The model's paths, checked against the schema; a note where there are none. Raises as ``ModelCalls.ask``."""
        numbers = [self._skb.number(node) for node in nodes]
        starts = {self._skb.type(number) for number in numbers}
        reply = self._calls.ask(self._prompt(question, numbers), trace or Trace(), purpose="relation paths")
        proposed = [(path, 1 / rank) for rank, path in enumerate(parse_paths(reply)[:PROPOSED], 1)]
        if not proposed:
            return Plan(notes=("the model's reply has no path",))
        return checked(proposed, self._schema, starts, longest=self._longest)

    def _prompt(self, question: str, nodes: Sequence[int]) -> str:
        first, second = Hop("relation"), Hop("other relation", "in")
        return render(
            "planner/paths.md",
            question=question,
            edges=self._shown,
            more=max(0, len(self._schema.edges) - MOST_EDGES),
            nodes=[{"name": self._skb.name(node), "kind": self._skb.type(node)} for node in nodes[:MOST_NODES]],
            one=path_text([first]),
            two=path_text([first, second]),
            by_text=path_text(TEXT),
            longest=self._longest,
            most=PROPOSED,
        )

    @cached_property
    def _shown(self) -> list[dict[str, Any]]:
        shown = sorted(self._schema.edges, key=lambda edge: -edge.edges)[:MOST_EDGES]
        return [{**one._asdict(), "example": example_edge(self._skb, *one[:3])} for one in shown]
