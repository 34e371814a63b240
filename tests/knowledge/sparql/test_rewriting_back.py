"""A query rewritten for a dialect, and the result for Oxigraph, has the rows that it has rewritten for Oxigraph."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, Store

from kbnav.knowledge.sparql.dialects import DIALECTS
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES

ITEMS = [NamedNode(f"{STANDARD_PREFIXES['wd']}Q{number}") for number in range(1, 6)]
RELATIONS = [NamedNode(f"{STANDARD_PREFIXES['wdt']}P{number}") for number in range(1, 4)]
LABEL, ALIAS = (
    NamedNode(STANDARD_PREFIXES[prefix] + name) for prefix, name in (("rdfs", "label"), ("skos", "altLabel"))
)
edges = st.builds(
    lambda s, p, o: Quad(s, p, o), st.sampled_from(ITEMS), st.sampled_from(RELATIONS), st.sampled_from(ITEMS)
)
names = st.builds(
    # One label of an item in a language, as on Wikidata.
    lambda item, language: Quad(item, LABEL, Literal(f"{item.value[-2:]} {language}", language=language)),
    st.sampled_from(ITEMS),
    st.sampled_from(["en", "de", "fr"]),
)
aliases = st.builds(lambda item: Quad(item, ALIAS, Literal("alias", language="en")), st.sampled_from(ITEMS))
numbers = st.builds(lambda s, n: Quad(s, RELATIONS[2], Literal(n)), st.sampled_from(ITEMS), st.integers(0, 3))
graphs = st.lists(st.one_of(edges, edges, edges, names, aliases, numbers), max_size=25)

terms = st.sampled_from(["?a", "?b", "?c", "wd:Q1", "wd:Q2"])
paths = st.sampled_from(["wdt:P1", "wdt:P2", "wdt:P1/wdt:P2", "wdt:P1*", "^wdt:P2", "wdt:P1|wdt:P3"])
triples = st.builds(lambda s, p, o: f"{s} {p} {o} .", st.sampled_from(["?a", "?b", "?c"]), paths, terms)
hints = st.sampled_from(['hint:Query hint:optimizer "None" .', "hint:Prior hint:runFirst true .", ""])
patterns = st.one_of(
    triples,
    triples,
    st.builds(lambda one: f"OPTIONAL {{ {one} }}", triples),
    st.builds(lambda one, other: f"{{ {one} }} UNION {{ {other} }}", triples, triples),
    st.builds(lambda one: f"FILTER NOT EXISTS {{ {one} }}", triples),
    st.just("FILTER(xsd:int(?c) > 0 || !BOUND(?c))"),
    st.just("FILTER(!wikibase:isSomeValue(?a))"),
    st.just("INCLUDE %some"),
)
groups = st.builds(
    lambda first, hint, rest: " ".join([first, hint, *rest]), triples, hints, st.lists(patterns, max_size=3)
)
services = st.sampled_from(
    [
        "",
        *(
            f'SERVICE wikibase:label {{ bd:serviceParam wikibase:language "{code}" . }}'
            for code in ("en", "de,en", "fr")
        ),
    ]
)
heads = st.sampled_from(["?a ?b ?c", "*", "?a ?aLabel", "DISTINCT ?b ?bLabel ?bAltLabel", "?a ?aLabel ?cLabel"])
counted = st.sampled_from(["", "?aLabel (COUNT(?b) AS ?n)"])
subqueries = st.builds(lambda group: f"WITH {{ SELECT DISTINCT ?a {{ {group} }} }} AS %some", triples)


def _query(head: str, grouped: str, subquery: str, group: str, service: str) -> str:
    tail = "GROUP BY ?aLabel HAVING(?n > 0)" if grouped and service else ""
    return f"SELECT {grouped if tail else head} {subquery} WHERE {{ {group} {service} }} {tail}"


queries = st.builds(_query, heads, counted, subqueries, groups, services)


def bindings(store: Store, text: str) -> Counter[frozenset[tuple[str, str]]]:
    result: Any = store.query(text)
    names = [variable.value for variable in result.variables]
    return Counter(
        frozenset((name, str(cell)) for name, cell in zip(names, row, strict=True) if cell is not None)
        for row in result
    )


@given(graphs, queries)
def test_rewriting_for_a_dialect_and_back_keeps_the_rows(graph, query):
    store = Store()
    store.extend(graph)
    expected = bindings(store, prepare(query, DIALECTS["oxigraph"]).text)
    for name in ("qlever", "virtuoso", "sparql11"):
        there = prepare(query, DIALECTS[name])
        assert bindings(store, prepare(there.text, DIALECTS["oxigraph"]).text) == expected, (name, there.text)
