"""The policy for knowledge bases with Wikidata's model: search, look, try queries until one has rows, finish.

It links the question's names, ranks properties against its other words, and reads from the observations what a model
would see there; it knows no facts. Which queries it can write says ``Reading.hypotheses``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Literal

from rapidfuzz import fuzz

from kbnav.agents.common.state import State
from kbnav.agents.offline.policy import (
    FITS,
    ROOM,
    TOO_MUCH_LEFT,
    KeylessPolicy,
    Plan,
    Wanted,
    leaves_too_much,
    unused_words,
)
from kbnav.agents.offline.policy import Turn as Calls
from kbnav.agents.offline.question import Phrase, Question, read_question
from kbnav.answers.language import fold, singular
from kbnav.answers.lexicon import lexicon, reads, why_unread
from kbnav.answers.relevance import fit, relevance, words
from kbnav.errors import KbnavError
from kbnav.knowledge.sparql.verbalization import Line, verbalize
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
_UNSAID = frozenset({"external-id", "commonsMedia", "url", "math", "globe-coordinate"})
"""Datatypes whose values a question in words hardly asks for, unless a label says so."""
_FOUND = re.compile(
    r"(?:(?P<label>.*?) \()?(?P<id>[QP]\d+)\)?(?:, also \"(?P<alias>.*?)\")?(?:: (?P<about>.*?))?"
    r"(?: \[property(?:, values: (?P<type>[^\]]*))?\])?"
)
_SHORTER = re.compile(r'Nothing is named ".*"; these match "(.*?)"(?: \(without ".*"\))?:')
_SUGGESTED = re.compile(r'Did you mean "(.*)"\?$')
_FULLTEXT = "these mention its words"
_STATEMENT = re.compile(
    r"- (?:(?P<label>.*?) \()?(?P<id>P\d+)\)?: (?P<value>.*?)(?: \[(?P<qualifiers>.*)\])?"
    r"(?: \(preferred\))?(?: \(stated \d+ times\))?"
)
_QUALIFIER = re.compile(r"(?:(.*?) \()?(P\d+)\)?: (.*)")
_OTHERS = re.compile(r"(?:: |, )([^,]*?) \((P\d+)\)(?=(?: ×\d+)?[,.])")
_EDGE = re.compile(r"(?P<left>.*?) -- (?:(?P<label>.*?) \()?(?P<id>P\d+)\)? --> (?P<right>.*)")
_ID = re.compile(r"(?:^|\()(Q\d+)\)?$")
_DATE = re.compile(r"-?\d{1,4}(?:-\d\d(?:-\d\d)?)?(?:s|\. century| BCE?| CE)?")
_NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?: .*)?")
ValueKind = Literal["item", "time", "number", "text", ""]
_CLASS_PATH = re.compile(r"wdt:P\d+\* wd:Q\d+")
"""The end of a path to a class and what is above it."""
_OF_CLASS = re.compile(r"\?answer (?:\(?wdt:P\d+(?:\|wdt:P\d+)*\)?)/wdt:P\d+\* wd:(Q\d+)")
_NAMED = re.compile(r"(?:^|[:>] |^- )([^:()\[\];\n]{1,80}) \((Q\d+)\)|\b(Q\d+) \(([^()\n]{1,80})\)", re.MULTILINE)


@dataclass(frozen=True)
class SearchHit:
    """One line of a search: an item, or a property with the datatype of its values."""

    id: str
    label: str
    about: str = ""
    datatype: str = ""
    alias: str = ""
    """The other name that it was found by."""


@dataclass(frozen=True)
class Search:
    """A search and what it found; ``matched`` are the parts of the phrase that did."""

    query: str
    rung: Literal["exact", "shorter", "fulltext", "none"]
    matched: tuple[str, ...]
    items: tuple[SearchHit, ...]
    properties: tuple[SearchHit, ...]
    suggestion: str = ""
    """What may have been meant, where nothing was found."""


@dataclass(frozen=True)
class Fact:
    """A property with a value: a statement's own, or a qualifier's."""

    property_id: str
    label: str
    text: str = ""
    id: str = ""

    @property
    def kind(self) -> ValueKind:
        """What the value looks like; empty where no value was shown."""
        if self.id:
            return "item"
        if not self.text:
            return ""
        if _DATE.fullmatch(self.text):
            return "time" if re.match(r"-?\d{3,4}", self.text) else "number"
        return "number" if _NUMBER.fullmatch(self.text) else "text"


@dataclass(frozen=True)
class Edge:
    """A statement that leaves ("out") or reaches ("in") the entity that was looked at; seen from there."""

    direction: Literal["out", "in"]
    fact: Fact
    qualifiers: tuple[Fact, ...] = ()


@dataclass
class Evidence:
    """Everything seen so far; searches by their query, edges by the entity looked at."""

    searches: dict[str, Search] = field(default_factory=dict)
    edges: dict[str, list[Edge]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    """Rows of every query that ran; 0 where it failed."""
    last_query: str = ""
    results: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Ids of items in the shown rows of each query."""
    true: set[str] = field(default_factory=set)
    """Yes/no queries that came out true."""

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Evidence:
        """Read the observations of steps, in their order."""
        seen = cls()
        for step in steps:
            arguments = step.call.arguments
            if step.call.tool == "search_entities":
                query = str(arguments["query"])
                seen.searches[query] = read_search(query, step.observation if step.ok else "")
            elif step.call.tool == "get_entry":
                seen.edges.setdefault(str(arguments["entity_id"]), []).extend(read_entry(step.observation))
            elif step.call.tool == "search_neighbors":
                entity = str(arguments["entity_id"])
                seen.edges.setdefault(entity, []).extend(read_neighbors(entity, step.observation))
            elif step.call.tool == "execute_query":
                query = str(arguments["query"])
                seen.rows[query] = step.rows or 0
                seen.results[query] = tuple(dict.fromkeys(re.findall(r"(?:^|\t)(Q\d+)\b", step.observation, re.M)))
                if re.search(r"^(?:Result \d+: )?True$", step.observation, re.M):
                    seen.true.add(query)
                if not step.dropped:
                    seen.last_query = query
        return seen


