"""From words to things: whole labels first, then labels that hold the words; classes and properties by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kbnav.answers.tables import AnswerTable
from kbnav.errors import QueryRefused, QueryTimeout
from kbnav.knowledge.endpoint.labels import Select, languages
from kbnav.knowledge.endpoint.names import values
from kbnav.knowledge.endpoint.vocabulary import Word
from kbnav.knowledge.sparql.dialects import Dialect, text_search
from kbnav.knowledge.sparql.vocabulary import text_literal, words_of

CANDIDATES = 200
"""Labels that one query brings, of which the best are shown."""
_WORDS = 6
"""Words of a phrase that are looked for."""
_WORD = re.compile(r"[^\W_]+(?:[-'’.@][^\W_]+)*", re.UNICODE)
_SMALL = frozenset(
    {"the", "of", "a", "an", "and", "in", "for", "der", "die", "das", "des", "le", "la", "les", "du", "de"}
)
_ENOUGH = 0.62
"""Likeness from which a class or property is taken for a phrase, from 0 to 1."""


@dataclass(frozen=True)
class Match:
    """A thing with the label that it was found by; ``words`` of the phrase that the label holds."""

    iri: str
    label: str
    words: tuple[str, ...]
    exact: bool
    score: float


def exact_query(phrase: str, predicates: Sequence[str], code: str) -> str:
    """SPARQL for the columns ``s`` and ``l``: things whose whole label is the phrase, in any of some spellings."""
    spellings = dict.fromkeys([phrase, phrase[:1].upper() + phrase[1:], phrase.title(), phrase.lower(), phrase.upper()])
    tags = [tag for tag in languages(code) if tag]
    literals = [f"{text_literal(one)}{tag}" for one in spellings for tag in ("", *(f"@{tag}" for tag in tags))]
    return (
        f"SELECT DISTINCT ?s ?l WHERE {{ VALUES ?l {{ {' '.join(literals)} }} VALUES ?p {{ {values(predicates)} }} "
        f"?s ?p ?l . FILTER(isIRI(?s)) }} LIMIT {CANDIDATES}"
    )


def containing_query(words: Sequence[str], predicates: Sequence[str]) -> str:
    """SPARQL for the columns ``s`` and ``l``: labels that hold any of the words, those with most of them first."""
    text = "LCASE(STR(?l))" if predicates else "LCASE(STR(?s))"
    parts = " + ".join(f"IF(CONTAINS({text}, {text_literal(word)}), 1, 0)" for word in words)
    any_word = " || ".join(f"CONTAINS({text}, {text_literal(word)})" for word in words)
    edges = f"VALUES ?p {{ {values(predicates)} }} ?s ?p ?l" if predicates else "?s a ?l"
    return (
        f"SELECT ?s ?l (({parts}) AS ?n) WHERE {{ {edges} . FILTER({any_word}) FILTER(isIRI(?s)) }} "
        f"ORDER BY DESC(?n) STRLEN(STR(?l)) LIMIT {CANDIDATES}"
    )


def containing(select: Select, wanted: Sequence[str], predicates: Sequence[str], dialect: Dialect) -> AnswerTable:
    """Labels that hold the words: by the engine's text index where it has one, else by reading labels.

    An index is asked for all words together and, where nothing has them all, for each by itself. Raises as the query.
    """
    if not (dialect.text and predicates):
        return select(containing_query(wanted, predicates))
    edges = [f"<{one}>" for one in predicates]

    def ask(phrase: str) -> AnswerTable:
        pattern = text_search(dialect, "?s", edges, "?l", phrase)
        return select(f"SELECT ?s ?l WHERE {{ {pattern} }} LIMIT {CANDIDATES}") if pattern else AnswerTable()

    together = ask(" ".join(wanted))
    if together.rows or len(wanted) == 1:
        return together
    apart = [ask(word) for word in wanted]
    return AnswerTable(("s", "l"), tuple(row for table in apart for row in table.rows))


def words(phrase: str) -> list[str]:
    """The words of a phrase that can be looked for, in lower case and without a plural's ending."""
    found = [stem(word.casefold()) for word in _WORD.findall(phrase)]
    telling = [word for word in found if word not in _SMALL]
    return list(dict.fromkeys(telling or found))[:_WORDS]


