"""Demonstrations for the agents that walk, from questions made of their SKB: the way to the answer is known."""

from __future__ import annotations

from collections.abc import Iterator

from kbnav.agents.common.demonstrations import Demonstration
from kbnav.evaluation.synthesis.sampling import Wanted, synthesize
from kbnav.evaluation.synthesis.templates import Route, Synthesized
from kbnav.knowledge.base import INVERSE
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.runs.trajectory import Fact
from kbnav.tools.walking import end_text, fact_text, relation_text

_SEED = 20_061
"""Of its own, so that they are not the first questions that ``kbnav eval synthesize`` makes."""
_NAMED = 5


def make_demonstrations(kb: SkbKB, count: int) -> list[Demonstration]:
    """So many made questions with their walks as steps, different ones first, the same each time.

    They are fewer where the SKB does not give so many.

    Raises UsageError as ``synthesize``.
    """
    made, _ = synthesize(kb.skb, Wanted(test=0, train=count, seed=_SEED))
    templates = [one.template for one in made]
    turns = [templates[:place].count(template) for place, template in enumerate(templates)]
    made = [made[place] for place in sorted(range(len(made)), key=turns.__getitem__)]
    return [Demonstration(question=one.question, steps=tuple(_steps(kb, one)), answer=_answer(kb, one)) for one in made]


def _steps(kb: SkbKB, made: Synthesized) -> Iterator[str]:
    for route in made.paths:
        yield f"Begin at {_end(kb, route.start)}, which the question names."
        yield from (f"Follow {relation_text(fact)}: {fact_text(fact)}." for fact in _facts(kb, route))
    for kind, relation, way in made.without:
        end = "points to it" if way == "out" else "is pointed to by it" if way == "in" else "is linked to it"
        yield f"Leave out every node for which a {kind} {end} by {kb.relations.display(relation)}."
    if made.text:
        yield f"Of the {made.candidates} found, keep those whose documents say: {made.text}"


def _facts(kb: SkbKB, route: Route) -> Iterator[Fact]:
    """The walk's links; an edge that has no direction of its own is told as it was walked."""
    for place, (relation, way) in enumerate(route.hops):
        source, target = route.walk[place : place + 2]
        name = f"{INVERSE if way == 'in' else ''}{kb.relations.display(relation)}"
        yield Fact(source, name, target, source_name=_label(kb, source), target_name=_label(kb, target))


def _answer(kb: SkbKB, made: Synthesized) -> str:
    """The node that the steps lead to, then others."""
    nodes = list(dict.fromkeys((made.gold, *made.answers)))
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return ", ".join(_end(kb, node) for node in nodes[:_NAMED]) + more


def _end(kb: SkbKB, node: str) -> str:
    return end_text(node, _label(kb, node))


def _label(kb: SkbKB, node: str) -> str:
    return kb.skb.nodes.label(kb.skb.number(node))
