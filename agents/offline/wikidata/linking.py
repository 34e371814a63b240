"""From phrases to entities and properties: which mentions a question has, and what it may say of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kbnav.agents.offline.wikidata.evidence import Edge, Evidence, Found, Search
from kbnav.agents.offline.wikidata.question import Phrase, Question
from kbnav.answers.language import fold
from kbnav.answers.lexicon import Lexicon
from kbnav.answers.relevance import fit
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, SUBCLASS_OF, WIKIDATA_VOCABULARY, Vocabulary

_RUNGS = {"exact": 1.0, "shorter": 0.85, "fulltext": 0.3, "none": 0.0}
_PLACES = (1.0, 0.75, 0.55, 0.4)
_UNSAID = frozenset({"external-id", "commonsMedia", "url", "math", "globe-coordinate"})
"""Datatypes whose values a question in words hardly asks for, unless a label says so."""


@dataclass(frozen=True)
class Segment:
    """Words of the question with what a search for them found; ``noun`` and ``named`` as of a Phrase."""

    text: str
    named: bool
    noun: bool
    rung: str
    items: tuple[Found, ...] = ()
    properties: tuple[Found, ...] = ()


@dataclass(frozen=True)
class Mention:
    """A segment that names an item; ``candidates`` best first."""

    segment: Segment
    candidates: tuple[Found, ...]
    score: float

    @property
    def text(self) -> str:
        """The words."""
        return self.segment.text

    @property
    def best(self) -> str:
        """Id of the likeliest item."""
        return self.candidates[0].id


@dataclass(frozen=True)
class Relation:
    """A property that may be meant, in a direction seen from the entity; without edges it is only supposed."""

    entity: str
    property_id: str
    label: str
    direction: str
    score: float
    edges: tuple[Edge, ...] = ()
    datatype: str = ""

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of the values seen; of the property's datatype where none was."""
        by_type = {"wikibase-item": "item", "quantity": "number"}.get(self.datatype, self.datatype)
        return frozenset(edge.fact.kind for edge in self.edges if edge.fact.kind) or frozenset({by_type})


def searched_as(phrase: Phrase) -> str:
    """What is searched for a phrase: a class in the singular."""
    word = phrase.text
    if (
        phrase.noun
        and word.isascii()
        and len(word) > 3
        and word.endswith("s")
        and not word.endswith(("ss", "us", "is"))
    ):
        return word[:-3] + "y" if word.endswith("ies") and not word.endswith("vies") else word[:-1]
    return word


def only_begins(segment: Segment | Search, item: Found) -> bool:
    """Whether the item was found because its label begins with the words and goes on: "countries" and its borders."""
    words = fold(segment.query if isinstance(segment, Search) else segment.text)
    return fold(item.label).startswith(words) and fold(item.label) != words


def leftovers(phrase: Phrase, search: Search, lexicon: Lexicon) -> list[Phrase]:
    """What to search for next: words that no part of the search matched.

    Where nothing matched in a language with endings, the phrase without its last letter: names are found by their
    beginning.
    """
    words = phrase.text.split()
    if search.rung == "exact":
        vague = (
            phrase.noun and len(words) > 1 and search.items and all(only_begins(search, one) for one in search.items)
        )
        return [Phrase(words[0], noun=True), Phrase(" ".join(words[1:]))] if vague else []
    if search.rung in ("none", "fulltext"):
        cut = [Phrase(phrase.text[:-1], phrase.named, phrase.noun)] if lexicon.inflected and len(words[-1]) > 3 else []
        return cut or [Phrase(words[-1], phrase.named)] * (len(words) > 1)
    matched = {word for part in search.matched for word in fold(part).split()}
    runs: list[list[str]] = [[]]
    for word in words:
        if any(fold(word).startswith(one) for one in matched):
            runs.append([])
        else:
            runs[-1] += [word] if word not in lexicon.joins or runs[-1] else []
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


