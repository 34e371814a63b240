"""The policy: search, look, query, finish; each turn worked out anew from the state alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from kbnav.agents.common.answering import settled
from kbnav.agents.common.state import Reply, State
from kbnav.agents.offline.wikidata.coverage import leaves_too_much, read_as, simpler, unnamed, unused
from kbnav.agents.offline.wikidata.evidence import Evidence
from kbnav.agents.offline.wikidata.hypotheses import SURE, Focus, Hypothesis, Reading
from kbnav.agents.offline.wikidata.linking import leftovers, searched_as
from kbnav.agents.offline.wikidata.question import Phrase, Question, read_question
from kbnav.answers.lexicon import lexicon, reads, why_unread
from kbnav.errors import KbnavError
from kbnav.knowledge.sparql.vocabulary import WIKIDATA_VOCABULARY, Vocabulary
from kbnav.runs.trajectory import FINISH, QUERY, Call, Understood
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox

_SEARCHES = 4
_SECOND_SEARCHES = 2
_TARGETS = 3
_QUERIES = 8
_ROOM = 13
"""Steps of the path after which no further query is begun: one to count and one to finish are left."""


class OfflinePolicy:
    """Links the question's names, ranks properties against its other words, and tries queries until one has rows.

    It knows no facts and asks no model. A function of the state: calls are worked out again each turn from the
    question, the history and the observations of every step taken, and those already made are not made again.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        words: Vocabulary = WIKIDATA_VOCABULARY,
        has_labels: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """``words`` are those of the knowledge base that is asked; ``has_labels``: whether it has any in a language."""
        self._toolbox = toolbox
        self._words = words
        self._has_labels = lru_cache(has_labels)
        self._known: dict[str, dict[str, str]] = {}

    def __call__(self, state: State, context: Context) -> Reply:
        """The first calls of the plan that were not made yet; no call where the plan is at its end."""
        taken = sorted((*state["path"], *state["discarded"]), key=lambda step: step.number)
        turn = 1 + max((step.call.turn for step in taken), default=0)
        steps = settled(taken)
        made = {step.call.key for step in steps}
        question = read_question(state["question"], context.language)
        seen = Evidence.of(steps)
        labels = partial(self._labels, context)
        plan = _Plan(question, seen, state, context.language, self._words, self._has_labels, labels)
        for wanted in plan.turns():
            calls = [call for call in self._calls(wanted, turn) if call.key not in made]
            if calls:
                return Reply(calls, understood=plan.understood if calls[0].tool == FINISH else None)
        if plan.refused:
            given_up = (FINISH, plan.why_not, {"no_answer": True})
            return Reply(self._calls([given_up], turn), understood=plan.refused)
        return Reply(note=plan.why_not, understood=plan.respelled)

    def _labels(self, context: Context, ids: Sequence[str]) -> Mapping[str, str]:
        """Labels by id, asked for once a language; few, as the rules know few ids by themselves."""
        known = self._known.setdefault(context.language, {})
        if lacking := [one for one in ids if one not in known]:
            with suppress(KbnavError):  # then the id is told
                known |= context.kb.labels(lacking, language=context.language)
        return known

    def _calls(self, wanted: Sequence[tuple[str, str, dict[str, Any]]], turn: int) -> list[Call]:
        calls = []
        offered = [one for one in wanted if one[0] in self._toolbox.names]
        for number, (name, thought, arguments) in enumerate(offered, 1):
            said, values = self._toolbox.validate(name, {"thought": thought, **arguments})
            calls.append(Call(name, values, said, f"call-{turn}-{number}", turn))
        return calls


