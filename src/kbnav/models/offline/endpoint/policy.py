"""The policy: search, find out how what was found belongs together, query, finish; worked out anew from each state."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from kbnav.agents.machine import Reply, State
from kbnav.models.offline.endpoint.joining import Link, best, links, measure_probe, measured, member, pattern, probe
from kbnav.models.offline.endpoint.reading import Anchor, Reading, Seen, read, words_apart
from kbnav.models.offline.wikidata.question import Question, read_question
from kbnav.tools.observation import Context
from kbnav.tools.toolbox import FINISH, QUERY, Toolbox
from kbnav.trajectory import Call

_SEARCHES = 5
_SECOND_SEARCHES = 3
_ROOM = 13
"""Steps of the path after which no further query is begun."""

_QUANTITIES = {"mass": "mass weight", "expensive": "price cost", "cheapest": "price cost"}
"""Words that names of numbers have, for words of a question that they do not share."""

Wanted = tuple[str, str, dict[str, Any]]
"""Tool, thought and arguments of a call."""
Plan = Iterator[list[Wanted]]


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
        for wanted in _plan(question, Seen.of(steps), len(state["path"])):
            calls = [call for call in self._calls(wanted, turn) if call.key not in made]
            if calls:
                return Reply(calls)
        return Reply()

    def _calls(self, wanted: Sequence[Wanted], turn: int) -> list[Call]:
        calls = []
        offered = [one for one in wanted if one[0] in self._toolbox.names]
        for number, (name, thought, arguments) in enumerate(offered, 1):
            said, values = self._toolbox.validate(name, {"thought": thought, **arguments})
            calls.append(Call(name, values, said, f"call-{turn}-{number}", turn))
        return calls


def _plan(question: Question, seen: Seen, length: int) -> Plan:
    """Turns of the plan in order; a turn whose calls were all made is passed over."""
    phrases = sorted(question.phrases, key=lambda phrase: not (phrase.noun or phrase.named))
    wanted = [phrase for phrase in phrases if len(phrase.text) > 1][:_SEARCHES]
    yield [("search_entities", f"Looking up “{phrase.text}”.", {"query": phrase.text}) for phrase in wanted]
    apart = words_apart(wanted, seen.searches)[:_SECOND_SEARCHES]
    yield [("search_entities", f"Looking up “{phrase.text}” by itself.", {"query": phrase.text}) for phrase in apart]
    reading = read(question, seen.searches, apart)
    if not reading.beyond:
        joined = yield from _joined(reading, reading.anchors, seen, length)
        answered = bool(joined) and (yield from _answered(reading, joined, seen, length))
        if answered:
            yield [(FINISH, "The query has rows and fits the question as far as words can tell.", {})]
            return
    if not seen.rows:  # that there is no answer may be said once a query has run
        anything = member(reading.target).rstrip(" .") or "?thing ?property ?value"
        yield [(QUERY, "Is there anything of it here at all?", {"query": f"ASK {{ {anything} }}"})]
    why = reading.beyond or "what the question names is not linked by one property or two"
    yield [(FINISH, f"These rules find no answer: {why}.", {"no_answer": True})]


def _joined(reading: Reading, anchors: Sequence[Anchor], seen: Seen, length: int) -> Generator[list[Wanted], None, str]:
    """A pattern that links the class asked for to all the anchors; empty where one of them is not linked."""
    if not anchors and not (reading.target and (reading.question.kind != "values" or reading.question.measure)):
        return ""
    parts = [member(reading.target)] if reading.target else []
    for place, anchor in enumerate(anchors):
        link = yield from _linked(reading, anchor, seen, length)
        if link is None:
            return ""
        parts.append(pattern(anchor, link, place))
    return " ".join(part.strip() for part in parts)


def _linked(reading: Reading, anchor: Anchor, seen: Seen, length: int) -> Generator[list[Wanted], None, Link | None]:
    """The properties that fit best, one before two."""
    name = anchor.id or f"“{anchor.text}”"
    for hops in (1, 2) if reading.target else (1,):
        query = probe(reading.target, anchor, hops)
        rows = yield from _rows(query, f"Which properties lie between {name} and what is asked for?", seen, length)
        sure = bool(reading.target) or bool(reading.question.measure)
        link = best(links(rows), reading.words, sure=sure and hops == 1)
        if link:
            return link
    return None


def _answered(reading: Reading, joined: str, seen: Seen, length: int) -> Generator[list[Wanted], None, bool]:
    """Run the query that answers; whether it has rows."""
    question = reading.question
    if question.kind == "yes-no":
        final = f"ASK {{ {joined} }}"
    elif question.kind == "count":
        final = f"SELECT (COUNT(DISTINCT ?answer) AS ?count) WHERE {{ {joined} }}"
    elif question.measure:
        quantity, order = question.measure
        rows = yield from _rows(measure_probe(joined), "Which numbers do these have?", seen, length)
        asked = f"{quantity} {question.text}".split()
        named = " ".join(_QUANTITIES.get(word.casefold(), word) for word in asked)
        number = best(links(rows), named, sure=len(rows) == 1)
        if number is None:
            return False
        final = f"SELECT DISTINCT ?answer WHERE {{ {joined} {measured(number)} }} ORDER BY {order}(?measure) LIMIT 1"
    else:
        final = f"SELECT DISTINCT ?answer WHERE {{ {joined} }}"
    rows = yield from _rows(final, "This asks for it in the properties found.", seen, length)
    return bool(rows) or seen.last == final


def _rows(query: str, thought: str, seen: Seen, length: int) -> Generator[list[Wanted], None, list[list[str]]]:
    """The rows of a query, which is run unless it was; none where there is no room to run it."""
    if query not in seen.rows and length < _ROOM:
        yield [(QUERY, thought, {"query": query})]
    return seen.rows.get(query, [])
