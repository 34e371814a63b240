"""Shapes worked out from the data: what the members of a class have, and how a property is used; all from samples.

The shape of a class is what a ShEx or SHACL shape of it would say: which properties, for how many of the members, how
many values a member, and of which datatype or class they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kbnav.answers.tables import AnswerTable
from kbnav.errors import QueryTimeout
from kbnav.knowledge.base import ClassShape, Entity, PropertyProfile, ShapeProperty, Share
from kbnav.knowledge.endpoint.labels import Select
from kbnav.knowledge.endpoint.names import SUBCLASS, TYPE

COUNTED = 20_000
"""Up to how many members or uses are counted."""
SAMPLES = (1_000, 100)
"""Members, or uses, that are looked at; the smaller number where the larger takes too long."""
_PROPERTIES = 40
_INCOMING = 12
_LISTED = 6
_LITERAL = "http://www.w3.org/2000/01/rdf-schema#Literal"
_NODE = "http://www.w3.org/2000/01/rdf-schema#Resource"
_RANGE = (
    "OPTIONAL { ?o a ?class } BIND(COALESCE(?class, "
    f"IF(isLiteral(?o), IF(LANG(?o) != '', <{_LITERAL}>, DATATYPE(?o)), <{_NODE}>)) AS ?x)"
)

Name = Callable[[str], Entity]
"""From an IRI to the entity as it is shown; labels are known by then."""
Learn = Callable[[Sequence[str]], None]
"""Fetches labels of IRIs."""


def class_query(iri: str, sample: int, *, below: bool = False) -> str:
    """SPARQL for the columns ``what``, ``p``, ``x`` and ``n``: members of a class, and what they have.

    With ``below`` the sample is of the members of its subclasses.
    """
    members = _members(iri, sample, below)
    each = f"SELECT ?s ?p (COUNT(*) AS ?k) WHERE {{ {members} ?s ?p ?o }} GROUP BY ?s ?p"
    lower = f"?class <{SUBCLASS}>+ <{iri}>"
    parts = [
        _one("members", f"SELECT ?s WHERE {{ ?s a <{iri}> }} LIMIT {COUNTED + 1}"),
        _one("sampled", members),
        _one("below", f"SELECT DISTINCT ?s WHERE {{ {lower} . ?s a ?class }} LIMIT {COUNTED + 1}"),
        f"SELECT ('have' AS ?what) ?p (COUNT(*) AS ?n) WHERE {{ {{ {each} }} }} GROUP BY ?p "
        f"ORDER BY DESC(?n) ?p LIMIT {_PROPERTIES}",
        f"SELECT ('most' AS ?what) ?p (MAX(?k) AS ?n) WHERE {{ {{ {each} }} }} GROUP BY ?p",
        f"SELECT ('subclass' AS ?what) (?class AS ?x) (COUNT(?s) AS ?n) WHERE {{ {lower} . ?s a ?class }} "
        f"GROUP BY ?class ORDER BY DESC(?n) LIMIT {_LISTED * 2}",
    ]
    return _union(parts)


def _members(iri: str, sample: int, below: bool) -> str:
    lower = f"?class <{SUBCLASS}>+ <{iri}> . ?s a ?class"
    return f"{{ SELECT DISTINCT ?s WHERE {{ {lower if below else f'?s a <{iri}>'} }} LIMIT {sample} }}"


def ranges_query(iri: str, sample: int, *, below: bool = False) -> str:
    """SPARQL for the columns ``what``, ``p``, ``x`` and ``n``: classes and datatypes of values, and what comes in."""
    members = _members(iri, sample, below)
    parts = [
        f"SELECT ('range' AS ?what) ?p ?x (COUNT(*) AS ?n) WHERE {{ {members} ?s ?p ?o . FILTER(?p != <{TYPE}>) "
        f"{_RANGE} }} GROUP BY ?p ?x",
        f"SELECT ('incoming' AS ?what) ?p ?x (COUNT(*) AS ?n) WHERE {{ {members} ?o ?p ?s . OPTIONAL {{ ?o a ?x }} }} "
        f"GROUP BY ?p ?x ORDER BY DESC(?n) LIMIT {_INCOMING}",
    ]
    return _union(parts)


def property_query(iri: str, sample: int) -> str:
    """SPARQL for the columns ``what``, ``p``, ``x`` and ``n``: how a property is used."""
    uses = f"{{ SELECT ?s ?o WHERE {{ ?s <{iri}> ?o }} LIMIT {sample} }}"
    subjects = f"SELECT DISTINCT ?s WHERE {{ {uses} }}"
    parts = [
        _one("uses", f"SELECT ?s WHERE {{ ?s <{iri}> ?o }} LIMIT {COUNTED + 1}"),
        _one("sampled", f"SELECT ?s ?o WHERE {{ ?s <{iri}> ?o }} LIMIT {sample}"),
        _one("subjects", subjects),
        f"SELECT ('subject' AS ?what) ?x (COUNT(*) AS ?n) WHERE {{ {uses} ?s a ?x }} GROUP BY ?x "
        f"ORDER BY DESC(?n) LIMIT {_LISTED}",
        f"SELECT ('value' AS ?what) ?x (COUNT(*) AS ?n) WHERE {{ {uses} {_RANGE} }} GROUP BY ?x "
        f"ORDER BY DESC(?n) LIMIT {_LISTED}",
    ]
    return _union(parts)


def _one(what: str, query: str) -> str:
    group = query if query.startswith("{") else f"{{ {query} }}"
    return f"SELECT ('{what}' AS ?what) (COUNT(*) AS ?n) WHERE {{ {group} }}"


def _union(parts: Sequence[str]) -> str:
    return f"SELECT ?what ?p ?x ?n WHERE {{ {' UNION '.join(f'{{ {part} }}' for part in parts)} }}"


Row = tuple[str, str, str, int]
"""What is counted, the property, the class or datatype, and the count."""


def read(table: AnswerTable) -> list[Row]:
    """The rows of such a query; an empty string stands for what is not bound."""
    found = []
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        what, number = cells.get("what"), cells.get("n")
        if what and number:
            texts = [cell.value if (cell := cells.get(name)) else "" for name in ("p", "x")]
            found.append((what.value, texts[0], texts[1], int(float(number.value))))
    return found


def smaller(select: Select, query: Callable[[str, int], str], iri: str) -> AnswerTable:
    """A query on the larger sample or, where that takes too long, on the smaller. Raises QueryTimeout."""
    for sample in SAMPLES[:-1]:
        try:
            return select(query(iri, sample))
        except QueryTimeout:
            continue
    return select(query(iri, SAMPLES[-1]))


def class_shape(select: Select, learn: Learn, name: Name, iri: str) -> ClassShape:
    """The shape of a class. Raises what the queries raise, QueryTimeout among it."""
    rows = read(smaller(select, class_query, iri))
    counts = {what: number for what, p, x, number in rows if not p and not x}
    below = bool(counts.get("below")) and not counts.get("members")
    if below:  # it has members by its subclasses alone
        rows = read(smaller(select, partial(class_query, below=True), iri))
        counts = {what: number for what, p, x, number in rows if not p and not x}
    rows += read(smaller(select, partial(ranges_query, below=below), iri))
    most = {p: number for what, p, _, number in rows if what == "most"}
    have = [(p, number) for what, p, _, number in rows if what == "have" and p != TYPE]
    learn([one for _, p, x, _ in rows for one in (p, x) if one])
    ranges: dict[str, list[Share]] = {}
    for what, p, x, number in rows:
        if what == "range" and x:
            ranges.setdefault(p, []).append(Share(name(x), number))
    properties = tuple(
        ShapeProperty(name(p), number, most.get(p, 1), tuple(sorted(ranges.get(p, []), key=lambda one: -one.count))[:3])
        for p, number in have
    )
    return ClassShape(
        name(iri),
        members=counts.get("members", 0),
        below=counts.get("below", 0),
        limit=COUNTED,
        sampled=counts.get("sampled", 0),
        properties=properties,
        subclasses=tuple(Share(name(x), number) for what, _, x, number in rows if what == "subclass" and x),
        incoming=tuple(
            (Share(name(p), number), name(x) if x else None) for what, p, x, number in rows if what == "incoming"
        ),
    )


def property_profile(select: Select, learn: Learn, name: Name, iri: str) -> PropertyProfile:
    """How a property is used. Raises what the query raises, QueryTimeout among it."""
    rows = read(smaller(select, property_query, iri))
    learn([x for _, _, x, _ in rows if x])
    counts = {what: number for what, _, x, number in rows if not x}
    listed = {
        wanted: tuple(Share(name(x), number) for what, _, x, number in rows if what == wanted and x)
        for wanted in ("subject", "value")
    }
    return PropertyProfile(
        direct=counts.get("uses", 0),
        statements=0,
        limit=COUNTED,
        sampled=counts.get("sampled", 0),
        subjects=counts.get("subjects", 0),
        subject_classes=listed["subject"],
        value_classes=listed["value"],
    )
