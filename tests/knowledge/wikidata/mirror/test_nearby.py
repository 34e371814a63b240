"""A mirror that is asked in its own process says what it says over HTTP, and keeps what it said."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.replies import Reply, Request
from kbnav.knowledge.serving import Asked
from kbnav.knowledge.serving import Reply as Sent
from kbnav.knowledge.wikidata.mirror.nearby import nearby
from kbnav.knowledge.wikidata.mirror.server import MirrorServer
from kbnav.settings.model import Endpoints, Settings

ROWS = "application/sparql-results+json"
ASKED = [
    ("api", "/w/api.php", {"action": "wbsearchentities", "search": "polonium", "language": "en", "format": "json"}),
    ("api", "/w/api.php", {"action": "wbgetentities", "ids": "Q979|Q1", "props": "labels", "format": "json"}),
    ("api", "/w/api.php", {"action": "no such", "format": "json"}),
    ("api", "/wiki/Special:EntityData/P61.ttl", {}),
    ("api", "/wiki/Special:EntityData/Q999999999.json", {}),
    ("api", "/wiki/Q1", {}),
    ("sparql", "/sparql", {"query": "SELECT ?a ?b { ?a wdt:P61 ?b } ORDER BY ?a ?b LIMIT 3"}),
    ("sparql", "/sparql", {"query": "SELECT nonsense"}),
    ("sparql", "/sparql", {"query": "DELETE WHERE { ?a ?b ?c }"}),
]


class Counting:
    """A site that counts what it is asked, and breaks where it is told to."""

    broken = (LookupError,)

    def __init__(self, *, size: int = 4) -> None:
        self.asked: list[Asked] = []
        self._body = b"x" * size

    def answer(self, asked: Asked) -> Sent:
        self.asked.append(asked)
        if asked.path == "/broken":
            raise LookupError("gone")
        return Sent(200, "text/plain; charset=utf-8", self._body, {"X-One": "1"})


def request(path: str, **params: str) -> Request:
    return Request("api", f"http://mirror{path}", params)


@pytest.mark.parametrize(("service", "path", "params"), ASKED)
def test_what_is_said_nearby_is_what_http_brings(server: MirrorServer, tmp_path: Path, service, path, params):
    settings = Settings(home=tmp_path, endpoints=Endpoints(sparql=server.endpoints.sparql, api=server.endpoints.api))
    asked = Request(service, server.url + path, params, ROWS if service == "sparql" else "application/json")
    told = []
    for near in (None, nearby(server, server.url)):
        http = HttpClient(settings, cache=None, throttle=None, nearby=near)
        reply = http.fetch(asked, lambda reply: reply)
        told.append((reply.status, reply.body, reply.content_type, reply.headers.get("mediawiki-api-error")))
        http.close()
    assert told[0] == told[1]
    found = nearby(server, server.url)(asked)
    assert (found is None) == (path == "/wiki/Q1")  # which is redirected


def test_no_connection_is_made_for_what_is_nearby_and_the_rest_goes_elsewhere():
    site = Counting()
    near = nearby(site, "http://mirror")
    assert near(request("/a", q="\ud800")) == Reply(
        200, b"xxxx", {"x-one": "1", "content-type": "text/plain; charset=utf-8"}, "http://mirror/a"
    )
    assert site.asked[0].parameters == {"q": "?"}
    assert near(Request("api", "http://mirror.example/a", {})) is None
    assert near(request("/a", q="x" * (1 << 20))) is None
    assert len(site.asked) == 1
    assert (near(request("/broken")).status, near(request("/broken")).status) == (500, 500)
    assert len(site.asked) == 3  # a failure is not kept


def test_good_replies_are_kept_by_what_was_asked_and_those_that_change_are_not():
    site = Counting()
    near = nearby(site, "http://mirror")
    for q in ("one", "two", "one", "SELECT (NOW() AS ?n) {}", "SELECT (NOW() AS ?n) {}", "select (rand () as ?n) {}"):
        near(request("/sparql", query=q))
    assert [asked.parameters["query"][:10] for asked in site.asked] == [
        "one", "two", "SELECT (NO", "SELECT (NO", "select (ra",
    ]  # fmt: skip
    near(Request("api", "http://mirror/sparql", {"query": "one"}, "text/csv"))
    assert len(site.asked) == 6  # another form is another reply


def test_so_much_is_kept_and_no_more_and_what_was_asked_last_stays():
    site = Counting(size=100)
    near = nearby(site, "http://mirror", most=250)
    for path in ("/a", "/b", "/a", "/c"):
        near(request(path))
    assert [asked.path for asked in site.asked] == ["/a", "/b", "/c"]
    near(request("/a"))
    near(request("/b"))
    assert [asked.path for asked in site.asked] == ["/a", "/b", "/c", "/b"]
    large = Counting(size=300)
    ask = nearby(large, "http://mirror", most=250)
    ask(request("/a"))
    ask(request("/a"))
    assert len(large.asked) == 2
