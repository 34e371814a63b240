"""Texts that are values of statements or qualifiers: what is found where nothing is named so.

A text as it is written is found by its triple, in any service. With ``kind="value"`` the full-text search is asked too,
``insource:"…"``, and which statement of a page has the words is then looked up. A mirror searches its values by that;
how much of the statements the search of a live wiki reads is its own affair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from kbnav.answers.relevance import words
from kbnav.answers.tables import AnswerTable, Cell
from kbnav.errors import BadArguments, BadResponse, TellModel
from kbnav.knowledge.base import Entity, Qualifier, Stated, Statement, Value
from kbnav.knowledge.sparql.vocabulary import Vocabulary, text_literal
from kbnav.knowledge.wikidata.api import ActionApi
from kbnav.knowledge.wikidata.values import term_value

Select = Callable[[str], AnswerTable]
LONGEST = 250
SHOWN = 4
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
    quoted = text_literal(" ".join(text.split())[:LONGEST])
    literals = " ".join([quoted, *(f"{quoted}@{language}" for language in languages)])
    return _asked(select, f"VALUES ?text {{ {literals} }} ?subject ?use ?text", own)


def mentioning(api: ActionApi, select: Select, text: str, own: Vocabulary) -> tuple[list[Stated], str]:
    """The same of those with all its words, by the full-text search; and why there are none, where that cannot be."""
    phrase = " ".join(text.replace('"', " ").split())[:LONGEST]
    try:
        pages = api.pages(f'insource:"{phrase}"', limit=_PAGES)
    except BadArguments as error:
        return [], str(error)
    longest = max(words(phrase), key=len, default="")
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
    return [one for one in _asked(select, pattern, own) if has.search(_text(one).casefold())], ""


def named(found: Sequence[Stated], names: Mapping[str, Entity], own: Vocabulary) -> list[Stated]:
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
    return sorted(dict.fromkeys(done), key=lambda one: _where(one).datatype == "external-id" or _where(one).id in late)


def ids(found: Sequence[Stated]) -> list[str]:
    """All entities in them."""
    used = []
    for one in found:
        own = [qualifier.property.id for qualifier in one.statement.qualifiers]
        used += [one.subject.id, one.statement.property.id, one.statement.value.id, *own]
    return [one for one in dict.fromkeys(used) if one]


def _where(one: Stated) -> Entity:
    """The property whose value the text is."""
    statement = one.statement
    return statement.qualifiers[0].property if statement.qualifiers else statement.property


def _text(one: Stated) -> str:
    statement = one.statement
    return statement.qualifiers[0].value.text if statement.qualifiers else statement.value.text


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
