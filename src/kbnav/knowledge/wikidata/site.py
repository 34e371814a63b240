"""What is particular to one Wikibase, as it says of itself: where its IRIs begin, its ids, its pages.

Wikidata's is known. Any other is asked: its siteinfo, one property as its query service has it, and which of its
properties are Wikidata's instance of, subclass of and so on, by a statement that says so or by the label.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict

from kbnav.answers.tables import AnswerTable
from kbnav.errors import KbnavError
from kbnav.knowledge.replies import ACCEPT_ROWS, Request, read_query
from kbnav.knowledge.sparql.vocabulary import (
    CONCEPTS,
    FEMALE,
    MALE,
    SEX,
    WIKIDATA,
    WIKIDATA_VOCABULARY,
    Vocabulary,
    add_prefixes,
    entity_page,
    wikibase_prefixes,
)
from kbnav.knowledge.wikidata.api import read_siteinfo
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    from kbnav.knowledge.http import HttpClient

_LOG = logging.getLogger("kbnav.site")
_PROPERTY = re.compile(r"(https?://[^\s<>\"]+/entity/)(P[1-9]\d*)")
_KINDS = {"wikibase-item": "item", "wikibase-property": "property", "wikibase-lexeme": "lexeme"}
_LETTERS = {"Q": "item", "P": "property", "L": "lexeme"}


class Site(BaseModel):
    """One Wikibase. ``pages`` and ``namespaces`` are by kind: an address that ends before the id, and a number."""

    model_config = ConfigDict(frozen=True)

    concept_base: str = WIKIDATA
    prefixes: dict[str, str] = {}
    """Beside those that follow from the concept base, or in their place."""
    ids: dict[str, str] | None = None
    pages: dict[str, str] = {}
    namespaces: dict[str, str] = {"item": "0", "property": "120"}

    @property
    def vocabulary(self) -> Vocabulary:
        """Its words."""
        if self.concept_base == WIKIDATA and not self.prefixes and self.ids is None:
            return WIKIDATA_VOCABULARY
        return Vocabulary(self.concept_base, {**wikibase_prefixes(self.concept_base), **self.prefixes}, self.ids)

    def page(self, entity_id: str, otherwise: str) -> str:
        """The address of an entity's page; that of Wikidata, or a copy of it, begins with ``otherwise``."""
        start = self.pages.get(_LETTERS.get(entity_id[:1], ""), "")
        if start:
            return start + quote(entity_id.replace("-", "#", 1), safe="#")
        return otherwise + quote(entity_page(entity_id), safe=":#")


WIKIDATA_SITE = Site()
SITEINFO = {"action": "query", "meta": "siteinfo", "siprop": "general|namespaces"}
Query = Callable[[str], AnswerTable]
"""Runs a query that declares its prefixes."""


def siteinfo(http: HttpClient, api: str) -> Mapping[str, Any] | None:
    """A wiki's ``general`` and ``namespaces``; None where no wiki answers. Raises what ``read_api`` raises."""
    return http.fetch(Request("api", api, {**SITEINFO, "format": "json"}), read_siteinfo)


def concept_base(info: Mapping[str, Any]) -> str:
    """The concept base that a site names; empty where it is no Wikibase."""
    base = str(info["general"].get("wikibase-conceptbaseuri") or "")
    return WIKIDATA if base.partition("://")[2] == WIKIDATA.partition("://")[2] else base


def learn_by_http(settings: Settings, http: HttpClient, info: Mapping[str, Any]) -> Site:
    """``learn`` by the query service of ``settings.endpoints``."""

    def query(text: str) -> AnswerTable:
        return http.fetch(Request("sparql", settings.endpoints.sparql, {"query": text}, ACCEPT_ROWS), read_query)

    return learn(settings, info, query)


