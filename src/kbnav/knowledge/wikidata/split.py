"""Wikidata's two graphs: scholarly articles have had a query service of their own since May 2025.

All triples of an item that is an instance of one of the classes of publications are there, and nowhere else:
https://www.wikidata.org/wiki/Wikidata:SPARQL_query_service/WDQS_graph_split. A query that joins both is sent to the
main service with the patterns about articles inside ``SERVICE wdsubgraph:scholarly_articles``, its allowed way to the
other. Pure: text in, text out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from kbnav.knowledge.sparql.check import fresh_variable
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Filter,
    Group,
    Nested,
    Path,
    Pattern,
    Triples,
    UnreadQuery,
    Values,
    is_variable,
    read_query,
)
from kbnav.knowledge.sparql.vocabulary import entity_ids

SUBGRAPH = "https://query.wikidata.org/subgraph/"
SCHOLARLY_SERVICE = f"{SUBGRAPH}scholarly_articles"
CLASSES = frozenset(
    ["Q13442814", "Q18918145", "Q7318358", "Q1504425", "Q815382", "Q23927052", "Q580922", "Q1348305", "Q45182324"]
)
"""Scholarly article, academic journal article, review article, systematic review, meta-analysis, conference paper,
preprint, erratum, retracted paper. The rules have more; of others the service is asked."""
_MOSTLY = ("P50", "P356", "P698", "P818", "P921", "P932", "P1433", "P2093", "P2860")
"""Author, DOI, PubMed, arXiv, main subject, PMC, published in, author's name, cites: what articles have, and others."""
_INSTANCE = re.compile(r"(?:wdt:|<http://www\.wikidata\.org/prop/direct/)P31>?")
_PROPERTY = re.compile(r"(?:wdt|p):(P\d+)|<http://www\.wikidata\.org/prop/(?:direct/)?(P\d+)>")
_ITEM = re.compile(r"(?:wd:|<http://www\.wikidata\.org/entity/)(Q\d+)>?")
_STATEMENT = re.compile(r"p:P\d+|<http://www\.wikidata\.org/prop/P\d+>")
_NODES = re.compile(r"(?:psv|pqv|prv):P\d+|prov:wasDerivedFrom")

FEDERATED = "Scholarly articles are in a graph of their own: the patterns about them were asked of that service."
ROUTED = "Scholarly articles are in a graph of their own, which was asked in place of the main one."
LEFT_OUT = (
    "Scholarly articles are in a graph of their own, and none of them is among this. For them, put the patterns about "
    "articles inside SERVICE wdsubgraph:scholarly_articles { … }."
)

_UNNAMED = re.compile(r"_: (\d+)")


@dataclass(frozen=True)
class Divided:
    """A query for both graphs; ``whole``: it is about articles alone, and ``text`` is for their service."""

    text: str
    whole: bool

    @property
    def note(self) -> str:
        """What is said of its result."""
        return ROUTED if self.whole else FEDERATED


def names_subgraph(query: str) -> bool:
    """Whether a query speaks of the two graphs itself."""
    return "wdsubgraph:" in query or SUBGRAPH in query


def may_be_scholarly(query: str) -> bool:
    """Whether a query has a property that many articles have, so that the split may have taken rows from it."""
    used = {one or two for one, two in _PROPERTY.findall(query)}
    return not used.isdisjoint(_MOSTLY)


def items_of(query: str) -> list[str]:
    """The items that a query names."""
    return [one for one in entity_ids(query) if one.startswith("Q")]


def known_query(items: Iterable[str]) -> str:
    """SPARQL for the column ``x``: which of some items the service of articles has, or has instances of."""
    listed = " ".join(f"wd:{one}" for one in items)
    held = "FILTER(EXISTS { ?x wdt:P31 ?class } || EXISTS { ?article wdt:P31 ?x })"
    return f"SELECT ?x WHERE {{ VALUES ?x {{ {listed} }} {held} }}"


