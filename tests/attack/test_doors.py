"""The page's doors: names, origins, logins, and connections before anybody is known."""

import json
import re
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from pydantic import SecretStr
from starlette.datastructures import Headers

from kbnav.apps.web.auth import FREE_TRIES, Identities
from kbnav.apps.web.routes.completions import _markdown
from kbnav.apps.web.server import Deadlines
from kbnav.apps.web.store import logouts_in_memory
from kbnav.errors import UsageError
from kbnav.knowledge.connections import host_name
from kbnav.settings.model import Web
from tests.apps.web.parts import Server, Visit, browse, web_settings
from tests.attack.parts import POLONIUM

TOKENS = {"alice": SecretStr("a-token-of-alice-nevertobeleft"), "bob": SecretStr("b-token-of-bob-nevertobeleft")}


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost:8080", "localhost"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("[::1]:8080", "::1"),
        ("localhost.", "localhost"),
        ("localhost#.evil.com", ""),
        ("localhost/.evil.com", ""),
        ("localhost?.evil.com", ""),
        ("a@localhost", ""),
        ("localhost:9942, evil.com", ""),
        ("localhost:port", ""),
        ("localhost:99999999", ""),
        ("local\thost", ""),
        ("", ""),
    ],
)
def test_a_host_header_is_a_name_and_a_port_or_nothing(host, name):
    assert host_name(host) == name


def raw(url: str, method: str, path: str, *headers: str) -> int:
    """The status of a request with these headers."""
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20) as connection:
        lines = (f"{method} {path} HTTP/1.1", *headers, "Connection: close", "", "")
        connection.sendall("\r\n".join(lines).encode("latin-1"))
        return int(connection.makefile("rb").readline().split()[1])


def test_no_tricky_host_and_no_origin_of_another_port_comes_in(fresh_home: Path):
    with Server(web_settings(fresh_home, "mini", web_hosts=("ask.example.org",)), socket=True) as server:
        port = server.url.rpartition(":")[2]
        for host in ("localhost#.evil.com", "a@localhost", f"localhost:{port}, evil.com", "evil.com"):
            assert raw(server.url, "GET", "/", f"Host: {host}") == 421, host
        told = {
            f"http://localhost:{port}": 200,
            "http://localhost:1": 403,
            "http://localhost": 403,
            "null": 403,
            f"ftp://localhost:{port}": 403,
            "https://ask.example.org": 200,
            "https://ask.example.org:8443": 403,
            "https://ask.example.org.evil.com": 403,
        }
        for origin, status in told.items():
            headers = (f"Host: localhost:{port}", f"Origin: {origin}")
            assert raw(server.url, "GET", "/api/options", *headers) == status, origin


