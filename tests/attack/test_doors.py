"""The doors of every server: names, origins, logins, and connections before anybody is known."""

import json
import re
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
import requests
from fastapi.routing import APIRoute
from pydantic import SecretStr
from starlette.datastructures import Headers

from kbnav.apps.web.auth import FREE_TRIES, MOST_WAIT, Identities, WrongTokens
from kbnav.apps.web.routes import ROUTERS
from kbnav.apps.web.routes.completions import _markdown
from kbnav.apps.web.routes.evaluation import collect_router as collect
from kbnav.apps.web.routes.evaluation import judge_router as judge
from kbnav.apps.web.routes.explore import explorer_of
from kbnav.apps.web.routes.explore import router as explore
from kbnav.apps.web.routes.pages import login_router
from kbnav.apps.web.server import Deadlines, small_app
from kbnav.apps.web.service import open_service
from kbnav.apps.web.store import logouts_in_memory
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import load_file
from kbnav.evaluation.human_evaluation import open_collection, open_judging
from kbnav.knowledge.connections import host_name
from kbnav.settings.model import Settings, Web
from tests.apps.web.parts import Served, Server, Visit, web_settings
from tests.attack.parts import POLONIUM
from tests.attack.test_scripts import CORPUS
from tests.attack.test_sizes import needed

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


def test_no_tricky_host_and_no_origin_of_another_port_comes_in(fresh_home):
    with Server(web_settings(fresh_home, "mini", web_hosts=("ask.example.org",))) as server:
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


def test_a_cookie_opens_nothing_after_the_logout_and_other_logins_stay(fresh_home):
    with Server(web_settings(fresh_home, "mini", web_tokens=TOKENS)) as server:
        here, there = requests.Session(), requests.Session()
        for browser in (here, there):
            token = {"token": TOKENS["alice"].get_secret_value()}
            assert browser.post(f"{server.url}/login", data=token, timeout=10).status_code == 200
            assert browser.get(f"{server.url}/api/options", timeout=10).json()["user"] == "alice"
        stolen = here.cookies.get("kbnav")
        assert here.post(f"{server.url}/logout", timeout=10).status_code == 200
        told = requests.get(f"{server.url}/api/options", cookies={"kbnav": stolen}, timeout=10)
        assert told.status_code == 401
        assert there.get(f"{server.url}/api/options", timeout=10).status_code == 200
    with Server(web_settings(fresh_home, "mini", web_tokens=TOKENS)) as server:  # and after a restart
        told = requests.get(f"{server.url}/api/options", cookies={"kbnav": stolen}, timeout=10)
        assert told.status_code == 401


@pytest.mark.slow
@pytest.mark.parametrize("door", ["page", "header"])
def test_wrong_tokens_are_slowed_and_a_right_one_always_passes(fresh_home, door):
    with Server(web_settings(fresh_home, "mini", web_tokens=TOKENS)) as server:

        def give(token: str) -> requests.Response:
            if door == "page":
                return requests.post(f"{server.url}/login", data={"token": token}, timeout=10, allow_redirects=False)
            headers = {"Authorization": f"Bearer {token}"}
            return requests.get(f"{server.url}/api/options", headers=headers, timeout=10)

        told = [give(f"wrong-{number:020}").status_code for number in range(FREE_TRIES + 3)]
        assert set(told[:FREE_TRIES]) == {403 if door == "page" else 401}
        assert told[-1] == 429
        assert give(TOKENS["bob"].get_secret_value()).status_code in (200, 303)
        assert 429 in {give("wrong-again-and-again").status_code for _ in range(4)}  # a slow machine waits, too
        assert Visit(server.url)("GET", "/health").status_code == 200


def test_an_address_that_gave_thousands_of_wrong_tokens_still_waits():
    wrong = WrongTokens()
    wrong._since["203.0.113.1"] = (2_000, time.monotonic())
    assert MOST_WAIT - 5 < wrong.another("203.0.113.1") <= MOST_WAIT


def test_a_network_of_proxies_that_is_none_is_refused_at_the_start(fresh_home):
    with (
        pytest.raises(UsageError, match="proxy_addresses"),
        Server(web_settings(fresh_home, "mini", web_proxy_addresses=("10.0.0.0/33",))),
    ):
        pass


