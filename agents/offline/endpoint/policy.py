"""The policy: search, find out how what was found belongs together, query, finish; worked out anew from each state."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbnav.agents.common.state import Reply, State
from kbnav.agents.offline.endpoint.coverage import QUANTITIES, Joined
from kbnav.agents.offline.endpoint.joining import Link, best, links, measure_probe, measured, member, pattern, probe
from kbnav.agents.offline.endpoint.reading import Anchor, Reading, Seen, read, words_apart
from kbnav.agents.offline.wikidata.question import Question, read_question
from kbnav.runs.trajectory import FINISH, QUERY, Call, Understood
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox

_SEARCHES = 5
_SECOND_SEARCHES = 3
_ROOM = 13
"""Steps of the path after which no further query is begun."""

Wanted = tuple[str, str, dict[str, Any]]
"""Tool, thought and arguments of a call."""
Turn = list[Wanted]


class EndpointPolicy:
    """Links the question's class and names, asks which properties lie between them, and queries by those that fit.

    It knows no facts and no vocabulary, and asks no model. It answers questions for the members of one class that are
    linked to one, two or three named things or values by one property or two, how many they are, whether there are any,
    and which has most or least of something. Of anything else (arithmetic, groups, comparisons, negation, follow-up
    questions) it knows little: where it notices, it says that it finds no answer.
    """

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    def __call__(self, state: State, context: Context) -> Reply:
        """The first calls of the plan that were not made yet; no call where the plan is at its end."""
        steps = sorted((*state["path"], *state["discarded"]), key=lambda step: step.number)
        made = {step.call.key for step in steps}
        turn = 1 + max((step.call.turn for step in steps), default=0)
        question = read_question(state["question"], context.language)
        plan = _Plan(question, Seen.of(steps), len(state["path"]), context.language)
        for wanted in plan.turns():
            calls = [call for call in self._calls(wanted, turn) if call.key not in made]
            if calls:
                return Reply(calls, understood=plan.understood if calls[0].tool == FINISH else None)
        return Reply()

    def _calls(self, wanted: Sequence[Wanted], turn: int) -> list[Call]:
        calls = []
        offered = [one for one in wanted if one[0] in self._toolbox.names]
        for number, (name, thought, arguments) in enumerate(offered, 1):
            said, values = self._toolbox.validate(name, {"thought": thought, **arguments})
            calls.append(Call(name, values, said, f"call-{turn}-{number}", turn))
        return calls


@dataclass
class _Plan:
    """The turns for one state, in order; ``length`` is that of the path."""

    question: Question
    seen: Seen
    length: int
    language: str
    understood: Understood | None = None
    """How the query that answers reads the question, or the one that left out too much."""

    def turns(self) -> Iterator[Turn]:
        """A turn whose calls were all made is passed over by who asks."""
        question, seen = self.question, self.seen
        phrases = sorted(question.phrases, key=lambda phrase: not (phrase.noun or phrase.named))
        wanted = [phrase for phrase in phrases if len(phrase.text) > 1][:_SEARCHES]
        yield [("search_entities", f"Looking up “{phrase.text}”.", {"query": phrase.text}) for phrase in wanted]
        apart = words_apart(wanted, seen.searches)[:_SECOND_SEARCHES]
        yield [("search_entities", f"Looking up “{one.text}” by itself.", {"query": one.text}) for one in apart]
        reading = read(question, seen.searches, apart)
        why = reading.beyond
        if not why:
            joined = Joined(reading)
            final = yield from self._final(joined)
            answered = bool(final) and (bool(seen.rows.get(final)) or seen.last == final)
            if answered and not joined.leaves_too_much(seen.size(final), self.language):
                self.understood = joined.understood
                yield [(FINISH, "The query has rows and fits the question as far as words can tell.", {})]
                return
            why = "what the question names is not linked by one property or two"
            if answered:
                self.understood = replace(joined.understood, instead=joined.smaller)
                why = "too many words of the question are left over for an answer"
        if not seen.rows:  # that there is no answer may be said once a query has run
            anything = member(reading.target).rstrip(" .") or "?thing ?property ?value"
            yield [(QUERY, "Is there anything of it here at all?", {"query": f"ASK {{ {anything} }}"})]
        yield [(FINISH, f"These rules find no answer: {why}.", {"no_answer": True})]

    def _final(self, joined: Joined) -> Generator[Turn, None, str]:
        """Run the query that answers, and return it; empty where something is not linked."""
        reading, question = joined.reading, self.question
        pattern = yield from self._joined(joined)
        if not pattern:
            return ""
        if question.kind == "yes-no":
            final = f"ASK {{ {pattern} }}"
        elif question.kind == "count":
            final = f"SELECT (COUNT(DISTINCT ?answer) AS ?count) WHERE {{ {pattern} }}"
        elif question.measure:
            joined.number = yield from self._number(reading, pattern, question.measure[0])
            if joined.number is None:
                return ""
            ordered = f"{measured(joined.number)} }} ORDER BY {question.measure[1]}(?measure) LIMIT 1"
            final = f"SELECT DISTINCT ?answer WHERE {{ {pattern} {ordered}"
        else:
            final = f"SELECT DISTINCT ?answer WHERE {{ {pattern} }}"
        yield from self._rows(final, "This asks for it in the properties found.")
        return final

    def _joined(self, joined: Joined) -> Generator[Turn, None, str]:
        """A pattern that links the class asked for to all the anchors; empty where one of them is not linked."""
        reading, question = joined.reading, self.question
        if not reading.anchors and not (reading.target and (question.kind != "values" or question.measure)):
            return ""
        parts = [member(reading.target)] if reading.target else []
        for place, anchor in enumerate(reading.anchors):
            link = yield from self._linked(reading, anchor)
            if link is None:
                return ""
            joined.links.append((anchor, link))
            parts.append(pattern(anchor, link, place))
        return " ".join(part.strip() for part in parts)

    def _linked(self, reading: Reading, anchor: Anchor) -> Generator[Turn, None, Link | None]:
        """The properties that fit best, one before two."""
        name = anchor.id or f"“{anchor.text}”"
        for hops in (1, 2) if reading.target else (1,):
            query = probe(reading.target, anchor, hops)
            rows = yield from self._rows(query, f"Which properties lie between {name} and what is asked for?")
            sure = bool(reading.target) or bool(reading.question.measure)
            link = best(links(rows), reading.words, sure=sure and hops == 1)
            if link:
                return link
        return None

    def _number(self, reading: Reading, pattern: str, quantity: str) -> Generator[Turn, None, Link | None]:
        """The number that a superlative is about."""
        rows = yield from self._rows(measure_probe(pattern), "Which numbers do these have?")
        asked = f"{quantity} {reading.question.text}".split()
        named = " ".join(QUANTITIES.get(word.casefold(), word) for word in asked)
        return best(links(rows), named, sure=len(rows) == 1)

    def _rows(self, query: str, thought: str) -> Generator[Turn, None, list[list[str]]]:
        """The rows of a query, which is run unless it was; none where there is no room to run it."""
        if query not in self.seen.rows and self.length < _ROOM:
            yield [(QUERY, thought, {"query": query})]
        return self.seen.rows.get(query, [])
