"""On the page, which of several things of one name is meant is asked before the answer is shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.apps.web.parts import Server, Visit, web_settings
from tests.test_meanings import QUESTION, folder

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["folder"]


def test_the_page_asks_before_it_shows_the_answer(page: Page, folder: Path, tmp_path: Path):
    settings = web_settings(tmp_path, str(folder / "cities"), ask_back="ask")
    with Server(settings) as server:
        visit = Visit(server.url)
        (found,) = visit.answered(visit.session(), QUESTION)["answer"]["readings"]
        assert found["ask"] is True
        assert [one["id"] for one in found["others"] if one["answer"]]
        page.goto(server.url)
        page.fill("#question", QUESTION)
        page.keyboard.press("Enter")
        page.get_by_role("group", name="Which “Paris” do you mean?").wait_for()
        assert not page.locator(".words").is_visible()
        page.locator(".meant .choice >> nth=0").click()
        page.locator(".words").wait_for()
        page.wait_for_selector(".rows tbody tr")
