"""Which agent answers questions of a knowledge base: the one that is named, or the knowledge base's own."""

from __future__ import annotations

from typing import cast

from kbnav import systems
from kbnav.agents.common.agent import Agent
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.options import GIVEN
from kbnav.settings import Settings


def build_agent(kb: KnowledgeBase, settings: Settings, system: str = "") -> Agent:
    """The agent ``system``; none named: the SKB agent for an SKB, SPINACH for anything with Wikidata's model.

    Raises UsageError for an unknown name or option, for one that takes from gold answers, and where the agent cannot
    work on this knowledge base or without a model, CredentialsError where its model needs a key.
    """
    name = system or systems.usual_agent(kb)
    wanted = systems.find(name, "agent").read(settings.options).from_gold
    if wanted:
        raise UsageError(f"{name} is given {GIVEN[wanted]} by kbnav eval alone: only a dataset's questions have them")
    agent = cast("Agent", systems.build(name, kb, settings, "agent"))
    if settings.checks.by == "model" and agent.critic is None:
        raise UsageError(f"{name} with {agent.model} has no check by the model: take --verify rules, or off")
    return agent
