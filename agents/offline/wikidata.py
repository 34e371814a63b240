"""The policy for knowledge bases with Wikidata's model: search, look, try queries until one has rows, finish.

It links the question's names, ranks properties against its other words, and reads from the observations what a model
would see there; it knows no facts. Which queries it can write says ``Reading.hypotheses``.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from rapidfuzz import fuzz

from kbnav.agents.common.state import State
from kbnav.agents.offline.observations import Edge, Evidence, Fact, Search, SearchHit
from kbnav.agents.offline.policy import FITS, ROOM, KeylessPolicy, Plan, leaves_too_much, unused_words
from kbnav.agents.offline.policy import Turn as Calls
from kbnav.agents.offline.question import Phrase, Question, read_question
from kbnav.answers.language import fold, singular
from kbnav.answers.lexicon import lexicon, reads, why_unread
from kbnav.answers.relevance import fit, relevance, words
from kbnav.knowledge.sparql.vocabulary import (
    FEMALE,
    INSTANCE_OF,
    MALE,
    OCCUPATION,
    SEX,
    SUBCLASS_OF,
    WIKIDATA_VOCABULARY,
    Vocabulary,
    entity_ids,
    text_literal,
)
from kbnav.runs.trajectory import FINISH, QUERY, Step, Turn, Understood
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox

_SEARCHES, _SECOND_SEARCHES, _TARGETS, _QUERIES, _RELATIONS = 4, 2, 3, 8, 3
_ENOUGH = 0.35
"""Score of a relation that is tried."""
_LIKELY, _SURE = 0.2, 1.0
"""Scores of a name: below the first it is no link, from the second on it is hardly anything else."""
_RUNGS = {"exact": 1.0, "shorter": 0.85, "fulltext": 0.3, "none": 0.0}
_PLACES = (1.0, 0.75, 0.55, 0.4)
_KIND_FITS = {
    "time": {"time": 0.7, "": -0.5},
    "number": {"number": 0.4, "": 0.0},
    "person": {"time": -0.8, "item": 0.0, "": -0.4},
    "place": {"time": -0.8, "item": 0.0, "": -0.4},
}
"""How well values of a kind answer what is asked, the first kind that is there; "" for any other."""
_UNSAID = frozenset({"external-id", "commonsMedia", "url", "math", "globe-coordinate"})
"""Datatypes whose values a question in words hardly asks for, unless a label says so."""
_CLASS_PATH = re.compile(r"wdt:P\d+\* wd:Q\d+")
"""The end of a path to a class and what is above it."""
_OF_CLASS = re.compile(r"\?answer (?:\(?wdt:P\d+(?:\|wdt:P\d+)*\)?)/wdt:P\d+\* wd:(Q\d+)")
_NAMED = re.compile(r"(?:^|[:>] |^- )([^:()\[\];\n]{1,80}) \((Q\d+)\)|\b(Q\d+) \(([^()\n]{1,80})\)", re.MULTILINE)


@dataclass(frozen=True)
class Segment:
    """Words of the question with what a search for them found; ``named`` and ``noun`` as of a Phrase."""

    text: str
    named: bool = False
    noun: bool = False
    rung: str = "exact"
    items: tuple[SearchHit, ...] = ()
    properties: tuple[SearchHit, ...] = ()

    @property
    def best(self) -> str:
        """Id of the likeliest item."""
        return self.items[0].id

    @cached_property
    def score(self) -> float:
        """How surely it names its first item, and no property."""
        label, wanted = fold(self.items[0].label), fold(self.text)
        score = 0.4 * (len(wanted.split()) - 1)
        score += 1.0 if label == wanted else 0.2 if label.startswith(wanted) else 0.6
        if self.named:
            score += 2.0
        else:
            relations = [one for one in self.properties if one.datatype not in _UNSAID]
            score -= 1.5 if any(fold(one.label) == wanted for one in relations[:1]) else 1.0 * bool(relations)
        return score - (2.0 if self.rung == "fulltext" else 0.0)


@dataclass(frozen=True)
class Hit:
    """A property that the search for a segment found; ``score`` is at most 1.5."""

    found: SearchHit
    score: float
    segment: Segment


@dataclass(frozen=True)
class Relation:
    """A property that may be meant, in a direction seen from the entity; without edges it is only supposed."""

    entity: str
    property_id: str
    label: str
    direction: str
    edges: tuple[Edge, ...] = ()
    datatype: str = ""
    score: float = 0.0

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of the values seen; of the property's datatype where none was."""
        by_type = {"wikibase-item": "item", "quantity": "number"}.get(self.datatype, self.datatype)
        return frozenset(edge.fact.kind for edge in self.edges if edge.fact.kind) or frozenset({by_type})

    def triple(self, other: str = "?answer") -> str:
        """It as a pattern."""
        one, two = (f"wd:{self.entity}", other) if self.direction == "out" else (other, f"wd:{self.entity}")
        return f"{one} wdt:{self.property_id} {two} ."


