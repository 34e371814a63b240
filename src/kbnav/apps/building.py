"""Systems by their names, agents or retrievers, and what a retriever of many is asked with."""

from __future__ import annotations

from kbnav.agents.common.agent import Agent, build_agent
from kbnav.knowledge.base import KnowledgeBase
from kbnav.retrieval.base import Retriever, build_retriever
from kbnav.settings import systems
from kbnav.settings.model import Settings


def build_system(kb: KnowledgeBase, settings: Settings, name: str) -> Agent | Retriever:
    """Raises as ``build_agent`` and ``build_retriever``."""
    kind = systems.find(name).kind or systems.built_kind(name, systems.build(name, kb, settings))
    return build_retriever(name, kb, settings) if kind == "retriever" else build_agent(kb, settings, name)


def asking(settings: Settings, name: str, *, alone: bool) -> Settings:
    """The settings with a retriever's options: those that are set where it is ``alone``, for they fit no other.

    An agent's are left as they are. Raises UsageError for an unknown system or option.
    """
    entry = systems.find(name)
    if entry.kind != "retriever":
        return settings
    options = entry.read(settings.options if alone else {})
    return settings.model_copy(update={"options": options.model_dump(mode="json")})
