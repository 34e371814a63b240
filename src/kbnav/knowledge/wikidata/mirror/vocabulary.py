"""The names of Wikibase's RDF mapping: https://www.mediawiki.org/wiki/Wikibase/Indexing/RDF_Dump_Format."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyoxigraph import NamedNode

from kbnav.knowledge.sparql.vocabulary import WIKIDATA, wikibase_prefixes

WIKIBASE = "http://wikiba.se/ontology#"
SCHEMA = "http://schema.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"
GENID = "/.well-known/genid/"
"""In the IRIs that stand for blank nodes, under any host."""
DAYS = "urn:kbnav:days"
"""Days for a duration, anything else as it is: no function of the query service, but how a mirror subtracts dates."""
COMMONS_FILE = "http://commons.wikimedia.org/wiki/Special:FilePath/"
COMMONS_DATA = "http://commons.wikimedia.org/data/main/"

RDF_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
RDFS_LABEL = NamedNode("http://www.w3.org/2000/01/rdf-schema#label")
ALT_LABEL = NamedNode("http://www.w3.org/2004/02/skos/core#altLabel")
DESCRIPTION = NamedNode(f"{SCHEMA}description")
ABOUT = NamedNode(f"{SCHEMA}about")
VERSION = NamedNode(f"{SCHEMA}version")
DATE_MODIFIED = NamedNode(f"{SCHEMA}dateModified")
SAME_AS = NamedNode("http://www.w3.org/2002/07/owl#sameAs")
RANK = NamedNode(f"{WIKIBASE}rank")
PROPERTY_TYPE = NamedNode(f"{WIKIBASE}propertyType")
STATEMENTS = NamedNode(f"{WIKIBASE}statements")
SITELINKS = NamedNode(f"{WIKIBASE}sitelinks")
IDENTIFIERS = NamedNode(f"{WIKIBASE}identifiers")

RANKS = {
    "preferred": NamedNode(f"{WIKIBASE}PreferredRank"),
    "normal": NamedNode(f"{WIKIBASE}NormalRank"),
    "deprecated": NamedNode(f"{WIKIBASE}DeprecatedRank"),
}

_NAMES = (
    "wikibase-item wikibase-property wikibase-lexeme wikibase-form wikibase-sense string external-id url commonsMedia "
    "geo-shape tabular-data globe-coordinate monolingualtext quantity time math musical-notation"
)
DATATYPES = {name: "".join(part[0].upper() + part[1:] for part in name.split("-")) for name in _NAMES.split()}
DATATYPES["entity-schema"] = "WikibaseEntitySchema"
"""Datatype names of the JSON form, and the local names of their IRIs in the RDF form."""


_ENTITY = re.compile(r"(?:Q|P|E)[1-9]\d{0,9}|L[1-9]\d{0,9}(?:-[FS][1-9]\d{0,9})?")


def is_entity_id(text: str) -> bool:
    """Whether a text has the form of an entity's id: ``Q42``, ``P31``, ``L42``, ``L42-F1``."""
    return _ENTITY.fullmatch(text) is not None


def entity_kind(entity_id: str) -> str:
    """``item``, ``property``, ``lexeme``, ``form``, ``sense`` or ``entity-schema``, from the form of the id."""
    if entity_id.startswith("L") and "-" in entity_id:
        return "form" if "-F" in entity_id else "sense"
    return {"Q": "item", "P": "property", "L": "lexeme", "E": "entity-schema"}[entity_id[0]]


@dataclass(frozen=True)
class Namespaces:
    """The namespaces of one Wikibase, named as their usual prefixes are."""

    wd: str
    wds: str
    wdv: str
    wdref: str
    wdt: str
    wdno: str
    p: str
    ps: str
    psv: str
    pq: str
    pqv: str
    pr: str
    prv: str

    @classmethod
    def of(cls, concept_base: str) -> Namespaces:
        """Those that hang on a concept base, as ``https://kb.example/entity/``."""
        prefixes = wikibase_prefixes(concept_base)
        return cls(**{name: prefixes[name] for name in cls.__dataclass_fields__})

    def local_id(self, iri: str) -> str:
        """The entity id of an IRI in the entity namespace; empty where it is none."""
        tail = iri[len(self.wd) :] if iri.startswith(self.wd) else ""
        return tail if is_entity_id(tail) else ""


OF_WIKIDATA = Namespaces.of(WIKIDATA)
