"""Hostile sizes, floods and clocks that jump; and one reader, endpoint or file, which must not take others down."""

import json
import secrets
import shutil
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
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
from kbnav.apps.web.limiter import Limiter, fair_queue
from kbnav.apps.web.queue import is_dead
from kbnav.apps.web.store import Store, StoredRun, open_sqlite
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.http_store import HttpCache, Rules, Throttle
from kbnav.knowledge.open import bundled_mirror
from kbnav.knowledge.serving import MirrorServer
from kbnav.sessions.session import Chat, sqlite_sessions
from kbnav.settings.model import Limits, Settings
from tests.apps.test_mcp import served
from tests.apps.web.parts import Explorer, Server, Visit, served_process, web_settings
from tests.attack.parts import HEAVY, POLONIUM, hangs
from tests.attack.test_secrets_left import ODD
from tests.clock import Clock
from tests.ending import until

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


def needed(told: dict[str, Any], schemas: dict[str, Any]) -> tuple[dict[str, str], Any]:
    """The smallest query and body that an operation takes."""
    parameters = [one for one in told.get("parameters", ()) if one["in"] == "query" and one.get("required")]
    content = told.get("requestBody", {}).get("content", {}).get("application/json")
    query = {one["name"]: str(sample(one["schema"], schemas)) for one in parameters}
    return query, sample(content["schema"], schemas) if content else None


def asked_of(described: dict[str, Any], ids: dict[str, str]) -> Iterator[tuple[str, str, dict[str, str], Any]]:
    """Method, path, query and body: of each operation with each value in each place in turn."""
    schemas = described["components"]["schemas"]
    for path, methods in sorted(described["paths"].items()):
        for method, told in methods.items():
            parameters = [one for one in told.get("parameters", ()) if one["in"] == "query"]
            named = [one["name"] for one in told.get("parameters", ()) if one["in"] == "path"]
            at = path.format(**ids)
            query, body = needed(told, schemas)
            content = told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
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


@pytest.fixture
def busy(fresh_home: Path):
    """A server on which queries may take three seconds and pages one."""
    limits = Limits(query_timeout=3.0)
    settings = web_settings(fresh_home, "mini", "demo", limits=limits)
    with Server(settings) as server:
        yield server


def query(visit: Visit, text: str, name: str = "", kb: str = "mini"):
    return visit("POST", "/api/queries", {"query": text, "kb": kb, "name": name})


@pytest.mark.slow
def test_while_one_reader_runs_heavy_queries_anothers_question_is_answered(busy):
    greedy, other = Visit(busy.url), Visit(busy.url)
    began = time.monotonic()
    for _ in range(3):
        other("POST", "/api/ask", {"question": POLONIUM, "kb": "mini"}).raise_for_status()
    alone = time.monotonic() - began
    with ThreadPoolExecutor(8) as threads:
        heavy = [threads.submit(query, greedy, HEAVY, kb=kb) for kb in ("mini", "demo") * 4]
        until(lambda: busy.app.state.parts.service.queries._jobs)
        began = time.monotonic()
        answers = [other("POST", "/api/ask", {"question": POLONIUM, "kb": "mini"}).json() for _ in range(3)]
        assert time.monotonic() - began < max(15, 10 * alone)  # a busy machine was so before, too
        assert [(one["status"], one["text"], one["note"]) for one in answers] == [
            ("answered", "Marie Curie, Pierre Curie", "")
        ] * 3
        own = query(other, "SELECT * { ?a wdt:P61 ?b } LIMIT 3")
        assert own.json()["result"]["rows"] == 3
        greedy.http.close()
        wait(heavy, timeout=1)
        for job in list(busy.app.state.parts.service.queries._jobs.values()):
            job.cancellation.stop()