def read_search(query: str, text: str) -> Search:
    """The observation of search_entities."""
    rung: Literal["exact", "shorter", "fulltext"] = "exact"
    matched: tuple[str, ...] = (query,)
    items: list[SearchHit] = []
    properties: list[SearchHit] = []
    for line in text.splitlines():
        shorter = _SHORTER.fullmatch(line)
        if shorter:
            rung, matched = "shorter", tuple(shorter[1].split(" | "))
            continue
        if _FULLTEXT in line:
            rung, matched = "fulltext", ()
            continue
        found = _FOUND.fullmatch(line)
        if found:
            one = SearchHit(
                found["id"], found["label"] or "", found["about"] or "", found["type"] or "", found["alias"] or ""
            )
            (items if one.id.startswith("Q") else properties).append(one)
    if not items and not properties:
        meant = _SUGGESTED.search(text)
        return Search(query, "none", (), (), (), meant[1] if meant else "")
    named = [one for one in items if rung == "fulltext" and one.label and one.label.casefold() in query.casefold()]
    if named:  # its words led to the thing that a part of the phrase names
        return Search(query, "shorter", tuple(one.label for one in named), tuple(named), tuple(properties))
    return Search(query, rung, matched, tuple(items), tuple(properties))


def _fact(property_id: str, label: str | None, value: str) -> Fact:
    found = _ID.search(value)
    text = value[: found.start()].rstrip() if found else value
    return Fact(property_id, label or property_id, text, found[1] if found else "")


def read_entry(text: str) -> list[Edge]:
    """The observation of get_entry; properties that are only named there have no value."""
    edges = []
    for line in text.splitlines():
        statement = _STATEMENT.fullmatch(line)
        if statement:
            qualifiers = [_QUALIFIER.fullmatch(part) for part in re.split(r"; |\] \[", statement["qualifiers"] or "")]
            facts = tuple(_fact(found[2], found[1], found[3]) for found in qualifiers if found)
            edges.append(Edge("out", _fact(statement["id"], statement["label"], statement["value"]), facts))
        elif line.startswith("Not shown: "):
            edges += [Edge("out", Fact(found[1], found[0])) for found in _OTHERS.findall(line)]
    return edges


