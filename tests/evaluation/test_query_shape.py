"""What a query is made of, beside RDFLib's parser and counts made by hand."""

from collections import Counter

from kbnav.evaluation.dataset_stats import Triple, query_shape

WD = "http://www.wikidata.org/entity/"
WDT = "http://www.wikidata.org/prop/direct/"


def test_every_kind_of_clause_is_counted_once():
    shape = query_shape("""
        # ?comment wdt:P1 "not code"
        SELECT DISTINCT ?x ?xLabel (COUNT(?y) AS ?n) WHERE {
          VALUES ?x { wd:Q1 wd:Q2 }
          ?x wdt:P31/wdt:P279* wd:Q5, wd:Q6 ; wdt:P106 [ wdt:P279 ?y ] .
          OPTIONAL { ?x wdt:P18 ?image FILTER(?image != "a # b"@en) }
          MINUS { ?x wdt:P570 [] }
          { ?x wdt:P569 ?date } UNION { ?x wdt:P571 ?date }
          FILTER(YEAR(?date) > 1900 && NOT EXISTS { ?x wdt:P31 wd:Q7 })
          BIND(1.5 AS ?weight)
          SERVICE wikibase:label { bd:serviceParam wikibase:language "en" . }
        } GROUP BY ?x ?xLabel HAVING (COUNT(?y) > 2) ORDER BY DESC(?n) LIMIT 10""")
    assert shape.clauses == Counter(
        {"triple": 9, "FILTER": 2}
        | dict.fromkeys(("SELECT", "VALUES", "OPTIONAL", "MINUS", "UNION", "BIND"), 1)
        | dict.fromkeys(("GROUP BY", "HAVING", "ORDER BY", "LIMIT"), 1)
    )
    assert shape.projections == ("x", "xLabel", "n")
    assert shape.triples[0] == Triple("?x", f"{WDT}P31/{WDT}P279*", WD + "Q5")
    assert len(shape.subjects) == 2  # ?x and the blank node
    assert {WD + name for name in ("Q1", "Q2", "Q5", "Q6", "Q7")} < shape.objects
    assert shape.literals == {'"a # b"@en', "1900", "1.5", "2"}
    assert shape.properties == {"P31", "P279", "P106", "P18", "P570", "P569", "P571"}


def test_named_subqueries_and_hints_of_blazegraph_are_read():
    shape = query_shape("""
        SELECT * WITH { SELECT ?item (MAX(?d) AS ?last) { ?item wdt:P31 wd:Q5 ; wdt:P569 ?d } GROUP BY ?item } AS %i
        WHERE { INCLUDE %i . ?item wdt:P18 ?image . hint:Prior hint:gearing "forward" . }""")
    assert shape.projections == ("image", "item", "last")
    assert shape.clauses == Counter({"SELECT": 2, "triple": 3, "GROUP BY": 1})
    assert shape.literals == frozenset()


def test_a_pattern_is_blind_to_names_ids_numbers_and_strings_only():
    first = query_shape('SELECT ?a { ?a wdt:P31 wd:Q5 ; rdfs:label "x" } LIMIT 5').pattern
    long = "<http://www.wikidata.org/prop/direct/P279>"
    assert query_shape(f"select $b {{ $b {long} wd:Q2 ; rdfs:label 'y' # z\n }} limit 10").pattern == first
    assert query_shape('SELECT ?a { ?a p:P31 wd:Q5 ; rdfs:label "x" } LIMIT 5').pattern != first
    own = "PREFIX d: <http://www.wikidata.org/prop/direct/> PREFIX e: <http://www.wikidata.org/entity/>"
    assert query_shape(f'{own} SELECT ?a {{ ?a d:P31 e:Q5 ; rdfs:label "x" }} LIMIT 5').pattern == first
