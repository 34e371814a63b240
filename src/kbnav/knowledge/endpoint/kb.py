"""Any SPARQL endpoint as a knowledge base: the protocol's calls as bounded queries."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

from kbnav.answers.language import language_code
from kbnav.answers.tables import AnswerTable, Ranking, Term
from kbnav.errors import BadArguments, CredentialsError, QuerySyntaxError, ServiceError, UnknownId, UsageError
from kbnav.knowledge import ranking
from kbnav.knowledge.base import (
    Capability,
    ClassProfile,
    ClassShape,
    Direction,
    Edge,
    Entity,
    Entry,
    Example,
    Neighborhood,
    PropertyProfile,
    Qualifier,
    SearchKind,
    SearchResult,
    Share,
    Statement,
    Value,
)
from kbnav.knowledge.endpoint import search, shapes
from kbnav.knowledge.endpoint.data import (
    ALIASES,
    OF_VOCABULARY,
    TYPE,
    UNNAMED,
    Data,
    View,
    Word,
    fitting,
    iris_list,
    side_by_side,
    whole,
)
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.replies import ACCEPT_ROWS, ACCEPT_TRIPLES, CHECK_ADDRESS, CHECK_CREDENTIALS, Request, read_query
from kbnav.knowledge.sparql.dialects import DIALECTS, Dialect
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES, add_prefixes, label_from_iri, names_in, respelled
from kbnav.settings.model import SparqlSource

if TYPE_CHECKING:
    from kbnav.knowledge.endpoint.names import Names

T = TypeVar("T")

_TRIPLES, _EDGES, _COUNTED = 1_000, 500, 5_000
"""Triples of one thing that are fetched; edges in each direction; edges that are counted by property."""
_HALF = 0.5
_PART_OF_IRI = re.compile(r"\w[-_.@%/]\w")
"""What the names in IRIs have inside, and others seldom."""
_LINE = re.compile(r"\bline (\d+)")
_NO_VARIABLE = (
    "its table [sparql.NAME] in kbnav.toml needs credentials_variable: the environment variable that holds "
    "user:password, or a token"
)


def checked_url(url: str) -> str:
    """The address of an endpoint. Raises UsageError where it is none, or holds a user's name and password."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"not the address of a SPARQL endpoint: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(f"not the address of a SPARQL endpoint: {url!r}; it begins with http:// or https://")
    if parts.username or parts.password:
        raise UsageError(
            "the address of an endpoint may hold no password: give it a name in kbnav.toml, [sparql.NAME], with "
            "credentials_variable, the environment variable that holds user:password"
        )
    return url


def authorization(source: SparqlSource) -> str:
    """The header of an endpoint's credentials, or empty. Raises CredentialsError for an unset or bad variable."""
    variable = source.credentials_variable
    if not variable:
        return ""
    value = os.environ.get(variable, "")
    if not value:
        raise CredentialsError(f"the environment variable {variable}, which is to hold credentials, is not set")
    if not (value.isprintable() and value.isascii()):
        raise CredentialsError(f"the environment variable {variable} must be plain ASCII on one line")
    return f"Basic {base64.b64encode(value.encode()).decode()}" if ":" in value else f"Bearer {value}"


def _with_hints(source: SparqlSource, call: Callable[[], T]) -> T:
    """What a call gives. Raises what it raises; an error of credentials or of the address says what to set."""
    try:
        return call()
    except CredentialsError as error:
        named = source.credentials_variable
        hint = f"check what the environment has as {named}" if named else _NO_VARIABLE
        raise CredentialsError(str(error).replace(CHECK_CREDENTIALS, hint)) from error
    except ServiceError as error:
        if CHECK_ADDRESS not in str(error):
            raise
        host = "://".join(urlsplit(source.url)[:2])
        usual = " or ".join(one for one in (f"{host}/sparql", f"{host}/query") if one != source.url)
        others = f"of Fuseki {host}/DATASET/sparql, of GraphDB {host}/repositories/NAME"
        hint = f"the address of its query service may be {usual}, {others}"
        raise ServiceError(str(error).replace(CHECK_ADDRESS, hint)) from error


