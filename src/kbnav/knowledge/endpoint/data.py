"""What is known of an endpoint and its data: prefixes, labels, classes and properties.

Each is found out by a query or two when it is first needed, and kept while the endpoint is open. An endpoint too large
to be counted in its time limit is asked for what it declares, and then for a sample.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from kbnav.answers.tables import AnswerTable, Term, short_name
from kbnav.errors import QueryRefused, QuerySyntaxError, QueryTimeout, TellModel, UnknownId
from kbnav.knowledge.base import Entity, Value
from kbnav.knowledge.sparql.dialects import Dialect
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES, TABLES, label_from_iri, text_literal
from kbnav.settings.model import SparqlSource

T = TypeVar("T")
Select = Callable[[str], AnswerTable]
"""Runs a query."""

_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_OWL = "http://www.w3.org/2002/07/owl#"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_VANN = "http://purl.org/vocab/vann/"
_SHACL = "http://www.w3.org/ns/shacl#"
TYPE, SUBCLASS = f"{_RDF}type", f"{_RDFS}subClassOf"
LABELS = (
    f"{_RDFS}label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://schema.org/name",
    "https://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
    "http://purl.org/dc/terms/title",
)
"""Predicates of labels, the best first."""
ALIASES = ("http://www.w3.org/2004/02/skos/core#altLabel", "http://schema.org/alternateName")
DESCRIPTIONS = (
    f"{_RDFS}comment",
    "http://www.w3.org/2004/02/skos/core#definition",
    "http://schema.org/description",
    "http://purl.org/dc/terms/description",
    "http://purl.org/dc/elements/1.1/description",
    "http://dbpedia.org/ontology/abstract",
)
OF_VOCABULARY = (_RDFS, _OWL, _RDF, _SHACL)
"""Namespaces whose classes describe vocabularies, not the things that questions are about."""
COMMON: Mapping[str, str] = MappingProxyType(
    {
        **{
            prefix: namespace
            for prefix, namespace in STANDARD_PREFIXES.items()
            if not namespace.startswith(("http://www.wikidata.org/", "http://www.bigdata.com/"))
            and prefix not in ("mwapi", "wdsubgraph")
        },
        **TABLES["endpoints"],
    }
)
"""Prefixes that every endpoint's queries may use without declaring them, unless the endpoint's own say otherwise."""
UNNAMED = "(a node without a name)"
_IRI = re.compile(r"<?([A-Za-z][A-Za-z0-9+.-]*:(?://|[^\s<>/])[^\s<>\"{}|\\^`]*)>?")
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,30}")
_PARTS = re.compile(r"[^A-Za-z0-9]+")
_ESCAPE = re.compile(r"\\([_~.\-!$&'()*+,;=/?#@%])")
_VAGUE = frozenset(
    {"ontology", "resource", "vocab", "ns", "schema", "id", "data", "core", "rdf", "owl", "www", "instance"}
)
_CLASSES, _PROPERTIES = 1_000, 2_000
"""Classes and properties that are looked at, those used most."""
_SAMPLED = 100_000
SIDE_BY_SIDE = 4
"""Queries that are sent at once; the Wikidata Query Service allows five."""
_LOOKED_AT = 20
"""Classes whose members are looked at for names."""
_TAGS = 12
"""Languages of labels that names are looked for in."""
_BATCH, _MOST_LABELS = 100, 50_000
"""IRIs that one query asks of; labels that are held in memory."""
_LONGEST = 2_000
"""Characters of one text."""
_DECLARED = (f"{_RDFS}domain", f"{_RDFS}range", SUBCLASS)
_FAILED = (QueryTimeout, QueryRefused, QuerySyntaxError)


def iris_list(iris: Iterable[str]) -> str:
    """IRIs as a VALUES clause lists them."""
    return " ".join(f"<{iri}>" for iri in iris)


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What each call gives, made in threads, at most four at a time. Raises what the first of them raises that does."""
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(SIDE_BY_SIDE, "kbnav-endpoint") as pool:
        futures = [pool.submit(copy_context().run, call) for call in calls]
        return [future.result() for future in futures]