def of(web: Web, **headers: str) -> str:
    found = Identities(web, logouts_in_memory()).of(Headers(raw=[
        (name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()
    ]), "127.0.0.1")  # fmt: skip
    return found.owner if found else ""


def test_a_name_that_looks_like_anothers_is_nobodys_and_users_of_the_two_doors_are_kept_apart():
    web = Web(proxy_header="X-User", tokens=TOKENS)
    assert of(web, x_user="carol") == "user:carol"
    assert of(web, x_user=" carol ") == "user:carol"
    for odd in ("carol\xa0", "\xa0carol", "car\xadol", "carol\x85", ""):
        assert of(web, x_user=odd) == "", odd
    two = Headers(raw=[(b"x-user", b"carol"), (b"x-user", b"alice")])
    assert Identities(web, logouts_in_memory()).of(two, "127.0.0.1") is None
    token = TOKENS["alice"].get_secret_value()
    assert of(web, authorization=f"Bearer {token}") == "user:alice"
    assert of(web, x_user="alice") == "proxy:alice"


def test_a_cookie_opens_nothing_after_the_logout_and_other_logins_stay(fresh_home: Path):
    with Server(web_settings(fresh_home, "mini", web_tokens=TOKENS), socket=True) as server:
        here, there = requests.Session(), requests.Session()
        for browser in (here, there):
            token = {"token": TOKENS["alice"].get_secret_value()}
            assert browser.post(f"{server.url}/login", data=token, timeout=10).status_code == 200
            assert browser.get(f"{server.url}/api/options", timeout=10).json()["user"] == "alice"
        stolen = here.cookies.get("kbnav")
        assert here.post(f"{server.url}/logout", timeout=10).status_code == 200
        told = browse(server.url).get(f"{server.url}/api/options", cookies={"kbnav": stolen}, timeout=10)
        assert told.status_code == 401
        assert there.get(f"{server.url}/api/options", timeout=10).status_code == 200
    with Server(web_settings(fresh_home, "mini", web_tokens=TOKENS), socket=True) as server:  # and after a restart
        told = browse(server.url).get(f"{server.url}/api/options", cookies={"kbnav": stolen}, timeout=10)
        assert told.status_code == 401


@pytest.mark.slow
@pytest.mark.parametrize("door", ["page", "header"])
def test_wrong_tokens_are_slowed_and_a_right_one_always_passes(fresh_home: Path, door):
    with Server(web_settings(fresh_home, "mini", web_tokens=TOKENS), socket=True) as server:

        def give(token: str) -> requests.Response:
            if door == "page":
                return browse(server.url).post(
                    f"{server.url}/login", data={"token": token}, timeout=10, allow_redirects=False
                )
            headers = {"Authorization": f"Bearer {token}"}
            return browse(server.url).get(f"{server.url}/api/options", headers=headers, timeout=10)

        told = [give(f"wrong-{number:020}").status_code for number in range(FREE_TRIES + 3)]
        assert set(told[:FREE_TRIES]) == {403 if door == "page" else 401}
        assert told[-1] == 429
        assert give(TOKENS["bob"].get_secret_value()).status_code in (200, 303)
        assert 429 in {give("wrong-again-and-again").status_code for _ in range(4)}  # a slow machine waits, too
        assert Visit(server.url)("GET", "/health").status_code == 200


def test_a_network_of_proxies_that_is_none_is_refused_at_the_start(fresh_home: Path):
    with (
        pytest.raises(UsageError, match="proxy_addresses"),
        Server(web_settings(fresh_home, "mini", web_proxy_addresses=("10.0.0.0/33",))),
    ):
        pass


def test_behind_a_proxy_wrong_tokens_count_for_the_address_that_it_names(fresh_home: Path):
    options = {"web_tokens": TOKENS, "web_proxy_addresses": ("127.0.0.1", "10.0.0.0/24")}
    with Server(web_settings(fresh_home, "mini", **options)) as server:

        def give(forwarded: str) -> int:
            headers = {"Authorization": "Bearer wrong-wrong-wrong-wrong", "X-Forwarded-For": forwarded}
            return browse(server.url).get(f"{server.url}/api/options", headers=headers, timeout=10).status_code

        told = [give(f"192.0.2.{number}, 203.0.113.1, 10.0.0.2") for number in range(FREE_TRIES + 3)]
        assert (told[0], told[-1]) == (401, 429)
        assert give("203.0.113.2") == 401


class Hasty(Deadlines):
    head_seconds = 0.5
    body_seconds = 0.5
    most_unfinished = 20


def closed(connection: socket.socket, seconds: float = 10) -> bool:
    connection.settimeout(seconds)
    try:
        while connection.recv(4096):
            continue
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


@pytest.mark.slow
def test_connections_that_never_finish_a_request_are_closed_and_lock_nobody_out(fresh_home: Path):
    with Server(web_settings(fresh_home, "mini"), http=Hasty, socket=True) as server:
        place = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        slow = [socket.create_connection(place) for _ in range(60)]
        for connection in slow:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-")
        assert browse(server.url).get(f"{server.url}/health", timeout=5).json() == {"status": "ok"}
        body = socket.create_connection(place)
        body.sendall(b"POST /api/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        second = socket.create_connection(place)  # a request that is whole, and then half of another
        second.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he")
        assert all(closed(connection) for connection in (*slow, body, second))
        for connection in (*slow, body, second):
            connection.close()


WRITTEN = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/login", {"Cookie": 'kbnav="' + '\\"' * 30_000 + '"'}, b"", 431),
        ("/login", {"Cookie": "; ".join(f"a{number}=1" for number in range(1_000))}, b"", 403),
        ("/login", {"Content-Type": WRITTEN}, b"a=1&" * 90_000, 422),
        ("/api/ask", {}, json.dumps(dict.fromkeys(map(str, range(30_000)), 1)).encode(), 422),
        ("/api/queries", {}, b"[" * 390_000, 400),
    ],
)
def test_what_takes_long_to_read_is_refused_before_it_is(fresh_home, path, headers, body, status):
    with Server(web_settings(fresh_home, "mini", web_tokens=TOKENS), socket=True) as server:
        token = TOKENS["alice"].get_secret_value()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}", **headers}
        began = time.monotonic()
        told = browse(server.url).post(f"{server.url}{path}", body, headers=headers, timeout=100)
        assert (told.status_code, len(told.content) < 50_000) == (status, True), told.text[:200]
        assert time.monotonic() - began < 5


