"""The one policy of all requests, against a real server: contact, retries, refusals, cache, limits."""

import gzip
import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from kbnav import __version__
from kbnav.errors import (
    BadResponse,
    Banned,
    CredentialsError,
    QueryRefused,
    QueryTimeout,
    ServiceError,
)
from kbnav.knowledge.base import Meter
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.http_store import MAX_BODY, HttpCache, Throttle
from kbnav.knowledge.replies import Reply, Request, retry_after
from kbnav.knowledge.wikidata.api import ActionApi
from kbnav.knowledge.wikidata.kb import WikidataKB, endpoints_of
from kbnav.settings.model import Settings
from tests.dripping import dripping
from tests.knowledge.wikidata.serving import ROWS, Answer, client, in_turn, serving
from tests.services import free_port

QUERY = "SELECT ?s WHERE { ?s ?p ?o }"
EMPTY_ROWS = Answer({"head": {"vars": ["s"]}, "results": {"bindings": []}}, type=ROWS)
Q42 = Answer({"entities": {"Q42": {"type": "item", "id": "Q42", "labels": {"en": {"value": "Douglas Adams"}}}}})
PAGE = Answer("<!DOCTYPE html><html><title>Maintenance</title><body>Soon</body></html>", type="text/html")


def test_live_use_refuses_to_start_without_a_contact():
    with pytest.raises(CredentialsError, match=r"www\.wikidata\.org|query\.wikidata\.org") as caught:
        WikidataKB.by_http(Settings())
    assert "KBNAV_CONTACT" in str(caught.value)
    assert "\n" not in str(caught.value)


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
        settings = Settings(endpoints=endpoints_of(served.url), contact="ops@example.org")
        kb = WikidataKB.by_http(settings)
        kb.execute_query(QUERY)
        kb.labels(["Q42"])
        kb.close()
    agents = {asked.path: asked.headers["user-agent"] for asked in served.asked}
    assert set(agents) == {"/sparql", "/w/api.php"}
    assert all(agent.startswith(f"kbnav/{__version__} (ops@example.org)") for agent in agents.values())


def test_retry_after_is_read_in_every_form():
    now = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
    date = format_datetime(now + timedelta(seconds=75), usegmt=True)
    assert retry_after(Reply(429, b"", {"retry-after": "17"})) == 17
    assert retry_after(Reply(429, b"", {"retry-after": date}), now=now) == 75
    assert retry_after(Reply(429, b"", {"retry-after": format_datetime(now, usegmt=True)}), now=now) == 0
    assert retry_after(Reply(429, b"<title>Error 429 - Please retry in 9 seconds.</title>")) == 9
    assert retry_after(Reply(429, b"", {"retry-after": "soon"})) is None
    assert retry_after(Reply(429, b"")) is None


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
        kb = opened.kb.metered(meter)
        assert kb.labels(["Q42"]) == {"Q42": "Douglas Adams"}
        assert (meter.impatient, meter.spent) == ("", "")
        with pytest.raises(ServiceError):
            kb.labels(["Q43"])
        asked = len(served.asked)
        assert asked == 4  # 9 s, then 18: no third try
        with pytest.raises(ServiceError, match="waiting for 27 s without an answer"):
            kb.labels(["Q44"])
        with pytest.raises(QueryTimeout, match="no more is asked"):
            kb.execute_query(QUERY)
        assert len(served.asked) == asked
        assert "Finish with what you have" in meter.spent
        assert opened.kb.metered(Meter(patience=20)).labels(["Q42"])  # another question


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
    now = [1000.0]
    cache = HttpCache(tmp_path / "cache.sqlite", age=60, clock=lambda: now[0])
    with serving(lambda asked: EMPTY_ROWS if asked.path == "/sparql" else Q42) as served:
        for _ in range(2):  # the second client finds what the first one left
            with client(served.url, cache=cache) as opened:
                assert opened.kb.execute_query(QUERY).columns == ("s",)
                assert opened.kb.labels(["Q42"]) == {"Q42": "Douglas Adams"}
        assert len(served.asked) == 2
        now[0] += 61
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

    now = [0.0]
    with serving(lagged) as served, client(served.url, retries=3) as opened:
        api = ActionApi(served.url + "/w/api.php", opened.http, clock=lambda: now[0])
        assert api.brief(["Q42"], "en")["Q42"].label == "Douglas Adams"
        assert opened.slept == [5, 5, 5]
        assert [asked.params.get("maxlag") for asked in served.asked] == ["5", "5", "5", "5", None]
        # The reads that follow do not wait for it again, until it may have passed.
        now[0] = 599
        api.brief(["Q42"], "en")
        assert [asked.params.get("maxlag") for asked in served.asked[5:]] == [None]
        now[0] = 601
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
def test_a_service_that_drips_is_given_up(first):
    expected = pytest.raises(ServiceError, match=r"not whole after 0\.4 s")
    with dripping(first) as url, client(url, retries=0, request_timeout=0.2) as opened, expected:
        opened.kb.get_entry("Q42")


def test_a_password_that_a_wiki_echoes_is_left_out():
    asked = Request("api", "", {"action": "login", "lgpassword": "a-nevertobeleft"}, post=True)
    echo = Answer(b'{"login": {"reason": "not a-nevertobeleft"}}')
    with serving(lambda _: echo) as served:
        http = HttpClient(Settings(), cache=None, throttle=None, urls=[served.url])
        reply = http.fetch(replace(asked, url=served.url), lambda reply: reply)
        http.close()
    assert reply.body == b'{"login": {"reason": "not [hidden]"}}'


def test_after_thirty_errors_the_query_service_is_asked_no_more_within_the_minute(tmp_path):
    now = [0.0]
    throttle = Throttle(
        tmp_path / "limits.sqlite", clock=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s)
    )
    moments = []

    def failing(_):
        moments.append(now[0])
        return Answer("no", 400, "text/plain")

    with serving(failing) as served, client(served.url, throttle=throttle) as opened:
        for _ in range(31):
            with pytest.raises(QueryRefused):
                opened.kb.execute_query(QUERY)
    assert moments[29] < 60 <= moments[30]
