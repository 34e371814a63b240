from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Store

from kbnav.knowledge.wikidata.mirror.mirror import Documents
from kbnav.knowledge.wikidata.mirror.rdf import WKT, decode, guess_datatype
from kbnav.knowledge.wikidata.mirror.search import Index, fold


def test_a_search_by_name_gives_labels_in_the_language_asked_for(api):
    hit = api(action="wbsearchentities", search="marie curie", language="en", uselang="de")["search"][0]
    assert (hit["id"], hit["label"], hit["match"]) == ("Q7186", "Marie Curie", {"text": "Marie Curie"})
    assert hit["concepturi"] == "http://www.wikidata.org/entity/Q7186"
    assert api(action="wbsearchentities", search="p61", language="en", type="property")["search"][0]["id"] == "P61"


def test_unknown_and_missing_values_are_told_apart(api):
    entities = api(action="wbgetentities", ids="Q677|Q131733", props="claims")["entities"]
    (discoverer,) = entities["Q677"]["claims"]["P61"]
    assert discoverer["mainsnak"] == {"snaktype": "somevalue", "property": "P61", "datatype": "wikibase-item"}
    (spouse,) = entities["Q131733"]["claims"]["P26"]
    assert spouse["mainsnak"]["snaktype"] == "novalue"


def test_props_and_languages_narrow_what_comes(api):
    got = api(action="wbgetentities", ids="Q7186|P61", props="labels|datatype", languages="de|ru")["entities"]
    assert set(got["Q7186"]) == {"type", "id", "labels"}
    assert set(got["Q7186"]["labels"]) == {"de", "ru"}
    assert got["P61"]["datatype"] == "wikibase-item"


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({}, "missingparam"),
        ({"action": "nonsense"}, "badvalue"),
        ({"action": "wbgetentities"}, "missingparam"),
        ({"action": "wbgetentities", "ids": "pop"}, "no-such-entity"),
        ({"action": "wbgetentities", "ids": "|".join(f"Q{n}" for n in range(1, 52))}, "toomanyvalues"),
        ({"action": "wbsearchentities", "language": "en"}, "missingparam"),
        ({"action": "wbsearchentities", "search": "a", "language": "en", "type": "planet"}, "badvalue"),
        ({"action": "wbsearchentities", "search": "a", "language": "en", "limit": "many"}, "badinteger"),
        ({"action": "query", "list": "search", "srsearch": "a " * 200}, "cirrussearch-query-too-long"),
        ({"action": "query", "list": "allpages"}, "badvalue"),
        ({"action": "query", "list": "search", "srsearch": "insource:/a.c/"}, "badvalue"),
        ({"action": "wbeditentity", "id": "Q1", "data": "{}"}, "badvalue"),
    ],
)
def test_errors_come_under_status_200_with_their_code(server, parameters, code):
    reply = requests.post(server.endpoints.api, data={"format": "json"} | parameters, timeout=10)
    assert reply.status_code == 200
    assert reply.headers["MediaWiki-API-Error"] == code
    error = reply.json()["error"]
    assert error["code"] == code
    assert error["info"]


def test_full_text_search_gives_pages_of_the_namespaces_asked_for(api):
    body = api(action="query", list="search", srsearch="discoverer", srnamespace="0|120", srlimit=500)
    hits = body["query"]["search"]
    assert {"Property:P61"} <= {hit["title"] for hit in hits if hit["ns"] == 120}
    assert all(hit["title"].startswith("Q") for hit in hits if hit["ns"] == 0)
    items = api(action="query", list="search", srsearch="element", srlimit=2)
    assert all(hit["ns"] == 0 for hit in items["query"]["search"])


@pytest.mark.parametrize(
    ("search", "suggestion"),
    [("polonum", "polonium"), ("Maria Skłodowska-Kurie", "Marie Skłodowska Curie"), ("qwxz", ""), ("po", "")],
)
def test_a_search_that_finds_nothing_suggests_a_name_that_is_like_it(api, search, suggestion):
    info = api(action="query", list="search", srsearch=search)["query"]["searchinfo"]
    assert info.get("suggestion", "") == suggestion


def test_site_information_and_maxlag_are_understood(api):
    body = api(action="query", meta="siteinfo", maxlag=-1)
    assert body["query"]["general"]["wikibase-conceptbaseuri"] == "http://www.wikidata.org/entity/"


PROP = "http://www.wikidata.org/prop/"


def documents(turtle: str) -> Documents:
    store = Store()
    prefixes = {"": PROP, "wd": "http://www.wikidata.org/entity/", "wdt": f"{PROP}direct/", "ps": f"{PROP}statement/"}
    prefixes |= {"s": "http://www.wikidata.org/entity/statement/", "pq": f"{PROP}qualifier/"}
    prefixes |= {"owl": "http://www.w3.org/2002/07/owl#"}
    head = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in prefixes.items())
    store.load((head + turtle).encode(), RdfFormat.TURTLE)
    return Documents(store)


