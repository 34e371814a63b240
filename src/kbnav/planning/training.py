"""What planners learn from: questions with the relation paths that lead to their answers (PASemiQA, equation 3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
from pydantic import Field

from kbnav.errors import DataError
from kbnav.knowledge.skb.graph import NodeNumbers
from kbnav.knowledge.skb.matching import NodeMatcher, Variant
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import TEXT_PATH, Hop, PathSchema, RelationPath, Way, reached
from kbnav.settings.systems import Options

Weighing = Literal["uniform", "likelihood"]
"""How the paths of a label are weighed: see ``path_label``."""
MOST_ANSWERS = 50
"""Gold answers of one question that paths are looked for to."""
Gold = tuple[RelationPath, ...]
"""A right path; several where a relation may be followed either way, which count as one."""
_WAYS: tuple[Way, ...] = get_args(Way)


class PlannerOptions(Options):
    """How a planner is trained."""

    matching: Variant = "hybrid"
    """How the nodes are found that a question names."""
    nearest: int = Field(default=10, ge=1)
    """Nodes that are found by meaning (pasemiqa's K)."""
    weighing: Weighing = "likelihood"
    """How the paths to a question's answers are weighed; uniform in PASemiQA."""
    seed: int = 0
    """Of all that is drawn."""


@dataclass(frozen=True)
class Example:
    """A question, its matched nodes' ids and types, and its distribution over paths."""

    question: str
    nodes: tuple[str, ...] = ()
    starts: frozenset[str] = frozenset()
    label: Mapping[RelationPath, float] = field(default_factory=dict)

    @property
    def text_only(self) -> bool:
        """Whether no path of relations is right."""
        return set(self.label) <= {TEXT_PATH}


@dataclass(frozen=True)
class LabelledQuestion:
    """A question with its gold answers, as node ids; ``paths`` are those it was made from, where that is known."""

    text: str
    answers: Sequence[str]
    paths: Sequence[Gold] = ()
    id: str = ""


def made_from(meta: Mapping[str, Any]) -> tuple[Gold, ...]:
    """The gold paths in the record of a synthesized question, each once; none where it has none.

    Of a relation that may be followed either way, as the record of a symmetric one says (``both``), one path goes out
    and one in. Raises DataError where they are not ``{"hops": [[relation, way], …], "types": […]}``.
    """
    try:
        found = [
            tuple(RelationPath(hops, tuple(one["types"])) for hops in product(*(_ways(*hop) for hop in one["hops"])))
            for one in meta.get("paths", ())
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"a question's paths are not relation paths: {error!r}") from error
    return tuple(dict.fromkeys(found))


def _ways(relation: str, way: str) -> list[Hop]:
    found = [Hop(relation, one) for one in _WAYS if way in (one, "both")]
    if not found:
        raise ValueError(f"{relation} is followed {way!r}")
    return found


def examples(
    questions: Iterable[LabelledQuestion],
    skb: SKB,
    matcher: NodeMatcher,
    weighing: Weighing = "likelihood",
) -> Iterator[Example]:
    """The questions with their matched nodes and labels; answers that the SKB lacks are left out.

    ``weighing`` is that of ``path_label``. Questions of which no right path is known are left out.
    """
    schema = PathSchema.of(skb)
    for question in questions:
        matched = matcher.match(question.text)
        nodes = [skb.number(node.id) for node in matched]
        named = any(node.how != "embedding" for node in matched)
        answers = [number for number in map(skb.nodes.ids.find, question.answers) if number >= 0]
        label = path_label(skb, schema, nodes, answers[:MOST_ANSWERS], weighing, named=named)
        if label:
            yield Example(question.text, tuple(map(skb.id, nodes)), frozenset(map(skb.type, nodes)), label)


def possible(gold: Gold, schema: PathSchema) -> Gold:
    """A gold path as the schema has it, where it does: what is stored both ways is followed ``out`` only."""
    walks = [walk for path in gold for walk in schema.follow(path.hops, path.types[:1]) if walk.types == path.types]
    return tuple(dict.fromkeys(walks)) or gold


def path_label(
    skb: SKB,
    schema: PathSchema,
    nodes: Sequence[int],
    answers: Sequence[int],
    weighing: Weighing = "likelihood",
    *,
    named: bool = True,
) -> dict[RelationPath, float]:
    """The target distribution over the shortest paths from each matched node to each answer, of 1 or 2 hops.

    ``uniform`` is PASemiQA's equation 3. With ``likelihood`` a path counts by how probable it makes the answers: for
    every node and answer that it links, 1 over the number of nodes it leads to from there (equation 2). So the many
    paths that lead somehow from a wrongly matched node to the answers, and to thousands of others, hardly count.

    ``text`` alone is right where the question names no node (``named`` is False, the nodes are the nearest by meaning)
    and an answer is among its nodes, or none is linked to an answer; and where every node is itself an answer. Empty,
    as no path is known, without answers, and where nodes are named that are more than two hops from every answer.
    """
    if not answers:
        return {}
    if not named and not set(nodes).isdisjoint(answers):
        return {TEXT_PATH: 1.0}
    weights: defaultdict[RelationPath, float] = defaultdict(float)
    for node in nodes:
        counts = Counter(path for answer in answers for path in shortest_paths(skb, schema, node, answer))
        for path, count in counts.items():
            weights[path] += count / len(reached(skb, path, [skb.id(node)])) if weighing == "likelihood" else 1.0
    if not weights:
        return {} if named and not set(nodes) <= set(answers) else {TEXT_PATH: 1.0}
    if weighing == "uniform":
        return dict.fromkeys(sorted(weights), 1.0 / len(weights))
    total = sum(weights.values())
    return {path: weight / total for path, weight in sorted(weights.items())}


def shortest_paths(skb: SKB, schema: PathSchema, source: int, target: int) -> set[RelationPath]:
    """The relation paths of the shortest walks between two nodes; none where they are the same or over 2 hops apart."""
    if source == target:
        return set()
    walks = [
        RelationPath((first,), (skb.type(source), skb.type(target)))
        for first, nodes in _by_hop(skb, source)
        if (nodes == target).any()
    ] or list(_over_one_node(skb, source, target))
    return {path for walk in walks for path in schema.follow(walk.hops, walk.types[:1]) if path.types == walk.types}


def _over_one_node(skb: SKB, source: int, target: int) -> Iterator[RelationPath]:
    """Each pair of hops that a node between the two allows, by the type of that node."""
    between = np.intersect1d(skb.graph.neighbors(source), skb.graph.neighbors(target), assume_unique=True)
    firsts = [(hop, np.intersect1d(nodes, between, assume_unique=True)) for hop, nodes in _by_hop(skb, source)]
    lasts = [(hop, np.intersect1d(nodes, between, assume_unique=True)) for hop, nodes in _by_hop(skb, target)]
    ends = np.array(skb.nodes.type_start[1:])
    for first, here in firsts:
        for last, there in lasts:
            shared = np.intersect1d(here, there, assume_unique=True)
            for kind in np.unique(np.searchsorted(ends, shared, "right")).tolist():
                types = skb.type(source), skb.type_names[kind], skb.type(target)
                yield RelationPath((first, Hop(last.relation, "in" if last.way == "out" else "out")), types)


def _by_hop(skb: SKB, node: int) -> Iterator[tuple[Hop, NodeNumbers]]:
    for way in _WAYS:
        for relation in np.flatnonzero(np.bincount(skb.graph.row(node, way).relations)).tolist():
            yield Hop(skb.relation_names[relation], way), skb.graph.row(node, way, relation).nodes
