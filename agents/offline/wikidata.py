"""The policy for knowledge bases with Wikidata's model: search, look, try queries until one has rows, finish.

It links the question's names, ranks properties against its other words, and reads from the observations what a model
would see there; it knows no facts. Which queries it can write says ``WikidataAgenda.hypotheses``.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, takewhile
from typing import NamedTuple

from kbnav.agents.common.state import State
from kbnav.agents.offline.policy import FITS, NOTHING, Agenda, Calls, best_of, kept_of
from kbnav.answers.language import fold, lexicon, reads, singular
from kbnav.answers.parsing import Phrase, Question, read_question, with_names
from kbnav.answers.relevance import fit, relevance
from kbnav.knowledge.base import Entity, Entry, Neighborhood, Qualifier, SearchResult, Statement
from kbnav.knowledge.sparql.vocabulary import (
    BIRTH,
    DEATH,
    FEMALE,
    INSTANCE_OF,
    MALE,
    OCCUPATION,
    SEX,
    SUBCLASS_OF,
    Vocabulary,
    entity_ids,
    text_literal,
)
from kbnav.runs.trajectory import FINISH, QUERY, Turn, Understood
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox

_SEARCHES, _QUERIES, _RELATIONS = 4, 8, 3
_ENOUGH = 0.35  # score of a relation that is tried
_LIKELY, _SURE, _STATED = 0.2, 1.0, 2.0
"""Scores: of a name that is no link below it, and hardly anything else from it on; of a relation that says no, too."""
_RUNGS = {"exact": 1.0, "near": 0.85, "shorter": 0.85, "fulltext": 0.3, "none": 0.0}
_HAS = ("did ", "do ", "does ", "had ", "has ", "have ", "hat ", "hatte ", "haben ", "hatten ")  # not what it is
_END, _WHEN = "P582", "P585"  # end time, point in time
_KINDS = {"time": "time", "number": "number", "person": "item", "place": "item"}
"""Kinds of the values that answer what is asked."""


@dataclass(frozen=True)
class Segment:
    """Words of the question with what a search for them found; ``named`` and ``noun`` as of a Phrase."""

    text: str
    named: bool = False
    noun: bool = False
    rung: str = "exact"
    items: tuple[Entity, ...] = ()
    properties: tuple[Entity, ...] = ()

    @property
    def best(self) -> str:
        """Id of the likeliest item."""
        return self.items[0].id

    @cached_property
    def score(self) -> float:
        """How surely it names its first item, and no property."""
        label, wanted = fold(self.items[0].label), fold(self.text)
        score = 0.4 * (len(wanted.split()) - 1) + (1.0 if label == wanted else 0.6)
        return score + (2.0 if self.named else -1.0 * bool(self.properties))


@dataclass(frozen=True)
class Relation:
    """A property that may be meant, in a direction seen from the entity, with its statements."""

    entity: str
    property_id: str
    label: str
    direction: str
    edges: tuple[Statement, ...] = ()
    score: float = 0.0

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of the values seen; items where none was."""
        return frozenset(kind for edge in self.edges if (kind := edge.value.kind)) or frozenset({"item"})

    def triple(self, other: str = "?answer") -> str:
        """It as a pattern."""
        one, two = (f"wd:{self.entity}", other) if self.direction == "out" else (other, f"wd:{self.entity}")
        return f"{one} wdt:{self.property_id} {two} ."

    def statement(self, other: str = "?answer") -> str:
        """It as a pattern of a statement, which may go on."""
        return re.sub(r"wdt:(P\d+) (\S+) \.", r"p:\1 ?statement . ?statement ps:\1 \2", self.triple(other))


class Hypothesis(NamedTuple):
    """A query to try, the one that answers where it has rows, one of how much is kept of all, and what it compares."""

    probe: str
    thought: str
    final: str = ""
    whole: str = ""
    compared: str = ""


def searched_as(phrase: Phrase) -> str:
    """What is searched for a phrase: a class in the singular."""
    return singular(phrase.text) if phrase.noun and phrase.text.endswith("s") and len(phrase.text) > 3 else phrase.text


def property_hits(cut: Sequence[Segment]) -> dict[str, tuple[Entity, float]]:
    """Properties by id with a score of at most 1.5, the likeliest first."""
    hits: dict[str, tuple[Entity, float]] = {}
    for segment in cut:
        for place, found in enumerate(segment.properties):
            exact = fold(found.label) == fold(segment.text)
            score = _RUNGS[segment.rung] / (1 + 0.4 * place) + 0.5 * exact
            if found.id not in hits or hits[found.id][1] < score:
                hits[found.id] = (found, score)
    return dict(sorted(hits.items(), key=lambda hit: -hit[1][1]))


