"""The ladder for searches: the phrase as given, then what is left without asides, then a name in it, then full text.

wbsearchentities matches the beginning of a label or alias, so that a phrase with one word too many finds nothing: in
the recorded SPINACH runs on QALD-10 that happened to 182 of 820 searches. A phrase that is nowhere costs at most seven
requests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kbnav.answers.relevance import words as telling_words
from kbnav.knowledge.base import Entity, SearchKind, SearchResult
from kbnav.knowledge.wikidata.api import ActionApi

LONGEST = 250
"""Characters of a search; the API refuses longer ones."""
PROPERTIES = 50
"""Properties that are asked for, to choose from; one request has the datatypes of as many."""
BESIDE_EXACT = 3
"""Entities whose name only begins with the phrase, beside those named so."""
_HITS = 50
"""Pages of a full-text search that are looked at for one whose name stands in the phrase; one request names them."""
MOST_REQUESTS = 6
"""Requests of one search before the last, which asks for the rarest word; what names the hits is not counted."""
LOOSE = 2
"""Entities, and as many properties, that are shown of what matches a part."""

_ASIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|[\"“”„«»?!]")
_EDGE = re.compile(
    r"an?|the|of|in|by|from|for|on|at|with|to|and|or|is|are|was|were|property|properties|item|entity|"
    r"der|die|das|eine?|von|le|la|les|une?|de|du|des|el|los|las|il|lo|gli|в|на|из|и"
)
"""Words that no label is missed for at either end."""


def search(api: ActionApi, query: str, *, language: str, limit: int, kind: SearchKind = "any") -> SearchResult:
    """At most ``limit`` entities and half as many properties, from the first rung of the ladder that has any.

    With a ``kind``, only those, and as many as ``limit``. What is named just so comes first, and next to nothing beside
    it. Behind another language English is tried.
    """
    phrase = " ".join(query.split())[:LONGEST]
    if not phrase:
        return SearchResult()
    asked = _Search(api, language, limit, kind)
    plain, parts = shorter(phrase)
    # All words of a phrase with a name are its description elsewhere; without a name, its parts are what it speaks of.
    named = any(map(_has_capital, phrase.split()))
    return (
        asked.exact(phrase, language)
        or (asked.part([plain], phrase, begins=True) if plain else None)
        or (asked.by_words(phrase) if named else asked.part(parts, phrase))
        or (asked.part(parts, phrase) if named else asked.by_words(phrase))
        or (asked.exact(phrase, "en") if language != "en" else None)
        or asked.by_rarest_word(phrase)
        or SearchResult(suggestion=asked.suggestion)
    )


@dataclass
class _Search:
    """The requests of one search."""

    api: ActionApi
    language: str
    limit: int
    kind: SearchKind
    left: int = MOST_REQUESTS
    suggestion: str = ""
    """What the service takes for the right spelling of what was searched for last."""

    def exact(self, phrase: str, spoken: str) -> SearchResult | None:
        """What has the phrase as the beginning of a name; those named just so first, and few of the others then."""
        entities, properties = self._named(phrase, spoken)
        if not entities and not properties:
            return None
        wanted = phrase.casefold()
        same = [one for one in entities if _is_named(one, wanted)]
        others = [one for one in entities if not _is_named(one, wanted)]
        found = (*same, *(others[:BESIDE_EXACT] if same else others))
        return SearchResult(found, properties, "exact", phrase)

    def part(self, parts: Sequence[Part], phrase: str, *, begins: bool = False) -> SearchResult | None:
        """What is named as a part of the phrase, or whose name begins with it."""
        found = [self._named(part.text, self.language, part.kind) for part in parts]
        if not begins:  # a part is a guess, and the beginning of another name no more than a coincidence
            found = [
                (_of_name(entities, part.text), _of_name(properties, part.text) or _not_identifiers(properties))
                for part, (entities, properties) in zip(parts, found, strict=True)
            ]
        if not any(map(any, found)):
            return None
        entities = tuple(entity for some, _ in found for entity in some[:LOOSE])
        properties = tuple(entity for _, some in found for entity in some[:LOOSE])
        matched = [part.text for part, some in zip(parts, found, strict=True) if any(some)]
        return SearchResult(entities, properties, "shorter", " | ".join(matched), dropped(phrase, matched))

    def by_words(self, phrase: str) -> SearchResult | None:
        """What has every telling word of the phrase in its names and description."""
        return self._by_words(phrase, " ") if self._spend() else None

    def by_rarest_word(self, phrase: str) -> SearchResult | None:
        """What has the rarest of the words; says which of the others it lacks."""
        return self._by_words(phrase, " OR ") if len(telling_words(phrase)) > 1 else None

    def _by_words(self, phrase: str, joint: str) -> SearchResult | None:
        kinds: list[Literal["item", "property"]] = ["item", "property"]
        if self.kind != "any":
            kinds = ["property"] if self.kind == "property" else ["item"]
        told = telling_words(phrase)
        text = joint.join([word for word in told if not _EDGE.fullmatch(word)] or told or phrase.split())
        found, self.suggestion = self.api.full_text(text, kinds=kinds, language=self.language, limit=_HITS)
        found.sort(key=lambda one: -_named_in(one, phrase))
        entities = tuple(one for one in found if one.kind != "property")[:LOOSE]
        properties = self._foremost([one for one in found if one.kind == "property"], phrase)[:LOOSE]
        if not entities and not properties:
            return None
        shown = [f"{one.label} {one.description}" for one in (*entities, *properties)]
        return SearchResult(entities, properties, "fulltext", phrase, dropped(phrase, shown) if joint != " " else "")

    def _named(self, text: str, spoken: str, kind: SearchKind = "any") -> tuple[tuple[Entity, ...], tuple[Entity, ...]]:
        """Entities and properties by label or alias."""
        entities: list[Entity] = []
        properties: list[Entity] = []
        if "property" not in (self.kind, kind) and self._spend():
            entities = self.api.search(text, kind="item", language=spoken, limit=self.limit)
        if "item" not in (self.kind, kind) and self._properties and self._spend():
            properties = self.api.search(text, kind="property", language=spoken, limit=PROPERTIES)
        return tuple(entities), self._foremost(self._with_datatype(properties), text)

    def _spend(self) -> bool:
        """Whether one more request may be made; those that name what was found are not counted."""
        self.left -= 1
        return self.left >= 0

    @property
    def _properties(self) -> int:
        return self.limit if self.kind == "property" else self.limit // 2

    def _foremost(self, properties: Sequence[Entity], phrase: str) -> tuple[Entity, ...]:
        """The first properties: those named so, then others, then identifiers in others' databases.

        Three of four properties of Wikidata are identifiers: of 133 whose label begins with "national", 125. They are
        shown beside others only where properties are asked for, or the phrase is the name of one.
        """
        wanted = phrase.casefold()

        def behind(one: Entity) -> int:
            if _is_named(one, wanted) or _is_named(one, f"{wanted} id"):
                return 0
            return 1 + (one.datatype == "external-id")

        ordered = sorted(properties, key=behind)
        telling = [one for one in ordered if self.kind == "property" or behind(one) < 2]
        return tuple(telling or ordered)[: self._properties]

    def _with_datatype(self, properties: list[Entity]) -> tuple[Entity, ...]:
        """Fill in the datatypes that the search did not give."""
        lacking = [one.id for one in properties if not one.datatype]
        known = self.api.brief(lacking, self.language) if lacking else {}
        return tuple(replace(one, datatype=known[one.id].datatype) if one.id in known else one for one in properties)


def _of_name(found: Sequence[Entity], name: str) -> tuple[Entity, ...]:
    return tuple(one for one in found if _is_named(one, name.casefold()))


def _not_identifiers(properties: Sequence[Entity]) -> tuple[Entity, ...]:
    return tuple(one for one in properties if one.datatype != "external-id")


def _named_in(entity: Entity, phrase: str) -> int:
    """Words of an entity's label where the whole of it stands in a phrase, else 0."""
    label = telling_words(entity.label)
    said = " ".join(telling_words(phrase))
    return len(label) if label and f" {' '.join(label)} " in f" {said} " else 0


