"""A finish that is objected to: the run goes on for a few turns, and what is given all the same says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from kbnav.agents.common.state import State
from kbnav.runs.trajectory import FINISH, Outcome, Step, Usage
from kbnav.tools.observation import Context

_OBJECTED = "Not finished yet. The answer was checked, and this speaks against it: "


class Critic(Protocol):
    """Judges a finish before it ends the run."""

    def __call__(self, state: State, context: Context) -> tuple[str, Usage]:
        """What speaks against the answer that the path's last step names, empty for nothing; and what that cost."""
        ...

    def kept(self, outcome: Outcome, state: State) -> Outcome:
        """The outcome, with the objection as a doubt where the answer is still the one that was objected to."""
        ...


def objected(finish: Step, words: str, turns: int) -> Step:
    """The finish as a step that does not end the run, with what was said against it."""
    told = (
        f"{_OBJECTED}{' '.join(words.split())}\n"
        f"Mend the query, or look further, in at most {turns} turns. Where the objection is wrong, call finish again."
    )
    return replace(finish, ok=False, observation=told)


def objection(steps: Iterable[Step]) -> Step | None:
    """The finish that was objected to, if one was."""
    return next((step for step in steps if is_objected(step)), None)


def is_objected(step: Step) -> bool:
    """Whether a step is a finish that was objected to."""
    return step.call.tool == FINISH and not step.ok and step.observation.startswith(_OBJECTED)


def said_against(step: Step) -> str:
    """The objection itself."""
    return step.observation.removeprefix(_OBJECTED).partition("\n")[0]
