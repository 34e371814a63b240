"""Tries every interface of a knowledge base: what works, what it costs, and what to set where it does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal

from kbnav.answers.language import plural
from kbnav.answers.tables import AnswerTable
from kbnav.errors import CredentialsError, KbnavError, ServiceError, Stopped, TellModel
from kbnav.knowledge.base import KnowledgeBase, Meter, Shaped, counted_by
from kbnav.knowledge.sparql.vocabulary import CONCEPTS, INSTANCE_OF, SUBCLASS_OF, vocabulary_of
from kbnav.models.cancellation import Cancellation
from kbnav.settings.model import Settings
from kbnav.settings.systems import kb_kind

Verdict = Literal["works", "partly", "fails", "absent", "not tried"]
TIME = 110.0
"""Seconds after which nothing more is tried."""
_NEEDED = {
    "wikibase": ("queries", "IRIs", "search", "entry", "labels"),
    "sparql": ("queries", "search", "entry", "labels"),
    "skb": ("search", "entry", "neighbours"),
}
"""What agents cannot do without, by the kind of knowledge base."""
_PROPERTY = (
    "SELECT ?property ?label WHERE { ?property wikibase:directClaim ?direct ; rdfs:label ?label . "
    'FILTER(LANG(?label) = "en") } LIMIT 1'
)
_THING = "SELECT ?thing WHERE { ?thing ?edge ?text . FILTER(isIRI(?thing) && isLiteral(?text)) } LIMIT 1"
_MANY = 8
"""Concepts that are named where they are missing; classes that are named where they are there."""


@dataclass(frozen=True)
class Finding:
    """What came of trying one interface; ``remedy`` says what to set or do where it does not work."""

    what: str
    verdict: Verdict
    says: str
    remedy: str = ""
    seconds: float = 0.0
    requests: int = 0


Tried = tuple[Verdict, str, str]
"""A verdict, what is said of it, and a remedy."""
_REMEDIES: Mapping[tuple[str, str], str] = {
    ("wikibase", "queries"): "set endpoints.sparql to the query service (of another engine also endpoints.dialect)",
    ("wikibase", "search"): "set endpoints.api to api.php of the wiki",
    ("wikibase", "entry"): "set endpoints.api to api.php of the wiki",
    ("wikibase", "vectors"): "set endpoints.vector to the base URL of a vector database, or to nothing",
    ("sparql", "queries"): "give the address of its query service, to --kb or as url of [sparql.NAME] in kbnav.toml",
    ("sparql", "search"): "make an index of its names: kbnav sparql index KB --out names",
}


def check_kb(kb: KnowledgeBase, settings: Settings, *, seconds: float = TIME) -> Iterator[Finding]:
    """Try what a knowledge base promises, what agents need first. Whatever fails becomes a finding.

    What is not done after so many ``seconds`` is given up, and the rest is not tried.
    """
    kind, trial = kb_kind(kb), _Trial(kb_kind(kb), settings)
    names = ("queries", "IRIs", "properties", "search", "entry", "labels", "classes", "neighbours", "vectors")
    own = {"IRIs": ["wikibase"], "properties": ["wikibase"], "classes": ["sparql"], "vectors": ["wikibase", "skb"]}
    tries = [(one, getattr(trial, one.lower())) for one in names if kind in own.get(one, [kind])]
    cancellation = Cancellation()
    timer = threading.Timer(seconds, cancellation.stop, ["there was no time left"])
    timer.daemon = True
    timer.start()
    slowest = 0.0
    try:
        for what, attempt in tries:
            meter, began = Meter(), time.monotonic()
            try:
                cancellation.check()
                with counted_by(meter):
                    verdict, says, remedy = cancellation.run(partial(attempt, kb))
            except Stopped:
                verdict, remedy = "not tried", ""
                says = f"what was asked before took {seconds:.0f} s, up to {slowest:.0f} s for one part"
            except KbnavError as error:
                verdict, says = "fails", str(error).splitlines()[0]
                remedy = "" if isinstance(error, CredentialsError) else trial.remedy(what)
                if kind == "sparql" and isinstance(error, ServiceError):  # it has but this one interface
                    remedy = remedy if what == "queries" else ""
                    tries.clear()
            if (what, verdict, trial.thing) == ("queries", "fails", ""):  # most is tried with what queries have seen
                tries[1:] = [one for one in tries if one[0] == "vectors"]
            took = round(time.monotonic() - began, 3)
            slowest = max(slowest, took)
            yield Finding(what, verdict, " ".join(says.split())[:300], remedy, took, sum(meter.sent.values()))
    finally:
        timer.cancel()


def broken(findings: list[Finding], kb: KnowledgeBase) -> list[str]:
    """What fails of that which agents need."""
    return [one.what for one in findings if one.what in _NEEDED[kb_kind(kb)] and one.verdict == "fails"]


class _Trial:
    """The attempts; a later one uses what an earlier one found."""

    def __init__(self, kind: str, settings: Settings) -> None:
        self._kind, self._settings = kind, settings
        self.thing, self._label, self._property = "", "", ""

    def remedy(self, what: str) -> str:
        """What to set or do where an interface fails."""
        return _REMEDIES.get((self._kind, what), "").replace("KB", self._settings.kb)

    def queries(self, kb: KnowledgeBase) -> Tried:
        if self._kind == "skb":
            self.thing = str(kb.skb.id(0))  # type: ignore[attr-defined]
        if "execute_query" not in kb.capabilities:
            return "absent", "it takes no SPARQL", "build it again without --no-sparql"
        if self._kind == "skb":
            rows = len(kb.execute_query("SELECT ?s WHERE { ?s ?p ?o } LIMIT 1"))
            return ("works", "SPARQL runs", "") if rows else ("partly", "SPARQL runs, and there is no triple", "")
        if self._kind == "wikibase":  # whatever the IRI begins with: that is looked at next
            cells = [cell for row in self._rows(kb, _PROPERTY).rows for cell in row if cell and cell.type == "uri"]
            seen = self._property = next((cell.entity_id or "" for cell in cells), "")
            if not cells:
                empty = "the query service answers, and has no property of a Wikibase: its prefixes or its data differ"
                return "fails", empty, "set wikibase.concept_base, or give the endpoint's own address as --kb"
        else:
            table = kb.execute_query(_THING)
            seen = self.thing = next((one for row in table.rows for cell in row if (one := table.entity(cell))), "")
            if not seen:
                named = self._rows(kb, f"SELECT DISTINCT ?g WHERE {{ GRAPH ?g {{ ?s ?p ?o }} }} LIMIT {_MANY}")
                if graphs := [cell.value for row in named.rows for cell in row if cell]:
                    remedy = self._in_toml("name those to be asked in kbnav.toml, perhaps as here", graph=tuple(graphs))
                    return "fails", "its default graph is empty; its data are in named graphs", remedy
                return "fails", "it has no data", "load data, or give the address of a dataset that has some"
        written = f", written for {engine}" if (engine := getattr(kb, "engine", "")) else ""
        return "works", f"SPARQL runs{written}, and finds {seen}", ""

    def iris(self, kb: KnowledgeBase) -> Tried:
        words = vocabulary_of(kb)
        table = self._rows(kb, "SELECT ?property WHERE { ?property wikibase:directClaim ?direct } LIMIT 1")
        iri = next((cell.value for row in table.rows for cell in row if cell), "")
        if not words.entity_id(iri):
            base = iri.rpartition("/")[0] + "/"
            remedy = f'set wikibase.concept_base = "{base}"' if base != "/" else "set wikibase.concept_base"
            return "fails", f"entities are {base}…, and {words.concept_base}… was expected", remedy
        own = ", ".join(words.own_prefixes) or "none beside the usual ones"
        return "works", f"entities are {words.concept_base}…; prefixes of its own: {own}", ""

    def properties(self, kb: KnowledgeBase) -> Tried:
        words = vocabulary_of(kb)
        lacking = [one for one in CONCEPTS if not words.of(one)]
        known = {one: words.of(one) or "not known" for one in (INSTANCE_OF, SUBCLASS_OF)}
        says = f"instance of is {known[INSTANCE_OF]}, subclass of is {known[SUBCLASS_OF]}"
        if not lacking:
            return "works", says, ""
        named = ", ".join(f"{CONCEPTS[one]} ({one} on Wikidata)" for one in lacking[:_MANY])
        more = f" and {len(lacking) - _MANY} more" if len(lacking) > _MANY else ""
        remedy = f'set wikibase.ids, as {lacking[0]} = "P…", if it has them under other names: {named}{more}'
        return "works" if known.keys().isdisjoint(lacking) else "partly", says, remedy

    def search(self, kb: KnowledgeBase) -> Tried:
        wanted = self._sample(kb)
        if not self._label:
            return "partly", "nothing with a label was seen, so that nothing can be looked for", "see labels"
        found = kb.search_entities(self._label, kind="property" if wanted == self._property else "any")
        known = {one.id for one in (*found.entities, *found.properties)}
        if wanted in known:
            return self._indexed(kb, f"{self._label!r} finds {wanted}")
        if known:
            says = f"{self._label!r} finds {plural(len(known), 'thing')}, and {wanted} is not among them"
            return "partly", says, self._anew(kb) or self.remedy("search")
        _, says, remedy = self._indexed(kb, f"{self._label!r}, the name of {wanted}, finds nothing")
        return "fails", says, remedy or self._anew(kb) or self.remedy("search")

    def _anew(self, kb: KnowledgeBase) -> str:
        """What makes the name index that is set anew; empty where none is."""
        index = kb.state().get("index")
        return f"make it anew: kbnav sparql index {self._settings.kb} --out {index}" if index else ""

    def _indexed(self, kb: KnowledgeBase, says: str) -> Tried:
        """What a search that works found, with the age of the name index that it used, if any."""
        index = Path(kb.state().get("index") or "")
        if not index.is_file():
            return "works", says, ""
        says = f"{says}; its index of names is of {datetime.fromtimestamp(index.stat().st_mtime):%Y-%m-%d}"
        try:
            since = kb.named_since()  # type: ignore[attr-defined]
        except TellModel:
            return "works", f"{says}, and newer names cannot be counted in time", ""
        if not since:
            return "works", says, ""
        changed = f"{since:,} names came since" if since > 0 else f"{-since:,} names went since"
        return "partly", f"{says}, {changed}", self._anew(kb)

    def entry(self, kb: KnowledgeBase) -> Tried:
        entry = kb.get_entry(self._sample(kb))
        return "works", f"{entry.entity.id} has {plural(len(entry.statements), 'statement')}", ""

    def labels(self, kb: KnowledgeBase) -> Tried:
        wanted = self._sample(kb)
        label = kb.labels([wanted]).get(wanted, "")
        says = f"{wanted} is {label!r}" if label else f"{wanted} has no label"
        nameless = kb.nameless() if isinstance(kb, Shaped) else ()
        if label and isinstance(kb, Shaped):
            says += f", by {', '.join(kb.label_predicates())}"
        if not (nameless and isinstance(kb, Shaped)):
            return "works" if label else "partly", says, ""
        without = sum(share.count for share, _ in nameless)
        classes = kb.classes()
        most = len(nameless) == len(classes) or 2 * without > sum(share.count for share in classes)
        named = ", ".join(share.entity.label for share, _ in nameless[:_MANY])
        remedy = self._naming([texts[0] for _, texts in nameless if texts])
        return "fails" if most else "partly", f"most members of {named} have no name; {says}", remedy

    def _naming(self, texts: Sequence[str]) -> str:
        """What to do so that things get names, of which ``texts`` may be the properties."""
        if not texts:
            return "no property of theirs holds texts: give them names in the data, by rdfs:label"
        labels = tuple(dict.fromkeys((*self._settings.source.labels, *texts)))
        return self._in_toml("say in kbnav.toml which properties hold their names, perhaps as here", labels=labels)

    def _in_toml(self, what: str, **own: tuple[str, ...]) -> str:
        name, source = self._settings.source_of(self._settings.kb)
        return f"{what}, and give --kb {name}:\n{source.model_copy(update=own).as_toml(name)}"

    def classes(self, kb: KnowledgeBase) -> Tried:
        found = kb.classes() if isinstance(kb, Shaped) else ()
        largest = ", ".join(f"{one.entity.label} ({one.count:,})" for one in found[:_MANY])
        return ("works", f"{len(found)} seen, the largest: {largest}", "") if found else ("absent", "none is seen", "")

    def neighbours(self, kb: KnowledgeBase) -> Tried:
        found = kb.search_neighbors(self._sample(kb))
        return "works", f"{plural(found.total, 'edge')} of {found.entity.id}", ""

    def vectors(self, kb: KnowledgeBase) -> Tried:
        if "vector_query" not in kb.capabilities:
            remedy = {
                "wikibase": "for Wikidata: set endpoints.vector, as https://wd-vectordb.wmcloud.org",
                "skb": "build it again without --encoder none",
            }.get(self._kind, "")
            return "absent", "there is no search by meaning", remedy
        return "works", f"{len(kb.vector_query(self._label or 'anything', limit=3).nodes)} found", ""

    def _rows(self, kb: KnowledgeBase, query: str) -> AnswerTable:
        rows: AnswerTable = kb.select(query)  # type: ignore[attr-defined]
        return rows

    def _sample(self, kb: KnowledgeBase) -> str:
        """Something that is there, looked up once with its label."""
        if not (self._label or self.thing) and self._property:
            used = [one for one in kb.get_property_examples(self._property) if one.subject.label]
            self.thing = used[0].subject.id if used else ""
        wanted = self.thing or self._property
        self._label = self._label or kb.labels([wanted]).get(wanted, "")
        return wanted
