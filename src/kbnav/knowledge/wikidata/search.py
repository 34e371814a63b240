"""Searches: the ladder for names, namesakes told apart, and texts that are values of statements or qualifiers.

The ladder: the phrase as given, then what is left without asides, then a name in it, then full text.
wbsearchentities matches the beginning of a label or alias, so that a phrase with one word too many finds nothing: in
the recorded SPINACH runs on QALD-10 that happened to 182 of 820 searches. A phrase that is nowhere costs at most seven
requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kbnav.answers.relevance import content_words
from kbnav.answers.tables import AnswerTable, Cell
from kbnav.errors import BadArguments, BadResponse, TellModel
from kbnav.knowledge.base import Entity, Qualifier, SearchKind, SearchResult, Stated, Statement, Value
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, WIKIDATA_VOCABULARY, Vocabulary, text_literal
from kbnav.knowledge.wikidata.api import ActionApi
from kbnav.knowledge.wikidata.entities import term_value
from kbnav.knowledge.wikidata.queries import label_clauses

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
    asked = _Search(api, language, limit, limit if kind == "property" else limit // 2, kind)
    plain, parts = shorter(phrase)
    # All words of a phrase with a name are its description elsewhere; without a name, its parts are what it speaks of.
    named = any(map(_has_capital, phrase.split()))
    found = asked.exact(phrase, language) or (asked.part([plain], phrase, begins=True) if plain else None)
    if not found:
        mentioned = asked.by_words(phrase, " ")
        near = None if mentioned else asked.near(phrase)
        found = (mentioned if named else None) or near or asked.part(parts, phrase) or mentioned
    return (
        found
        or (asked.exact(phrase, "en") if language != "en" else None)
        or asked.by_words(phrase, " OR ")
        or SearchResult(suggestion=asked.suggestion)
    )


@dataclass
class _Search:
    """The requests of one search."""

    api: ActionApi
    language: str
    limit: int
    properties: int
    """How many properties are shown; of entities ``limit``."""
    kind: SearchKind
    left: int = MOST_REQUESTS
    suggestion: str = ""
    """What the service takes for the right spelling of what was searched for last."""

    def exact(self, phrase: str, spoken: str) -> SearchResult | None:
        """What has the phrase as the beginning of a name; those named just so first, and few of the others then."""
        entities, properties = self._named(phrase, spoken)
        if not entities and not properties:
            return None
        same = [one for one in entities if _is_named(one, phrase)]
        others = [one for one in entities if not _is_named(one, phrase)]
        found = (*same, *(others[:BESIDE_EXACT] if same else others))
        return SearchResult(found, properties, "exact", phrase)

    def near(self, phrase: str) -> SearchResult | None:
        """What is named as the service takes the phrase to be meant."""
        if self.suggestion.casefold() in ("", phrase.casefold()):
            return None
        self.left = max(self.left, 2)  # a hint so good is asked for though much was asked before
        named = (
            [one for one in some if _is_named(one, self.suggestion)]
            for some in self._named(self.suggestion, self.language)
        )
        entities, properties = map(tuple, named)
        return SearchResult(entities, properties, "near", self.suggestion) if entities or properties else None

    def part(self, parts: Sequence[Part], phrase: str, *, begins: bool = False) -> SearchResult | None:
        """What is named as a part of the phrase, or whose name begins with it."""
        found = [self._named(part.text, self.language, part.kind) for part in parts]
        if not begins:  # a part is a guess, and the beginning of another name no more than a coincidence
            for place, (part, (entities, properties)) in enumerate(zip(parts, found, strict=True)):
                same, so = ([one for one in some if _is_named(one, part.text)] for some in (entities, properties))
                own = so or [one for one in properties if one.datatype != "external-id"]
                found[place] = tuple(same), tuple(own)
        if not any(map(any, found)):
            return None
        entities = tuple(entity for some, _ in found for entity in some[:LOOSE])
        properties = tuple(entity for _, some in found for entity in some[:LOOSE])
        matched = [part.text for part, some in zip(parts, found, strict=True) if any(some)]
        return SearchResult(entities, properties, "shorter", " | ".join(matched), dropped(phrase, matched))

    def by_words(self, phrase: str, joint: str) -> SearchResult | None:
        """What has every telling word of the phrase in its names and description; with OR between them, the rarest."""
        if not self._spend() if joint == " " else len(content_words(phrase)) < 2:
            return None
        kinds: list[Literal["item", "property"]] = ["item", "property"]
        if self.kind != "any":
            kinds = ["property"] if self.kind == "property" else ["item"]
        told = content_words(phrase)
        text = joint.join([word for word in told if not _EDGE.fullmatch(word)] or told or phrase.split())
        ids, self.suggestion = self.api.full_text(text, kinds=kinds, limit=_HITS)
        names = self.api.brief(ids, self.language)
        found = [names[one] for one in ids if one in names]
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
        if "item" not in (self.kind, kind) and self.properties and self._spend():
            properties = self.api.search(text, kind="property", language=spoken, limit=PROPERTIES)
        lacking = [one.id for one in properties if not one.datatype]  # the search did not give it
        known = self.api.brief(lacking, self.language) if lacking else {}
        described = [replace(one, datatype=known[one.id].datatype) if one.id in known else one for one in properties]
        return tuple(entities), self._foremost(described, text)

    def _spend(self) -> bool:
        """Whether one more request may be made; those that name what was found are not counted."""
        self.left -= 1
        return self.left >= 0

    def _foremost(self, properties: Sequence[Entity], phrase: str) -> tuple[Entity, ...]:
        """The first properties: those named so, then others, then identifiers in others' databases.

        Three of four properties of Wikidata are identifiers: of 133 whose label begins with "national", 125. They are
        shown beside others only where properties are asked for, or the phrase is the name of one.
        """

        def behind(one: Entity) -> int:
            if _is_named(one, phrase) or _is_named(one, f"{phrase} id"):
                return 0
            return 1 + (one.datatype == "external-id")

        ordered = sorted(properties, key=behind)
        telling = [one for one in ordered if self.kind == "property" or behind(one) < 2]
        return tuple(telling or ordered)[: self.properties]


def _named_in(entity: Entity, phrase: str) -> int:
    """Words of an entity's label where the whole of it stands in a phrase, else 0."""
    label = content_words(entity.label)
    said = " ".join(content_words(phrase))
    return len(label) if label and f" {' '.join(label)} " in f" {said} " else 0