def read_neighbors(entity: str, text: str) -> list[Edge]:
    """The observation of search_neighbors for ``entity``."""
    edges = []
    for line in text.splitlines():
        found = _EDGE.fullmatch(line.removesuffix(" [by p:/ps: only, not wdt:]"))
        if found:
            left = _ID.search(found["left"])
            outgoing = bool(left and left[1] == entity)
            other = found["right"] if outgoing else found["left"]
            edges.append(Edge("out" if outgoing else "in", _fact(found["id"], found["label"], other)))
    return edges


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

    def only_begins(self, item: SearchHit) -> bool:
        """Whether an item was found because its label begins with the words and goes on."""
        return fold(item.label).startswith(fold(self.text)) and fold(item.label) != fold(self.text)


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
    if search is None:
        return []
    if search.rung == "exact":
        whole = Segment(search.query, items=search.items)
        vague = phrase.noun and len(said) > 1 and whole.items and all(map(whole.only_begins, whole.items))
        return [Phrase(said[0], noun=True), Phrase(" ".join(said[1:]))] if vague else []
    if search.rung in ("none", "fulltext"):
        cut = [Phrase(phrase.text[:-1], phrase.named, phrase.noun)] if known.inflected and len(said[-1]) > 3 else []
        return cut or [Phrase(said[-1], phrase.named)] * (len(said) > 1)
    matched = {word for part in search.matched for word in fold(part).split()}
    runs: list[list[str]] = [[]]
    for word in said:
        if any(fold(word).startswith(one) for one in matched):
            runs.append([])
        else:
            runs[-1] += [word] if word not in known.joins or runs[-1] else []
    kept = [" ".join(run) for run in runs if run]
    heads = [
        Phrase(part, noun=True) for part in search.matched if phrase.noun and fold(phrase.text).startswith(fold(part))
    ]
    again = [head for head in heads if searched_as(head) != head.text]
    return again + [
        Phrase(text, text[:1].isupper() and phrase.named) for text in kept if len(text) > 1 or not text.isascii()
    ]


def segments(phrases: Sequence[Phrase], seen: Evidence) -> list[Segment]:
    """Phrases cut to the parts that were found, in the order of the question; those not found are kept as they are."""
    cut: dict[str, Segment] = {}
    for phrase in phrases:
        search = seen.searches.get(searched_as(phrase))
        if search is None:
            continue
        if search.rung != "shorter" or len(search.matched) == 1:
            text = search.matched[0] if search.rung == "shorter" else phrase.text
            one = Segment(text, phrase.named, phrase.noun, search.rung, search.items, search.properties)
            cut[fold(text)] = one
            continue
        for part in search.matched:
            items = _share(part, search.matched, search.items)
            properties = _share(part, search.matched, search.properties)
            named = phrase.named and any(char.isupper() for char in part)
            head = fold(searched_as(phrase)).startswith(fold(part))
            one = Segment(part, named, phrase.noun and head, search.rung, items, properties)
            cut.setdefault(fold(part), one)
    return list(cut.values())


def _share(part: str, parts: Sequence[str], found: Iterable[SearchHit]) -> tuple[SearchHit, ...]:
    """What of a search for several parts belongs to one of them: that whose words the label has, else the first."""
    return tuple(one for one in found if max(parts, key=lambda each: _likeness(each, one.label)) == part)


def _likeness(part: str, label: str) -> float:
    return fuzz.token_set_ratio(fold(part), fold(label)) // 10


def property_hits(cut: Sequence[Segment]) -> dict[str, Hit]:
    """Properties by id, each with its best segment."""
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
    return hits


