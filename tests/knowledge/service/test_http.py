"""The one policy of all requests, against a real server: contact, retries, refusals, cache, limits."""

import gzip
import json
import sqlite3
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbnav import __version__
from kbnav.agents.common.agent import build_agent
from kbnav.errors import (
    BadResponse,
    Banned,
    CredentialsError,
    QueryRefused,
    QueryTimeout,
    ServiceError,
    Stopped,
    StopRun,
    UsageError,
)
from kbnav.knowledge.base import Meter, counted_by
from kbnav.knowledge.http import HttpClient, redirect_target
from kbnav.knowledge.http_store import MAX_BODY, HttpCache, Rules, Throttle
from kbnav.knowledge.replies import Again, Reply, Request, retry_after
from kbnav.knowledge.wikidata.api import ActionApi, read_api
from kbnav.knowledge.wikidata.kb import WikidataKB, endpoints_of
from kbnav.models.cancellation import Cancellation
from kbnav.sessions.session import attempt
from kbnav.settings.model import Budget, Limits, Settings, load_settings
from kbnav.tools.context import Shown
from kbnav.tools.show import table_text
from tests.clock import Clock
from tests.dripping import dripping, silent
from tests.ending import running
from tests.knowledge.wikidata.serving import ROWS, Answer, Asked, Served, client, in_turn, serving
from tests.services import free_port

QUERY = "SELECT ?s WHERE { ?s ?p ?o }"
EMPTY_ROWS = Answer({"head": {"vars": ["s"]}, "results": {"bindings": []}}, type=ROWS)
Q42 = Answer({"entities": {"Q42": {"type": "item", "id": "Q42", "labels": {"en": {"value": "Douglas Adams"}}}}})
PAGE = Answer("<!DOCTYPE html><html><title>Maintenance</title><body>Soon</body></html>", type="text/html")


def test_nothing_is_written_before_the_contact_is_known_and_nothing_for_a_mirror(tmp_path):
    home = tmp_path / "home"
    with pytest.raises(CredentialsError):
        WikidataKB.by_http(Settings(home=home))
    WikidataKB.by_http(Settings(home=home, endpoints=endpoints_of("http://127.0.0.1:1"))).close()
    assert not home.exists()
    WikidataKB.by_http(Settings(home=home, contact="ops@example.org")).close()
    assert {path.name for path in home.iterdir()} == {"http-cache.sqlite", "limits.sqlite"}


@pytest.mark.parametrize("contact", ["me@example.org\r\nX-Evil: 1", "Jörg <j@example.org>"])
def test_a_contact_that_cannot_go_into_a_header_is_refused(contact):
    with pytest.raises(CredentialsError, match="ASCII"):
        HttpClient(Settings(contact=contact), cache=None, throttle=None)


