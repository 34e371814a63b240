"""From words to things by an endpoint's labels: whole ones first, then those that hold the words.

Classes and properties are found by what their names are like.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from kbnav.answers.language import fold, singular
from kbnav.answers.tables import AnswerTable
from kbnav.errors import QueryRefused, QueryTimeout
from kbnav.knowledge.base import SearchResult
from kbnav.knowledge.endpoint.data import Select, Word, iris_list, languages
from kbnav.knowledge.sparql.dialects import Dialect, text_search
from kbnav.knowledge.sparql.vocabulary import label_from_iri, text_literal

_CANDIDATES = 200
"""Labels that one query brings, of which the best are presented."""
_SPELT = 5_000
"""Labels that one query brings, whose spelling is compared with a phrase."""
_WORDS = 6
"""Words of a phrase that are looked for."""
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_SMALL = frozenset(
    {"the", "of", "a", "an", "and", "in", "for", "der", "die", "das", "des", "le", "la", "les", "du", "de"}
)
_HAVING = frozenset({"has", "have", "is", "label", "type"})
"""Words of a property's name that say nothing of it."""
_ENOUGH, _SAME_WORD = 0.62, 0.84
"""Likeness from which a class or property is taken for a phrase, and a word for another, from 0 to 1."""
_LONG = 5
"""Letters that a word must have for its spelling to be compared, by labels that share its first or last three."""


@dataclass(frozen=True)
class Match:
    """A thing with the label that it was found by; ``words`` of the phrase that the label holds.

    ``near``: it has words that only begin so, have a word of the phrase in them, or are spelled alike.
    """

    iri: str
    label: str
    words: tuple[str, ...]
    exact: bool
    score: float
    near: bool = False


def by_whole_label(
    select: Select, phrase: str, predicates: Sequence[str], code: str, others: Sequence[str] = ()
) -> list[Match]:
    """Things whose label is the phrase, in some ways of writing it, in the language asked or one that labels have."""
    spellings = dict.fromkeys([phrase, phrase[:1].upper() + phrase[1:], phrase.title(), phrase.lower(), phrase.upper()])
    tags = ["", *(f"@{tag}" for tag in dict.fromkeys((*languages(code), *others)) if tag)]
    literals = " ".join(f"{text_literal(one)}{tag}" for one in spellings for tag in tags)
    query = (
        f"SELECT DISTINCT ?s ?l WHERE {{ VALUES ?l {{ {literals} }} VALUES ?p {{ {iris_list(predicates)} }} "
        f"?s ?p ?l . FILTER(isIRI(?s)) }} LIMIT {_CANDIDATES}"
    )
    return _matches(select(query), phrase, named=True) if predicates else []


def by_label(
    select: Select, phrase: str, predicates: Sequence[str], code: str, dialect: Callable[[], Dialect]
) -> list[Match]:
    """Things by their labels. Raises QueryTimeout, with what helps, where the endpoint cannot look inside labels."""
    exact = by_whole_label(select, phrase, predicates, code)
    wanted = phrase_words(phrase)
    if not wanted:
        return exact
    try:
        held = _matches(containing(select, wanted, predicates, dialect()), phrase, named=bool(predicates))
    except (QueryTimeout, QueryRefused) as error:
        if exact:
            return exact
        raise QueryTimeout(
            "nothing has this whole name, and the endpoint cannot look for parts of names in its time limit: give the "
            "whole name as it is written there (a name index, `kbnav sparql index`, makes any name found)"
        ) from error
    if not (held or exact or dialect().text):
        with suppress(QueryTimeout, QueryRefused):
            held = _not_so_written(select, phrase, predicates, dialect()) if predicates else []
    return list({one.iri: one for one in (*reversed(held), *reversed(exact))}.values())[::-1]


