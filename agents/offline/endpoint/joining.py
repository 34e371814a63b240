"""Queries that find out how things belong together, and what their rows say: the properties between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kbnav.agents.offline.endpoint.reading import Anchor, cell
from kbnav.answers.relevance import relevance

_LIMIT = 40
_NUMBER = "FILTER(isNumeric(?v))"


@dataclass(frozen=True)
class Link:
    """How ?answer is linked to something: by one property or two; ``members`` are linked so."""

    way: int
    properties: tuple[str, ...]
    names: tuple[str, ...]
    members: int

    @property
    def labels(self) -> str:
        """The names of its properties, to be compared with words."""
        return " ".join(self.names)


def probe(target: str, anchor: Anchor, hops: int) -> str:
    """SPARQL for the columns ``way``, ``p``, ``q`` and ``n``: the properties, one or two, that lead to an anchor."""
    shapes = _ways(anchor)
    wanted = [way for way, (length, _) in shapes.items() if length == hops]
    parts = [
        f"{{ {_member(target)}{shapes[way][1].format(p='?p', q='?q', x='?x', v='?v')} BIND({way} AS ?way) }}"
        for way in wanted
    ]
    keep = " && ".join(f"{edge} != rdf:type" for edge in ("?p", "?q")[:hops])
    second = " ?q" if hops == 2 else ""
    return (
        f"SELECT ?way ?p{second} (COUNT(DISTINCT ?answer) AS ?n) WHERE {{ {' UNION '.join(parts)} FILTER({keep}) }} "
        f"GROUP BY ?way ?p{second} ORDER BY DESC(?n) LIMIT {_LIMIT}"
    )


def measure_probe(pattern: str) -> str:
    """SPARQL for the columns ``way``, ``p``, ``q`` and ``n``: the numbers that the members of a pattern have."""
    return (
        f"SELECT ?way ?p ?q (COUNT(DISTINCT ?answer) AS ?n) WHERE {{ {pattern} {{ ?answer ?p ?v . {_NUMBER} "
        f"BIND(1 AS ?way) }} UNION {{ ?answer ?p ?x . ?x ?q ?v . {_NUMBER} BIND(2 AS ?way) }} }} "
        f"GROUP BY ?way ?p ?q ORDER BY ?way DESC(?n) LIMIT {_LIMIT}"
    )


def links(rows: Sequence[Sequence[str]]) -> list[Link]:
    """The rows of such a query."""
    found = []
    for row in rows:
        if len(row) < 3 or not row[0].isdigit() or not row[-1].isdigit():
            continue
        named = [one for one in map(cell, row[1:-1]) if one[0]]
        if named:
            found.append(
                Link(int(row[0]), tuple(one for one, _ in named), tuple(label for _, label in named), int(row[-1]))
            )
    return found


def best(found: Sequence[Link], words: str, *, sure: bool) -> Link | None:
    """The link whose names fit the words best; ``sure``: where none fits, that of most members will do."""
    if not found:
        return None
    scores = relevance(words, [link.labels for link in found])
    place = max(range(len(found)), key=lambda one: (round(scores[one], 6), found[one].members))
    return found[place] if sure or scores[place] > 0 else None


def pattern(anchor: Anchor, link: Link, place: int) -> str:
    """The link as a pattern of ?answer; ``place`` tells its variables from those of others."""
    p, q = (*link.properties, "")[:2]
    return _ways(anchor)[link.way][1].format(p=p, q=q, x=f"?x{place}", v=f"?v{place}")


def measured(link: Link) -> str:
    """A number of ?answer as a pattern of ?measure."""
    return f"?answer {'/'.join(link.properties)} ?measure ."


def member(target: str) -> str:
    """That ?answer is of a class."""
    return _member(target)


def _member(target: str) -> str:
    return f"?answer a {target} . " if target else ""


def _ways(anchor: Anchor) -> dict[int, tuple[int, str]]:
    """Number of properties and pattern of each way between ?answer and an anchor, to be formatted."""
    ways: dict[int, tuple[int, str]] = {}
    if anchor.id:
        one = _braces(anchor.id)
        ways |= {
            1: (1, f"?answer {{p}} {one} ."),
            2: (1, f"{one} {{p}} ?answer . FILTER(!isBlank(?answer))"),
            3: (2, f"{{x}} {{p}} {one} . {{x}} {{q}} ?answer . FILTER(isIRI(?answer))"),
            4: (2, f"{{x}} {{p}} {one} . ?answer {{q}} {{x}} ."),
            5: (2, f"{one} {{p}} {{x}} . {{x}} {{q}} ?answer . FILTER(isIRI(?answer) && ?answer != {one})"),
            6: (2, f"{one} {{p}} {{x}} . ?answer {{q}} {{x}} . FILTER(?answer != {one})"),
        }
    if anchor.exact:
        return ways
    text = _braces(re.sub(r'["\\\s]+', " ", anchor.text.casefold()))
    value = f'{{v}} . FILTER(isLiteral({{v}}) && LCASE(STR({{v}})) = "{text}")'
    return ways | {
        7: (1, f"?answer {{p}} {value}"),
        8: (2, f"{{x}} {{p}} {value} {{x}} {{q}} ?answer . FILTER(isIRI(?answer))"),
        9: (2, f"{{x}} {{p}} {value} ?answer {{q}} {{x}} ."),
    }


def _braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
