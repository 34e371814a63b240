"""The mirror's server: pages, queries over HTTP and in the process, and damage."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from SPARQLWrapper import CSV, JSON, N3, POST, XML, SPARQLWrapper
from SPARQLWrapper.SPARQLExceptions import EndPointInternalError, QueryBadFormed

from kbnav.errors import ServiceError, Stopped, TellModel, UsageError
from kbnav.knowledge.base import KnowledgeBase, Meter, counted_by
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.serving import MirrorServer
from kbnav.knowledge.sparql.dialects import DIALECTS
from kbnav.knowledge.sparql.rewriting import rewrite_dates
from kbnav.knowledge.wikidata.kb import WikidataKB
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.knowledge.wikidata.mirror.mirror import MIRROR, LocalQueries, Mirror
from kbnav.knowledge.wikidata.mirror.pool import QueryLimits
from kbnav.models.cancellation import Cancellation
from kbnav.settings.model import Limits, Settings


def talk(server: MirrorServer, request: bytes, *, complete: bool = True) -> bytes:
    """Send raw bytes and read until the server has no more to say."""
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=5) as connection:
        connection.sendall(request)
        if not complete:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received


@pytest.mark.parametrize(
    "path", ["Special:EntityData/Q1.json", "Special:EntityData/q1", "Q1", "Special:EntityData/Q13165295.json"]
)
def test_pages_are_documents_and_redirects_are_followed(server, path):
    reply = requests.get(server.endpoints.entity_page + path, timeout=10)
    assert list(reply.json()["entities"]) == ["Q1"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/wiki/Special:EntityData/Q999999999.json", 404),
        ("/wiki/Special:EntityData/nonsense.json", 404),
        ("/wiki/Special:EntityData/Q1.rdf", 404),
        ("/wiki/Special:EntityData/..%2F..%2Fmeta.json", 404),
        ("/wiki/Special:EntityData/../../../meta.json", 404),
        ("/meta.json", 404),
        ("/../../../../etc/passwd", 404),
        ("/%2e%2e/%2e%2e/etc/passwd", 404),
        ("//etc/passwd", 404),
        ("/sparql/../meta.json", 404),
        ("/sparql", 400),
        ("/sparql?query=", 400),
        ("/", 200),
    ],
)
def test_paths_are_answered_or_refused(server, path, status):
    received = talk(server, f"GET {path} HTTP/1.0\r\n\r\n".encode())
    assert received.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Traceback" not in received
    assert b"root:" not in received


def test_bodies_that_are_too_large_or_have_no_length_are_refused(server):
    head = "POST /sparql HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    assert talk(server, f"{head}Content-Length: 99999999999\r\n\r\n".encode()).startswith(b"HTTP/1.1 413 ")
    assert talk(server, f"{head}Content-Length: -1\r\n\r\n".encode()).startswith(b"HTTP/1.1 400 ")
    sent = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 17
    assert b" 413 " in talk(server, sent)[:20]
    form = requests.post(server.endpoints.sparql, files={"query": "ASK {}"}, timeout=10)
    assert form.status_code == 415
    assert requests.get(server.url + "/sparql", params={"query": "x" * 100_000}, timeout=10).status_code == 400
    assert requests.put(server.endpoints.sparql, data="x", timeout=10).status_code == 405


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.binary(max_size=200))
def test_no_request_brings_the_server_down(server, noise):
    assert b"Traceback" not in talk(server, noise, complete=False)
    assert b"Traceback" not in talk(
        server, b"POST /w/api.php HTTP/1.0\r\nContent-Length: 200\r\n\r\n" + noise, complete=False
    )
    assert requests.get(server.url, timeout=10).status_code == 200


@pytest.mark.parametrize(("what", "end"), [("mirror", signal.SIGINT), ("one.nt", signal.SIGTERM)])
def test_serving_ends_in_good_order_when_interrupted(mini, tmp_path, what, end):
    (tmp_path / "one.nt").write_text("<e:a> <e:b> <e:c> .\n")
    (temporary := tmp_path / "temporary").mkdir()
    served = mini if what == "mirror" else tmp_path / what
    command = [sys.executable, "-m", "kbnav", "sparql", "serve", str(served), "--port", "0"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        said = process.stdout.readline() if process.stdout else ""
        address = said.partition(" at ")[2].partition(";")[0].removesuffix("/sparql")
        parameters = {"query": "ASK { ?s ?p ?o }", "format": "json"}
        assert requests.get(f"{address}/sparql", params=parameters, timeout=10).json()["boolean"] is True
        process.send_signal(end)
        assert process.wait(timeout=20) == 0
    assert list(temporary.iterdir()) == []


def test_an_address_that_is_taken_is_one_clear_line(server, mini):
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1, port {port}"):
        MirrorServer(mini, port=port)


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


def test_posting_a_query_works_in_both_ways(server):
    client = wrapper(server, CURIES)
    client.setMethod(POST)
    assert len(client.queryAndConvert()["results"]["bindings"]) == 2
    kind = {"Content-Type": "application/sparql-query", "Accept": "application/sparql-results+json"}
    reply = requests.post(server.endpoints.sparql, data=CURIES.encode(), headers=kind, timeout=20)
    assert len(reply.json()["results"]["bindings"]) == 2


def test_a_query_without_end_is_stopped_and_the_next_one_works(server):
    begin = time.monotonic()
    reply = ask(server, ENDLESS)
    assert time.monotonic() - begin < 10  # the limit is one second
    assert reply.status_code == 500
    assert reply.text.startswith(f"SPARQL-QUERY: queryStr={ENDLESS}\njava.util.concurrent.TimeoutException")
    assert len(rows(server, CURIES)) == 2
    with pytest.raises(EndPointInternalError):
        wrapper(server, ENDLESS).query()


HEAVY = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
ASKED: list[Callable[[KnowledgeBase], object]] = [
    lambda kb: kb.search_entities("polonium"),
    lambda kb: kb.search_entities("discoverer", kind="property"),
    lambda kb: kb.search_entities("Maria", language="pl"),
    lambda kb: kb.get_entry("Q7186", language="de"),
    lambda kb: kb.get_entry("Q999999999"),
    lambda kb: kb.get_property_examples("P61"),
    lambda kb: kb.search_neighbors("Q7186", query="prizes"),
    lambda kb: kb.labels(["Q979", "P61", "Q0", "Q1"]),
    lambda kb: kb.execute_query("SELECT ?a ?b ?bLabel { ?a wdt:P61 ?b } ORDER BY ?a ?b LIMIT 9"),
    lambda kb: kb.execute_query("ASK { ?a wdt:P61 wd:Q7186 }"),
    lambda kb: kb.execute_query("CONSTRUCT { ?a wdt:P61 ?b } { ?a wdt:P61 ?b } LIMIT 1"),
    lambda kb: kb.execute_query("SELECT nonsense"),
    lambda kb: kb.execute_query("DELETE WHERE { ?a ?b ?c }"),
    lambda kb: kb.execute_query("SELECT ?x { SERVICE <http://127.0.0.1:1/> { ?x ?y ?z } }"),
    lambda kb: kb.execute_query(HEAVY),
]


@pytest.fixture(scope="module")
def both(mini: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[KnowledgeBase]]:
    home, limits = tmp_path_factory.mktemp("home"), Limits(query_timeout=1, retries=0)
    with (
        MirrorServer(mini, limits=QueryLimits(1)) as server,
        open_kb(Settings(kb=str(mini), home=home, limits=limits)) as local,
        closing(WikidataKB.by_http(Settings(home=home, endpoints=server.endpoints, limits=limits))) as remote,
    ):
        yield [local, remote]


@pytest.mark.parametrize("ask", ASKED)
def test_what_is_said_in_the_process_is_what_http_brings(both, ask):
    said = []
    for kb in both:
        try:
            said.append(ask(kb))
        except TellModel as error:
            said.append((type(error), str(error)))
    assert said[0] == said[1]


def test_requests_are_counted_as_over_http(both):
    counts = []
    for kb in both:
        meter = Meter()
        with counted_by(meter):
            kb.search_entities("radium")
            kb.execute_query("SELECT ?x { ?x wdt:P61 wd:Q7186 }")
        counts.append(meter.sent)
    assert counts[0] == counts[1]


def test_results_are_cached_but_for_those_that_change(mini):
    with closing(Mirror(mini, QueryLimits(workers=1))) as mirror:
        queries = LocalQueries(mirror, mirror.prefixes, (), "mini")
        now = [queries.run("SELECT (RAND() AS ?x) {}").rows for _ in range(2)]
        assert now[0] != now[1]
        first = queries.run("SELECT ?x { ?x wdt:P61 wd:Q7186 }")
        mirror.pool.close()
        assert queries.run("SELECT ?x { ?x wdt:P61 wd:Q7186 }") == first
        with pytest.raises(ServiceError, match="the mirror failed"):
            queries.run("SELECT ?x { ?x wdt:P61 wd:Q1 }")


def test_a_run_that_is_stopped_stops_its_query(mini, tmp_path):
    with open_kb(Settings(kb=str(mini), home=tmp_path)) as kb, ThreadPoolExecutor(1) as threads:
        cancellation = Cancellation()
        heavy = threads.submit(cancellation.run_here, lambda: kb.execute_query(HEAVY))
        cancellation.stop()
        with pytest.raises(Stopped):
            heavy.result(30)


def test_now_is_when_the_copy_was_taken(both, tmp_path):
    newest = "SELECT (MAX(?date) AS ?newest) { ?entity schema:dateModified ?date }"
    wanted = both[0].execute_query(newest).rows[0][0]
    for kb in both:
        (row,) = kb.execute_query("SELECT (Now ( ) AS ?now) (YEAR(NOW()) AS ?year) { }").rows
        assert [cell and cell.value for cell in row] == [wanted.value, wanted.value[:4]]
    fact = '<http://www.wikidata.org/entity/Q1> <http://www.w3.org/2000/01/rdf-schema#label> "one"@en .\n'
    (tmp_path / "undated.nt").write_text(fact)
    build_mirror([tmp_path / "undated.nt"], tmp_path / "undated")
    with open_kb(Settings(kb=str(tmp_path / "undated"), home=tmp_path)) as kb:
        (row,) = kb.execute_query("SELECT (YEAR(NOW()) AS ?year) { }").rows
    assert int(row[0].value) >= 2026


API = "/w/api.php?action="
SEARCHES = (f"{API}wbsearchentities&search=marie&language=en", f"{API}query&list=search&srsearch=marie")
READS = (f"{API}wbgetentities&ids=Q7186", "/wiki/Special:EntityData/Q7186.json")
LIST = "/sparql?format=json&query=SELECT*{?x%20wdt:P31%20wd:Q5}"
QUERY = "/sparql?format=json&query=SELECT*{?s%20?p%20?o}"


@pytest.fixture
def copy(mini: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(mini, tmp_path / "copy"))


def damage_store(mirror: Path) -> None:
    """Overwrite the data, which comes first in these files; what is read to open large ones stays."""
    for path in (mirror / "triples").glob("*.sst"):
        if path.stat().st_size > 10_000:
            with path.open("r+b") as file:
                file.write(b"\xff" * (path.stat().st_size // 2))


def damage_index(mirror: Path) -> None:
    """Overwrite what is behind the first pages."""
    path = mirror / "names.sqlite"
    with path.open("r+b") as file:
        file.seek(8 * 4096)
        file.write(b"\xff" * (path.stat().st_size - 8 * 4096))


@pytest.fixture
def quiet(copy: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[MirrorServer]:
    with MirrorServer(copy, limits=QueryLimits(workers=1)) as server:
        yield server
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


@pytest.mark.parametrize(
    ("damage", "failing", "others"),
    [(damage_store, (*READS, QUERY), ("",)), (damage_index, SEARCHES, (*READS, QUERY, LIST))],
)
def test_a_damaged_store_or_index_is_an_error_of_the_server(quiet, copy, damage, failing, others):
    damage(copy)
    for path in failing:
        reply = requests.get(quiet.url + path, timeout=10)
        assert (reply.status_code, reply.text[:24]) == (500, "500: the mirror failed: "), path
        assert "Traceback" not in reply.text
    for path in others:
        assert requests.get(quiet.url + path, timeout=10).status_code == 200


def test_a_process_that_cannot_run_queries_is_not_taken_for_one_out_of_memory(copy, monkeypatch, tmp_path):
    (tmp_path / "pyoxigraph.py").write_text("raise ImportError('not for this machine')")
    with MirrorServer(copy) as server:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        reply = requests.get(server.url + QUERY, timeout=10)
    assert (reply.status_code, reply.text) == (
        500,
        "500: the mirror failed: the process that was to run the query ended unexpectedly\n",
    )


BORN, DIED = date(1867, 11, 7), date(1934, 7, 4)
DAYS = (DIED - BORN).days
LIFE = 'VALUES (?born ?died) { ("1867-11-07T00:00:00Z"^^xsd:dateTime "1934-07-04T00:00:00Z"^^xsd:dateTime) }'


def value(server: MirrorServer, expression: str, where: str = LIFE) -> Any:
    (row,) = rows(server, f"SELECT ({expression} AS ?x) WHERE {{ {where} }}")
    return row.get("x", {}).get("value")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("?died - ?born", DAYS),
        ("?born-?died", -DAYS),
        ("(?died - ?born) / 365.2425", DAYS / 365.2425),
        ("FLOOR((?died - ?born)/365.2425)", 66),
        ("ABS(?born - ?died)", DAYS),
        ("YEAR(?died) - YEAR(?born)", 1934 - 1867),
        ("10 - 3 - 2", 5),
        ("STRLEN(\"ab\") - 1 * 2", 0),
        ("SUM(?died - ?born)", DAYS),
        ("IF(?died - ?born > 24000, 1, 0)", 1),
        ("?died - ?born - 1000", DAYS - 1000),
        ('"1934-07-04T06:00:00Z"^^xsd:dateTime - ?died', 0.25),
    ],
)  # fmt: skip
def test_a_difference_of_dates_is_a_number_of_days_and_one_of_numbers_stays_a_number(server, expression, expected):
    assert float(value(server, expression)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "test",
    [
        '?died > "1934-07-03"^^xsd:date',
        '?died = "1934-07-04"^^xsd:date',
        '?born < "1867-11-08"^^xsd:dateTime',
        '?died = "1934-07-04T00:00:00"^^xsd:dateTime',
        "?died - ?born > 24000 && ?died - ?born < 25000",
        'YEAR("1934-07-04"^^xsd:date) = YEAR(?died)',
        "?born != ?died",
    ],
)
def test_a_day_is_its_midnight_and_can_be_compared(server, test):
    (row,) = rows(server, f"SELECT ?died {{ {LIFE} FILTER({test}) }}")
    assert row["died"]["value"] == "1934-07-04T00:00:00Z"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * { ?x wdt:P1 -5 . VALUES (?a ?b) { (1 -5) (2 -7) } FILTER(?a > -1 && ?b - 2 < 3) }",
        "SELECT * { ?x (wdt:P1/^wdt:P2)* ?y . FILTER(?y IN (1, -2)) BIND(-?y AS ?z) }",
        'SELECT (GROUP_CONCAT(?x; separator=" - ") AS ?y) { ?x wdt:P1 "a - b" } # ?a - ?b',
        'SELECT * { ?x wdt:P1 "1934"^^xsd:gYear , "1934-07-04"@en , "1934-07-04" }',
    ],
)
def test_what_is_no_difference_and_no_date_stays_as_it_is(query):
    assert rewrite_dates(query, MIRROR) == query


def test_an_engine_with_dates_of_its_own_is_sent_them_as_they_are():
    query = 'SELECT (?a - ?b AS ?c) { FILTER(?a > "2000-01-01"^^xsd:date) }'
    assert rewrite_dates(query, DIALECTS["sparql11"]) == query
