"""Who may see what, and from where: owners, other sites, tokens, proxies, secrets."""

import json

import pytest
from pydantic import SecretStr

from kbnav.apps.web.auth import checked
from kbnav.errors import UsageError
from kbnav.settings.model import Settings, Web
from tests.apps.web.parts import MARIE, Server, Visit, browse, web_settings
from tests.models.stub import ModelStub, failure

TOKEN = "a-token-of-alice-nevertobeleft"


def test_every_answer_carries_a_strict_policy(visit):
    for path in ("/", "/api", "/static/app.js", "/nothing", "/api/options"):
        headers = visit("GET", path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_refused_key_reaches_neither_page_nor_log(fresh_home, caplog):
    key = "sk-a-nevertobeleft-1234567890"
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
        checked(Settings(web=Web(host="0.0.0.0")))
    with pytest.raises(UsageError, match=r"web\.hosts"):
        checked(Settings(web=Web(host="0.0.0.0", tokens={"alice": TOKEN})))
    with pytest.raises(UsageError, match="16 characters"):
        checked(Settings(web=Web(tokens={"alice": "short"})))
    with pytest.raises(UsageError, match="set database"):
        checked(Settings(web=Web(workers=2)))
    assert checked(Settings(web=Web(host="0.0.0.0", tokens={"alice": TOKEN}, hosts=("kb.example.org",))))
    assert checked(Settings(web=Web(host="::1")))


def test_with_tokens_everything_but_what_is_shared_needs_one(fresh_home):
    tokens = {"alice": TOKEN, "bob": "b-token-of-bob-nevertobeleft"}
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
        assert stranger("GET", f"/api/shared/{shared['share']}/csv").text.startswith("\ufeffanswer")

        page = browse(server.url)
        wrong = page.post(f"{server.url}/login", {"token": "nobody's"}, timeout=10)
        assert (wrong.status_code, "nobody" in wrong.text) == (403, True)
        page.post(f"{server.url}/login", {"token": TOKEN}, timeout=10)
        assert page.get(f"{server.url}/api/sessions", timeout=10).json()[0]["id"] == session
        assert TOKEN not in str(page.cookies.get_dict())
        bob = Visit(server.url, {"Authorization": "Bearer b-token-of-bob-nevertobeleft"})
        assert bob("GET", f"/api/sessions/{session}").status_code == 404


def test_a_proxys_header_is_believed_from_the_proxy_only(fresh_home):
    options = {"web_proxy_header": "X-Forwarded-User"}
    with Server(web_settings(fresh_home, **options)) as server:
        alice = Visit(server.url, {"X-Forwarded-User": "alice"})
        assert alice("GET", "/api/options").json()["user"] == "alice"
        session = alice.session()
        assert Visit(server.url, {"X-Forwarded-User": "bob"})("GET", f"/api/sessions/{session}").status_code == 404
        assert Visit(server.url)("GET", "/api/options").status_code == 401
    with Server(web_settings(fresh_home, **options, web_proxy_addresses=("10.0.0.1",))) as server:
        assert Visit(server.url, {"X-Forwarded-User": "alice"})("GET", "/api/options").status_code == 401
