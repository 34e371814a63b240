"""The action API's limits: requests a minute over all wikis, a token that raises them, a budget for each question."""

import json

import pytest

from kbnav.agents.common.agent import build_agent
from kbnav.errors import CredentialsError
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.http_store import Throttle
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.replies import Request
from kbnav.knowledge.wikidata.api import read_api
from kbnav.knowledge.wikidata.kb import endpoints_of
from kbnav.runs.trajectory import to_json
from kbnav.sessions.session import attempt
from kbnav.settings.model import Budget, Limits, Settings
from tests.knowledge.service.test_limits import Clock
from tests.knowledge.wikidata.serving import Answer, serving

WIKI = "https://www.wikidata.org/w/api.php"


class Counted(HttpClient):
    """Sends nothing: what is of interest is when."""

    def _send(self, request):
        self.sent.append((request.url, self._clock.now))
        from kbnav.knowledge.replies import Reply

        return Reply(200, b"{}", {"content-type": "application/json"}, request.url)


def counted(tmp_path, clock, **limits) -> Counted:
    throttle = Throttle(tmp_path / "limits.sqlite", clock=clock, sleep=clock.sleep)
    settings = Settings(contact="a@example.org", limits=Limits(**limits), home=tmp_path)
    client = Counted(settings, cache=None, throttle=throttle)
    client.sent, client._clock = [], clock
    return client


def ask(client: HttpClient, url: str, times: int = 1) -> None:
    for _ in range(times):
        client.fetch(Request("api", url, {"action": "query"}), read_api)


def test_requests_to_all_wikis_of_wikimedia_count_together(tmp_path):
    clock = Clock()
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


def test_the_token_of_the_settings_is_used_and_no_run_holds_it(mini_home, tmp_path):
    settings = Settings(kb="mini", home=mini_home, access_token="very-nevertobeleft")
    with open_kb(settings) as kb:
        run = attempt(build_agent(kb, settings), "Who discovered polonium?").run
    assert "very-nevertobeleft" not in to_json(run)


def test_beyond_its_budget_of_requests_a_question_looks_nothing_up(mini_kb, mini_home):
    settings = Settings(home=mini_home, budget=Budget(requests=1))
    run = attempt(build_agent(mini_kb, settings), "Who discovered polonium?").run
    refused = [step for step in run.steps if "used up" in step.observation]
    assert refused
    assert not any(step.ok for step in refused)
    assert run.outcome.table is None