def _is_named(entity: Entity, phrase: str) -> bool:
    """Whether a label or alias is the phrase, but for case."""
    return phrase.casefold() in (entity.label.casefold(), entity.alias.casefold())


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
    kept = {word.removesuffix("s") for text in matched for word in content_words(text)}
    return " ".join(word for word in content_words(phrase) if word.removesuffix("s") not in kept)


def _trim(words: Sequence[str]) -> list[str]:
    """Without articles, prepositions and the like at either end."""
    start, end = 0, len(words)
    while start < end and _EDGE.fullmatch(words[start].casefold()):
        start += 1
    while end > start and _EDGE.fullmatch(words[end - 1].casefold()):
        end -= 1
    return list(words[start:end])


def _singular(words: Sequence[str]) -> list[str]:
    """With the last word in the singular where it looks like a genitive or plural; a capital alone is a name."""
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


_TELLING = ("P106", "P569", "P17", "P131", "P577", "P50", "P57", "P175", "P571", "P279")
"""What tells namesakes apart, by its ids on Wikidata, best first: occupation, birth, country, place, publication,
author, director, performer, beginning, wider class."""


_DIFFERENT = "P1889"
"""Different from, by its id on Wikidata."""
_USES = 50
"""Uses of things without statements that are looked at."""


def told_apart(
    entities: Sequence[Entity],
    select: Callable[[str], AnswerTable],
    languages: Sequence[str],
    words: Vocabulary = WIKIDATA_VOCABULARY,
) -> tuple[Entity, ...]:
    """The entities, facts added to namesakes whose descriptions do not tell them apart, unknown ones last."""
    names = [entity.label.casefold() for entity in entities]
    described = [entity.description for entity in entities]
    alike = [
        entity
        for entity, name in zip(entities, names, strict=True)
        if names.count(name) > 1 and (not entity.description or described.count(entity.description) > 1)
    ]
    if not alike or not words.each((INSTANCE_OF, *_TELLING)):
        return tuple(entities)
    edges = " ".join(f"wdt:{one}" for one in words.each((INSTANCE_OF, *_TELLING, _DIFFERENT)))
    optional, label = label_clauses(languages, "?value")
    query = (
        f"SELECT ?entity ?edge ?value ({label} AS ?label) {{ VALUES ?entity {{ "
        f"{' '.join(f'wd:{entity.id}' for entity in alike)} }} "
        f"VALUES ?edge {{ {edges} }} ?entity ?edge ?value {' '.join(optional)} }} LIMIT 200"
    )
    try:
        rows = select(query).rows
    except (TellModel, BadResponse):
        return tuple(entities)
    found: dict[str, dict[str, str]] = {}
    shown, different = {entity.id for entity in entities}, words.of(_DIFFERENT)
    for one, edge, value, label_cell in rows:
        if one and edge and value:
            label, used = label_cell.value if label_cell else "", edge.value.rpartition("/")[2]
            text = term_value(value, lambda own, label=label: label or own, words).text  # type: ignore[misc]
            if used == different:
                if (other := words.entity_id(value.value)) in shown:
                    continue
                text = f"different from {text} ({other})" if label else ""
            found.setdefault(words.entity_id(one.value), {}).setdefault(used, text)
    bare = [entity.id for entity in alike if not entity.description and entity.id not in found]
    uses = _uses(bare, select, languages, words) if bare else {}
    told = []
    for entity in entities:
        facts = found.get(entity.id, {}) if entity in alike else {}
        most = next((facts[edge] for edge in words.each(_TELLING) if edge in facts), uses.get(entity.id, ""))
        parts = (entity.description, facts.get(words.of(INSTANCE_OF), ""), most, facts.get(different, ""))
        told.append(replace(entity, description="; ".join(filter(None, parts))))
    return tuple(sorted(told, key=lambda one: not one.description and names.count(one.label.casefold()) > 1))


