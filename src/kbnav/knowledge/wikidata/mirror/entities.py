"""Entity documents in JSON, turned into the triples that Wikidata's own RDF export and query service have for them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.values import BadValue, Encoded, encode, entity_id

_N = v.UNPLACED
_INTEGER = NamedNode(f"{v.XSD}integer")
_DATE_TIME = NamedNode(f"{v.XSD}dateTime")
_SPECIAL_SITES = {
    "commonswiki": "commons.wikimedia.org",
    "specieswiki": "species.wikimedia.org",
    "metawiki": "meta.wikimedia.org",
    "wikidatawiki": "www.wikidata.org",
    "mediawikiwiki": "www.mediawiki.org",
    "sourceswiki": "wikisource.org",
    "wikimaniawiki": "wikimania.wikimedia.org",
    "incubatorwiki": "incubator.wikimedia.org",
    "outreachwiki": "outreach.wikimedia.org",
    "foundationwiki": "foundation.wikimedia.org",
    "wikifunctionswiki": "www.wikifunctions.org",
}
_SPECIAL_HOSTS = {host: site for site, host in _SPECIAL_SITES.items()}
_SITE_LANGUAGES = {"be_x_old": "be-tarask"}
_SITE = re.compile(r"(.+?)(wiki|wikiquote|wikinews|wikisource|wikibooks|wikiversity|wikivoyage|wiktionary)")
_HOST = re.compile(
    r"([^.]+)\.(wikipedia|wikiquote|wikinews|wikisource|wikibooks|wikiversity|wikivoyage|wiktionary)\.org"
)


def entity_quads(document: Mapping[str, Any], names: v.Namespaces = v.OF_WIKIDATA) -> Iterator[Quad]:
    """The triples of one entity document, in the default graph. Raises BadValue where it is not one."""
    try:
        yield from map(names.placed, _entity(document))
    except (AttributeError, KeyError, TypeError) as error:
        raise BadValue(f"not an entity document: {error!r}") from error


def _entity(document: Mapping[str, Any]) -> Iterator[Quad]:
    found = str(document["id"])
    if not v.is_entity_id(found):
        raise BadValue(f"not an entity's id: {found!r}")
    subject = NamedNode(_N.wd + found)
    kind = v.entity_kind(found)
    if kind in v.ENTITY_TYPES:
        yield Quad(subject, v.RDF_TYPE, NamedNode(v.WIKIBASE + v.ENTITY_TYPES[kind]))
    yield from _terms(subject, document)
    if kind == "property":
        yield from _property(found, str(document.get("datatype", "")))
    if kind == "lexeme":
        yield from _lexeme(subject, document)
    links = _map(document.get("sitelinks"))
    for link in links.values():
        yield from _sitelink(subject, link)
    claims = _map(document.get("claims"))
    yield from _claims(subject, claims)
    yield from _counts(subject, claims, links, document)
    redirects = _map(document.get("redirects"))
    if redirects:
        yield Quad(NamedNode(_N.wd + str(redirects["from"])), v.SAME_AS, subject)


def _map(value: Any) -> Mapping[str, Any]:
    """Empty maps come as empty lists, or not at all."""
    return value if isinstance(value, Mapping) else {}


def _terms(subject: NamedNode, document: Mapping[str, Any]) -> Iterator[Quad]:
    yield from _texts(subject, v.RDFS_LABEL, document.get("labels"))
    yield from _texts(subject, v.DESCRIPTION, document.get("descriptions"))
    for predicate in (v.LEMMA, v.RDFS_LABEL):
        yield from _texts(subject, predicate, document.get("lemmas"))
    for aliases in _map(document.get("aliases")).values():
        for alias in aliases:
            yield from _texts(subject, v.ALT_LABEL, {"": alias})


def _texts(subject: NamedNode, predicate: NamedNode, texts: Any) -> Iterator[Quad]:
    for text in _map(texts).values():
        encoded = encode("monolingualtext", {"text": text["value"], "language": text["language"]})
        yield Quad(subject, predicate, encoded.term)


def _property(found: str, datatype: str) -> Iterator[Quad]:
    subject = NamedNode(_N.wd + found)
    if datatype in v.DATATYPES:
        yield Quad(subject, v.PROPERTY_TYPE, NamedNode(v.WIKIBASE + v.DATATYPES[datatype]))
    for name, namespace in (
        ("directClaim", _N.wdt),
        ("claim", _N.p),
        ("statementProperty", _N.ps),
        ("statementValue", _N.psv),
        ("qualifier", _N.pq),
        ("qualifierValue", _N.pqv),
        ("reference", _N.pr),
        ("referenceValue", _N.prv),
        ("novalue", _N.wdno),
    ):
        yield Quad(subject, NamedNode(v.WIKIBASE + name), NamedNode(namespace + found))


def _lexeme(subject: NamedNode, document: Mapping[str, Any]) -> Iterator[Quad]:
    for predicate, field in ((v.LANGUAGE, "language"), (v.LEXICAL_CATEGORY, "lexicalCategory")):
        if document.get(field):
            yield Quad(subject, predicate, NamedNode(_N.wd + str(document[field])))
    for form in document.get("forms") or ():
        node = NamedNode(_N.wd + str(form["id"]))
        yield Quad(subject, v.LEXICAL_FORM, node)
        yield Quad(node, v.RDF_TYPE, NamedNode(f"{v.ONTOLEX}Form"))
        yield Quad(node, v.RDF_TYPE, NamedNode(f"{v.WIKIBASE}Form"))
        for predicate in (v.REPRESENTATION, v.RDFS_LABEL):
            yield from _texts(node, predicate, form.get("representations"))
        for feature in form.get("grammaticalFeatures") or ():
            yield Quad(node, v.GRAMMATICAL_FEATURE, NamedNode(_N.wd + str(feature)))
        yield from _claims(node, _map(form.get("claims")))
    for sense in document.get("senses") or ():
        node = NamedNode(_N.wd + str(sense["id"]))
        yield Quad(subject, v.LEXICAL_SENSE, node)
        yield Quad(node, v.RDF_TYPE, NamedNode(f"{v.ONTOLEX}LexicalSense"))
        yield Quad(node, v.RDF_TYPE, NamedNode(f"{v.WIKIBASE}Sense"))
        for predicate in (v.GLOSS, v.RDFS_LABEL):
            yield from _texts(node, predicate, sense.get("glosses"))
        yield from _claims(node, _map(sense.get("claims")))


def site_host(site: str) -> str:
    """The host of a wiki by its site id (``enwiki``: ``en.wikipedia.org``); empty for one that is not known."""
    if site in _SPECIAL_SITES:
        return _SPECIAL_SITES[site]
    match = _SITE.fullmatch(site)
    if match is None:
        return ""
    language = _SITE_LANGUAGES.get(match[1], match[1].replace("_", "-"))
    return f"{language}.{'wikipedia' if match[2] == 'wiki' else match[2]}.org"


def site_of(article: str) -> str:
    """The site id of an article's address; empty where the host is not that of a known wiki."""
    host = urlsplit(article).hostname or ""
    if host in _SPECIAL_HOSTS:
        return _SPECIAL_HOSTS[host]
    match = _HOST.fullmatch(host)
    if match is None:
        return ""
    names = {language: name for name, language in _SITE_LANGUAGES.items()}
    return f"{names.get(match[1], match[1].replace('-', '_'))}{'wiki' if match[2] == 'wikipedia' else match[2]}"


