"""What the keyless policies share: a plan worked out anew each turn, the words it leaves out, and several policies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

from rapidfuzz import fuzz

from kbnav.agents.common.answering import without_retryable
from kbnav.agents.common.state import Policy, Reply, State, all_steps, next_turn
from kbnav.agents.offline.observations import Seen
from kbnav.answers.language import fold, lexicon, reads, singular, why_unread
from kbnav.answers.parsing import read_question
from kbnav.answers.relevance import content_words, relevance
from kbnav.answers.tables import AnswerTable
from kbnav.runs.trajectory import FINISH, QUERY, Call, Understood
from kbnav.tools.context import Context
from kbnav.tools.several import alone, within
from kbnav.tools.toolbox import Toolbox

Calls = list[tuple[str, str, dict[str, Any]]]
"""Calls that are made together: the tool, thought and arguments of each."""
FITS = "The query has rows and fits the question as far as words can tell."
_PRICE = "price cost preis prix precio"
QUANTITIES = {
    "mass": "mass weight gewicht masse poids peso",
    **dict.fromkeys(("cost", "expensive", "cheapest", "price"), _PRICE),
}
"""Words that names of numbers have, in several languages, for words of a question that they do not share."""
_MOST_UNUSED, _MANY = 2, 50
_MISSPELLED = 85
"""Of 100, how alike a word and what may be meant are."""


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
        self.told = lexicon(context.answer_language).told or lexicon("en").told

    @cached_property
    def seen(self) -> Seen:
        """What the steps showed."""
        return Seen(self.steps, self.toolbox, self.context)

    @abstractmethod
    def calls(self) -> Iterator[Calls]:
        """Calls, turn by turn. Those that were all made are passed over, and what follows can use their results."""

    def end(self) -> Iterator[Calls]:
        """The end without an answer, which can be said once a query has run."""
        if self.seen.rows:
            yield [(FINISH, self.note, {"no_answer": True})]

    def reply(self) -> Reply:
        """The first calls that are not yet made; none at the end."""
        for wanted in chain(self.calls(), self.end()):
            new = [call for call in self.checked(wanted) if call.key not in self.taken]
            if new:
                return Reply(new, understood=self.understood if new[0].tool == FINISH else None)
        return Reply(note=self.note, understood=self.understood)

    def queried(self, query: str, thought: str) -> Generator[Calls, None, AnswerTable]:
        """The result of a query, which is run unless it was; empty where there is no room to run it."""
        if query not in self.seen.rows and len(self.state["path"]) < self.room:
            yield [(QUERY, thought, {"query": query})]
        return self.seen.table(query) if query in self.seen.rows else AnswerTable()

    def is_number(self, query: str) -> bool:
        """Whether the first row of a query that was run has a number."""
        cells = [cell for row in self.seen.table(query).rows[:1] for cell in row if cell]
        return any((cell.datatype or "").endswith(("#decimal", "#integer", "#double")) for cell in cells)

    def holds(self, query: str, thought: str) -> Generator[Calls, None, bool]:
        """Whether an ASK query is true."""
        return bool((yield from self.queried(query, thought)).boolean)

    def unused(self, labels: Iterable[str], names: Iterable[str], query: str) -> tuple[str, ...]:
        """Words of the question, in their order, that nothing in a query stands for.

        ``labels`` are those of its ids, which a word may be like; ``names`` are texts that the question has as well. In
        a language that is not read a word stands for a label only as it is spelled in it, and for a name in any ending:
        "открыл" (discovered) is no "место открытия" (place of discovery).
        """
        question, words = self.question, lexicon(self.language)
        named, known = {word for name in names for word in fold(name).split()}, [*filter(None, map(fold, labels))]
        if "ORDER BY" in query and question.measure:
            named |= set(map(fold, words.measures))
            known.append(fold(question.measure[0]))
        stems = set(map(singular, named))

        def says(word: str) -> bool:
            plain, folded = fold(word), fold(f"{word} {words.verbs.get(word.casefold(), '')}").strip()
            if plain in named or singular(plain) in stems or plain in words.measures:
                return plain in named or singular(plain) in stems
            if reads(self.language):
                return any(relevance(f"{folded} {singular(plain)}", known))
            spelled = {*named, *chain.from_iterable(map(content_words, known))}
            return any(plain.startswith(one) and len(plain) - len(one) < 3 for one in spelled if len(one) > 2)

        read = [word for phrase in question.phrases for word in phrase.text.split() if content_words(fold(word))]
        more = [*question.strict, *(str(year) for _, year in question.years)]
        return tuple(dict.fromkeys(word for word in (*read, *more) if not says(word)))

    def told_words(self, unused: Sequence[str], query: str) -> tuple[str, ...]:
        """Those of the words that a query leaves out that mean something beside it, and a second question word.

        Neither words of little meaning do, nor what the question word says ("in which year"), nor a superlative that
        sorts.
        """
        words, question = lexicon(self.language), self.question
        said = {*words.light, *question.hint.split(), *(words.measures if "ORDER BY" in query else ())}
        if self.is_number(query):
            said.update(words.adjectives.values())  # "how high" is how much
        return (*(one for one in unused if said.isdisjoint((one, fold(one)))), *question.second)

    def telling(self, words: Iterable[str]) -> list[str]:
        """Those of the words that say something: neither light ones nor years."""
        light = lexicon(self.language).light
        return [word for word in words if fold(word) not in light and not word.isdigit()]

    def leaves_too_much(self, unused: Sequence[str], *, rows: int, all_needed: bool) -> bool:
        """Whether so much of the question is left out that the rows of a query are hardly its answer.

        That is what makes another question of it; a name; several words that say something; or one, where the rows are
        many or ``all_needed`` says so.
        """
        question = self.question
        bounds = (str(year) for sign, year in question.years if sign != "=")
        if not {*question.strict, *bounds}.isdisjoint(unused):
            return True
        left_out = self.telling(unused)
        phrases = (phrase.text for phrase in question.phrases if phrase.named)
        names = {word for text in phrases for word in text.split() if word[:1].isupper()}
        too_many = len(left_out) > _MOST_UNUSED or rows > _MANY or all_needed
        return bool(left_out) and (too_many or not names.isdisjoint(left_out))

    def decline(self, unused: Sequence[str], lost: Sequence[str], has: Sequence[str] = ()) -> None:
        """Say why there is no answer: words that would be left out, names that nothing has; ``has``: what there is."""
        text = whole = self.state["question"].strip()
        for query, search in self.seen.searches.items():
            near = next((one.alias or one.label for one in search.entities if query in lost), "")
            if fuzz.ratio(query, meant := search.suggestion or near) >= _MISSPELLED:
                text = text.replace(query, meant)
        instead = (text,) if text != whole and " " in whole else ()  # one word alone is a greeting as often as a name
        self.understood = Understood(unused=tuple(unused or lost), instead=instead)
        if not reads(self.language):
            self.note = why_unread(whole, self.language)
            return
        kind = "unused" if unused else "unnamed" if lost else "nothing" if self.question.phrases else "empty"
        named = ", ".join(self.told["word"].format(word=word) for word in unused or lost)
        there = self.told["has"].format(words=", ".join(has)) if has else ""
        self.note = f"{self.told[kind].format(words=named)} {there}".strip()

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


def best_of(variable: str, pattern: str, measure: str, order: str) -> str:
    """SPARQL for what has most or least of a measure, all of them where several have as much."""
    best = f"{{ SELECT {measure} WHERE {{ {pattern} }} ORDER BY {order}({measure}) LIMIT 1 }}"
    return f"SELECT DISTINCT {variable} WHERE {{ {pattern} {best} }}"


@dataclass(frozen=True)
class SeveralPolicy:
    """Asks the policy of the first knowledge base; where that gives up, the next. An answer is that of one of them."""

    policies: Mapping[str, Policy]
    """By the names of the knowledge bases, in the order in which they are asked."""

    def __call__(self, state: State, context: Context) -> Reply:
        """The next calls of the first policy that has not given up; the end names the knowledge base that answered."""
        turn, said = next_turn(state), list[str]()
        for name, policy in self.policies.items():
            path, discarded = (
                [alone(step, name) for step in steps if step.call.arguments.get("kb") == name]
                for steps in (state["path"], state["discarded"])
            )
            own = State(**{**state, "path": path, "discarded": discarded})
            reply = policy(own, within(context, name))
            calls = [_addressed(call, name, turn, place) for place, call in enumerate(reply.calls, 1)]
            if any(not call.arguments.get("no_answer") for call in calls):
                return replace(reply, calls=calls)
            why = reply.note or (calls[0].thought if calls else "")
            said += [f"{name}: {why}"] if why else []
        note = " ".join(said)
        return replace(reply, calls=[replace(call, thought=note) for call in calls], note=note)


def _addressed(call: Call, name: str, turn: int, place: int) -> Call:
    """A call for one knowledge base."""
    named = replace(call, id=f"call-{turn}-{place}", turn=turn)
    if call.tool != FINISH:
        return replace(named, arguments={**call.arguments, "kb": name})
    return named if call.arguments.get("no_answer") else replace(named, thought=f"{name} answers: {call.thought}")
