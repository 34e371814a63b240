import signal
import socket
import subprocess
import sys

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbnav.errors import UsageError
from kbnav.knowledge.wikidata.mirror.server import MirrorServer


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


def test_serving_ends_in_good_order_when_interrupted(mini):
    command = [sys.executable, "-m", "kbnav", "sparql", "serve", str(mini), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said = process.stdout.readline() if process.stdout else ""
        address = said.partition(" at ")[2].partition(";")[0]
        parameters = {"query": "ASK { ?s ?p ?o }", "format": "json"}
        assert requests.get(f"{address}/sparql", params=parameters, timeout=10).json()["boolean"] is True
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


def test_an_address_that_is_taken_is_one_clear_line(server, mini):
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1, port {port}"):
        MirrorServer(mini, port=port)
