"""What Prometheus reads, and what the log says for programs."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kbnav.apps.web.metrics import open_metrics
from kbnav.apps.web.server import JsonFormatter
from kbnav.errors import UsageError
from kbnav.settings.model import Price, Web
from tests.apps.web.parts import MARIE, Explorer, Server, Visit, browse, until, web_settings

TOKEN = "prometheus-nevertobeleft"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def read(url: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The numbers at ``/metrics`` by name and labels."""
    response = browse(url).get(f"{url}/metrics", headers=BEARER, timeout=60)
    assert response.status_code == 200, response.text
    families = text_string_to_metric_families(response.text)
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def value(url: str, name: str, **labels: str) -> float:
    return read(url).get((name, frozenset(labels.items())), 0.0)


def test_questions_tokens_dollars_and_requests_are_counted(fresh_home: Path):
    with Explorer() as model:
        settings = web_settings(
            fresh_home, web_metrics_token=TOKEN, prices={"stub": Price(prompt=1, completion=2)}, **model.options()
        )
        with Server(settings) as server:
            visit = Visit(server.url)
            run = visit.answered(visit.session(), MARIE)
            labels = {"kb": "mini", "system": "spinach", "model": "stub"}
            assert run["status"] == "done"
            assert value(server.url, "kbnav_questions_total", **labels, status="done") == 1
            assert value(server.url, "kbnav_question_seconds_count", **labels) == 1
            calls = run["answer"]["model_calls"]
            assert calls >= 4
            assert value(server.url, "kbnav_model_calls_total", model="stub") == calls
            used = {kind: value(server.url, "kbnav_model_tokens_total", model="stub", kind=kind) for kind in (
                "prompt", "completion"
            )}  # fmt: skip
            assert used["prompt"] > 0
            paid = (used["prompt"] + 2 * used["completion"]) / 1e6
            assert value(server.url, "kbnav_model_dollars_total", model="stub") == pytest.approx(paid)
            asked = {"method": "POST", "route": "/api/sessions/{session_id}/questions", "status": "202"}
            assert value(server.url, "kbnav_http_requests_total", **asked) == 1
            assert value(server.url, "kbnav_kb_in_service", kb="mini") == 1
            assert MARIE not in browse(server.url).get(f"{server.url}/metrics", headers=BEARER, timeout=60).text


def test_who_waits_and_who_is_answered_is_shown(fresh_home: Path):
    with (
        Explorer(held=1) as model,
        Server(
            web_settings(fresh_home, web_metrics_token=TOKEN, web_runs=1, web_runs_per_user=3, **model.options())
        ) as server,
    ):
        visit = Visit(server.url)
        runs = [visit.ask(visit.session(), MARIE) for _ in range(3)]
        assert visit("POST", f"/api/sessions/{visit.session()}/questions", {"question": MARIE}).status_code == 429
        limited = {"method": "POST", "route": "/api/sessions/{session_id}/questions", "status": "429"}
        assert value(server.url, "kbnav_http_requests_total", **limited) == 1
        model.holding.acquire(timeout=60)
        assert value(server.url, "kbnav_questions_waiting") == 2
        assert value(server.url, "kbnav_questions_at_work") == 1
        model.go_on.set()
        for run in runs:
            visit.ended(run["id"])
        assert value(server.url, "kbnav_questions_waiting") == 0


def test_metrics_need_their_own_token(server: Server, fresh_home: Path):
    assert browse(server.url).get(f"{server.url}/metrics", headers=BEARER, timeout=60).status_code == 404
    users = {"alice": "alice-has-nevertobeleft"}
    with Server(web_settings(fresh_home, web_metrics_token=TOKEN, web_tokens=users)) as guarded:
        url = f"{guarded.url}/metrics"
        assert browse(guarded.url).get(url, headers=BEARER, timeout=60).status_code == 200
        assert browse(guarded.url).get(f"{guarded.url}/api/options", headers=BEARER, timeout=60).status_code == 401
        said = [
            browse(guarded.url).get(url, headers={"Authorization": f"Bearer {token}"}, timeout=60).status_code
            for token in ("", *users.values(), *(["wrong"] * 5))
        ]
        assert set(said[:3]) == {401}
        assert said[-1] == 429, "wrong tokens are slowed"


def test_a_token_that_is_short_is_refused():
    with pytest.raises(UsageError, match="metrics_token is shorter than 16"):
        open_metrics(Web(metrics_token="short"))


def test_the_log_has_json_objects(server: Server, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, logger="kbnav.web"):
        browse(server.url).get(f"{server.url}/ready?secret=1", timeout=60)
        until(lambda: any("/ready" in one.getMessage() for one in caplog.records))  # told once the reply is sent
    (record,) = [one for one in caplog.records if "/ready" in one.getMessage()]
    said = json.loads(JsonFormatter().format(record))
    assert {"method": "GET", "route": "/ready", "status": 200, "level": "INFO"}.items() <= said.items()
    assert said["ms"] >= 0
    assert "secret" not in json.dumps(said)