def test_the_contact_and_the_version_are_in_the_user_agent_of_every_request():
    with serving(lambda asked: EMPTY_ROWS if asked.path == "/sparql" else Q42) as served:
        kb = WikidataKB.by_http(Settings(endpoints=endpoints_of(served.url), contact="ops@example.org"))
        kb.execute_query(QUERY)
        kb.labels(["Q42"])
        kb.close()
    agents = {asked.path: asked.headers["user-agent"] for asked in served.asked}
    assert set(agents) == {"/sparql", "/w/api.php"}
    assert all(agent.startswith(f"kbnav/{__version__} (ops@example.org)") for agent in agents.values())


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "17"}, b"", 17),
        ({"retry-after": "86400"}, b"", 86_400),
        ({"date": "Fri, 31 Jul 2026 23:59:00 GMT", "retry-after": "Sat, 01 Aug 2026 00:00:15 GMT"}, b"", 75),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, b"", 0),
        ({}, b"<title>Error 429 - Please retry in 9 seconds.</title>", 9),
        ({"retry-after": "soon"}, b"", None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 +9999999999999"}, b"", None),
        ({"date": "now", "retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, b"", 0),
        ({}, b"", None),
    ],
)
def test_retry_after_is_read_in_every_form(headers, body, seconds):
    assert retry_after(Reply(429, body, headers)) == seconds


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_passing_failure_is_tried_again_after_the_time_asked_for_or_after_waits_that_double(status):
    failing = Answer("no", status, "text/plain", {"Retry-After": "7"})
    with serving(in_turn(failing, failing, Q42)) as served, client(served.url) as opened:
        assert opened.kb.labels(["Q42"]) == {"Q42": "Douglas Adams"}
        assert opened.slept == [7, 7]
        assert len(served.asked) == 3
    with serving(lambda _: Answer("no", status)) as served, client(served.url, retries=4) as opened:
        with pytest.raises(ServiceError, match=str(status)):
            opened.kb.labels(["Q42"])
        assert opened.slept == [1, 2, 4, 8]


def test_a_wait_longer_than_the_longest_stops_the_run():
    with serving(lambda _: Answer("no", 429, headers={"Retry-After": "3600"})) as served, client(served.url) as opened:
        with pytest.raises(ServiceError, match="3600 s"):
            opened.kb.execute_query(QUERY)
        assert opened.slept == []


def test_a_server_of_this_machine_that_does_not_run_is_asked_once():
    with client(f"http://127.0.0.1:{free_port()}", retries=2) as opened:
        with pytest.raises(ServiceError, match="is the server running"):
            opened.kb.labels(["Q42"])
        assert opened.slept == []


def test_a_question_waits_so_long_in_all_for_what_is_not_answered_and_then_asks_no_more():
    slow = Answer("no", 503, "text/plain", {"Retry-After": "9"})
    with serving(in_turn(slow, Q42, slow, slow, slow, slow, Q42)) as served, client(served.url, retries=2) as opened:
        meter = Meter(patience=20)
        with counted_by(meter):
            assert opened.kb.labels(["Q42"]) == {"Q42": "Douglas Adams"}
            assert (meter.impatient, meter.spent) == ("", "")
            with pytest.raises(ServiceError):
                opened.kb.labels(["Q43"])
            asked = len(served.asked)
            assert asked == 4  # 9 s, then 18: no third try
            with pytest.raises(ServiceError, match="waiting for 27 s without an answer"):
                opened.kb.labels(["Q44"])
            with pytest.raises(QueryTimeout, match="no more is asked"):
                opened.kb.execute_query(QUERY)
            assert len(served.asked) == asked
            assert "Finish with what you have" in meter.spent
        assert opened.kb.labels(["Q42"])  # another question


def test_a_ban_is_heard_at_once():
    ban = Answer("You have been banned until 2030-01-01T00:00:00Z, please respect throttling", 403, "text/plain")
    with serving(lambda _: ban) as served, client(served.url) as opened:
        with pytest.raises(Banned, match="2030-01-01"):
            opened.kb.execute_query(QUERY)
        with pytest.raises(Banned, match="2030-01-01"):
            opened.kb.labels(["Q42"])
        assert len(served.asked) == 2


@pytest.mark.parametrize("body", ["", "OK", "[]", "3", "null", "[" * 100_000, '{"head": 3}', '{"results": {}}'])
def test_any_other_body_is_a_bad_response(body):
    answer = Answer(body, type=ROWS)
    with serving(lambda _: answer) as served, client(served.url) as opened, pytest.raises(BadResponse):
        opened.kb.execute_query(QUERY)


def test_a_connection_that_breaks_off_is_tried_again():
    broken = Answer('{"entities"', headers={"X-Length": "5000"})
    with serving(in_turn(broken, Q42)) as served, client(served.url) as opened:
        assert opened.kb.labels(["Q42"]) == {"Q42": "Douglas Adams"}
    broken = Answer('{"head"', type=ROWS, headers={"X-Length": "5000"})
    with serving(in_turn(broken, EMPTY_ROWS)) as served, client(served.url) as opened:
        assert opened.kb.execute_query(QUERY).rows == ()


def test_silence_beyond_the_time_limit_is_a_timeout():
    done = threading.Event()

    def silent(_):
        done.wait(10)
        return EMPTY_ROWS

    with serving(silent) as served, client(served.url, query_timeout=-9.8) as opened:
        with pytest.raises(QueryTimeout, match="simpler"):
            opened.kb.execute_query(QUERY)
        done.set()


def test_short_queries_are_got_and_long_ones_posted_unchanged():
    long = "SELECT ?s WHERE { VALUES ?s { " + "<http://example.org/x> " * 4000 + "} ?s ?p ?o } # é #"
    assert len(long) > 90_000
    with serving(lambda _: EMPTY_ROWS) as served, client(served.url) as opened:
        opened.kb.execute_query(QUERY)
        opened.kb.execute_query(long)
    assert [(asked.method, asked.params["query"]) for asked in served.asked] == [("GET", QUERY), ("POST", long)]


def test_good_answers_come_from_the_cache_until_they_are_old(tmp_path):
    clock = Clock()
    cache = HttpCache(tmp_path / "cache.sqlite", age=60, clock=clock)
    with serving(lambda asked: EMPTY_ROWS if asked.path == "/sparql" else Q42) as served:
        for _ in range(2):  # the second client finds what the first one left
            with client(served.url, cache=cache) as opened:
                assert opened.kb.execute_query(QUERY).columns == ("s",)
                assert opened.kb.labels(["Q42"]) == {"Q42": "Douglas Adams"}
        assert len(served.asked) == 2
        clock.now += 61
        with client(served.url, cache=cache) as opened:
            opened.kb.execute_query(QUERY)
        assert len(served.asked) == 3


def test_bad_answers_are_never_cached(tmp_path):
    cache = HttpCache(tmp_path / "cache.sqlite", age=60)
    lag = Answer({"error": {"code": "maxlag", "info": "Waiting", "lag": 9}})
    with serving(in_turn(lag, PAGE, Q42)) as served, client(served.url, cache=cache) as opened:
        with pytest.raises(BadResponse):
            opened.kb.labels(["Q42"])
        assert opened.slept == [5]
        assert opened.kb.labels(["Q42"]) == {"Q42": "Douglas Adams"}
        assert len(served.asked) == 3


def test_lag_that_outlasts_the_retries_stops_no_read(shared_data):
    """With the body that Wikidata sent while its query service was behind."""
    records = json.loads((shared_data / "api-errors" / "errors.json").read_text())
    (body,) = [one["body"] for one in records if one["kind"] == "mw_maxlag_queryservice"]

    def lagged(asked):
        return Answer(body, headers={"Retry-After": "5"}) if "maxlag" in asked.params else Q42

    clock = Clock()
    with serving(lagged) as served, client(served.url, retries=3) as opened:
        api = ActionApi(served.url + "/w/api.php", opened.http, clock=clock)
        assert api.brief(["Q42"], "en")["Q42"].label == "Douglas Adams"
        assert opened.slept == [5, 5, 5]
        assert [asked.params.get("maxlag") for asked in served.asked] == ["5", "5", "5", "5", None]
        # The reads that follow do not wait for it again, until it may have passed.
        clock.now = 599
        api.brief(["Q42"], "en")
        assert [asked.params.get("maxlag") for asked in served.asked[5:]] == [None]
        clock.now = 601
        api.brief(["Q42"], "en")
        assert [asked.params.get("maxlag") for asked in served.asked[6:]] == ["5", "5", "5", "5", None]


def test_a_small_answer_that_unpacks_to_a_huge_one_is_refused():
    bomb = gzip.compress(b'{"entities": {}' + b" " * (2 * MAX_BODY) + b"}", 1)
    packed = Answer(bomb, headers={"Content-Encoding": "gzip"})
    with serving(lambda _: packed) as served, client(served.url, retries=0) as opened:
        with pytest.raises(BadResponse, match="more than 64 MiB"):
            opened.kb.get_entry("Q42")
        with pytest.raises(QueryRefused, match="larger than 64 MiB"):
            opened.kb.execute_query("SELECT * { ?s ?p ?o }")


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"HTTP/1.1 2"])
def test_a_service_that_drips_is_given_up_and_hung_up_on(first):
    hung_up = threading.Event()
    with dripping(first, hung_up) as url, client(url, retries=0, request_timeout=0.2) as opened:
        with pytest.raises(ServiceError, match=r"not whole after 0\.4 s"):
            opened.kb.get_entry("Q42")
        assert hung_up.wait(1)


