"""Who is let in, what pages and programs are told that are not, and how one logs in and out."""

import json

import pytest
import requests
from pydantic import SecretStr

from kbnav.apps.web.auth import checked
from kbnav.apps.web.server import address_of
from kbnav.errors import UsageError
from kbnav.settings.model import Settings, Web
from tests.apps.web.parts import MARIE, Server, Visit, web_settings
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
        assert stub.headers[0]["authorization"] == f"Bearer {key}"
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
    named = checked(Settings(web=Web(host="0.0.0.0", tokens={"alice": TOKEN}, hosts=("kb.example.org",))))
    assert address_of(named, 8080) == "http://kb.example.org:8080/"
    assert address_of(checked(Settings(web=Web(host="::1"))), 80) == "http://[::1]:80/"


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

        page = requests.Session()
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


@pytest.mark.parametrize(
    ("path", "headers", "status", "said"),
    [
        ("/s/none", {}, 404, "<h2>Diese Sitzung gibt es nicht</h2>"),
        ("/share/none", {}, 404, "<h2>Hier wird nichts geteilt</h2>"),
        ("/entry/demo/none", {}, 404, "<h2>Die Wissensbasis hat keinen solchen Eintrag</h2>"),
        ("/nowhere", {}, 404, "<h2>Diese Seite gibt es nicht</h2>"),
        ("/api/results/none/csv", {}, 404, "<h2>Diese Seite gibt es nicht</h2>"),
        ("/api/sessions", {"Host": "elsewhere.example"}, 421, "this name is not served here"),
        ("/api/sessions", {"Sec-Fetch-Site": "cross-site"}, 403, "requests from other sites are refused"),
    ],
)
def test_people_get_a_page_in_their_language_and_programs_json_from_the_gate_too(visit, path, headers, status, said):
    people = visit("GET", path, headers={"Accept": "text/html,*/*;q=0.8", "Accept-Language": "de", **headers})
    assert (people.status_code, people.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert said in people.text
    assert "default-src 'none'" in people.headers["content-security-policy"]
    programs = visit("GET", path, headers=headers)
    assert (programs.status_code, programs.headers["content-type"]) == (status, "application/json")
    assert programs.json()["detail"]


def test_what_goes_wrong_is_told_on_a_page_without_markup_of_others(visit):
    told = visit("GET", "/?question=<b>x</b>&dataset=<b>nowhere</b>", headers={"Accept": "text/html"})
    assert told.status_code == 404
    assert "&lt;b&gt;nowhere&lt;/b&gt;" in told.text
    assert "<b>" not in told.text


def test_one_logs_in_and_out_by_the_forms_of_the_page(page, fresh_home):
    with Server(web_settings(fresh_home, web_tokens={"ada": "0123456789abcdef"})) as server:
        page.goto(server.url)
        page.fill("#token", "0123456789abcdef")
        page.press("#token", "Enter")
        page.wait_for_selector(".welcome")
        page.click("#more > summary")
        page.click("text=Log out ada")
        page.wait_for_selector("#token")
        assert page.goto(server.url).url == f"{server.url}/login"
