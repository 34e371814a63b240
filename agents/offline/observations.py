"""What the offline policies read from the tools' observations: searches, edges, rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal

from kbnav.answers.language import fold
from kbnav.runs.trajectory import Step

_IDENTIFIER = r"(?:[QP]\d+|<[^<>\s]+>|[A-Za-z][\w-]*:[^\s()]+)"
_FOUND = re.compile(
    rf"(?:(?P<label>.*?) \((?P<id>{_IDENTIFIER})\)|(?P<bare>[QP]\d+))(?:, also \"(?P<alias>.*?)\")?"
    r"(?:: (?P<about>.*?))?(?P<property> \[property(?:, values: (?P<type>[^\]]*))?\])?"
)
_SHORTER = re.compile(r'Nothing is named ".*"; these match "(.*?)"(?: \(without ".*"\))?:')
_SUGGESTED = re.compile(r'Did you mean "(.*)"\?$')
_NEAR = '"; near:\n'
_FULLTEXT = "these mention its words"
_STATEMENT = re.compile(
    r"- (?:(?P<label>.*?) \()?(?P<id>P\d+)\)?: (?P<value>.*?)(?: \[(?P<qualifiers>.*)\])?"
    r"(?: \(preferred\))?(?: \(stated \d+ times\))?"
)
_QUALIFIER = re.compile(r"(?:(.*?) \()?(P\d+)\)?: (.*)")
_OTHERS = re.compile(r"(?:: |, )([^,]*?) \((P\d+)\)(?=(?: ×\d+)?[,.])")
_EDGE = re.compile(r"(?P<left>.*?) -- (?:(?P<label>.*?) \()?(?P<id>P\d+)\)? --> (?P<right>.*)")
_ID = re.compile(r"(?:^|\()(Q\d+)\)?$")
_DATE = re.compile(r"-?\d{1,4}(?:-\d\d(?:-\d\d)?)?(?:s|\. century| BCE?| CE)?")
_NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?: .*)?")
_ITEM_ROW = re.compile(r"(?:^|\t)(Q\d+)\b", re.MULTILINE)
_TRUE = re.compile(r"^(?:Result \d+: )?True$", re.MULTILINE)


@dataclass(frozen=True)
class SearchHit:
    """One line of a search: a thing, a class of an endpoint, or a property with the datatype of its values."""

    id: str
    label: str
    about: str = ""
    datatype: str = ""
    alias: str = ""
    """The other name that it was found by."""
    kind: Literal["thing", "class", "property"] = "thing"


@dataclass(frozen=True)
class Search:
    """A search and what it found; ``matched`` are the parts of the phrase that did."""

    query: str
    rung: Literal["exact", "near", "shorter", "fulltext", "none"]
    matched: tuple[str, ...] = ()
    items: tuple[SearchHit, ...] = ()
    properties: tuple[SearchHit, ...] = ()
    suggestion: str = ""
    """What may have been meant, where nothing was found."""

    def first(self, kind: str) -> SearchHit | None:
        """The first of a kind."""
        return next((one for one in (*self.items, *self.properties) if one.kind == kind), None)


@dataclass(frozen=True)
class Claim:
    """A property with a value: a statement's own, or a qualifier's."""

    property_id: str
    label: str
    text: str = ""
    id: str = ""

    @classmethod
    def of(cls, property_id: str, label: str | None, value: str) -> Claim:
        """Of what is shown: ``polonium (Q979)``, or a text."""
        found = _ID.search(value)
        text = value[: found.start()].rstrip() if found else value
        return cls(property_id, label or property_id, text, found[1] if found else "")

    @property
    def kind(self) -> Literal["item", "time", "number", "text", ""]:
        """What the value looks like; empty where no value was shown."""
        if self.id or not self.text:
            return "item" if self.id else ""
        if _DATE.fullmatch(self.text) and re.match(r"-?\d{3}", self.text):
            return "time"
        return "number" if _NUMBER.fullmatch(self.text) or _DATE.fullmatch(self.text) else "text"


@dataclass(frozen=True)
class SeenEdge:
    """A statement that leaves ("out") or reaches ("in") the entity that was looked at; seen from there."""

    direction: Literal["out", "in"]
    fact: Claim
    qualifiers: tuple[Claim, ...] = ()


@dataclass
class Seen:
    """Everything seen so far; searches by their query, edges by the entity looked at."""

    searches: dict[str, Search] = field(default_factory=dict)
    edges: dict[str, list[SeenEdge]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    """Rows of every query that ran; 0 where it failed."""
    last_query: str = ""
    results: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Ids of items in the shown rows of each query."""
    cells: dict[str, list[list[str]]] = field(default_factory=dict)
    """The shown rows of each query as texts."""

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Seen:
        """Read the observations of steps, in their order."""
        seen = cls()
        for step in steps:
            arguments, text = step.call.arguments, step.observation
            query, entity = str(arguments.get("query", "")), str(arguments.get("entity_id", ""))
            if step.call.tool == "search_entities":
                seen.searches[query] = read_search(query, text if step.ok else "")
            elif step.call.tool == "get_entry":
                seen.edges.setdefault(entity, []).extend(read_entry(text))
            elif step.call.tool == "search_neighbors":
                seen.edges.setdefault(entity, []).extend(read_neighbors(entity, text))
            elif step.call.tool == "execute_query":
                seen.rows[query] = step.rows or 0
                seen.results[query] = tuple(dict.fromkeys(_ITEM_ROW.findall(text)))
                seen.cells[query] = read_rows(text) if step.ok and step.rows else []
                seen.last_query = seen.last_query if step.dropped else query
        return seen


