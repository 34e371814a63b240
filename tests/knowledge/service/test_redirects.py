"""Where a redirect may lead: credentials reach the place that they are for, and no other, however it is written."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbnav.errors import BadResponse, CredentialsError, ServiceError, Stopped, StopRun, UsageError
from kbnav.knowledge.http import HttpClient, redirect_target
from kbnav.knowledge.http_store import HttpCache
from kbnav.knowledge.replies import Reply, Request
from kbnav.knowledge.wikidata.kb import endpoints_of
from kbnav.models.cancellation import Cancellation
from kbnav.settings.model import Limits, Settings, load_settings
from kbnav.tools.context import Shown
from kbnav.tools.show import table_text
from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, Served, client, serving

TOKEN = "Bearer nevertobeleft"
PIECES = [
    "http://", "https://", "//", "/", "\\", "@", "#", "?", ":", "%5C", "%40", "%2F", "\t", " ", "\x00", ".", ";",
    "OWN", "OTHER", "caught", "user",
]  # fmt: skip


class Pair:
    """A service that redirects to whatever it is told, and another that must hear nothing."""

    def __init__(self, own: Served, other: Served) -> None:
        self.own, self.other, self.location = own, other, "/"
        self.http = HttpClient(
            Settings(limits=Limits(retries=0, request_timeout=5)),
            cache=None,
            throttle=None,
            urls=[own.url],
            authorization=TOKEN,
        )

    def answer(self, asked: Asked) -> Answer:
        return Answer("", 302, headers={"Location": self.location}) if asked.path == "/start" else Answer("here")

    def ask(self, location: str) -> Reply | None:
        self.location = location.replace("OWN", self.own.url[7:]).replace("OTHER", self.other.url[7:])
        self.own.asked.clear()
        request = Request("sparql", f"{self.own.url}/start", {"query": "ASK {}"})
        try:
            return self.http.fetch(request, lambda reply: reply)
        except BadResponse:
            return None


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    made: list[Pair] = []
    with serving(lambda asked: made[0].answer(asked)) as own, serving(lambda _: Answer("caught")) as other:
        made.append(Pair(own, other))
        yield made[0]
        made[0].http.close()


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join))
@example("http://OTHER\\@OWN/caught")
@example("http://OWN@OTHER/")
@example("//OTHER/")
@example("\\\\OTHER/")
@example("http:\\\\OTHER/")
@example("http://OTHER#@OWN/")
@example("http://OTHER?@OWN/")
@example("http://OWNhttp:")
def test_no_address_leads_to_another_place(pair, location):
    if any(ord(one) < 32 for one in location):
        location = location.replace("\x00", "%00").replace("\t", "%09")  # no header can hold them
    pair.ask(location)
    assert pair.other.asked == []
    assert all(asked.headers["host"] == pair.own.url[7:] for asked in pair.own.asked)


def test_credentials_stay_with_a_redirect_within_the_place(pair):
    reply = pair.ask("/moved?x=1")
    assert reply is not None
    assert reply.body == b"here"
    assert [asked.headers.get("authorization") for asked in pair.own.asked] == [TOKEN, TOKEN]


@pytest.mark.parametrize(
    "location",
    ["http://kb.example\\@evil.example/", "http://a@kb.example/", "/a b", "/a\x00", "https://kb.example/x", "http://kb.example:81/",
     "http://KB.example.evil.example/", "ftp://kb.example/", "///evil.example/", "http://[::1"],
)  # fmt: skip
def test_addresses_that_may_hide_another_are_refused(location):
    with pytest.raises(BadResponse) as caught:
        redirect_target("http://kb.example/sparql", location)
    assert "\n" not in str(caught.value)


def test_the_same_place_is_known_in_any_writing():
    assert redirect_target("http://kb.example/a", "HTTP://KB.EXAMPLE:80/b?c") == "http://kb.example:80/b?c"
    assert redirect_target("http://kb.example/a/b", "../c") == "http://kb.example/c"


class Quiet:
    """A service that answers so many requests, and then none; it knows when it was asked that, and when hung up on."""

    def __init__(self, answers: int) -> None:
        self.asked, self.hung_up = threading.Event(), threading.Event()
        self._left = answers
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}/"

    def listen(self) -> None:
        """Serve one connection to its end."""
        connection, _ = self._server.accept()
        with connection:
            while connection.recv(65536):
                if self._left:
                    self._left -= 1
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                else:
                    self.asked.set()
        self.hung_up.set()

    @contextmanager
    def served(self) -> Iterator[Quiet]:
        thread = threading.Thread(target=self.listen, daemon=True)
        thread.start()
        with self._server:
            yield self
        thread.join(10)


@pytest.mark.parametrize(("service", "answers"), [("api", 0), ("api", 2), ("vector", 0), ("sparql", 0)])
def test_a_request_is_hung_up_on_when_its_run_is_stopped(service, answers):
    with Quiet(answers).served() as quiet:
        client = HttpClient(Settings(), cache=None, throttle=None, urls=[quiet.url])
        request = Request(service, quiet.url, {"query": "ASK {}"})  # type: ignore[arg-type]
        for _ in range(answers):
            assert client.fetch(request, lambda reply: reply.status) == 200
        cancellation = Cancellation()
        ended: list[BaseException] = []

        def ask() -> None:
            try:
                cancellation.run_here(lambda: client.fetch(request, lambda reply: reply.status))
            except Stopped as error:
                ended.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert quiet.asked.wait(20)
        cancellation.stop()
        assert quiet.hung_up.wait(10)
        thread.join(10)
        assert [type(error) for error in ended] == [Stopped]
        client.close()


def test_a_connection_that_was_given_back_is_not_hung_up_on():
    with Quiet(2).served() as quiet:
        client = HttpClient(Settings(), cache=None, throttle=None, urls=[quiet.url])
        request = Request("api", quiet.url, {})
        cancellation = Cancellation()
        assert cancellation.run_here(lambda: client.fetch(request, lambda reply: reply.status)) == 200
        cancellation.stop()
        assert client.fetch(request, lambda reply: reply.status) == 200
        client.close()


QUERY = "SELECT ?s WHERE { ?s ?p ?o }"
LONG = f"SELECT ?s {{ ?s ?p ?o FILTER(?o != '{'x' * 3000}') }}"
ONE_ROW = {"head": {"vars": ["s"]}, "results": {"bindings": [{"s": {"type": "literal", "value": "a"}}]}}
FOUND = Answer(ONE_ROW, type=ROWS)


def failure(answer: Callable[[Asked], Answer], query: str = QUERY) -> StopRun:
    with serving(answer) as served, client(served.url, retries=1) as opened, pytest.raises(StopRun) as caught:
        opened.kb.execute_query(query)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (Answer("<!DOCTYPE html><title>Welcome</title>", type="text/html"), BadResponse, ["web page", "Welcome"]),
        (Answer("<sparql/>", type="application/sparql-results+xml"), BadResponse, ["not JSON", "sparql-results+xml"]),
        (Answer("who are you", 401, "text/plain"), CredentialsError, ["401", "credentials"]),
        (Answer("<html><title>Not found</title></html>", 404, "text/html"), ServiceError, ["404", "Not found"]),
        (Answer('{"head": {"vars": ["s"]}, "results": {"bindings": [', type=ROWS), BadResponse, ["cut off"]),
    ],
)
def test_what_is_no_query_service_is_told_in_one_line(answer, kind, said):
    error = failure(lambda _: answer)
    assert isinstance(error, kind)
    assert all(part in str(error) for part in said), error


@pytest.mark.parametrize("api", [True, False], ids=["api", "sparql"])
def test_a_redirect_within_the_host_is_followed_once_and_a_posted_request_never_is(api):
    def answer(asked: Asked) -> Answer:
        if asked.path.startswith("/new"):
            return FOUND if not api else Answer({"entities": {}})
        return Answer("", 307, headers={"Location": "/new?query=moved"})

    with serving(answer) as served, client(served.url) as opened:
        opened.kb.labels(["Q42"]) if api else opened.kb.execute_query(QUERY)
        assert [one.path.rpartition("/")[2] for one in served.asked] == ["api.php" if api else "sparql", "new"]
        with pytest.raises(BadResponse, match="posted"):
            opened.kb.execute_query(LONG)


def test_a_service_that_sends_round_for_ever_is_left():
    with (
        serving(lambda _: Answer("", 302, headers={"Location": "/again"})) as served,
        client(served.url) as opened,
        pytest.raises(BadResponse, match="more than 5 times"),
    ):
        opened.kb.labels(["Q42"])


@contextmanager
def _over_tls(folder: Path) -> Iterator[str]:
    """A server whose certificate nobody has signed."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_a_certificate_that_fails_is_told_at_once_and_not_tried_again(tmp_path):
    with _over_tls(tmp_path) as url, client(url, retries=3) as opened:
        for ask in (lambda: opened.kb.execute_query(QUERY), lambda: opened.kb.labels(["Q42"])):
            with pytest.raises(ServiceError, match="cannot be trusted") as caught:
                ask()
            assert "REQUESTS_CA_BUNDLE" in str(caught.value)
        assert opened.slept == []


