import pytest
import requests


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
