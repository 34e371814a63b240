"""PASemiQA: a plan of relation paths, then an agent that walks the graph and its documents by it (section 4)."""

from __future__ import annotations

from dataclasses import replace

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import ANSWERS
from kbnav.agents.common.policy import ChatPolicy, read_demonstrations
from kbnav.agents.common.schema import Schema, hide_single_type
from kbnav.agents.skb import skb_offline
from kbnav.agents.walking.base import PROMPTS, Models, Planned, WalkEnding, open_match, open_walking_models
from kbnav.agents.walking.options import PasemiqaOptions, open_planner
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.planning.paths import Planner
from kbnav.settings.model import OFFLINE, Settings
from kbnav.tools.skb import find_relations, finish, read_document
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.walking import PlanningTools, TextQuery, WalkingTools

NAME = "pasemiqa"
_PATHS = 5
"""Paths of the plan that the model is shown."""


def build_pasemiqa(
    kb: SkbKB,
    settings: Settings,
    options: PasemiqaOptions,
    models: Models | None = None,
    planner: Planner | None = None,
) -> Agent:
    """PASemiQA by the settings' model and the options' planner, or by those given; offline by rules without a plan.

    Raises UsageError.
    """
    if settings.model == OFFLINE:
        if options.planner != "none":
            raise UsageError("the offline policy follows no plan: name a model (--model, model=) or no planner")
        return replace(skb_offline(kb, settings), name=NAME)
    models = models or open_walking_models(settings, NAME)
    # T rounds and the plan before them, where the budget allows as many steps.
    budget = settings.budget.model_copy(update={"steps": min(settings.budget.steps, options.rounds + 1)})
    if options.preset == "paper":  # one call a round, finish among them
        budget = budget.model_copy(update={"without": (*budget.without, "parallel", "free_finish")})
    settings = settings.model_copy(update={"budget": budget})
    walking = WalkingTools(models.ask, options.k, options.short)
    query = TextQuery(kb, options.k, cosine=options.query == "cosine")
    read = () if options.preset == "paper" else (read_document,)
    tools = (walking.search_neighbors, find_relations, query.vector_query, *read, finish)
    own, also = (PlanningTools(kb).plan, *tools), query.capabilities
    model_tools = Toolbox.for_kb(kb, tools, without=settings.without_tools, more=settings.own_tools, also=also)
    model_tools = hide_single_type(model_tools, kb)
    toolbox = Toolbox.for_kb(kb, own, without=settings.without_tools, more=settings.own_tools, also=also)
    match = open_match(kb, options.matching, options.nearest)
    planner = planner or open_planner(options, kb.skb, settings)
    demonstrations = read_demonstrations(options.demonstrations)
    policy = ChatPolicy(
        models.policy,
        model_tools,
        "pasemiqa/policy.md",
        budget,
        notice="pasemiqa/notice.md",
        planned=planner is not None,
        found=options.k,
        about=demonstrations.about(Schema(kb)),
        keep=options.k,
        answers=ANSWERS,
        steps=budget.steps - 1,
        free_finish=budget.holds("free_finish"),
    )
    return Agent(
        name=NAME,
        model=settings.model,
        kb=kb,
        settings=settings,
        policy=Planned(match, planner, policy, toolbox, _PATHS),
        toolbox=toolbox,
        ending=WalkEnding(models.write, kb.entities),
        prompts=(NAME, PROMPTS, "skb", "planner"),
        model_tools=model_tools,
        demonstrations=demonstrations,
    )