@dataclass(frozen=True)
class Hypothesis:
    """A query to try, and, where that has rows, the one that answers (the same, but for counts)."""

    probe: str
    thought: str
    final: str = ""


def searched_as(phrase: Phrase) -> str:
    """What is searched for a phrase: a class in the singular."""
    word = phrase.text
    if not phrase.noun or not word.isascii() or len(word) <= 3:
        return word
    return word[:-1] if word.endswith("vies") else singular(word)


def leftovers(phrase: Phrase, search: Search | None, language: str) -> list[Phrase]:
    """What to search for next: words that no part of the search matched.

    Where nothing matched in a language with endings, the phrase without its last letter: names are found by their
    beginning.
    """
    said, known = phrase.text.split(), lexicon(language)
    if search is None or search.rung == "exact":
        return []
    if search.rung in ("none", "fulltext"):
        if known.inflected and len(said[-1]) > 3:
            return [Phrase(phrase.text[:-1], phrase.named, phrase.noun)]
        return [Phrase(said[-1], phrase.named)] * (len(said) > 1)
    matched = {word for part in search.matched for word in fold(part).split()}
    runs: list[list[str]] = [[]]
    for word in said:
        if any(fold(word).startswith(one) for one in matched):
            runs.append([])
        elif word not in known.joins or runs[-1]:
            runs[-1].append(word)
    heads = [
        Phrase(one, noun=True) for one in search.matched if phrase.noun and fold(phrase.text).startswith(fold(one))
    ]
    rest = [" ".join(run) for run in runs if run]
    return [one for one in heads if searched_as(one) != one.text] + [
        Phrase(text, text[:1].isupper() and phrase.named) for text in rest if len(text) > 1 or not text.isascii()
    ]


