"""Hostile sizes and floods: every operation of the REST API, bodies, streams, downloads, and clocks that jump."""

import json
import socket
import sqlite3
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import requests
from requests import ConnectionError as HungUp

from kbnav.agents.common.agent import build_agent
from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.talk import Question
from kbnav.apps.web.queue import is_dead
from kbnav.apps.web.store import Store, StoredRun, open_sqlite
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.http_store import HttpCache, Rules, Throttle
from kbnav.sessions.session import Chat, sqlite_sessions
from kbnav.settings.model import Settings
from tests.apps.test_mcp import served
from tests.apps.web.parts import Explorer, Server, Visit, served_process, web_settings
from tests.attack.parts import POLONIUM
from tests.attack.test_secrets_left import ODD
from tests.clock import Clock

LONGEST_ADDRESS = 60_000
MIB = 1 << 20
SECONDS, REPLY, MEMORY = 15, 12 * MIB, 500_000
"""The most for one request, in seconds and bytes, and for all together beside what the server took, in kilobytes."""


def texts() -> dict[str, Any]:
    """Values of a field, by what is hostile in them; each fits into a body of 2 MB."""
    query = "SELECT * WHERE "
    return {
        "braces": query + "{" * 10_000 + "}" * 10_000,
        "braces never closed": query + "{" * 500_000,
        "brackets": query + "{ ?a ?b " + "[ ?c " * 50_000 + "]" * 50_000 + " }",
        "parentheses": query + "{ FILTER" + "(" * 50_000 + "1" + ")" * 50_000 + " }",
        "a long path": query + "{ ?a " + "/".join(["<x:y>"] * 50_000) + " ?b }",
        "unions": query + "{ " + " UNION ".join(["{ ?a ?b ?c }"] * 30_000) + " }",
        "one word": "x" * MIB,
        "words": "who is " * 150_000,
        "lines": "\n" * MIB,
        "emoji": "👩‍👩‍👧" * 20_000,
        "digits": "9" * MIB,
    }


def values() -> dict[str, Any]:
    return {
        **texts(),
        "a number": 10**300,
        "less than none": -(10**18),
        "a list": ["x" * 100] * 15_000,
        "numbers": [1e308] * 100_000,
        "a deep list": json.loads("[" * 500 + "]" * 500),
        "an object": {str(number): "x" * 50 for number in range(20_000)},
    }


