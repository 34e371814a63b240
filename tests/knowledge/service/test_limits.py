"""The client-side twin of a service's limits, those of the action API among them."""

import json
import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from kbnav.agents.common.agent import build_agent
from kbnav.errors import CredentialsError, UsageError
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.http_store import HttpCache, Rules, Throttle
from kbnav.knowledge.replies import Request
from kbnav.knowledge.wikidata.api import read_api
from kbnav.knowledge.wikidata.kb import endpoints_of
from kbnav.sessions.session import attempt
from kbnav.settings.model import Budget, Limits, Settings
from tests.clock import Clock
from tests.knowledge.wikidata.serving import Answer, serving


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


def _use(path: str, times: int) -> None:
    limits = Throttle(Path(path))
    for _ in range(times):
        with limits.slot("a", Rules(requests=10_000)):
            pass


def test_processes_count_into_one_file(tmp_path):
    path = tmp_path / "limits.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_use, args=(str(path), 20)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
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
        from kbnav.knowledge.replies import Reply

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
    assert run.outcome.table is None
