"""The REST API: what it answers, what it keeps apart, what it refuses."""

from __future__ import annotations

import csv
import http.client
import io
import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import requests
from pydantic import SecretStr

from kbnav.apps.cli.serve import opinions
from kbnav.apps.web.database import open_sqlite
from kbnav.apps.web.security import checked
from kbnav.apps.web.server import DATABASE
from kbnav.apps.web.service import open_service
from kbnav.apps.web.store import Store
from kbnav.errors import UsageError
from kbnav.settings import Price, Web
from tests.apps.web.parts import Explorer, Server, Visit, until, web_settings
from tests.models.stub import ModelStub, failure

MARIE = "Which elements were discovered by Marie Curie?"
TOKEN = "a-token-of-alice-0123456789"


@pytest.fixture
def held_model() -> Iterator[Explorer]:
    """A model whose first reply waits until it is told to go on."""
    with Explorer(held=0) as model:
        yield model
        model.go_on.set()


def test_a_question_without_a_session_is_answered_in_one_call(visit: Visit):
    answer = visit("POST", "/api/ask", {"question": "Who discovered polonium?", "kb": "mini"}).json()
    assert (answer["status"], answer["text"]) == ("answered", "Marie Curie, Pierre Curie")
    rows = visit("GET", f"/api/results/{answer['result']['id']}/rows").json()
    assert [cell["id"] for (cell,) in rows["rows"]] == ["Q7186", "Q37463"]


def test_systems_are_offered_with_what_they_do_and_only_those_named_where_some_are(visit: Visit, fresh_home: Path):
    kbs = {one["key"]: one for one in visit("GET", "/api/options").json()["kbs"]}
    assert kbs["mini"]["systems"] == ["spinach"]  # the others there need a model
    assert kbs["mini"]["about"] == [
        {
            "name": "spinach",
            "about": "Explores Wikidata, or any SPARQL endpoint, step by step and writes SPARQL.",
            "needs": [],
            "uses": ["model"],
        }
    ]
    module = "tests.apps.web.own_agent:build"
    with Server(web_settings(fresh_home, "mini", web_systems=(module, "skb"))) as server:
        own = Visit(server.url)
        assert [one["systems"] for one in own("GET", "/api/options").json()["kbs"]] == [[module]]
        assert own("POST", "/api/sessions", {"system": "spinach"}).status_code == 404
        assert own("POST", "/api/sessions", {"system": "os:system"}).status_code == 404
        run = own.answered(own.session(), "Who discovered polonium?")
        assert (run["system"], run["status"]) == (module, "done")
    with (
        pytest.raises(UsageError, match="none of the systems skb answers questions of"),
        open_service(web_settings(fresh_home, "mini", web_systems=("skb",))),
    ):
        pass


def test_a_follow_up_knows_the_question_before(visit: Visit):
    session = visit.session(kb="mini")
    visit.answered(session, "Who discovered polonium?")
    run = visit.answered(session, "When was it discovered?")
    assert "wd:Q979 wdt:P575" in run["answer"]["query"]
    assert [one["question"] for one in visit("GET", f"/api/sessions/{session}").json()["runs"]] == [
        "Who discovered polonium?",
        "When was it discovered?",
    ]


def test_events_are_streamed_numbered_and_go_on_behind_a_number(visit: Visit):
    run = visit.ask(visit.session(), "Who discovered polonium?")
    told = list(visit.events(run["id"]))
    assert [event["id"] for event in told] == list(range(1, len(told) + 1))
    kinds = [event["kind"] for event in told]
    assert (kinds[0], kinds[-1]) == ("started", "end")
    assert kinds.count("call") == kinds.count("step") >= 3
    later = list(visit.events(run["id"], headers={"Last-Event-ID": "4"}))
    assert later == told[4:]


def test_a_ranking_is_downloaded_as_csv_and_json(visit: Visit):
    question = "Which instrument made by somebody from Little Mew has a love letter hidden in it?"
    answer = visit("POST", "/api/ask", {"question": question, "kb": "demo"}).json()
    result = f"/api/results/{answer['result']['id']}"
    text = visit("GET", f"{result}/csv").text
    assert next(csv.DictReader(io.StringIO(text)))["id"] == "instrument:the-brown-eye"
    assert visit("GET", f"{result}/json").json()[0]["name"] == "The Brown Eye"
    first = visit("GET", f"{result}/rows").json()["rows"][0]
    assert first[1]["href"] == "/entry/demo/instrument%3Athe-brown-eye"