def test_a_password_that_a_wiki_echoes_is_left_out():
    asked = Request("api", "", {"action": "login", "lgpassword": "a-nevertobeleft"}, post=True)
    echo = Answer(b'{"login": {"reason": "not a-nevertobeleft"}}')
    with serving(lambda _: echo) as served:
        http = HttpClient(Settings(), cache=None, throttle=None, urls=[served.url])
        reply = http.fetch(replace(asked, url=served.url), lambda reply: reply)
        http.close()
    assert reply.body == b'{"login": {"reason": "not [hidden]"}}'


def test_after_thirty_errors_the_query_service_is_asked_no_more_within_the_minute(tmp_path):
    clock = Clock()
    throttle = Throttle(tmp_path / "limits.sqlite", clock=clock, sleep=clock.sleep)
    moments = []

    def failing(_):
        moments.append(clock.now)
        return Answer("no", 400, "text/plain")

    with serving(failing) as served, client(served.url, throttle=throttle) as opened:
        for _ in range(31):
            with pytest.raises(QueryRefused):
                opened.kb.execute_query(QUERY)
    assert moments[29] < 60 <= moments[30]


TOKEN = "Bearer nevertobeleft"
PIECES = [
    "http://", "https://", "//", "/", "\\", "@", "#", "?", ":", "%5C", "%40", "%2F", "\t", " ", "\x00", ".", ";",
    "OWN", "OTHER", "caught", "user",
]  # fmt: skip


