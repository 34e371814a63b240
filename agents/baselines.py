"""Baselines: the model's own knowledge, and one SPARQL query that is executed (SPINACH, section 5.3).

With ``entities=gold`` the prompt of ``one-query`` has the gold query's entities, as WikiSP was given them (the third
baseline).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import QueryEnding, write_plainly
from kbnav.agents.common.state import Reply, State
from kbnav.agents.walking.base import (
    CallSpec,
    Models,
    WalkEnding,
    answer_lines,
    call_for,
    describer,
    fixed_agent,
    open_walking_models,
    question_in_chat,
)
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.calls import Ask
from kbnav.prompts import render
from kbnav.runs.trajectory import FINISH, QUERY, Trace
from kbnav.settings.model import Settings
from kbnav.settings.systems import kb_kind
from kbnav.tools import skb, spinach_paper
from kbnav.tools.context import Context, Shown
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.walking import recall

_FENCED = re.compile(r"```(?:sparql)?\s*\n?(.*?)```", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class DirectPolicy:
    """One prompt, then the names it gave: those that are the very name of an entity stand for it."""

    ask: Ask
    toolbox: Toolbox

    def __call__(self, state: State, context: Context) -> Reply:  # noqa: ARG002 - part of the protocol
        """The model's answers, then the end."""
        if state["path"]:
            said = "The model's own knowledge."
            return call_for(state, self.toolbox, [(FINISH, said, {"nodes": list(state["path"][-1].nodes)})])
        trace = Trace()
        text = self.ask(render("direct/answer.md", question=question_in_chat(state)), trace, purpose="answer")
        names = list(dict.fromkeys(answer_lines(text)))
        return call_for(state, self.toolbox, [("recall", "Nothing is looked up.", {"answers": names})], trace.usage)


def build_direct(kb: KnowledgeBase, settings: Settings, models: Models | None = None) -> Agent:
    """The first baseline by the settings' model, or by ``models``. Raises UsageError where there is none."""
    models = models or open_walking_models(settings, "direct")
    toolbox = Toolbox.for_kb(kb, (recall, skb.finish))
    ending = WalkEnding(write_plainly, describer(kb), tabled=kb_kind(kb) != "skb")
    return fixed_agent("direct", DirectPolicy(models.ask, toolbox), toolbox, ending, kb, settings, "direct")


@dataclass(frozen=True)
class OneQueryPolicy:
    """One prompt, one query, and the end; a query without rows is no answer."""

    ask: Ask
    toolbox: Toolbox

    def __call__(self, state: State, context: Context) -> Reply:
        """The query, then the end where it has rows."""
        if state["path"]:
            done: list[CallSpec] = [(FINISH, "The query was executed.", {})] if state["path"][-1].rows else []
            return call_for(state, self.toolbox, done)
        prompt = render("one_query/query.md", question=question_in_chat(state), entities=list(context.given.items()))
        trace = Trace()
        text = self.ask(prompt, trace, purpose="write a query")
        fenced = _FENCED.search(text)
        query = (fenced[1] if fenced else text).strip()
        given = f", the gold query's entities given: {', '.join(context.given)}" if context.given else ""
        return call_for(state, self.toolbox, [(QUERY, f"The one query{given}.", {"query": query})], trace.usage)


def build_one_query(kb: KnowledgeBase, settings: Settings, models: Models | None = None) -> Agent:
    """The second baseline by the settings' model, or by ``models``. Raises UsageError where there is none."""
    models = models or open_walking_models(settings, "one-query")
    toolbox = Toolbox.for_kb(kb, (spinach_paper.execute_query, spinach_paper.finish))
    ending, policy = QueryEnding(write_plainly, last_executed=True), OneQueryPolicy(models.ask, toolbox)
    shown = Shown(whole_rows=0, profiles=False)
    return fixed_agent("one-query", policy, toolbox, ending, kb, settings, "one_query", shown=shown)