def _uses(
    ids: Sequence[str], select: Callable[[str], AnswerTable], languages: Sequence[str], words: Vocabulary
) -> Mapping[str, str]:
    """Of what nothing is stated, one thing that it is the value of: ``mother of Irène Joliot-Curie``."""
    optional, label = label_clauses(languages, "?from")
    clauses, name = label_clauses(languages, "?property")
    named, name = [one.replace("?l", "?n") for one in clauses], name.replace("?l", "?n")
    query = (
        f"SELECT ?entity ({name} AS ?name) ?from ({label} AS ?label) {{ VALUES ?entity {{ "
        f"{' '.join(f'wd:{one}' for one in ids)} }} ?from ?edge ?entity . ?property wikibase:directClaim ?edge "
        f"{' '.join((*optional, *named))} }} LIMIT {_USES}"
    )
    try:
        rows = select(query).rows
    except (TellModel, BadResponse):
        return {}
    found = dict[str, str]()
    for one, name_cell, other, label_cell in rows:
        if one and other and name_cell:
            text = f"{name_cell.value} of {label_cell.value if label_cell else words.entity_id(other.value)}"
            found.setdefault(words.entity_id(one.value), text)
    return found


Select = Callable[[str], AnswerTable]
LONGEST_VALUE = 250
VALUES_SHOWN = 4
"""Values that are shown where they were not asked for."""
_ROWS = 60
_PAGES = 10
"""Pages of the full-text search in which the statement is looked for."""
_TAKEN = 200
"""Triples with the text that are looked at; what has it as a name is none of them."""
_NAMES = "rdfs:label, skos:altLabel, skos:prefLabel, schema:name, schema:description"
_LATE = ("P373", "P935")
"""Category and gallery of Wikimedia Commons, by their ids on Wikidata: names of pages elsewhere, as identifiers are."""


def as_written(select: Select, text: str, languages: Sequence[str], own: Vocabulary) -> list[Stated]:
    """Statements and qualifiers that have just this text, ids without names; none where the query fails."""
    quoted = text_literal(" ".join(text.split())[:LONGEST_VALUE])
    literals = " ".join([quoted, *(f"{quoted}@{language}" for language in languages)])
    return _asked(select, f"VALUES ?text {{ {literals} }} ?subject ?use ?text", own)