def _is_named(entity: Entity, wanted: str) -> bool:
    """Whether a label or alias is the phrase, given without case."""
    return wanted in (entity.label.casefold(), entity.alias.casefold())


@dataclass(frozen=True)
class Part:
    """A part of a phrase to search for, and as what."""

    text: str
    kind: SearchKind = "any"


def shorter(phrase: str) -> tuple[Part | None, tuple[Part, ...]]:
    """The phrase without asides and articles or in the singular, where that differs; a name in it, and the rest."""
    words = _trim(_ASIDE.sub(" ", phrase).replace(",", " ").split())
    candidates = (" ".join(some) for some in (words, _singular(words)))
    plain = next((text for text in candidates if text and text.casefold() != phrase.casefold()), "")
    tried = {phrase.casefold(), plain.casefold()}
    start, end = _name(words)
    named = any(_has_capital(word) for word in words[start:end])
    rest = (_trim(words[:start]) or _trim(words[end:])) if named and not all(map(_has_capital, words)) else []
    parts = [Part(" ".join(words[start:end])), Part(" ".join(rest), "property")]
    if not named and len(words) > 1:  # a script without capitals, or a phrase without a name: its end may be known too
        parts.append(Part(" ".join(_trim(words[1:])), "item"))
    return Part(plain) if plain else None, tuple(
        part for part in parts if part.text and part.text.casefold() not in tried
    )


