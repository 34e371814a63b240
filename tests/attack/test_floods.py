"""Many streams at once, and requests that are too large: each is refused or served, and others are answered."""

import json
import socket
from pathlib import Path

import pytest

from kbnav.knowledge.base import KnowledgeBase
from kbnav.settings.model import Settings
from tests.apps.test_mcp import served
from tests.apps.web.parts import Explorer, Server, Visit, browse, web_settings
from tests.attack.parts import POLONIUM
from tests.attack.test_secrets_left import ODD

SOCKET = True
"""The server of this module is behind one."""

STREAMS = 200
MIB = 1 << 20


@pytest.mark.slow
def test_two_hundred_open_streams_hold_up_nobody_and_each_hears_the_end(fresh_home):
    with (
        Explorer(held=0) as model,
        Server(web_settings(fresh_home, web_models=("stub", "offline"), **model.options()), socket=True) as server,
    ):
        visit, other = Visit(server.url), Visit(server.url)
        run = visit.ask(visit.session(), POLONIUM)["id"]
        assert model.waiting.wait(60)
        place = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        cookie = "; ".join(f"{name}={value}" for name, value in visit.http.cookies.items())
        head = f"GET /api/runs/{run}/events?after=0 HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n"
        streams = [socket.create_connection(place, timeout=60) for _ in range(STREAMS)]
        for stream in streams:
            stream.sendall(head.encode())
        assert all(stream.recv(15).startswith(b"HTTP/1.1 200") for stream in streams)
        answer = other("POST", "/api/ask", {"question": POLONIUM, "model": "offline"}).json()
        assert (answer["status"], answer["text"]) == ("answered", "Marie Curie, Pierre Curie")
        assert other("GET", "/ready").json()["status"] == "ok"
        model.go_on.set()
        for stream in streams:
            heard = b""
            while b'"kind": "end"' not in heard and b'"kind":"end"' not in heard:
                heard += (more := stream.recv(65536))
                assert more
            stream.close()


def status(url: str, *pieces: bytes) -> int:
    """The status that a request of these pieces gets; 0 where the server closes without a word."""
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except ConnectionError:  # refused before all of it was sent
            pass
        try:
            line = connection.makefile("rb").readline()
        except ConnectionError:
            return 0
        return int(line.split()[1]) if line else 0


def huge(path: str) -> dict[str, tuple[bytes, ...]]:
    """Requests that are too large, by what of them is."""
    post, get = (f"{verb} {path} HTTP/1.1\r\nHost: localhost\r\n".encode() for verb in ("POST", "GET"))
    return {
        "a body that is announced": (post, b"Content-Type: application/json\r\nContent-Length: 3000000000\r\n\r\n{"),
        "a body that is sent": (post, b"Content-Length: 3145728\r\n\r\n", *[b" " * MIB] * 3),
        "a length that is none": (post, b"Content-Length: " + b"9" * 400 + b"\r\n\r\n{"),
        "a body in chunks": (post, b"Transfer-Encoding: chunked\r\n\r\n", *[b"100000\r\n" + b" " * MIB + b"\r\n"] * 3),
        "a header": (get, b"X-Much: " + b"x" * MIB + b"\r\n\r\n"),
        "headers": (get, b"".join(b"X-%d: y\r\n" % number for number in range(50_000)), b"\r\n"),
        "an address": (f"GET {path}?q={'x' * MIB} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),),
    }


@pytest.mark.parametrize("what", list(huge("/")))
def test_what_is_too_large_is_refused_by_the_page(server, what):
    told = status(server.url, *huge("/api/ask")[what])
    assert told in (0, 400, 411, 413, 414, 431), told
    assert Visit(server.url)("GET", "/health").status_code == 200


@pytest.fixture
def mcp(mini_kb: KnowledgeBase, tmp_path: Path):
    """The address of an MCP server over HTTP."""
    with served(Settings(home=tmp_path, language="en"), mini_kb) as url:
        yield url


def test_what_is_too_large_is_refused_over_mcp(mcp):
    for what, pieces in huge("/mcp").items():
        told = status(mcp, *pieces)
        assert told in (0, 400, 411, 413, 414, 431), (what, told)


def test_what_is_no_message_is_told_over_http_as_over_standard_input(mcp):
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for line, code in ODD:
        body = line if isinstance(line, bytes) else line.encode()
        told = browse(mcp).post(f"{mcp}/mcp", data=body, headers=headers, timeout=20)
        assert 400 <= told.status_code < 500, (line, told.status_code)
        expected = {-32700} if code in (None, -32700) else {-32600, -32602}  # what is JSON and no message
        assert json.loads(told.text)["error"]["code"] in expected, (line, told.text)
    ping = {"jsonrpc": "2.0", "id": 99, "method": "ping"}
    assert browse(mcp).post(f"{mcp}/mcp", json=ping, headers=headers, timeout=20).status_code < 500
