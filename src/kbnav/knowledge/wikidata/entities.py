"""Entity documents, as Wikidata serves them in JSON, into entries. Pure: labels of other entities come in.

https://www.mediawiki.org/wiki/Wikibase/DataModel/JSON describes the form. Empty objects come as empty lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from kbnav.errors import BadResponse, UnknownId
from kbnav.knowledge.base import Entity, Entry, Qualifier, Statement
from kbnav.knowledge.wikidata.values import referenced, snak_value

_BEHIND = {"zh": ("zh-hans", "zh-cn", "zh-hant", "zh-tw"), "no": ("nb",), "nb": ("no",)}
_LEXICAL = ("lemmas", "representations", "glosses")
_SHAPE = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError)


def languages(language: str) -> tuple[str, ...]:
    """The languages a label is looked for in: the user's, its variants, ``mul`` (for all), English."""
    base = language.partition("-")[0]
    return tuple(dict.fromkeys([language, base, *_BEHIND.get(base, ()), "mul", "en"]))


def entity_of(reply: Mapping[str, Any], asked: str) -> Mapping[str, Any]:
    """The document of one entity in a reply of wbgetentities or Special:EntityData, or a document itself.

    Raises UnknownId where it is missing or of a kind that has no entry here, BadResponse where the reply is neither.
    """
    document: Any = reply
    if "entities" in reply:
        entities = reply["entities"] or {}
        if not isinstance(entities, dict):
            raise BadResponse("entities: an object is promised")
        document = entities.get(asked) or next(iter(entities.values()), None)
    if document is None or (isinstance(document, dict) and "missing" in document):
        raise no_page(asked)
    if not isinstance(document, dict) or not document.get("id"):
        raise BadResponse(f"{asked}: not an entity document")
    kind = document.get("type") or ("lexeme" if "lemmas" in document else "item")
    if kind not in ("item", "property", "lexeme", "form", "sense"):
        raise UnknownId(f"{asked} is of the kind {kind}; entries are of items, properties and lexemes")
    return document


NO_PAGE_OF_ITS_OWN = "{} has no page of its own here, and so no name: what is shown are statements that name it."
"""What is said of an id that only others' statements have, as a copy of a part of Wikidata has many."""


def no_page(entity_id: str) -> UnknownId:
    """The error for an id without a page; it may well have been seen as a value: a mirror holds a part of Wikidata."""
    return UnknownId(
        f"the knowledge base has no page for {entity_id}: it was deleted, never created, or is not in this copy"
    )


def brief(document: Mapping[str, Any], language: str) -> Entity:
    """Label, description, kind and datatype of an entity document. Raises BadResponse where it is not one."""
    try:
        wanted = languages(language)
        kind = str(document.get("type") or "item")
        label = _term(document.get("labels"), wanted) or next(
            (text for part in _LEXICAL if (text := _any_term(document.get(part), wanted))), ""
        )
        return Entity(
            str(document["id"]),
            label,
            _term(document.get("descriptions"), wanted),
            kind,
            str(document.get("datatype") or ""),
        )
    except _SHAPE as error:
        raise BadResponse(f"entity document: {error!r}") from error


def references(document: Mapping[str, Any]) -> list[str]:
    """Ids of all entities whose labels an entry needs, in order: properties, values, units, globes; no duplicates."""
    try:
        return list(dict.fromkeys(_references(document)))
    except _SHAPE as error:
        raise BadResponse(f"{document.get('id')}: {error!r}") from error


def parse(document: Mapping[str, Any], *, language: str, known: Mapping[str, Entity]) -> Entry:
    """An entry from an entity document and what is known of the entities it names.

    Preferred statements of a property come before its normal ones; identifiers in other databases stand apart, and
    deprecated statements are left out and counted in ``omitted``. Raises BadResponse where the document is not of the
    promised form.
    """
    redirect = document.get("redirects")
    try:
        statements, identifiers, omitted = _statements(document, known)
        return Entry(
            entity=brief(document, language),
            statements=statements,
            identifiers=identifiers,
            document=_lexeme_text(document, language, known),
            aliases=_aliases(document, language),
            redirected_from=str(redirect.get("from", "")) if isinstance(redirect, dict) else "",
            omitted=dict(omitted),
        )
    except _SHAPE as error:
        raise BadResponse(f"{document.get('id')}: not of the form of an entity document: {error!r}") from error


def without_unknown(entry: Entry, known: Mapping[str, Entity]) -> Entry:
    """The entry without the statements of properties that are not known; ``omitted`` counts them."""
    kept = tuple(one for one in entry.statements if one.property.id in known)
    left_out = len(entry.statements) - len(kept)
    if not left_out:
        return entry
    return replace(entry, statements=kept, omitted={**(entry.omitted or {}), "unknown property": left_out})