def _batched(
    select: Select, query: Callable[[Sequence[str]], str], iris: Sequence[str], size: int = 0
) -> list[tuple[Sequence[str], AnswerTable]]:
    """Batches of IRIs with their tables; a batch that is refused, as for its length, is asked in halves."""
    size = size or _BATCH

    def ask(batch: Sequence[str]) -> list[tuple[Sequence[str], AnswerTable]]:
        try:
            return [(batch, select(query(batch)))]
        except QueryRefused:
            if len(batch) == 1:
                raise
            return _batched(select, query, batch, (len(batch) + 1) // 2)

    batches = [iris[start : start + size] for start in range(0, len(iris), size)]
    return [one for found in side_by_side([partial(ask, batch) for batch in batches]) for one in found]


def languages(code: str) -> tuple[str, ...]:
    """Language tags, the best first: the asked one, no tag, several languages, English."""
    return tuple(dict.fromkeys((code, code.partition("-")[0], "", "mul", "en")))


def _tags(code: str) -> str:
    return ", ".join(text_literal(tag) for tag in languages(code))


def whole(term: Term) -> int:
    """A number of a result, without its fraction."""
    return int(float(term.value))


class Prefixes:
    """Prefixes of one endpoint: its own go before those that are common."""

    def __init__(self, own: Mapping[str, str] = MappingProxyType({})) -> None:
        self.own = dict(own)
        taken = set(self.own.values())
        rest = {name: space for name, space in COMMON.items() if name not in self.own and space not in taken}
        self.all: dict[str, str] = {**self.own, **rest}

    def short(self, iri: str) -> str:
        """``ex:Foo``, or ``<IRI>``."""
        return short_name(iri, self.all)

    def iri(self, text: str) -> str:
        """The IRI that a model means: a prefixed name, an IRI with or without brackets. Raises UnknownId."""
        given = text.strip().strip("`")
        prefix, colon, local = given.partition(":")
        if colon and prefix in self.all and not given.startswith("<"):
            return self.all[prefix] + _ESCAPE.sub(r"\1", local)
        found = _IRI.fullmatch(given)
        if not found or (not given.startswith("<") and "//" not in given and not given.lower().startswith("urn:")):
            known = ", ".join(f"{name}:" for name in self.own) or "none"
            hint = (
                f"the prefix {prefix}: is not known here (this endpoint's are: {known})" if colon else "it is neither"
            )
            raise UnknownId(
                f"{given[:80]!r} is no id: ids are prefixed names or IRIs between < and >, and {hint}. "
                "Search for the name to find its id, and give that"
            )
        return found[1]

    def with_namespaces(self, published: Mapping[str, str], iris: Iterable[str]) -> Prefixes:
        """With prefixes that the data publishes, and made-up ones for the namespaces of some IRIs that have none."""
        own = dict(self.own)
        for prefix, namespace in published.items():
            if _PREFIX.fullmatch(prefix) and prefix not in own and namespace not in own.values():
                own[prefix] = namespace
        for namespace in dict.fromkeys(map(_namespace, iris)):
            known = namespace in own.values() or namespace in COMMON.values()
            if namespace.startswith(("http://", "https://", "urn:")) and not known:
                own |= dict.fromkeys(_made_up(namespace, {*own, *COMMON}), namespace)
        return Prefixes(own)


def _namespace(iri: str) -> str:
    return iri[: max(iri.rfind(mark) for mark in "#/:") + 1]


def _made_up(namespace: str, taken: set[str]) -> list[str]:
    """A prefix of the namespace's own last words: ``http://ld.company.org/prod-vocab/`` gives ``prodvocab``."""
    host, _, path = namespace.split("://", 1)[-1].partition("/")
    last = [part for part in path.lower().rstrip("/#").split("/") if part]
    joined = ["".join(_PARTS.split(last[-1]))] if last else []
    words = [part for part in _PARTS.split(path.lower()) if part and not part.isdigit()]
    domain = [part for part in host.lower().split(".")[:-1] if part != "www"]
    own = [*joined, *reversed(words)]
    vague, clear = ([one for one in own if (one in _VAGUE) == is_vague] for is_vague in (True, False))
    candidates = [*clear, *reversed(domain), *vague, *(f"ns{number}" for number in range(1, 100))]
    return [one for one in candidates if _PREFIX.fullmatch(one) and one not in taken][:1]


@dataclass
class Labels:
    """Labels of IRIs, by the predicates that the endpoint has, the best first; many in one query."""

    select: Select
    predicates: Sequence[str]
    nameless: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Classes most of whose members have no label, each with its properties of texts, the commonest first."""
    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    def of(self, iris: Iterable[str], code: str) -> dict[str, str]:
        """Labels by IRI; IRIs without a label are left out. Raises what the query raises."""
        wanted = [iri for iri in dict.fromkeys(iris) if ":" in iri and not re.search(r"[\x00-\x20<>\"{}|\\^`]", iri)]
        missing = [iri for iri in wanted if (iri, code) not in self._known]

        def query(batch: Sequence[str]) -> str:  # labels in the languages wanted, else any
            subjects = f"VALUES ?s {{ {iris_list(batch)} }}"
            edges = f"VALUES ?p {{ {iris_list(self.predicates)} }} ?s ?p ?o"
            return (
                f"SELECT ?s ?p ?l WHERE {{ {{ SELECT ?s ?p (?o AS ?l) WHERE {{ {subjects} {edges} . "
                f"FILTER(LANG(?o) IN ({_tags(code)})) }} }} UNION {{ SELECT ?s (SAMPLE(?o) AS ?l) WHERE {{ "
                f"{subjects} {edges} . FILTER(isLiteral(?o)) }} GROUP BY ?s }} }}"
            )

        for batch, table in _batched(self.select, query, missing if self.predicates else ()):
            found = best_labels(table, self.predicates, code)
            if len(self._known) > _MOST_LABELS:
                self._known.clear()
            self._known |= {(iri, code): found.get(iri, "") for iri in batch}
        return {iri: label for iri in wanted if (label := self._known.get((iri, code), ""))}


def best_labels(table: AnswerTable, predicates: Sequence[str], code: str) -> dict[str, str]:
    """The best label of each subject of such a result: by language first, then by predicate."""
    order = {tag: place for place, tag in enumerate(languages(code))}
    found: dict[str, tuple[int, int, str]] = {}
    for subject, predicate, label in table.rows:
        if subject is None or label is None or not label.value.strip():
            continue
        place = predicates.index(predicate.value) if predicate and predicate.value in predicates else len(predicates)
        rank = (order.get((label.language or "").lower(), len(order)), place, label.value)
        found[subject.value] = min(found.get(subject.value, rank), rank)
    return {iri: label for iri, (_, _, label) in found.items()}


def fitting(terms: Sequence[Term], code: str) -> list[Term]:
    """Of texts in several languages those of the best language that there is; all others as they are."""
    tags = {(term.language or "").lower() for term in terms if term.type == "literal"}
    if not any(tags):
        return list(terms)
    chosen = next((tag for tag in languages(code) if tag in tags and tag), sorted(tags)[-1])
    return [term for term in terms if not term.language or term.language.lower() == chosen]


@dataclass(frozen=True)
class Word:
    """A class or a property: ``count`` of members or uses, None where not counted; ``declared`` what is said of it."""

    iri: str
    count: int | None = None
    description: str = ""
    declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """IRIs by ``domain``, ``range`` and ``subClassOf``."""


@dataclass(frozen=True)
class View:
    """How terms are presented: by their short names and labels."""

    short: Callable[[str], str]
    labels: Mapping[str, str]

    def entity(self, iri: str, description: str = "", kind: str = "item") -> Entity:
        """An IRI as an entity; without a label it is called by its last part."""
        return Entity(self.short(iri), self.labels.get(iri) or label_from_iri(iri), description, kind=kind)

    def value(self, term: Term) -> Value:
        """A term: an IRI by its label, a literal with its language, and its datatype where it is no plain text."""
        if term.type == "bnode":
            return Value(UNNAMED)
        if term.type == "uri":
            return Value(self.labels.get(term.value, ""), id=self.short(term.value))
        text = term.value if len(term.value) <= _LONGEST else f"{term.value[:_LONGEST]}…"
        datatype = self.short(term.datatype) if term.datatype and not term.language else "text"
        return Value(f"{text} ({term.language})" if term.language else text, datatype=datatype)


class Data:
    """Asks each thing once, however many threads want it. All raise what the queries raise."""

    def __init__(self, select: Select, source: SparqlSource, dialect: Callable[[], Dialect]) -> None:
        self._select = select
        self._source = source
        self._find_dialect = dialect
        self._lock, self._finding = threading.Lock(), defaultdict[object, threading.RLock](threading.RLock)
        self.known: dict[Any, Any] = {}
        """What was found out so far, ``prefixes`` and ``dialect`` among it."""

    def once(self, key: object, find: Callable[[], T]) -> T:
        """What ``find`` gives, found once for each key."""
        with self._lock:
            finding = self._finding[key]
        with finding:
            if key not in self.known:
                self.known[key] = find()
            found: T = self.known[key]
            return found

    @property
    def dialect(self) -> Dialect:
        """What the engine understands."""
        return self.once("dialect", self._find_dialect)

    @property
    def prefixes(self) -> Prefixes:
        """The settings' prefixes, those that the data publishes, and made-up ones for its other namespaces."""
        return self.once("prefixes", self._find_prefixes)

    @property
    def labels(self) -> Labels:
        """Labels by the predicates that the data uses."""
        return self.once("labels", self._find_labels)

    @property
    def tags(self) -> tuple[str, ...]:
        """The commonest languages of its labels, by a sample; none where that takes too long."""
        return self.once("tags", self._find_tags)

    def _find_tags(self) -> tuple[str, ...]:
        labels = f"VALUES ?p {{ {iris_list(self.labels.predicates)} }} ?s ?p ?l . FILTER(LANG(?l) != '')"
        sample = f"SELECT ?l WHERE {{ {labels} }} LIMIT {_SAMPLED}"
        query = f"SELECT ?tag (COUNT(*) AS ?n) WHERE {{ {{ {sample} }} }} GROUP BY (LANG(?l) AS ?tag) ORDER BY DESC(?n)"
        with suppress(*_FAILED):
            return tuple(tag.value for tag, *_ in self._select(f"{query} LIMIT {_TAGS}").rows if tag)
        return ()

    def classes(self, code: str) -> tuple[Word, ...]:
        """Classes, the largest first, described in a language; then those that have members by subclasses alone."""
        return self.once(("classes", code), lambda: self._find_classes(code))

    def properties(self, code: str) -> tuple[Word, ...]:
        """Properties with their uses, the commonest first, described in a language."""
        kinds = (f"{_OWL}ObjectProperty", f"{_OWL}DatatypeProperty", f"{_RDF}Property")
        return self.once(("properties", code), lambda: self._words("COUNT(*)", "?s ?c ?o", kinds, _PROPERTIES, code))

    def view(self, iris: Iterable[str], code: str) -> View:
        """How some IRIs are presented in a language."""
        return View(self.prefixes.short, self.labels.of(iris, code))

    def descriptions(self, iris: Sequence[str], code: str) -> dict[str, str]:
        """A line on each of some IRIs: what it is, and its description where it has one."""
        query = (
            f"SELECT ?s ?p ?o WHERE {{ VALUES ?s {{ {iris_list(iris)} }} "
            f"VALUES ?p {{ {iris_list([TYPE, *DESCRIPTIONS])} }} "
            f"?s ?p ?o . FILTER(isIRI(?o) || LANG(?o) IN ({_tags(code)})) }} LIMIT {20 * len(iris)}"
        )
        types: dict[str, list[str]] = {}
        texts: dict[str, str] = {}
        for subject, predicate, value in self._select(query).rows:
            if subject is None or predicate is None or value is None:
                continue
            if predicate.value == TYPE:
                types.setdefault(subject.value, []).append(value.value)
            elif value.type == "literal":
                texts.setdefault(subject.value, value.value)
        labels = self.labels.of([one for own in types.values() for one in own], code)
        kinds = {
            iri: ", ".join(labels.get(one) or label_from_iri(one) for one in own[:3]) for iri, own in types.items()
        }
        found = dict.fromkeys([*types, *texts])
        return {iri: "; ".join(filter(None, (kinds.get(iri), texts.get(iri)))) for iri in found}

    def _find_labels(self) -> Labels:
        candidates = tuple(dict.fromkeys((*self._source.labels, *LABELS)))
        table = self._select(
            f"SELECT DISTINCT ?p WHERE {{ VALUES ?p {{ {iris_list(candidates)} }} FILTER EXISTS {{ ?s ?p ?o }} }}"
        )
        used = {row[0].value for row in table.rows if row[0]}
        usual = tuple(one for one in candidates if one in used)
        likely: list[str] = []
        nameless: dict[str, tuple[str, ...]] = {}
        with suppress(*_FAILED):
            likely, nameless = self._like_labels(usual)
        return Labels(self._select, (*usual, *likely), nameless)

    def _like_labels(self, usual: Sequence[str]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
        """For each class most of whose members have no ``usual`` label, the property whose texts look like names.

        They are short, one a thing, different for most, and most members have one. And the classes where none does so,
        with their properties of texts, the commonest first.
        """
        classes = [word.iri for word in self.classes("en") if not word.iri.startswith(OF_VOCABULARY)][:_LOOKED_AT]
        members = "SELECT ?s (<{0}> AS ?c) WHERE {{ ?s a <{0}> . FILTER(isIRI(?s)) }} LIMIT 100"
        query = (
            "SELECT ?c ?p (COUNT(DISTINCT ?s) AS ?things) (COUNT(DISTINCT ?o) AS ?texts) (COUNT(*) AS ?all) "
            f"(AVG(STRLEN(STR(?o))) AS ?length) (SAMPLE(?o) AS ?one) WHERE {{ "
            f"{{ {' } UNION { '.join(map(members.format, classes))} }} ?s ?p ?o . "
            f"FILTER(?p = <{TYPE}> || (isLITERAL(?o) && !isNUMERIC(?o))) }} GROUP BY ?c ?p"
        )
        found: dict[str, dict[str, tuple[float, bool]]] = {}
        for kind, predicate, *numbers, text in self._select(query).rows if classes else ():
            things, texts, rows, length = (float(one.value) if one else 0.0 for one in numbers)
            plain = text is not None and text.datatype in (None, f"{_RDF}langString")
            named = plain and rows <= 1.2 * things and texts >= 0.8 * things and 2 < length < 80
            if kind and predicate and (plain or predicate.value == TYPE):
                found.setdefault(kind.value, {})[predicate.value] = things, named
        likely: dict[str, None] = {}
        nameless: dict[str, tuple[str, ...]] = {}
        for iri, texts_of in found.items():
            most = texts_of.pop(TYPE, (0.0, False))[0] / 2
            if not most:  # Virtuoso gives no types of some classes
                continue
            if not any(things >= most for one, (things, _) in texts_of.items() if one in usual):
                others = sorted((-things, one) for one, (things, _) in texts_of.items() if one not in usual)
                best = [one for less, one in others if texts_of[one][1] and -less >= most][:1]
                likely |= dict.fromkeys(best)
                nameless |= {} if best else {iri: tuple(one for _, one in others)}
        return list(likely), nameless

    def _find_prefixes(self) -> Prefixes:
        query = (
            f"SELECT ?prefix ?namespace WHERE {{ {{ ?o <{_VANN}preferredNamespacePrefix> ?prefix ; "
            f"<{_VANN}preferredNamespaceUri> ?namespace }} UNION "
            f"{{ ?o <{_SHACL}prefix> ?prefix ; <{_SHACL}namespace> ?namespace }} }} LIMIT 500"
        )

        def words() -> list[str]:
            found: list[str] = []
            with suppress(TellModel):
                classes, properties = side_by_side([lambda: self.classes("en"), lambda: self.properties("en")])
                found += [word.iri for word in (*classes, *properties)]
                # The namespaces of things are worth a prefix where several share them.
                samples = [f"{{ SELECT ?s WHERE {{ ?s a <{word.iri}> }} LIMIT 3 }}" for word in classes[:20]]
                rows = self._select(f"SELECT ?s WHERE {{ {' UNION '.join(samples)} }}").rows if samples else ()
                things = [row[0].value for row in rows if row[0] and row[0].type == "uri"]
                often = Counter(map(_namespace, things))
                found += [iri for iri in things if often[_namespace(iri)] > 2]
            return found

        def published() -> AnswerTable:
            with suppress(*_FAILED):
                return self._select(query)
            return AnswerTable()

        def dialect() -> None:  # it will be needed, and takes as long
            with suppress(TellModel):
                _ = self.dialect

        calls: tuple[Callable[[], Any], ...] = (words, published, dialect)
        iris, table, _ = side_by_side(calls)
        own = {row[0].value.rstrip(":"): row[1].value for row in table.rows if row[0] and row[1] and row[1].value}
        return Prefixes(self._source.prefixes).with_namespaces(own, iris)

    def _find_classes(self, code: str) -> tuple[Word, ...]:
        found = self._words("COUNT(?s)", "?s a ?c", (f"{_OWL}Class", f"{_RDFS}Class"), _CLASSES, code)
        known = {word.iri for word in found}
        wider = [iri for word in found for iri in word.declared.get("subClassOf", ()) if iri not in known]
        return (*found, *self._described(dict.fromkeys(wider, 0), code))

    def _words(self, count: str, pattern: str, kinds: Sequence[str], limit: int, code: str) -> tuple[Word, ...]:
        """Classes or properties by counting, by declarations or by a sample: the first that gives any."""
        declared = f"VALUES ?kind {{ {iris_list(kinds)} }} ?c a ?kind . FILTER(isIRI(?c))"
        sample = f"{{ SELECT ?c WHERE {{ {pattern} }} LIMIT {_SAMPLED} }}"
        queries = (
            f"SELECT ?c ({count} AS ?n) WHERE {{ {pattern} }} GROUP BY ?c ORDER BY DESC(?n) LIMIT {limit}",
            f"SELECT DISTINCT ?c WHERE {{ {declared} }} LIMIT {limit}",
            f"SELECT DISTINCT ?c WHERE {{ {sample} }} LIMIT {limit}",
        )
        counts: dict[str, int | None] = {}
        for query in queries:
            try:
                rows = self._select(query).rows
            except _FAILED:
                if query == queries[-1]:
                    raise
                continue
            for word, *number in rows:
                if word is not None and word.type == "uri":
                    counts[word.value] = whole(number[0]) if number and number[0] else None
            if rows:
                break
        return self._described(counts, code)

    def _described(self, counts: Mapping[str, int | None], code: str) -> tuple[Word, ...]:
        """Words with their descriptions and what is declared of them; nothing of it where that cannot be asked."""
        iris = list(counts)
        texts: dict[str, str] = {}
        declared: dict[str, dict[str, tuple[str, ...]]] = {}

        def query(batch: Sequence[str]) -> str:
            return (
                f"SELECT ?s ?p ?o WHERE {{ VALUES ?s {{ {iris_list(batch)} }} "
                f"VALUES ?p {{ {iris_list([*DESCRIPTIONS, *_DECLARED])} }} ?s ?p ?o . "
                f"FILTER(isIRI(?o) || LANG(?o) IN ({_tags(code)})) }} LIMIT {_BATCH * 30}"
            )

        with suppress(*_FAILED):
            for subject, predicate, value in (
                row for _, table in _batched(self._select, query, iris) for row in table.rows
            ):
                if subject is None or predicate is None or value is None:
                    continue
                if value.type == "literal" and predicate.value in DESCRIPTIONS:
                    texts.setdefault(subject.value, value.value)
                elif predicate.value in _DECLARED:
                    own, name = declared.setdefault(subject.value, {}), predicate.value.removeprefix(_RDFS)
                    own[name] = (*own.get(name, ()), value.value)
        return tuple(Word(iri, count, texts.get(iri, ""), declared.get(iri, {})) for iri, count in counts.items())