def test_an_address_with_a_password_is_refused_before_it_is_kept_and_not_shown():
    wrong = {"sparql": "https://me:hidden@host/sparql"}
    for read in (load_settings, Settings):
        with pytest.raises(UsageError, match="name and password") as caught:
            read(endpoints=wrong)  # type: ignore[operator]
        assert "hidden" not in str(caught.value)
    assert Settings(endpoints=endpoints_of("https://host/a@b")).endpoints.sparql == "https://host/a@b/sparql"


# Virtuoso's replies as its edition 7.2.5 gave them on a loopback port; QLever's as its clients read them.
S1TAT = {
    "X-SQL-State": "S1TAT",
    "X-SQL-Message": "RC...: Returning incomplete results, query interrupted by result timeout.",
}


@pytest.mark.parametrize(
    ("answer", "query", "said"),
    [
        (Answer(ONE_ROW, type=ROWS, headers={"X-SPARQL-MaxRows": "10000"}), QUERY, "at most 10,000 rows"),
        (Answer(ONE_ROW, type=ROWS, headers={"X-SPARQL-MaxRows": "10000"}), f"{QUERY} LIMIT 10000", ""),
        (Answer(ONE_ROW, type=ROWS, headers=S1TAT), QUERY, "time limit"),
        (Answer(ONE_ROW, 206, ROWS), QUERY, "time limit"),
        (Answer({**ONE_ROW, "meta": {"query-time-ms": 3, "result-size-total": 7}}, type=ROWS), QUERY, "1 of 7 rows"),
        (Answer({**ONE_ROW, "meta": {"query-time-ms": 3, "result-size-total": 7}}, type=ROWS), f"{QUERY} LIMIT 1", ""),
        (Answer({**ONE_ROW, "meta": {"query-time-ms": 3, "result-size-total": 1}}, type=ROWS), QUERY, ""),
        (FOUND, QUERY, ""),
    ],
)
def test_a_result_that_the_service_cut_says_so_to_the_model_and_is_not_cached(tmp_path, answer, query, said):
    cache = HttpCache(tmp_path / "cache.sqlite", age=3600)
    with serving(lambda _: answer) as served, client(served.url, cache=cache) as opened:
        tables = [opened.kb.execute_query(query) for _ in range(2)]
    for table in tables:  # the second may come from the cache
        assert said in table.cut
        assert bool(table.cut) == bool(said)
        assert (f"NOT ALL: {table.cut}" in table_text(table, Shown())) == bool(said)
