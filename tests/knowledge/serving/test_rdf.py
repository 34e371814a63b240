"""RDF files over the SPARQL protocol, with the limits of a mirror."""

import gzip
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.serving import RdfServer
from kbnav.knowledge.wikidata.mirror.pool import QueryLimits
from kbnav.settings.model import Settings

PREFIX = "@prefix : <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
FILES = {
    "a.ttl": PREFIX + ":a rdfs:label 'alpha' ; :next :b .",
    "b.nt": "<http://example.org/b> <http://example.org/next> <http://example.org/c> .\n",
    "c.nq": "<http://example.org/c> <http://example.org/next> <http://example.org/d> <http://example.org/g1> .\n",
    "d.trig": PREFIX + ":g2 { :d :next :e }",
    "e.rdf": '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://example.org/">'
    '<rdf:Description rdf:about="http://example.org/e"><next rdf:resource="http://example.org/f"/></rdf:Description>'
    "</rdf:RDF>",
    "f.jsonld": '{"@id": "http://example.org/f", "http://example.org/next": {"@id": "http://example.org/g"}}',
    "g.ttl.gz": PREFIX + ":g :next <relative> .",
}


def written(folder: Path) -> list[Path]:
    for name, text in FILES.items():
        data = text.encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return [folder / name for name in FILES]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RdfServer]:
    files = written(tmp_path_factory.mktemp("rdf"))
    with RdfServer(files, limits=QueryLimits(1.5, workers=2)) as running:
        yield running


def rows(server: RdfServer, query: str, **more: list[str]) -> list[dict[str, Any]]:
    accept = {"Accept": "application/sparql-results+json"}
    reply = requests.get(server.url, params={"query": query, **more}, headers=accept, timeout=20)
    assert reply.status_code == 200, reply.text
    found: list[dict[str, Any]] = reply.json()["results"]["bindings"]
    return found


def test_every_format_is_read_and_named_graphs_are_seen_with_the_default_graph(server):
    assert (server.statements, server.graphs) == (8, 2)
    chain = rows(server, "SELECT ?x { <http://example.org/a> <http://example.org/next>+ ?x }")
    met = sorted(one["x"]["value"].rpartition("/")[2] for one in chain)
    assert met == ["b", "c", "d", "e", "f", "g", "relative"]
    inside = rows(server, "SELECT ?g ?s { GRAPH ?g { ?s ?p ?o } } ORDER BY ?g")
    assert [(one["g"]["value"][-2:], one["s"]["value"][-1]) for one in inside] == [("g1", "c"), ("g2", "d")]
    for graphs, things in ((["g1"], {"c"}), (["g1", "g2"], {"c", "d"})):
        some = {"default-graph-uri": [f"http://example.org/{graph}" for graph in graphs]}
        assert {row["s"]["value"][-1] for row in rows(server, "SELECT ?s { ?s ?p ?o }", **some)} == things


def test_nothing_is_changed_and_no_other_place_is_asked(server):
    update = requests.post(server.url, data={"update": "DROP ALL"}, timeout=10)
    refused = requests.get(
        server.url, params={"query": "SELECT ?x { SERVICE <http://127.0.0.1:1/> { ?x ?y ?z } }"}, timeout=10
    )
    assert (update.status_code, refused.status_code) == (405, 400)
    assert requests.get(server.url, timeout=10).status_code == 400
    assert requests.get(server.url.removesuffix("/sparql") + "/other", timeout=10).status_code == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:1", 200), ("[::1]:80", 200), ("evil.example", 421), ("localhost#.evil.example", 421), ("", 421)],
)
def test_pages_of_other_sites_cannot_ask_under_their_own_name(server, host, status):
    where = urlsplit(server.url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=10) as line:
        line.sendall(f"GET /sparql?query=ASK%7B%7D HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert line.makefile("rb").readline().split()[1] == str(status).encode()


@pytest.mark.parametrize(
    ("name", "data", "error", "said"),
    [
        ("x.ttl", b"<a> <b> .", DataError, "x.ttl, line 1"),
        ("x.nt.gz", gzip.compress(b"<urn:a> <urn:b> <urn:c> .\n" * 99, mtime=0)[:-9], DataError, "x.nt.gz: "),
        ("x.hdt", b"", UsageError, "the format must show"),
        ("x.jsonld", b'{"@context": "https://schema.org/", "@id": "urn:a", "name": "x"}', DataError, "x.jsonld"),
    ],
)
def test_a_file_that_does_not_read_is_one_clear_line(tmp_path, name, data, error, said):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(error, match=said) as caught:
        RdfServer([tmp_path / name])
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="No such file"):
        RdfServer([tmp_path / "absent.ttl"])


def test_what_is_served_is_a_knowledge_base_at_once(server, tmp_path):
    with open_kb(Settings(kb=server.url, home=tmp_path)) as kb:
        assert kb.search_entities("alpha").entities[0].label == "alpha"
        table = kb.execute_query("SELECT ?x WITH { SELECT ?x { ?x rdfs:label ?l } } AS %x { INCLUDE %x }")
    assert [row[0].value for row in table.rows if row[0]] == ["http://example.org/a"]
