"""The SKB agent: finds the nodes of a graph with documents that answer a question, and ranks them."""

from __future__ import annotations

from langchain_core.language_models import BaseChatModel

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import ANSWERS, ModelWriter, RankingEnding, write_plainly
from kbnav.agents.common.policy import ChatPolicy
from kbnav.agents.common.schema import Schema, hide_single_type
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB, as_skb
from kbnav.models.chat import open_models
from kbnav.settings.model import OFFLINE, Settings
from kbnav.tools.context import Shown, pruner
from kbnav.tools.skb import SKB_TOOLS
from kbnav.tools.toolbox import Toolbox

NAME = "skb"
ROWS = 10
"""Rows of a query's result that are shown from its beginning, and from its end."""
SHOWN = Shown(rows=ROWS)
LISTED = 1_000
"""Nodes up to which the rules list all that is asked for."""


def build_skb(kb: KnowledgeBase, settings: Settings) -> Agent:
    """The SKB agent with the settings' model: ``offline``, ``replay:RUN`` or a chat model. Raises UsageError."""
    skb = as_skb(kb, "the system skb")
    if settings.model == OFFLINE:
        return skb_offline(skb, settings)
    return skb_with(*open_models(settings), skb, settings)


def skb_with(policy_model: BaseChatModel, writer_model: BaseChatModel | None, kb: SkbKB, settings: Settings) -> Agent:
    """The SKB agent on any LangChain chat model; without a ``writer_model`` entries are ranked and answers plain."""
    toolbox = Toolbox.for_kb(kb, SKB_TOOLS, without=settings.without_tools, more=settings.own_tools)
    policy = ChatPolicy(
        policy_model,
        hide_single_type(toolbox, kb),
        "skb/policy.md",
        settings.budget,
        notice="skb/notice.md",
        about=Schema(kb),
        answers=ANSWERS,
    )
    return Agent(
        name=NAME,
        model=settings.model,
        kb=kb,
        settings=settings,
        policy=policy,
        toolbox=toolbox,
        ending=RankingEnding(ModelWriter(writer_model) if writer_model else write_plainly, kb.named),
        prune=pruner(settings, None, SHOWN),
        prompts=("skb",),
        shown=SHOWN,
    )


def skb_offline(kb: SkbKB, settings: Settings) -> Agent:
    """The same graph and tools with no language model: a baseline that needs no key."""
    from kbnav.agents.offline.skb import PreparedSkb, SkbAgenda

    toolbox = Toolbox.for_kb(kb, SKB_TOOLS, without=settings.without_tools, more=settings.own_tools)
    prepared = PreparedSkb(kb, LISTED)
    return Agent(
        name=NAME,
        model=OFFLINE,
        kb=kb,
        settings=settings,
        policy=lambda state, context: SkbAgenda(toolbox, prepared, state, context).reply(),
        toolbox=toolbox,
        ending=RankingEnding(write_plainly, kb.named),
        prune=pruner(settings, None, SHOWN),
        shown=Shown(rows=ROWS, whole_rows=LISTED, whole_bytes=LISTED * 200),
    )