def read_search(query: str, text: str) -> Search:
    """The observation of search_entities."""
    rung: Literal["exact", "near", "shorter", "fulltext"] = "near" if _NEAR in text else "exact"
    matched: tuple[str, ...] = (query,)
    hits: list[SearchHit] = []
    for line in text.splitlines():
        if shorter := _SHORTER.fullmatch(line):
            rung, matched = "shorter", tuple(shorter[1].split(" | "))
        elif _FULLTEXT in line:
            rung, matched = "fulltext", ()
        elif found := _FOUND.fullmatch(line):
            about, id_ = found["about"] or "", found["bare"] or found["id"]
            kind: Literal["thing", "class", "property"] = "class" if re.match(r"class(?:;|$)", about) else "thing"
            if found["property"] or re.fullmatch(r"P\d+", id_):
                kind = "property"
            hits.append(SearchHit(id_, found["label"] or "", about, found["type"] or "", found["alias"] or "", kind))
    if not hits:
        found = _SUGGESTED.search(text)
        return Search(query, "none", suggestion=found[1] if found else "")
    items = [hit for hit in hits if hit.kind != "property"]
    properties = tuple(hit for hit in hits if hit.kind == "property")
    low = query.casefold()
    named = [hit for hit in items if hit.id[0] == "Q" and hit.label and hit.label.casefold() in low]
    if named and rung in ("near", "fulltext"):  # they are what a part of the phrase names
        return Search(query, "shorter", tuple(hit.label for hit in named), tuple(named), properties)
    meant = hits[0].alias or hits[0].label
    plural = fold(query).removeprefix(fold(meant)) in ("e", "en", "er", "es", "n", "s")
    if rung == "near" and not plural and re.fullmatch(r"[QP]\d+", hits[0].id):  # another spelling: people choose
        return Search(query, "none", suggestion=meant)
    return Search(query, rung, matched, tuple(items), properties)


def read_entry(text: str) -> list[SeenEdge]:
    """The observation of get_entry; properties that are only named there have no value."""
    edges = []
    for line in text.splitlines():
        if statement := _STATEMENT.fullmatch(line):
            qualifiers = [_QUALIFIER.fullmatch(part) for part in re.split(r"; |\] \[", statement["qualifiers"] or "")]
            facts = tuple(Claim.of(found[2], found[1], found[3]) for found in qualifiers if found)
            edges.append(SeenEdge("out", Claim.of(statement["id"], statement["label"], statement["value"]), facts))
        elif line.startswith("Not shown: "):
            edges += [SeenEdge("out", Claim(found[1], found[0])) for found in _OTHERS.findall(line)]
    return edges


def read_neighbors(entity: str, text: str) -> list[SeenEdge]:
    """The observation of search_neighbors for ``entity``."""
    edges = []
    for line in text.splitlines():
        if found := _EDGE.fullmatch(line.removesuffix(" [by p:/ps: only, not wdt:]")):
            left = _ID.search(found["left"])
            outgoing = bool(left and left[1] == entity)
            other = found["right"] if outgoing else found["left"]
            edges.append(SeenEdge("out" if outgoing else "in", Claim.of(found["id"], found["label"], other)))
    return edges


def read_rows(text: str) -> list[list[str]]:
    """The rows of an observation of execute_query; an ASK that is true is one row."""
    if _TRUE.search(text):
        return [["true"]]
    lines = text.splitlines()
    start = next((place for place, line in enumerate(lines) if "\t" in line or line == "answer"), len(lines))
    shown = takewhile(lambda line: not re.match(r"(?:Result \d+: )?\d+ rows?[.;]", line), lines[start + 1 :])
    return [line.split("\t") for line in shown]
