"""What a query makes of a question: the reading in words, and the words that it leaves out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kbnav.agents.offline.wikidata.hypotheses import Reading
from kbnav.answers.language import fold
from kbnav.answers.lexicon import lexicon, reads
from kbnav.answers.relevance import relevance, words
from kbnav.knowledge.sparql.verbalization import Line, verbalize
from kbnav.knowledge.sparql.vocabulary import entity_ids

MOST_UNUSED = 2
"""Words that say something and are left out, of a question that is answered all the same; one less where a link that
may be anything stands in the query."""
MANY = 50
"""Rows that are no answer to a question of which anything is left out."""
_STEM = 3
"""Letters that a name's beginning has more than, and its ending fewer than, in a language that is not read."""
_ITEM, _PROPERTY = re.compile(r"\bwd:(Q\d+)"), re.compile(r"\b(?:wdt|p|ps|pq):(P\d+)")
_CLASS = re.compile(r"\?answer (?:\(?wdt:P\d+(?:\|wdt:P\d+)*\)?)/wdt:P\d+\* wd:(Q\d+)")
_TRIPLE = re.compile(r"(wd:Q\d+|\?\w+) (wdt:[^ ]+|\?link\d?) (wd:Q\d+|\?\w+|\"[^\"]*\")")
_ORDER = re.compile(r"ORDER BY (?:ASC|DESC)\(")


def unused(reading: Reading, query: str, language: str) -> list[str]:
    """Words of the question's phrases that nothing in the query stands for, in their order.

    In a ``language`` that the rules do not read, a word stands for a label only as it is spelled in it, in any ending
    elsewhere: "открыл" (discovered) is no "место открытия" (place of discovery).
    """
    items, properties = set(_ITEM.findall(query)), set(_PROPERTY.findall(query))
    named, labels = _stood_for(reading, items, properties)
    labels |= set(re.findall(r'"([^"]*)"', query))
    question = reading.question
    labels |= {pair[0] for pair in (question.measure, question.comparative) if pair}
    vocabulary = [fold(label) for label in labels if label]
    spelled = {word for label in vocabulary for word in words(label)}
    left = []
    for phrase in question.phrases:
        for word in phrase.text.split():
            known = fold(word) in named or not words(fold(word)) or fold(word) in spelled
            alike = any(relevance(fold(word), vocabulary)) if reads(language) else _in_an_ending(fold(word), named)
            if not known and not alike:
                left.append(word)
    return list(dict.fromkeys(left))


def _in_an_ending(word: str, named: set[str]) -> bool:
    """Whether a word is one by which something was found, with a letter or two behind it: names are so searched."""
    return any(len(one) > _STEM and one == word[: len(one)] and len(word) - len(one) < _STEM for one in named)


def _stood_for(reading: Reading, items: set[str], properties: set[str]) -> tuple[set[str], set[str]]:
    """Words by which what the query names was found, and the labels of all that it names."""
    named: set[str] = set()
    labels: set[str] = set()
    for segment in reading.segments:
        used = [one for one in segment.items if one.id in items]
        asked = [one for one in segment.properties if one.id in properties]
        labels |= {one.label for one in (*used, *asked)}
        if used or (asked and segment.rung != "fulltext"):
            named |= set(fold(segment.text).split())
    for item in items:
        for edge in reading.seen.edges.get(item, []):
            facts = (edge.fact, *edge.qualifiers)
            labels |= {one.label for one in facts if one.property_id in properties}
            labels |= {edge.fact.text} if edge.fact.id in items else set()
    return named, labels


def leaves_too_much(reading: Reading, query: str, left: Sequence[str], language: str) -> bool:
    """Whether so much of the question is left out that the query's rows are hardly its answer.

    That is a name; several words that say something, fewer where a relation stands for any; or one such word where the
    rows are many, or all members of a class, or in a language that the rules do not read. That a statement is there may
    be said all the same.
    """
    telling = [word for word in left if fold(word) not in lexicon(language).light and not word.isdigit()]
    if not telling or query in reading.seen.true:
        return False
    capitals = [word for word in telling if word[:1].isupper() and _is_named(reading, word)]
    of_class = set(_ITEM.findall(query)) == set(_CLASS.findall(query)) and not _ORDER.search(query)
    many = reading.seen.rows.get(query, 0) > MANY
    vague = "?link" in query
    return bool(capitals) or len(telling) > MOST_UNUSED - vague or of_class or many or not reads(language)


def _is_named(reading: Reading, word: str) -> bool:
    return any(phrase.named and word in phrase.text.split() for phrase in reading.question.phrases)


def unnamed(reading: Reading, query: str) -> list[str]:
    """The ids in a query whose labels were not seen: those that the rules know by themselves, such as P31."""
    names = _names(reading)
    return [one for one in entity_ids(query) if one not in names]


def read_as(reading: Reading, query: str, language: str, labels: Mapping[str, str]) -> str:
    """How a query reads the question: its conditions in words, on one line; ``labels`` are those not seen."""
    told = verbalize(query, {**labels, **_names(reading)}, language, reading.words)
    head, *more = told.lines
    return "; ".join(_on_one_line(line) for line in (*head.inner, *more))


def _on_one_line(line: Line) -> str:
    return " ".join([line.text, " / ".join(_on_one_line(one) for one in line.inner)]).strip()


def _names(reading: Reading) -> dict[str, str]:
    """Labels by id of all that was seen."""
    names: dict[str, str] = {}
    for segment in reading.segments:
        names |= {one.id: one.label or one.id for one in (*segment.items, *segment.properties)}
    for edges in reading.seen.edges.values():
        for edge in edges:
            for fact in (edge.fact, *edge.qualifiers):
                names[fact.property_id] = fact.label
                if fact.id and fact.text:
                    names.setdefault(fact.id, fact.text)
    return names


def simpler(reading: Reading, query: str, simplest: str) -> tuple[str, ...]:
    """Questions of one name and one relation that the query of a larger question answers; none of more than that.

    ``simplest`` is the form of such a question.
    """
    names, found = _names(reading), []
    for subject, path, value in _TRIPLE.findall(_CLASS.sub("", query)):
        relation, entity = path.removeprefix("wdt:"), subject if subject.startswith("wd:") else value
        item = entity.removeprefix("wd:")
        if relation in names and item in names:
            found.append(simplest.format(relation=names[relation], name=names[item]))
    return tuple(found[:1])