def _kind_fit(question: Question, relation: Relation) -> float:
    kinds = relation.kinds
    if question.asks == "time":
        return 0.7 if "time" in kinds else -0.5
    if "time" in kinds and question.asks in ("person", "place"):
        return -0.8
    if question.asks == "number":
        return 0.4 if "number" in kinds else 0.0
    return -0.4 if question.asks in ("person", "place") and "item" not in kinds else 0.0


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
        cut = [_as_meant(one, question.meant) for one in segments(phrases, seen)]
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
        nouns = [one for one in self.segments if one.noun and one.rung != "fulltext"]
        found = next((item.id for one in nouns for item in one.items if not one.only_begins(item)), "")
        return found if _path(self.words, INSTANCE_OF, OCCUPATION) else ""

    @property
    def _of_kind(self) -> str:
        """Member of that class or of a subclass; people are members of their occupations."""
        return f"?answer {_path(self.words, INSTANCE_OF, OCCUPATION)} wd:{self.kind}"

    def _values(self, pattern: str, thought: str, *, number: bool = False) -> Hypothesis:
        """Everything that fits a pattern of ``?answer``, or how many they are."""
        probe = f"SELECT DISTINCT ?answer WHERE {{ {pattern} }}"
        if self.question.kind != "count" or number:
            return Hypothesis(probe, thought)
        return Hypothesis(probe, thought, f"SELECT (COUNT(DISTINCT ?answer) AS ?count) WHERE {{ {pattern} }}")

    def hypotheses(self, focus: Sequence[Segment]) -> Iterator[Hypothesis]:
        """Queries about the entities in focus (none: about a class only), which have been looked at.

        The most specific come first: the last question about another name, a comparison, a superlative, a qualifier, a
        text that is a value, values narrowed by a second name or class or followed further, members, values.
        """
        question = self.question
        if self.last and len(focus) == 1 and not question.pronoun and not self.besides(focus[0]):
            about = _asked_about(self.last)
            if len(about) == 1:
                again = re.sub(rf"\bwd:{about[0]}\b", f"wd:{focus[0].best}", self.last.outcome.query)
                yield Hypothesis(again, f"The last question again, about {focus[0].text}.")
        if question.comparative and len(self.names) > 1:
            yield from self._comparisons(*question.comparative)
        if question.measure and self.kind:
            yield from self._superlatives(focus, *question.measure)
        ranked = [relation for one in focus for relation in self._relations(one)]
        ranked.sort(key=lambda one: -one.score)
        if question.kind == "yes-no":
            if focus:
                yield from self._checks(focus[0], ranked)
            return
        for one in focus:
            yield from self._qualified(one)
            yield from self._literals(one)
        names = {one.best: one for one in focus}
        for relation in ranked[:_RELATIONS]:
            if "item" in relation.kinds:
                yield from self._narrowed(relation, names[relation.entity])
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
                score += _kind_fit(question, relation)
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
        own = hits[first.property_id].segment.text if first.property_id in hits else _nearest(first.label, rest)
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
        for hit in sorted(property_hits([segment]).values(), key=lambda one: -one.score):
            exact = fold(hit.found.label) == fold(segment.text)
            wanted = "time" if last and self.question.asks == "time" else "wikibase-item"
            anything = last and self.question.asks in ("", "number")
            if (exact if segment.noun else hit.score >= 0.6) and (anything or hit.found.datatype == wanted):
                return hit.found
        return None

    def _members(self, focus: Sequence[Segment]) -> Iterator[Hypothesis]:
        """Members of the class asked for: linked in any way to the names, or of the years, or simply all."""
        question = self.question
        if not self.kind or question.measure or any(one.score < _LIKELY for one in focus):
            return
        if self.names and not focus:
            return
        linked = "".join(f" ?answer ?link{number} wd:{one.best} ." for number, one in enumerate(focus))
        dates = self._measures("date")[:1]
        dated = f" ?answer wdt:{dates[0]} ?date ." if dates and question.years else ""
        if question.years and not (dated or linked):
            return
        bounds = _years("?date", question) if dated else ""
        thought = f"Members of the class {self.kind} that have to do with what the question names."
        yield self._values(f"{self._of_kind} .{linked}{dated}{bounds}", thought)

    def _qualified(self, focus: Segment) -> Iterator[Hypothesis]:
        """Statements with qualifiers: a qualifier that is asked for, or a date that is given."""
        question, statement = self.question, "p:{0} ?statement . ?statement ps:{0}"
        others = [one for one in self.names if one.text != focus.text]
        named = {item.id for other in others for item in other.items}
        rest = " ".join([*(segment.text for segment in self.besides(focus)), question.hint])
        edges = [edge for edge in self.seen.edges.get(focus.best, []) if edge.qualifiers]
        fits = fit(rest, [f"{edge.fact.label} {edge.fact.text}" for edge in edges])
        ranked = sorted(zip(fits, edges, strict=True), key=lambda pair: -(pair[0] + 2 * (pair[1].fact.id in named)))
        for sign, year in question.years:
            dated = next(((e, d) for f, e in ranked if (d := _dated(e, year)) and (f > 0 or e.fact.id in named)), None)
            if dated and sign == "=" and question.asks != "time":
                path = f"wd:{focus.best} {statement.format(dated[0].fact.property_id)}"
                yield self._values(
                    f"{path} ?answer ; pq:{dated[1].property_id} ?date . FILTER(YEAR(?date) = {year})",
                    f"A statement with {dated[0].fact.label} has {dated[1].label} {year}, which the question names.",
                )
        left = " ".join(segment.text for segment in self.besides(focus, *others))
        for score, edge in ranked[:3]:
            if not edge.fact.id or (edge.fact.id not in named and (score <= 0 or question.asks != "time")):
                continue
            if wanted := _wanted_qualifier(question, edge, left):
                path = statement.format(edge.fact.property_id)
                yield self._values(
                    f"wd:{focus.best} {path} wd:{edge.fact.id} ; pq:{wanted.property_id} ?answer .",
                    f"The statement {edge.fact.label}: {edge.fact.text} says more: {wanted.label} is asked for.",
                )

    def _literals(self, name: Segment) -> Iterator[Hypothesis]:
        """A text that is a value, as in "the symbol Se"."""
        if fold(name.items[0].label) == fold(name.text):
            return
        for hit in property_hits(self.besides(name)).values():
            if hit.found.datatype == "string" and hit.score >= 0.7:
                thought = f"{name.text} may be a value of {hit.found.label} ({hit.found.id})."
                yield self._values(f"?answer wdt:{hit.found.id} {text_literal(name.text)} .", thought)

    def _checks(self, focus: Segment, ranked: Sequence[Relation]) -> Iterator[Hypothesis]:
        """Yes/no questions: whether two entities are linked, or whether one has a property at all."""
        name, one = focus.text, f"wd:{focus.best}"
        own = [relation for relation in ranked if relation.entity == focus.best]
        others = [other for other in self.names if other.text != focus.text]
        if not others:
            hits = sorted(property_hits(self.besides(focus)).values(), key=lambda hit: -hit.score)
            chosen = [*(relation.property_id for relation in own if relation.edges), *(hit.found.id for hit in hits)]
            for found in chosen[:1]:
                either = f"{{ {one} wdt:{found} ?value }} UNION {{ ?value wdt:{found} {one} }}"
                yield Hypothesis(f"ASK {{ {either} }}", f"Checking whether {name} has any {found}.")
            return
        other, two = others[0], f"wd:{others[0].best}"
        linking = [relation for relation in own if any(edge.fact.id == other.best for edge in relation.edges)]
        sure = [one for one in own if one.score >= _SURE and one.edges and "item" in one.kinds]
        for relation in (*linking, *sure)[:1]:
            thought = f"Checking {relation.label} between {name} and {other.text}."
            yield Hypothesis(f"ASK {{ {relation.triple(two)} }}", thought)
            return
        above = _path(self.words, INSTANCE_OF, SUBCLASS_OF)
        ways = [*([f"{one} {above} {two}"] if above else []), f"{one} ?link {two}", f"{two} ?link {one}"]
        either = " UNION ".join(f"{{ {way} }}" for way in ways)
        yield Hypothesis(f"ASK {{ {either} }}", f"Checking whether {name} is, or is linked to, {other.text}.")

    def _measures(self, dimension: str) -> list[str]:
        """Properties of the quantity that is compared: one that the question names, else that of the adjective."""
        kinds = ("time",) if dimension == "date" else ("quantity", "time")
        own = [one for one in self.segments if fold(one.text) == fold(dimension)]
        found = []
        for cut in ([one for one in self.segments if one not in own and not one.noun], own):
            hits = [hit for hit in property_hits(cut).values() if hit.found.datatype in kinds and hit.score >= 0.5]
            found += [hit.found.id for hit in sorted(hits, key=lambda hit: -hit.score)]
        return found

    def _comparisons(self, dimension: str, order: str) -> Iterator[Hypothesis]:
        first, second = sorted(self.names[:2], key=self.segments.index)
        for measure in self._measures(dimension)[:1]:
            thought = f"Comparing {dimension} ({measure}) of {first.text} and {second.text}."
            if self.question.kind == "yes-no":
                values = f"wd:{first.best} wdt:{measure} ?first . wd:{second.best} wdt:{measure} ?second ."
                sign = "<" if order == "ASC" else ">"
                yield Hypothesis(f"ASK {{ {values} FILTER(?first {sign} ?second) }}", thought)
            else:
                values = f"VALUES ?answer {{ wd:{first.best} wd:{second.best} }} ?answer wdt:{measure} ?value ."
                yield Hypothesis(f"SELECT ?answer WHERE {{ {values} }} ORDER BY {order}(?value) LIMIT 1", thought)

    def _superlatives(self, focus: Sequence[Segment], dimension: str, order: str) -> Iterator[Hypothesis]:
        """The member of a class with the most or the least of a quantity."""
        linked = "".join(f"?answer ?link wd:{one.best} . " for one in focus if one.score >= _SURE)
        for measure in self._measures(dimension)[:2]:
            pattern = f"{linked}{self._of_kind} ; wdt:{measure} ?value .{_years('?value', self.question)}"
            yield Hypothesis(
                f"SELECT ?answer WHERE {{ {pattern} }} ORDER BY {order}(?value) LIMIT 1",
                f"Sorting members of the class {self.kind} by {measure} and taking the first.",
            )

    def unused(self, query: str, language: str) -> tuple[str, ...]:
        """Words of the question that nothing in a query stands for.

        In a ``language`` that is not read a word stands for a label only as it is spelled in it, and for a name in any
        ending: "открыл" (discovered) is no "место открытия" (place of discovery).
        """
        ids = set(entity_ids(query))
        named: set[str] = set()
        labels = {name for one, name in self._labels.items() if one in ids} | set(re.findall(r'"([^"]*)"', query))
        labels |= {pair[0] for pair in (self.question.measure, self.question.comparative) if pair}
        for segment in self.segments:
            used = any(one.id in ids for one in segment.items)
            if used or (any(one.id in ids for one in segment.properties) and segment.rung != "fulltext"):
                named |= set(fold(segment.text).split())
        vocabulary = [fold(label) for label in labels if label]
        spelled = {word for label in vocabulary for word in words(label)}

        def known(word: str) -> bool:
            one = fold(word)
            alike = any(relevance(one, vocabulary)) if reads(language) else _with_ending(one, named)
            return one in named or one in spelled or alike

        return unused_words(self.question, known)

    @cached_property
    def _labels(self) -> dict[str, str]:
        """Labels by id of all that was seen."""
        names: dict[str, str] = {}
        for segment in self.segments:
            names |= {one.id: one.label or one.id for one in (*segment.items, *segment.properties)}
        for edges in self.seen.edges.values():
            for fact in (fact for edge in edges for fact in (edge.fact, *edge.qualifiers)):
                names[fact.property_id] = fact.label
                if fact.id and fact.text:
                    names.setdefault(fact.id, fact.text)
        return names

    def in_words(self, query: str, language: str, labels: Callable[[Sequence[str]], Mapping[str, str]]) -> str:
        """The conditions of a query on one line; ``labels`` looks up those that were not seen."""
        lacking = [one for one in entity_ids(query) if one not in self._labels]
        names = {**(labels(lacking) if lacking else {}), **self._labels}
        head, *more = verbalize(query, names, language, self.words).lines
        return "; ".join(_on_one_line(line) for line in (*head.inner, *more))