def learn(settings: Settings, info: Mapping[str, Any], query: Query) -> Site:
    """What is particular to the Wikibase of ``settings.endpoints``, of which ``info`` is the siteinfo.

    ``settings.wikibase`` goes before everything found out. What the query service does not answer is left as Wikibase
    has it by default, and told in the log.
    """
    own, base = settings.wikibase, settings.wikibase.concept_base or concept_base(info)
    site = WIKIDATA_SITE
    if base != WIKIDATA:
        site = Site(concept_base=base, ids={}, **_places(info))
        try:
            table = _select(query, site, "SELECT ?p WHERE { ?p wikibase:directClaim ?direct } LIMIT 1")
            found = next((_PROPERTY.fullmatch(row[0].value) for row in table.rows if row[0] is not None), None)
            if found:
                site = site.model_copy(update={"concept_base": own.concept_base or found[1]})
                site = site.model_copy(update={"ids": find_ids(query, site)})
        except KbnavError as error:
            _LOG.warning("%s: its properties are not known: %s", urlsplit(settings.endpoints.sparql).netloc, error)
    changed: dict[str, Any] = {"concept_base": own.concept_base} if own.concept_base else {}
    if own.prefixes:
        changed["prefixes"] = own.prefixes
    if own.ids:
        changed["ids"] = {**(site.ids if site.ids is not None else {one: one for one in CONCEPTS}), **own.ids}
    return site.model_copy(update=changed) if changed else site


def _places(info: Mapping[str, Any]) -> dict[str, Any]:
    """Addresses of pages, and namespaces by kind."""
    general, spaces = info["general"], info.get("namespaces")
    server = str(general.get("server") or "")
    server = f"https:{server}" if server.startswith("//") else server
    article = server + str(general.get("articlepath") or "/wiki/$1")
    pages, numbers = {}, {}
    for number, space in spaces.items() if isinstance(spaces, dict) else ():
        kind = _KINDS.get(str(space.get("defaultcontentmodel"))) if isinstance(space, dict) else None
        if kind:
            name = str(space.get("*") or space.get("name") or "")
            pages[kind] = article.replace("$1", quote(f"{name}:" if name else "", safe=":"))
            numbers[kind] = str(number)
    # The usual ones of a Wikibase that is not Wikidata.
    return {"pages": pages, "namespaces": {"item": "120", "property": "122", **numbers}}


def _select(query: Query, site: Site, text: str) -> AnswerTable:
    return query(add_prefixes(text, site.vocabulary.prefixes))


def find_ids(query: Query, site: Site) -> dict[str, str]:
    """This site's id for each concept that it has: where a statement names Wikidata's id, or by the English label."""
    ids = _ids(_select(query, site, properties_query()), site)
    if SEX in ids:
        ids |= _ids(_select(query, site, values_query(ids[SEX])), site)
    return ids


def properties_query() -> str:
    """SPARQL for the columns ``concept``, ``found`` and ``how``: properties that are one of ``CONCEPTS``."""
    ids = [one for one in CONCEPTS if one.startswith("P")]
    said = " ".join(f'("{one}" <{WIKIDATA}{one}>) ("{one}" "{one}")' for one in ids)
    named = " ".join(f'("{one}" "{CONCEPTS[one]}"@en)' for one in ids)
    return (
        "SELECT DISTINCT ?concept ?found ?how WHERE { "
        f"{{ VALUES (?concept ?said) {{ {said} }} ?found ?edge ?said ; wikibase:directClaim ?direct . "
        'BIND("said" AS ?how) } UNION '
        f"{{ VALUES (?concept ?label) {{ {named} }} ?found rdfs:label ?label ; wikibase:directClaim ?direct . "
        'BIND("named" AS ?how) } }'
    )


def values_query(sex: str) -> str:
    """The same for the items male and female, among the values of a property."""
    named = " ".join(f'("{one}" "{CONCEPTS[one]}"@en)' for one in (MALE, FEMALE))
    return (
        f"SELECT DISTINCT ?concept ?found ?how WHERE {{ {{ SELECT DISTINCT ?found WHERE {{ ?x wdt:{sex} ?found }} "
        f'LIMIT 50 }} VALUES (?concept ?label) {{ {named} }} ?found rdfs:label ?label . BIND("named" AS ?how) }}'
    )


def _ids(table: AnswerTable, site: Site) -> dict[str, str]:
    """The one id of each concept; what is said goes before what is only named so, and of several none is taken."""
    words = site.vocabulary
    found: dict[tuple[str, str], set[str]] = {}
    for row in table.rows:
        concept, entity, how = row
        if concept and entity and how and (one := words.entity_id(entity.value)):
            found.setdefault((how.value, concept.value), set()).add(one)
    chosen: dict[str, str] = {}
    for way in ("named", "said"):
        chosen |= {concept: min(ids) for (how, concept), ids in found.items() if how == way and len(ids) == 1}
    return chosen
