"""Every route of every server of pages: only by its name, from its own pages, of a size, and for whom is known."""

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import requests
from fastapi.routing import APIRoute

from kbnav.apps.web.routes import ROUTERS
from kbnav.apps.web.routes.evaluation import collect_router as collect
from kbnav.apps.web.routes.evaluation import judge_router as judge
from kbnav.apps.web.routes.explore import explorer_of
from kbnav.apps.web.routes.explore import router as explore
from kbnav.apps.web.routes.pages import login_router
from kbnav.apps.web.server import small_app
from kbnav.apps.web.service import open_service
from kbnav.evaluation.datasets import load_file
from kbnav.evaluation.human_evaluation import open_collection, open_judging
from kbnav.settings.model import Settings
from tests.apps.web.parts import Served, Server, web_settings
from tests.attack.test_doors import TOKENS, raw
from tests.attack.test_scripts import CORPUS

KINDS = {
    "page": ROUTERS,
    "collect": (login_router, collect, explore),
    "judge": (login_router, judge),
}
PROBES = {"/health", "/ready"}
"""Asked by the address."""
OPEN = (*PROBES, "/login", "/share/", "/api/shared/")
"""What anybody may read, as SECURITY.md has it."""
TOLD = CORPUS[0]


@contextmanager
def serving(kind: str, settings: Settings, folder: Path) -> Iterator[str]:
    """The address of one of the servers."""
    if kind == "page":
        with Server(settings, socket=True) as server:
            yield server.url
    elif kind == "judge":
        (folder / "made.jsonl").write_text(json.dumps({"id": "1", "question": TOLD}) + "\n")
        with (
            open_judging(folder / "r.jsonl", [load_file("jsonl", folder / "made.jsonl")], 10, 0) as judging,
            Served(small_app(settings, [judge], judging=judging), socket=True) as server,
        ):
            yield server.url
    else:
        with (
            open_service(settings) as service,
            open_collection(folder / "q.jsonl", explorer_of(service.kb("demo")), ["instrument"], 1) as collection,
            Served(
                small_app(settings, [collect, explore], service, collection=collection, count=5), socket=True
            ) as server,
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
