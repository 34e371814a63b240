"""The SPINACH agent: explores Wikidata as an expert would, and writes SPARQL (SPINACH, section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import QueryEnding
from kbnav.agents.common.writers import ModelWriter, write_plainly
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.models.policy import ChatPolicy
from kbnav.settings import Settings
from kbnav.tools.observation import Shown
from kbnav.tools.prune import pruner
from kbnav.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def build_spinach(kb: KnowledgeBase, settings: Settings) -> Agent:
    """SPINACH with the settings' model: ``offline``, ``replay:RUN``, or a chat model by its name."""
    if settings.model == "offline":
        return spinach_offline(kb, settings)
    from kbnav.models.chat import open_models

    return spinach_with(*open_models(settings), kb, settings)


def spinach_with(
    policy_model: BaseChatModel, writer_model: BaseChatModel | None, kb: KnowledgeBase, settings: Settings
) -> Agent:
    """SPINACH on any LangChain chat model; without a ``writer_model``, entries are ranked and answers are plain."""
    toolbox, shown = Toolbox.for_kb(kb, without=settings.without_tools), Shown()
    return Agent(
        name="spinach",
        model=settings.model,
        kb=kb,
        settings=settings,
        policy=ChatPolicy(policy_model, toolbox, "spinach/policy.md", settings.budget, partial=is_mirror(kb.state())),
        toolbox=toolbox,
        ending=QueryEnding(ModelWriter(writer_model, shown) if writer_model else write_plainly),
        prune=pruner(settings, writer_model, shown),
        prompts=("spinach",),
    )


def spinach_offline(kb: KnowledgeBase, settings: Settings) -> Agent:
    """The same graph and tools with no language model: a baseline that needs no key."""
    from kbnav.models.offline.wikidata.policy import OfflinePolicy

    toolbox = Toolbox.for_kb(kb, without=settings.without_tools)
    return Agent(
        name="spinach",
        model="offline",
        kb=kb,
        settings=settings,
        policy=OfflinePolicy(toolbox),
        toolbox=toolbox,
        ending=QueryEnding(write_plainly),
        prune=pruner(settings, None, Shown()),
    )