def test_behind_a_proxy_wrong_tokens_count_for_the_address_that_it_names(fresh_home):
    options = {"web_tokens": TOKENS, "web_proxy_addresses": ("127.0.0.1", "10.0.0.0/24")}
    with Server(web_settings(fresh_home, "mini", **options)) as server:

        def give(forwarded: str) -> int:
            headers = {"Authorization": "Bearer wrong-wrong-wrong-wrong", "X-Forwarded-For": forwarded}
            return requests.get(f"{server.url}/api/options", headers=headers, timeout=10).status_code

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
def test_connections_that_never_finish_a_request_are_closed_and_lock_nobody_out(fresh_home):
    with Server(web_settings(fresh_home, "mini"), http=Hasty) as server:
        place = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        slow = [socket.create_connection(place) for _ in range(60)]
        for connection in slow:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-")
        assert requests.get(f"{server.url}/health", timeout=60).json() == {"status": "ok"}
        body = socket.create_connection(place)
        body.sendall(b"POST /api/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        second = socket.create_connection(place)  # a request that is whole, and then half of another
        second.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he")
        assert all(closed(connection) for connection in (*slow, body, second))
        for connection in (*slow, body, second):
            connection.close()


class Crowded(Deadlines):
    new_seconds = 0.5
    most_unfinished = 20


def test_of_many_who_connect_at_once_none_is_hung_up_on_but_of_those_who_then_say_nothing_the_oldest_are(fresh_home):
    with Server(web_settings(fresh_home, "mini"), http=Crowded) as server, ExitStack() as opened:
        place = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        asking, silent = ([opened.enter_context(socket.create_connection(place)) for _ in range(60)] for _ in range(2))
        for connection in asking:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert [connection.recv(4096)[:15] for connection in asking] == [b"HTTP/1.1 200 OK"] * 60
        assert all(closed(connection) for connection in silent[:40])
        assert not any(closed(connection, 0.01) for connection in silent[40:])


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
    with Server(web_settings(fresh_home, "mini", web_tokens=TOKENS)) as server:
        token = TOKENS["alice"].get_secret_value()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}", **headers}
        began = time.monotonic()
        told = requests.post(f"{server.url}{path}", body, headers=headers, timeout=100)
        assert (told.status_code, len(told.content) < 50_000) == (status, True), told.text[:200]
        assert time.monotonic() - began < 20


PICTURE = "![x](http://127.0.0.1:9/x.png) <img src=x onerror=alert(1)> [y](javascript:alert(1))"


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
            for method, operation in methods.items():
                query, body = needed(operation, spoken["components"]["schemas"])
                told = other(method.upper(), path.format(**ids), body, params=query)
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


KINDS = {"page": ROUTERS, "collect": (login_router, collect, explore), "judge": (login_router, judge)}
PROBES = {"/health", "/ready"}
"""Asked by the address."""
OPEN = (*PROBES, "/login", "/share/", "/api/shared/")
"""What anybody may read, as SECURITY.md has it."""
TOLD = CORPUS[0]


@contextmanager
def serving(kind: str, settings: Settings, folder: Path) -> Iterator[str]:
    """The address of one of the servers."""
    if kind == "page":
        with Server(settings) as server:
            yield server.url
    elif kind == "judge":
        (folder / "made.jsonl").write_text(json.dumps({"id": "1", "question": TOLD}) + "\n")
        with (
            open_judging(folder / "r.jsonl", [load_file("jsonl", folder / "made.jsonl")], 10, 0) as judging,
            Served(small_app(settings, [judge], judging=judging)) as server,
        ):
            yield server.url
    else:
        with (
            open_service(settings) as service,
            open_collection(folder / "q.jsonl", explorer_of(service.kb("demo")), ["instrument"], 1) as collection,
            Served(small_app(settings, [collect, explore], service, collection=collection, count=5)) as server,
        ):
            yield server.url


