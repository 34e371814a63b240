"""GoG, Generate-on-Graph (Xu et al., EMNLP 2024): the model searches a graph, and supplies links that it lacks.

What it supplies is marked as generated in every result, in the answer's note and text, and node by node in the ranking.
That the answer is unknown after something was generated takes the generation back, and the search goes a hop further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import ANSWERS, looked_at, named_by
from kbnav.agents.common.policy import ChatPolicy, read_demonstrations
from kbnav.agents.common.schema import Schema
from kbnav.agents.common.state import Policy, Reply, State, all_steps
from kbnav.agents.walking.base import (
    PROMPTS,
    Models,
    Planned,
    WalkEnding,
    call_for,
    describer,
    open_match,
    open_walking_models,
)
from kbnav.agents.walking.options import GogOptions
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.runs.trajectory import Call, Step, Turn
from kbnav.settings.model import Settings
from kbnav.tools.context import Context
from kbnav.tools.skb import find_relations, finish, read_document, search_entities
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.walking import GeneratingTools, PlanningTools, WalkingTools, search_further

NAME = "gog"
GENERATE = "generate"
FURTHER = search_further.__name__
TRIED = (GENERATE, FURTHER)
"""What must have been tried before an answer may be unknown."""
ROUNDS = 3
"""How often a generation that did not lead to an answer is taken back (GoG, section 3)."""
_KNOWN_AS = {"shown": "a graph of nodes, each with a type and a document", "none": "a graph of nodes, each with a type"}
_WIDE = 3
"""Nodes that a search further out looks at."""


@dataclass(frozen=True)
class GogPolicy:
    """Lets a model choose; after a generation that was taken back, looks one hop further by itself."""

    then: Policy
    toolbox: Toolbox

    def __call__(self, state: State, context: Context) -> Reply:
        """One turn."""
        taken = all_steps(state)
        last = taken[-1] if taken else None
        if last and last.dropped == "premature finish" and not named_by(last.call):
            wide = frontier(state["path"])[:_WIDE] if _since_further(taken) else []
            if wide:
                thought = "What was generated led to no answer; the search goes one hop further."
                return call_for(state, self.toolbox, [(FURTHER, thought, {"entity_ids": wide})])
        # Where steps came behind a generation the rollback has not reached it: it is out of the model's sight then.
        undone = max((step.number for step in state["path"] if step.call.tool == FURTHER), default=0)
        path = [step for step in state["path"] if step.call.tool != GENERATE or step.number > undone]
        return self.then(State(**{**state, "path": path}), context)


@dataclass(frozen=True)
class GogEnding(WalkEnding):
    """That the answer is unknown counts once a generation was tried, and taken back as often as may be."""

    def premature(self, finish: Call, path: Sequence[Step], history: Sequence[Turn]) -> bool:
        """See ``WalkEnding``."""
        if super().premature(finish, path, history):
            return True
        if named_by(finish) or not _since_further(path):
            return False
        return sum(step.call.tool == FURTHER for step in path) < ROUNDS and bool(frontier(path))


def _since_further(steps: Sequence[Step]) -> bool:
    begun = max((step.number for step in steps if step.call.tool == FURTHER), default=0)
    return any(step.call.tool == GENERATE and step.number > begun for step in steps)


def frontier(path: Sequence[Step]) -> list[str]:
    """Nodes that the graph has shown and nobody has looked at, those shown last first."""
    looked = {node for step in path for node in looked_at(step.call.arguments)}
    shown = [node for step in reversed(path) if step.call.tool != GENERATE for node in step.nodes]
    return [node for node in dict.fromkeys(shown) if node not in looked]


def build_gog(kb: KnowledgeBase, settings: Settings, options: GogOptions, models: Models | None = None) -> Agent:
    """GoG by the settings' model, or by ``models``, whose policy can call tools. Raises UsageError where is none."""
    models = models or open_walking_models(settings, NAME)
    if isinstance(kb, SkbKB) and options.documents == "none":
        kb = kb.without_documents()
    skb = kb if isinstance(kb, SkbKB) else None
    walking = WalkingTools(models.ask, options.k, options.short)
    generating = GeneratingTools(models.ask, options.samples)
    first = (find_relations,) if skb else (search_entities,)
    read = (read_document,) if skb and options.documents == "shown" else ()
    tools = (*first, walking.search_neighbors, *read, generating.generate, finish)
    model_tools = Toolbox.for_kb(kb, tools, without=settings.without_tools, more=settings.own_tools)
    own = (*((PlanningTools(skb).plan,) if skb else ()), search_further, *tools)
    toolbox = Toolbox.for_kb(kb, own, without=settings.without_tools, more=settings.own_tools)
    demonstrations = read_demonstrations(options.demonstrations)
    policy: Policy = ChatPolicy(
        models.policy,
        model_tools,
        "gog/policy.md",
        settings.budget,
        notice="gog/notice.md",
        about=demonstrations.about(Schema(skb) if skb else None),
        skb=skb is not None,
        what=_KNOWN_AS[options.documents] if skb else "Wikidata",
        keep=options.k,
        answers=ANSWERS,
    )
    policy = GogPolicy(policy, toolbox)
    if skb:
        policy = Planned(open_match(skb, options.matching), None, policy, toolbox, 0)
    return Agent(
        name=NAME,
        model=settings.model,
        kb=kb,
        settings=settings,
        policy=policy,
        toolbox=toolbox,
        ending=GogEnding(
            models.write,
            describer(kb),
            tabled=skb is None,
            tried=TRIED if GENERATE in model_tools.names else (),
        ),
        prompts=(NAME, PROMPTS, "skb"),
        model_tools=model_tools,
        demonstrations=demonstrations,
    )