def _not_so_written(select: Select, phrase: str, predicates: Sequence[str], dialect: Dialect) -> list[Match]:
    """Things whose IRI has the words where no label does, or else those with a label that is spelled alike."""
    wanted = phrase_words(phrase)
    if found := _matches(containing(select, wanted, (), dialect), phrase, named=False):
        return [replace(one, near=True, exact=False) for one in found if one.words]
    ends = {part for word in wanted if len(word) >= _LONG for part in (word[:3], word[-3:])}
    if not ends:
        return []
    alike = " || ".join(f"CONTAINS(LCASE(STR(?l)), {text_literal(part)})" for part in sorted(ends))
    table = select(
        f"SELECT ?s ?l WHERE {{ VALUES ?p {{ {iris_list(predicates)} }} ?s ?p ?l . FILTER({alike}) "
        f"FILTER(isIRI(?s)) }} LIMIT {_SPELT}"
    )
    spelt = []
    for subject, label, *_ in table.rows:
        if subject and label:
            own = stems(label.value)
            held = tuple(word for word in wanted if (_is_among(word, own) if len(word) >= _LONG else word in own))
            if held:
                score = len(held) / len(wanted) + likeness(phrase, label.value, exact=False)
                spelt.append(Match(subject.value, label.value, held, False, score, near=True))
    return best_of(spelt)


def by_iri(select: Select, phrase: str, dialect: Dialect) -> list[Match]:
    """Things whose IRI has the phrase as it is written, in any case; none where that takes too long."""
    with suppress(QueryTimeout, QueryRefused):
        wanted = tuple(phrase_words(phrase))
        found = _matches(containing(select, [phrase.lower()], (), dialect), phrase, named=False)
        return [replace(one, words=wanted, exact=False, near=True) for one in found]
    return []


def best_rung(found: Sequence[Match], phrase: str, named: bool) -> tuple[SearchResult, list[Match]]:
    """The matches that hold most of the phrase, and a result that says how; ``named``: something else does."""
    if not found:
        return SearchResult((), rung="exact" if named else "none"), []
    wanted = phrase_words(phrase)
    most = max(len(one.words) for one in found)
    best = [one for one in found if one.exact or len(one.words) == most]
    if any(one.exact for one in best) or most == len(wanted):
        so = [one for one in best if not one.near]
        return SearchResult((), rung="exact" if so else "near"), so or best
    if named:
        return SearchResult((), rung="exact"), []
    part = " ".join(word for word in wanted if word in best[0].words)
    left = " ".join(word for word in wanted if word not in best[0].words)
    alike = [one for one in best if one.words == best[0].words]
    alike.sort(key=lambda one: (one.label.casefold() != part, one.label not in phrase))
    return SearchResult((), rung="shorter", matched=part, dropped=left), alike


def containing(select: Select, wanted: Sequence[str], predicates: Sequence[str], dialect: Dialect) -> AnswerTable:
    """Labels that hold all words, or else each, by the engine's text index or by reading. Raises as the query."""
    if not (dialect.text and predicates):
        text = "LCASE(STR(?l))" if predicates else "LCASE(STR(?s))"
        held = [f"CONTAINS({text}, {text_literal(word)})" for word in wanted]
        parts = " + ".join(f"IF({one}, 1, 0)" for one in held)
        names = f"VALUES ?p {{ {iris_list(predicates)} }} ?s ?p ?l" if predicates else "?s a ?l"
        return select(
            f"SELECT ?s ?l (({parts}) AS ?n) WHERE {{ {names} . FILTER({' || '.join(held)}) FILTER(isIRI(?s)) }} "
            f"ORDER BY DESC(?n) STRLEN(STR(?l)) LIMIT {_CANDIDATES}"
        )
    edges = [f"<{one}>" for one in predicates]

    def ask(phrase: str) -> AnswerTable:
        pattern = text_search(dialect, "?s", edges, "?l", phrase)
        return select(f"SELECT ?s ?l WHERE {{ {pattern} }} LIMIT {_CANDIDATES}") if pattern else AnswerTable()

    together = ask(" ".join(wanted))
    if together.rows or len(wanted) == 1:
        return together
    return AnswerTable(("s", "l"), tuple(row for word in wanted for row in ask(word).rows))


def phrase_words(phrase: str) -> list[str]:
    """The words of a phrase that can be looked for, in lower case and without a plural's ending."""
    found = stems(phrase)
    return list(dict.fromkeys([word for word in found if word not in _SMALL] or found))[:_WORDS]


def split_words(text: str) -> list[str]:
    """The words of a text as they are written, without hyphens and other marks."""
    return _WORD.findall(text)


def initials(words: Sequence[str]) -> str:
    """The initials of a name of three words or more, as in BOM, Bill of Material; else nothing."""
    return "".join(word[0] for word in words) if len(words) > 2 else ""


def same_name(phrase: str, name: str) -> bool:
    """Whether a phrase is a name, in any case and number, with hyphens or without."""
    return "".join(stems(phrase)) == "".join(stems(name))