def test_truthy_triples_without_a_statement_node_become_statements():
    made = documents("wd:Q1 :P1 s:Q1-abc ; wdt:P1 wd:Q2, wd:Q3 . s:Q1-abc ps:P1 wd:Q2 ; pq:P2 'x' .").document("Q1")
    first, second = made["claims"]["P1"]
    assert first["id"] == "Q1$abc"
    assert first["mainsnak"]["datavalue"]["value"]["id"] == "Q2"
    assert first["qualifiers"]["P2"][0]["datavalue"] == {"value": "x", "type": "string"}
    assert second["mainsnak"]["datavalue"]["value"] == {"entity-type": "item", "numeric-id": 3, "id": "Q3"}
    assert second["id"].startswith("Q1$truthy-")


def test_a_statement_node_without_a_value_is_left_out():
    made = documents("wd:Q1 :P39 s:Q1-abc . s:Q1-abc pq:P580 'x' .").document("Q1")
    assert made["claims"] == {}


def test_redirects_are_followed_and_circles_end():
    found = documents("wd:Q5 owl:sameAs wd:Q6 . wd:Q6 wdt:P1 'x' . wd:Q8 owl:sameAs wd:Q9 . wd:Q9 owl:sameAs wd:Q8 .")
    assert found.resolve("Q5") == "Q6"
    assert found.resolve("Q6") == "Q6"
    assert found.resolve("Q7") == ""
    assert found.resolve("Q8") == ""


def test_what_the_query_service_makes_of_unknown_values_is_unknown_too():
    made = documents("wd:Q1 wdt:P1 <http://www.wikidata.org/.well-known/genid/abc> .").document("Q1")
    assert made["claims"]["P1"][0]["mainsnak"] == {"snaktype": "somevalue", "property": "P1"}


ENGLISH = ["en", "mul"]


@pytest.fixture(scope="session")
def index(mini: Path) -> Iterator[Index]:
    with closing(Index(mini / "names.sqlite")) as opened:
        yield opened


def test_names_are_found_without_case_and_accents(index):
    for text in ("Frédéric Joliot-Curie", "frederic joliot-curie", "FRÉDÉRIC  JOLIOT", "frederic joliot"):
        assert index.by_name(text, "item", ENGLISH)[0][0] == "Q150989"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.text(max_size=40) | st.sampled_from("pcm"))
def test_any_text_can_be_searched_for(index, text):
    found = index.by_name(text, "item", ENGLISH, limit=9_999)
    assert all(fold(name).startswith(fold(text)) for _, name in found)
    assert index.by_name(text, "item", ENGLISH, limit=3) == found[:3]
    assert len(index.by_words(text, ["item", "property"])) <= 10


@pytest.mark.parametrize("text", ["爱因斯坦", "爱因", "斯坦", "坦", "因", "爱因斯坦 阿尔伯特", "Einstein 爱因"])
def test_a_part_of_a_name_without_spaces_is_found_in_the_full_text(index, text):
    assert index.by_name(text, "item", ENGLISH) == []
    assert "Q937" in index.by_words(text, ["item"], limit=100)


XSD = "http://www.w3.org/2001/XMLSchema#"


def test_a_quantity_has_its_unit_and_bounds_and_a_point_its_globe_and_precision():
    decimal, moon = NamedNode(f"{XSD}decimal"), "http://www.wikidata.org/entity/Q405"
    node = {"quantityUnit": NamedNode(moon), "quantityUpperBound": Literal("13", datatype=decimal)}
    value = decode("quantity", Literal("12", datatype=decimal), node)[1]["value"]
    assert value == {"amount": "+12", "unit": moon, "upperBound": "+13"}
    point = Literal(f"<{moon}> Point(2.5 -1)", datatype=WKT)
    value = decode("globe-coordinate", point, {"geoPrecision": Literal("0.1", datatype=NamedNode(f"{XSD}double"))})
    assert value[1]["value"] == {"latitude": -1, "longitude": 2.5, "altitude": None, "precision": 0.1, "globe": moon}


def test_a_time_without_a_value_node_is_a_year_on_the_first_of_january_and_a_day_otherwise():
    date_time = NamedNode("http://www.w3.org/2001/XMLSchema#dateTime")
    year = decode("time", Literal("1867-01-01T00:00:00Z", datatype=date_time))[1]["value"]
    assert (year["time"], year["precision"]) == ("+1867-00-00T00:00:00Z", 9)
    day = decode("time", Literal("1867-11-07T00:00:00Z", datatype=date_time))[1]["value"]
    assert (day["time"], day["precision"]) == ("+1867-11-07T00:00:00Z", 11)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (NamedNode("http://www.wikidata.org/entity/Q42"), "wikibase-item"),
        (NamedNode("http://www.wikidata.org/entity/P31"), "wikibase-property"),
        (NamedNode("http://www.wikidata.org/entity/L42-S3"), "wikibase-sense"),
        (NamedNode("http://commons.wikimedia.org/wiki/Special:FilePath/A.jpg"), "commonsMedia"),
        (NamedNode("http://commons.wikimedia.org/data/main/Data:A.map"), "geo-shape"),
        (NamedNode("https://example.org/"), "url"),
        (Literal("answer", language="en"), "monolingualtext"),
        (Literal("42"), "string"),
        (Literal("42", datatype=NamedNode("http://www.w3.org/2001/XMLSchema#decimal")), "quantity"),
        (Literal("2001", datatype=NamedNode("http://www.w3.org/2001/XMLSchema#dateTime")), "string"),
        (BlankNode(), "string"),
    ],
)
def test_the_datatype_of_a_property_that_is_not_described_is_guessed(term, expected):
    assert guess_datatype(term) == expected
