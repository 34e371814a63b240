"""A baseline: the model writes one SPARQL query, which is executed (SPINACH, section 5.3, second baseline).

With ``entities=gold`` its prompt has the gold query's entities, as WikiSP was given them (the third baseline).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import QueryEnding, write_plainly
from kbnav.agents.common.state import Reply, State
from kbnav.agents.walking.base import CallSpec, Models, call_for, fixed_agent, open_walking_models, question_in_chat
from kbnav.knowledge.base import KnowledgeBase
from kbnav.prompts import render
from kbnav.runs.trajectory import FINISH, QUERY
from kbnav.settings.model import Settings
from kbnav.tools.context import Context
from kbnav.tools.spinach_paper import execute_query, finish
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.walking import Ask

NAME = "one-query"
_SAID = "The one query."
_FENCED = re.compile(r"```(?:sparql)?\s*\n?(.*?)```", re.DOTALL | re.IGNORECASE)


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
        text, usage = self.ask(prompt, "write a query")
        fenced = _FENCED.search(text)
        query = (fenced[1] if fenced else text).strip()
        said = (
            f"The one query, the gold query's entities given: {', '.join(context.given)}." if context.given else _SAID
        )
        return call_for(state, self.toolbox, [(QUERY, said, {"query": query})], usage)


def build_one_query(kb: KnowledgeBase, settings: Settings, models: Models | None = None) -> Agent:
    """The baseline by the settings' model, or by ``models``. Raises UsageError where there is none."""
    models = models or open_walking_models(settings, NAME)
    toolbox = Toolbox.for_kb(kb, (execute_query, finish))
    ending = QueryEnding(write_plainly, last_executed=True)
    return fixed_agent(NAME, OneQueryPolicy(models.ask, toolbox), toolbox, ending, kb, settings, "one_query")