@pytest.mark.parametrize("many", [2, 5])
def test_a_query_begins_at_once_while_another_reader_has_many_on_each_knowledge_base(fresh_home, tmp_path, many):
    kbs = ["mini", "demo", "two", "three", "four"][:many]
    for name in kbs[2:]:
        shutil.copytree(bundled_mirror(fresh_home), tmp_path / name)
    places = [str(tmp_path / name) if name in kbs[2:] else name for name in kbs]
    with Server(web_settings(fresh_home, *places, limits=Limits(query_timeout=60.0))) as server:
        greedy, other = Visit(server.url), Visit(server.url)
        jobs = server.app.state.parts.service.queries._jobs
        with ThreadPoolExecutor(20) as threads:
            heavy = [threads.submit(query, greedy, HEAVY, secrets.token_hex(8), kb) for kb in kbs * 4]
            until(lambda: len(jobs) == len(heavy))
            for kb in kbs:
                began = time.monotonic()
                told = query(other, "SELECT * { ?a ?b ?c } LIMIT 3", kb=kb)
                assert told.json()["result"]["rows"] == 3
                assert time.monotonic() - began < 30  # less than one of the others' may take
            for job in list(jobs.values()):
                job.cancellation.stop()
            wait(heavy, timeout=30)


def test_however_many_knowledge_bases_hang_cards_of_another_come_at_once(fresh_home):
    with (
        hangs() as first, hangs() as second, ThreadPoolExecutor(24) as threads,
        Server(web_settings(fresh_home, "mini", first.url, second.url)) as server,
    ):  # fmt: skip
        service = server.app.state.parts.service
        pages, service.page_seconds = service.pages._jobs, 60
        paths = [f"/api/entities/{(first, second)[number % 2].url[7:]}/Q{number}" for number in range(24)]
        late = [threads.submit(Visit(server.url), "GET", path) for path in paths]
        until(lambda: len(pages) == len(paths))
        began = time.monotonic()
        assert Visit(server.url)("GET", "/api/entities/mini/Q979").json()["label"] == "polonium"
        assert time.monotonic() - began < 30  # half of what one that hangs may take
        for job in list(pages.values()):
            job.cancellation.stop()
        assert {one.result().status_code for one in late} <= {409, 504}