def claims(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Property id and statement, in document order. An empty object is served as an empty list."""
    for property_id, statements in (document.get("claims") or {}).items():
        for statement in statements:
            yield property_id, statement


def is_external(snak: Mapping[str, Any]) -> bool:
    """Whether a snak holds an identifier in someone else's database."""
    return snak.get("datatype") == "external-id"


def _is_deprecated(statement: Mapping[str, Any]) -> bool:
    return statement.get("rank") == "deprecated"


def _references(document: Mapping[str, Any]) -> Iterator[str]:
    for property_id, statement in claims(document):
        if _is_deprecated(statement):
            continue
        yield property_id
        if not is_external(statement["mainsnak"]):
            for snak in _snaks(statement):
                yield snak["property"]
                yield from _snak_references(snak)
    for part in ("language", "lexicalCategory"):
        if isinstance(document.get(part), str):
            yield document[part]


def _snaks(statement: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield statement["mainsnak"]
    yield from _qualifier_snaks(statement)


def _qualifier_snaks(statement: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    qualifiers = statement.get("qualifiers") or {}
    order = statement.get("qualifiers-order") or ()
    for property_id in dict.fromkeys([*order, *qualifiers]):
        for snak in qualifiers.get(property_id, ()):
            if not is_external(snak):
                yield snak


def _snak_references(snak: Mapping[str, Any]) -> Iterator[str]:
    data = snak.get("datavalue")
    if snak["snaktype"] != "value" or not isinstance(data, dict):
        return
    value = data["value"]
    match data["type"]:
        case "wikibase-entityid":
            yield referenced(value)
        case "quantity" if str(value.get("unit") or "1") != "1":
            yield value["unit"].rpartition("/")[2]
        case "globecoordinate" if value.get("globe"):
            yield value["globe"].rpartition("/")[2]


def _statements(
    document: Mapping[str, Any], known: Mapping[str, Entity]
) -> tuple[tuple[Statement, ...], tuple[Statement, ...], Counter[str]]:
    """The statements, the identifiers, and how many were left out by reason."""

    def name(entity: str) -> str:
        return known[entity].label or entity if entity in known else entity

    omitted: Counter[str] = Counter()
    identifiers: list[Statement] = []
    best: dict[str, list[Statement]] = {}
    others: dict[str, list[Statement]] = {}
    for property_id, statement in claims(document):
        if _is_deprecated(statement):
            omitted["deprecated"] += 1
            continue
        snak = statement["mainsnak"]
        if is_external(snak):
            identifiers.append(Statement(_property(snak, known), snak_value(snak, name)))
            continue
        rank: Literal["preferred", "normal"] = "preferred" if statement.get("rank") == "preferred" else "normal"
        qualifiers = tuple(
            Qualifier(_property(item, known), snak_value(item, name)) for item in _qualifier_snaks(statement)
        )
        parsed = Statement(_property(snak, known), snak_value(snak, name), rank, qualifiers)
        best.setdefault(property_id, [])
        (best if rank == "preferred" else others).setdefault(property_id, []).append(parsed)
    ordered = [one for property_id in best for one in (*best[property_id], *others.get(property_id, ()))]
    return tuple(ordered), tuple(identifiers), omitted


def _property(snak: Mapping[str, Any], known: Mapping[str, Entity]) -> Entity:
    found = known.get(snak["property"])
    datatype = str(snak.get("datatype") or (found.datatype if found else ""))
    return Entity(
        str(snak["property"]), found.label if found else "", found.description if found else "", "property", datatype
    )


def _term(terms: Any, wanted: Sequence[str]) -> str:
    """The text in the first of the wanted languages that has one."""
    if not terms:
        return ""
    for language in wanted:
        if language in terms:
            return str(terms[language]["value"])
    return ""


def _any_term(terms: Any, wanted: Sequence[str]) -> str:
    """The same, and where none has one, all there are: a lemma is in the lexeme's own language."""
    return _term(terms, wanted) or " / ".join(str(term["value"]) for term in (terms or {}).values())


def _aliases(document: Mapping[str, Any], language: str) -> tuple[str, ...]:
    aliases = document.get("aliases") or {}
    found = [str(one["value"]) for code in (language, "mul") for one in aliases.get(code, ())]
    return tuple(dict.fromkeys(found))


def _lexeme_text(document: Mapping[str, Any], language: str, known: Mapping[str, Entity]) -> str:
    """Language, category, forms and senses of a lexeme; empty for other kinds."""
    if "lemmas" not in document:
        return ""
    wanted = languages(language)
    lines = []
    for part, title in (("language", "Language"), ("lexicalCategory", "Lexical category")):
        entity = str(document.get(part) or "")
        label = known[entity].label if entity in known else ""
        lines.append(f"{title}: {label} ({entity})" if label else f"{title}: {entity}")
    for form in document.get("forms") or ():
        lines.append(f"Form {form['id']}: {_any_term(form.get('representations'), wanted)}")
    for sense in document.get("senses") or ():
        lines.append(f"Sense {sense['id']}: {_any_term(sense.get('glosses'), wanted)}")
    return "\n".join(lines)


def example_values(document: Mapping[str, Any], example_property: str, property_id: str) -> Iterator[tuple[str, Any]]:
    """Subject id and value snak of the examples that a property's own document gives (P1855 and its like)."""
    try:
        for found, statement in claims(document):
            snak = statement["mainsnak"]
            if found != example_property or snak["snaktype"] != "value" or statement.get("rank") == "deprecated":
                continue
            subject = referenced(snak["datavalue"]["value"])
            for value in (statement.get("qualifiers") or {}).get(property_id, ()):
                snak_value(value, str)  # of the promised form
                yield subject, value
    except _SHAPE as error:
        raise BadResponse(f"{document.get('id')}: not of the form of an entity document: {error!r}") from error


def snak_ids(snak: Mapping[str, Any]) -> list[str]:
    """Ids of the entities that the value of a snak names."""
    return list(_snak_references(snak))