def routes(kind: str) -> list[tuple[str, str]]:
    """Every method and path of a server, with something in the place of ids."""
    found = [route for router in KINDS[kind] for route in router.routes]
    assert all(isinstance(route, APIRoute) for route in found)  # one of another kind wants a look of its own
    return sorted((method, re.sub(r"\{.*?\}", "x", route.path)) for route in found for method in route.methods)


@pytest.mark.parametrize("kind", KINDS)
def test_no_route_of_any_server_answers_another_name_another_site_or_what_is_too_large(fresh_home, tmp_path, kind):
    with serving(kind, web_settings(fresh_home, "demo"), tmp_path) as url:
        own = f"Host: {url.removeprefix('http://')}"
        every = routes(kind)
        for method, path in every:
            if path not in PROBES:
                assert raw(url, method, path, "Host: evil.example") == 421, (method, path)
            if method not in ("GET", "HEAD"):
                told = raw(url, method, path, own, "Origin: http://evil.example", "Content-Length: 0")
                assert told == 403, (method, path)
                assert raw(url, method, path, own, "Sec-Fetch-Site: cross-site", "Content-Length: 0") == 403, path
                assert raw(url, method, path, own, "Content-Length: 3000000") == 413, (method, path)
                assert raw(url, method, path, own, "Transfer-Encoding: chunked") == 411, (method, path)
        assert any(method not in ("GET", "HEAD") for method, _ in every)


@pytest.mark.parametrize("kind", KINDS)
def test_no_route_of_any_server_is_for_who_is_not_known(fresh_home, tmp_path, kind):
    with serving(kind, web_settings(fresh_home, "demo", web_tokens=TOKENS), tmp_path) as url:
        own = f"Host: {url.removeprefix('http://')}"
        closed = [(method, path) for method, path in routes(kind) if not path.startswith(OPEN)]
        assert len(closed) >= 3
        for method, path in closed:
            assert raw(url, method, path, own, "Content-Length: 0") == 401, (method, path)
            assert raw(url, method, path, own, "Accept: text/html", "Content-Length: 0") in (303, 401), (method, path)


def people(url: str) -> Iterator[tuple[str, Any]]:
    """Two who are logged in, each of whom also says to be Alice by the other name that a browser may choose."""
    for name in ("alice", "bob"):
        http = requests.Session()
        http.headers["Authorization"] = f"Bearer {TOKENS[name].get_secret_value()}"
        http.cookies.set("kbnav_name", "alice")
        yield name, lambda method, path, http=http, **data: http.request(method, url + path, data=data, timeout=60)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_one_writes_or_rates_is_text_for_them_and_nobody_elses(fresh_home, tmp_path):
    mark = secrets.token_hex(4)
    settings = web_settings(fresh_home, "demo", web_tokens=TOKENS)
    with serving("collect", settings, tmp_path) as url:
        visits = dict(people(url))
        node = re.findall(r"/write\?node=([^&\"]+)", visits["alice"]("GET", "/").text)[0]
        given = {"node": unquote(node), "question": f"{mark} {TOLD}", "batch": "0"}
        for looked in ("", "1"):  # what may answer it as well is shown, and then it is kept
            told = visits["alice"]("POST", "/write", **given, looked=looked)
            assert told.status_code == 200
            assert mark in told.text
            assert TOLD not in told.text
            assert "script-src 'self'" in told.headers["Content-Security-Policy"]
        assert mark in visits["alice"]("GET", "/").text
        assert mark not in visits["bob"]("GET", "/").text
        assert [one["meta"]["by"] for one in lines(tmp_path / "q.jsonl")] == ["alice"]
    with serving("judge", settings, tmp_path) as url:
        visits = dict(people(url))
        assert TOLD not in visits["alice"]("GET", "/").text
        rated = {"dataset": "made", "naturalness": "1", "diversity": "1", "practicality": "1", "note": mark}
        for name in ("alice", "bob"):
            assert 'name="dataset"' in visits[name]("GET", "/").text  # what Alice rated, Bob has still to rate
            assert visits[name]("POST", "/rate", **rated).status_code == 200
        assert [one["by"] for one in lines(tmp_path / "r.jsonl")] == ["alice", "bob"]