def article_title(article: str) -> str:
    """The title in an article's address."""
    return unquote(urlsplit(article).path.removeprefix("/wiki/")).replace("_", " ")


def _sitelink(subject: NamedNode, link: Mapping[str, Any]) -> Iterator[Quad]:
    host = site_host(str(link["site"]))
    if not host:
        return
    title = str(link["title"])
    article = NamedNode(f"https://{host}/wiki/{quote(title.replace(' ', '_'), safe='-_.~:/!$()*,;@')}")
    code = host.split(".")[0] if _HOST.fullmatch(host) else "en"
    language = v.LANGUAGE_CODES.get(code, code)
    yield Quad(article, v.RDF_TYPE, v.ARTICLE)
    yield Quad(article, v.ABOUT, subject)
    yield Quad(article, v.IN_LANGUAGE, Literal(language))
    yield Quad(article, v.IS_PART_OF, NamedNode(f"https://{host}/"))
    yield from _texts(article, v.NAME, {"": {"value": title, "language": language}})
    for badge in link.get("badges") or ():
        yield Quad(article, v.BADGE, NamedNode(_N.wd + str(badge)))


def _counts(
    subject: NamedNode, claims: Mapping[str, Any], links: Mapping[str, Any], document: Mapping[str, Any]
) -> Iterator[Quad]:
    """What the query service keeps on the entity itself, not on its page as the export does."""
    statements = [statement for group in claims.values() for statement in group]
    identifiers = sum(statement["mainsnak"].get("datatype") == "external-id" for statement in statements)
    counts = {v.STATEMENTS: len(statements), v.IDENTIFIERS: identifiers}
    if v.entity_kind(str(document["id"])) == "item":
        counts[v.SITELINKS] = len(links)
    if document.get("lastrevid"):
        counts[v.VERSION] = int(document["lastrevid"])
    for predicate, count in counts.items():
        yield Quad(subject, predicate, Literal(str(count), datatype=_INTEGER))
    if document.get("modified"):
        yield Quad(subject, v.DATE_MODIFIED, Literal(str(document["modified"]), datatype=_DATE_TIME))