def _on_one_line(line: Line) -> str:
    return " ".join([line.text, " / ".join(_on_one_line(one) for one in line.inner)]).strip()


def _with_ending(word: str, named: set[str]) -> bool:
    """Whether a word is one by which something was found, with a letter or two behind it: names are so searched."""
    return any(len(one) > 3 and one == word[: len(one)] and len(word) - len(one) < 3 for one in named)


def _as_meant(segment: Segment, meant: Mapping[str, str]) -> Segment:
    """A segment with what its name stands for first, where the reader says it."""
    wanted = meant.get(fold(segment.text))
    if not wanted:
        return segment
    known = [one for one in segment.items if one.id == wanted] or [SearchHit(wanted, segment.text)]
    return replace(segment, rung="exact", items=(*known, *(one for one in segment.items if one.id != wanted)))


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
        genders = {
            one: next((edge.fact.id for edge in seen.edges.get(one, []) if edge.fact.property_id == words.of(SEX)), "")
            for one in order
        }
        order.sort(key=lambda one: (genders[one] != wanted, genders[one] != "" or one in about))
    names: dict[str, str] = {}
    for before, one, other, after in (found for step in last.steps for found in _NAMED.findall(step.observation)):
        names.setdefault(one or other, (before or after).strip())
    return tuple(SearchHit(one, names.get(one, one)) for one in order)