def test_rows_are_sorted_by_value_and_paged(visit: Visit):
    query = "SELECT ?element ?number { ?element wdt:P1086 ?number }"
    result = visit("POST", "/api/queries", {"query": query, "kb": "mini"}).json()["result"]
    path = f"/api/results/{result['id']}/rows"
    page = visit("GET", f"{path}?sort=number&descending=true&count=3").json()
    numbers = [int(number["text"]) for _, number in page["rows"]]
    every = visit("GET", f"{path}?count=500").json()["rows"]
    assert numbers == sorted((int(number["text"]) for _, number in every), reverse=True)[:3]
    second = visit("GET", f"{path}?sort=number&descending=true&count=1&start=1").json()
    assert second["rows"][0] == page["rows"][1]
    assert visit("GET", f"{path}?sort=nothing").status_code == 422


@pytest.mark.parametrize("query", ["DELETE WHERE { ?s ?p ?o }", "SELECT ?x { ?x SERVICE <http://x/> {} }", "SELECT"])
def test_a_query_that_may_not_or_cannot_run_is_refused_with_a_reason(visit: Visit, query: str):
    response = visit("POST", "/api/queries", {"query": query, "kb": "mini"})
    assert response.status_code == 422
    assert response.json()["detail"]


def test_what_is_anothers_is_as_if_it_were_not_there(server: Server, visit: Visit):
    session = visit.session(kb="mini")
    run = visit.answered(session, "Who discovered polonium?")["id"]
    other, nobody = Visit(server.url), Visit(server.url)
    nobody.http.cookies.clear()
    for stranger in (other, nobody):
        for method, path in [
            ("GET", f"/api/sessions/{session}"),
            ("DELETE", f"/api/sessions/{session}"),
            ("GET", f"/s/{session}"),
            ("GET", f"/api/runs/{run}"),
            ("GET", f"/api/runs/{run}/events"),
            ("POST", f"/api/runs/{run}/stop"),
            ("POST", f"/api/runs/{run}/share"),
            ("GET", f"/api/results/{run}/rows"),
            ("GET", f"/api/results/{run}/csv"),
        ]:
            assert stranger(method, path).status_code == 404, path
        asked = stranger("POST", f"/api/sessions/{session}/questions", {"question": "?"})
        assert asked.status_code == 404
    assert other("GET", "/api/sessions").json() == []
    assert nobody("GET", "/api/sessions").json() == []


def test_a_deleted_session_is_forgotten(server: Server, visit: Visit):
    session = visit.session(kb="mini")
    answered = visit.answered(session, "Who discovered polonium?")
    run, saved = answered["id"], server.app.state.parts.settings.home / "runs" / f"{answered['answer']['run']}.json"
    assert saved.is_file()
    assert visit("DELETE", f"/api/sessions/{session}").status_code == 204
    for path in (f"/api/sessions/{session}", f"/api/runs/{run}", f"/api/results/{run}/rows"):
        assert visit("GET", path).status_code == 404
    assert not saved.exists()
    assert session not in [one["id"] for one in visit("GET", "/api/sessions").json()]


