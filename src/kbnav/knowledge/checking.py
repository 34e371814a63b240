"""Tries every interface of a knowledge base: what works, what it costs, and what to set where it does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from kbnav.answers.tables import AnswerTable
from kbnav.errors import KbnavError, StopRun
from kbnav.knowledge.base import KnowledgeBase, Meter, metered
from kbnav.knowledge.sparql.vocabulary import CONCEPTS, INSTANCE_OF, SUBCLASS_OF, vocabulary_of
from kbnav.settings.model import Endpoints, Settings, is_split
from kbnav.settings.systems import kb_kind

Verdict = Literal["works", "partly", "fails", "absent"]
_NEEDED = {
    "wikibase": ("queries", "IRIs", "search", "entry", "labels"),
    "sparql": ("queries", "search", "entry"),
    "skb": ("search", "entry", "neighbours"),
}
"""What agents cannot do without, by the kind of knowledge base."""
_PROPERTY = (
    "SELECT ?property ?label WHERE { ?property wikibase:directClaim ?direct ; rdfs:label ?label . "
    'FILTER(LANG(?label) = "en") } LIMIT 1'
)
_THING = "SELECT ?thing WHERE { ?thing ?edge ?text . FILTER(isIRI(?thing) && isLiteral(?text)) } LIMIT 1"
_MANY = 8
"""Concepts that are named where they are missing."""


@dataclass(frozen=True)
class Finding:
    """What came of trying one interface; ``remedy`` says what to set or do where it does not work."""

    what: str
    verdict: Verdict
    says: str
    remedy: str = ""
    seconds: float = 0.0
    requests: int = 0

    @property
    def record(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


Tried = tuple[Verdict, str, str]
"""A verdict, what is said of it, and a remedy."""


def check_kb(kb: KnowledgeBase, settings: Settings) -> Iterator[Finding]:
    """Try what a knowledge base promises, one thing after another. Whatever fails becomes a finding."""
    kind = kb_kind(kb)
    endpoints = Endpoints.model_validate(kb.state().get("endpoints", {}))  # those of the settings are Wikidata's
    trial = _Trial(kb, settings, endpoints)
    tries: list[tuple[str, Callable[[KnowledgeBase], Tried]]] = [("queries", trial.queries)]
    if kind == "wikibase":
        tries += [("IRIs", trial.iris), ("properties", trial.properties)]
    tries += [
        ("search", trial.search),
        ("entry", trial.entry),
        ("labels", trial.labels),
        ("neighbours", trial.neighbours),
        ("examples", trial.examples),
        ("vectors", trial.vectors),
    ]
    if kind == "wikibase":
        tries += [(f"other: {name}", trial.other(url)) for name, url in _others(endpoints)]
        tries += [("limits", trial.limits)]
    for what, attempt in tries:
        yield _finding(what, attempt, kb)


def broken(findings: list[Finding], kb: KnowledgeBase) -> list[str]:
    """What fails of that which agents need."""
    needed = _NEEDED[kb_kind(kb)]
    return [one.what for one in findings if one.what in needed and one.verdict == "fails"]


def _others(endpoints: Endpoints) -> list[tuple[str, str]]:
    found = [("scholarly articles", endpoints.scholarly)] if is_split(endpoints) else []
    return found + [(urlsplit(url).netloc, url) for url in endpoints.fallbacks]


def _finding(what: str, attempt: Callable[[KnowledgeBase], Tried], kb: KnowledgeBase) -> Finding:
    meter, began = Meter(), time.monotonic()
    try:
        verdict, says, remedy = attempt(metered(kb, meter))
    except _Nothing as error:
        verdict, says, remedy = "fails", str(error), ""
    except KbnavError as error:
        verdict, says, remedy = "fails", str(error).splitlines()[0], _REMEDIES.get(what, "")
    spent = time.monotonic() - began
    return Finding(what, verdict, says, remedy, round(spent, 3), sum(meter.sent.values()))


_REMEDIES: Mapping[str, str] = {
    "queries": "set endpoints.sparql to the query service (for another engine than Wikidata's, endpoints.dialect)",
    "search": "set endpoints.api to api.php of the wiki",
    "entry": "set endpoints.api to api.php of the wiki",
    "vectors": "set endpoints.vector to the base URL of a vector database, or to nothing",
}


class _Trial:
    """The attempts; a later one uses what an earlier one found."""

    def __init__(self, kb: KnowledgeBase, settings: Settings, endpoints: Endpoints) -> None:
        self._settings, self._endpoints, self._kind = settings, endpoints, kb_kind(kb)
        self._thing, self._label, self._property = "", "", ""

    def queries(self, kb: KnowledgeBase) -> Tried:
        if "execute_query" not in kb.capabilities:
            self._thing = _first_node(kb)
            return "absent", "it takes no SPARQL", "build it with triples, if agents are to query it"
        if self._kind == "skb":
            self._thing = _first_node(kb)
            rows = len(kb.execute_query("SELECT ?s WHERE { ?s ?p ?o } LIMIT 1"))
            return ("works", "SPARQL runs", "") if rows else ("partly", "SPARQL runs, and there is no triple", "")
        table = self._rows(kb, _PROPERTY if self._kind == "wikibase" else _THING)
        # Of a Wikibase whatever the IRI begins with: that is looked at next.
        own = [cell.entity_id or "" for row in table.rows for cell in row if cell and cell.type == "uri"]
        found = own if self._kind == "wikibase" else _cells(table)
        if not found:
            empty = "the query service answers, and has no property of a Wikibase: its prefixes or its data are others"
            remedy = "set wikibase.concept_base, or give the endpoint's own address as --kb"
            return ("fails", empty, remedy) if self._kind == "wikibase" else ("fails", "it has no data", "")
        if self._kind == "wikibase":
            self._property = found[0]
        else:
            self._thing = found[0]
        written = f", written for {engine}" if (engine := getattr(kb, "engine", "")) else ""
        return "works", f"SPARQL runs{written}; seen: {found[0]}", ""

    def iris(self, kb: KnowledgeBase) -> Tried:
        words = vocabulary_of(kb)
        table = self._rows(kb, "SELECT ?property WHERE { ?property wikibase:directClaim ?direct } LIMIT 1")
        iri = next((cell.value for row in table.rows for cell in row if cell), "")
        if not words.entity_id(iri):
            base = iri.rpartition("/")[0] + "/"
            return (
                "fails",
                f"entities are {base}…, and {words.concept_base}… was expected",
                (f'set wikibase.concept_base = "{base}"' if base != "/" else "set wikibase.concept_base"),
            )
        own = ", ".join(words.own_prefixes) or "none beside the usual ones"
        return "works", f"entities are {words.concept_base}…; prefixes of its own: {own}", ""

    def properties(self, kb: KnowledgeBase) -> Tried:
        words = vocabulary_of(kb)
        lacking = [one for one in CONCEPTS if not words.of(one)]
        first = f"instance of is {words.of(INSTANCE_OF) or 'not known'}, "
        first += f"subclass of is {words.of(SUBCLASS_OF) or 'not known'}"
        if not lacking:
            return "works", first, ""
        named = ", ".join(f"{CONCEPTS[one]} ({one} on Wikidata)" for one in lacking[:_MANY])
        more = f" and {len(lacking) - _MANY} more" if len(lacking) > _MANY else ""
        needed = {INSTANCE_OF, SUBCLASS_OF}.intersection(lacking)
        remedy = f'set wikibase.ids, as {lacking[0]} = "P…", if it has them under other names: {named}{more}'
        return "partly" if needed else "works", first, remedy

    def search(self, kb: KnowledgeBase) -> Tried:
        self._sample(kb)
        if not self._label:
            return "partly", "nothing with a label was seen, so that nothing can be looked for", ""
        kind: Literal["any", "property"] = "property" if self._property and not self._thing else "any"
        found = kb.search_entities(self._label, kind=kind)
        known = {one.id for one in (*found.entities, *found.properties)}
        wanted = self._thing or self._property
        if wanted in known:
            return "works", f"{self._label!r} finds {wanted}", ""
        if known:
            return "partly", f"{self._label!r} finds {len(known)} things, and {wanted} is not among them", ""
        return "fails", f"{self._label!r}, the name of {wanted}, finds nothing", _REMEDIES["search"]

    def entry(self, kb: KnowledgeBase) -> Tried:
        self._sample(kb)
        entry = kb.get_entry(self._thing or self._property)
        return "works", f"{entry.entity.id} has {len(entry.statements)} statements", ""

    def labels(self, kb: KnowledgeBase) -> Tried:
        self._sample(kb)
        wanted = self._thing or self._property
        label = kb.labels([wanted]).get(wanted, "")
        remedy = "" if self._kind == "wikibase" else "name the predicates of labels ([sparql.NAME] labels)"
        return ("works", f"{wanted} is {label!r}", "") if label else ("partly", f"{wanted} has no label", remedy)

    def neighbours(self, kb: KnowledgeBase) -> Tried:
        self._sample(kb)
        found = kb.search_neighbors(self._thing or self._property)
        return "works", f"{found.total} edges of {found.entity.id}", ""

    def examples(self, kb: KnowledgeBase) -> Tried:
        relation = self._property
        if not relation:
            self._sample(kb)
            edges = kb.search_neighbors(self._thing).edges
            relation = edges[0].relation.id.lstrip("^") if edges else ""
        if not relation:
            return "absent", "no relation was seen", ""
        return "works", f"{len(kb.get_property_examples(relation))} uses of {relation}", ""

    def vectors(self, kb: KnowledgeBase) -> Tried:
        if "vector_query" not in kb.capabilities:
            remedy = {
                "wikibase": "for Wikidata: set endpoints.vector, as https://wd-vectordb.wmcloud.org",
                "skb": "build it with vectors",
            }.get(self._kind, "")
            return "absent", "there is no search by meaning", remedy
        found = kb.vector_query(self._label or "anything", limit=3)
        return "works", f"{len(found.nodes)} found", ""

    def other(self, url: str) -> Callable[[KnowledgeBase], Tried]:
        """Another query service of the same knowledge base, by itself."""

        def attempt(kb: KnowledgeBase) -> Tried:
            rows = len(kb.ask_service(url, "SELECT ?s WHERE { ?s ?p ?o } LIMIT 1"))  # type: ignore[attr-defined]
            return ("works", url, "") if rows else ("partly", f"{url} answers, and has no data", "")

        return attempt

    def limits(self, kb: KnowledgeBase) -> Tried:  # noqa: ARG002 - nothing is asked
        limits, token = self._settings.limits, self._settings.access_token.get_secret_value()
        said = (
            f"{limits.query_seconds_per_minute:g} s of queries and {limits.errors_per_minute} errors a minute, "
            f"{limits.api_requests_per_minute or 'any number of'} API requests a minute "
            f"({'with' if token else 'without'} an access token), {limits.query_timeout:g} s for one query"
        )
        remedy = "" if token else "more API requests: set access_token, and limits.api_requests_per_minute"
        return "works", said, remedy

    def _rows(self, kb: KnowledgeBase, query: str) -> AnswerTable:
        """The rows of a query; of a Wikibase without their labels, which come from another service."""
        select: Callable[[str, str], AnswerTable] | None = getattr(kb, "ask_service", None)
        return select(self._endpoints.sparql, query) if select else kb.execute_query(query)

    def _sample(self, kb: KnowledgeBase) -> None:
        """Something that is there, with its label."""
        if self._label:
            return
        if not self._thing and self._property:
            used = [one for one in kb.get_property_examples(self._property) if one.subject.label]
            self._thing = used[0].subject.id if used else ""
        wanted = self._thing or self._property
        if not wanted:
            raise _Nothing("nothing was seen by a query, so that this cannot be tried")
        self._label = kb.labels([wanted]).get(wanted, "")


class _Nothing(StopRun):
    """There is nothing to try it with."""


def _cells(table: AnswerTable) -> list[str]:
    return [one for row in table.rows for cell in row if (one := table.entity(cell))]


def _first_node(kb: KnowledgeBase) -> str:
    skb = getattr(kb, "skb", None)
    return str(skb.id(0)) if skb is not None else ""


def in_short(finding: Finding) -> Finding:
    """The same with a line that fits a terminal."""
    return replace(finding, says=" ".join(finding.says.split())[:300])
