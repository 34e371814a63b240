"""What the keyless policies share: a plan worked out anew each turn, the words it leaves out, and several policies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kbnav.agents.common.answering import without_retryable
from kbnav.agents.common.state import Policy, Reply, State, all_steps, next_turn
from kbnav.agents.offline.observations import Seen
from kbnav.answers.language import fold
from kbnav.answers.lexicon import lexicon
from kbnav.answers.parsing import Question, read_question
from kbnav.answers.relevance import content_words
from kbnav.answers.tables import AnswerTable
from kbnav.runs.trajectory import FINISH, QUERY, Call, Understood
from kbnav.tools.context import Context
from kbnav.tools.several import alone, within
from kbnav.tools.toolbox import Toolbox

Calls = list[tuple[str, str, dict[str, Any]]]
"""Calls that are made together: the tool, thought and arguments of each."""
FITS = "The query has rows and fits the question as far as words can tell."
QUANTITIES = {"mass": "mass weight", "cost": "price cost", "expensive": "price cost", "cheapest": "price cost"}
"""Words that names of numbers have, for words of a question that they do not share."""
_MOST_UNUSED, _MANY = 2, 50


class Agenda(ABC):
    """What to do in one state, in order. It keeps nothing: each turn it is made again from all steps."""

    understood: Understood | None = None
    """How the question was read."""
    note: str = ""
    """What to tell where nothing answers."""
    room = 13
    """Steps of the path after which no further query is begun: one to count and one to finish are left."""

    def __init__(self, toolbox: Toolbox, state: State, context: Context) -> None:
        self.toolbox, self.state, self.context, self.language = toolbox, state, context, context.language
        self.steps = without_retryable(all_steps(state))
        self.taken = {step.call.key: step for step in self.steps}
        self.question = read_question(state["question"], self.language)

    @cached_property
    def seen(self) -> Seen:
        """What the steps showed."""
        return Seen(self.steps, self.toolbox, self.context)

    @abstractmethod
    def calls(self) -> Iterator[Calls]:
        """Calls, turn by turn. Those that were all made are passed over, and what follows can use their results."""

    def reply(self) -> Reply:
        """The first calls that are not yet made; none at the end."""
        for wanted in self.calls():
            new = [call for call in self.checked(wanted) if call.key not in self.taken]
            if new:
                return Reply(new, understood=self.understood if new[0].tool == FINISH else None)
        return Reply(note=self.note, understood=self.understood)

    def queried(self, query: str, thought: str) -> Generator[Calls, None, AnswerTable]:
        """The result of a query, which is run unless it was; empty where there is no room to run it."""
        if query not in self.seen.rows and len(self.state["path"]) < self.room:
            yield [(QUERY, thought, {"query": query})]
        return self.seen.table(query) if query in self.seen.rows else AnswerTable()

    def holds(self, query: str, thought: str) -> Generator[Calls, None, bool]:
        """Whether an ASK query is true."""
        return bool((yield from self.queried(query, thought)).boolean)

    def checked(self, wanted: Calls) -> list[Call]:
        """The calls of the tools that are offered, with their arguments checked."""
        found, turn = [], next_turn(self.state)
        offered = [call for call in wanted if call[0] in self.toolbox.names]
        for number, (name, thought, arguments) in enumerate(offered, 1):
            text, values = self.toolbox.validate(name, {"thought": thought, **arguments})
            found.append(Call(name, values, text, f"call-{turn}-{number}", turn))
        return found


def keyless(agenda: Callable[[State, Context], Agenda]) -> Policy:
    """The policy that makes an agenda anew each turn."""
    return lambda state, context: agenda(state, context).reply()


def unused_words(question: Question, known: Callable[[str], bool]) -> tuple[str, ...]:
    """Words of the question's phrases, function words apart, that are not ``known``, in their order."""
    read = [word for phrase in question.phrases for word in phrase.text.split()]
    return tuple(dict.fromkeys(word for word in read if content_words(fold(word)) and not known(word)))


def told_words(question: Question, unused: Sequence[str], language: str, query: str) -> tuple[str, ...]:
    """Those of the words that a query leaves out that mean something beside it, and a second question word.

    Neither words of little meaning do, nor what the question word says ("in which year"), nor a superlative that sorts.
    """
    words = lexicon(language)
    said = {*words.light, *question.hint.split(), *(words.measures if "ORDER BY" in query else ())}
    return (*(one for one in unused if fold(one) not in said), *question.second)


def telling(words: Sequence[str], language: str) -> set[str]:
    """Those of the words that say something: neither light ones nor years."""
    return {word for word in words if fold(word) not in lexicon(language).light and not word.isdigit()}


def leaves_too_much(question: Question, unused: Sequence[str], language: str, *, rows: int, all_needed: bool) -> bool:
    """Whether so much of the question is left out that the rows of a query are hardly its answer.

    That is what makes another question of it; a name; several words that say something; or one, where the rows are many
    or ``all_needed`` says so.
    """
    if not set(question.strict).isdisjoint(unused):
        return True
    left_out = telling(unused, language)
    names = {word for phrase in question.phrases if phrase.named for word in phrase.text.split() if word[:1].isupper()}
    too_many = len(left_out) > _MOST_UNUSED or rows > _MANY or all_needed
    return bool(left_out) and (too_many or not names.isdisjoint(left_out))


@dataclass(frozen=True)
class SeveralPolicy:
    """Asks the policy of the first knowledge base; where that gives up, the next. An answer is that of one of them."""

    policies: Mapping[str, Policy]
    """By the names of the knowledge bases, in the order in which they are asked."""

    def __call__(self, state: State, context: Context) -> Reply:
        """The next calls of the first policy that has not given up; the end names the knowledge base that answered."""
        turn = next_turn(state)
        reply = Reply()
        for name, policy in self.policies.items():
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