class Pair:
    """A service that redirects to whatever it is told, and another that must hear nothing."""

    def __init__(self, own: Served, other: Served) -> None:
        self.own, self.other, self.location = own, other, "/"
        self.http = HttpClient(
            Settings(limits=Limits(retries=0, request_timeout=5)),
            cache=None,
            throttle=None,
            urls=[own.url],
            authorization=TOKEN,
        )

    def answer(self, asked: Asked) -> Answer:
        return Answer("", 302, headers={"Location": self.location}) if asked.path == "/start" else Answer("here")

    def ask(self, location: str) -> Reply | None:
        self.location = location.replace("OWN", self.own.url[7:]).replace("OTHER", self.other.url[7:])
        self.own.asked.clear()
        request = Request("sparql", f"{self.own.url}/start", {"query": "ASK {}"})
        try:
            return self.http.fetch(request, lambda reply: reply)
        except BadResponse:
            return None


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    made: list[Pair] = []
    with serving(lambda asked: made[0].answer(asked)) as own, serving(lambda _: Answer("caught")) as other:
        made.append(Pair(own, other))
        yield made[0]
        made[0].http.close()


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join))
@example("http://OTHER\\@OWN/caught")
@example("http://OWN@OTHER/")
@example("//OTHER/")
@example("\\\\OTHER/")
@example("http:\\\\OTHER/")
@example("http://OTHER#@OWN/")
@example("http://OTHER?@OWN/")
@example("http://OWNhttp:")
def test_no_address_leads_to_another_place(pair, location):
    if any(ord(one) < 32 for one in location):
        location = location.replace("\x00", "%00").replace("\t", "%09")  # no header can hold them
    pair.ask(location)
    assert pair.other.asked == []
    assert all(asked.headers["host"] == pair.own.url[7:] for asked in pair.own.asked)


def test_credentials_stay_with_a_redirect_within_the_place(pair):
    reply = pair.ask("/moved?x=1")
    assert reply.body == b"here"
    assert [asked.headers.get("authorization") for asked in pair.own.asked] == [TOKEN, TOKEN]


@pytest.mark.parametrize(
    "location",
    ["http://kb.example\\@evil.example/", "http://a@kb.example/", "/a b", "/a\x00", "https://kb.example/x", "http://kb.example:81/",
     "http://KB.example.evil.example/", "ftp://kb.example/", "///evil.example/", "http://[::1"],
)  # fmt: skip
def test_addresses_that_may_hide_another_are_refused(location):
    with pytest.raises(BadResponse) as caught:
        redirect_target("http://kb.example/sparql", location)
    assert "\n" not in str(caught.value)


