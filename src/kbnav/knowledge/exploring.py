"""Traps of a knowledge base, found by sampling before any question is asked, and written as notes.

Each is one rule with its queries; what a rule asks is bounded by a LIMIT on the statements that it looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kbnav.answers.tables import AnswerTable
from kbnav.errors import KbnavError, StopRun
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, SUBCLASS_OF, Vocabulary, vocabulary_of
from kbnav.settings.systems import kb_kind
from kbnav.tools.notes import Note, Notes

SAMPLE = 5_000
"""Statements that one look takes in."""
FEW = 5
"""Statements, or members, below which a trap is none."""
_SHARE = 0.02
_HIDDEN = 0.05
_NORMAL = 0.9
_RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_XSD = "http://www.w3.org/2001/XMLSchema#"


@dataclass(frozen=True)
class Explorer:
    """Looks at one knowledge base; ``most`` properties and classes, the most used first."""

    kb: KnowledgeBase
    most: int = 50
    source: str = ""
    made: str = ""
    tell: Callable[[str], None] = lambda line: None  # noqa: ARG005

    def notes(self) -> Notes:
        """What was found, each trap a note. Raises StopRun where a service fails; other failures are passed over."""
        traps = self._wikibase() if kb_kind(self.kb) == "wikibase" else self._endpoint()
        found = []
        for about, text in traps:
            self.tell(f"{about}: {text}")
            found.append(Note(about=about, text=text, source=self.source, made=self.made))
        return Notes(tuple(found))

    def _ask(self, query: str) -> list[dict[str, object]]:
        """The rows; none where the query fails, which says nothing of the knowledge base and is told."""
        table = self._table(query)
        return table.records() if table else []

    # Wikibase

    def _wikibase(self) -> Iterator[tuple[str, str]]:
        words = vocabulary_of(self.kb)
        for name, label in self._properties():
            yield from self._hidden(name, label)
            yield from self._units(name, label)
        yield from self._two_ways(words)

    def _properties(self) -> list[tuple[str, str]]:
        used = (
            "SELECT ?property (COUNT(*) AS ?n) WHERE { { SELECT ?claim WHERE { ?thing ?claim ?statement . "
            f"?statement wikibase:rank ?rank }} LIMIT {20 * SAMPLE} }} ?property wikibase:claim ?claim }} "
            f"GROUP BY ?property ORDER BY DESC(?n) LIMIT {self.most}"
        )
        rows = self._ask(used)
        ids = [str(row["property"]) for row in rows]
        labels = self.kb.labels(ids)
        return [(one, labels.get(one, one)) for one in ids]

    def _hidden(self, name: str, label: str) -> Iterator[tuple[str, str]]:
        """Statements that the direct predicate does not reach."""
        inner = (
            f"SELECT ?thing ?value WHERE {{ ?thing p:{name} ?statement . ?statement ps:{name} ?value }} LIMIT {SAMPLE}"
        )
        query = (
            "SELECT (COUNT(*) AS ?all) (SUM(IF(?direct, 0, 1)) AS ?hidden) WHERE { "
            f"{{ {inner} }} BIND(EXISTS {{ ?thing wdt:{name} ?value }} AS ?direct) }}"
        )
        for row in self._ask(query):
            every, hidden = int(str(row["all"] or 0)), int(float(str(row["hidden"] or 0)))
            if hidden >= FEW and hidden >= _HIDDEN * every:
                yield (
                    name,
                    (
                        f"wdt:{name} ({label}) misses {hidden} of {every} statements that were looked at, because "
                        f"another is preferred or they are deprecated: use p:{name}/ps:{name} where all count."
                    ),
                )

    def _units(self, name: str, label: str) -> Iterator[tuple[str, str]]:
        """Amounts that cannot be compared as they are, and by what they can be: not every copy has normalized ones."""
        query = (
            f"SELECT ?unit (COUNT(*) AS ?n) (SUM(IF(?has, 1, 0)) AS ?normal) WHERE {{ {{ SELECT ?statement ?value "
            f"WHERE {{ ?statement psv:{name} ?value }} LIMIT {SAMPLE} }} ?value wikibase:quantityUnit ?unit "
            f"BIND(EXISTS {{ ?statement psn:{name}/wikibase:quantityAmount ?amount }} AS ?has) }} "
            "GROUP BY ?unit ORDER BY DESC(?n)"
        )
        rows = self._ask(query)
        total, normal = (sum(int(float(str(row[column] or 0))) for row in rows) for column in ("n", "normal"))
        often = [row for row in rows if int(str(row["n"])) >= max(2, _SHARE * total)]
        if len(often) > 1:
            units = ", ".join(f"{row.get('unitLabel') or row['unit']} {row['n']}" for row in often[:4])
            by = f"compare them by p:{name}/psn:{name}/wikibase:quantityAmount, not by wdt:{name}."
            if normal < _NORMAL * total:
                by = (
                    f"ask p:{name}/psv:{name} for wikibase:quantityAmount and wikibase:quantityUnit, and compare "
                    f"within a unit; {normal or 'none'} of {total} have a normalized amount (psn:{name})."
                )
            yield name, f"Amounts of {label} are in several units ({units}): {by}"

    def _two_ways(self, words: Vocabulary) -> Iterator[tuple[str, str]]:
        """Classes that have members as instances, and others as subclasses or by occupation."""
        instance, wider = words.of(INSTANCE_OF), words.of(SUBCLASS_OF)
        others = {one: what for one, what in ((wider, "subclasses"), (words.of("P106"), "by occupation")) if one}
        if not instance or not others:
            return
        names = " ".join(f"wdt:{one}" for one in others)
        query = (
            f"SELECT ?class ?way (COUNT(DISTINCT ?x) AS ?n) (SAMPLE(?members) AS ?all) WHERE {{ {{ SELECT ?class "
            f"(COUNT(*) AS ?members) WHERE {{ ?thing wdt:{instance} ?class }} GROUP BY ?class ORDER BY DESC(?members) "
            f"LIMIT {self.most} }} VALUES ?way {{ {names} }} ?x ?way ?class }} GROUP BY ?class ?way"
        )
        for row in self._ask(query):
            count, members = int(str(row["n"])), int(str(row["all"]))
            way = str(row["way"]).rpartition("/")[2]
            if min(count, members) >= FEW and 10 * min(count, members) >= max(count, members) and way in others:
                label = row.get("classLabel") or row["class"]
                yield (
                    str(row["class"]),
                    (
                        f"{label} is modelled two ways: {members} by {instance}, and {count} by {way} ({others[way]}): "
                        "look which of them the question means, or ask both."
                    ),
                )

    # Any endpoint

    def _endpoint(self) -> Iterator[tuple[str, str]]:
        """Predicates whose values are of several kinds, or numbers written as text."""
        text = f'DATATYPE(?o) = <{_XSD}string> && REGEX(STR(?o), "^-?[0-9]+([.,][0-9]+)?$")'
        kind = (
            f'IF(ISIRI(?o), "things", IF(ISBLANK(?o), "blank nodes", IF({text}, "numbers as text", STR(DATATYPE(?o)))))'
        )
        query = (
            f"SELECT ?p ?kind (COUNT(*) AS ?n) WHERE {{ {{ SELECT ?p ?o WHERE {{ ?s ?p ?o }} LIMIT {20 * SAMPLE} }} "
            f"FILTER(?p != <{_RDF_TYPE}>) BIND({kind} AS ?kind) }} GROUP BY ?p ?kind ORDER BY ?p DESC(?n)"
        )
        table = self._table(query)
        kinds: dict[str, list[tuple[str, int]]] = {}
        for row in table.rows if table else ():
            if row[0] and row[1] and row[2] and table:
                name = table.entity(row[0]) or row[0].value
                kinds.setdefault(name, []).append((row[1].value.removeprefix(_XSD), int(row[2].value)))
        for name, found in kinds.items():
            yield from _mixed(name, found)

    def _table(self, query: str) -> AnswerTable | None:
        try:
            return self.kb.execute_query(query)
        except StopRun:
            raise
        except KbnavError as error:
            self.tell(f"One look failed, and what it would have found is missing: {error}")
            return None


def _mixed(name: str, found: list[tuple[str, int]]) -> Iterator[tuple[str, str]]:
    total = sum(count for _, count in found)
    often = [(kind, count) for kind, count in found if count >= max(2, _SHARE * total) and total >= FEW]
    if any(kind == "numbers as text" for kind, _ in often):
        yield name, f"Values of {name} are numbers written as text: cast them (xsd:decimal) before they are compared."
    elif len(often) > 1:
        told = ", ".join(f"{kind} {count}" for kind, count in often[:4])
        yield name, f"Values of {name} are of several kinds ({told}): a condition on one of them misses the others."
