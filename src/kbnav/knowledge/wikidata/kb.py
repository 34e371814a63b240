"""Wikidata as a knowledge base: the protocol's calls over the action API and a query service."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kbnav.answers.language import language_code
from kbnav.answers.relevance import content_words
from kbnav.answers.tables import LABELLED, LABELLED_HERE, AnswerTable, Ranked, Ranking
from kbnav.errors import BadArguments, QuerySyntaxError, UnknownId
from kbnav.knowledge import ranking
from kbnav.knowledge.base import (
    Capability,
    ClassProfile,
    Direction,
    Entity,
    Entry,
    Example,
    Neighborhood,
    PropertyProfile,
    SearchKind,
    SearchResult,
    Share,
    Stated,
)
from kbnav.knowledge.probing import dialect_at
from kbnav.knowledge.replies import ACCEPT_ROWS, ACCEPT_TRIPLES, LEFT_OUT, Request, is_loopback, read_query
from kbnav.knowledge.sparql.dialects import AUTO, DIALECTS, Dialect
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.sparql.vocabulary import WIKIDATA, Vocabulary, add_prefixes
from kbnav.knowledge.wikidata import queries
from kbnav.knowledge.wikidata.api import ActionApi, nearest
from kbnav.knowledge.wikidata.entities import NO_PAGE_OF_ITS_OWN, languages, no_page, parse, references, without_unknown
from kbnav.knowledge.wikidata.search import (
    LONGEST,
    VALUES_SHOWN,
    as_written,
    mentioning,
    named_values,
    search,
    told_apart,
    value_ids,
)
from kbnav.knowledge.wikidata.site import WIKIDATA_SITE, Site
from kbnav.settings.model import Endpoints, Settings

if TYPE_CHECKING:
    from kbnav.knowledge.http import HttpClient
    from kbnav.knowledge.wikidata.mirror.mirror import LocalQueries

_CALLS: tuple[Capability, ...] = (
    "search_entities",
    "get_entry",
    "get_property_examples",
    "execute_query",
    "search_neighbors",
)


def endpoints_of(url: str) -> Endpoints:
    """The endpoints of a mirror, or of any site that has Wikidata's paths, by its base URL."""
    base = url.rstrip("/")
    return Endpoints(
        sparql=f"{base}/sparql",
        api=f"{base}/w/api.php",
        entity_page=f"{base}/wiki/",
    )