@dataclass
class _Plan:
    """The turns for one state, in order, and what is said at their end."""

    question: Question
    seen: Evidence
    state: State
    language: str
    words: Vocabulary
    has_labels: Callable[[str], bool]
    labels: Callable[[Sequence[str]], Mapping[str, str]]
    """Labels by id, for what is told and not seen."""
    understood: Understood | None = None
    """How the query that answers reads the question."""
    refused: Understood | None = None
    """How the first query read it that left out too much."""

    def turns(self) -> Iterator[list[tuple[str, str, dict[str, Any]]]]:
        """A turn whose calls were all made is passed over by who asks."""
        question, seen, length = self.question, self.seen, len(self.state["path"])
        first = _to_search(question)[:_SEARCHES]
        yield [_search(phrase) for phrase in first]
        second = [rest for phrase in first for rest in _leftovers(phrase, seen, self.language)]
        second = [one for one in dict.fromkeys(second) if one not in first][:_SECOND_SEARCHES]
        yield [_search(phrase) for phrase in second]
        phrases = _in_order(question, [*first, *second])
        reading = Reading.of(question, phrases, seen, self.state["history"], self.words)
        tried: set[str] = set()
        for focus in _targets(reading):
            if length < _ROOM:
                yield [lookup for place, one in enumerate(focus) for lookup in _lookups(one, reading)[: 2 - place]]
            for hypothesis in reading.hypotheses(focus):
                if hypothesis.probe in tried:
                    continue
                tried.add(hypothesis.probe)
                if hypothesis.probe not in seen.rows:
                    if length >= _ROOM or len(seen.rows) >= _QUERIES:
                        return
                    yield [(QUERY, hypothesis.thought, {"query": hypothesis.probe})]
                if (
                    seen.rows.get(hypothesis.probe)
                    and not _says_itself(hypothesis.probe, seen, focus)
                    and self._covers(hypothesis, reading)
                ):
                    yield from _conclude(hypothesis, seen)

    def _covers(self, hypothesis: Hypothesis, reading: Reading) -> bool:
        """Whether a query reads enough of the question; how it reads it is kept."""
        left = unused(reading, hypothesis.probe, self.language)
        lacking = unnamed(reading, hypothesis.answer)
        told = read_as(reading, hypothesis.answer, self.language, self.labels(lacking) if lacking else {})
        read = Understood(told, tuple(left))
        if leaves_too_much(reading, hypothesis.probe, left, self.language):
            simplest = lexicon(self.language).simplest if reads(self.language) else ""
            instead = simpler(reading, hypothesis.probe, simplest) if simplest else ()
            self.refused = self.refused or replace(read, instead=instead)
            return False
        self.understood = read
        return True

    @property
    def respelled(self) -> Understood | None:
        """The question with names as they are written here, where some were not found; None where none was alike."""
        text = self.state["question"]
        for search in self.seen.searches.values():
            if search.suggestion:
                text = text.replace(search.query, search.suggestion)
        return Understood(unused=self._unknown, instead=(text,)) if text != self.state["question"] else None

    @property
    def _unknown(self) -> tuple[str, ...]:
        """What was searched for and is not here by any name."""
        return tuple(search.query for search in self.seen.searches.values() if search.rung == "none")

    @property
    def why_not(self) -> str:
        """What to tell where nothing answers."""
        if self.refused and reads(self.language):
            return "Too many words of the question are left over for an answer."
        return why_unread(self.state["question"], self.language, self.has_labels)


def _says_itself(query: str, seen: Evidence, focus: Sequence[Focus]) -> bool:
    """Whether the one row of a query about an entity is that entity, which answers nothing."""
    about = {one.entity for one in focus if f"wd:{one.entity} " in query}
    return seen.rows[query] == 1 and bool(about.intersection(seen.results[query]))


def _conclude(hypothesis: Hypothesis, seen: Evidence) -> Iterator[list[tuple[str, str, dict[str, Any]]]]:
    """The query that answers, if the probe is not it, and the end."""
    yield [(QUERY, "That has rows; the question is how many they are.", {"query": hypothesis.answer})]
    if seen.last_query == hypothesis.answer:
        yield [(FINISH, "The query has rows and fits the question as far as words can tell.", {})]


def _to_search(question: Question) -> list[Phrase]:
    """Phrases worth a search: names first, then what may be relations or classes, and the quantity of a superlative."""
    extra = [pair[0] for pair in (question.measure, question.comparative) if pair and pair[0] not in ("", "date")]
    phrases = [*question.phrases, *(Phrase(text) for text in extra)]
    return sorted(dict.fromkeys(phrases), key=lambda phrase: not phrase.named)


def _search(phrase: Phrase) -> tuple[str, str, dict[str, Any]]:
    what = "It looks like a name" if phrase.named else "It may be a relation, a class or a name"
    return ("search_entities", f"{what}: looking up “{phrase.text}”.", {"query": searched_as(phrase)})


def _leftovers(phrase: Phrase, seen: Evidence, language: str) -> list[Phrase]:
    search = seen.searches.get(searched_as(phrase))
    return leftovers(phrase, search, lexicon(language)) if search else []


def _in_order(question: Question, phrases: Sequence[Phrase]) -> list[Phrase]:
    """Phrases in the order of the question, as far as they are in it."""
    text = " ".join(phrase.text for phrase in question.phrases)
    places = {phrase: text.find(phrase.text) for phrase in phrases}
    return sorted(phrases, key=lambda phrase: places[phrase] if places[phrase] >= 0 else len(text))


def _lookups(focus: Focus, reading: Reading) -> list[tuple[str, str, dict[str, Any]]]:
    name, entity = focus.mention.text, focus.entity
    thought = f"Looking at what points to {entity} and fits the question's other words."
    rest = " ".join(segment.text for segment in reading.besides(focus.mention))
    return [
        ("get_entry", f"{name} may be {entity}; reading what is stated of it.", {"entity_id": entity}),
        ("search_neighbors", thought, {"entity_id": entity, "query": rest or name, "direction": "in"}),
    ]


def _targets(reading: Reading) -> list[list[Focus]]:
    """Entities to look at, in order: two sure mentions together, else the surest; then the next in line; then none."""
    best = [Focus(mention, mention.best) for mention in reading.mentions]
    sure = [one for one in best[:2] if one.mention.score >= SURE]
    groups = [sure or best[:1], best[len(sure or best[:1]) :][:1]]
    groups += [[Focus(one, one.candidates[1].id)] for one in reading.mentions[:1] if len(one.candidates) > 1]
    return [*[group for group in groups if group][:_TARGETS], []]