def _claims(subject: NamedNode, claims: Mapping[str, Any]) -> Iterator[Quad]:
    for prop, statements in claims.items():
        ranks = {statement.get("rank", "normal") for statement in statements}
        best = "preferred" if "preferred" in ranks else "normal"
        for number, statement in enumerate(statements):
            yield from _statement(subject, prop, statement, number, best=best)


def _statement(
    subject: NamedNode, prop: str, statement: Mapping[str, Any], number: int, *, best: str
) -> Iterator[Quad]:
    entity = subject.value.removeprefix(_N.wd)
    name = str(statement.get("id") or f"{entity}${_digest([prop, number, statement['mainsnak']])}")
    node = NamedNode(_N.wds + name.replace("$", "-", 1))
    rank = statement.get("rank", "normal")
    yield Quad(subject, NamedNode(_N.p + prop), node)
    yield Quad(node, v.RDF_TYPE, v.STATEMENT)
    yield Quad(node, v.RANK, v.RANKS[rank])
    yield from _snak(node, prop, statement["mainsnak"], _N.ps, _N.psv)
    if rank == best:
        yield Quad(node, v.RDF_TYPE, v.BEST_RANK)
        yield from _truthy(subject, prop, statement["mainsnak"])
    for snak in _snaks(statement.get("qualifiers")):
        yield from _snak(node, str(snak["property"]), snak, _N.pq, _N.pqv)
    for reference in statement.get("references") or ():
        snaks = _snaks(reference["snaks"])
        source = NamedNode(_N.wdref + str(reference.get("hash") or _digest(snaks)))
        yield Quad(node, v.DERIVED_FROM, source)
        yield Quad(source, v.RDF_TYPE, v.REFERENCE)
        for snak in snaks:
            yield from _snak(source, str(snak["property"]), snak, _N.pr, _N.prv)


def _snaks(groups: Any) -> Sequence[Mapping[str, Any]]:
    return [snak for group in _map(groups).values() for snak in group]


def _truthy(subject: NamedNode, prop: str, snak: Mapping[str, Any]) -> Iterator[Quad]:
    if snak["snaktype"] == "value":
        yield Quad(subject, NamedNode(_N.wdt + prop), _encoded(snak).term)
    elif snak["snaktype"] == "somevalue":
        yield Quad(subject, NamedNode(_N.wdt + prop), BlankNode())
    else:
        yield Quad(subject, v.RDF_TYPE, NamedNode(_N.wdno + prop))


def _snak(subject: NamedNode, prop: str, snak: Mapping[str, Any], simple: str, full: str) -> Iterator[Quad]:
    """One snak as the simple triple and, where its value has a node, the triple to that and the node's own."""
    if snak["snaktype"] == "somevalue":
        yield Quad(subject, NamedNode(simple + prop), BlankNode())
    elif snak["snaktype"] == "novalue":
        yield Quad(subject, v.RDF_TYPE, NamedNode(_N.wdno + prop))
    else:
        encoded = _encoded(snak)
        yield Quad(subject, NamedNode(simple + prop), encoded.term)
        if encoded.node:
            node = NamedNode(_N.wdv + _digest([[name, str(term)] for name, term in encoded.node]))
            yield Quad(subject, NamedNode(full + prop), node)
            yield Quad(node, v.RDF_TYPE, NamedNode(v.WIKIBASE + encoded.node_type))
            for name, term in encoded.node:
                yield Quad(node, NamedNode(v.WIKIBASE + name), term)


def _encoded(snak: Mapping[str, Any]) -> Encoded:
    value = snak["datavalue"]["value"]
    if isinstance(value, Mapping) and "entity-type" in value:
        return Encoded(NamedNode(_N.wd + entity_id(value)))
    return encode(str(snak.get("datatype", "")), value)


def _digest(value: Any) -> str:
    return hashlib.md5(json.dumps(value, sort_keys=True).encode(), usedforsecurity=False).hexdigest()
