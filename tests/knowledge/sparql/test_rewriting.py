from dataclasses import replace
from typing import Any

import pytest
from pyoxigraph import NamedNode, RdfFormat, Store

from kbnav.errors import QueryRefused, QuerySyntaxError, UsageError
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.sparql.dialects import DIALECTS, GEOF_WIKIDATA, Dialect, dialect_named, text_search
from kbnav.knowledge.sparql.rewriting import prepare, rewrite
from kbnav.knowledge.sparql.vocabulary import LABEL_SERVICE, STANDARD_PREFIXES, add_prefixes
from kbnav.knowledge.wikidata.mirror.worker import functions
from kbnav.settings.model import Settings

# What stands in place of services and functions needs an engine with functions for places to be seen at work.
PLACES = {"geo": GEOF_WIKIDATA, "functions": frozenset(one.value for one in functions())}
WITH_LATERAL, WITHOUT = (replace(DIALECTS[name], **PLACES) for name in ("oxigraph", "qlever"))
LABELS = 'SERVICE wikibase:label { bd:serviceParam wikibase:language "de,en" }'
DATA = """
wd:Q1 wdt:P31 wd:Q9 ; rdfs:label "one"@en , "eins"@de ; wdt:P40 wd:Q2 ; wdt:P625 "Point(2.35 48.85)"^^geo:wktLiteral ;
    skos:altLabel "uno"@en ; schema:description "the first"@en ; wdt:P1082 10 .
wd:Q2 wdt:P31 wd:Q9 ; rdfs:label "two"@en ; wdt:P40 wd:Q3 ; wdt:P625 "Point(13.4 52.5)"^^geo:wktLiteral ; wdt:P1082 20 .
wd:Q3 wdt:P31 wd:Q9 ; wdt:P40 wd:Q4 ; wdt:P625 "Point(179.5 -17)"^^geo:wktLiteral ; wdt:P1082 30 .
wd:Q4 wdt:P31 wd:Q8 ; wdt:P569 <http://www.wikidata.org/.well-known/genid/1> ;
    wdt:P625 "Point(-179 -18)"^^geo:wktLiteral .
wd:Q9 rdfs:label "number"@en .
"""


@pytest.fixture(scope="module")
def store() -> Store:
    made = Store()
    prologue = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in STANDARD_PREFIXES.items())
    made.load((prologue + DATA).encode(), format=RdfFormat.TURTLE)
    return made


def rows(store: Store, query: str, dialect: Dialect) -> list[tuple[str, ...]]:
    """The rows of a query in a dialect's form, sorted; each cell is its term's text or empty."""
    result: Any = store.query(prepare(query, dialect).text, custom_functions=functions())
    columns = [variable.value for variable in result.variables]
    order = sorted(range(len(columns)), key=columns.__getitem__)
    return sorted(tuple("" if one[at] is None else _short(one[at]) for at in order) for one in result)


def _short(term: Any) -> str:
    return term.value.rpartition("/")[2] if isinstance(term, NamedNode) else term.value


