"""A baseline: the model names the answers from its own knowledge (SPINACH, section 5.3, first baseline)."""

from __future__ import annotations

from dataclasses import dataclass

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import write_plainly
from kbnav.agents.common.state import Reply, State
from kbnav.agents.walking.base import (
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
from kbnav.prompts import render
from kbnav.runs.trajectory import FINISH
from kbnav.settings.model import Settings
from kbnav.settings.systems import kb_kind
from kbnav.tools.context import Context
from kbnav.tools.skb import finish
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.walking import Ask, recall

NAME = "direct"


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
        text, usage = self.ask(render("direct/answer.md", question=question_in_chat(state)), "answer")
        names = list(dict.fromkeys(answer_lines(text)))
        return call_for(state, self.toolbox, [("recall", "Nothing is looked up.", {"answers": names})], usage)


def build_direct(kb: KnowledgeBase, settings: Settings, models: Models | None = None) -> Agent:
    """The baseline by the settings' model, or by ``models``. Raises UsageError where there is none."""
    models = models or open_walking_models(settings, NAME)
    toolbox = Toolbox.for_kb(kb, (recall, finish))
    ending = WalkEnding(write_plainly, describer(kb), tabled=kb_kind(kb) != "skb")
    return fixed_agent(NAME, DirectPolicy(models.ask, toolbox), toolbox, ending, kb, settings, NAME)
