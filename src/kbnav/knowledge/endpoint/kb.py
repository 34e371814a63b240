"""Any SPARQL endpoint as a knowledge base: the protocol's calls as bounded queries."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from kbnav.answers.tables import AnswerTable, Ranking
from kbnav.errors import BadArguments, QuerySyntaxError, QueryTimeout, UnknownId, UsageError
from kbnav.knowledge import ranking
from kbnav.knowledge.base import (
    Capability,
    ClassProfile,
    ClassShape,
    Direction,
    Entity,
    Entry,
    Example,
    Meter,
    Neighborhood,
    PropertyProfile,
    SearchKind,
    SearchResult,
    Share,
)
from kbnav.knowledge.endpoint import entries, neighbors, published, search, shapes, vocabulary
from kbnav.knowledge.endpoint import index as naming
from kbnav.knowledge.endpoint.known import Address, Data
from kbnav.knowledge.endpoint.labels import Select, described, told_query
from kbnav.knowledge.endpoint.vocabulary import Word
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.replies import ACCEPT_ROWS, ACCEPT_TRIPLES, Request, read_query
from kbnav.knowledge.sparql.check import QueryForm
from kbnav.knowledge.sparql.dialects import DIALECTS, Dialect
from kbnav.knowledge.sparql.rewriting import outer_limit, prepare
from kbnav.knowledge.sparql.vocabulary import add_prefixes, names_in, words_of

if TYPE_CHECKING:
    from kbnav.knowledge.skb.kb import SkbKB

LABELLED = 100
"""Things of one result that are labelled, those of the first and the last rows."""
_LANGUAGE = re.compile(r"[a-z]{2,12}(-[a-z0-9]{2,12})*")
_LINE = re.compile(r"\bline (\d+)")
_CALLS: tuple[Capability, ...] = (
    "search_entities",
    "get_entry",
    "get_property_examples",
    "execute_query",
    "search_neighbors",
)


class EndpointKB:
    """A SPARQL endpoint; ``http`` carries the policy, the credentials and the cache. Serves all threads."""

    def __init__(
        self,
        address: Address,
        http: HttpClient,
        dialect: Callable[[], Dialect] = lambda: DIALECTS["sparql11"],
        index: SkbKB | None = None,
    ) -> None:
        """``dialect`` finds out what the engine understands; it is asked when that is first needed.

        ``index`` has the endpoint's names, as ``kbnav endpoint index`` made it; it is closed with this.
        """
        self._index = index
        self.name = address.name or address.url
        self._address = address
        self._http = http
        self._data = Data(self._select, address, dialect)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Everything; ``vector_query`` only where there is a name index with vectors."""
        vectors = self._index is not None and "vector_query" in self._index.capabilities
        return frozenset(_CALLS) | (frozenset({"vector_query"}) if vectors else frozenset())

    def state(self) -> Mapping[str, Any]:
        """Kind, address, default graph and the prefixes in use. No secrets."""
        address = self._address
        names, dialect = self._data.found_names, self._data.found_dialect
        return {
            "kind": "sparql",
            "url": address.url,
            **({"dialect": dialect.name} if dialect else {}),
            **({"graph": address.graph} if address.graph else {}),
            "prefixes": dict(names.own if names else address.prefixes or {}),
            "query_page": address.query_page,
            **({"index": self._index.state()["files"]} if self._index else {}),
        }

    def search_entities(
        self, query: str, *, language: str = "en", limit: int = 8, kind: SearchKind = "any"
    ) -> SearchResult:
        """See ``KnowledgeBase``. Classes are entities; they come first where their names fit."""
        code, phrase = _code(language), " ".join(query.split())
        if not phrase:
            raise BadArguments("search_entities: give a name")
        properties = self._like(self._data.properties, phrase, code, limit if kind == "property" else limit // 2)
        if kind == "property":
            return SearchResult((), tuple(properties), rung="exact" if properties else "none")
        classes = self._like(self._data.classes, phrase, code, limit // 2)
        if self._index is not None:
            return naming.searched(self._index, phrase, limit, classes, properties, self._data.names.short)
        found = search.by_label(self._select, phrase, self._data.labels.predicates, code, self._containing)
        own = {one.id for one in (*classes, *properties)}
        things = [one for one in found if self._data.names.short(one.iri) not in own]
        rung, matched, dropped, things = _rung(things, phrase, bool(classes or properties))
        entities = [*classes, *self._told(things[: limit - len(classes)], code)]
        return SearchResult(tuple(entities), tuple(properties), rung=rung, matched=matched, dropped=dropped)

    def paging(self, *, language: str = "en", page: int = naming.PAGE) -> tuple[Select, naming.Paging]:
        """What ``index.collect`` needs to page this endpoint's names. Raises UsageError where nothing has a label."""
        code, address = _code(language), self._address
        if not self._data.labels.predicates:
            raise UsageError(
                f"{self.name}: nothing has a label by rdfs:label, skos:prefLabel or the like: name the predicates of "
                "its labels in kbnav.toml, labels of [sparql.NAME]"
            )
        classes = {word.iri: self._named(code, word.iri).label for word in self._data.classes(code)}
        predicates = list(self._data.labels.predicates)
        return self._select, naming.Paging(address.url, address.graph, code, predicates, page, classes=classes)

    def _containing(self, words: Sequence[str]) -> AnswerTable:
        return search.containing(self._select, words, self._data.labels.predicates, self._data.dialect)

    def _like(self, found: Any, phrase: str, code: str, limit: int) -> list[Entity]:
        """Classes or properties by name."""
        words: Sequence[Word] = found(code)
        labels = self._data.labels.of([word.iri for word in words], code)
        return [self._word(word, labels) for _, word in search.like(words, labels, phrase, limit)]

    def _word(self, word: Word, labels: Mapping[str, str]) -> Entity:
        """A class or property with what is declared of it and how much it is used."""
        is_property = any(word.iri == one.iri for one in self._data.properties("en"))
        counted = [] if word.count is None else [f"{word.count:,} {'uses' if is_property else 'members'}"]
        declared = [f"{name}: {self._called(iris)}" for name in ("domain", "range") if (iris := word.declared(name))]
        head = [] if is_property else ["class"]
        about = "; ".join([*head, *counted, *declared, *filter(None, [word.description])])
        label = labels.get(word.iri) or words_of(word.iri)
        return Entity(self._data.names.short(word.iri), label, about, kind="property" if is_property else "class")

    def _called(self, iris: Iterable[str]) -> str:
        return ", ".join(self._data.names.short(iri) for iri in iris)

    def _told(self, matches: Sequence[search.Match], code: str) -> list[Entity]:
        """Things that were found, each with a line on it."""
        if not matches:
            return []
        labels = self._data.labels.of([one.iri for one in matches], code)
        about = described(
            self._select(told_query([one.iri for one in matches], code)), partial(self._data.labels.of, code=code)
        )
        return [
            Entity(
                self._data.names.short(one.iri),
                labels.get(one.iri) or one.label,
                about.get(one.iri, ""),
                alias=one.label if one.label != labels.get(one.iri, one.label) else "",
            )
            for one in matches
        ]

    def get_entry(self, entity_id: str, *, language: str = "en") -> Entry:
        """See ``KnowledgeBase``. Nodes without a name are shown by what is said of them, as qualifiers."""
        code, iri = _code(language), self._data.names.iri(entity_id)
        rows = [(row[0], row[1]) for row in self._select(entries.triples_query(iri)).rows if row[0] and row[1]]
        if not rows and not self._select(f"ASK {{ ?s ?p <{iri}> }}").boolean:
            raise UnknownId(
                f"{self._data.names.short(iri)} is not in this endpoint: search for the name to find its id"
            )
        nested = None
        if any(value.type == "bnode" for _, value in rows):
            nested = self._select(entries.nested_query(iri))
        inner = [cell for row in (nested.rows if nested else ()) for cell in row[2:] if cell]
        named = [cell.value for cell in (*chain.from_iterable(rows), *inner) if cell.type == "uri"]
        labels = self._data.labels.of([iri, *named], code)
        about = (
            described(self._select(told_query([iri], code)), partial(self._data.labels.of, code=code)) if rows else {}
        )
        entity = Entity(self._data.names.short(iri), labels.get(iri) or words_of(iri), about.get(iri, ""))
        shown = entries.Shown(self._data.names.short, labels)
        return entries.entry(entity, rows, nested, shown, code, self._data.labels.predicates)

    def get_property_examples(self, property_id: str, *, language: str = "en", limit: int = 5) -> Sequence[Example]:
        """See ``KnowledgeBase``; uses by different things first."""
        code, iri = _code(language), self._data.names.iri(property_id)
        table = self._select(neighbors.examples_query(iri, 20 * limit))
        if not table.rows:
            raise UnknownId(f"nothing here uses {self._data.names.short(iri)}: search for the relation by its name")
        labels = self._data.labels.of([iri, *_iris(table)], code)
        shown = entries.Shown(self._data.names.short, labels)

        def subject(one: str) -> Entity:
            return Entity(self._data.names.short(one), labels.get(one) or words_of(one))

        return neighbors.examples(table, shown.property(iri), subject, shown.value, limit)

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        """See ``KnowledgeBase``. In the engine's dialect, with the prefixes that it lacks declared in front."""
        sent = self.declared(query)
        added = sent.count("\n") - query.count("\n")
        try:
            prepared = prepare(sent, self._data.dialect, services=self._address.services, language=_code(language))
        except QuerySyntaxError as error:
            raise _placed(error, added) from error
        triples = prepared.form in (QueryForm.CONSTRUCT, QueryForm.DESCRIBE)
        try:
            table = self._select(prepared.text, accept=ACCEPT_TRIPLES if triples else ACCEPT_ROWS)
        except QuerySyntaxError as error:
            if prepared.changed:  # its places are not those of the query
                raise QuerySyntaxError(f"syntax error: {error}") from error
            raise _placed(error, added) from error
        half = LABELLED // 2
        ends = table.rows if len(table.rows) <= LABELLED else (*table.rows[:half], *table.rows[-half:])
        labels = self._data.labels.of(_iris(replace(table, rows=tuple(ends))), _code(language))
        named = {self._data.names.short(iri): label for iri, label in labels.items()}
        return replace(table, labels=named, prefixes=self._data.names.prefixes)

    def select(self, query: str) -> AnswerTable:
        """The rows of a query that is sent as it is, without labels; ``execute_query`` is for queries of others."""
        return self._select(query)

    def _select(self, query: str, *, accept: str = ACCEPT_ROWS) -> AnswerTable:
        parameters = {"query": query}
        if self._address.graph:
            parameters["default-graph-uri"] = self._address.graph
        reader = partial(read_query, limit=outer_limit(query))
        return self._http.fetch(Request("sparql", self._address.url, parameters, accept), reader)

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
        """See ``KnowledgeBase``; ``total`` counts the edges fetched, at most 500 for each direction."""
        code, iri = _code(language), self._data.names.iri(entity_id)
        chosen = self._data.names.iri(relation) if relation else ""
        ways: tuple[neighbors.Way, ...] = ("out", "in") if direction == "both" else (direction,)
        fetched = [(way, self._select(neighbors.edges_query(iri, way, chosen))) for way in ways]
        found = [one for way, table in fetched for one in neighbors.found(table, way)]
        if not found and not chosen and direction == "both":
            raise UnknownId(
                f"{self._data.names.short(iri)} is not in this endpoint: search for the name to find its id"
            )
        named = [one.value for _, _, one in found if one.type == "uri"]
        labels = self._data.labels.of([iri, *(edge for _, edge, _ in found), *named], code)
        shown = entries.Shown(self._data.names.short, labels)
        candidates = neighbors.edges(found, shown.property, shown.value)
        entity = Entity(self._data.names.short(iri), labels.get(iri) or words_of(iri))
        return Neighborhood(
            entity, ranking.rank(candidates, query, limit), len(candidates), ranking.counted(candidates)
        )

    def property_profile(self, property_id: str, *, language: str = "en") -> PropertyProfile:
        """See ``Profiled``."""
        code, iri = _code(language), self._data.names.iri(property_id)
        return shapes.property_profile(self._select, partial(self._learn, code=code), partial(self._named, code), iri)

    def class_profile(self, entity_id: str, *, language: str = "en") -> ClassProfile:
        """See ``Profiled``."""
        shape = self.class_shape(entity_id, language=language)
        shares = tuple(Share(one.property, one.have) for one in shape.properties if one.have is not None)
        return ClassProfile(shape.members, shape.members + shape.below, shape.limit, shape.sampled, shares)

    def class_shape(self, class_id: str, *, language: str = "en") -> ClassShape:
        """See ``Shaped``. As the endpoint publishes it (VoID), else worked out, else as it should be (SHACL)."""
        code, iri = _code(language), self._data.names.iri(class_id)

        def find() -> ClassShape:
            ways = self._select, partial(self._learn, code=code), partial(self._named, code), iri
            if told := published.by_void(*ways):
                return told
            try:
                return shapes.class_shape(*ways)
            except QueryTimeout:
                if told := published.by_shacl(*ways):
                    return told
                raise

        shape: ClassShape = self._data.once(("shape", iri, code), find)
        return shape

    def incoming(self, entity_id: str, *, language: str = "en") -> Sequence[Share]:
        """See ``Profiled``; of the first 5,000 edges."""
        code, iri = _code(language), self._data.names.iri(entity_id)
        counts = neighbors.counted(self._select(neighbors.counts_query(iri, "in")))
        self._learn([one for one, _ in counts], code=code)
        return tuple(Share(self._named(code, one), number) for one, number in counts)

    def _learn(self, iris: Sequence[str], *, code: str) -> None:
        self._data.labels.of(iris, code)

    def _named(self, code: str, iri: str) -> Entity:
        return Entity(self._data.names.short(iri), self._data.labels.of([iri], code).get(iri) or words_of(iri))

    def classes(self, *, language: str = "en") -> Sequence[Share]:
        """See ``Shaped``. Classes of vocabularies (owl:Class and the like) are left out."""
        code = _code(language)
        own = [word for word in self._data.classes(code) if not word.iri.startswith(vocabulary.OF_VOCABULARY)]
        self._learn([word.iri for word in own], code=code)
        return [Share(self._named(code, word.iri), word.count or 0) for word in own]

    def classes_named(self, question: str, *, language: str = "en", limit: int = 4) -> Sequence[str]:
        """See ``Shaped``."""
        scored = [
            (search.within(question, share.entity.label), share.entity.id) for share in self.classes(language=language)
        ]
        return [one for score, one in sorted(scored, key=lambda pair: -pair[0]) if score > 0][:limit]

    def ids_in(self, query: str) -> Sequence[str]:
        """See ``Shaped``."""
        return [
            self._data.names.short(iri)
            for iri in names_in(query, self._data.names.prefixes)
            if not iri.startswith((*vocabulary.OF_VOCABULARY, "http://www.w3.org/2001/XMLSchema#"))
        ]

    def declared(self, query: str) -> str:
        """See ``Shaped``."""
        missing = add_prefixes(query, self._data.names.prefixes).removesuffix(query).strip()
        return f"{missing.replace(' PREFIX ', chr(10) + 'PREFIX ')}\n{query}" if missing else query

    def vector_query(
        self,
        text: str,
        *,
        kind: str = "item",
        limit: int = 10,
        language: str = "en",  # noqa: ARG002 - the index is in the language that it was made in
    ) -> Ranking:
        """See ``KnowledgeBase``; by the name index. ``kind`` is the label of a class, ``item`` any."""
        if self._index is None:
            raise BadArguments("vector_query: this endpoint has no name index (kbnav endpoint index)")
        found = self._index.vector_query(text, kind=kind, limit=limit)
        return Ranking(tuple(node._replace(id=self._data.names.short(node.id)) for node in found.nodes))

    def labels(self, ids: Sequence[str], *, language: str = "en") -> Mapping[str, str]:
        """See ``KnowledgeBase``; ids that are none are left out."""
        iris: dict[str, str] = {}
        for one in ids:
            try:
                iris[one] = self._data.names.iri(one)
            except UnknownId:
                continue
        found = self._data.labels.of(iris.values(), _code(language))
        return {one: found[iri] for one, iri in iris.items() if iri in found}

    def close(self) -> None:
        """Close the kept connections."""
        self._http.close()
        if self._index is not None:
            self._index.close()

    def metered(self, meter: Meter) -> EndpointKB:
        """See ``Metered``."""
        other = copy.copy(self)
        other._http = self._http.metered(meter)
        return other


def _iris(table: AnswerTable) -> list[str]:
    cells = chain.from_iterable(table.rows)
    return list(dict.fromkeys(cell.value for cell in cells if cell is not None and cell.type == "uri"))


def _rung(found: Sequence[search.Match], phrase: str, named: bool) -> tuple[Any, str, str, list[search.Match]]:
    """Which rung of the search matched, by what, what was left out, and the matches that hold most of the phrase."""
    if not found:
        return ("exact" if named else "none"), "", "", []
    wanted = search.words(phrase)
    most = max(len(one.words) for one in found)
    best = [one for one in found if one.exact or len(one.words) == most]
    if any(one.exact for one in best) or most == len(wanted):
        return "exact", "", "", best
    if named:
        return "exact", "", "", []
    held = [word for word in wanted if word in best[0].words]
    left = [word for word in wanted if word not in held]
    part = " ".join(held)
    alike = [one for one in best if one.words == best[0].words]
    return (
        "shorter",
        part,
        " ".join(left),
        sorted(alike, key=lambda one: (one.label.casefold() != part, one.label not in phrase)),
    )


def _code(language: str) -> str:
    """A language code that can go into a query; English for anything else, ``auto`` among it."""
    code = language.strip().lower().replace("_", "-")
    return code if code != "auto" and _LANGUAGE.fullmatch(code) else "en"


def _placed(error: QuerySyntaxError, added: int) -> QuerySyntaxError:
    """The error with the place in the model's own text: ``added`` lines stood in front of it."""
    line = max(1, error.line - added) if error.line else 0
    text = _LINE.sub(lambda found: f"line {max(1, int(found[1]) - added)}", str(error))
    where = f" at line {line}, column {error.column}" if line and not _LINE.search(text) else ""
    return QuerySyntaxError(f"syntax error{where}: {text}" if where else text, line=line, column=error.column)