def test_a_question_that_waits_is_stopped_at_once_and_one_that_is_deleted_leaves_nothing(
    fresh_home: Path, held_model: Explorer
):
    with Server(web_settings(fresh_home, **held_model.options(), web_runs=1, web_questions_per_day=2)) as server:
        visit = Visit(server.url)
        session = visit.session()
        first = visit.ask(session, MARIE)["id"]
        assert held_model.waiting.wait(60)
        second = visit.ask(visit.session(), MARIE)["id"]
        assert visit("GET", f"/api/runs/{second}").json()["status"] == "queued"
        visit("POST", f"/api/runs/{second}/stop")
        assert visit.ended(second)["status"] == "stopped"
        assert visit("DELETE", f"/api/sessions/{session}").status_code == 204
        asked = visit("POST", f"/api/sessions/{visit.session()}/questions", {"question": MARIE})
        assert asked.status_code == 429  # what is deleted was asked all the same
    with open_sqlite(fresh_home / DATABASE) as database:
        assert Store(database).events(first) == []


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", {"Host": "evil.example"}, 421),
        ("GET", "/api/options", {"Host": "evil.example:8080"}, 421),
        ("POST", "/api/ask", {"Origin": "https://evil.example"}, 403),
        ("POST", "/api/ask", {"Origin": "null"}, 403),
        ("POST", "/api/ask", {"Origin": "http://["}, 403),
        ("POST", "/api/ask", {"Origin": "http://127.0.0.1:1"}, 403),
        ("POST", "/api/ask", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("GET", "/?question=x", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("GET", "/api/sessions", {"Sec-Fetch-Site": "same-site"}, 403),
        ("GET", "/", {"Sec-Fetch-Site": "cross-site"}, 200),
        ("POST", "/api/ask", {"Content-Length": "9000000"}, 413),
        ("POST", "/api/ask", {"Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_other_sites_and_other_names_are_refused(
    server: Server, method: str, path: str, headers: dict[str, str], status: int
):
    prepared = requests.Request(method, server.url + path).prepare()
    prepared.headers.update(headers)
    with requests.Session() as http:
        assert http.send(prepared, timeout=10).status_code == status


def test_every_answer_carries_a_strict_policy(visit: Visit):
    for path in ("/", "/api", "/static/app.js", "/nothing", "/api/options"):
        headers = visit("GET", path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_user_has_so_many_questions_at_once_and_so_many_a_day(fresh_home: Path, held_model: Explorer):
    settings = web_settings(fresh_home, **held_model.options(), web_runs_per_user=1, web_questions_per_day=2)
    with Server(settings) as server:
        visit = Visit(server.url)
        session = visit.session()
        first = visit.ask(session, MARIE)
        again = visit("POST", f"/api/sessions/{visit.session()}/questions", {"question": MARIE})
        assert again.status_code == 429
        held_model.go_on.set()
        assert visit.ended(first["id"])["status"] == "done"
        assert visit.answered(session, MARIE)["status"] == "done"
        assert "24 hours" in visit("POST", f"/api/sessions/{session}/questions", {"question": MARIE}).json()["detail"]


def test_of_twenty_questions_at_the_same_moment_no_more_are_taken_than_the_limits_allow(
    fresh_home: Path, held_model: Explorer
):
    settings = web_settings(fresh_home, **held_model.options(), web_runs_per_user=3, web_questions_per_day=5)
    with Server(settings) as server:
        visit = Visit(server.url)

        def post(session: str) -> tuple[int, str]:
            other = requests.post(
                f"{server.url}/api/sessions/{session}/questions",
                json={"question": MARIE},
                cookies=visit.http.cookies.get_dict(),
                timeout=60,
            )
            return other.status_code, other.json().get("id", "")

        for allowed in (3, 2):  # three at once, and then what is left of five a day
            with ThreadPoolExecutor(20) as pool:
                found = list(pool.map(post, [visit.session() for _ in range(20)]))
            assert sorted(status for status, _ in found) == [202] * allowed + [429] * (20 - allowed)
            held_model.go_on.set()
            for _, run in found:
                assert not run or visit.ended(run)["status"] == "done"


def test_the_next_question_can_be_asked_at_the_very_end_of_the_one_before(visit: Visit):
    session = visit.session(kb="mini")
    run = visit.ask(session, "Who discovered polonium?")
    for _ in range(8):
        for event in visit.events(run["id"]):
            if event["kind"] == "end":
                run = visit.ask(session, "When was it discovered?")  # asserts that it is taken
    assert visit.ended(run["id"])["status"] == "done"


def test_a_run_whose_database_fails_ends_as_failed_and_frees_its_place(
    fresh_home: Path, held_model: Explorer, caplog: pytest.LogCaptureFixture
):
    settings = web_settings(fresh_home, **held_model.options(), web_runs=1, web_runs_per_user=1)
    with Server(settings) as server, closing(sqlite3.connect(fresh_home / DATABASE, isolation_level=None)) as database:
        visit = Visit(server.url)
        session = visit.session()
        run = visit.ask(session, MARIE)
        assert held_model.waiting.wait(60)
        database.execute("ALTER TABLE web_events RENAME TO away")
        held_model.go_on.set()
        until(lambda: " run: " in caplog.text)  # it has broken off
        assert server.app.state.parts.store.run(run["id"]).status == "running"  # it cannot be said yet
        database.execute("ALTER TABLE away RENAME TO web_events")
        ended = visit.ended(run["id"])
        assert (ended["status"], ended["answer"]["note"]) == (
            "failed", "An error in kbnav itself; the server's log says more.",
        )  # fmt: skip
        assert [event["kind"] for event in ended["events"]] == ["started", "end"]
        assert visit.answered(session, MARIE)["status"] == "done"


def test_a_question_that_waits_for_the_database_holds_up_nobody(fresh_home: Path):
    with (
        Server(web_settings(fresh_home)) as server,
        closing(sqlite3.connect(fresh_home / DATABASE, isolation_level=None)) as database,
        ThreadPoolExecutor(1) as threads,
    ):
        visit = Visit(server.url)
        database.execute("BEGIN IMMEDIATE")
        asked = threads.submit(visit, "POST", "/api/ask", {"question": "Who discovered polonium?"})
        for _ in range(20):  # a server that waited would answer these when the question had been given up
            assert requests.get(f"{server.url}/health", timeout=60).status_code == 200
        assert not asked.done()
        database.execute("COMMIT")
        assert asked.result(60).json()["text"] == "Marie Curie, Pierre Curie"


def test_a_session_is_at_one_question_at_a_time(fresh_home: Path, held_model: Explorer):
    with Server(web_settings(fresh_home, **held_model.options())) as server:
        visit = Visit(server.url)
        session = visit.session()
        first = visit.ask(session, MARIE)
        assert visit("POST", f"/api/sessions/{session}/questions", {"question": MARIE}).status_code == 409
        held_model.go_on.set()
        visit.ended(first["id"])


def test_time_and_money_for_a_question_are_limited(fresh_home: Path, held_model: Explorer):
    with Server(web_settings(fresh_home, **held_model.options(), web_question_seconds=0.3)) as server:
        visit = Visit(server.url)
        run = visit.answered(visit.session(), MARIE)
        assert (run["status"], run["answer"]["note"]) == (
            "stopped", "The limit of 0.3 s for a question was reached.",
        )  # fmt: skip
    held_model.go_on.set()
    # A reply of the stub is 100 + 20 tokens; at these prices, two of them cost 0.24 dollars.
    prices = {"stub": Price(prompt=1000, completion=1000)}
    options = {**held_model.options(), "prices": prices, "web_question_dollars": 0.2}
    with Server(web_settings(fresh_home, **options)) as server:
        visit = Visit(server.url)
        run = visit.answered(visit.session(), MARIE)
        assert run["answer"]["note"] == "The limit of $0.20 for a question was reached."
        assert run["answer"]["actions"] == 2


def test_a_refused_key_reaches_neither_page_nor_log(fresh_home: Path, caplog: pytest.LogCaptureFixture):
    key = "sk-a-secret-key-1234567890"
    caplog.set_level("DEBUG")
    with ModelStub([failure(401, f"Incorrect API key provided: {key}")]) as stub:
        settings = web_settings(fresh_home, model="stub", base_url=stub.base_url, api_key=SecretStr(key))
        with Server(settings) as server:
            visit = Visit(server.url)
            session = visit.session()
            run = visit.answered(session, MARIE)
            assert run["status"] == "failed"
            assert "refused the key: Incorrect API key provided: [hidden]" in run["answer"]["note"]
            assert key not in json.dumps(visit("GET", f"/api/sessions/{session}").json())
            assert key not in visit("GET", f"/s/{session}").text
        sent = {name.casefold(): value for name, value in stub.headers[0].items()}
        assert sent["authorization"] == f"Bearer {key}"
    assert "POST /api/sessions/{session_id}/questions 202" in caplog.text
    assert key not in caplog.text
    told = [record.getMessage() for record in caplog.records if not record.name.startswith("urllib3")]
    assert session not in "".join(told)


def test_an_address_that_others_reach_needs_a_login_and_a_name():
    with pytest.raises(UsageError, match=r"web\.tokens"):
        checked(Web(host="0.0.0.0"))
    with pytest.raises(UsageError, match=r"web\.hosts"):
        checked(Web(host="0.0.0.0", tokens={"alice": TOKEN}))
    with pytest.raises(UsageError, match="16 characters"):
        checked(Web(tokens={"alice": "short"}))
    with pytest.raises(UsageError, match=r"web\.database"):
        checked(Web(workers=2))
    assert checked(Web(host="0.0.0.0", tokens={"alice": TOKEN}, hosts=("kb.example.org",)))
    assert checked(Web(host="::1"))


def test_with_tokens_everything_but_what_is_shared_needs_one(fresh_home: Path):
    tokens = {"alice": TOKEN, "bob": "b-token-of-bob-0123456789"}
    with Server(web_settings(fresh_home, web_tokens=tokens)) as server:
        stranger = Visit(server.url)
        assert stranger("GET", "/api/sessions").status_code == 401
        assert stranger("POST", "/v1/chat/completions", {}).json()["error"]["message"]
        assert stranger("GET", "/health").status_code == 200
        assert "Log in" in stranger("GET", "/", headers={"Accept": "text/html"}).text
        assert stranger("GET", "/api/options", headers={"Authorization": "Bearer wrong"}).status_code == 401

        alice = Visit(server.url, {"Authorization": f"Bearer {TOKEN}"})
        session = alice.session()
        run = alice.answered(session, "Who discovered polonium?")["id"]
        shared = alice("POST", f"/api/runs/{run}/share").json()
        assert stranger("GET", shared["path"]).status_code == 200
        told = stranger("GET", f"/api/shared/{shared['share']}")
        assert told.json()["answer"]["text"] == "Marie Curie, Pierre Curie"
        assert told.json()["answer"]["result"]["id"] == shared["share"]
        for mine in (run, session, alice("GET", f"/api/runs/{run}").json()["answer"]["run"]):
            assert mine
            assert mine not in told.text
        assert stranger("GET", f"/api/shared/{shared['share']}/csv").text.startswith("answer")

        page = requests.Session()
        wrong = page.post(f"{server.url}/login", {"token": "nobody's"}, timeout=10)
        assert (wrong.status_code, "nobody" in wrong.text) == (403, True)
        page.post(f"{server.url}/login", {"token": TOKEN}, timeout=10)
        assert page.get(f"{server.url}/api/sessions", timeout=10).json()[0]["id"] == session
        assert TOKEN not in str(page.cookies.get_dict())
        bob = Visit(server.url, {"Authorization": "Bearer b-token-of-bob-0123456789"})
        assert bob("GET", f"/api/sessions/{session}").status_code == 404


def test_a_proxys_header_is_believed_from_the_proxy_only(fresh_home: Path):
    options = {"web_proxy_header": "X-Forwarded-User"}
    with Server(web_settings(fresh_home, **options)) as server:
        alice = Visit(server.url, {"X-Forwarded-User": "alice"})
        assert alice("GET", "/api/options").json()["user"] == "alice"
        session = alice.session()
        assert Visit(server.url, {"X-Forwarded-User": "bob"})("GET", f"/api/sessions/{session}").status_code == 404
        assert Visit(server.url)("GET", "/api/options").status_code == 401
    with Server(web_settings(fresh_home, **options, web_proxy_addresses=("10.0.0.1",))) as server:
        assert Visit(server.url, {"X-Forwarded-User": "alice"})("GET", "/api/options").status_code == 401


def test_opinions_are_kept_and_exported(fresh_home: Path, monkeypatch, capsys):
    monkeypatch.setenv("KBNAV_HOME", str(fresh_home))
    opinions()
    assert capsys.readouterr() == ("", "nobody has given an opinion\n")
    with Server(web_settings(fresh_home)) as server:
        visit = Visit(server.url)
        run = visit.answered(visit.session(), "Who discovered polonium?")["id"]
        for thumb, note in (("up", ""), ("down", "first names are missing \x00")):
            assert visit("PUT", f"/api/runs/{run}/opinion", {"thumb": thumb, "note": note}).status_code == 204
        assert visit("PUT", f"/api/runs/{run}/opinion", {"thumb": "sideways"}).status_code == 422
    opinions()
    (record,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (record["thumb"], record["note"]) == ("down", "first names are missing ")
    assert (record["question"], record["kb"], record["run"]) == ("Who discovered polonium?", "mini", run)
    assert "wdt:P61" in record["answer"]["query"]


def test_a_client_that_hangs_up_stops_its_question(fresh_home: Path, held_model: Explorer):
    with Server(web_settings(fresh_home, **held_model.options())) as server:
        host, port = server.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port))
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/api/ask", json.dumps({"question": MARIE}), headers)
        assert held_model.waiting.wait(60)
        connection.close()
        until(lambda: not server.app.state.parts.store.workers())


def test_the_text2sparql_interface_gives_the_query(visit: Visit):
    question, dataset = "Who discovered polonium?", "https://example.org/elements"
    response = visit("GET", "/", params={"question": question, "dataset": dataset})
    assert response.json() == {
        "dataset": dataset,
        "question": question,
        "query": "SELECT DISTINCT ?answer WHERE { wd:Q979 wdt:P61 ?answer . }",
    }
    assert visit("GET", "/", params={"question": question, "dataset": "https://example.org/x"}).status_code == 404


def test_the_server_says_when_it_is_ready(visit: Visit):
    assert visit("GET", "/health").json() == {"status": "ok"}
    assert visit("GET", "/ready").json() == {"status": "ok", "kbs": ["mini", "demo"]}