def _path(words: Vocabulary, *first: str) -> str:
    """From a thing by one of some properties to a class and all above it; empty where there are none of these."""
    ways, wider = [f"wdt:{one}" for one in words.each(first)], words.of(SUBCLASS_OF)
    either = f"({'|'.join(ways)})" if len(ways) > 1 else "".join(ways)
    return either + (f"/wdt:{wider}*" if wider else "") if ways else ""


def _years(variable: str, question: Question) -> str:
    return "".join(f" FILTER(YEAR({variable}) {sign} {year})" for sign, year in question.years)


def _nearest(label: str, cut: Sequence[Segment]) -> str:
    """The words that a property's label fits best; empty where none do."""
    best = max(((fit(segment.text, [label, ""])[0], segment.text) for segment in cut), default=(0.0, ""))
    return best[1] if best[0] > 0 else ""


def _dated(edge: Edge, year: int) -> Fact | None:
    return next((one for one in edge.qualifiers if one.kind == "time" and one.text.startswith(str(year))), None)


def _wanted_qualifier(question: Question, edge: Edge, left: str) -> Fact | None:
    """The qualifier that the question asks for: a date for "when", else the one whose name or kind fits."""
    if question.asks == "time":
        return next((one for one in edge.qualifiers if one.kind == "time"), None)
    wanted = [one for one in edge.qualifiers if one.kind not in ("time", "")]
    if question.asks == "person":
        return next((one for one in wanted if one.kind == "item"), None)
    fits = fit(left, [one.label for one in wanted])
    best = max(zip(fits, range(len(wanted)), strict=True), default=(0.0, 0))
    return wanted[best[1]] if best[0] > 0 else None