class WikidataAgenda(Agenda):
    """Searches, look-ups, queries and the finish for one question of a Wikibase; ``words`` are its vocabulary."""

    segments: Sequence[Segment] = ()
    """The phrases cut to the parts that were found, in the order of the question, and what a pronoun stands for."""
    names: Sequence[Segment] = ()
    """Those with items, surest first."""

    def __init__(self, toolbox: Toolbox, words: Vocabulary, state: State, context: Context) -> None:
        super().__init__(toolbox, state, context)
        self.words = words
        self.last = next((turn for turn in reversed(state["history"]) if turn.outcome.query), None)

    def calls(self) -> Iterator[Calls]:
        """See ``Agenda``."""
        refused = yield from self._tried()
        if self.note:
            return
        found = [(phrase, search) for phrase in self.question.phrases if (search := self._found(phrase))]
        lost = [(phrase, search.suggestion) for phrase, search in found if search.rung == "none"]
        names = [one.text for one, alike in lost if alike or one.noun or one.whole or not one.text[:1].islower()]
        words = self.telling(word for one, _ in lost if one.text not in names for word in one.text.split())
        self.decline(refused or (() if names else (*self.question.strict, *words)), names, words)
        self.note = self._unstated() or self.note
        if self.understood and not self.understood.instead:
            instead = dict.fromkeys((*self._exchanged(), *self._askable()))
            self.understood = replace(self.understood, instead=tuple(instead))
        follows = self.question.pronoun == "many" or (self.question.kind == "count" and not self.question.phrases)
        if self.state["history"] and (follows or re.match(r"(?i)(and|und|et|y)\b", self.question.text)):
            self.note = self.told["whole"]  # of several it is not clear which is meant

    def _exchanged(self) -> tuple[str, ...]:
        """The last question with the one name of this ("What about France?") in place of its own."""
        names, last = [one.text for one in self.names if one.score >= _SURE], self.last
        old = [one.label for one in self._referents(last, "any") if one.label in last.question] if last else []
        new = re.fullmatch(r"(?i)\W*(?:and|und|et|y|what about)(?: of| von| de)? (.+?)\W*", self.question.text)
        return (last.question.replace(old[0], new[1]),) if last and new and [new[1]] == names and len(old) == 1 else ()

    def _askable(self) -> tuple[str, ...]:
        """Questions for what is stated of the surest name, in a form that is read; the nearest to this one first."""
        words, sure = lexicon(self.language), [one for one in self.names if one.score >= _SURE]
        asked, form = dict[str, None](), words.told.get("ask", "")
        for name, edge in ((one, edge) for one in sure[:1] for edge in self._out(one.best) if form):
            label, parts = edge.property.label, edge.property.label.split()
            read = words.function.difference(words.joins).isdisjoint(parts) and parts[-1] not in words.joins
            if read and edge.value.kind in _KINDS.values():
                asked[form.format(words=label, name=name.items[0].label or name.text)] = None
        return tuple(sorted(asked, key=lambda one: -relevance(self.question.text, [one])[0])[:_RELATIONS])

    def _tried(self) -> Generator[Calls, None, tuple[str, ...]]:
        """Search, look, and query; at the end the words that the first query left out, where they were too many."""
        question, length = self.question, len(self.state["path"])
        refused, tried = tuple[str, ...](), set[str]()
        first = sorted(question.phrases, key=lambda phrase: not phrase.named)[:_SEARCHES]
        yield [("search_entities", f"Looking up “{one.text}”.", {"query": searched_as(one)}) for one in first]
        self.question = self._split(first)
        rest = [one for one in self.question.phrases if self.telling(one.text.split()) and not self._found(one)]
        again = "Looking up what no search has found yet."
        yield [("search_entities", again, {"query": searched_as(phrase)}) for phrase in rest[:_SEARCHES]]
        self._link()
        if self.note:
            return refused
        sure = [name for name in self.names[:2] if name.score >= _SURE] or self.names[:1]
        # Two sure names together, else the surest; then the next; then none.
        for focus in (*filter(None, (sure, self.names[len(sure) :][:1])), ()):
            if length < self.room:
                yield [lookup for place, name in enumerate(focus) for lookup in self._lookups(name)[: 2 - place]]
            for one in self.hypotheses(focus):
                probe = one.probe
                if probe in tried:
                    continue
                tried.add(probe)
                if probe not in self.rows:
                    if length >= self.room or len(self.rows) >= _QUERIES:
                        return refused
                    yield [(QUERY, one.thought, {"query": probe})]
                if not self.rows.get(probe):
                    continue
                unused = self.unused(*self._stated_by(probe), probe)
                if self._lacks(probe, unused):
                    refused = refused or unused
                    continue
                doubts = (yield from self.parted(one.whole, one.compared)) if one.whole else ()
                final = one.final or probe
                yield [(QUERY, "That has rows; the question is how many they are.", {"query": final})]
                if number := next((step.result for step in self.steps if step.query == final and step.rows), 0):
                    told = focus[0].items[0] if "?direct" in probe else Entity("")
                    said = [one for one in self.telling(unused) if fold(one) not in self.question.hint.split()]
                    self.understood = Understood(told.label, (*said, *self.question.second), doubts=doubts)
                    yield [(FINISH, FITS, {"result": number, "answer": told.description or self._sentence(probe)})]
        return refused

    def _unstated(self) -> str:
        """That the one name has no statement of the property that all other words name; empty where they name none."""
        question, sure = self.question, [name for name in self.names if name.score >= _SURE]
        if question.kind == "yes-no" or question.needed or (len(sure), len(rest := self.besides(*sure))) != (1, 1):
            return ""
        name, reaching = sure[0], self.edges.get((sure[0].best, "in"), ())
        reaching = [edge for edge in reaching if not question.asks_of(name.text, edge.property.label)]
        stated = {edge.property.id for edge in (*self._out(name.best), *reaching)}
        hits = [hit for hit, score in property_hits(rest).values() if score >= 0.5]
        hints = {"time": "time", "place": question.hint}.get(question.asks, "")
        hits = [hit for hit in hits if not hints or any(relevance(fold(hints), [fold(f"{hit.datatype} {hit.label}")]))]
        lacking = hits and stated and hits[0].id not in stated
        return self.told["unstated"].format(words=hits[0].label, name=name.text) if lacking else ""

    def _found(self, phrase: Phrase) -> SearchResult | None:
        """What the search for a phrase found; None where there was none."""
        return self.searches.get(searched_as(phrase))

    def _split(self, searched: Sequence[Phrase]) -> Question:
        """The question with phrases that were not found cut to the parts that were; the rest is to be searched for.

        Of what was not found at all the last word is cut off, or, in a language with endings, the last letter: names
        are found by their beginning.
        """
        names, whole = list[str](), set[Phrase]()
        for phrase in searched:
            found = self._found(phrase) or NOTHING
            if found.rung == "exact":
                whole.add(phrase)
            names += [name for one in (*found.entities, *found.properties) for name in (one.label, one.alias)]
            names += found.matched.split(" | ") if found.rung == "shorter" else ()
        phrases = [replace(one, whole=True) if one in whole else one for one in self.question.phrases]
        question = with_names(replace(self.question, phrases=tuple(phrases)), names, self.language)
        cut = list[Phrase]()
        for one in question.phrases:
            *others, last = one.text.split()
            if one not in searched or (self._found(one) or NOTHING).rung not in ("none", "fulltext"):
                cut.append(one)
            elif lexicon(self.language).inflected:
                cut.append(replace(one, text=one.text[:-1]))
            else:
                rest = [replace(one, text=" ".join(others))] if others else []
                cut += [*rest, Phrase(last, one.named, one.noun and not rest)]
        return replace(question, phrases=tuple(cut))

    def _link(self) -> None:
        """Link the phrases to what was found, and a pronoun to what the last turn was about."""
        cut: dict[str, Segment] = {}
        for phrase in self.question.phrases:
            if search := self._found(phrase):
                named = Segment(phrase.text, phrase.named, phrase.noun, search.rung, search.entities, search.properties)
                cut.setdefault(fold(phrase.text), named)
        linked = [one for one in cut.values() if one.items and not one.noun]
        unique = {segment.best: segment for segment in sorted(linked, key=lambda segment: segment.score)}
        self.names = sorted(unique.values(), key=lambda segment: -segment.score)
        self.segments = list(cut.values())
        names = "|".join(re.escape(fold(one.text)) for one in self.names)
        self.asked = re.sub(rf" of ({names})\b", "", fold(self.question.text))  # "the mother of the wife"
        if self.last and self.question.pronoun and (before := self._referents(self.last, self.question.pronoun)):
            if len(before) > 1 and self.question.pronoun in ("m", "f") and self.words.of(SEX):
                self.note = self.told["meant"].format(words=", ".join(one.label for one in before))
            failed = takewhile(lambda turn: not turn.outcome.query, reversed(self.state["history"]))
            read = [one for turn in failed if not (one := read_question(turn.question, self.language)).pronoun]
            since = [one.text for asked in read for one in asked.phrases if not asked.text.startswith(one.text)]
            known = f"{before[0].label} {self.last.question}"
            if any(one[:1].isupper() and one not in known for one in since):  # a question that failed named it
                self.note = self.note or self.told["whole"]
            meant = Segment(before[0].label, named=True, items=before)
            self.names, self.segments = [meant, *self.names], [*self.segments, meant]

    def _lookups(self, focus: Segment) -> Calls:
        name, entity = focus.text, focus.best
        rest = " ".join(segment.text for segment in self.besides(focus))
        incoming = {"entity_id": entity, "query": rest or name, "direction": "in"}
        return [
            ("get_entry", f"{name} may be {entity}; reading what is stated of it.", {"entity_id": entity}),
            ("search_neighbors", f"Looking at what points to {entity} and fits the question's other words.", incoming),
        ]

    @cached_property
    def edges(self) -> Mapping[tuple[str, str], list[Statement]]:
        """Statements that leave ("out") and reach ("in") the entities that were looked at, by entity and direction."""
        found: dict[tuple[str, str], list[Statement]] = {}
        for step in (*self.steps_of("get_entry"), *self.steps_of("search_neighbors")):
            entity, data = str(step.call.arguments["entity_id"]), self.data_of(step)
            if isinstance(data, Entry):
                found.setdefault((entity, "out"), []).extend(data.statements)
            elif isinstance(data, Neighborhood):
                for edge in data.edges:
                    found.setdefault((entity, edge.direction), []).append(Statement(edge.relation, edge.neighbor))
        return found

    def _out(self, *entities: str) -> list[Statement]:
        """What is stated of some entities."""
        return [edge for one in entities for edge in self.edges.get((one, "out"), ())]

    def _referents(self, last: Turn, pronoun: str) -> tuple[Entity, ...]:
        """What a pronoun may stand for of the last turn; "she" and "he" by gender, or the answer if none is stated."""
        words, given = self.words, self.table(last.outcome.query)
        answers = list(dict.fromkeys(one for row in given.rows for cell in row if (one := given.entity(cell))))
        about = list(dict.fromkeys(re.findall(r"\bwd:(Q\d+)", re.sub(r"\* wd:Q\d+", "", last.outcome.query))))[:2]
        if pronoun == "many":  # one of several is not what "they" means
            about, answers = [], answers if len(answers) == 1 else []
        order = list(dict.fromkeys([*about, *answers[: 1 if pronoun == "any" else 5]]))
        if order and (wanted := words.of({"m": MALE, "f": FEMALE}.get(pronoun, ""))):
            said, known = self.question.text, lexicon(self.language).pronouns
            at = next((one.start() for one in re.finditer(r"\w+", said) if known.get(one[0].casefold()) == pronoun), 0)
            named = [one.best for one in self.names if one.named and one.text in said[:at]]
            listed = " ".join(f"wd:{item}" for item in (*order, *named))
            table = self.table(f"SELECT ?one ?of WHERE {{ VALUES ?one {{ {listed} }} ?one wdt:{words.of(SEX)} ?of . }}")
            genders = {table.entity(one): table.entity(gender) for one, gender in table.rows}
            fitting = [item for item in order if genders.get(item) == wanted]
            order = fitting or [item for item in answers[:1] if item not in genders]
            order = [] if len(order) > 1 and wanted in map(genders.get, named) else order  # whom the question names
        names = self.context.kb.labels(order, language=self.language)
        return tuple(Entity(item, names.get(item, item)) for item in order)

    def besides(self, *named: Segment) -> list[Segment]:
        """The other segments, less those within the names."""
        taken = [fold(one.text) for one in named]
        return [one for one in self.segments if not any(fold(one.text) in text for text in taken)]

    @cached_property
    def kind(self) -> str:
        """Id of the class that the question asks for members of, as in "which elements"; empty where unknown."""
        if self.words.each((INSTANCE_OF, OCCUPATION)):
            for segment in self.segments:
                if segment.noun and segment.items and segment.rung != "fulltext":
                    return segment.best
        return ""

    @cached_property
    def _of_kind(self) -> str:
        """Member of that class or of a subclass; people are members of their occupations."""
        return f"?answer {self._path(INSTANCE_OF, OCCUPATION)} wd:{self.kind}"

    def _path(self, *first: str) -> str:
        """From a thing by one of some properties to a class and all above it; empty where there are none of these."""
        ways, wider = "|".join(f"wdt:{way}" for way in self.words.each(first)), self.words.of(SUBCLASS_OF)
        either = f"({ways})" if "|" in ways else ways
        return f"{either}/wdt:{wider}*" if wider and ways else either

    def _values(self, pattern: str, thought: str, *, number: bool = False) -> Hypothesis:
        """Everything that fits a pattern of ``?answer``, or how many they are."""
        probe = f"SELECT DISTINCT ?answer WHERE {{ {pattern} }}"
        counted = f"SELECT (COUNT(DISTINCT ?answer) AS ?count) WHERE {{ {pattern} }}"
        return Hypothesis(probe, thought, counted if self.question.kind == "count" and not number else "")

    def hypotheses(self, focus: Sequence[Segment]) -> Iterator[Hypothesis]:
        """Queries about the entities in focus (none: about a class only), which have been looked at.

        The most specific come first: what a name is, a superlative, a qualifier, a text that is a value, values
        narrowed by a second name or class or followed further, members, values. None compares two things.
        """
        question = self.question
        if question.comparative or any(" " in one for one in question.strict):
            return
        if len(focus) == 1 and not question.pronoun and question.about(focus[0].text):
            stated = f"wd:{focus[0].best} ?direct ?value . ?property wikibase:directClaim ?direct"
            ids = "FILTER NOT EXISTS { ?property wikibase:propertyType wikibase:ExternalId }"
            yield Hypothesis(f"SELECT ?property ?value WHERE {{ {stated} . {ids} }}", "Reading what is stated of it.")
        if self.kind and (question.measure or question.years):
            yield from self._compared(focus)
        ranked = sorted((one for name in focus for one in self._relations(name)), key=lambda one: -one.score)
        if question.kind == "yes-no":
            if focus:
                yield from self._checks(focus[0], ranked)
            return
        for relation in ranked[:_RELATIONS]:
            yield from self._in_year(relation)
        if question.asks == "time" and len(self.names) == 1:  # "discovered": time of discovery, before a qualifier
            words = [word for one in self.besides(*focus) for word in one.text.split()]
            said = fold(" ".join((*words, *(lexicon(self.language).verbs.get(word.casefold(), "") for word in words))))
            for relation in ranked[:_RELATIONS]:
                if relation.kinds == {"time"} and any(relevance(said, [fold(relation.label)])):
                    yield self._values(relation.triple(), f"{relation.label} ({relation.property_id}) is asked for.")
        for one in focus:
            yield from self._qualified(one)
            for hit, score in property_hits(self.besides(one)).values():  # "the symbol Se"
                if fold(one.items[0].label) != fold(one.text) and hit.datatype == "string" and score >= 0.7:
                    yield self._values(f"?answer wdt:{hit.id} {text_literal(one.text)} .", f"It may be a {hit.label}.")
        for relation in ranked[:_RELATIONS]:
            if "item" in relation.kinds:
                yield from self._narrowed(relation, next(one for one in focus if one.best == relation.entity))
        yield from self._members(focus)
        for relation in [one for one in ranked[:_RELATIONS] if one.direction == "out" or not self.kind]:
            thought = f"{relation.label} ({relation.property_id}) fits the question best of what is left."
            yield self._values(relation.triple(), thought, number="number" in relation.kinds)

    def _relations(self, focus: Segment) -> Iterator[Relation]:
        """Properties of an entity, scored by how their labels fit the other words, by searches, and by their values."""
        question, cut = self.question, self.besides(focus)
        wanted, classes = _KINDS.get(question.asks, ""), self.words.each((INSTANCE_OF, SUBCLASS_OF))
        hint, groups = lexicon(self.language).hints.get("place", ""), dict[tuple[str, str], list[Statement]]()
        for way in ("out", "in"):
            for edge in self.edges.get((focus.best, way), ()):
                groups.setdefault((edge.property.id, way), []).append(edge)
        bare = re.fullmatch(rf"(?i)where (?:is|are)(?: the)? {re.escape(focus.text)}\W*", question.text)
        about = "country location" if bare else question.hint
        light = [one.text for one in question.phrases if not (cut or question.asks or self._found(one))]  # "named"
        hits, said = property_hits(cut), " ".join([*(one.text for one in cut), *light, about])
        fits = fit(said, [edges[0].property.label for edges in groups.values()])
        for label_fit, ((name, way), edges) in zip(fits, groups.items(), strict=True):
            relation = Relation(focus.best, name, edges[0].property.label, way, tuple(edges))
            score = label_fit + (hits[name][1] if name in hits else 0.0)
            if way == "in" and question.kind != "yes-no" and question.asks_of(focus.text, relation.label):
                continue
            suits, place = wanted in relation.kinds, any(relevance(fold(hint), [fold(relation.label)]))
            if (question.asks, way) == ("place", "in") or ((question.asks, way) == ("person", "out") and place):
                continue  # what is linked to a place is none, and no place is a person
            if question.asks == "place":
                suits = any(relevance(fold(about), [fold(relation.label)]))
            dated = wanted == "time" and suits
            total = score - 0.5 * (name in classes) + (0.4 if suits else -0.4 if wanted else 0.0)
            fitting = dated if wanted == "time" else wanted != "item" or relation.kinds != {"time"}
            if (fitting or question.kind == "yes-no") and total >= _ENOUGH and (score > 0 or dated):
                yield replace(relation, score=total)

    def _narrowed(self, relation: Relation, name: Segment) -> Iterator[Hypothesis]:
        """Of what a relation links: what a second name is linked to; what is of the class; what lies further on."""
        triple, label = relation.triple(), f"{relation.label} ({relation.property_id})"
        of_kind = f" {self._of_kind} ." if self.kind else ""
        for other in [one for one in self.names if one.text != name.text and one.score >= _SURE][:1]:
            thought = f"Perhaps it is what {label} links, and it also has to do with {other.text}."
            ways = (f"?answer ?link wd:{other.best} .", replace(relation, entity=other.best).triple())
            for more in ways[: 1 + bool(re.search(" (?:and|und|et|y) ", self.question.text))]:
                yield self._values(f"{triple} {more}{of_kind}", thought)
        nouns = " ".join(f"{one.text} {one.items[0].label if one.items else ''}" for one in self.segments if one.noun)
        kind_of = relation.property_id in self.words.each((INSTANCE_OF, SUBCLASS_OF))
        # Awards are what is received, whatever their class.
        if relation.direction == "out" and not kind_of and any(relevance(fold(nouns), [fold(relation.label)])):
            yield self._values(triple, f"{label} is asked for.")
        elif self.kind:
            members = self._values(triple + of_kind, f"{label} fits; members of the class {self.kind} are asked for.")
            yield members._replace(whole=kept_of(triple, f"{self._of_kind} ."))
        yield from self._chains(relation, name)

    def _chains(self, first: Relation, name: Segment) -> Iterator[Hypothesis]:
        """Paths over the further properties that the question names, the nearest to the name first."""
        last = {"time": "time", "person": "wikibase-item", "place": "wikibase-item"}.get(self.question.asks, "")
        place, steps, paths = self.segments.index(name), list[Entity](), list[Hypothesis]()
        for segment in sorted(self.besides(name), key=lambda one: (one.noun, abs(self.segments.index(one) - place))):
            hits = property_hits([segment])
            if first.property_id in hits or any(relevance(fold(segment.text), [fold(first.label)])):
                continue  # it names the first
            # A class asked for ("which country"), and a text, leads on only where it is a property by name.
            fits = [found for found, score in hits.values() if score >= 0.6]
            by_name = [one for one in fits if fold(segment.text) in (fold(one.label), fold(one.alias))]
            fits = by_name if segment.noun else [one for one in fits if one.datatype != "string" or one in by_name]
            ends = [one for one in fits if last in ("", one.datatype)]
            if ends and (last or segment.noun or f"{fold(segment.text)} of " in self.asked):  # it is what is asked for
                onwards = "/".join(f"wdt:{step.id}" for step in (*steps, ends[0]))
                names = ", then ".join([first.label, *(step.label for step in (*steps, ends[0]))])
                pattern = f"{first.triple('?between')} ?between {onwards} ?answer ."
                paths.append(self._values(pattern, f"The question names several relations: {names}."))
            steps += [one for one in fits if one.datatype == "wikibase-item"][:1]
        yield from reversed(paths)

    def _members(self, focus: Sequence[Segment]) -> Iterator[Hypothesis]:
        """Members of the class asked for: linked in any way to the names, or all where there are none."""
        unlinked = any(name.score < _LIKELY for name in focus) or (self.names and not focus)
        if self.kind and not self.question.measure and not self.question.years and not unlinked:
            linked = "".join(f" ?answer ?link{number} wd:{name.best} ." for number, name in enumerate(focus))
            yield self._values(f"{self._of_kind} .{linked}", "Members of its class that have to do with what it names.")

    def _in_year(self, relation: Relation) -> Iterator[Hypothesis]:
        """What a relation links by statements of the year that the question names, as winners of a prize then."""
        question = self.question
        signs, years = [*zip(*question.years, strict=True)] or ((), ())
        spans, facts = signs == (">=", "<="), [one for edge in relation.edges for one in edge.qualifiers]
        dates = [one for one in facts if one.value.kind == "time" and one.value.text[:4] in map(str, years)]
        when = dates[0].property.id if dates and not spans else self.words.of(_WHEN)
        known = when and (relation.direction == "in" or dates)
        if known and question.asks != "time" and (spans or signs in (("=",), ("<=",))):
            ended = when == self.words.of(_END)  # "until 1918" is when something ended
            kept = "".join(f" FILTER(YEAR(?date) {'=' if ended else sign} {year})" for sign, year in question.years)
            pattern = f"{relation.statement()} ; pq:{when} ?date .{kept}"
            yield self._values(pattern, f"{relation.label} ({relation.property_id}) fits the question, in those years.")

    def _qualified(self, focus: Segment) -> Iterator[Hypothesis]:
        """A qualifier that is asked for, as when a prize was received, or with whom."""
        question, others = self.question, [name for name in self.names if name.text != focus.text]
        named, called = {item.id for other in others for item in other.items}, {other.best for other in others}
        rest = " ".join([*(segment.text for segment in self.besides(focus)), question.hint])
        edges = [edge for edge in self._out(focus.best) if edge.qualifiers and edge.value.id]
        fits = fit(rest, [f"{edge.property.label} {edge.value.text}" for edge in edges])
        ranked = sorted(zip(fits, edges, strict=True), key=lambda pair: -(pair[0] + 2 * (pair[1].value.id in named)))
        left = " ".join(segment.text for segment in self.besides(focus, *others))
        kind = {"time": "time", "person": "item"}.get(question.asks, "")  # else one whose name fits is asked for
        for score, edge in ranked[:3]:
            asked = edge.value.id in named or (score > 0 and question.asks == "time")
            kinds = [(one, one.value.kind) for one in edge.qualifiers]
            facts = [one for one, other in kinds if other == kind or not (kind or other in ("time", ""))]
            fits = [1.0] * len(facts) if kind else fit(left, [one.property.label for one in facts])
            best, wanted = max(zip(fits, facts, strict=True), key=lambda pair: pair[0], default=(0.0, None))
            if asked and wanted and best > 0:
                alike = [one.value.id for one in edges if one.property == edge.property and one.value.id in named]
                of = {} if edge.value.id in called else dict.fromkeys(alike)
                among = " ".join(f"wd:{one}" for one in of or [edge.value.id])
                relation = Relation(focus.best, edge.property.id, edge.property.label, "out")
                pattern = f"VALUES ?of {{ {among} }} {relation.statement('?of')} ; pq:{wanted.property.id} ?answer ."
                thought = f"{edge.property.label}: {edge.value.text} says more: {wanted.property.label} is asked for."
                yield self._values(pattern, thought)

    def _checks(self, focus: Segment, ranked: Sequence[Relation]) -> Iterator[Hypothesis]:
        """Yes/no questions: whether two entities are linked, or whether one has a property at all."""
        other = next((name for name in self.names if name.best != focus.best), None)
        subject, has = f"wd:{focus.best}", self.question.text.casefold().startswith(_HAS)
        if other is None:
            found = [] if has else [*(relation.property_id for relation in ranked), *property_hits(self.besides(focus))]
            for property_id in found[:1]:
                either = f"{{ {subject} wdt:{property_id} ?value }} UNION {{ ?value wdt:{property_id} {subject} }}"
                yield Hypothesis(f"ASK {{ {either} }}", f"Checking whether {focus.text} has any {property_id}.")
            return
        own = {found.id for found in other.properties}  # "a programming language" is a thing, no property
        for one in ranked:
            (end,) = {focus.best, other.best} - {one.entity}
            linked = any(edge.value.id == end for edge in one.edges)
            sure = one.score >= _STATED and "item" in one.kinds and one.property_id not in own
            if linked or (sure and not has):
                every = {edge.rank for edge in one.edges} != {"normal"}  # a preferred statement may hide it
                pattern = (one.statement if linked and every else one.triple)(f"wd:{end}")
                yield Hypothesis(f"ASK {{ {pattern} }}", f"Checking {one.label} between {focus.text} and {other.text}.")
                return
        if has:
            return
        path, value = self._path(INSTANCE_OF, SUBCLASS_OF), f"wd:{other.best}"
        either = f"{{ {subject} ?link {value} }} UNION {{ {value} ?link {subject} }}"
        if path:
            either += f" UNION {{ {subject} {path} {value} }}"
        yield Hypothesis(f"ASK {{ {either} }}", f"Checking whether {focus.text} is, or is linked to, {other.text}.")

    def _compared(self, focus: Sequence[Segment]) -> Iterator[Hypothesis]:
        """Members of a class by a date or a quantity, the question's or its adjective's: the first, or within years."""
        dimension, order = self.question.measure or ("date", "")
        kinds = ("time",) if dimension == "date" else ("quantity", "time")
        hits = property_hits([segment for segment in self.segments if not segment.noun]).values()
        linked = "".join(f"?answer ?link wd:{name.best} . " for name in focus if name.score >= _SURE)
        years = "".join(f" FILTER(YEAR(?value) {sign} {year})" for sign, year in self.question.years)
        for measure in [hit for hit, score in hits if hit.datatype in kinds and score >= 0.5][:2]:
            pattern = f"{linked}{self._of_kind} ; wdt:{measure.id} ?value .{years}"
            whole = kept_of(f"{linked}{self._of_kind} .", f"?answer wdt:{measure.id} ?value .")
            thought = f"Comparing members of the class {self.kind} by {measure.id}."
            best = Hypothesis(best_of("?answer", pattern, "?value", order), thought)
            yield (best if order else self._values(pattern, thought))._replace(whole=whole, compared=measure.label)

    def _stated_by(self, query: str) -> tuple[set[str], set[str]]:
        """The labels of a query's ids, and the words of the question that name them."""
        ids, labels = set(entity_ids(query)), set(re.findall(r'"([^"]*)"', query))
        named = set(re.findall(r"\b\d{4}\b", query))
        for segment in self.segments:
            used = [hit for hit in (*segment.items, *segment.properties) if hit.id in ids]
            called = {name for hit in used for name in (hit.label, hit.alias)}
            labels |= called
            things = any(hit in segment.items for hit in used)
            if segment.rung != "fulltext" and (things or fold(segment.text) in map(fold, called)):
                named |= set(fold(segment.text).split())
        for edge in chain.from_iterable(self.edges.values()):
            facts: tuple[Statement | Qualifier, ...] = (edge, *edge.qualifiers)
            for fact in facts:
                labels |= {fact.property.label} if fact.property.id in ids else set()
                labels |= {fact.value.text} if fact.value.id in ids else set()
        return labels, named

    def _lacks(self, query: str, unused: Sequence[str]) -> bool:
        """Whether a query leaves out too much; nothing may be of a no, of a class alone, or beside any link."""
        of_class = set(re.findall(r"\bwd:(Q\d+)", query)) == {self.kind} and "ORDER BY" not in query
        needed = of_class or self.table(query).boolean is False or "?link" in query or not reads(self.language)
        left = self.telling(unused)
        joined = re.findall(r"(\w+ \w+|\w+) (?:and|und|et|y) (?:\w{1,3} )?(\w+)", fold(self.question.text))
        needed |= not {*map(fold, left)}.isdisjoint(" ".join(chain(*joined)).split())  # never for one of two
        # What a word names, or is asked "of", is another thing than the query's: no actor of films, for "directed".
        likely = [one for one in self.segments if one.properties and not one.noun and f"wd:{self.kind} " in query]
        named = [one.text for one in likely if any(relevance(fold(one.text), [fold(one.properties[0].label)]))]
        needed |= not {*left}.isdisjoint(named) or any(f"{fold(one)} of " in self.asked for one in left)
        return self.leaves_too_much(unused, rows=self.rows.get(query, 0), all_needed=needed)

    def _sentence(self, query: str) -> str:
        """The answer in words where values alone would not say what they are: a check, a life, a dated number."""
        table, ids, life = self.table(query), entity_ids(query), self.words.each((BIRTH, DEATH))
        if query.startswith("ASK"):
            return "✓" if table.boolean else f"✗ ({self.told['no']})"
        told: list[Statement | Qualifier] = []
        if life and self.question.asks != "time" and re.search(rf"wd:Q\d+ wdt:{life[0]} \?answer", query):
            told += [edge for edge in self._out(*ids) if edge.property.id in life and edge.value.text]
        values = [cell.value for row in table.rows for cell in row if cell]
        for edge in self._out(*ids):
            dated = edge.qualifiers and edge.value.kind == "number" and edge.property.id in ids
            if dated and [edge.value.text] == values:
                told += [edge, *edge.qualifiers]
        properties, language = [one.property.id for one in told], self.context.answer_language
        names = self.context.kb.labels(properties, language=language) if told else {}
        return "; ".join(f"{names.get(one.property.id, one.property.label)}: {one.value.text}" for one in told)