def mentioning(api: ActionApi, select: Select, text: str, own: Vocabulary) -> tuple[list[Stated], str]:
    """The same of those with all its words, by the full-text search; and why there are none, where that cannot be."""
    phrase = " ".join(text.replace('"', " ").split())[:LONGEST_VALUE]
    try:
        pages, _ = api.full_text(f'insource:"{phrase}"', limit=_PAGES)
    except BadArguments as error:
        return [], str(error)
    longest = max(content_words(phrase), key=len, default="")
    if not pages or not longest:
        return [], ""
    items = " ".join(f"wd:{one}" for one in pages)
    holds = f"FILTER(ISLITERAL(?text) && CONTAINS(LCASE(STR(?text)), {text_literal(longest)}))"
    pattern = (
        f"VALUES ?page {{ {items} }} {{ ?page ?use ?text . {holds} BIND(?page AS ?subject) }} "
        f"UNION {{ ?page ?claim ?subject . ?any wikibase:claim ?claim . ?subject ?use ?text . {holds} }}"
    )
    whole = re.escape(phrase.casefold())
    has = re.compile(rf"(?<!\w){whole}(?!\w)" if phrase.isascii() else whole)
    return [one for one in _asked(select, pattern, own) if has.search(_text_of(one)[1].text.casefold())], ""


def named_values(found: Sequence[Stated], names: Mapping[str, Entity], own: Vocabulary) -> list[Stated]:
    """With the names of what is in them, each once; names of pages elsewhere last."""

    def name(entity: Entity) -> Entity:
        return names.get(entity.id, entity)

    def value(one: Value) -> Value:
        return Value(names[one.id].label, one.id, one.datatype) if one.id in names else one

    late = own.each(_LATE)
    done = [
        Stated(
            name(one.subject),
            Statement(
                name(one.statement.property),
                value(one.statement.value),
                qualifiers=tuple(Qualifier(name(part.property), part.value) for part in one.statement.qualifiers),
            ),
        )
        for one in found
    ]
    held = {one: _text_of(one)[0] for one in done}
    return sorted(held, key=lambda one: held[one].datatype == "external-id" or held[one].id in late)


def value_ids(found: Sequence[Stated]) -> list[str]:
    """All entities in them."""
    used = []
    for one in found:
        own = [qualifier.property.id for qualifier in one.statement.qualifiers]
        used += [one.subject.id, one.statement.property.id, one.statement.value.id, *own]
    return [one for one in dict.fromkeys(used) if one]


def _text_of(one: Stated) -> tuple[Entity, Value]:
    """The property whose value the text is, and the text."""
    statement = one.statement
    first = next(iter(statement.qualifiers), None)
    return (first.property, first.value) if first else (statement.property, statement.value)


def _asked(select: Select, pattern: str, own: Vocabulary) -> list[Stated]:
    """Statements that have as a text what a pattern binds to ``?subject``, ``?use`` and ``?text``."""
    query = (
        f"SELECT ?subject ?property ?text ?item ?main ?value WHERE {{ {{ SELECT DISTINCT ?subject ?use ?text WHERE "
        f"{{ {pattern} FILTER(?use NOT IN ({_NAMES})) }} LIMIT {_TAKEN} }} "
        f"?property wikibase:directClaim|wikibase:statementProperty|wikibase:qualifier ?use . "
        f"OPTIONAL {{ ?item ?claim ?subject . ?main wikibase:claim ?claim ; wikibase:statementProperty ?stated . "
        f"?subject ?stated ?value }} }} LIMIT {_ROWS}"
    )
    try:
        rows = select(query).rows
    except (TellModel, BadResponse):
        return []
    found = [_stated(row, own) for row in rows]
    return list(dict.fromkeys(one for one in found if one is not None))


def _stated(row: Sequence[Cell], words: Vocabulary) -> Stated | None:
    """A row of the query: the value of a statement, truthy or not, or a qualifier of one."""
    subject, property_, text, item, main, value = row
    whose = item or subject
    if whose is None or property_ is None or text is None or not words.entity_id(whose.value):
        return None
    about = Entity(words.entity_id(whose.value))
    used, own = Entity(words.entity_id(property_.value), kind="property"), Value(text.value)
    if main is None or value is None or main.value == property_.value:
        return Stated(about, Statement(used, own))
    whole = Entity(words.entity_id(main.value), kind="property")
    read = term_value(value, lambda _: "", words)
    return Stated(about, Statement(whole, read, qualifiers=(Qualifier(used, own),)))