@pytest.mark.parametrize("dialect", [WITH_LATERAL, WITHOUT], ids=["lateral", "standard"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            f"SELECT ?x ?xLabel {{ ?x wdt:P31 wd:Q9 . {LABELS} }}",
            [("Q1", "eins"), ("Q2", "two"), ("Q3", "Q3")],
        ),
        (  # a star stands for what the pattern has, without what takes the service's place
            f"SELECT * {{ ?x wdt:P40 wd:Q2 . {LABELS} }}",
            [("Q1",)],
        ),
        (
            f"SELECT ?x ?yLabel ?yAltLabel {{ ?x wdt:P31 wd:Q8 OPTIONAL {{ ?x wdt:P361 ?y }} {LABELS} }}",
            [("Q4", "", "")],
        ),
        (
            f"SELECT ?xAltLabel ?xDescription {{ VALUES ?x {{ wd:Q1 wd:Q2 }} {LABELS} }}",
            [("", ""), ("uno", "the first")],
        ),
        (
            "SELECT ?n { ?x wdt:P40 wd:Q2 SERVICE wikibase:label "
            '{ bd:serviceParam wikibase:language "[AUTO_LANGUAGE]" . ?x rdfs:label ?n } }',
            [("one",)],
        ),
        (
            "SELECT ?x ?n WITH { SELECT ?x { ?x wdt:P31 wd:Q9 } ORDER BY ?x LIMIT 2 } AS %some "
            "WITH { SELECT (COUNT(*) AS ?n) { INCLUDE %some } } AS %count { INCLUDE %some . INCLUDE %count }",
            [("2", "Q1"), ("2", "Q2")],
        ),
        (
            'SELECT ?x { hint:Query hint:optimizer "None" ; hint:analytic true . ?x wdt:P40 ?y . '
            "hint:Prior hint:runFirst true . ?y wdt:P40 wd:Q4 hint:Prior hint:rangeSafe true FILTER(?x != wd:Q9) }",
            [("Q2",)],
        ),
        ("SELECT ?x { ?x wdt:P569 ?y FILTER(wikibase:isSomeValue(?y)) }", [("Q4",)]),
        (
            "PREFIX geof: <http://www.opengis.net/def/function/geosparql/> SELECT ?x { ?x wdt:P625 ?p "
            "FILTER(geof:latitude(?p) > geof:latitude('Point(0 50)'^^geo:wktLiteral)) }",
            [("Q2",)],
        ),
        ("SELECT (xsd:int('3') + 1 AS ?n) {}", [("4",)]),
        ("SELECT ?t (COUNT(?x) AS ?n) { ?x wdt:P31 ?t } GROUP BY ?t HAVING(?n > 1)", [("3", "Q9")]),
        (  # an alias is what it stands for, in other expressions too
            "SELECT ?t (SUM(?o) AS ?sum) (?sum * 2 AS ?twice) { ?x wdt:P31 ?t ; wdt:P1082 ?o } GROUP BY ?t "
            "HAVING(?twice > 20 && ?sum < 70) (?sum != 0) ORDER BY ?sum LIMIT 5",
            [("60", "Q9", "120")],
        ),
        (
            "SELECT ?n (COUNT(?t) AS ?m) { { SELECT ?t (COUNT(*) AS ?n) { ?x wdt:P31 ?t } GROUP BY ?t "
            "HAVING(?n < 2) } } GROUP BY ?n HAVING(?m = 1)",
            [("1", "1")],
        ),
        ("SELECT (COALESCE (MAX(?o), 0) AS ?n) { ?x wdt:P1082 ?o } HAVING(CONCAT('', STR(?n)) = '30')", [("30",)]),
        (  # the manual mode fills what it names
            "SELECT ?x ?xLabel ?job ?const { ?x wdt:P40 wd:Q2 SERVICE wikibase:label { bd:serviceParam "
            "wikibase:language 'en' . ?x skos:altLabel ?job . wd:Q9 rdfs:label ?const } }",
            [("number", "uno", "Q1", "")],
        ),
        (f"SELECT ?x {{ ?x wdt:P31 wd:Q9 . {LABELS} FILTER(CONTAINS(?xLabel, 'ein')) }}", [("Q1",)]),
        (  # a subquery has its own labels
            "SELECT ?n ?xLabel { { SELECT ?x ?xLabel { ?x wdt:P40 wd:Q2 SERVICE wikibase:label "
            "{ bd:serviceParam wikibase:language 'en' } } } BIND(?xLabel AS ?n) }",
            [("one", "one")],
        ),
        (
            f"SELECT ?xLabel {{ ?x wdt:P40 wd:Q2 ; rdfs:label ?xLabel . FILTER(LANG(?xLabel) = 'en') {LABELS} }}",
            [("one",)],
        ),
    ],
)
def test_what_blazegraph_has_gives_its_rows_elsewhere(store, query, expected, dialect):
    if "xsd:int" in query:
        dialect = replace(dialect, narrow_integers=False)  # the store is Oxigraph, whatever the dialect
    assert rows(store, query, dialect) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ?p (COUNT(?s) AS ?n) { ?s ?p ?o } GROUP BY ?p HAVING(MAX(?n) > 1)",
        "SELECT ?p (COUNT(?s) AS ?n) { ?s ?p ?o } GROUP BY ?p HAVING(BOUND(?n))",
        "SELECT ?p (COUNT(?s) AS ?n) { ?s ?p ?o } GROUP BY ?p HAVING(EXISTS { ?p ?q ?n })",
        'SELECT ?p (COUNT(?s) AS ?n) { ?s ?p "HAVING(?n > 1)" } GROUP BY ?p # HAVING(?n > 1)',
        "SELECT (?o + 1 AS ?n) (?n * 2 AS ?m) { ?s ?p ?o } ORDER BY ?m",
    ],
)
def test_what_is_no_alias_of_its_select_is_left_alone(query):
    assert rewrite(query, DIALECTS["oxigraph"]) == query


def test_aliases_of_aliases_do_not_grow_without_end():
    doubled = " ".join(f"(?a{number} + ?a{number} AS ?a{number + 1})" for number in range(1, 60))
    query = f"SELECT (COUNT(*) AS ?a1) {doubled} {{ ?s ?p ?o }} HAVING(?a60 > 1)"
    assert len(rewrite(query, DIALECTS["oxigraph"])) < 1_000_000


