"""What services do wrong: each becomes one clear line, and no credentials go into it."""

import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kbnav.errors import BadResponse, CredentialsError, ServiceError, StopRun, UsageError
from kbnav.knowledge.http_store import HttpCache
from kbnav.knowledge.wikidata.kb import endpoints_of
from kbnav.settings.model import Settings, load_settings
from kbnav.tools.context import Shown
from kbnav.tools.show import table_text
from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, client, serving

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
    with pytest.raises(UsageError, match="name and password") as caught:
        load_settings(endpoints=wrong)
    assert "hidden" not in str(caught.value)
    with pytest.raises(ValueError, match="name and password") as raised:
        Settings(endpoints=wrong)
    assert "hidden" not in str(raised.value)
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