def test_who_waits_is_told_how_many_are_before_and_a_reader_stops_their_own_query(busy):
    visit, other = Visit(busy.url), Visit(busy.url)
    names = [secrets.token_hex(8) for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        asked = []
        for name in names:
            asked.append(threads.submit(query, visit, HEAVY, name))
            until(lambda name=name: visit("GET", f"/api/queries/{name}").status_code == 200)
        assert [visit("GET", f"/api/queries/{name}").json()["before"] for name in names] == [0, 0, 1]
        assert other("GET", f"/api/queries/{names[0]}").status_code == 404
        assert other("DELETE", f"/api/queries/{names[0]}").status_code == 404
        for name in reversed(names):
            assert visit("DELETE", f"/api/queries/{name}").status_code == 204
        assert {one.result().status_code for one in asked} == {409}


def test_a_question_that_waits_is_told_how_many_are_before_it(fresh_home):
    with Explorer(held=0) as model, Server(web_settings(fresh_home, **model.options(), web_runs=1)) as server:
        first, second = Visit(server.url), Visit(server.url)
        runs = [visit.ask(visit.session(), POLONIUM) for visit in (first, first, second)]
        assert model.waiting.wait(60)
        assert second("GET", f"/api/runs/{runs[2]['id']}").json()["before"] == 0  # whoever has less comes first
        assert first("GET", f"/api/runs/{runs[1]['id']}").json()["before"] == 1
        told = next(event for event in first.events(runs[1]["id"]) if event["kind"] == "waiting")
        assert told["before"] == 1
        model.go_on.set()
        assert second.ended(runs[2]["id"])["status"] == "done"


def test_exports_hold_up_nothing_else(fresh_home):
    with Server(web_settings(fresh_home)) as server, ThreadPoolExecutor(30) as threads:
        visit, other, go_on = Visit(server.url), Visit(server.url), threading.Event()
        session = visit.session()
        store = server.app.state.parts.store
        at_work, runs = [], store.runs

        def slow(session_id: str):
            at_work.append(session_id)
            go_on.wait(30)
            return runs(session_id)

        object.__setattr__(store, "runs", slow)
        exports = [threads.submit(visit, "GET", f"/api/sessions/{session}/json") for _ in range(30)]
        until(lambda: at_work)
        began = time.monotonic()
        assert other("POST", "/api/ask", {"question": POLONIUM}).json()["text"] == "Marie Curie, Pierre Curie"
        assert time.monotonic() - began < 15
        assert len(at_work) <= 2
        go_on.set()
        assert {one.result().status_code for one in exports} == {200}


def test_pages_of_a_knowledge_base_that_hangs_hold_up_nothing_else(fresh_home):
    with hangs() as hanging:
        key = hanging.url[7:]
        settings = web_settings(fresh_home, "mini", hanging.url, limits=Limits(request_timeout=1.0, retries=0))
        with Server(settings) as server, ThreadPoolExecutor(45) as threads:
            service = server.app.state.parts.service
            service.pages, service.page_seconds = Limiter(fair_queue(3), wait=3.0), 0.5
            visits = [Visit(server.url) for _ in range(5)]
            pages = [threads.submit(visits[number % 5], "GET", f"/entry/{key}/Q{number + 1}") for number in range(45)]
            time.sleep(0.3)
            slowest = 0.0
            for path in ("/health", "/ready", "/", "/api/options", "/health", "/entry/mini/Q979"):
                began = time.monotonic()
                assert visits[0]("GET", path).status_code == 200, path
                slowest = max(slowest, time.monotonic() - began)
            assert slowest < 5  # a fraction of a second where nothing else is at work
            told = [page.result() for page in pages]
            assert {page.status_code for page in told} <= {429, 502, 503, 504}
            assert any("does not answer" in page.text for page in told)
            again = visits[0]("GET", f"/entry/{key}/Q1")
            assert (again.status_code, "does not answer" in again.text) == (503, True)
            assert visits[0]("GET", "/ready").json() == {
                "status": "degraded", "kbs": ["mini"], "out_of_service": [key],
            }  # fmt: skip
            asked = visits[0]("POST", "/api/ask", {"question": POLONIUM, "kb": key}).json()
            assert (asked["status"], "does not answer" in asked["note"]) == ("failed", True)


def test_a_server_starts_without_what_does_not_answer_yet_and_takes_it_in_once_it_does(fresh_home):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    late = f"127.0.0.1:{port}"
    settings = web_settings(fresh_home, f"http://{late}", limits=Limits(retries=0, request_timeout=1.0))
    with ExitStack() as mirror, Server(settings, pause=0.1) as server:
        visit = Visit(server.url)
        page = visit("GET", "/")
        assert (page.status_code, "cannot be reached" in page.text) == (503, True)
        ready = visit("GET", "/ready")
        assert (ready.status_code, ready.json()) == (
            503, {"status": "not ready", "kbs": [], "out_of_service": [late]},
        )  # fmt: skip
        for told in (
            visit("POST", "/api/ask", {"question": POLONIUM}),
            visit("POST", "/api/ask", {"question": POLONIUM, "kb": late}),
            visit("POST", "/api/queries", {"query": "ASK {}"}),
            visit("GET", f"/entry/{late}/Q1"),
        ):
            assert told.status_code == 503
            assert f"{late} is out of service: " in told.json()["detail"]
        mirror.enter_context(MirrorServer(bundled_mirror(fresh_home), port=port))
        until(lambda: visit("GET", "/ready").status_code == 200)
        assert visit("GET", "/ready").json() == {"status": "ok", "kbs": [late]}
        assert visit("GET", "/").status_code == 200
        assert visit("POST", "/api/ask", {"question": POLONIUM}).json()["text"] == "Marie Curie, Pierre Curie"