def _share(part: str, parts: Sequence[str], found: Iterable[Found]) -> tuple[Found, ...]:
    """What of a search for several parts belongs to one of them: that whose words the label has, else the first."""
    return tuple(one for one in found if max(parts, key=lambda each: _likeness(each, one.label)) == part)


def _likeness(part: str, label: str) -> float:
    from rapidfuzz import fuzz

    return fuzz.token_set_ratio(fold(part), fold(label)) // 10


def mentions(cut: Sequence[Segment]) -> list[Mention]:
    """Items the segments may name, the surest first. Classes asked for ("which elements") are not among them."""
    found = []
    for segment in cut:
        if segment.items and not segment.noun:
            found.append(Mention(segment, segment.items, _mention_score(segment)))
    unique: dict[str, Mention] = {}
    for mention in sorted(found, key=lambda one: -one.score):
        unique.setdefault(mention.best, mention)
    return list(unique.values())


def _mention_score(segment: Segment) -> float:
    label, wanted = fold(segment.items[0].label), fold(segment.text)
    score = 0.4 * (len(wanted.split()) - 1)
    score += 1.0 if label == wanted else 0.2 if label.startswith(wanted) else 0.6
    if segment.named:
        score += 2.0
    else:
        relations = [one for one in segment.properties if one.datatype not in _UNSAID]
        score -= 1.5 if any(fold(one.label) == wanted for one in relations[:1]) else 1.0 * bool(relations)
    return score - (2.0 if segment.rung == "fulltext" else 0.0)


@dataclass(frozen=True)
class Hit:
    """A property that the search for a segment found; ``score`` is at most 1.5."""

    found: Found
    score: float
    segment: Segment


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


def relations(
    question: Question,
    cut: Sequence[Segment],
    entity: str,
    seen: Evidence,
    words: Vocabulary = WIKIDATA_VOCABULARY,
) -> list[Relation]:
    """Properties that may answer the question, the likeliest first.

    ``cut`` are the segments that do not name the entity. A property counts by how well its label fits their words, by
    the searches that found it, and by whether its values are of the kind asked for.
    """
    hits, what_it_is = property_hits(cut), words.each((INSTANCE_OF, SUBCLASS_OF))
    groups: dict[tuple[str, str], list[Edge]] = {}
    for edge in seen.edges.get(entity, []):
        groups.setdefault((edge.fact.property_id, edge.direction), []).append(edge)
    for one, hit in hits.items():
        if (one, "out") not in groups and (one, "in") not in groups and hit.found.datatype == "wikibase-item":
            groups[one, "in"] = []
    labels = [edges[0].fact.label if edges else hits[key[0]].found.label for key, edges in groups.items()]
    fits = fit(" ".join([*(segment.text for segment in cut), question.hint]), labels)
    ranked = []
    for ((one, direction), edges), label, score in zip(groups.items(), labels, fits, strict=True):
        datatype = hits[one].found.datatype if one in hits else ""
        relation = Relation(entity, one, label, direction, 0.0, tuple(edges), datatype)
        score += hits[one].score if one in hits else 0.0
        if score > 0 or (question.asks == "time" and "time" in relation.kinds):
            score += _kind_fit(question, relation)
            score -= 0.6 * (not edges) + 0.5 * (one in what_it_is) + 0.8 * ("category" in label)
            ranked.append(Relation(entity, one, label, direction, score, tuple(edges), datatype))
    return sorted(ranked, key=lambda relation: -relation.score)


def _kind_fit(question: Question, relation: Relation) -> float:
    kinds = relation.kinds
    if question.asks == "time":
        return 0.7 if "time" in kinds else -0.5
    if "time" in kinds and question.asks in ("person", "place"):
        return -0.8
    if question.asks == "number":
        return 0.4 if "number" in kinds else 0.0
    return -0.4 if question.asks in ("person", "place") and "item" not in kinds else 0.0