def divide(query: str, scholarly: Collection[str] = CLASSES, *, guess: bool = False) -> Divided | None:
    """A query with the patterns about articles put into their service; None where it has none, or is not read.

    What an article is: an instance of a class of ``scholarly``, an item of it, and with ``guess`` whatever has a
    property that mostly articles have; and their statements.
    """
    try:
        read = read_query(query, named=True)
    except UnreadQuery:
        return None
    wheres = [*(one.where for _, one in read.select.named), read.where] if read.select else [read.where]
    patterns = [one for where in wheres for one in _patterns(where)]
    articles = _articles(patterns, scholarly, guess=guess)
    if not articles:
        return None
    inside = [one for one in patterns if one.subject in articles]
    if len(inside) == len(patterns) and not any(_climbs(one) for one in inside):
        return Divided(query, whole=True)
    edits = [edit for where in wheres for group in _groups(where) for edit in _edits(query, group, articles)]
    for start, end, text in sorted(edits, reverse=True):
        query = query[:start] + text + query[end:]
    return Divided(query, whole=False)


def _groups(group: Group) -> Iterator[Group]:
    """A group and all in it but what is in another service already."""
    yield group
    if group.select is not None:
        for select in (*(one for _, one in group.select.named), group.select):
            yield from _groups(select.where)
    for element in group.elements:
        if isinstance(element, Filter | Bind) or (isinstance(element, Nested) and element.kind != "SERVICE"):
            for inner in element.groups:
                yield from _groups(inner)


def _patterns(where: Group) -> Iterator[Pattern]:
    for group in _groups(where):
        for element in group.elements:
            if isinstance(element, Triples):
                yield from element.patterns


def _articles(patterns: list[Pattern], scholarly: Collection[str], *, guess: bool) -> set[str]:
    """The terms that stand for articles, and for statements and values of theirs."""
    found: set[str] = set()
    for one in patterns:
        item, verb = _ITEM.fullmatch(one.object), _text(one)
        of_class = item and item[1] in scholarly and _INSTANCE.match(verb)
        subject = _ITEM.fullmatch(one.subject)
        mostly = guess and is_variable(one.subject) and may_be_scholarly(verb)
        if of_class or mostly or (subject and subject[1] in scholarly and subject[1] not in CLASSES):
            found.add(one.subject)
    grown = 0
    while found and grown != len(found):
        grown = len(found)
        found |= {
            one.object
            for one in patterns
            if one.subject in found and (_STATEMENT.fullmatch(_text(one)) or _NODES.fullmatch(_text(one)))
        }
    return found


def _text(pattern: Pattern) -> str:
    return pattern.verb if isinstance(pattern.verb, str) else pattern.verb.text()


def _climbs(pattern: Pattern) -> bool:
    """Whether a path goes on to wider classes, which are in the main graph."""
    verb = pattern.verb
    return isinstance(verb, Path) and verb.kind == "/" and _INSTANCE.fullmatch(verb.parts[0].text()) is not None


def _edits(query: str, group: Group, articles: set[str]) -> Iterator[tuple[int, int, str]]:
    """Triples that are parted: those about articles go into one SERVICE where they stand."""
    taken = query
    for element in group.elements:
        if isinstance(element, Values) or not isinstance(element, Triples):
            continue
        inside = [one for one in element.patterns if one.subject in articles]
        if not inside:
            continue
        outside = [_triple(one) for one in element.patterns if one.subject not in articles]
        service = []
        for one in inside:
            if _climbs(one) and isinstance(one.verb, Path):
                between = f"?{fresh_variable(taken, 'class')}"
                taken += between
                service.append(f"{one.subject} {one.verb.parts[0].text()} {between} .")
                rest = Path("/", parts=one.verb.parts[1:]) if len(one.verb.parts) > 2 else one.verb.parts[1]
                outside.append(f"{between} {rest.text()} {one.object} .")
            else:
                service.append(_triple(one))
        text = " ".join([*outside, "SERVICE wdsubgraph:scholarly_articles {", *service, "}"])
        # What stands for `[ … ]` may be parted too, and a blank node is known in one group only.
        node = fresh_variable(query, "node")
        yield element.place.start, element.place.end, _UNNAMED.sub(rf"?{node}_\1", text)


def _triple(pattern: Pattern) -> str:
    return f"{pattern.subject} {_text(pattern)} {pattern.object} ."
