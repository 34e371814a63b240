"""The bundled mini mirror: valid and consistent in itself."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pyoxigraph as ox
import pytest

import kbnav
from tests.conftest import ROOT

MINI = Path(kbnav.__file__).parent / "data" / "mini.ttl"
QUESTIONS = json.loads((Path(__file__).parent / "mini_questions.json").read_text(encoding="utf-8"))
HEADER = "\n".join(
    f"PREFIX {line}" for line in re.findall(r"^@prefix (.+?) \.$", MINI.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.fixture(scope="module")
def store() -> ox.Store:
    store = ox.Store()
    store.load(path=str(MINI), format=ox.RdfFormat.TURTLE)
    return store


def rows(store: ox.Store, query: str) -> list[tuple[str | None, ...]]:
    solutions = store.query(f"{HEADER}\n{query}")
    if not isinstance(solutions, ox.QuerySolutions):
        raise TypeError("not a SELECT query")
    return [tuple(None if term is None else short(term) for term in row) for row in solutions]


def short(term: object) -> str:
    """Ids without their namespace, literals by their text."""
    if isinstance(term, ox.NamedNode):
        return re.sub(r"^http://www\.wikidata\.org/(entity|prop(/direct|/statement|/qualifier)?)/", "", term.value)
    if isinstance(term, ox.Literal):
        return term.value
    return "unknown"


def test_every_item_and_property_in_use_has_a_name_a_description_and_a_date(store: ox.Store):
    query = r"""SELECT DISTINCT ?e {
      { ?s ?p ?e } UNION { ?e ?p ?s }
      FILTER(REGEX(STR(?e), "/entity/[QP][0-9]+$"))
      FILTER NOT EXISTS { ?e rdfs:label ?l ; schema:description ?d ; schema:dateModified ?m }
      FILTER NOT EXISTS { ?v wikibase:timeCalendarModel ?e }
      FILTER NOT EXISTS { ?e owl:sameAs ?other } }"""
    assert rows(store, query) == []


def test_direct_claims_are_exactly_the_values_of_the_best_ranked_statements(store: ox.Store):
    best = defaultdict(set)
    order = {"http://wikiba.se/ontology#PreferredRank": 2, "http://wikiba.se/ontology#NormalRank": 1}
    query = """SELECT ?s ?p ?v ?rank (EXISTS { ?node a wikibase:BestRank } AS ?best) {
      ?w wikibase:claim ?p ; wikibase:statementProperty ?ps .
      ?s ?p ?node . ?node wikibase:rank ?rank OPTIONAL { ?node ?ps ?v } }"""
    statements = [row for row in rows(store, query) if str(row[3]) in order]
    top: dict[tuple[str | None, str | None], int] = {}
    for subject, name, _, rank, _ in statements:
        top[subject, name] = max(order[str(rank)], top.get((subject, name), 0))
    for subject, name, value, rank, marked in statements:
        is_best = order[str(rank)] == top[subject, name]
        assert (marked == "true") == is_best, (subject, name, value)
        if is_best and value is not None:
            best[subject, name].add(value)
    claims = defaultdict(set)
    query = "SELECT ?s ?p ?o { ?w wikibase:directClaim ?d ; wikibase:claim ?p . ?s ?d ?o }"
    for subject, name, value in rows(store, query):
        claims[subject, name].add(value)
    assert claims == best
    assert sum(len(values) for values in claims.values()) > 550


def test_values_are_of_the_datatype_that_the_property_declares(store: ox.Store):
    expected = {
        "WikibaseItem": (ox.NamedNode, ox.BlankNode),
        "Time": "http://www.w3.org/2001/XMLSchema#dateTime",
        "Quantity": "http://www.w3.org/2001/XMLSchema#decimal",
        "String": "http://www.w3.org/2001/XMLSchema#string",
        "GlobeCoordinate": "http://www.opengis.net/ont/geosparql#wktLiteral",
    }
    query = """SELECT ?type ?v { ?w wikibase:propertyType ?type .
      { ?w wikibase:directClaim ?u } UNION { ?w wikibase:statementProperty ?u } UNION { ?w wikibase:qualifier ?u }
      ?s ?u ?v }"""
    solutions = list(store.query(f"{HEADER}\n{query}"))
    assert len(solutions) > 1300
    for row in solutions:
        want = expected[row["type"].value.rsplit("#", 1)[1]]
        value = row["v"]
        assert value.datatype.value == want if isinstance(want, str) else isinstance(value, want), row


def test_every_date_has_a_value_node_that_agrees_with_it(store: ox.Store):
    simple = rows(
        store,
        """SELECT ?node ?p ?v { ?w wikibase:propertyType wikibase:Time .
        { ?w wikibase:statementProperty ?p } UNION { ?w wikibase:qualifier ?p } ?node ?p ?v }""",
    )
    full = rows(
        store,
        """SELECT ?node ?p ?v ?precision { ?w wikibase:propertyType wikibase:Time .
        { ?w wikibase:statementProperty ?p ; wikibase:statementValue ?f }
        UNION { ?w wikibase:qualifier ?p ; wikibase:qualifierValue ?f }
        ?node ?f [ wikibase:timeValue ?v ; wikibase:timePrecision ?precision ] }""",
    )
    assert Counter(simple) == Counter(row[:3] for row in full)
    assert {row[3] for row in full} == {"9", "11"}
    assert all(str(row[2]).endswith("-01-01T00:00:00Z") for row in full if row[3] == "9")


def test_the_guide_says_how_much_there_is(store: ox.Store):
    def count(pattern: str) -> int:
        return int(str(rows(store, f"SELECT (COUNT(*) AS ?n) {{ {pattern} }}")[0][0]))

    guide = re.sub(r"\s+", " ", (ROOT / "docs" / "mini-mirror.md").read_text(encoding="utf-8"))
    elements, people = count("?e wdt:P31 wd:Q11344"), count("?p wdt:P31 wd:Q5")
    assert f"{elements} chemical elements, {people} people around them" in guide
    statements, entities, properties = (count(f"?s a wikibase:{kind}") for kind in ("Statement", "Item", "Property"))
    assert f"holds {statements} statements on {entities} items, and {properties} properties" in guide
    assert f"has {len(QUESTIONS)} questions in seven languages" in guide


def test_the_corners_that_tests_need_are_there(store: ox.Store):
    def ask(pattern: str) -> bool:
        return bool(store.query(f"{HEADER}\nASK {{ {pattern} }}"))

    assert ask("wd:Q937 p:P166 [ ps:P166 wd:Q156478 ; wikibase:rank wikibase:DeprecatedRank ; pq:P2241 wd:Q1263068 ]")
    assert not ask("wd:Q937 wdt:P166 wd:Q156478")
    assert ask("wd:Q159 p:P36 [ ps:P36 wd:Q649 ; wikibase:rank wikibase:PreferredRank ]")
    assert ask("wd:Q159 p:P36 [ ps:P36 wd:Q656 ; wikibase:rank wikibase:NormalRank ]")
    assert not ask("wd:Q159 wdt:P36 wd:Q656")
    assert ask("wd:Q677 wdt:P61 ?someone FILTER(ISBLANK(?someone))")
    assert ask("wd:Q131733 a wdno:P26 ; p:P26 [ a wdno:P26 ]")
    assert ask("wd:Q13165295 owl:sameAs wd:Q1 . wd:Q1 a wikibase:Item")
    assert ask('wd:Q150989 rdfs:label ?name FILTER(LANG(?name) = "mul")')
    assert not ask('wd:Q150989 rdfs:label ?name FILTER(LANG(?name) = "en")')


@pytest.mark.parametrize("row", QUESTIONS, ids=[row["id"] for row in QUESTIONS])
def test_gold_query_gives_the_answer(store: ox.Store, row: dict[str, object]):
    if row["kind"] == "boolean":
        assert bool(store.query(f"{HEADER}\n{row['sparql']}")) is row["answer"]
    else:
        assert sorted(str(found[0]) for found in rows(store, str(row["sparql"]))) == row["answer"]


def test_questions_cover_kinds_and_languages_and_follow_an_earlier_one_where_they_say_so():
    seen: list[str] = []
    for row in QUESTIONS:
        assert (row["kind"] == "follow-up") == ("after" in row)
        assert row.get("after", row["id"]) in [*seen, row["id"]]
        seen.append(row["id"])
    assert len(set(seen)) == len(seen) >= 25
    assert {row["language"] for row in QUESTIONS} == {"en", "de", "fr", "es", "ru", "zh", "ar"}
    assert {row["kind"] for row in QUESTIONS} == {
        "simple",
        "two-hop",
        "count",
        "superlative",
        "boolean",
        "qualifier",
        "rank",
        "follow-up",
    }