def fields(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """The properties of a body, with what is a reference in them followed."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    found = dict(schema.get("properties", {}))
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        found |= fields(one, schemas)
    return found


def sample(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Something small that fits."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return sample(schema[several][0], schemas)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type")
    if kind == "object":
        return {name: sample(schema["properties"][name], schemas) for name in schema.get("required", ())}
    return {"array": [], "integer": 1, "number": 1.0, "boolean": False}.get(kind, "x")


def asked_of(described: dict[str, Any], ids: dict[str, str]) -> Iterator[tuple[str, str, dict[str, str], Any]]:
    """Method, path, query and body: of each operation with each value in each place in turn."""
    schemas = described["components"]["schemas"]
    for path, methods in sorted(described["paths"].items()):
        for method, told in methods.items():
            parameters = [one for one in told.get("parameters", ()) if one["in"] == "query"]
            named = [one["name"] for one in told.get("parameters", ()) if one["in"] == "path"]
            at = path.format(**ids)
            query = {one["name"]: str(sample(one["schema"], schemas)) for one in parameters if one.get("required")}
            content = told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            body = sample(content, schemas) if content else None
            for value in texts().values():
                for one, length in product(parameters, (200, 2_000, 50_000)):
                    yield method, at, {**query, one["name"]: value[:length]}, body
                for one in named if method == "get" else ():
                    yield method, path.format(**{**ids, one: quote(value[:2_000], safe="")}), query, body
            if content:
                yield method, at, query, [body] * 10_000
                for name, value in product(fields(content, schemas), values().values()):
                    yield method, at, query, {**body, name: value}
                    yield method, at, query, {**body, name: [{"role": "user", "content": value}]}


@pytest.mark.slow
def test_no_operation_takes_long_or_much_or_says_much(fresh_home):
    with served_process(fresh_home, "--kb", "mini") as (url, process):
        assert process.stdout
        Thread(target=process.stdout.read, daemon=True).start()  # a log that nobody reads would stop the server
        visit = Visit(url)
        session = visit.session()
        run = visit.answered(session, POLONIUM)["id"]
        rows = {"query": "SELECT * { ?a ?b ?c } LIMIT 20000", "kb": "mini"}
        ids = {
            "run_id": run, "session_id": session, "kb": "mini", "entity_id": "Q979", "name": "x", "form": "json",
            "result_id": visit("POST", "/api/queries", rows).json()["result"]["id"],
            "share_id": visit("POST", f"/api/runs/{run}/share").json()["share"],
        }  # fmt: skip
        idle = kilobytes(process.pid, "VmRSS")
        seen = set[str]()
        for method, path, query, body in asked_of(visit("GET", "/openapi.json").json(), ids):
            began = time.monotonic()
            try:
                told = visit(method.upper(), path, body, params=query)
            except HungUp:  # an address longer than is read is answered, and hung up on, while it is sent
                assert len(urlencode(query)) > LONGEST_ADDRESS
                continue
            what = (method, path[:200], [(name, str(value)[:50]) for name, value in query.items()], str(body)[:200])
            assert told.status_code < 500, (told.text[:300], what)
            assert time.monotonic() - began < SECONDS, what
            assert len(told.content) < REPLY, what
            seen.add(path)
        assert len(seen) > 30
        assert kilobytes(process.pid, "VmHWM") - idle < MEMORY


YEAR = 365 * 24 * 3600.0


@pytest.mark.slow
@pytest.mark.parametrize("rules", [Rules(requests=3), Rules(errors=2), Rules(seconds=30.0)])
@pytest.mark.parametrize("jumps", [(YEAR, -YEAR), (-YEAR, YEAR), (YEAR, -2 * YEAR), (-3600.0, 0.0)])
@pytest.mark.parametrize("within", [False, True], ids=["between requests", "within a request"])
def test_limits_hold_and_no_request_waits_for_a_year(tmp_path, rules, jumps, within):
    clock = Clock(1_800_000_000.0)
    throttle = Throttle(tmp_path / "limits.sqlite", clock=clock, sleep=clock.sleep)

    def ask(jump: float = 0.0) -> None:
        with throttle.slot("a", rules) as slot:
            slot.failed = True
            clock.now += 15.0 + (jump if within else 0.0)
        clock.now += 0.0 if within else jump

    for jump in jumps:
        for _ in range(2):
            ask()
        ask(jump)
    before = clock.slept
    for _ in range(6):
        ask()
    assert clock.slept - before < 360
    if rules.requests is None or rules.requests * 15 < 60:
        assert clock.slept > before  # the limits are still there


def test_what_a_bot_put_off_and_counted_before_its_clock_jumped_back_holds_nothing_up_for_a_year(tmp_path):
    ledger, now = Ledger(tmp_path / "bot.sqlite"), 1_800_000_000.0
    question = Question("q1", "Talk:A", "A", "Ann", "now", "Who?", 0)
    ledger.add(question, now + YEAR)
    ledger.update("q1", now + YEAR, tries=1, due=now + YEAR + 60)
    assert [entry.question.id for entry in ledger.due(now, 900)] == ["q1"]
    assert ledger.asked_since(now - 86_400, "Ann", now=now) == 0
    ledger.update("q1", now, tries=2, due=now + 120)
    assert ledger.due(now, 900) == []  # put off by the clock as it is
    assert [entry.question.id for entry in ledger.due(now + 120, 900)] == ["q1"]
    ledger.close()


def test_an_answer_from_the_future_is_not_young_for_ever(tmp_path):
    clock = Clock(1_800_000_000.0)
    cache = HttpCache(tmp_path / "cache.sqlite", age=60, clock=clock)
    clock.now += YEAR
    cache.put("a", "text/plain", b"old")
    assert cache.get("a") == ("text/plain", b"old")
    clock.now -= YEAR
    assert cache.get("a") is None
    cache.put("a", "text/plain", b"new")
    assert cache.get("a") == ("text/plain", b"new")


def put_ahead(home: Path, seconds: float) -> None:
    """Have a clock that was ahead have written all checkpoints: their ids tell the time, in tenths of microseconds."""

    def later(checkpoint: str | None) -> str | None:
        if checkpoint is None:
            return None
        number = uuid.UUID(checkpoint).int
        ticks = ((number >> 80) << 12 | (number >> 64) & 0xFFF) + int(seconds * 1e7)
        return str(uuid.UUID(int=(ticks >> 12) << 80 | 6 << 76 | (ticks & 0xFFF) << 64 | number & (1 << 64) - 1))

    with closing(sqlite3.connect(home / "sessions.sqlite")) as file, file:
        file.create_function("later", 1, later)
        file.execute(
            "UPDATE checkpoints SET checkpoint_id = later(checkpoint_id), "
            "parent_checkpoint_id = later(parent_checkpoint_id)"
        )
        file.execute("UPDATE writes SET checkpoint_id = later(checkpoint_id)")


def test_a_session_goes_on_from_what_was_said_last_whatever_the_clock_was(mini_kb, tmp_path):
    settings = Settings(home=tmp_path, kb="mini", language="en")
    asked = ["Who discovered polonium?", "Who discovered radium?", "Who discovered helium?"]
    for number, question in enumerate(asked):
        with sqlite_sessions(tmp_path) as saver:
            chat = Chat(build_agent(mini_kb, settings), "s", saver)
            assert [turn.question for turn in chat.history] == asked[:number]
            chat.ask(question)
        if number == 0:
            put_ahead(tmp_path, YEAR)
    with sqlite_sessions(tmp_path) as saver:
        assert [turn.question for turn in Chat(build_agent(mini_kb, settings), "s", saver).history] == asked


def test_a_page_keeps_the_order_of_a_session_and_the_days_count_when_its_clock_was_put_back(tmp_path):
    with open_sqlite(tmp_path / "web.sqlite") as database:
        store, now = Store(database), time.time()
        store.set_up()
        session = store.add_session("alice", "mini", "spinach", "m").id
        for name, made in (("first", now + YEAR), ("second", now), ("third", now + 1)):
            run = StoredRun(name, session, "alice", "mini", "s", "m", "?", "queued", "w", 0.0, False, None, made, None)
            store.add_run(run, at_once=9, a_day=3)
            store.end(name, "w", "done", {"text": ""})
        assert [run.id for run in store.runs(session)] == ["first", "second", "third"]
        store.may_ask("alice", 1)  # a year from now they count


@pytest.mark.parametrize("seen", [-YEAR, YEAR])
def test_a_worker_of_another_machine_that_is_silent_is_dead_by_any_clock(seen):
    assert is_dead("elsewhere.invalid:1:a", time.time() + seen)
    assert not is_dead("elsewhere.invalid:1:a", time.time() - 1)


STREAMS = 200


@pytest.mark.slow
def test_two_hundred_open_streams_hold_up_nobody_and_each_hears_the_end(fresh_home):
    with (
        Explorer(held=0) as model,
        Server(web_settings(fresh_home, web_models=("stub", "offline"), **model.options())) as server,
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
        told = requests.post(f"{mcp}/mcp", data=body, headers=headers, timeout=20)
        assert 400 <= told.status_code < 500, (line, told.status_code)
        expected = {-32700} if code in (None, -32700) else {-32600, -32602}  # what is JSON and no message
        assert json.loads(told.text)["error"]["code"] in expected, (line, told.text)
    ping = {"jsonrpc": "2.0", "id": 99, "method": "ping"}
    assert requests.post(f"{mcp}/mcp", json=ping, headers=headers, timeout=20).status_code < 500


ROWS, MANY = 20_000, 20
QUERY = f"SELECT ?a ?b ?c {{ ?a ?b ?c . ?d ?e ?f }} LIMIT {ROWS}"
MOST = 300_000
"""Kilobytes above what the server takes when nobody asks."""


def kilobytes(process: int, what: str) -> int:
    """A process's memory now (``VmRSS``), or the most that it has ever had (``VmHWM``)."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


@pytest.mark.slow
def test_twenty_downloads_at_once_take_little_memory(fresh_home):
    with served_process(fresh_home, "--kb", "demo") as served:  # two of one reader are sent at once, the others wait
        url, process = served
        visit = Visit(url)
        visit.answered(visit.session(), "Who made the compass?")
        idle = kilobytes(process.pid, "VmRSS")
        result = visit("POST", "/api/queries", {"query": QUERY, "kb": "demo"}).json()["result"]
        assert result["rows"] == ROWS

        def load(form: str) -> int:
            with visit.http.get(f"{url}/api/results/{result['id']}/{form}", stream=True, timeout=250) as response:
                assert response.status_code == 200, response.text
                return sum(map(len, response.iter_content(1 << 16)))

        with ThreadPoolExecutor(MANY) as pool:
            sizes = list(pool.map(load, ["json", "csv", "tsv", "csv"] * (MANY // 4)))
        assert min(sizes) > 500_000
        assert kilobytes(process.pid, "VmHWM") - idle < MOST