def stem(word: str) -> str:
    """A word without the ending of an English plural, so that it is a part of the singular too."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def matches(table: AnswerTable, phrase: str, *, named: bool) -> list[Match]:
    """The rows of such a query as matches, each thing once by its best label, the best first.

    ``named``: the second column is a label; else things have none, and the last part of their IRI stands for it.
    """
    wanted = words(phrase)
    found: dict[str, Match] = {}
    for row in table.rows:
        subject, label = row[0], row[1]
        if subject is None or subject.type != "uri":
            continue
        text = label.value if label and named else words_of(subject.value)
        one = Match(subject.value, text, *_fit(text, phrase, wanted))
        if one.iri not in found or one.score > found[one.iri].score:
            found[one.iri] = one
    return sorted(found.values(), key=lambda match: (-match.score, len(match.label), match.label, match.iri))


def _fit(label: str, phrase: str, wanted: Sequence[str]) -> tuple[tuple[str, ...], bool, float]:
    from rapidfuzz import fuzz, utils

    folded = label.casefold()
    held = tuple(word for word in wanted if word in folded)
    exact = folded == phrase.casefold().strip()
    likeness = fuzz.token_sort_ratio(phrase, label, processor=utils.default_process) / 100
    as_written = 0.1 * (label == phrase)  # of namesakes, that which is written alike
    return held, exact, 2.0 * exact + as_written + len(held) / max(1, len(wanted)) + likeness


def like(found: Sequence[Word], labels: Mapping[str, str], phrase: str, limit: int) -> list[tuple[float, Word]]:
    """The classes or properties whose name is like a phrase, the likest first, those used most before others."""
    scored = [(likeness(phrase, [labels.get(one.iri, ""), words_of(one.iri)]), one) for one in found]
    best = [pair for pair in scored if pair[0] >= _ENOUGH]
    return sorted(best, key=lambda pair: (-pair[0], -(pair[1].count or 0)))[:limit]


def likeness(phrase: str, names: Sequence[str]) -> float:
    """How like a phrase the nearest of some names is: 1 where their words are the same but for endings."""
    from rapidfuzz import fuzz

    wanted = {stem(word) for word in _WORD.findall(phrase.casefold())} - _SMALL
    best = 0.0
    for name in filter(None, names):
        own = {stem(word) for word in _WORD.findall(name.casefold())} - _SMALL
        if not own or not wanted:
            continue
        shared = sum(max(fuzz.ratio(one, other) / 100 for other in own) > 0.84 for one in wanted)
        best = max(best, 2 * shared / (len(wanted) + len(own)))
    return best


def within(question: str, name: str) -> float:
    """How much of a question the words of a name are; 0 unless all of them are in it, whatever their endings."""
    from rapidfuzz import fuzz

    asked = [stem(word) for word in _WORD.findall(question.casefold())]
    own = [stem(word) for word in _WORD.findall(name.casefold()) if word not in _SMALL]
    held = sum(
        len(word) > 2 and max((fuzz.ratio(word, one) / 100 for one in asked), default=0.0) > 0.84 for word in own
    )
    return len(own) + 0.0 if own and held == len(own) else 0.0


Scan = Callable[[Sequence[str]], AnswerTable]


def by_label(select: Select, phrase: str, predicates: Sequence[str], code: str, contains: Scan) -> list[Match]:
    """Things by their labels. Raises QueryTimeout, with what helps, where the endpoint cannot look inside labels."""
    exact = matches(select(exact_query(phrase, predicates, code)), phrase, named=True) if predicates else []
    wanted = words(phrase)
    if not wanted:
        return exact
    try:
        held = matches(contains(wanted), phrase, named=bool(predicates))
    except (QueryTimeout, QueryRefused) as error:
        if exact:
            return exact
        raise QueryTimeout(
            "nothing has this whole name, and the endpoint cannot look for parts of names in its time limit: give the "
            "whole name as it is written there (a name index, `kbnav endpoint index`, makes any name found)"
        ) from error
    return list({one.iri: one for one in (*reversed(held), *reversed(exact))}.values())[::-1]
