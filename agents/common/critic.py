"""A model checks an answer before it is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kbnav.agents.common.answering import QueryEnding
from kbnav.agents.common.doubting import doubts_of
from kbnav.agents.common.objecting import objection, said_against
from kbnav.agents.common.state import State
from kbnav.knowledge.sparql.presentation import comment_labels
from kbnav.prompts import render
from kbnav.runs.trajectory import Outcome, Usage
from kbnav.runs.warnings import Doubt
from kbnav.tools.observation import Context, Shown
from kbnav.tools.show import table_text

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_LONGEST = 1000
"""Characters of an objection that are kept."""


@dataclass(frozen=True)
class ModelCritic:
    """Asks a model once a run, at temperature 0, with the query, the result and what the rules doubt of it."""

    model: BaseChatModel
    ending: QueryEnding
    shown: Shown = Shown()

    def __call__(self, state: State, context: Context) -> tuple[str, Usage]:
        """See ``Critic``; nothing is asked about a finish without a result."""
        from kbnav.models.chat import ask

        chosen = self.ending.taken(State(**{**state, "stop": "finish"}))
        table = context.tables.get(chosen.call.query) if chosen else None
        if chosen is None or table is None:
            return "", Usage()
        prompt = render(
            "spinach/check.md",
            question=state["question"],
            earlier=state["history"],
            query=comment_labels(chosen.call.query, table.labels),
            table=table_text(table, self.shown),
            doubts=[doubt.text for doubt in doubts_of(state["question"], chosen.call.query, table, context)],
            answer=state["path"][-1].call.arguments.get("answer", ""),
        )
        text, usage = ask(self.model, prompt)
        words = text.strip()
        return ("" if words[:2].casefold() == "ok" else words[:_LONGEST]), usage

    def kept(self, outcome: Outcome, state: State) -> Outcome:
        """See ``Critic``."""
        path = state["path"]
        last = objection([*path, *state["discarded"]])
        given = self.ending.taken(state)
        if last is None or given is None or outcome.status not in ("answered", "best effort"):
            return outcome
        before = [step for step in (*path, *state["discarded"]) if step.number < last.number]
        asked = State(**{**state, "stop": "finish", "path": [*before, last], "discarded": []})
        judged = self.ending.taken(asked)
        if judged is None or judged.call.query != given.call.query:
            return outcome
        return replace(outcome, doubts=(*outcome.doubts, Doubt("critic", said_against(last))))