PICTURE = "![x](http://127.0.0.1:9/x.png) <img src=x onerror=alert(1)> [y](javascript:alert(1))"


def body_of(schema: dict[str, Any], spoken: dict[str, Any]) -> dict[str, Any] | None:
    """A body with every field that a route needs."""
    content = schema.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return None
    model = spoken["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
    known = {
        "question": POLONIUM,
        "query": "ASK {}",
        "model": "mini",
        "messages": [],
        "title": "A title",
    }
    return {name: known.get(name, "") for name in model.get("required", ())}


def needed(schema: dict[str, Any]) -> str:
    """The query of an address with every number that a route needs."""
    names = [one["name"] for one in schema.get("parameters", ()) if one["in"] == "query" and one.get("required")]
    return "?" + "&".join(f"{name}=0" for name in names) if names else ""


def kept(owner: Visit, session: str) -> dict[str, Any]:
    """A session as its owner reads it, without the server's clock."""
    found: dict[str, Any] = owner("GET", f"/api/sessions/{session}").json()
    return {**found, "runs": [{**run, "now": 0} for run in found["runs"]]}


def test_no_route_reads_or_changes_what_is_anothers(fresh_home):
    with Server(web_settings(fresh_home, "mini")) as server:
        owner, other = Visit(server.url), Visit(server.url)
        session = owner.session()
        run = owner.answered(session, POLONIUM)
        ids = {"session_id": session, "run_id": run["id"], "result_id": run["answer"]["result"]["id"], "form": "json"}
        ids |= {"share_id": run["id"], "name": "nobodys"}  # the id of a run is none of a share
        before = kept(owner, session)
        spoken = owner("GET", "/openapi.json").json()
        tried = []
        for path, methods in spoken["paths"].items():
            if not re.search(r"\{", path) or "{kb}" in path:
                continue  # a knowledge base is everybody's who is let in
            assert set(re.findall(r"\{(\w+)\}", path)) <= set(ids), path  # a new kind of id wants its line above
            for method, schema in methods.items():
                told = other(method.upper(), path.format(**ids) + needed(schema), body_of(schema, spoken))
                assert told.status_code == 404, (method, path, told.status_code)
                tried.append((method, path))
        assert len(tried) >= 15
        assert kept(owner, session) == before
        assert other("GET", "/api/sessions").json() == []
        assert other("GET", f"/s/{session}").status_code == 404


def test_no_answer_of_the_chat_api_holds_live_markdown():

    answer = {"text": PICTURE, "note": "", "status": "answered", "query": "", "query_labelled": "", "result": None}
    written = _markdown(answer, None)
    assert not re.search(r"(?<!\\)[\[\]<>]", written)


def test_no_reader_names_a_place_or_a_version_that_the_operator_did_not(fresh_home, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener, Server(web_settings(fresh_home, "mini", "demo")) as server:
        listener.setblocking(False)
        visit, there = Visit(server.url), f"http://127.0.0.1:{listener.getsockname()[1]}"
        places = (there, f"{there}/sparql", "s3://bucket/skb", "s3://bucket/skb@2", str(tmp_path), "demo@1", "demo@2")
        for kb in (*places, "mini + demo", f"mini + {there}", "../demo", "wikidata"):
            for path, body in (
                ("/api/ask", {"question": POLONIUM, "kb": kb}),
                ("/api/sessions", {"kb": kb}),
                ("/api/queries", {"query": "ASK {}", "kb": kb}),
                ("/v1/chat/completions", {"model": kb, "messages": [{"role": "user", "content": POLONIUM}]}),
            ):
                assert visit("POST", path, body).status_code in (404, 422), (path, kb)
            for path in ("/entry/{}/Q1", "/explore/{}", "/api/entities/{}/Q1"):
                assert visit("GET", path.format(quote(kb, safe=""))).status_code in (404, 422), (path, kb)
        with pytest.raises(BlockingIOError):  # nobody has come
            listener.accept()