class EndpointKB:
    """A SPARQL endpoint; ``http`` carries the policy, the credentials and the cache. Serves all threads."""

    capabilities: frozenset[Capability] = frozenset(
        ("search_entities", "get_entry", "get_property_examples", "execute_query", "search_neighbors")
    )

    def __init__(
        self,
        source: SparqlSource,
        http: HttpClient,
        dialect: Callable[[], Dialect] = lambda: DIALECTS["sparql11"],
        name: str = "",
        names: Names | None = None,
        services: Sequence[str] = (),
    ) -> None:
        """``dialect`` finds out what the engine understands; it is asked when that is first needed.

        ``names`` is the endpoint's name index, which is searched in its place; it is closed with this. SERVICE may name
        ``services``.
        """
        self._names = names
        self.name = name or source.url
        self._source, self._services = source, services
        self._http = http
        self._data = Data(self.select, source, partial(_with_hints, source, dialect))

    def state(self) -> Mapping[str, Any]:
        """Kind, address, default graph and the prefixes in use. No secrets."""
        source = self._source
        prefixes, dialect = self._data.known.get("prefixes"), self._data.known.get("dialect")
        return {
            "kind": "sparql",
            "url": source.url,
            **({"dialect": dialect.name} if dialect else {}),
            **({"graph": source.graph} if source.graph else {}),
            "prefixes": dict(prefixes.own if prefixes else source.prefixes),
            "query_page": source.query_page,
            **({"index": source.index} if self._names else {}),
        }

    def search_entities(
        self, query: str, *, language: str = "en", limit: int = 8, kind: SearchKind = "any"
    ) -> SearchResult:
        """See ``KnowledgeBase``. Classes are entities; they come first where their names fit."""
        code, phrase = language_code(language), " ".join(query.split())
        if not phrase:
            raise BadArguments("search_entities: give a name")
        if kind == "property":
            properties = self._like(self._data.properties, phrase, code, limit)
            return SearchResult((), tuple(properties), rung="exact" if properties else "none")
        of = (self._data.properties, self._data.classes)
        properties, classes = side_by_side([partial(self._like, one, phrase, code, limit // 2) for one in of])
        short = self._data.prefixes.short
        if self._names:
            found = self._names.search(phrase)
            if not any(one.exact for one in found):  # named so since the index was made
                names, tags = self._data.labels.predicates, self._data.tags
                found = [*search.by_whole_label(self.select, phrase, names, code, tags), *found]
        else:
            found = search.by_label(self.select, phrase, self._data.labels.predicates, code, lambda: self._data.dialect)
        elsewhere = not found or _PART_OF_IRI.search(phrase)
        if elsewhere and not any(one.exact for one in found) and (self._names or not self._data.dialect.text):
            found = [*found, *search.by_iri(self.select, phrase, self._data.dialect)]
        own = {one.id: one.label for one in (*classes, *properties)}
        things = [one for one in found if short(one.iri) not in own]
        result, things = search.best_rung(things, phrase, bool(own))
        if any(search.same_name(phrase, label) for label in own.values()):
            things = things if result.rung == "exact" else []
            result = replace(result, rung="exact")
        elif own and not things:
            result = replace(result, rung="near")
        shown = self._things(things[: limit - len(classes)], code)
        named_so = any(one.exact for one in things) and not any(search.same_name(phrase, one.label) for one in classes)
        entities = (*shown, *classes) if named_so else (*classes, *shown)
        return replace(result, entities=entities, properties=tuple(properties))

    def index_names(self, out: Path, tell: Callable[[int, str], None]) -> int:
        """Make a name index of the endpoint, and give how many names it has. Raises as ``names.collect``."""
        from kbnav.knowledge.endpoint.names import collect

        return collect(self.select, out, self._source.url, self._source.graph, self._data.labels.predicates, tell=tell)

    def named_since(self) -> int:
        """How many names the endpoint has beyond those of its index; below 0 where some went. Raises QueryTimeout."""
        if not self._names:
            return 0
        names = f"VALUES ?p {{ {iris_list([*self._data.labels.predicates, *ALIASES])} }} ?s ?p ?l . FILTER(isIRI(?s))"
        [[count]] = self.select(f"SELECT (COUNT(*) AS ?n) {{ SELECT DISTINCT ?s (STR(?l) AS ?t) {{ {names} }} }}").rows
        return whole(count) - self._names.count() if count else 0

    def _like(self, of: Callable[[str], Sequence[Word]], phrase: str, code: str, limit: int) -> list[Entity]:
        words = of(code)
        view = self._data.view([word.iri for word in words], code)
        is_property = of == self._data.properties
        found = []
        for word in search.like(words, view.labels, phrase, limit):
            counted = [] if word.count is None else [f"{word.count:,} {'uses' if is_property else 'members'}"]
            ends = ((name, ", ".join(map(view.short, word.declared.get(name, ())))) for name in ("domain", "range"))
            declared = [f"{name}: {iris}" for name, iris in ends if iris]
            about = [*([] if is_property else ["class"]), *counted, *declared, word.description]
            kind = "property" if is_property else "class"
            found.append(view.entity(word.iri, "; ".join(filter(None, about)), kind))
        return found

    def _things(self, matches: Sequence[search.Match], code: str) -> list[Entity]:
        if not matches:
            return []
        iris = [one.iri for one in matches]
        view, about = self._data.view(iris, code), self._data.descriptions(iris, code)
        named = ((one, view.labels.get(one.iri) or one.label) for one in matches)
        return [
            Entity(view.short(one.iri), label, about.get(one.iri, ""), alias=one.label if one.label != label else "")
            for one, label in named
        ]

    def get_entry(self, entity_id: str, *, language: str = "en") -> Entry:
        """See ``KnowledgeBase``. Nodes without a name are presented by what is said of them, as qualifiers."""
        code, iri = language_code(language), self._data.prefixes.iri(entity_id)
        rows = self._stated(iri)
        if not rows and not self.select(f"ASK {{ ?s ?p <{iri}> }}").boolean:
            other = respelled(iri)
            rows = self._stated(other) if other != iri else []
            if not rows:
                raise self._unknown(iri)
            iri = other
        unnamed = AnswerTable()
        if any(value.type == "bnode" for _, value in rows):
            nodes = f"<{iri}> ?p ?b . FILTER(isBlank(?b)) ?b ?q ?o"
            unnamed = self.select(f"SELECT ?p ?b ?q ?o WHERE {{ {nodes} }} LIMIT {_TRIPLES}")
        cells = chain(chain.from_iterable(rows), (cell for row in unnamed.rows for cell in row[2:] if cell))
        view = self._data.view([iri, *(cell.value for cell in cells if cell.type == "uri")], code)
        about = self._data.descriptions([iri], code).get(iri, "") if rows else ""
        return _entry(view.entity(iri, about), rows, _qualifiers(unnamed, view), view, code)

    def _stated(self, iri: str) -> list[tuple[Term, Term]]:
        return self._pairs(f"SELECT ?p ?o WHERE {{ <{iri}> ?p ?o }} LIMIT {_TRIPLES + 1}")

    def _pairs(self, query: str) -> list[tuple[Term, Term]]:
        return [(row[0], row[1]) for row in self.select(query).rows if row[0] and row[1]]

    def _unknown(self, iri: str) -> UnknownId:
        return UnknownId(
            f"{self._data.prefixes.short(iri)} is not in this endpoint: search for the name to find its id"
        )

    def get_property_examples(self, property_id: str, *, language: str = "en", limit: int = 5) -> Sequence[Example]:
        """See ``KnowledgeBase``; uses by different things first."""
        iri = self._data.prefixes.iri(property_id)
        table = self.select(f"SELECT ?s ?o WHERE {{ ?s <{iri}> ?o }} LIMIT {20 * limit}")
        if not table.rows:
            raise UnknownId(f"nothing here uses {self._data.prefixes.short(iri)}: search for the relation by its name")
        view = self._data.view([iri, *_iris(table)], language_code(language))
        seen: set[tuple[str, str]] = set()
        uses: list[tuple[bool, Term, Term]] = []
        for subject, value in ((row[0], row[1]) for row in table.rows):
            if subject and value and subject.type == "uri":
                ends = {("subject", subject.value), ("value", value.value)}
                uses.append((bool(ends & seen), subject, value))
                seen |= ends
        relation, chosen = view.entity(iri, kind="property"), sorted(uses, key=lambda use: use[0])[:limit]
        return tuple(Example(view.entity(one.value), relation, view.value(other)) for _, one, other in chosen)

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        """See ``KnowledgeBase``. In the engine's dialect, with the prefixes that it lacks declared in front."""
        sent, code = self.declared(query), language_code(language)
        added = sent.count("\n") - query.count("\n")
        known = {**self._data.prefixes.all, **STANDARD_PREFIXES}
        try:
            prepared = prepare(sent, self._data.dialect, services=self._services, prefixes=known, language=code)
        except QuerySyntaxError as error:
            raise _placed(error, added) from error
        triples = prepared.form in ("CONSTRUCT", "DESCRIBE")
        try:
            table = self.select(prepared.text, accept=ACCEPT_TRIPLES if triples else ACCEPT_ROWS)
        except QuerySyntaxError as error:
            if prepared.changed:  # its places are not those of the query
                raise QuerySyntaxError(f"syntax error: {error}") from error
            raise _placed(error, added) from error
        view = self._data.view(_iris(replace(table, rows=table.labelled_rows())), code)
        labels = {view.short(iri): label for iri, label in view.labels.items()}
        return replace(table, labels=labels, prefixes=self._data.prefixes.all)

    def select(self, query: str, *, accept: str = ACCEPT_ROWS) -> AnswerTable:
        """The rows of a query that is sent as it is, without labels; ``execute_query`` is for queries of others."""
        graph = {"default-graph-uri": self._source.graph} if self._source.graph else {}
        reader = partial(read_query, query=query)
        request = Request("sparql", self._source.url, {"query": query, **graph}, accept)
        return _with_hints(self._source, lambda: self._http.fetch(request, reader))

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
        iri = self._data.prefixes.iri(entity_id)
        chosen = self._data.prefixes.iri(relation) if relation else ""
        ways: tuple[Literal["out", "in"], ...] = ("out", "in") if direction == "both" else (direction,)
        found: list[tuple[Literal["out", "in"], str, Term]] = []
        for way in ways:
            edge = f"<{chosen}>" if chosen else "?p"
            triple = f"<{iri}> {edge} ?x" if way == "out" else f"?x {edge} <{iri}>"
            bound = f" BIND(<{chosen}> AS ?p)" if chosen else ""
            pairs = self._pairs(f"SELECT ?p ?x WHERE {{ {triple} .{bound} }} LIMIT {_EDGES}")
            found += dict.fromkeys((way, predicate.value, other) for predicate, other in pairs)
        if not found and not chosen and direction == "both":
            raise self._unknown(iri)
        named = [other.value for _, _, other in found if other.type == "uri"]
        view = self._data.view([iri, *(predicate for _, predicate, _ in found), *named], language_code(language))
        # What is of this kind is no neighbour of a class.
        candidates = [
            (Edge(way, view.entity(predicate, kind="property"), view.value(other)), label_from_iri(predicate))
            for way, predicate, other in found
            if predicate != TYPE or way == "out"
        ]
        return ranking.neighborhood(view.entity(iri), candidates, query, limit)

    def property_profile(self, property_id: str, *, language: str = "en") -> PropertyProfile:
        """See ``Profiled``."""
        iri = self._data.prefixes.iri(property_id)
        return shapes.property_profile(self.select, partial(self._data.view, code=language_code(language)), iri)

    def class_profile(self, entity_id: str, *, language: str = "en") -> ClassProfile:
        """See ``Profiled``."""
        shape = self.class_shape(entity_id, language=language)
        shares = tuple(Share(one.property, one.have) for one in shape.properties)
        return ClassProfile(shape.members, shape.members + shape.below, shape.limit, shape.sampled, shares)

    def class_shape(self, class_id: str, *, language: str = "en") -> ClassShape:
        """See ``Shaped``; from samples."""
        code, iri = language_code(language), self._data.prefixes.iri(class_id)
        views = partial(self._data.view, code=code)
        return self._data.once(("shape", iri, code), lambda: shapes.class_shape(self.select, views, iri))

    def incoming(self, entity_id: str, *, language: str = "en") -> Sequence[Share]:
        """See ``Profiled``; of the first 5,000 edges."""
        iri = self._data.prefixes.iri(entity_id)
        edges = f"SELECT ?p WHERE {{ ?x ?p <{iri}> }} LIMIT {_COUNTED}"
        pairs = self._pairs(
            f"SELECT ?p (COUNT(*) AS ?n) WHERE {{ {{ {edges} }} }} GROUP BY ?p ORDER BY DESC(?n) LIMIT 50"
        )
        view = self._data.view([predicate.value for predicate, _ in pairs], language_code(language))
        return tuple(Share(view.entity(predicate.value), whole(number)) for predicate, number in pairs)

    def label_predicates(self) -> Sequence[str]:
        """See ``Shaped``."""
        return [self._data.prefixes.short(iri) for iri in self._data.labels.predicates]

    def nameless(self) -> Sequence[tuple[Share, Sequence[str]]]:
        """See ``Shaped``; from up to 100 members of each of the largest classes."""
        texts, iri = self._data.labels.nameless, self._data.prefixes.iri
        return [(share, texts[iri(share.entity.id)]) for share in self.classes() if iri(share.entity.id) in texts]

    def classes(self, *, language: str = "en") -> Sequence[Share]:
        """See ``Shaped``. Classes of vocabularies (owl:Class and the like) are left out."""
        code = language_code(language)
        own = [word for word in self._data.classes(code) if not word.iri.startswith(OF_VOCABULARY)]
        view = self._data.view([word.iri for word in own], code)
        return [Share(view.entity(word.iri), word.count or 0) for word in own]

    def classes_named(self, question: str, *, language: str = "en", limit: int = 4) -> Sequence[str]:
        """See ``Shaped``."""
        classes = (share.entity for share in self.classes(language=language))
        scored = [(search.named_in(question, one.label), one.id) for one in classes]
        return [one for score, one in sorted(scored, key=lambda pair: -pair[0]) if score][:limit]

    def properties_named(self, question: str, *, language: str = "en", limit: int = 4) -> Sequence[Entity]:
        """See ``Shaped``."""
        code = language_code(language)
        own = [word for word in self._data.properties(code) if not word.iri.startswith(OF_VOCABULARY)]
        view = self._data.view([word.iri for word in own], code)
        entities = [view.entity(word.iri, kind="property") for word in own]
        scored = [(search.share_named(question, one.label), one) for one in entities]
        return [one for score, one in sorted(scored, key=lambda pair: -pair[0]) if score >= _HALF][:limit]

    def ids_in(self, query: str) -> Sequence[str]:
        """See ``Shaped``."""
        known = (*OF_VOCABULARY, *(STANDARD_PREFIXES[one] for one in ("xsd", "geo", "geof")))
        named = names_in(query, self._data.prefixes.all)
        return [self._data.prefixes.short(iri) for iri in named if not iri.startswith(known)]

    def declared(self, query: str) -> str:
        """See ``Shaped``."""
        missing = add_prefixes(query, self._data.prefixes.all).removesuffix(query).strip()
        return f"{missing.replace(' PREFIX ', chr(10) + 'PREFIX ')}\n{query}" if missing else query

    def vector_query(self, text: str, **options: object) -> Ranking:  # noqa: ARG002
        """See ``KnowledgeBase``. Raises BadArguments: an endpoint has no vectors."""
        raise BadArguments("vector_query: a SPARQL endpoint has no vectors: search for names")

    def labels(self, ids: Sequence[str], *, language: str = "en") -> Mapping[str, str]:
        """See ``KnowledgeBase``; ids that are none are left out."""
        iris: dict[str, str] = {}
        for one in ids:
            with suppress(UnknownId):
                iris[one] = self._data.prefixes.iri(one)
        found = self._data.labels.of(iris.values(), language_code(language))
        return {one: found[iri] for one, iri in iris.items() if iri in found}

    def close(self) -> None:
        """Close the kept connections."""
        self._http.close()
        if self._names:
            self._names.close()


def _entry(
    entity: Entity,
    rows: Sequence[tuple[Term, Term]],
    nested: Mapping[str, Sequence[tuple[Qualifier, ...]]],
    view: View,
    code: str,
) -> Entry:
    """The entry of a thing from its triples."""
    grouped: dict[str, list[Term]] = {}
    for predicate, value in rows[:_TRIPLES]:
        grouped.setdefault(predicate.value, []).append(value)
    statements: list[Statement] = []
    aliases: list[str] = []
    other = 0
    for edge in sorted(grouped, key=lambda one: one != TYPE):
        terms = fitting(grouped[edge], code)
        other += len(grouped[edge]) - len(terms)
        if edge in ALIASES:
            aliases += [term.value for term in terms]
        relation = view.entity(edge, kind="property")
        statements += [Statement(relation, view.value(term)) for term in terms if term.type != "bnode"]
        statements += [Statement(relation, Value(UNNAMED), qualifiers=own) for own in nested.get(edge, ())]
    omitted = {"other language": other, "beyond the limit": max(0, len(rows) - _TRIPLES)}
    left = {name: number for name, number in omitted.items() if number}
    return Entry(entity, tuple(statements), aliases=tuple(dict.fromkeys(aliases)), omitted=left)


def _qualifiers(nested: AnswerTable, view: View) -> dict[str, list[tuple[Qualifier, ...]]]:
    nodes: dict[tuple[str, str], list[Qualifier]] = {}
    for predicate, node, edge, value in nested.rows:
        if predicate and node and edge and value and edge.value != TYPE:
            one = Qualifier(view.entity(edge.value, kind="property"), view.value(value))
            nodes.setdefault((predicate.value, node.value), []).append(one)
    found: dict[str, list[tuple[Qualifier, ...]]] = {}
    for (predicate_iri, _), qualifiers in nodes.items():
        found.setdefault(predicate_iri, []).append(tuple(qualifiers))
    return found


def _iris(table: AnswerTable) -> list[str]:
    cells = chain.from_iterable(table.rows)
    return list(dict.fromkeys(cell.value for cell in cells if cell is not None and cell.type == "uri"))


def _placed(error: QuerySyntaxError, added: int) -> QuerySyntaxError:
    """The error with the place in the model's own text: ``added`` lines stood in front of it."""
    line = max(1, error.line - added) if error.line else 0
    text = _LINE.sub(lambda found: f"line {max(1, int(found[1]) - added)}", str(error))
    where = f" at line {line}, column {error.column}" if line and not _LINE.search(text) else ""
    return QuerySyntaxError(f"syntax error{where}: {text}" if where else text, line=line, column=error.column)