def test_the_same_place_is_known_in_any_writing():
    assert redirect_target("http://kb.example/a", "HTTP://KB.EXAMPLE:80/b?c") == "http://kb.example:80/b?c"
    assert redirect_target("http://kb.example/a/b", "../c") == "http://kb.example/c"


@pytest.mark.parametrize(("service", "answers"), [("api", 0), ("api", 2), ("vector", 0), ("sparql", 0)])
def test_a_request_is_hung_up_on_when_its_run_is_stopped(service, answers):
    with silent(answers) as (url, asked, hung_up):
        client = HttpClient(Settings(), cache=None, throttle=None, urls=[url])
        request = Request(service, url, {"query": "ASK {}"})  # type: ignore[arg-type]
        for _ in range(answers):
            assert client.fetch(request, lambda reply: reply.status) == 200
        cancellation = Cancellation()
        ended: list[BaseException] = []

        def ask() -> None:
            try:
                cancellation.run_here(lambda: client.fetch(request, lambda reply: reply.status))
            except Stopped as error:
                ended.append(error)

        with running(ask, cancellation.stop):
            assert asked.wait(60)
        assert hung_up.wait(60)
        assert [type(error) for error in ended] == [Stopped]
        client.close()


@pytest.mark.timeout(5)
def test_a_wait_for_a_turn_or_for_the_next_try_ends_with_its_run(tmp_path):
    def again(reply: Reply) -> None:
        raise Again(ServiceError("busy"), 60)

    full = Throttle(tmp_path / "limits.sqlite").slot("a", Rules(requests=0))
    with serving(lambda _: Q42) as served:
        http = HttpClient(Settings(), cache=None, throttle=None, urls=[served.url])
        for wait in (full.__enter__, lambda: http.fetch(Request("api", served.url, {}), again)):
            cancellation = Cancellation()
            threading.Timer(0.2, cancellation.stop).start()
            with pytest.raises(Stopped):
                cancellation.run_here(wait)
        http.close()


def test_a_connection_that_was_given_back_is_not_hung_up_on():
    with silent(2) as (url, _, _):
        client = HttpClient(Settings(), cache=None, throttle=None, urls=[url])
        request = Request("api", url, {})
        cancellation = Cancellation()
        assert cancellation.run_here(lambda: client.fetch(request, lambda reply: reply.status)) == 200
        cancellation.stop()
        assert client.fetch(request, lambda reply: reply.status) == 200
        client.close()


SELECT = "SELECT ?s WHERE { ?s ?p ?o }"
LONG = f"SELECT ?s {{ ?s ?p ?o FILTER(?o != '{'x' * 3000}') }}"
ONE_ROW = {"head": {"vars": ["s"]}, "results": {"bindings": [{"s": {"type": "literal", "value": "a"}}]}}
FOUND = Answer(ONE_ROW, type=ROWS)


def failure(answer: Callable[[Asked], Answer], query: str = SELECT) -> StopRun:
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
        opened.kb.labels(["Q42"]) if api else opened.kb.execute_query(SELECT)
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
        with running(lambda: server.serve_forever(0.02), server.shutdown):
            yield f"https://127.0.0.1:{server.server_address[1]}"


def test_a_certificate_that_fails_is_told_at_once_and_not_tried_again(tmp_path):
    with _over_tls(tmp_path) as url, client(url, retries=3) as opened:
        for ask in (lambda: opened.kb.execute_query(SELECT), lambda: opened.kb.labels(["Q42"])):
            with pytest.raises(ServiceError, match="cannot be trusted") as caught:
                ask()
            assert "REQUESTS_CA_BUNDLE" in str(caught.value)
        assert opened.slept == []


def test_an_address_with_a_password_is_refused_before_it_is_kept_and_not_shown():
    wrong = {"sparql": "https://me:hidden@host/sparql"}
    for read in (load_settings, Settings):
        with pytest.raises(UsageError, match="name and password") as caught:
            read(endpoints=wrong)  # type: ignore[operator]
        assert "hidden" not in str(caught.value)
    assert Settings(endpoints=endpoints_of("https://host/a@b")).endpoints.sparql == "https://host/a@b/sparql"