def _has_capital(word: str) -> bool:
    return any(letter.isupper() or letter.isdigit() for letter in word)


def _name(words: Sequence[str]) -> tuple[int, int]:
    """Where the longest name in a phrase is: words with a capital, with "of the" between them.

    A phrase that is all a name is parted behind its last "of"; else, or without capitals, its last word is left out.
    Nowhere where the phrase is one word.
    """
    capital = [_has_capital(word) for word in words]
    if len(words) < 2:
        return 0, 0
    if not any(capital):
        return 0, len(words) - 1
    best, start = (0, 0), 0
    while start < len(words):
        end = start
        while end < len(words) and (capital[end] or (end > start and _EDGE.fullmatch(words[end]))):
            end += 1
        while end > start and not capital[end - 1]:
            end -= 1
        best = max(best, (start, end), key=lambda place: place[1] - place[0])
        start = max(end, start + 1)
    if best != (0, len(words)):
        return best
    joints = [place for place, word in enumerate(words) if _EDGE.fullmatch(word)]
    return (joints[-1] + 1, len(words)) if joints else (0, len(words) - 1)


def dropped(phrase: str, matched: Sequence[str]) -> str:
    """The words of a phrase that no part has, those that tell something."""
    kept = {word for text in matched for word in telling_words(text)}
    return " ".join(word for word in telling_words(phrase) if not any(_alike(word, one) for one in kept))


def _alike(word: str, other: str) -> bool:
    return word == other or word.removesuffix("s") == other.removesuffix("s")


def _trim(words: Sequence[str]) -> list[str]:
    """Without articles, prepositions and the like at either end."""
    start, end = 0, len(words)
    while start < end and _EDGE.fullmatch(words[start].casefold()):
        start += 1
    while end > start and _EDGE.fullmatch(words[end - 1].casefold()):
        end -= 1
    return list(words[start:end])


def _singular(words: Sequence[str]) -> list[str]:
    """With the last word in the singular where it looks like an English genitive or plural.

    A capitalised word alone is a name, and no plural; behind others ("Nobel Prizes") it may be one.
    """
    if not words:
        return []
    common = len(words) > 1 or words[-1].islower()
    last = re.sub(r"['’]s?$", "", words[-1])
    if common and len(last) > 4 and last.endswith("ies"):
        # Cities and movies look alike; short ones have their i in the singular too.
        last = last[:-1] if last in ("movies", "cookies", "zombies", "series") else last[:-3] + "y"
    elif common and len(last) > 3 and last.endswith("s") and not last.endswith(("ss", "us", "is")):
        last = last[:-1]
    return [*words[:-1], last]
