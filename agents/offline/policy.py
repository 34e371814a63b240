"""What the keyless policies share: a plan worked out anew each turn, the words it leaves out, and several policies."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

from rapidfuzz import fuzz

from kbnav.agents.common.answering import without_retryable
from kbnav.agents.common.state import Policy, Reply, State, all_steps, next_turn
from kbnav.answers.language import fold, lexicon, reads, singular, why_unread
from kbnav.answers.parsing import read_question, spoken
from kbnav.answers.relevance import content_words, relevance
from kbnav.answers.tables import AnswerTable
from kbnav.knowledge.base import SearchResult
from kbnav.runs.trajectory import FINISH, QUERY, Call, Doubt, Step, Understood
from kbnav.tools.context import Context
from kbnav.tools.several import alone, within
from kbnav.tools.toolbox import Toolbox

Calls = list[tuple[str, str, dict[str, Any]]]
"""Calls that are made together: the tool, thought and arguments of each."""
FITS = "The query has rows and fits the question as far as words can tell."
NOTHING = SearchResult()
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
        self.rows = {str(step.call.arguments["query"]): step.rows or 0 for step in self.steps_of(QUERY)}
        """Rows of every query that ran; 0 where it failed."""
        self.question = read_question(state["question"], self.language)
        self.told = lexicon(context.answer_language).told

    @cached_property
    def searches(self) -> dict[str, SearchResult]:
        """What was found, by what was searched for, as far as it is shown."""
        steps = {str(step.call.arguments["query"]): step for step in self.steps_of("search_entities")}
        return {query: self._shown(query, self.data_of(step) or NOTHING) for query, step in steps.items()}

    def _shown(self, query: str, found: SearchResult) -> SearchResult:
        """A search, as far as it is shown, with the rung that it is for rules."""
        if not (found.entities or found.properties):
            return replace(found, rung="none")
        low, shown = query.casefold(), self.context.shown
        most = shown.properties if found.entities else shown.entities
        found = replace(found, properties=found.properties[:most])
        best = (*found.entities, *found.properties)[0]
        plural = fold(query).removeprefix(fold(best.called)) in ("e", "en", "er", "es", "n", "s")
        said = plural or any(one.label and one.label.casefold() in low for one in found.entities)
        if found.rung == "near" and not said and re.fullmatch(r"[QP]\d+", best.id):  # another spelling: people choose
            return SearchResult(suggestion=best.called)
        return found

    def steps_of(self, tool: str) -> list[Step]:
        """The steps with a tool."""
        return [step for step in self.steps if step.call.tool == tool]

    def data_of(self, step: Step) -> Any:
        """What a step found, as data; None where it failed. What a run that was resumed forgot is looked up again."""
        found, call = self.context.found, step.call
        if step.ok and step.number not in found:
            found[step.number] = self.toolbox.run(self.context, call.tool, call.thought, call.arguments).data
        return found[step.number] if step.ok else None

    def table(self, query: str) -> AnswerTable:
        """The result of a query; empty where it failed."""
        if self.rows.get(query) == 0:
            return AnswerTable()
        tables, kb = self.context.tables, self.context.kb
        if query not in tables:
            tables[query] = kb.execute_query(query, language=self.language)
        return tables[query]

    @abstractmethod
    def calls(self) -> Iterator[Calls]:
        """Calls, turn by turn. Those that were all made are passed over, and what follows can use their results."""

    def end(self) -> Iterator[Calls]:
        """The end without an answer, which can be said once a query has run."""
        if self.rows:
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
        if query not in self.rows and len(self.state["path"]) < self.room:
            yield [(QUERY, thought, {"query": query})]
        return self.table(query) if query in self.rows else AnswerTable()

    def parted(self, query: str, compared: str = "") -> Generator[Calls, None, tuple[Doubt, ...]]:
        """That a condition leaves most of what it could out, or that not all have what is ``compared``: ``kept_of``."""
        table = yield from self.queried(query, "Counting what the last condition leaves out.")
        counts = [int(cell.value) for row in table.rows for cell in row if cell]
        every, kept = counts if len(counts) == 2 else (0, 0)
        about = f"{kept:,} / {every:,}{' / ' if compared else ''}{compared}"
        doubt = Doubt("compared" if compared else "class", about)
        return (doubt,) if (kept if compared else 2 * kept) < every else ()

    def unused(self, labels: Iterable[str], names: Iterable[str], query: str) -> tuple[str, ...]:
        """Words of the question, in their order, that nothing in a query stands for.

        ``labels`` are those of its ids, which a word may be like; ``names`` are texts that the question has as well.
        """
        question, words = self.question, lexicon(self.language)
        texts = {*map(fold, names)}
        named, known = {word for text in texts for word in text.split()}, [*filter(None, map(fold, labels))]
        if "ORDER BY" in query and question.measure:
            named |= set(map(fold, words.measures))
            known.append(fold(question.measure[0]))
        stems = set(map(singular, named))

        def says(word: str) -> bool:
            if " " in word:  # no label says "over 80"
                return fold(word) in texts
            plain, low = fold(word), word.casefold()
            if fold(words.adjectives.get(low, "")) in known:  # "how tall": height
                return True
            folded = fold(f"{word} {words.verbs.get(low, '')} {words.quantities.get(low, '')}").strip()
            if singular(plain) in stems or plain in words.measures:
                return singular(plain) in stems
            return any(relevance(f"{folded} {singular(plain)}", known))

        read = [word for phrase in question.phrases for word in phrase.text.split() if content_words(fold(word))]
        return tuple(dict.fromkeys(word for word in (*read, *question.needed) if not says(word)))

    def telling(self, words: Iterable[str]) -> tuple[str, ...]:
        """Those of the words that say something: neither years nor light ones, but adjectives that measure do."""
        known = lexicon(self.language)
        light = known.light - set(map(fold, known.adjectives))
        return tuple(word for word in words if fold(word) not in light and not word.isdigit())

    def turns(self, unused: Sequence[str]) -> bool:
        """Whether words that are left out make another question of it, as a year, "not", "died" or "mass" do."""
        words = lexicon(self.language)
        quantities = content_words(" ".join(words.adjectives.values()))
        return not {*self.question.needed, *words.verbs, *quantities}.isdisjoint(unused)

    def leaves_too_much(self, unused: Sequence[str], *, rows: int, all_needed: bool) -> bool:
        """Whether so much of the question is left out that the rows of a query are hardly its answer.

        That is what makes another question of it; a name; several words that say something; or one, where the rows are
        many or ``all_needed`` says so.
        """
        left_out, phrases = self.telling(unused), self.question.phrases
        names = {word for one in phrases if one.named for word in one.text.split() if word[:1].isupper()}
        all_needed = all_needed or self.question.asks == "place"  # where somebody studied is no place of birth
        too_many = len(left_out) > _MOST_UNUSED or rows > _MANY or all_needed
        return self.turns(unused) or (bool(left_out) and (too_many or not names.isdisjoint(left_out)))

    def decline(
        self, unused: Sequence[str], lost: Sequence[str] = (), unread: Sequence[str] = (), known: Sequence[str] = ()
    ) -> None:
        """Say why there is no answer: words that would be left out, or names that nothing has, or what is not linked.

        Where all of them, and all ``unread`` words, are names that are spelled alike here, the question is offered so.
        """
        text = whole = self.state["question"].strip()
        said = {one.number: one.said for one in self.question.bounds if one.number not in re.findall(r"\w+", whole)}
        words = dict.fromkeys(said.get(word, word) for word in unused)
        unused = [word for word in words if word in whole]  # not "height", for "tall"
        left = {*" ".join((*(unused or lost), *unread)).split()}
        for query, search in self.searches.items():
            meant = search.suggestion or next((one.called for one in search.entities), "")
            within = query in meant or meant in query
            alike = max(how(query, one) for one in (meant, spoken(meant)) for how in (fuzz.ratio, fuzz.partial_ratio))
            if {*query.split()} <= left and not within and alike >= 90:  # of 100
                quoted = "," not in meant or re.search(rf'["“„«]{re.escape(query)}', text)
                text = text.replace(query, meant if quoted else f'"{meant}"')
                left -= {*query.split()}
        instead = (text,) if text != whole and not left and " " in whole else ()  # one word alone may be a greeting
        self.understood = Understood(unused=tuple(unused or lost), instead=instead)
        if not reads(self.language):
            self.note = why_unread(whole, self.language)
            return
        negated = [word for word in self.question.negated if word in unused]
        kind = "unused" if unused else "unnamed" if lost else "nothing" if self.question.phrases else "empty"
        kind = "denied" if negated else "unlinked" if known else kind
        named = ", ".join(self.told["word"].format(word=word) for word in negated or known or unused or lost)
        self.note = self.told[kind].format(words=named)

    def checked(self, wanted: Calls) -> list[Call]:
        """The calls of the tools that are offered, with their arguments checked."""
        found, turn = [], next_turn(self.state)
        offered = [call for call in wanted if call[0] in self.toolbox.names]
        for number, (name, thought, arguments) in enumerate(offered, 1):
            text, values = self.toolbox.validate(name, {"thought": thought, **arguments})
            found.append(Call(name, values, text, f"call-{turn}-{number}", turn))
        return found


def kept_of(wide: str, narrow: str) -> str:
    """SPARQL that counts what fits a pattern of ``?answer``, and how much of it fits a condition too."""
    narrowed = f"OPTIONAL {{ {narrow} BIND(?answer AS ?fits) }}"
    return f"SELECT (COUNT(DISTINCT ?answer) AS ?all) (COUNT(DISTINCT ?fits) AS ?kept) WHERE {{ {wide} {narrowed} }}"


def best_of(variable: str, pattern: str, measure: str, order: str) -> str:
    """SPARQL for what has most or least of a measure, with it; all of them where several have as much."""
    best = f"{{ SELECT {measure} WHERE {{ {pattern} }} ORDER BY {order}({measure}) LIMIT 1 }}"
    return f"SELECT DISTINCT {variable} {measure} WHERE {{ {pattern} {best} }}"


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
            calls = list[Call]()
            for place, call in enumerate(reply.calls, 1):
                ends, none = call.tool == FINISH, call.arguments.get("no_answer")
                thought = f"{name} answers: {call.thought}" if ends and not none else call.thought
                arguments = call.arguments if ends else {**call.arguments, "kb": name}
                calls.append(replace(call, arguments=arguments, thought=thought, id=f"call-{turn}-{place}", turn=turn))
            if any(not call.arguments.get("no_answer") for call in calls):
                return replace(reply, calls=calls)
            why = reply.note or (calls[0].thought if calls else "")
            said += [f"{name}: {why}"] if why else []
        note = " ".join(said)
        return replace(reply, calls=[replace(call, thought=note) for call in calls], note=note)
