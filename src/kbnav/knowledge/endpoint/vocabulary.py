"""What an endpoint's data is made of: its classes and properties with counts, and the prefixes and labels it uses.

Each is one query, asked when it is first needed. An endpoint too large to be counted in its time limit is asked for
what it declares, and then for a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kbnav.answers.tables import AnswerTable
from kbnav.errors import QueryRefused, QuerySyntaxError, QueryTimeout
from kbnav.knowledge.endpoint.labels import BATCH, Select, languages
from kbnav.knowledge.endpoint.names import DESCRIPTIONS, values
from kbnav.knowledge.sparql.vocabulary import text_literal

CLASSES, PROPERTIES = 1_000, 2_000
"""Classes and properties that are looked at, those used most."""
_SAMPLED = 100_000
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_OWL = "http://www.w3.org/2002/07/owl#"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_VANN = "http://purl.org/vocab/vann/"
_SHACL = "http://www.w3.org/ns/shacl#"
_KINDS_OF_CLASS = (f"{_OWL}Class", f"{_RDFS}Class")
_KINDS_OF_PROPERTY = (f"{_OWL}ObjectProperty", f"{_OWL}DatatypeProperty", f"{_RDF}Property")
OF_VOCABULARY = (_RDFS, _OWL, _RDF, _SHACL)
"""Namespaces whose classes describe vocabularies, not the things that questions are about."""
_TOLD = (f"{_RDFS}domain", f"{_RDFS}range", f"{_RDFS}subClassOf")
_FAILED = (QueryTimeout, QueryRefused, QuerySyntaxError)


@dataclass(frozen=True)
class Word:
    """A class or a property: ``count`` of members or uses, None where not counted; ``told`` what is declared of it."""

    iri: str
    count: int | None = None
    description: str = ""
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def declared(self, name: str) -> tuple[str, ...]:
        """IRIs declared as its ``domain``, ``range`` or ``subClassOf``."""
        return self.told.get(f"{_RDFS}{name}", ())


def label_predicates(select: Select, candidates: Sequence[str]) -> tuple[str, ...]:
    """Those of the candidates that the data uses, in their order."""
    table = select(f"SELECT DISTINCT ?p WHERE {{ VALUES ?p {{ {values(candidates)} }} FILTER EXISTS {{ ?s ?p ?o }} }}")
    used = {row[0].value for row in table.rows if row[0]}
    return tuple(one for one in candidates if one in used)


def published_prefixes(select: Select) -> dict[str, str]:
    """Prefixes that the data itself gives its namespaces (VANN, SHACL)."""
    query = (
        f"SELECT ?prefix ?namespace WHERE {{ {{ ?o <{_VANN}preferredNamespacePrefix> ?prefix ; "
        f"<{_VANN}preferredNamespaceUri> ?namespace }} UNION "
        f"{{ ?o <{_SHACL}prefix> ?prefix ; <{_SHACL}namespace> ?namespace }} }} LIMIT 500"
    )
    try:
        table = select(query)
    except _FAILED:
        return {}
    return {row[0].value.rstrip(":"): row[1].value for row in table.rows if row[0] and row[1] and row[1].value}


def classes(select: Select, code: str) -> tuple[Word, ...]:
    """Classes with their members, the largest first; then those that have members by their subclasses alone."""
    counted = f"SELECT ?c (COUNT(?s) AS ?n) WHERE {{ ?s a ?c }} GROUP BY ?c ORDER BY DESC(?n) LIMIT {CLASSES}"
    sampled = f"SELECT DISTINCT ?c WHERE {{ {{ SELECT ?c WHERE {{ ?s a ?c }} LIMIT {_SAMPLED} }} }} LIMIT {CLASSES}"
    found = _words(select, [counted, _declared(_KINDS_OF_CLASS, CLASSES), sampled], code)
    known = {word.iri for word in found}
    wider = [iri for word in found for iri in word.declared("subClassOf") if iri not in known]
    described, told = _about(select, list(dict.fromkeys(wider)), code)
    return (*found, *(Word(iri, 0, described.get(iri, ""), told.get(iri, {})) for iri in dict.fromkeys(wider)))


def properties(select: Select, code: str) -> tuple[Word, ...]:
    """Properties with their uses, the commonest first."""
    counted = f"SELECT ?c (COUNT(*) AS ?n) WHERE {{ ?s ?c ?o }} GROUP BY ?c ORDER BY DESC(?n) LIMIT {PROPERTIES}"
    sampled = f"SELECT DISTINCT ?c WHERE {{ {{ SELECT ?c WHERE {{ ?s ?c ?o }} LIMIT {_SAMPLED} }} }} LIMIT {PROPERTIES}"
    return _words(select, [counted, _declared(_KINDS_OF_PROPERTY, PROPERTIES), sampled], code)


def _declared(kinds: Sequence[str], limit: int) -> str:
    pattern = f"VALUES ?kind {{ {values(kinds)} }} ?c a ?kind . FILTER(isIRI(?c))"
    return f"SELECT DISTINCT ?c WHERE {{ {pattern} }} LIMIT {limit}"


def _words(select: Select, queries: Sequence[str], code: str) -> tuple[Word, ...]:
    table = _first_with_rows(select, queries)
    counts: dict[str, int | None] = {}
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        word, number = cells.get("c"), cells.get("n")
        if word is not None and word.type == "uri":
            counts[word.value] = int(float(number.value)) if number else None
    described, told = _about(select, list(counts), code)
    return tuple(Word(iri, count, described.get(iri, ""), told.get(iri, {})) for iri, count in counts.items())


def _first_with_rows(select: Select, queries: Sequence[str]) -> AnswerTable:
    """The first result with rows; a query that fails for its size gives way to the next. Raises as the last does."""
    table = AnswerTable()
    for number, query in enumerate(queries):
        try:
            table = select(query)
        except _FAILED:
            if number == len(queries) - 1:
                raise
            continue
        if table.rows:
            return table
    return table


def _about(
    select: Select, iris: Sequence[str], code: str
) -> tuple[dict[str, str], dict[str, dict[str, tuple[str, ...]]]]:
    """Descriptions of words, and what is declared of them; nothing where that cannot be asked."""
    described: dict[str, str] = {}
    told: dict[str, dict[str, tuple[str, ...]]] = {}
    tags = ", ".join(text_literal(tag) for tag in languages(code))
    for start in range(0, len(iris), BATCH):
        query = (
            f"SELECT ?s ?p ?o WHERE {{ VALUES ?s {{ {values(iris[start : start + BATCH])} }} "
            f"VALUES ?p {{ {values([*DESCRIPTIONS, *_TOLD])} }} ?s ?p ?o . "
            f"FILTER(isIRI(?o) || LANG(?o) IN ({tags})) }} LIMIT {BATCH * 30}"
        )
        try:
            table = select(query)
        except _FAILED:
            break
        for subject, predicate, value in table.rows:
            if subject is None or predicate is None or value is None:
                continue
            if value.type == "literal" and predicate.value in DESCRIPTIONS:
                described.setdefault(subject.value, value.value)
            elif predicate.value in _TOLD:
                own = told.setdefault(subject.value, {})
                own[predicate.value] = (*own.get(predicate.value, ()), value.value)
    return described, told


Lookup = Callable[[Sequence[str]], Mapping[str, str]]
"""From IRIs to labels."""
