from __future__ import annotations

import pyoxigraph as ox
import pytest

from kbnav.knowledge.sparql.dialects import DIALECTS
from kbnav.knowledge.sparql.rewriting import rewrite
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES

FACTS = """
wd:Q7186 rdfs:label "Marie Curie"@en, "Maria Skłodowska-Curie"@pl ; wdt:P106 wd:Q169470 ; wdt:P569 "1867" .
wd:Q42 rdfs:label "Douglas Adams"@mul ; wdt:P106 wd:Q36180 .
wd:Q169470 rdfs:label "Physiker"@de ; schema:description "scientist"@en ;
  skos:altLabel "natural philosopher"@en, "physics researcher"@en, "Physikerin"@de .
wd:Q937 wdt:P106 wd:Q169470 .
"""
SERVICE = 'SERVICE wikibase:label { bd:serviceParam wikibase:language "%s". }'
EN = SERVICE % "en"


@pytest.fixture(scope="module")
def store() -> ox.Store:
    store = ox.Store()
    store.update("".join(f"PREFIX {p}: <{i}> " for p, i in STANDARD_PREFIXES.items()) + "INSERT DATA {" + FACTS + "}")
    return store


def rewritten(query: str) -> str:
    return rewrite(query, DIALECTS["oxigraph"])


def rows(store: ox.Store, query: str) -> list[tuple[str | None, ...]]:
    result = store.query(rewritten(query), prefixes=dict(STANDARD_PREFIXES))
    names = result.variables
    found = [tuple(None if row[name] is None else row[name].value for name in names) for row in result]
    return sorted((tuple(v and v.removeprefix(STANDARD_PREFIXES["wd"]) for v in row) for row in found), key=repr)


def test_automatic_mode_takes_the_first_language_and_then_the_id(store: ox.Store) -> None:
    query = "SELECT ?x ?xLabel ?yLabel { ?x wdt:P106 ?y . %s . }" % (SERVICE % "[AUTO_LANGUAGE],mul,de")
    assert rows(store, query) == [
        ("Q42", "Douglas Adams", "Q36180"),
        ("Q7186", "Marie Curie", "Physiker"),
        ("Q937", "Q937", "Physiker"),
    ]
    polish = "SELECT ?xLabel { ?x wdt:P569 ?d %s }" % (SERVICE % "pl,en")
    assert rows(store, polish) == [("Maria Skłodowska-Curie",)]


def test_descriptions_and_aliases(store: ox.Store) -> None:
    query = "SELECT DISTINCT ?yDescription ?yAltLabel { ?x wdt:P106 ?y . FILTER(?y = wd:Q169470) %s }"
    (row,) = rows(store, query % EN)
    assert row[0] == "scientist"
    assert sorted((row[1] or "").split(", ")) == ["natural philosopher", "physics researcher"]
    assert rows(store, query % (SERVICE % "fr,de")) == [(None, "Physikerin")]


def test_manual_mode_fills_only_what_it_names(store: ox.Store) -> None:
    query = """SELECT ?x ?xLabel ?job (GROUP_CONCAT(?known; SEPARATOR="|") AS ?k) ?const {
      ?x wdt:P569 ?d ; wdt:P106 ?y .
      SERVICE wikibase:label { bd:serviceParam wikibase:language "en", "de" .
        ?y rdfs:label ?job ; skos:altLabel ?known . wd:Q7186 rdfs:label ?const }
    } GROUP BY ?x ?xLabel ?job ?const"""
    ((entity, label, job, known, const),) = rows(store, query)
    assert (entity, label, job, const) == ("Q7186", None, "Physiker", "Marie Curie")
    assert "physics researcher" in (known or "")


def test_labels_group_sort_and_filter(store: ox.Store) -> None:
    query = "SELECT ?y ?yLabel (COUNT(?x) AS ?n) { ?x wdt:P106 ?y %s } GROUP BY ?y ?yLabel ORDER BY ?yLabel"
    assert rows(store, query % (SERVICE % "de")) == [("Q169470", "Physiker", "2"), ("Q36180", "Q36180", "1")]
    query = 'SELECT ?x { ?x wdt:P106 ?y . %s FILTER(CONTAINS(?xLabel, "Curie")) }'
    assert rows(store, query % EN) == [("Q7186",)]


def test_a_star_shows_no_helper_variables(store: ox.Store) -> None:
    query = 'SELECT * { ?x wdt:P569 ?d . FILTER(?xLabel != "") ' + EN + "}"
    result = store.query(rewritten(query), prefixes=dict(STANDARD_PREFIXES))
    assert {name.value for name in result.variables} == {"x", "d", "xLabel"}


def test_subqueries_have_their_own_labels(store: ox.Store) -> None:
    query = "SELECT ?x ?name { { SELECT ?x ?xLabel { ?x wdt:P569 ?d . %s } } BIND(?xLabel AS ?name) %s }"
    assert rows(store, query % (SERVICE % "pl", EN)) == [("Q7186", "Maria Skłodowska-Curie")]


def test_an_unbound_variable_and_a_literal_have_the_labels_they_have_on_the_service(store: ox.Store) -> None:
    optional = "OPTIONAL { ?x wdt:P569 ?d } OPTIONAL { ?x wdt:P451 ?partner }"
    query = f"SELECT ?x ?partnerLabel ?dLabel {{ ?x wdt:P106 ?y {optional} {EN} }}"
    assert rows(store, query) == [("Q42", None, None), ("Q7186", None, "1867"), ("Q937", None, None)]


def test_a_label_that_the_query_binds_itself_is_left_alone(store: ox.Store) -> None:
    query = 'SELECT ?xLabel { ?x wdt:P569 ?d ; rdfs:label ?xLabel . FILTER(LANG(?xLabel) = "pl") ' + EN + "}"
    assert rows(store, query) == [("Maria Skłodowska-Curie",)]
