"""The SKB agent: finds the nodes of a graph with documents that answer a question, and ranks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.ranking import RankingEnding
from kbnav.agents.common.writers import RankingWriter, write_ranking_plainly
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB, as_skb
from kbnav.models.policy import ChatPolicy
from kbnav.settings import Settings
from kbnav.tools.observation import Shown
from kbnav.tools.prune import pruner
from kbnav.tools.skb import (
    execute_query,
    finish,
    get_entry,
    get_property_examples,
    search_entities,
    search_neighbors,
    vector_query,
)
from kbnav.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

NAME = "skb"
ANSWERS = 20
"""Nodes that an answer may have: what recall@20 looks at."""
SKB_TOOLS = (
    search_entities,
    get_entry,
    get_property_examples,
    search_neighbors,
    vector_query,
    execute_query,
    finish,
)
SHOWN = Shown(rows=ANSWERS // 2)
_TUPLES = 100
"""Kinds of edges that the prompt lists."""
_EXAMPLES = 3
"""Nodes of each type that the prompt names."""


def build_skb(kb: KnowledgeBase, settings: Settings) -> Agent:
    """The SKB agent with the settings' model: ``offline``, ``replay:RUN``, or a chat model by its name.

    Raises UsageError where the KB is no SKB.
    """
    skb = as_skb(kb, "the system skb")
    if settings.model == "offline":
        return skb_offline(skb, settings)
    from kbnav.models.chat import open_models

    return skb_with(*open_models(settings), skb, settings)


def skb_with(policy_model: BaseChatModel, writer_model: BaseChatModel | None, kb: SkbKB, settings: Settings) -> Agent:
    """The SKB agent on any LangChain chat model; without a ``writer_model`` entries are ranked and answers plain."""
    toolbox = Toolbox.for_kb(kb, SKB_TOOLS, without=settings.without_tools, more=settings.with_tools)
    policy = ChatPolicy(
        policy_model, toolbox, "skb/policy.md", settings.budget, notice="skb/notice.md", answers=ANSWERS, **schema(kb)
    )
    return Agent(
        name=NAME,
        model=settings.model,
        kb=kb,
        settings=settings,
        policy=policy,
        toolbox=toolbox,
        ending=RankingEnding(RankingWriter(writer_model) if writer_model else write_ranking_plainly, kb.entities),
        prune=pruner(settings, writer_model, SHOWN, "skb/prune.md"),
        prompts=("skb",),
        shown=SHOWN,
    )


def skb_offline(kb: SkbKB, settings: Settings) -> Agent:
    """The same graph and tools with no language model: a baseline that needs no key."""
    from kbnav.models.offline.skb.policy import SkbOfflinePolicy

    toolbox = Toolbox.for_kb(kb, SKB_TOOLS, without=settings.without_tools, more=settings.with_tools)
    return Agent(
        name=NAME,
        model="offline",
        kb=kb,
        settings=settings,
        policy=SkbOfflinePolicy(kb, toolbox),
        toolbox=toolbox,
        ending=RankingEnding(write_ranking_plainly, kb.entities),
        prune=pruner(settings, None, SHOWN),
        shown=SHOWN,
    )


def schema(kb: SkbKB) -> dict[str, Any]:
    """What the prompt says of an SKB: sizes, types with examples, and which relation links which types how often."""
    meta = kb.skb.meta
    tuples = sorted(meta.tuples, key=lambda one: -one.count)
    types = [
        {"name": kind.name, "count": kind.count, "examples": _examples(kb, start, kind.count)}
        for kind, start in zip(meta.types, meta.type_start, strict=False)
    ]
    return {
        "nodes": meta.nodes,
        "edges": meta.edges,
        "types": types,
        "tuples": tuples[:_TUPLES],
        "more_tuples": max(0, len(tuples) - _TUPLES),
    }


def _examples(kb: SkbKB, start: int, count: int) -> Sequence[str]:
    """Names from the beginning, the middle and the end of a type's nodes."""
    places = sorted({start + count * part // _EXAMPLES for part in range(_EXAMPLES)}) if count else []
    return [" ".join(kb.skb.nodes.label(node).split())[:60] for node in places if node < start + count]