@pytest.mark.parametrize(
    ("query", "dialect", "said"),
    [
        ("SELECT ?x {\n SERVICE wikibase:mwapi { ?x wdt:P1 ?y } }", "qlever", ["line 2, column 2", "VALUES"]),
        ("SELECT ?x { SERVICE gas:service { ?x gas:in ?y } }", "virtuoso", ["property path"]),
        ("SELECT ?x { SERVICE bd:sample { ?x wdt:P1 ?y } }", "sparql11", ["LIMIT"]),
        ("SELECT ?x { SERVICE wikibase:around { ?x wdt:P1 ?y } }", "qlever", ["compare geof:distance"]),
        ("SELECT ?x { SERVICE wikibase:box { ?x wdt:P1 ?y } }", "oxigraph", ["compare geof:latitude"]),
        ("SELECT ?x { SERVICE bd:slice { ?x wdt:P1 ?y } }", "sparql11", ["LIMIT and OFFSET"]),
        ("SELECT (geof:distance(?a, ?b) AS ?d) { ?a ?b ?c }", "oxigraph", ["geof:distance"]),
        ("SELECT (wikibase:decodeUri(?a) AS ?d) { ?a ?b ?c }", "qlever", ["wikibase:decodeUri"]),
        ("SELECT ?x { ?x ?y ?z LATERAL { ?z ?y ?w } }", "qlever", ["line 1, column 22", "LATERAL"]),
        ("SELECT ?x { ?x ?y ?z LATERAL { ?z ?y ?w } }", "wdqs", ["LATERAL"]),
        ("SELECT ?x { INCLUDE %a }", "qlever", ["%a", "not defined"]),
        (
            "SELECT ?x WITH { SELECT ?x { ?x ?p 1 } LIMIT 3 } AS %a { INCLUDE %a . INCLUDE %a }",
            "qlever",
            ["other rows each time"],
        ),
        ("SELECT ?x WITH { SELECT ?x { INCLUDE %a } } AS %a { INCLUDE %a }", "qlever", ["too often"]),
        ("SELECT ?x { ?x wdt:P31 }", "virtuoso", ["line 1, column 24", "expected"]),
    ],
)
def test_what_cannot_be_said_is_told_with_its_place(query, dialect, said):
    services = {"http://www.bigdata.com/rdf/gas#service", "http://wikiba.se/ontology#mwapi"}
    with pytest.raises(QuerySyntaxError) as caught:
        prepare(query, dialect_named(dialect), services=services)
    assert all(part in str(caught.value) for part in said), str(caught.value)


def test_only_allowed_services_are_left_and_only_where_the_engine_asks_others():
    query = "SELECT ?x { SERVICE <https://other.example/sparql> { ?x ?p ?y } }"
    with pytest.raises(QueryRefused):
        prepare(query, DIALECTS["qlever"])
    allowed = ["https://other.example/sparql"]
    assert prepare(query, DIALECTS["qlever"], services=allowed).text == query
    with pytest.raises(QuerySyntaxError, match="no other endpoint"):
        prepare(query, replace(DIALECTS["oxigraph"], federation=False), services=allowed)


@pytest.mark.parametrize("dialect", [WITH_LATERAL, WITHOUT], ids=["lateral", "standard"])
def test_an_allowed_service_may_be_silent(store, dialect):
    silent = f"SELECT ?x ?xLabel {{ ?x wdt:P31 wd:Q9 . {LABELS} }}".replace("SERVICE", "SERVICE SILENT")
    assert rows(store, silent, dialect) == [("Q1", "eins"), ("Q2", "two"), ("Q3", "Q3")]
    assert prepare(silent, DIALECTS["wdqs"], services=[LABEL_SERVICE]).text.endswith(silent)
    other = "SELECT ?x { SERVICE SILENT <https://other.example/sparql> { ?x ?p ?y } }"
    assert prepare(other, DIALECTS["qlever"], services=["https://other.example/sparql"]).text == other
    with pytest.raises(QueryRefused, match="not allowed here"):
        prepare(other, DIALECTS["qlever"], services=["https://another.example/sparql"])


def test_standard_queries_stay_as_they_are_in_every_dialect():
    for name, dialect in DIALECTS.items():
        query = "# a comment\nSELECT ?x { ?x wdt:P31/wdt:P279* wd:Q5 FILTER NOT EXISTS { ?x wdt:P570 [] } } LIMIT 3"
        prepared = prepare(query, dialect)
        assert (prepared.text, prepared.changed) == (add_prefixes(query), False), name


@pytest.mark.parametrize("kind", ["", "virtuoso", "qlever"])
def test_text_is_searched_in_each_engines_form_and_words_cannot_break_out(kind):
    dialect = replace(DIALECTS["sparql11"], text=kind)
    found = text_search(dialect, "?e", ["rdfs:label", "skos:prefLabel"], "?name", "Marie \"Curie'} ; DROP")
    prepare(f"SELECT ?e ?name {{ {found} }}", dialect)  # parses
    assert all(word in found for word in ("marie", "curie", "drop"))
    assert text_search(dialect, "?e", ["rdfs:label"], "?name", " ?! ") == ""


def test_a_dialect_of_any_name_in_the_list_may_be_set_and_no_other(tmp_path):
    for name in DIALECTS:
        source = {"url": "http://127.0.0.1:9/sparql", "dialect": name}
        with open_kb(Settings(kb="shop", sparql={"shop": source}, home=tmp_path)) as kb:
            assert kb.name == "shop"
    with (
        pytest.raises(UsageError, match="did you mean 'virtuoso'"),
        open_kb(Settings(kb="mini", endpoints={"dialect": "virtuosso"}, home=tmp_path)),
    ):
        pass