# Virtuoso's replies as its edition 7.2.5 gave them on a loopback port; QLever's as its clients read them.
S1TAT = {
    "X-SQL-State": "S1TAT",
    "X-SQL-Message": "RC...: Returning incomplete results, query interrupted by result timeout.",
}


@pytest.mark.parametrize(
    ("answer", "query", "said"),
    [
        (Answer(ONE_ROW, type=ROWS, headers={"X-SPARQL-MaxRows": "10000"}), SELECT, "at most 10,000 rows"),
        (Answer(ONE_ROW, type=ROWS, headers={"X-SPARQL-MaxRows": "10000"}), f"{SELECT} LIMIT 10000", ""),
        (Answer(ONE_ROW, type=ROWS, headers=S1TAT), SELECT, "time limit"),
        (Answer(ONE_ROW, 206, ROWS), SELECT, "time limit"),
        (Answer({**ONE_ROW, "meta": {"query-time-ms": 3, "result-size-total": 7}}, type=ROWS), SELECT, "1 of 7 rows"),
        (Answer({**ONE_ROW, "meta": {"query-time-ms": 3, "result-size-total": 7}}, type=ROWS), f"{SELECT} LIMIT 1", ""),
        (Answer({**ONE_ROW, "meta": {"query-time-ms": 3, "result-size-total": 1}}, type=ROWS), SELECT, ""),
        (FOUND, SELECT, ""),
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


def throttle(path: Path, clock: Clock) -> Throttle:
    return Throttle(path / "limits.sqlite", clock=clock, sleep=clock.sleep)


def test_sixty_seconds_of_queries_fit_into_a_minute_and_no_more(tmp_path):
    clock = Clock(1000.0)
    limits = throttle(tmp_path, clock)
    rules = Rules(seconds=60)
    started = []
    for _ in range(4):
        with limits.slot("sparql", rules):
            started.append(clock.now - 1000)
            clock.now += 25
    # 25 + 25 + 25 s run back to back (after 50 s there was still room); then 75 - 60 s, all of the window, are used.
    assert started[:3] == [0, 25, 50]
    assert started[3] == pytest.approx(75, abs=0.5)
    with limits.slot("sparql", Rules(seconds=30)):
        # The last 60 s hold 60 s of queries; 30 s of them must pass out of the window first.
        assert clock.now - 1000 == pytest.approx(130, abs=0.5)


def test_requests_and_errors_are_counted_apart_and_by_service(tmp_path):
    clock = Clock(1000.0)
    limits = throttle(tmp_path, clock)
    for _ in range(3):
        with limits.slot("a", Rules(requests=3)):
            pass
    with limits.slot("a", Rules(errors=1)), limits.slot("b", Rules(requests=3)):
        assert clock.now == 1000
    with limits.slot("a", Rules(requests=3)):
        assert clock.now >= 1060


COUNTS = """
import sys
from pathlib import Path
from kbnav.knowledge.http_store import Rules, Throttle
limits = Throttle(Path(sys.argv[1]))
for _ in range(20):
    with limits.slot("a", Rules(requests=10_000)):
        pass
"""


def test_processes_count_into_one_file(tmp_path):
    path = tmp_path / "limits.sqlite"
    workers = [subprocess.Popen([sys.executable, "-c", COUNTS, path]) for _ in range(2)]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    database = sqlite3.connect(path)
    assert database.execute("SELECT count(*), count(ended) FROM request").fetchone() == (40, 40)
    database.close()


def test_a_request_whose_process_died_is_forgotten(tmp_path):
    clock = Clock(1000.0)
    limits = throttle(tmp_path, clock)
    dead = limits.slot("a", Rules(), longest=70)
    dead.__enter__()
    clock.now += 65
    with limits.slot("a", Rules(seconds=60)):
        # It counts until 1070; from then on less than 60 s of it are within the last minute.
        assert clock.now == pytest.approx(1070, abs=0.5)
    clock.now = 1131
    with limits.slot("a", Rules(seconds=0.1)):
        assert clock.now == 1131
    dead.__exit__(None, None, None)


@pytest.mark.parametrize("make", [Throttle, lambda path: HttpCache(path, age=1)])
def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path, make):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="KBNAV_HOME"):
        make(tmp_path / "file" / "state.sqlite")