def segments(phrases: Sequence[Phrase], seen: Evidence) -> list[Segment]:
    """Phrases cut to the parts that were found, in the order of the question; those not found are kept as they are."""
    cut: dict[str, Segment] = {}
    for phrase in phrases:
        search = seen.searches.get(searched_as(phrase))
        if search is None:
            continue
        parts = search.matched if search.rung == "shorter" else (phrase.text,)
        several = len(parts) > 1
        whose: dict[str, tuple[list[SearchHit], list[SearchHit]]] = {part: ([], []) for part in parts}
        for hit in (*search.items, *search.properties):  # a hit belongs to the part whose words its label has
            alike = [fuzz.token_set_ratio(fold(part), fold(hit.label)) // 10 for part in parts]
            whose[parts[alike.index(max(alike))]][hit.kind == "property"].append(hit)
        for part, (items, properties) in whose.items():
            named = phrase.named and (not several or any(char.isupper() for char in part))
            noun = phrase.noun and (not several or fold(searched_as(phrase)).startswith(fold(part)))
            if not several or fold(part) not in cut:
                cut[fold(part)] = Segment(part, named, noun, search.rung, tuple(items), tuple(properties))
    return list(cut.values())


def property_hits(cut: Sequence[Segment]) -> dict[str, Hit]:
    """Properties by id, each with its best segment, the likeliest first."""
    hits: dict[str, Hit] = {}
    for segment in cut:
        for place, one in enumerate(segment.properties):
            exact = fold(one.label) == fold(segment.text)
            if one.datatype in _UNSAID and not exact:
                continue
            score = _RUNGS[segment.rung] * _PLACES[min(place, len(_PLACES) - 1)] + 0.5 * exact
            score *= 0.6 if segment.noun and not exact else 1.0
            if one.id not in hits or hits[one.id].score < score:
                hits[one.id] = Hit(one, score, segment)
    return dict(sorted(hits.items(), key=lambda hit: -hit[1].score))


@dataclass(frozen=True)
class Reading:
    """A question with everything its phrases were found to be; ``names`` are the segments with items, surest first."""

    question: Question
    segments: tuple[Segment, ...]
    names: tuple[Segment, ...]
    seen: Evidence
    last: Turn | None
    words: Vocabulary

    @classmethod
    def of(
        cls, question: Question, phrases: Sequence[Phrase], seen: Evidence, history: Sequence[Turn], words: Vocabulary
    ) -> Reading:
        """Link the phrases, and a pronoun to what the last turn was about."""
        cut = segments(phrases, seen)
        classes = {item.id for one in cut if one.noun for item in one.items[:1]}
        unique: dict[str, Segment] = {}
        for one in sorted((one for one in cut if one.items and not one.noun), key=lambda one: -one.score):
            if one.best not in classes:
                unique.setdefault(one.best, one)
        names = list(unique.values())
        last = history[-1] if history else None
        if last and question.pronoun and (before := _referents(last, question.pronoun, words)):
            names.insert(0, Segment(before[0].label, named=True, items=before))
            cut.append(names[0])
        return cls(question, tuple(cut), tuple(names), seen, last, words)

    def besides(self, *named: Segment) -> list[Segment]:
        """The other segments, less those within the names."""
        taken = [fold(one.text) for one in named]
        return [one for one in self.segments if not any(fold(one.text) in text for text in taken)]

    @cached_property
    def kind(self) -> str:
        """Id of the class that the question asks for members of, as in "which elements"; empty where unknown."""
        if not self.words.each((INSTANCE_OF, OCCUPATION)):
            return ""
        for one in self.segments:
            if one.noun and one.rung != "fulltext":
                for item in one.items:
                    label, wanted = fold(item.label), fold(one.text)
                    if label == wanted or not label.startswith(wanted):  # else its label only begins with the words
                        return item.id
        return ""

    @cached_property
    def _of_kind(self) -> str:
        """Member of that class or of a subclass; people are members of their occupations."""
        return f"?answer {self._path(INSTANCE_OF, OCCUPATION)} wd:{self.kind}"

    def _path(self, *first: str) -> str:
        """From a thing by one of some properties to a class and all above it; empty where there are none of these."""
        ways, wider = "|".join(f"wdt:{one}" for one in self.words.each(first)), self.words.of(SUBCLASS_OF)
        either = f"({ways})" if "|" in ways else ways
        return f"{either}/wdt:{wider}*" if wider and ways else either

    def _values(self, pattern: str, thought: str, *, number: bool = False) -> Hypothesis:
        """Everything that fits a pattern of ``?answer``, or how many they are."""
        probe = f"SELECT DISTINCT ?answer WHERE {{ {pattern} }}"
        if self.question.kind != "count" or number:
            return Hypothesis(probe, thought)
        return Hypothesis(probe, thought, f"SELECT (COUNT(DISTINCT ?answer) AS ?count) WHERE {{ {pattern} }}")

    def hypotheses(self, focus: Sequence[Segment]) -> Iterator[Hypothesis]:
        """Queries about the entities in focus (none: about a class only), which have been looked at.

        The most specific come first: the last question about another name, a superlative, a qualifier, a text that is a
        value, values narrowed by a second name or class or followed further, members, values. None compares two things.
        """
        question = self.question
        if question.comparative:
            return
        if self.last and len(focus) == 1 and not question.pronoun and not self.besides(focus[0]):
            about = _asked_about(self.last)
            if len(about) == 1:
                again = re.sub(rf"\bwd:{about[0]}\b", f"wd:{focus[0].best}", self.last.outcome.query)
                yield Hypothesis(again, f"The last question again, about {focus[0].text}.")
        if question.measure and self.kind:
            yield from self._superlatives(focus, *question.measure)
        ranked = sorted((one for name in focus for one in self._relations(name)), key=lambda one: -one.score)
        if question.kind == "yes-no":
            if focus:
                yield from self._checks(focus[0], ranked)
            return
        for one in focus:
            yield from self._qualified(one)
            yield from self._literals(one)
        for relation in ranked[:_RELATIONS]:
            if "item" in relation.kinds:
                yield from self._narrowed(relation, next(one for one in focus if one.best == relation.entity))
        yield from self._members(focus)
        for relation in ranked[:_RELATIONS]:
            thought = f"{relation.label} ({relation.property_id}) fits the question best of what is left."
            yield self._values(relation.triple(), thought, number="number" in relation.kinds)

    def _relations(self, focus: Segment) -> Iterator[Relation]:
        """Properties of an entity that may answer the question.

        A property counts by how well its label fits the other words, by the searches that found it, and by whether its
        values are of the kind asked for.
        """
        question, cut = self.question, self.besides(focus)
        hits, what_it_is = property_hits(cut), self.words.each((INSTANCE_OF, SUBCLASS_OF))
        groups: dict[tuple[str, str], list[Edge]] = {}
        for edge in self.seen.edges.get(focus.best, []):
            groups.setdefault((edge.fact.property_id, edge.direction), []).append(edge)
        for one, hit in hits.items():
            if (one, "out") not in groups and (one, "in") not in groups and hit.found.datatype == "wikibase-item":
                groups[one, "in"] = []
        labels = [edges[0].fact.label if edges else hits[key[0]].found.label for key, edges in groups.items()]
        fits = fit(" ".join([*(segment.text for segment in cut), question.hint]), labels)
        for ((one, direction), edges), label, score in zip(groups.items(), labels, fits, strict=True):
            datatype = hits[one].found.datatype if one in hits else ""
            relation = Relation(focus.best, one, label, direction, tuple(edges), datatype)
            score += hits[one].score if one in hits else 0.0
            dated = "time" in relation.kinds
            if score > 0 or (question.asks == "time" and dated):
                fitting = _KIND_FITS.get(question.asks, {"": 0.0})
                score += next(fits for kind, fits in fitting.items() if kind in relation.kinds or not kind)
                score -= 0.6 * (not edges) + 0.5 * (one in what_it_is) + 0.8 * ("category" in label)
                answers = question.asks != "time" or question.kind == "yes-no" or not edges or dated
                if score >= _ENOUGH and answers:
                    yield replace(relation, score=score)

    def _narrowed(self, relation: Relation, name: Segment) -> Iterator[Hypothesis]:
        """Of what a relation links: what a second name is linked to; what is of the class; what lies further on."""
        triple, label = relation.triple(), f"{relation.label} ({relation.property_id})"
        for other in [one for one in self.names if one.text != name.text and one.score >= _SURE][:1]:
            thought = f"Perhaps it is what {label} links, and it also has to do with {other.text}."
            yield self._values(f"{triple} ?answer ?link wd:{other.best} .", thought)
        if self.kind:
            thought = f"{label} fits the question; only members of the class {self.kind} are asked for."
            yield self._values(f"{triple} {self._of_kind} .", thought)
        yield from self._chains(relation, name)

    def _chains(self, first: Relation, name: Segment) -> Iterator[Hypothesis]:
        """Paths over further properties, where the question names more than one, from the nearest to the farthest."""
        rest = self.besides(name)
        hits = property_hits(rest)
        best = max(((fit(one.text, [first.label, ""])[0], one.text) for one in rest), default=(0.0, ""))
        own = hits[first.property_id].segment.text if first.property_id in hits else best[1] if best[0] > 0 else ""
        if not first.edges or not own:
            return
        place = {segment.text: index for index, segment in enumerate(self.segments)}

        def distance(text: str) -> int:
            return abs(place[text] - place[name.text])

        further = {hit.segment.text: hit.segment for hit in hits.values() if hit.segment.text != own}
        path = sorted(further.values(), key=lambda one: (one.noun, distance(one.text)))
        path = [one for one in path if self._onward(one, last=True)]
        if any(distance(one.text) < distance(own) for one in path if not one.noun):
            return
        for length in range(len(path), 0, -1):
            steps = [self._onward(one, last=index == length) for index, one in enumerate(path[:length], 1)]
            taken = [step for step in steps if step]
            if len(taken) == length:
                onwards = "/".join(f"wdt:{step.id}" for step in taken)
                names = ", then ".join([first.label, *(step.label for step in taken)])
                pattern = f"{first.triple('?between')} ?between {onwards} ?answer ."
                yield self._values(pattern, f"The question names several relations: {names}.")

    def _onward(self, segment: Segment, *, last: bool) -> SearchHit | None:
        """The property that leads on from a value: a class asked for ("which country") only where it is one by name."""
        for hit in property_hits([segment]).values():
            exact = fold(hit.found.label) == fold(segment.text)
            wanted = "time" if last and self.question.asks == "time" else "wikibase-item"
            anything = last and self.question.asks in ("", "number")
            if (exact if segment.noun else hit.score >= 0.6) and (anything or hit.found.datatype == wanted):
                return hit.found
        return None

    def _members(self, focus: Sequence[Segment]) -> Iterator[Hypothesis]:
        """Members of the class asked for: linked in any way to the names, or of the years, or simply all."""
        question = self.question
        unlinked = any(one.score < _LIKELY for one in focus) or (self.names and not focus)
        if not self.kind or question.measure or unlinked:
            return
        linked = "".join(f" ?answer ?link{number} wd:{one.best} ." for number, one in enumerate(focus))
        dates = self._measures("date") if question.years else []
        if question.years and not (dates or linked):
            return
        dated = f" ?answer wdt:{dates[0]} ?date .{_years('?date', question)}" if dates else ""
        thought = f"Members of the class {self.kind} that have to do with what the question names."
        yield self._values(f"{self._of_kind} .{linked}{dated}", thought)

    def _qualified(self, focus: Segment) -> Iterator[Hypothesis]:
        """Statements with qualifiers: a qualifier that is asked for, or a date that is given."""
        question, others = self.question, [one for one in self.names if one.text != focus.text]
        named = {item.id for other in others for item in other.items}
        rest = " ".join([*(segment.text for segment in self.besides(focus)), question.hint])
        edges = [edge for edge in self.seen.edges.get(focus.best, []) if edge.qualifiers]
        fits = fit(rest, [f"{edge.fact.label} {edge.fact.text}" for edge in edges])
        ranked = sorted(zip(fits, edges, strict=True), key=lambda pair: -(pair[0] + 2 * (pair[1].fact.id in named)))
        for year in [year for sign, year in question.years if sign == "=" and question.asks != "time"]:
            for score, edge in ranked:
                date = next((one for one in edge.qualifiers if one.kind == "time" and one.text[:4] == str(year)), None)
                if date and (score > 0 or edge.fact.id in named):
                    dated = f"pq:{date.property_id} ?date . FILTER(YEAR(?date) = {year})"
                    yield self._values(
                        f"{_statement(focus, edge)} ?answer ; {dated}",
                        f"A statement with {edge.fact.label} has {date.label} {year}, which the question names.",
                    )
                    break
        left = " ".join(segment.text for segment in self.besides(focus, *others))
        for score, edge in ranked[:3]:
            asked = edge.fact.id in named or (score > 0 and question.asks == "time")
            if edge.fact.id and asked and (wanted := _wanted_qualifier(question, edge, left)):
                yield self._values(
                    f"{_statement(focus, edge)} wd:{edge.fact.id} ; pq:{wanted.property_id} ?answer .",
                    f"The statement {edge.fact.label}: {edge.fact.text} says more: {wanted.label} is asked for.",
                )

    def _literals(self, name: Segment) -> Iterator[Hypothesis]:
        """A text that is a value, as in "the symbol Se"."""
        for hit in property_hits(self.besides(name)).values():
            if fold(name.items[0].label) != fold(name.text) and hit.found.datatype == "string" and hit.score >= 0.7:
                thought = f"{name.text} may be a value of {hit.found.label} ({hit.found.id})."
                yield self._values(f"?answer wdt:{hit.found.id} {text_literal(name.text)} .", thought)

    def _checks(self, focus: Segment, ranked: Sequence[Relation]) -> Iterator[Hypothesis]:
        """Yes/no questions: whether two entities are linked, or whether one has a property at all."""
        name, one = focus.text, f"wd:{focus.best}"
        own = [relation for relation in ranked if relation.entity == focus.best]
        others = [other for other in self.names if other.text != focus.text]
        if not others:
            found = [*(relation.property_id for relation in own if relation.edges), *property_hits(self.besides(focus))]
            for property_id in found[:1]:
                either = f"{{ {one} wdt:{property_id} ?value }} UNION {{ ?value wdt:{property_id} {one} }}"
                yield Hypothesis(f"ASK {{ {either} }}", f"Checking whether {name} has any {property_id}.")
            return
        other, two = others[0], f"wd:{others[0].best}"
        linking = [relation for relation in own if any(edge.fact.id == other.best for edge in relation.edges)]
        sure = [one for one in own if one.score >= _SURE and one.edges and "item" in one.kinds]
        for relation in (*linking, *sure)[:1]:
            thought = f"Checking {relation.label} between {name} and {other.text}."
            yield Hypothesis(f"ASK {{ {relation.triple(two)} }}", thought)
            return
        above = self._path(INSTANCE_OF, SUBCLASS_OF)
        ways = [*([f"{one} {above} {two}"] if above else []), f"{one} ?link {two}", f"{two} ?link {one}"]
        either = " UNION ".join(f"{{ {way} }}" for way in ways)
        yield Hypothesis(f"ASK {{ {either} }}", f"Checking whether {name} is, or is linked to, {other.text}.")

    def _measures(self, dimension: str) -> list[str]:
        """Properties of the quantity that is compared: one that the question names, else that of the adjective."""
        kinds = ("time",) if dimension == "date" else ("quantity", "time")
        own = [one for one in self.segments if fold(one.text) == fold(dimension)]
        others = [one for one in self.segments if one not in own and not one.noun]
        hits = [hit for cut in (others, own) for hit in property_hits(cut).values()]
        return [hit.found.id for hit in hits if hit.found.datatype in kinds and hit.score >= 0.5]

    def _superlatives(self, focus: Sequence[Segment], dimension: str, order: str) -> Iterator[Hypothesis]:
        """The member of a class with the most or the least of a quantity."""
        linked = "".join(f"?answer ?link wd:{one.best} . " for one in focus if one.score >= _SURE)
        for measure in self._measures(dimension)[:2]:
            pattern = f"{linked}{self._of_kind} ; wdt:{measure} ?value .{_years('?value', self.question)}"
            query = f"SELECT ?answer WHERE {{ {pattern} }} ORDER BY {order}(?value) LIMIT 1"
            yield Hypothesis(query, f"Sorting members of the class {self.kind} by {measure} and taking the first.")

    def unused(self, query: str, language: str) -> tuple[str, ...]:
        """Words of the question that nothing in a query stands for.

        In a ``language`` that is not read a word stands for a label only as it is spelled in it, and for a name in any
        ending: "открыл" (discovered) is no "место открытия" (place of discovery).
        """
        ids, named = set(entity_ids(query)), set[str]()
        labels = set(re.findall(r'"([^"]*)"', query))
        labels |= {self.question.measure[0]} if self.question.measure else set()
        for segment in self.segments:
            used = [one for one in (*segment.items, *segment.properties) if one.id in ids]
            labels |= {one.label for one in used}
            if any(one.id.startswith("Q") or segment.rung != "fulltext" for one in used):
                named |= set(fold(segment.text).split())
        for edge in chain.from_iterable(self.seen.edges.values()):
            for fact in (edge.fact, *edge.qualifiers):
                labels |= {fact.label} if fact.property_id in ids else set()
                labels |= {fact.text} if fact.id in ids else set()
        vocabulary = list(map(fold, filter(None, labels)))
        spelled = set(chain.from_iterable(map(words, vocabulary)))

        def known(word: str) -> bool:
            one = fold(word)
            if reads(language):
                return one in named or any(relevance(one, vocabulary))
            endings = (name for name in named if len(name) > 3 and one.startswith(name) and len(one) - len(name) < 3)
            return one in named or one in spelled or any(endings)

        return unused_words(self.question, known)


def _statement(focus: Segment, edge: Edge) -> str:
    return f"wd:{focus.best} p:{edge.fact.property_id} ?statement . ?statement ps:{edge.fact.property_id}"


def _asked_about(turn: Turn) -> list[str]:
    """Ids of the entities that a turn's final query names, classes left out."""
    return list(dict.fromkeys(re.findall(r"\bwd:(Q\d+)", _CLASS_PATH.sub("", turn.outcome.query))))


def _referents(last: Turn, pronoun: str, words: Vocabulary) -> tuple[SearchHit, ...]:
    """What a pronoun may stand for: what the last turn was about, or its answer.

    "She" and "he" are the one of them whose gender was seen, or the answer where the question was not about a person.
    """
    seen = Evidence.of(last.steps)
    about = _asked_about(last)[:2]
    order = [*about, *[one for one in seen.results.get(seen.last_query, ()) if one not in about][:1]]
    if wanted := words.of({"m": MALE, "f": FEMALE}.get(pronoun, "")):
        sex = words.of(SEX)
        genders = {
            one: next((edge.fact.id for edge in seen.edges.get(one, []) if edge.fact.property_id == sex), "")
            for one in order
        }
        order.sort(key=lambda one: (genders[one] != wanted, genders[one] != "" or one in about))
    names: dict[str, str] = {}
    for before, one, other, after in (found for step in last.steps for found in _NAMED.findall(step.observation)):
        names.setdefault(one or other, (before or after).strip())
    return tuple(SearchHit(one, names.get(one, one)) for one in order)


def _years(variable: str, question: Question) -> str:
    return "".join(f" FILTER(YEAR({variable}) {sign} {year})" for sign, year in question.years)


def _wanted_qualifier(question: Question, edge: Edge, left: str) -> Fact | None:
    """The qualifier that the question asks for: a date for "when", else the one whose name or kind fits."""
    kinds = {"time": ("time",), "person": ("item",)}.get(question.asks)
    if kinds:
        return next((one for one in edge.qualifiers if one.kind in kinds), None)
    wanted = [one for one in edge.qualifiers if one.kind not in ("time", "")]
    fits = fit(left, [one.label for one in wanted])
    best = max(zip(fits, range(len(wanted)), strict=True), default=(0.0, 0))
    return wanted[best[1]] if best[0] > 0 else None


class OfflinePolicy(KeylessPolicy):
    """See the module. ``words`` are those of the knowledge base that is asked."""

    def __init__(self, toolbox: Toolbox, words: Vocabulary = WIKIDATA_VOCABULARY) -> None:
        super().__init__(toolbox)
        self._words = words

    def plan(self, state: State, context: Context, steps: Sequence[Step]) -> Plan:
        """See ``KeylessPolicy``."""
        return _Plan(state, Evidence.of(steps), context.language, self._words)


class _Plan(Plan):
    def __init__(self, state: State, seen: Evidence, language: str, words: Vocabulary) -> None:
        self.state, self.seen, self.language, self.words = state, seen, language, words
        self.question = read_question(state["question"], language)
        self.note = why_unread(state["question"], language)

    def turns(self) -> Iterator[Calls]:
        refused = yield from self._tried()
        if refused:
            self.understood = refused
            why = lexicon(self.language).left_over if reads(self.language) else self.note
            yield [(FINISH, why, {"no_answer": True})]
            return
        lost = tuple(search.query for search in self.seen.searches.values() if search.rung == "none")
        text = self.state["question"].strip()
        for search in self.seen.searches.values():
            text = text.replace(search.query, search.suggestion or search.query)
        whole = self.state["question"].strip()  # one misspelled word alone is a greeting as often as a name
        self.understood = Understood(unused=lost, instead=(text,)) if text != whole and " " in whole else None

    def _tried(self) -> Generator[Calls, None, Understood | None]:
        """Search, look, and query; at the end the words that the first query left out, where they were too many."""
        question, seen, length = self.question, self.seen, len(self.state["path"])
        refused: Understood | None = None
        measure = question.measure[0] if question.measure else ""
        extra = [Phrase(measure)] if measure not in ("", "date") else []
        wanted = dict.fromkeys([*question.phrases, *extra])
        first = sorted(wanted, key=lambda phrase: not phrase.named)[:_SEARCHES]
        yield [("search_entities", f"Looking up “{one.text}”.", {"query": searched_as(one)}) for one in first]
        second = [rest for one in first for rest in leftovers(one, seen.searches.get(searched_as(one)), self.language)]
        second = [one for one in dict.fromkeys(second) if one not in first][:_SECOND_SEARCHES]
        again = "Looking up what no search has found yet."
        yield [("search_entities", again, {"query": searched_as(one)}) for one in second]
        text = " ".join(phrase.text for phrase in question.phrases)
        ordered = sorted([*first, *second], key=lambda one: text.find(one.text) if one.text in text else len(text))
        reading = Reading.of(question, ordered, seen, self.state["history"], self.words)
        tried: set[str] = set()
        for focus in _targets(reading):
            if length < ROOM:
                yield [lookup for place, one in enumerate(focus) for lookup in _lookups(one, reading)[: 2 - place]]
            for one in reading.hypotheses(focus):
                if one.probe in tried:
                    continue
                tried.add(one.probe)
                if one.probe not in seen.rows:
                    if length >= ROOM or len(seen.rows) >= _QUERIES:
                        return refused
                    yield [(QUERY, one.thought, {"query": one.probe})]
                about = {name.best for name in focus if f"wd:{name.best} " in one.probe}
                rows = seen.rows.get(one.probe, 0)
                if not rows or (rows == 1 and about.intersection(seen.results[one.probe])):  # it is its own answer
                    continue
                read = Understood(unused=reading.unused(one.probe, self.language))
                if self._leaves_too_much(one.probe, read.unused):
                    refused = refused or read
                    continue
                self.understood, final = read, one.final or one.probe
                yield [(QUERY, "That has rows; the question is how many they are.", {"query": final})]
                if seen.last_query == final:
                    yield [(FINISH, FITS, {})]
        return refused

    def _leaves_too_much(self, query: str, unused: Sequence[str]) -> bool:
        """That a statement is there may be said whatever is left out."""
        of_class = set(re.findall(r"\bwd:(Q\d+)", query)) == set(_OF_CLASS.findall(query)) and "ORDER BY" not in query
        return self.seen.cells.get(query) != [["true"]] and leaves_too_much(
            self.question,
            unused,
            self.language,
            rows=self.seen.rows.get(query, 0),
            all_needed=of_class or not reads(self.language),
            vague="?link" in query,
        )


def _lookups(focus: Segment, reading: Reading) -> Calls:
    name, entity = focus.text, focus.best
    rest = " ".join(segment.text for segment in reading.besides(focus))
    incoming = {"entity_id": entity, "query": rest or name, "direction": "in"}
    return [
        ("get_entry", f"{name} may be {entity}; reading what is stated of it.", {"entity_id": entity}),
        ("search_neighbors", f"Looking at what points to {entity} and fits the question's other words.", incoming),
    ]


def _targets(reading: Reading) -> list[list[Segment]]:
    """Entities to look at, in order: two sure names together, else the surest; then the next in line; then none."""
    first = [one for one in reading.names[:2] if one.score >= _SURE] or reading.names[:1]
    groups = [[*first], [*reading.names[len(first) :][:1]]]
    groups += [[replace(one, items=one.items[1:])] for one in reading.names[:1] if len(one.items) > 1]
    return [*[group for group in groups if group][:_TARGETS], []]
