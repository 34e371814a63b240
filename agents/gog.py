"""GoG, Generate-on-Graph (Xu et al., EMNLP 2024): the model searches a graph, and supplies links that it lacks.

What it supplies is marked as generated in every result, in the answer's note and text, and node by node in the ranking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.options import GogOptions
from kbnav.agents.common.planned import Planned, open_match
from kbnav.agents.common.walking import ANSWERS, PROMPTS, WalkEnding, describer, open_walking_models
from kbnav.agents.common.writers import RankingWriter, write_ranking_plainly
from kbnav.agents.machine import Policy
from kbnav.agents.skb import schema
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.models.policy import ChatPolicy
from kbnav.options import read_options
from kbnav.settings import Settings
from kbnav.tools.observation import Shown
from kbnav.tools.planning import PlanningTools
from kbnav.tools.prune import prune_by_ranking
from kbnav.tools.skb import finish, search_entities
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.walking import Ask, WalkingTools

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

NAME = "gog"
GENERATE = "generate"


def build_gog(kb: KnowledgeBase, settings: Settings) -> Agent:
    """GoG with the settings' model and options. Raises UsageError where there is no model."""
    models = open_walking_models(settings, NAME)
    return gog_with(models.policy, models.ask, models.writer, kb, settings)


def gog_with(
    model: BaseChatModel, ask: Ask, writer: BaseChatModel | None, kb: KnowledgeBase, settings: Settings
) -> Agent:
    """GoG on any chat model that can call tools; without a ``writer`` answers are plain."""
    options = read_options(GogOptions, settings.options, NAME)
    skb = kb if isinstance(kb, SkbKB) else None
    walking = WalkingTools(ask, options.k)
    tools = (*(() if skb else (search_entities,)), walking.search_neighbors, walking.generate, finish)
    offered = Toolbox.for_kb(kb, tools, without=settings.without_tools)
    toolbox = offered
    policy: Policy = ChatPolicy(
        model,
        offered,
        "gog/policy.md",
        settings.budget,
        notice="gog/notice.md",
        skb=skb is not None,
        what="a graph of nodes, each with a type and a document" if skb else "Wikidata",
        keep=options.k,
        answers=ANSWERS,
        **(schema(skb) if skb else {}),
    )
    if skb:
        toolbox = Toolbox.for_kb(kb, (PlanningTools(skb).plan, *tools), without=settings.without_tools)
        policy = Planned(open_match(skb, options.matching), None, policy, toolbox, 0)
    return Agent(
        name=NAME,
        model=settings.model,
        kb=kb,
        settings=settings,
        policy=policy,
        toolbox=toolbox,
        ending=WalkEnding(
            RankingWriter(writer) if writer else write_ranking_plainly,
            describer(kb),
            tabled=skb is None,
            tried=GENERATE if GENERATE in offered.names else "",
        ),
        prune=prune_by_ranking(Shown()),
        prompts=(NAME, PROMPTS, "skb"),
        offered=offered,
    )
