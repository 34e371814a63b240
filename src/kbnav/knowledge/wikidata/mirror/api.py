"""Entity documents made from the triples of a store, and the action API's reads of them: names, documents, full text.

Parameters in, the JSON body out; no HTTP here. As on Wikidata, errors are bodies under status 200.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyoxigraph import Literal, NamedNode, RdfFormat, Store, Triple, serialize

from kbnav.knowledge.sparql.vocabulary import WIKIDATA
from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.rdf import BadValue, Node, Term, article_title, decode, site_of
from kbnav.knowledge.wikidata.mirror.search import BadKeyword, Index, Match, by_keywords
from kbnav.knowledge.wikidata.mirror.store import MirrorInfo

Facts = Mapping[str, list[Term]]
"""The triples of one subject: objects by the IRI of the predicate."""

_DATATYPES = {f"{v.WIKIBASE}{iri}": name for name, iri in v.DATATYPES.items()}
_RANKS = {rank.value: name for name, rank in v.RANKS.items()}
# The part of a lexeme, F1 or S1, must not be taken from the GUID that follows it.
_STATEMENT_ID = re.compile(r"([lL]\d+-[FS]\d+(?=-[0-9a-fA-F]{8}-)|[^-]*)-")
_NAMES = (v.RDFS_LABEL, v.DESCRIPTION, v.ALT_LABEL, v.VERSION, v.DATE_MODIFIED)
_TITLES = {"item": "", "property": "Property:", "lexeme": "Lexeme:"}
_NAMESPACES = {"item": 0, "property": 120, "lexeme": 146}


class Documents:
    """Reads entities from a store. Threads may share one."""

    def __init__(self, store: Store, concept_base: str = WIKIDATA) -> None:
        """Read from ``store``, whose entities' IRIs begin with ``concept_base``."""
        self.store = self._store = store
        self.names_here = self._n = v.Namespaces.of(concept_base)
        self._datatypes: dict[str, str] = {}

    def resolve(self, entity_id: str) -> str:
        """The id that an id leads to: its own, that of the entity it was merged into, or empty where there is none."""
        for _ in range(8):  # redirects of redirects are rare, and circles are possible
            subject = NamedNode(self._n.wd + entity_id)
            moved = self._store.quads_for_pattern(subject, v.SAME_AS, None, None)
            target = next((self._n.local_id(_value(quad.object)) for quad in moved), "")
            if not target:
                return entity_id if self._exists(subject) else ""
            entity_id = target
        return ""

    def datatype(self, property_id: str) -> str:
        """The datatype of a property's values (``wikibase-item``); empty where the store does not have it."""
        found = self._datatypes.get(property_id)
        if found is None:
            subject = NamedNode(self._n.wd + property_id)
            types = [quad.object for quad in self._store.quads_for_pattern(subject, v.PROPERTY_TYPE, None, None)]
            found = next((_DATATYPES[_value(term)] for term in types if _value(term) in _DATATYPES), "")
            self._datatypes[property_id] = found
        return found

    def names(self, entity_id: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Labels (of a lexeme, its lemmas) and descriptions of an entity, by language."""
        subject = NamedNode(self._n.wd + entity_id)
        labels = self._texts(subject, v.RDFS_LABEL) | self._texts(subject, v.LEMMA)
        return labels, self._texts(subject, v.DESCRIPTION)

    def document(self, entity_id: str, *, names_only: bool = False) -> dict[str, Any] | None:
        """The document of an entity; None where the store has nothing of it. Redirects are not followed.

        ``names_only`` leaves an item's or property's statements and sitelinks out: most requests want labels of many.
        """
        subject = NamedNode(self._n.wd + entity_id)
        kind = v.entity_kind(entity_id)
        facts = self._facts(subject, _NAMES if names_only and kind != "lexeme" else (None,))
        if not facts and not self._exists(subject):
            return None
        document: dict[str, Any] = {
            "pageid": int(re.sub(r"\D.*", "", entity_id[1:])),
            "ns": _NAMESPACES.get(kind, 0),
            "title": _TITLES.get(kind, "") + entity_id,
            "lastrevid": int(_first(facts, v.VERSION) or 0),
            "modified": _first(facts, v.DATE_MODIFIED) or "1970-01-01T00:00:00Z",
            "type": kind,
        }
        if kind == "property":
            document["datatype"] = self.datatype(entity_id) or "string"
        document["id"] = entity_id
        if kind == "lexeme":
            return document | self._lexeme(entity_id, facts)
        document["labels"] = _monolingual(facts, v.RDFS_LABEL)
        document["descriptions"] = _monolingual(facts, v.DESCRIPTION)
        document["aliases"] = _aliases(facts)
        document["claims"] = {} if names_only else self._claims(entity_id, facts)
        if kind == "item" and not names_only:
            document["sitelinks"] = self._sitelinks(subject)
        return document

    def turtle(self, entity_id: str, prefixes: Mapping[str, str]) -> bytes:
        """The triples whose subject an entity is, in Turtle that declares ``prefixes``."""
        quads = self._store.quads_for_pattern(NamedNode(self._n.wd + entity_id), None, None, None)
        triples = (Triple(quad.subject, quad.predicate, quad.object) for quad in quads)
        return serialize(triples, format=RdfFormat.TURTLE, prefixes=dict(prefixes)) or b""

    def _exists(self, subject: NamedNode) -> bool:
        return next(iter(self._store.quads_for_pattern(subject, None, None, None)), None) is not None

    def _facts(self, subject: Any, predicates: Sequence[NamedNode | None] = (None,)) -> dict[str, list[Term]]:
        facts: dict[str, list[Term]] = defaultdict(list)
        for predicate in predicates:
            for quad in self._store.quads_for_pattern(subject, predicate, None, None):
                facts[quad.predicate.value].append(quad.object)
        return facts

    def _texts(self, subject: NamedNode, predicate: NamedNode) -> dict[str, str]:
        return {
            quad.object.language or "und": quad.object.value
            for quad in self._store.quads_for_pattern(subject, predicate, None, None)
            if isinstance(quad.object, Literal)
        }

    def _lexeme(self, entity_id: str, facts: Facts) -> dict[str, Any]:
        forms, senses = [], []
        for form, about in self._parts(facts, v.LEXICAL_FORM):
            features = [self._n.local_id(_value(term)) for term in about.get(v.GRAMMATICAL_FEATURE.value, ())]
            forms.append(
                {
                    "id": form,
                    "representations": _monolingual(about, v.REPRESENTATION),
                    "grammaticalFeatures": features,
                    "claims": self._claims(form, about),
                }
            )
        for sense, about in self._parts(facts, v.LEXICAL_SENSE):
            senses.append({"id": sense, "glosses": _monolingual(about, v.GLOSS), "claims": self._claims(sense, about)})
        return {
            "lemmas": _monolingual(facts, v.LEMMA),
            "lexicalCategory": self._n.local_id(_first(facts, v.LEXICAL_CATEGORY)),
            "language": self._n.local_id(_first(facts, v.LANGUAGE)),
            "claims": self._claims(entity_id, facts),
            "forms": forms,
            "senses": senses,
        }

    def _parts(self, facts: Facts, predicate: NamedNode) -> Iterator[tuple[str, Facts]]:
        ids = [self._n.local_id(_value(term)) for term in facts.get(predicate.value, ())]
        for part in sorted(filter(None, ids), key=_number):
            yield part, self._facts(NamedNode(self._n.wd + part))

    def _sitelinks(self, subject: NamedNode) -> dict[str, Any]:
        links = {}
        for quad in self._store.quads_for_pattern(None, v.ABOUT, subject, None):
            article = quad.subject
            site = site_of(article.value) if isinstance(article, NamedNode) else ""
            if site:
                facts = self._facts(article)
                if v.DATASET in facts.get(v.RDF_TYPE.value, ()):  # the entity's own page, not one about it
                    continue
                title = _first(facts, v.NAME) or article_title(_value(article))
                badges = [self._n.local_id(_value(badge)) for badge in facts.get(v.BADGE.value, ())]
                links[site] = {"site": site, "title": title, "badges": badges}
        return dict(sorted(links.items()))

    def _claims(self, entity_id: str, facts: Facts) -> dict[str, list[dict[str, Any]]]:
        """Statements by property: those with a node, then one for each truthy triple that none of these accounts for.

        A statement node that says neither a value nor that there is none is left out.
        """
        claims: dict[str, list[dict[str, Any]]] = {}
        for prop in sorted({self._property(iri) for iri in facts} - {""}, key=_number):
            statements: list[dict[str, Any]] = []
            told: set[Term] = set()
            for node in facts.get(self._n.p + prop, ()):
                about = self._facts(node)
                main = self._main_snak(prop, about)
                if main is not None:
                    told.update(about.get(self._n.ps + prop, ()))
                    statements.append(self._statement(_value(node), main, about))
            truthy = facts.get(self._n.wdt + prop, ())
            # A value that is not known is a blank node, another one in each triple; one statement is enough for them.
            vague = any(statement["mainsnak"]["snaktype"] == "somevalue" for statement in statements)
            for term in truthy:
                if term not in told and not (vague and _is_unknown(term)):
                    statements.append(_from_truthy(entity_id, prop, term, self._snak(prop, term, None)))
            if statements:
                claims[prop] = statements
        return claims

    def _main_snak(self, prop: str, about: Facts) -> dict[str, Any] | None:
        values = about.get(self._n.ps + prop, ())
        if values:
            return self._snak(prop, values[0], self._node(values[0], about.get(self._n.psv + prop, ())))
        if NamedNode(self._n.wdno + prop) in about.get(v.RDF_TYPE.value, ()):
            return self._no_value(prop)
        return None

    def _statement(self, iri: str, main: Mapping[str, Any], about: Facts) -> dict[str, Any]:
        qualifiers = self._snaks(about, self._n.pq, self._n.pqv, no_value=True, main=main["property"])
        statement: dict[str, Any] = {"mainsnak": main, "type": "statement"}
        if qualifiers:
            statement |= {"qualifiers": qualifiers, "qualifiers-order": list(qualifiers)}
        statement |= {"id": self._statement_id(iri), "rank": _RANKS.get(_first(about, v.RANK), "normal")}
        sources = [term for term in about.get(v.DERIVED_FROM.value, ()) if isinstance(term, NamedNode)]
        references = []
        for source in sources:
            snaks = self._snaks(self._facts(source), self._n.pr, self._n.prv)
            if snaks:
                name = source.value.removeprefix(self._n.wdref)
                references.append({"hash": name, "snaks": snaks, "snaks-order": list(snaks)})
        return statement | ({"references": references} if references else {})

    def _snaks(
        self, about: Facts, simple: str, full: str, *, no_value: bool = False, main: str = ""
    ) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for iri, terms in about.items():
            prop = iri[len(simple) :] if iri.startswith(simple) else ""
            if v.is_entity_id(prop):
                nodes = about.get(full + prop, ())
                found[prop] += [self._snak(prop, term, self._node(term, nodes)) for term in terms]
        if no_value:
            for term in about.get(v.RDF_TYPE.value, ()):
                prop = _value(term).removeprefix(self._n.wdno)
                # The main value may be the one that does not exist; a qualifier with its property is as good as unseen.
                if v.is_entity_id(prop) and not (prop == main and self._n.ps + prop not in about):
                    found[prop].append(self._no_value(prop))
        return {prop: found[prop] for prop in sorted(found, key=_number)}

    def _node(self, term: Term, nodes: Any) -> Node | None:
        """The value node, among those given, that belongs to a simple term."""
        for node in nodes:
            facts = {iri.removeprefix(v.WIKIBASE): terms[0] for iri, terms in self._facts(node).items()}
            if len(nodes) == 1 or _belongs(facts, term):
                return facts
        return None

    def _snak(self, prop: str, term: Term, node: Node | None) -> dict[str, Any]:
        if _is_unknown(term):
            datatype = self.datatype(prop)
            return {"snaktype": "somevalue", "property": prop} | ({"datatype": datatype} if datatype else {})
        try:
            datatype, value = decode(self.datatype(prop), term, node, self._n)
        except BadValue:  # a term that no datatype has; its text is still worth showing
            datatype, value = "string", {"value": _value(term), "type": "string"}
        return {"snaktype": "value", "property": prop, "datavalue": value, "datatype": datatype}

    def _no_value(self, prop: str) -> dict[str, Any]:
        datatype = self.datatype(prop)
        return {"snaktype": "novalue", "property": prop} | ({"datatype": datatype} if datatype else {})

    def _property(self, iri: str) -> str:
        """The property that a predicate of an entity is about, as ``p:`` or ``wdt:``; empty for other predicates."""
        for namespace in (self._n.wdt, self._n.p):
            if iri.startswith(namespace):
                tail = iri[len(namespace) :]
                return tail if v.is_entity_id(tail) else ""
        return ""

    def _statement_id(self, iri: str) -> str:
        return _STATEMENT_ID.sub(r"\1$", iri.removeprefix(self._n.wds), count=1)


def _from_truthy(entity_id: str, prop: str, term: Term, snak: Mapping[str, Any]) -> dict[str, Any]:
    digest = hashlib.md5(f"{entity_id} {prop} {term}".encode(), usedforsecurity=False).hexdigest()
    return {"mainsnak": snak, "type": "statement", "id": f"{entity_id}$truthy-{digest}", "rank": "normal"}


def _belongs(facts: Node, term: Term) -> bool:
    if term in (facts.get("timeValue"), facts.get("quantityAmount")):
        return True
    point = f"Point({_value(facts.get('geoLongitude'))} {_value(facts.get('geoLatitude'))})"
    return "geoLatitude" in facts and _value(term).endswith(point)


def _is_unknown(term: Term) -> bool:
    """Whether a term stands for a value that is not known: a blank node, or what the query service makes of one."""
    return not isinstance(term, NamedNode | Literal) or (isinstance(term, NamedNode) and v.GENID in term.value)


def _number(entity_id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", entity_id))


def _value(term: Any) -> str:
    return str(term.value) if isinstance(term, NamedNode | Literal) else ""


def _first(facts: Facts, predicate: NamedNode) -> str:
    return next((_value(term) for term in facts.get(predicate.value, ())), "")


def _monolingual(facts: Facts, predicate: NamedNode) -> dict[str, dict[str, str]]:
    texts = [term for term in facts.get(predicate.value, ()) if isinstance(term, Literal) and term.language]
    return {
        str(term.language): {"language": str(term.language), "value": term.value}
        for term in sorted(texts, key=lambda text: str(text.language))
    }


def _aliases(facts: Facts) -> dict[str, list[dict[str, str]]]:
    aliases: dict[str, list[dict[str, str]]] = defaultdict(list)
    for term in facts.get(v.ALT_LABEL.value, ()):
        if isinstance(term, Literal) and term.language:
            aliases[term.language].append({"language": term.language, "value": term.value})
    return dict(sorted(aliases.items()))


Parameters = Mapping[str, str]
Body = dict[str, Any]

_HELP = "See the API's documentation, https://www.mediawiki.org/wiki/API, for usage."
_SPACES = {
    str(number): {"id": number, "defaultcontentmodel": f"wikibase-{kind}", "*": _TITLES[kind].rstrip(":")}
    for kind, number in _NAMESPACES.items()
}
_PROPS = frozenset({"info", "sitelinks", "aliases", "labels", "descriptions", "claims", "datatype"})
_ALWAYS = frozenset({"type", "id", "lemmas", "lexicalCategory", "language", "forms", "senses"})
_INFO = frozenset({"pageid", "ns", "title", "lastrevid", "modified", "redirects"})
_WRITES = re.compile(r"edit|delete|move|upload|rollback|undelete|protect|wb(set|create|edit|remove|merge|link).*")
_MAX_IDS = 50
_MAX_SEARCH = 300


class ApiError(Exception):
    """An error as the API reports it; ``details`` are further members of the error object."""

    def __init__(self, code: str, info: str, **details: Any) -> None:
        super().__init__(info)
        self.code, self.info, self.details = code, info, details


class MirrorApi:
    """Answers ``/w/api.php``. Threads may share one."""

    def __init__(self, documents: Documents, index: Index, info: MirrorInfo) -> None:
        """Answer from the documents and the index of one mirror."""
        self._documents, self._index, self._info = documents, index, info
        self._site = info.concept_base.removesuffix("/entity/").replace(
            "http://www.wikidata.org", "https://www.wikidata.org"
        )

    def answer(self, parameters: Parameters) -> tuple[Body, str]:
        """The body for one request, and the code of the error in it (empty: none)."""
        try:
            if parameters.get("format", "json") not in {"json", "jsonfm"}:
                raise _bad_value("format", parameters["format"])
            return self._act(parameters), ""
        except ApiError as error:
            found = {"code": error.code, "info": error.info, **error.details, "*": _HELP}
            return {"error": found, "servedby": "kbnav"}, error.code

    def _act(self, parameters: Parameters) -> Body:
        action = _required(parameters, "action")
        if action == "wbsearchentities":
            return self._search_entities(parameters)
        if action == "wbgetentities":
            return self._get_entities(parameters)
        if action == "query":
            return self._query(parameters)
        if _WRITES.fullmatch(action):
            raise ApiError("readonly", "The wiki is currently in read-only mode.", readonlyreason="A mirror.")
        raise _bad_value("action", action)

    def _search_entities(self, parameters: Parameters) -> Body:
        search, language = _required(parameters, "search"), _required(parameters, "language")
        kind = parameters.get("type", "item")
        if kind not in _TITLES:
            raise _bad_value("type", kind)
        limit, offset = _integer(parameters, "limit", 7, 1, 50), _integer(parameters, "continue", 0, 0, 10_000)
        strict = "strictlanguage" in parameters
        languages = [language, "mul"] if strict else _fallbacks(language)
        matches = self._index.by_name(search, kind, languages, strict=strict, limit=limit + 1, offset=offset)
        if offset == 0:
            matches = [*self._by_id(search, kind), *matches]
        shown = _fallbacks(parameters.get("uselang") or language)
        hits = [self._hit(match, kind, shown) for match in matches[:limit]]
        body: Body = {"searchinfo": {"search": search}, "search": hits}
        if len(matches) > limit:
            body["search-continue"] = offset + limit
        return body | {"success": 1}

    def _by_id(self, search: str, kind: str) -> Iterator[Match]:
        wanted = search.strip().upper()
        if v.is_entity_id(wanted) and v.entity_kind(wanted) == kind:
            found = self._documents.resolve(wanted)
            if found:
                yield Match(found, "entityId", "", wanted)

    def _hit(self, match: Match, kind: str, languages: Sequence[str]) -> Body:
        labels, descriptions = self._documents.names(match.id)
        title = _TITLES[kind] + match.id
        best = {"label": _in_first(labels, languages), "description": _in_first(descriptions, languages)}
        display = {name: text for name, text in best.items() if text}
        hit: Body = {
            "id": match.id,
            "title": title,
            "pageid": int(match.id[1:]),
            "display": display,
            "repository": "wikidata",
            "url": f"{self._site.partition(':')[2]}/wiki/{title}",
        }
        if kind == "property":
            hit["datatype"] = self._documents.datatype(match.id) or "string"
        hit["concepturi"] = self._info.concept_base + match.id
        hit |= {name: text["value"] for name, text in display.items()}
        hit["match"] = {"type": match.type} | ({"language": match.language} if match.language else {})
        hit["match"]["text"] = match.text
        return hit | ({"aliases": [match.text]} if match.type == "alias" else {})

    def _get_entities(self, parameters: Parameters) -> Body:
        ids = _many(parameters.get("ids", ""))
        if not ids:
            raise ApiError("param-missing", 'Either provide the Item "ids" or pairs of "sites" and "titles".')
        if len(ids) > _MAX_IDS:
            info = f'Too many values supplied for parameter "ids". The limit is {_MAX_IDS}.'
            raise ApiError("toomanyvalues", info, parameter="ids", limit=_MAX_IDS)
        for entity_id in ids:
            if not v.is_entity_id(entity_id.upper()):
                raise _no_such_entity(entity_id)
        props = set(_many(parameters["props"])) if "props" in parameters else set(_PROPS)
        entities = {}
        for entity_id in dict.fromkeys(entity_id.upper() for entity_id in ids):
            follow = parameters.get("redirects", "yes") != "no"
            document = self._document(entity_id, follow=follow, names_only=props.isdisjoint({"claims", "sitelinks"}))
            if document is None:
                entities[entity_id] = {"id": entity_id, "missing": ""}
                continue
            languages = _many(parameters.get("languages", ""))
            _keep_languages(document, languages, fallback="languagefallback" in parameters)
            entities[entity_id] = _keep_props(document, props)
        return {"entities": entities, "success": 1}

    def _document(self, entity_id: str, *, follow: bool, names_only: bool) -> Body | None:
        target = self._documents.resolve(entity_id)
        if not target or (target != entity_id and not follow):
            return None
        document = self._documents.document(target, names_only=names_only)
        if document is not None and target != entity_id:
            document["redirects"] = {"from": entity_id, "to": target}
        return document

    def _query(self, parameters: Parameters) -> Body:
        done: Body = {"batchcomplete": ""}
        if "siteinfo" in _many(parameters.get("meta", "")):
            general = {
                "sitename": "Wikidata" if self._info.concept_base == WIKIDATA else self._site.partition("://")[2],
                "generator": "kbnav mirror",
                "server": self._site,
                "articlepath": "/wiki/$1",
                "wikibase-conceptbaseuri": self._info.concept_base,
                "time": self._info.built.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "readonly": "",
            }
            return done | {"query": {"general": general, "namespaces": _SPACES}}
        lists = _many(parameters.get("list", ""))
        if "search" in lists:
            return done | self._full_text(parameters)
        if lists:
            raise _bad_value("list", lists[0])
        return done

    def _full_text(self, parameters: Parameters) -> Body:
        search = parameters.get("srsearch", "").strip()
        if not search:
            raise _missing("srsearch")
        if len(search) > _MAX_SEARCH:
            info = f"Search request is longer than the maximum allowed length. ({len(search)} > {_MAX_SEARCH})"
            raise ApiError("cirrussearch-query-too-long", info)
        namespaces = _many(parameters.get("srnamespace", "0"))
        kinds = [kind for kind, number in _NAMESPACES.items() if {str(number), "*"}.intersection(namespaces)]
        limit, offset = _integer(parameters, "srlimit", 10, 1, 500), _integer(parameters, "sroffset", 0, 0, 10_000)
        ids, total = self._found(search, kinds, limit, offset)
        body: Body = {}
        if offset + len(ids) < total:
            body["continue"] = {"sroffset": offset + len(ids), "continue": "-||"}
        hits = [self._page(entity_id) for entity_id in ids]
        told: Body = {"totalhits": total}
        if not total and (alike := self._index.alike(search, kinds)):
            told["suggestion"] = told["suggestionsnippet"] = alike
        return body | {"query": {"searchinfo": told, "search": hits}}

    def _found(self, search: str, kinds: Sequence[str], limit: int, offset: int) -> tuple[list[str], int]:
        try:
            found = by_keywords(self._index, search, kinds)
        except BadKeyword as error:
            raise ApiError("badvalue", str(error)) from error
        if found is None:
            return self._index.by_words(search, kinds, limit=limit, offset=offset)
        return found[offset : offset + limit], len(found)

    def _page(self, entity_id: str) -> Body:
        kind = v.entity_kind(entity_id)
        descriptions = self._documents.names(entity_id)[1]
        snippet = (_in_first(descriptions, _fallbacks("en")) or {"value": ""})["value"]
        return {
            "ns": _NAMESPACES[kind],
            "title": _TITLES[kind] + entity_id,
            "pageid": int(entity_id[1:]),
            "size": len(snippet.encode()),
            "wordcount": len(snippet.split()),
            "snippet": snippet.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
            "timestamp": self._info.built.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def _fallbacks(language: str) -> list[str]:
    """The languages in which a name is looked for, best first."""
    return list(dict.fromkeys([language, language.split("-")[0], "mul", "en"]))


def _in_first(texts: Mapping[str, str], languages: Sequence[str]) -> dict[str, str] | None:
    found = next((language for language in languages if language in texts), None)
    return None if found is None else {"value": texts[found], "language": found}


def _keep_languages(document: Body, languages: Sequence[str], *, fallback: bool) -> None:
    if not languages or "labels" not in document:
        return
    for field in ("labels", "descriptions"):
        texts, kept = document[field], {}
        for language in languages:
            chain = _fallbacks(language) if fallback else [language]
            found = next((texts[one] for one in chain if one in texts), None)
            if found is not None:
                same = found["language"] == language
                kept[language] = found if same else found | {"for-language": language}
        document[field] = kept
    document["aliases"] = {name: texts for name, texts in document["aliases"].items() if name in languages}


def _keep_props(document: Body, props: set[str]) -> Body:
    wanted = _ALWAYS | props | (_INFO if "info" in props else set())
    return {name: value for name, value in document.items() if name in wanted}


def _many(text: str) -> list[str]:
    """The values of a parameter with several: divided by ``|``, or by the separator that the value begins with."""
    if text.startswith("\x1f"):
        return text[1:].split("\x1f")
    return text.split("|") if text else []


def _required(parameters: Parameters, name: str) -> str:
    if not parameters.get(name, "").strip():
        raise _missing(name)
    return parameters[name]


def _integer(parameters: Parameters, name: str, default: int, least: int, most: int) -> int:
    text = parameters.get(name, "")
    if not text:
        return default
    if text == "max":
        return most
    if re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII) is None:
        raise ApiError("badinteger", f'Invalid value "{text[:100]}" for integer parameter "{name}".')
    return min(max(int(text), least), most)


def _missing(name: str) -> ApiError:
    return ApiError("missingparam", f'The "{name}" parameter must be set.')


def _bad_value(name: str, value: str) -> ApiError:
    return ApiError("badvalue", f'Unrecognized value for parameter "{name}": {value[:100]}.')


def _no_such_entity(entity_id: str) -> ApiError:
    text = "Could not find such an entity."
    message = {"name": "wikibase-api-no-such-entity", "parameters": [], "html": {"*": text}}
    return ApiError("no-such-entity", f"{text} (Invalid ID: {entity_id[:100]})", messages=[message], id=entity_id[:100])
