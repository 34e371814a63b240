"""What members of a class have, and how a property is used, from samples.

The shape of a class is what a ShEx or SHACL shape of it would say: which properties, for how many of the members, how
many values a member, and of which datatype or class they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from kbnav.answers.tables import Term
from kbnav.errors import QueryTimeout, TellModel
from kbnav.knowledge.base import ClassShape, PropertyProfile, ShapeProperty, Share
from kbnav.knowledge.endpoint.data import SUBCLASS, TYPE, Select, View, iris_list, whole

COUNTED = 20_000
"""Up to how many members or uses are counted."""
_SAMPLES = (1_000, 100)
"""Members, or uses, that are looked at; the smaller number where the larger takes too long."""
_PROPERTIES, _INCOMING, _LISTED, _RANGES = 40, 12, 6, 3
_NUMBERS = 8
"""Properties whose middle number is looked for."""
_FEW = 30
"""Members up to which a class is listed."""
_LITERAL = "http://www.w3.org/2000/01/rdf-schema#Literal"
_NODE = "http://www.w3.org/2000/01/rdf-schema#Resource"
_RANGE = (
    "OPTIONAL { ?o a ?class } BIND(COALESCE(?class, "
    f"IF(isLiteral(?o), IF(LANG(?o) != '', <{_LITERAL}>, DATATYPE(?o)), <{_NODE}>)) AS ?x)"
)
_SPAN = ("least", "middle", "greatest")
_NUMERIC = frozenset(
    f"xsd:{kind}" for kind in ("integer", "int", "long", "decimal", "double", "float", "nonNegativeInteger")
)
Views = Callable[[Iterable[str]], View]
"""How some IRIs are presented."""


def class_shape(select: Select, views: Views, iri: str) -> ClassShape:
    """The shape of a class. Raises what the queries raise, QueryTimeout among it."""
    rows = _smaller(select, partial(_class_query, iri, below=False))
    counts = {what: number for what, p, x, number in rows if not p and not x}
    below = bool(counts.get("below")) and not counts.get("members")
    if below:  # it has members by its subclasses alone
        rows = _smaller(select, partial(_class_query, iri, below=True))
        counts = {what: number for what, p, x, number in rows if not p and not x}
    rows += _smaller(select, partial(_ranges_query, iri, below=below))
    view = views([one for _, p, x, _ in rows for one in (p, x) if one])
    most = {p: number for what, p, _, number in rows if what == "most"}
    ranges: dict[str, list[Share]] = {}
    for what, p, x, number in rows:
        if what == "range" and x:
            ranges.setdefault(p, []).append(Share(view.entity(x), number))
    few = max(counts.get(one, 0) for one in ("members", "below")) <= _FEW
    details = _details(select, _members(iri, counts.get("sampled", 0), below), ranges, few=few)
    told = views([term.value for _, _, term in details if term.type == "uri"])
    values = {(what, p): told.value(term) for what, p, term in details}
    both = {p: whole(term) for what, p, term in details if what == "both"}
    commonest = {p: tuple(sorted(shares, key=lambda one: -one.count)[:_RANGES]) for p, shares in ranges.items()}
    properties = tuple(
        ShapeProperty(
            view.entity(p),
            number,
            most.get(p, 1),
            commonest.get(p, ()),
            tuple(
                values[what, p] for what in (_SPAN if ("middle", p) in values else ("sample",)) if (what, p) in values
            ),
            both.get(p) == sum(share.count for share in ranges.get(p, ())),
        )
        for what, p, _, number in rows
        if what == "have" and p != TYPE
    )
    return ClassShape(
        views([iri]).entity(iri),
        members=counts.get("members", 0),
        below=counts.get("below", 0),
        limit=COUNTED,
        sampled=counts.get("sampled", 0),
        properties=properties,
        subclasses=tuple(Share(view.entity(x), number) for what, _, x, number in rows if what == "subclass" and x),
        incoming=tuple(
            (Share(view.entity(p), number), view.entity(x) if x else None)
            for what, p, x, number in rows
            if what == "incoming"
        ),
        things=tuple(
            told.entity(iri) for iri in sorted(term.value for what, _, term in details if what == "thing") if ":" in iri
        ),
    )


def _details(
    select: Select, members: str, ranges: Mapping[str, Sequence[Share]], *, few: bool
) -> list[tuple[str, str, Term]]:
    """What one more query tells of the sampled members; nothing where it fails.

    ``sample``, a value of a property; ``least``, ``middle`` and ``greatest`` of its numbers; ``both``, how many of its
    links go both ways; and each ``thing`` where they are ``few``.
    """
    numbers = [p for p, shares in ranges.items() if all(one.entity.id in _NUMERIC for one in shares)][:_NUMBERS]
    each = f"{members} ?s ?p ?o ."
    parts = [
        f"SELECT ('sample' AS ?what) ?p (SAMPLE(?o) AS ?x) WHERE {{ {each} FILTER(!isBlank(?o)) }} GROUP BY ?p",
        f"SELECT ('both' AS ?what) ?p (SUM(1) AS ?x) WHERE {{ {each} ?o ?p ?s }} GROUP BY ?p",
        *([f"SELECT ('thing' AS ?what) (?s AS ?x) WHERE {{ {members} }}"] if few else []),
    ]
    if numbers:
        of = f"VALUES ?p {{ {iris_list(numbers)} }} {each}"
        parts += [
            f"SELECT ('{what}' AS ?what) ?p ({take}(?o) AS ?x) WHERE {{ {of} }} GROUP BY ?p"
            for what, take in (("least", "MIN"), ("greatest", "MAX"))
        ]
    for p in numbers:
        half = sum(share.count for share in ranges[p]) // 2
        value = f"{members} ?s <{p}> ?o"
        parts.append(
            f"SELECT ('middle' AS ?what) (<{p}> AS ?p) (?o AS ?x) WHERE {{ {value} }} ORDER BY ?o OFFSET {half} LIMIT 1"
        )
    try:
        table = select(f"SELECT ?what ?p ?x WHERE {{ {' UNION '.join(f'{{ {part} }}' for part in parts)} }}")
    except TellModel:
        return []
    return [(what.value, p.value if p else "", x) for what, p, x in table.rows if what and x]


def property_profile(select: Select, views: Views, iri: str) -> PropertyProfile:
    """How a property is used. Raises what the query raises, QueryTimeout among it."""
    rows = _smaller(select, partial(_property_query, iri))
    view = views([x for _, _, x, _ in rows if x])
    counts = {what: number for what, _, x, number in rows if not x}
    subjects, values = (
        tuple(Share(view.entity(x), number) for what, _, x, number in rows if what == wanted and x)
        for wanted in ("subject", "value")
    )
    return PropertyProfile(
        direct=counts.get("uses", 0),
        statements=0,
        limit=COUNTED,
        sampled=counts.get("sampled", 0),
        subjects=counts.get("subjects", 0),
        subject_classes=subjects,
        value_classes=values,
    )


def _class_query(iri: str, sample: int, *, below: bool) -> str:
    """SPARQL for ``what``, ``p``, ``x`` and ``n``: members of a class, or ``below`` it, and what they have."""
    members = _members(iri, sample, below)
    each = f"SELECT ?s ?p (COUNT(*) AS ?k) WHERE {{ {members} ?s ?p ?o }} GROUP BY ?s ?p"
    lower = f"?class <{SUBCLASS}>+ <{iri}>"
    return _union(
        _counted("members", f"{{ SELECT ?s WHERE {{ ?s a <{iri}> }} LIMIT {COUNTED + 1} }}"),
        _counted("sampled", members),
        _counted("below", f"{{ SELECT DISTINCT ?s WHERE {{ {lower} . ?s a ?class }} LIMIT {COUNTED + 1} }}"),
        f"SELECT ('have' AS ?what) ?p (COUNT(*) AS ?n) WHERE {{ {{ {each} }} }} GROUP BY ?p "
        f"ORDER BY DESC(?n) ?p LIMIT {_PROPERTIES}",
        f"SELECT ('most' AS ?what) ?p (MAX(?k) AS ?n) WHERE {{ {{ {each} }} }} GROUP BY ?p",
        f"SELECT ('subclass' AS ?what) (?class AS ?x) (COUNT(?s) AS ?n) WHERE {{ {lower} . ?s a ?class }} "
        f"GROUP BY ?class ORDER BY DESC(?n) LIMIT {_LISTED * 2}",
    )


def _members(iri: str, sample: int, below: bool) -> str:
    pattern = f"?class <{SUBCLASS}>+ <{iri}> . ?s a ?class" if below else f"?s a <{iri}>"
    return f"{{ SELECT DISTINCT ?s WHERE {{ {pattern} }} LIMIT {sample} }}"


def _ranges_query(iri: str, sample: int, *, below: bool) -> str:
    members = _members(iri, sample, below)
    return _union(
        f"SELECT ('range' AS ?what) ?p ?x (COUNT(*) AS ?n) WHERE {{ {members} ?s ?p ?o . FILTER(?p != <{TYPE}>) "
        f"{_RANGE} }} GROUP BY ?p ?x",
        f"SELECT ('incoming' AS ?what) ?p ?x (COUNT(*) AS ?n) WHERE {{ {members} ?o ?p ?s . OPTIONAL {{ ?o a ?x }} }} "
        f"GROUP BY ?p ?x ORDER BY DESC(?n) LIMIT {_INCOMING}",
    )


def _property_query(iri: str, sample: int) -> str:
    uses = f"{{ SELECT ?s ?o WHERE {{ ?s <{iri}> ?o }} LIMIT {sample} }}"
    return _union(
        _counted("uses", f"{{ SELECT ?s WHERE {{ ?s <{iri}> ?o }} LIMIT {COUNTED + 1} }}"),
        _counted("sampled", uses),
        _counted("subjects", f"{{ SELECT DISTINCT ?s WHERE {{ {uses} }} }}"),
        f"SELECT ('subject' AS ?what) ?x (COUNT(*) AS ?n) WHERE {{ {uses} ?s a ?x }} GROUP BY ?x "
        f"ORDER BY DESC(?n) LIMIT {_LISTED}",
        f"SELECT ('value' AS ?what) ?x (COUNT(*) AS ?n) WHERE {{ {uses} {_RANGE} }} GROUP BY ?x "
        f"ORDER BY DESC(?n) LIMIT {_LISTED}",
    )


def _counted(what: str, group: str) -> str:
    return f"SELECT ('{what}' AS ?what) (COUNT(*) AS ?n) WHERE {{ {group} }}"


def _union(*parts: str) -> str:
    return f"SELECT ?what ?p ?x ?n WHERE {{ {' UNION '.join(f'{{ {part} }}' for part in parts)} }}"


def _smaller(select: Select, query: Callable[[int], str]) -> list[tuple[str, str, str, int]]:
    """Rows of a query on the larger sample, else on the smaller: what, property, class, count. Raises QueryTimeout."""
    try:
        table = select(query(_SAMPLES[0]))
    except QueryTimeout:
        table = select(query(_SAMPLES[1]))
    found = []
    for cells in table.rows:
        row = {name: cell for name, cell in zip(table.columns, cells, strict=True) if cell}
        if "what" in row and "n" in row:
            p, x = (row[name].value if name in row else "" for name in ("p", "x"))
            found.append((row["what"].value, p, x, whole(row["n"])))
    return found