def stems(text: str) -> list[str]:
    """Words in lower case without the ending of an English plural, so that each is a part of the singular too."""
    words = (word.casefold() for word in split_words(text))
    return [
        word[:-3]
        if len(word) > 4 and word.endswith("ies")
        else word.removesuffix("s" if len(word) > 3 and not word.endswith("ss") else "")
        for word in words
    ]


def _matches(table: AnswerTable, phrase: str, *, named: bool) -> list[Match]:
    """The rows of such a query as matches by their best label (``named``: in the second column), best first."""
    wanted, found = phrase_words(phrase), []
    for subject, label, *_ in table.rows:
        if subject is not None and subject.type == "uri":
            text = label.value if label and named else label_from_iri(subject.value)
            held = tuple(word for word in wanted if word in text.casefold())
            exact = same_name(phrase, text)
            score = len(held) / max(1, len(wanted)) + likeness(phrase, text, exact=exact)
            own = stems(text)
            near = not exact and any(word not in own for word in held)
            found.append(Match(subject.value, text, held, exact, score, near))
    return best_of(found)


def likeness(phrase: str, label: str, *, exact: bool) -> float:
    """How like a label is to a phrase; ``exact``: they are the same but for what does not count."""
    from rapidfuzz import fuzz, utils

    alike = fuzz.token_sort_ratio(phrase, label, processor=utils.default_process) / 100
    return alike + 2.0 * exact + 0.1 * (label == phrase)  # of namesakes, that which is written alike


def best_of(found: Sequence[Match]) -> list[Match]:
    """Each thing once, by its best label, the best first."""
    best: dict[str, Match] = {}
    for one in sorted(found, key=lambda match: (-match.score, len(match.label), match.label, match.iri)):
        best.setdefault(one.iri, one)
    return list(best.values())


def like(found: Sequence[Word], labels: Mapping[str, str], phrase: str, limit: int) -> list[Word]:
    """The classes or properties whose name is like a phrase, the likest first, those used most before others."""
    scored = [(_likeness(phrase, (labels.get(one.iri, ""), label_from_iri(one.iri))), one) for one in found]
    best = sorted(scored, key=lambda pair: (-pair[0], -(pair[1].count or 0)))
    return [one for score, one in best if score >= _ENOUGH][:limit]


def _likeness(phrase: str, names: Sequence[str]) -> float:
    """How like a phrase the nearest of some names is: 1 where their words are the same but for endings."""
    wanted = set(stems(phrase)) - _SMALL
    best = 0.0
    for name in filter(None, names):
        own = set(stems(name)) - _SMALL
        if own and wanted:
            same = sum(
                _is_among(one, own) or (len(one) > 3 and any(other.startswith(one) for other in own)) for one in wanted
            )
            best = max(best, 2 * same / (len(wanted) + len(own)))
        if [initials(split_words(name)).casefold()] == list(wanted):
            best = 1.0
    return best


def _is_among(word: str, others: set[str] | Sequence[str]) -> bool:
    from rapidfuzz import fuzz

    def alike(one: str, other: str) -> bool:
        short, long = sorted((fold(one), fold(other)), key=len)
        plural = len(short) > 3 and long.removeprefix(short) in ("er", "en", "n")  # German: Bilder
        return plural or one == other or fuzz.ratio(short, long) / 100 > _SAME_WORD

    return any(alike(word, other) or alike(_one(word), _one(other)) for other in others)


def _one(word: str) -> str:
    return "person" if word == "people" else singular(word)


def named_in(question: str, name: str) -> int:
    """How many words of a question a name has; 0 unless all of the name's are in it, whatever their endings."""
    asked = stems(question)
    own = [stem for word in split_words(name.casefold()) if word not in _SMALL for stem in stems(word)]
    return len(own) if all(len(word) > 2 and _is_among(word, asked) for word in own) else 0


def share_named(question: str, name: str) -> float:
    """The share of a property's name, without words such as "has", whose words or beginnings a question has, 0 to 1."""
    asked = stems(question)
    own = [stem for stem in stems(name) if len(stem) > 2 and stem not in _SMALL | _HAVING]
    said = [word for word in own if any(word == one or _begins(word, one) or _begins(one, word) for one in asked)]
    return len(said) / len(own) if own else 0.0


def _begins(word: str, beginning: str) -> bool:
    return len(beginning) >= _LONG and word.startswith(beginning)