class WikidataKB:
    """Wikidata, any Wikibase, or a mirror (``about`` says what of); ``http`` asks the vector service."""

    name = "wikidata"

    def __init__(
        self,
        endpoints: Endpoints,
        api: ActionApi,
        queries: QueryService | LocalQueries,
        *,
        http: HttpClient | None = None,
        site: Site = WIKIDATA_SITE,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self._endpoints, self._api, self._queries, self._http = endpoints, api, queries, http
        self._site, self._words = site, site.vocabulary
        self._about = dict(about or {})

    @classmethod
    def by_http(
        cls,
        settings: Settings,
        *,
        http: HttpClient | None = None,
        site: Site = WIKIDATA_SITE,
        about: Mapping[str, Any] | None = None,
    ) -> WikidataKB:
        """What ``settings.endpoints`` name, asked by HTTP."""
        from kbnav.knowledge.http import open_http  # takes a while

        http, endpoints = http or open_http(settings), settings.endpoints
        queries = QueryService(endpoints, settings.services, site.vocabulary.prefixes, http)
        api = ActionApi(endpoints.api, http, namespaces=site.namespaces)
        return cls(endpoints, api, queries, http=http, site=site, about=about)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Everything; ``vector_query`` only where a vector service is configured."""
        return frozenset(_CALLS) | (frozenset({"vector_query"}) if self._endpoints.vector else frozenset())

    @property
    def vocabulary(self) -> Vocabulary:
        """Its prefixes, and its ids for what kbnav speaks of."""
        return self._words

    def state(self) -> Mapping[str, Any]:
        """Kind, endpoints, and a mirror's build; live Wikidata has no version that could be asked for again."""
        own: dict[str, Any] = {} if self._site == WIKIDATA_SITE else {"site": self._site.model_dump(mode="json")}
        page, usual = self._endpoints.query_page, Endpoints().query_page
        if page != usual or self._words.concept_base != WIKIDATA:  # Wikidata's page opens no query of another Wikibase
            own["query_page"] = "" if page == usual else page
        return {"kind": self.name, "endpoints": self._endpoints.model_dump(mode="json"), **own, **self._about}

    @property
    def engine(self) -> str:
        """The name of the query service's engine, for people; one that is not known is found out."""
        return self._queries.engine

    def page(self, entity_id: str) -> str:
        """The address of an entity's page."""
        return self._site.page(entity_id, self._endpoints.entity_page)

    def search_entities(
        self, query: str, *, language: str = "en", limit: int = 8, kind: SearchKind = "any"
    ) -> SearchResult:
        """See ``KnowledgeBase``; the ladder is that of ``search.search``. Namesakes are told apart by what they are."""
        code = language_code(language)
        if kind == "value":
            return self._values(query, code, limit)
        found = search(self._api, query, language=code, limit=limit, kind=kind)
        if found.rung != "exact" and kind == "any" and content_words(query):
            texts = as_written(self.select, query, languages(code), self._words)
            found = replace(found, values=self._with_names(texts[:VALUES_SHOWN], code))
        return replace(found, entities=told_apart(found.entities, self.select, languages(code), self._words))

    def named(self, text: str, *, language: str = "en", items: int, properties: int) -> SearchResult:
        """What has a label or alias that begins with a text: two calls of wbsearchentities, in the service's order."""
        phrase, code = " ".join(text.split())[:LONGEST], language_code(language)
        if not phrase:
            return SearchResult()
        entities = self._api.search(phrase, kind="item", language=code, limit=items)
        relations = self._api.search(phrase, kind="property", language=code, limit=properties)
        return SearchResult(tuple(entities), tuple(relations), "exact", phrase)

    def _values(self, query: str, code: str, limit: int) -> SearchResult:
        """Statements and qualifiers with a text, those that are just it first."""
        if not query.strip():
            return SearchResult()
        same = as_written(self.select, query, languages(code), self._words)
        more, note = mentioning(self._api, self.select, query, self._words) if len(same) < limit else ([], "")
        found = self._with_names([*same, *more], code)
        return SearchResult(rung="value", values=found[:limit], note=note)

    def _with_names(self, found: Sequence[Stated], code: str) -> tuple[Stated, ...]:
        if not found:
            return ()
        return tuple(named_values(found, self._api.brief(value_ids(found), code), self._words))

    def get_entry(self, entity_id: str, *, language: str = "en") -> Entry:
        """See ``KnowledgeBase``; labels come 50 a request, and ``omitted`` counts properties without a page."""
        code = language_code(language)
        asked = self._id(entity_id)
        document = self._api.document(asked, code)
        known = self._api.brief(references(document), code)
        entry = without_unknown(parse(document, language=code, known=known), known)
        moved = entry.entity.id != asked and not entry.redirected_from
        return replace(entry, redirected_from=asked) if moved else entry

    def get_property_examples(self, property_id: str, *, language: str = "en", limit: int = 5) -> Sequence[Example]:
        """See ``KnowledgeBase``. From a sample of the property's uses; those with labels go first."""
        code = language_code(language)
        asked = self._id(property_id, "P")
        chosen = queries.candidate_uses(self.select(queries.examples_query(asked)), self._words)
        used = (one for subject, value in chosen for one in (subject, value.id) if one)
        known = self._api.brief([asked, *used], code)
        if asked not in known:
            raise no_page(asked)
        relation = known.get(asked, Entity(asked, kind="property"))
        return queries.shown_examples(chosen, relation, known, limit)

    def property_profile(self, property_id: str, *, language: str = "en") -> PropertyProfile:
        """See ``Profiled``."""
        asked, brief = self._id(property_id, "P"), self._brief(language)
        found = self.select(queries.property_query(asked, self._words))
        counts, shares = queries.read_profile(found, brief, self._words)
        qualifiers = shares.get("qualifiers", ())
        uses: tuple[Stated, ...] = ()
        if qualifiers:
            table = self.select(queries.uses_query(asked, qualifiers[0].entity.id))
            uses = queries.read_uses(table, brief, asked, self._words)
        return PropertyProfile(
            direct=counts.get("direct", 0),
            statements=counts.get("statements", 0),
            limit=queries.PROFILE_COUNTED,
            sampled=counts.get("sampled", 0),
            subjects=counts.get("subjects", 0),
            qualifiers=qualifiers,
            units=shares.get("units", ()),
            subject_classes=shares.get("subject classes", ()),
            value_classes=shares.get("value classes", ()),
            uses=uses,
        )

    def class_profile(self, entity_id: str, *, language: str = "en") -> ClassProfile:
        """See ``Profiled``."""
        asked = self._id(entity_id)
        if not self._words.to_class:
            return ClassProfile(0, 0, queries.PROFILE_COUNTED, 0)
        found = self.select(queries.class_query(asked, self._words))
        counts, shares = queries.read_profile(found, self._brief(language), self._words)
        direct, below, sampled = (counts.get(one, 0) for one in ("direct", "below", "sampled"))
        return ClassProfile(direct, below, queries.PROFILE_COUNTED, sampled, shares.get("properties", ()))

    def incoming(self, entity_id: str, *, language: str = "en") -> Sequence[Share]:
        """See ``Profiled``: the properties by which most edges come in, with how many, of the first 5,000."""
        found = self.select(queries.incoming_query(self._id(entity_id)))
        return queries.read_profile(found, self._brief(language), self._words)[1].get("incoming", ())

    def _brief(self, language: str) -> queries.Brief:
        return lambda ids: self._api.brief(ids, language_code(language))

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        """See ``KnowledgeBase``. Declares this Wikibase's own prefixes; then in the dialect of the service."""
        named = add_prefixes(query, self._words.own_prefixes)
        table = self._queries.run(named, language=language_code(language))
        most = LABELLED if self._endpoints.sparql else LABELLED_HERE
        ids: list[str] = []
        for cell in filter(None, chain(*table.labelled_rows(most))):
            own = [self._words.entity_id(cell.value)] if cell.type == "uri" else self._words.entities_in(cell.value)
            ids += filter(None, own)
        labels = self.labels([*dict.fromkeys(ids)][:most], language=language)
        base = "" if self._words.concept_base == WIKIDATA else self._words.concept_base
        return replace(table, labels=labels, concept_base=base)

    def select(self, query: str) -> AnswerTable:
        """The rows of a query in standard SPARQL, without the labels of their entities."""
        return self._queries.select(query)

    def search_neighbors(
        self,
        entity_id: str,
        *,
        relation: str | None = None,
        direction: Direction = "both",
        query: str = "",
        language: str = "en",
        limit: int = 20,
    ) -> Neighborhood:
        """See ``KnowledgeBase``; ``total`` counts edges fetched, 500 each way, and again of a hub's that fit."""
        code = language_code(language)
        asked = self._id(entity_id)
        chosen = self._id(relation, "P") if relation else ""
        known_as = self._api.brief([asked], code).get(asked)
        entity = known_as or Entity(asked)
        ways: tuple[queries.Way, ...] = ("out", "in") if direction == "both" else (direction,)
        found = []
        for way in ways:
            edges = self._edges(entity.id, way, [chosen] if chosen else [], code)
            if len(edges) >= queries.FETCHED and query.strip() and not chosen:
                edges = self._edges(entity.id, way, self._fitting(entity.id, way, query, code), code) + edges
            found += edges
        found = list(dict.fromkeys(found))
        if known_as is None and not found:
            raise no_page(asked)
        properties = dict.fromkeys(property_id for property_id, _, _ in found)
        names = self._api.brief(properties, code)
        english = self._api.brief(properties, "en") if query.strip() and code != "en" else names  # models ask so too
        candidates = [
            (replace(edge, relation=names.get(one, edge.relation)), f"{words} {english.get(one, edge.relation).label}")
            for one, edge, words in found
        ]
        note = "" if known_as else NO_PAGE_OF_ITS_OWN.format(asked)
        return ranking.neighborhood(entity, candidates, query, limit, note)

    def _edges(self, item: str, way: queries.Way, relations: Sequence[str], code: str) -> list[queries.FoundEdge]:
        query = queries.edges_query(item, way, relations, languages(code))
        return queries.edges(self.select(query), way, self._words)

    def _fitting(self, item: str, way: queries.Way, phrase: str, code: str) -> list[str]:
        """The relations of a hub that fit a phrase."""
        table = self.select(queries.relations_query(item, way))
        ids = [self._words.entity_id(row[0].value) for row in table.rows if row[0] is not None]
        return ranking.best_relations(list(self._api.brief(ids, code).values()), phrase)

    def vector_query(self, text: str, *, kind: str = "item", limit: int = 10, language: str = "en") -> Ranking:
        """See ``KnowledgeBase``; ``kind`` is ``item``, ``property``, or the id of a class for instances of that."""
        if self._http is None or not self._endpoints.vector:
            raise BadArguments("vector_query: no vector service is configured (endpoints.vector)")
        scored = nearest(
            self._http, self._endpoints.vector, text, kind=kind, limit=limit, language=language_code(language)
        )
        names = self.labels([one for one, _ in scored], language=language)
        return Ranking(tuple(Ranked(one, score, names.get(one, "")) for one, score in scored))

    def labels(self, ids: Sequence[str], *, language: str = "en") -> Mapping[str, str]:
        """See ``KnowledgeBase``."""
        return {
            one: entity.label for one, entity in self._api.brief(ids, language_code(language)).items() if entity.label
        }

    def _id(self, text: str, letters: str = "QPL") -> str:
        """An entity id out of what a model may write: an IRI, a prefixed name, lower case. Raises UnknownId."""
        found = self._words.written_id(text)
        if not found or found[0] not in letters:
            wanted = "a property id such as P127" if letters == "P" else "an id such as Q42, P127 or L7"
            raise UnknownId(f"{text.strip()[:80]!r} is not {wanted}: search for the name to find its id, and give that")
        return found

    def close(self) -> None:
        """Close the connections that are kept open."""
        if self._http:
            self._http.close()


_OF_ARTICLES = re.compile(
    r"(?:wdt:|p:|prop/(?:direct/)?)P(?:50|356|698|818|921|932|1433|2093|2860)\b"
    r"|(?:wd:|entity/)Q(?:13442814|18918145|7318358|1504425|815382|23927052|580922|1348305|45182324)\b"
)
"""Properties that mostly articles have (author, DOI, PubMed, arXiv, main subject, PMC, published in, author's name,
cites), and the classes of articles."""


def is_split(url: str) -> bool:
    """Whether the scholarly articles are not behind this query service but another."""
    return (urlsplit(url).hostname or "").endswith(".wikidata.org")


def _dialect_of(url: str, name: str, http: HttpClient) -> Dialect:
    """What the engine at a URL understands: as it is named, or by an address that is known, else as it is found out.

    What is served on this machine is taken for a mirror, which understands what is written for Wikidata's service.
    """
    if name == AUTO and "qlever" in (urlsplit(url).hostname or ""):
        return DIALECTS["qlever"]
    if name == AUTO and (is_split(url) or is_loopback(url)):
        return DIALECTS["wdqs"]
    return dialect_at(url, name, http)


class QueryService:
    """The query service of one Wikibase, by HTTP, each query in its engine's dialect.

    ``prefixes`` need not be declared. Wikidata's service has no scholarly articles: since May 2025 they are in a graph
    of their own, behind another (https://www.wikidata.org/wiki/Wikidata:SPARQL_query_service/WDQS_graph_split). A
    result that may lack them says so.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        allowed: Collection[str],
        prefixes: Mapping[str, str],
        http: HttpClient,
    ) -> None:
        self._endpoints, self._allowed, self._prefixes, self._http = endpoints, allowed, prefixes, http
        self._dialect = cache(partial(_dialect_of, endpoints.sparql, endpoints.dialect, http))

    def run(self, query: str, *, language: str = "en") -> AnswerTable:
        """A query's result, and whether scholarly articles may be missing. Raises as ``prepare``, ``read_query``."""
        prepared = prepare(query, self._dialect(), services=self._allowed, prefixes=self._prefixes, language=language)
        triples = prepared.form in ("CONSTRUCT", "DESCRIBE")
        try:
            table = self._fetch(prepared.text, ACCEPT_TRIPLES if triples else ACCEPT_ROWS)
        except QuerySyntaxError as error:  # what was put before the query's first line moved the place
            added = 0 if prepared.changed else len(prepared.text) - len(query)
            column = error.column - added if error.line == 1 and error.column > added else error.column
            where = f" at line {error.line}, column {column}" if error.line else ""
            raise QuerySyntaxError(f"syntax error{where}: {error}", line=error.line, column=column) from error
        if is_split(self._endpoints.sparql) and "subgraph" not in query and _OF_ARTICLES.search(query):
            return replace(table, note=f"{table.note} {LEFT_OUT}".strip())
        return table

    def select(self, query: str) -> AnswerTable:
        """The rows of a query in standard SPARQL that kbnav made itself."""
        return self._fetch(add_prefixes(query, self._prefixes), ACCEPT_ROWS)

    @property
    def engine(self) -> str:
        """The name of the service's engine, for people."""
        return self._dialect().engine

    def _fetch(self, text: str, accept: str) -> AnswerTable:
        request = Request("sparql", self._endpoints.sparql, {"query": text}, accept)
        return self._http.fetch(request, partial(read_query, query=text))
