"""Which agent answers questions of a knowledge base: the one that is named, or the knowledge base's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.options import WALKERS
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.options import Options, read_options
from kbnav.settings import Settings

AGENTS: Mapping[str, str] = MappingProxyType(
    {name: f"kbnav.agents.{name}" for name in ("spinach", "skb", "pasemiqa", "tog", "rog", "gog")}
)
"""Modules by the name of their agent; each has ``build_<name>(kb, settings)``."""


def build_agent(kb: KnowledgeBase, settings: Settings, system: str = "") -> Agent:
    """The agent ``system``; none named: the SKB agent for an SKB, SPINACH for anything with Wikidata's model.

    Raises UsageError for an unknown name or option and where the agent cannot work on this knowledge base or without a
    model, CredentialsError where its model needs a key.
    """
    from kbnav.knowledge.skb.kb import SkbKB

    name = system or ("skb" if isinstance(kb, SkbKB) else "spinach")
    if name not in AGENTS:
        raise UsageError(f"no agent {name!r}; known: {', '.join(AGENTS)}")
    options = read_options(WALKERS.get(name, Options), settings.options, name).model_dump(mode="json")
    build: Callable[[KnowledgeBase, Settings], Agent] = getattr(import_module(AGENTS[name]), f"build_{name}")
    return build(kb, settings.model_copy(update={"options": options}))
