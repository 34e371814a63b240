import time
from typing import Any

import pytest
import requests
from SPARQLWrapper import CSV, JSON, N3, POST, XML, SPARQLWrapper
from SPARQLWrapper.SPARQLExceptions import EndPointInternalError, QueryBadFormed

from kbnav.knowledge.wikidata.mirror.server import MirrorServer

CURIES = "SELECT ?element { ?element wdt:P61 wd:Q7186 }"


def wrapper(server: MirrorServer, query: str, form: str = JSON) -> SPARQLWrapper:
    client = SPARQLWrapper(server.endpoints.sparql, agent="tests")
    client.setQuery(query)
    client.setReturnFormat(form)
    client.setTimeout(20)
    return client


def ask(server: MirrorServer, query: str, **headers: str) -> requests.Response:
    parameters = {"query": query} | ({} if headers else {"format": "json"})
    return requests.get(server.endpoints.sparql, params=parameters, headers=headers, timeout=20)


def rows(server: MirrorServer, query: str) -> list[dict[str, Any]]:
    reply = ask(server, query)
    assert reply.status_code == 200, reply.text
    return reply.json()["results"]["bindings"]


def test_ask_and_construct_come_as_from_the_query_service(server):
    assert ask(server, "ASK { wd:Q7186 wdt:P31 wd:Q5 }").json() == {"head": {}, "boolean": True}
    construct = "CONSTRUCT { ?e wdt:P61 wd:Q7186 } WHERE { ?e wdt:P61 wd:Q7186 }"
    turtle = ask(server, construct, Accept="text/turtle")
    assert turtle.headers["Content-Type"].startswith("text/turtle")
    triples = ask(server, construct, Accept="text/html;q=0.5, application/n-triples")
    assert len(triples.text.strip().splitlines()) == 2
    assert ask(server, construct, Accept="*/*").headers["Content-Type"].startswith("application/rdf+xml")
    assert b"P61" in wrapper(server, construct, N3).query().response.read()


def test_rows_come_in_the_form_that_was_asked_for(server):
    assert wrapper(server, CURIES, XML).query().response.read().startswith(b"<?xml")
    assert wrapper(server, CURIES, CSV).query().response.read().splitlines()[0] == b"element"
    assert ask(server, CURIES, Accept="text/tab-separated-values").text.splitlines()[0] == "?element"
    # To clients that ask for nothing Wikidata sends XML.
    assert ask(server, CURIES, Accept="*/*").headers["Content-Type"].startswith("application/sparql-results+xml")


def test_functions_of_the_query_service_work(server):
    paris, berlin = '"Point(2.35 48.85)"^^geo:wktLiteral', '"Point(13.4 52.5)"^^geo:wktLiteral'
    (row,) = rows(server, f"SELECT (geof:distance({paris}, {berlin}) AS ?km) (geof:latitude({paris}) AS ?north) {{}}")
    assert float(row["km"]["value"]) == pytest.approx(877, abs=2)
    assert float(row["north"]["value"]) == 48.85
    unknown = rows(server, "SELECT ?e { ?e wdt:P61 ?who FILTER(wikibase:isSomeValue(?who)) }")
    assert [row["e"]["value"] for row in unknown] == ["http://www.wikidata.org/entity/Q677"]


def test_a_query_that_does_not_parse_is_reported_as_the_query_service_does(server):
    query = "SELECT ?x WHERE {\n  ?x wdt:P31 ??\n}"
    reply = ask(server, query)
    assert reply.status_code == 400
    assert reply.text.startswith(f"SPARQL-QUERY: queryStr={query}\njava.util.concurrent.ExecutionException: ")
    assert "org.openrdf.query.MalformedQueryException: " in reply.text
    assert "line 2" in reply.text
    with pytest.raises(QueryBadFormed):
        wrapper(server, query).query()


ENDLESS = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"


def test_posting_a_query_works_in_both_ways(server: MirrorServer):
    client = wrapper(server, CURIES)
    client.setMethod(POST)
    assert len(client.queryAndConvert()["results"]["bindings"]) == 2
    kind = {"Content-Type": "application/sparql-query", "Accept": "application/sparql-results+json"}
    reply = requests.post(server.endpoints.sparql, data=CURIES.encode(), headers=kind, timeout=20)
    assert len(reply.json()["results"]["bindings"]) == 2


def test_a_query_without_end_is_stopped_and_the_next_one_works(server: MirrorServer):
    begin = time.monotonic()
    reply = ask(server, ENDLESS)
    assert time.monotonic() - begin < 10  # the limit is one second
    assert reply.status_code == 500
    assert reply.text.startswith(f"SPARQL-QUERY: queryStr={ENDLESS}\njava.util.concurrent.TimeoutException")
    assert len(rows(server, CURIES)) == 2
    with pytest.raises(EndPointInternalError):
        wrapper(server, ENDLESS).query()
