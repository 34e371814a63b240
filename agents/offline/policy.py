"""What the keyless policies share: a plan worked out anew each turn, the words it leaves out, and several policies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kbnav.agents.common.answering import settled
from kbnav.agents.common.state import Policy, Reply, State, all_steps, next_turn
from kbnav.agents.offline.question import Question
from kbnav.answers.language import fold
from kbnav.answers.lexicon import lexicon
from kbnav.answers.relevance import words
from kbnav.runs.trajectory import FINISH, Call, Step, Understood
from kbnav.tools.context import Context
from kbnav.tools.several import alone, within
from kbnav.tools.toolbox import Toolbox

Wanted = tuple[str, str, dict[str, Any]]
"""Tool, thought and arguments of a call."""
Turn = list[Wanted]
ROOM = 13
"""Steps of the path after which no further query is begun: one to count and one to finish are left."""
FITS = "The query has rows and fits the question as far as words can tell."
_MOST_UNUSED, _MANY = 2, 50


class Plan(ABC):
    """The turns for one state, in order; how the question was read, and what to tell where nothing answers."""

    understood: Understood | None = None
    note: str = ""

    @abstractmethod
    def turns(self) -> Iterator[Turn]:
        """Turns of calls. One whose calls were all made is passed over, and what follows it can use their results."""


class KeylessPolicy(ABC):
    """Keeps nothing: each turn it makes the plan again from all steps, and takes the first calls not yet made."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox

    @abstractmethod
    def plan(self, state: State, context: Context, steps: Sequence[Step]) -> Plan:
        """The plan for a state; ``steps`` are those taken, in their order."""

    def __call__(self, state: State, context: Context) -> Reply:
        """The next calls; none at the plan's end."""
        taken = all_steps(state)
        steps = settled(taken)
        made = {step.call.key for step in steps}
        turn = next_turn(state)
        plan = self.plan(state, context, steps)
        for wanted in plan.turns():
            calls = [call for call in self.calls(wanted, turn) if call.key not in made]
            if calls:
                return Reply(calls, understood=plan.understood if calls[0].tool == FINISH else None)
        return Reply(note=plan.note, understood=plan.understood)

    def calls(self, wanted: Sequence[Wanted], turn: int = 0) -> list[Call]:
        """The calls of the tools that are offered, with their arguments checked."""
        found = []
        offered = [one for one in wanted if one[0] in self.toolbox.names]
        for number, (name, thought, arguments) in enumerate(offered, 1):
            said, values = self.toolbox.validate(name, {"thought": thought, **arguments})
            found.append(Call(name, values, said, f"call-{turn}-{number}", turn))
        return found


def unused_words(question: Question, known: Callable[[str], bool]) -> tuple[str, ...]:
    """Words of the question's phrases, function words apart, that are not ``known``, in their order."""
    said = [word for phrase in question.phrases for word in phrase.text.split()]
    return tuple(dict.fromkeys(word for word in said if words(fold(word)) and not known(word)))


def leaves_too_much(
    question: Question, unused: Sequence[str], language: str, *, rows: int, all_needed: bool, vague: bool = False
) -> bool:
    """Whether so much of the question is left out that the rows of a query are hardly its answer.

    That is a name; several words that say something, fewer where the query is ``vague``; or one such word, where the
    rows are many or ``all_needed`` says so.
    """
    telling = [word for word in unused if fold(word) not in lexicon(language).light and not word.isdigit()]
    names = {word for phrase in question.phrases if phrase.named for word in phrase.text.split() if word[:1].isupper()}
    too_many = len(telling) > _MOST_UNUSED - vague or rows > _MANY or all_needed
    return bool(telling) and (too_many or not names.isdisjoint(telling))


class SeveralPolicy:
    """Asks the policy of the first knowledge base; where that gives up, the next. An answer is that of one of them."""

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        """``policies`` by the names of the knowledge bases, in the order in which they are asked."""
        self._policies = policies

    def __call__(self, state: State, context: Context) -> Reply:
        """The next calls of the first policy that has not given up; the end names the knowledge base that answered."""
        turn = next_turn(state)
        reply = Reply()
        for name, policy in self._policies.items():
            path, discarded = (
                [alone(step, name) for step in steps if step.call.arguments.get("kb") == name]
                for steps in (state["path"], state["discarded"])
            )
            own = State(**{**state, "path": path, "discarded": discarded})
            reply = policy(own, within(context, name))
            calls = [_addressed(call, name, turn, place) for place, call in enumerate(reply.calls, 1)]
            reply = replace(reply, calls=calls)
            if any(not call.arguments.get("no_answer") for call in calls):
                break
        return reply


def _addressed(call: Call, name: str, turn: int, place: int) -> Call:
    """A call for one knowledge base."""
    named = replace(call, id=f"call-{turn}-{place}", turn=turn)
    if call.tool != FINISH:
        return replace(named, arguments={**call.arguments, "kb": name})
    return named if call.arguments.get("no_answer") else replace(named, thought=f"{name} answers: {call.thought}")