def test_the_cache_keeps_its_size_by_dropping_the_oldest(tmp_path):
    clock = Clock()
    cache = HttpCache(tmp_path / "cache.sqlite", age=1e9, max_bytes=20_000, clock=clock)
    body = bytes(range(256)) * 4  # compresses to a few hundred bytes
    for number in range(256):
        clock.now += 1
        cache.put(str(number), "text/plain", number.to_bytes(2, "big") + body)
    database = sqlite3.connect(tmp_path / "cache.sqlite")
    size, count = database.execute("SELECT sum(size), count(*) FROM answer").fetchone()
    database.close()
    assert size <= 20_000
    assert 0 < count < 256
    assert cache.get("255") == ("text/plain", (255).to_bytes(2, "big") + body)
    assert cache.get("0") is None


WIKI = "https://www.wikidata.org/w/api.php"


class Counted(HttpClient):
    """Sends nothing: what is of interest is when."""

    def _send(self, request):
        self.sent.append((request.url, self._clock.now))
        return Reply(200, b"{}", {"content-type": "application/json"}, request.url)


def counted(tmp_path, clock, **limits) -> Counted:
    settings = Settings(contact="a@example.org", limits=Limits(**limits), home=tmp_path)
    client = Counted(settings, cache=None, throttle=throttle(tmp_path, clock))
    client.sent, client._clock = [], clock
    return client


def ask(client: HttpClient, url: str, times: int = 1) -> None:
    for _ in range(times):
        client.fetch(Request("api", url, {"action": "query"}), read_api)


def test_requests_to_all_wikis_of_wikimedia_count_together(tmp_path):
    clock = Clock(1000.0)
    client = counted(tmp_path, clock, api_requests_per_minute=5)
    ask(client, WIKI, 3)
    ask(client, "https://en.wikipedia.org/w/api.php", 2)
    assert clock.now == 1000
    ask(client, WIKI)
    assert clock.now >= 1060
    # Another site counts for itself.
    ask(client, "https://kb.example/w/api.php", 5)
    assert clock.now < 1062


def test_a_token_goes_to_its_own_api_alone_and_is_never_saved(tmp_path):
    with serving(lambda _: Answer({"entities": {}})) as own, serving(lambda _: Answer({})) as other:
        settings = Settings(endpoints=endpoints_of(own.url), access_token="very-nevertobeleft", home=tmp_path)
        client = HttpClient(settings, cache=None, throttle=None, api_token="very-nevertobeleft")
        ask(client, f"{own.url}/w/api.php")
        ask(client, f"{other.url}/w/api.php")
    assert own.asked[0].headers["authorization"] == "Bearer very-nevertobeleft"
    assert "authorization" not in other.asked[0].headers
    assert "very-nevertobeleft" not in json.dumps(settings.public())


def test_a_token_that_is_refused_stops_the_run_and_says_which_setting(tmp_path):
    error = {"error": {"code": "mwoauth-invalid-authorization", "info": "The authorization headers are not valid"}}
    with serving(lambda _: Answer(error)) as served:
        settings = Settings(endpoints=endpoints_of(served.url), home=tmp_path)
        client = HttpClient(settings, cache=None, throttle=None, api_token="old")
        with pytest.raises(CredentialsError, match="access_token"):
            ask(client, f"{served.url}/w/api.php")


def test_beyond_its_budget_of_requests_a_question_looks_nothing_up(mini_kb, mini_home):
    settings = Settings(home=mini_home, budget=Budget(requests=1))
    run = attempt(build_agent(mini_kb, settings), "Who discovered polonium?").run
    refused = [step for step in run.steps if "used up" in step.observation]
    assert refused
    assert not any(step.ok for step in refused)
    assert (run.outcome.table, run.outcome.understood) == (None, None)
    assert "(budget.requests) are used up" in run.outcome.note
    assert "finish" not in run.outcome.note
