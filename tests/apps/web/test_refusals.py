"""What people and programs are told where something is missing, and the door that people come in by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.apps.web.parts import Server, Visit, web_settings

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/s/none", "Diese Sitzung gibt es nicht"),
        ("/share/none", "Hier wird nichts geteilt"),
        ("/entry/demo/none", "Die Wissensbasis hat keinen solchen Eintrag"),
        ("/nowhere", "Diese Seite gibt es nicht"),
        ("/api/results/none/csv", "Diese Seite gibt es nicht"),
    ],
)
def test_people_get_a_page_in_their_language_and_programs_json(visit: Visit, path: str, said: str):
    people = visit("GET", path, headers={"Accept": "text/html,*/*;q=0.8", "Accept-Language": "de"})
    assert (people.status_code, people.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert f"<h2>{said}</h2>" in people.text
    programs = visit("GET", path)
    assert (programs.status_code, programs.headers["content-type"]) == (404, "application/json")
    assert programs.json()["detail"]


@pytest.mark.parametrize(
    ("headers", "status", "said"),
    [
        ({"Host": "elsewhere.example"}, 421, "this name is not served here"),
        ({"Sec-Fetch-Site": "cross-site"}, 403, "requests from other sites are refused"),
    ],
)
def test_whom_the_gate_turns_away_gets_a_page_too(visit: Visit, headers: dict[str, str], status: int, said: str):
    accept = {"Accept": "text/html", "Accept-Language": "de", **headers}
    people = visit("GET", "/api/sessions", headers=accept)
    assert (people.status_code, people.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert said in people.text
    assert "default-src 'none'" in people.headers["content-security-policy"]
    programs = visit("GET", "/api/sessions", headers=headers)
    assert (programs.status_code, programs.headers["content-type"]) == (status, "application/json")


def test_what_goes_wrong_is_told_on_a_page_without_markup_of_others(visit: Visit):
    told = visit("GET", "/?question=<b>x</b>&dataset=<b>nowhere</b>", headers={"Accept": "text/html"})
    assert told.status_code == 404
    assert "&lt;b&gt;nowhere&lt;/b&gt;" in told.text
    assert "<b>" not in told.text


def test_one_logs_in_and_out_by_the_forms_of_the_page(page: Page, fresh_home: Path):
    with Server(web_settings(fresh_home, web_tokens={"ada": "0123456789abcdef"})) as server:
        page.goto(server.url)
        page.fill("#token", "0123456789abcdef")
        page.press("#token", "Enter")
        page.wait_for_selector(".welcome")
        page.click("#more > summary")
        page.click("text=Log out ada")
        page.wait_for_selector("#token")
        assert page.goto(server.url).url == f"{server.url}/login"
