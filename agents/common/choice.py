"""Which agent answers questions of a knowledge base: the one that is named, or the knowledge base's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from kbnav.agents.common.agent import Agent
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.prices import needed_price
from kbnav.settings import systems
from kbnav.settings.model import Settings
from kbnav.settings.systems import GIVEN
from kbnav.tools.notes import read_notes


def build_agent(kb: KnowledgeBase, settings: Settings, system: str = "") -> Agent:
    """The agent ``system``; none named: the SKB agent for an SKB, SPINACH for anything with Wikidata's model.

    Raises UsageError for an unknown name or option, for one that takes from gold answers, and where the agent cannot
    work on this knowledge base or without a model, CredentialsError where its model needs a key.
    """
    name = system or systems.usual_agent(kb)
    wanted = systems.find(name, "agent").read(settings.options).from_gold
    if wanted:
        raise UsageError(f"{name} is given {GIVEN[wanted]} by kbnav eval alone: only a dataset's questions have them")
    return completed(settings, lambda one: cast("Agent", systems.build(name, kb, one, "agent")))


def completed(settings: Settings, build: Callable[[Settings], Agent], built: Agent | None = None) -> Agent:
    """The agent that is built of these settings, and beside it the one with the model that is asked where it fails.

    ``built`` is the first where that was built before. Raises UsageError where the settings want of it what it cannot
    do, and as ``build`` does.
    """
    agent = replace(built or build(settings), notes=read_notes(settings.notes))
    if settings.budget.dollars:
        needed_price(settings, "--max-dollars")
    if settings.checks.by == "model" and agent.critic is None:
        raise UsageError(f"{agent.name} with {agent.model} has no check by the model: take --verify rules, or off")
    if not settings.escalate:
        return agent
    stronger = settings.asking(settings.escalate).model_copy(update={"escalate": ""})
    return replace(agent, stronger=completed(stronger, build))
