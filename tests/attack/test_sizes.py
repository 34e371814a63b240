"""Every operation that the REST API describes, with hostile sizes in each of its parameters and fields."""

import json
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from requests import ConnectionError as HungUp

from kbnav.agents.common.agent import build_agent
from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.talk import Question
from kbnav.apps.web.queue import is_dead
from kbnav.apps.web.store import Store, StoredRun, open_sqlite
from kbnav.knowledge.http_store import HttpCache, Rules, Throttle
from kbnav.sessions.session import Chat, sqlite_sessions
from kbnav.settings.model import Settings
from tests.apps.web.parts import Visit, served_process
from tests.attack.test_downloads import kilobytes
from tests.clock import Clock

LONGEST_ADDRESS = 60_000
POLONIUM = "Which elements were discovered by Marie Curie?"
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


def requests(described: dict[str, Any], ids: dict[str, str]) -> Iterator[tuple[str, str, dict[str, str], Any]]:
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
        for method, path, query, body in requests(visit("GET", "/openapi.json").json(), ids):
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