class OfflinePolicy(KeylessPolicy):
    """See the module."""

    def __init__(
        self,
        toolbox: Toolbox,
        words: Vocabulary = WIKIDATA_VOCABULARY,
        has_labels: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """``words`` are those of the knowledge base that is asked; ``has_labels``: whether it has any in a language."""
        super().__init__(toolbox)
        self._words, self._has_labels = words, lru_cache(has_labels)
        self._known: dict[str, dict[str, str]] = {}

    def plan(self, state: State, context: Context, steps: Sequence[Step]) -> Plan:
        """See ``KeylessPolicy``."""

        def labels(ids: Sequence[str]) -> Mapping[str, str]:
            known = self._known.setdefault(context.language, {})
            if lacking := [one for one in ids if one not in known]:
                with suppress(KbnavError):  # then the id is shown
                    known |= context.kb.labels(lacking, language=context.language)
            return known

        return _Plan(state, Evidence.of(steps), context.language, self._words, self._has_labels, labels)


class _Plan(Plan):
    def __init__(
        self,
        state: State,
        seen: Evidence,
        language: str,
        words: Vocabulary,
        has_labels: Callable[[str], bool],
        labels: Callable[[Sequence[str]], Mapping[str, str]],
    ) -> None:
        self.state, self.seen, self.language, self.words, self.labels = state, seen, language, words, labels
        self.question = read_question(state["question"], language)
        self.note = why_unread(state["question"], language, has_labels)

    def turns(self) -> Iterator[Calls]:
        """See ``Plan``."""
        refused = yield from self._tried()
        if refused:
            self.understood = refused
            why = TOO_MUCH_LEFT if reads(self.language) else self.note
            yield [(FINISH, why, {"no_answer": True})]
            return
        lost = tuple(search.query for search in self.seen.searches.values() if search.rung == "none")
        text = self.state["question"]
        for search in self.seen.searches.values():
            text = text.replace(search.query, search.suggestion or search.query)
        self.understood = Understood(unused=lost, instead=(text,)) if text != self.state["question"] else None

    def _tried(self) -> Generator[Calls, None, Understood | None]:
        """Search, look, and query; at the end how the first query read the question that left out too much."""
        question, seen, length = self.question, self.seen, len(self.state["path"])
        refused: Understood | None = None
        first = _to_search(question)[:_SEARCHES]
        yield [_search(phrase) for phrase in first]
        second = [rest for one in first for rest in leftovers(one, seen.searches.get(searched_as(one)), self.language)]
        second = [one for one in dict.fromkeys(second) if one not in first][:_SECOND_SEARCHES]
        yield [_search(phrase) for phrase in second]
        phrases = _in_order(question, [*first, *second])
        reading = Reading.of(question, phrases, seen, self.state["history"], self.words)
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
                if not seen.rows.get(one.probe) or _says_itself(one.probe, seen, focus):
                    continue
                final = one.final or one.probe
                read = Understood(
                    reading.in_words(final, self.language, self.labels), reading.unused(one.probe, self.language)
                )
                if self._leaves_too_much(one.probe, read.unused):
                    refused = refused or read
                    continue
                self.understood = read
                yield [(QUERY, "That has rows; the question is how many they are.", {"query": final})]
                if seen.last_query == final:
                    yield [(FINISH, FITS, {})]
        return refused

    def _leaves_too_much(self, query: str, unused: Sequence[str]) -> bool:
        """That a statement is there may be said whatever is left out."""
        seen = self.seen
        of_class = set(re.findall(r"\bwd:(Q\d+)", query)) == set(_OF_CLASS.findall(query)) and "ORDER BY" not in query
        needed = of_class or not reads(self.language)
        rows, vague = seen.rows.get(query, 0), "?link" in query
        return query not in seen.true and leaves_too_much(
            self.question, unused, self.language, rows=rows, all_needed=needed, vague=vague
        )


def _says_itself(query: str, seen: Evidence, focus: Sequence[Segment]) -> bool:
    """Whether the one row of a query about an entity is that entity, which answers nothing."""
    about = {one.best for one in focus if f"wd:{one.best} " in query}
    return seen.rows[query] == 1 and bool(about.intersection(seen.results[query]))


def _to_search(question: Question) -> list[Phrase]:
    """Phrases worth a search: names first, then what may be relations or classes, and the quantity of a superlative."""
    extra = [pair[0] for pair in (question.measure, question.comparative) if pair and pair[0] not in ("", "date")]
    phrases = [*question.phrases, *(Phrase(text) for text in extra)]
    return sorted(dict.fromkeys(phrases), key=lambda phrase: not phrase.named)


def _search(phrase: Phrase) -> Wanted:
    what = "It looks like a name" if phrase.named else "It may be a relation, a class or a name"
    return ("search_entities", f"{what}: looking up “{phrase.text}”.", {"query": searched_as(phrase)})


def _in_order(question: Question, phrases: Sequence[Phrase]) -> list[Phrase]:
    """Phrases in the order of the question, as far as they are in it."""
    text = " ".join(phrase.text for phrase in question.phrases)
    return sorted(phrases, key=lambda one: text.find(one.text) if one.text in text else len(text))


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
