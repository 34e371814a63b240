"""The views of a result in the browser: what is drawn of many rows, which one is shown, and what is loaded for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.apps.web.test_page import MARIE, ask, wait_for_the_end

if TYPE_CHECKING:
    from playwright.sync_api import Page

FIRST_LOAD = 150_000


def paste(page: Page, url: str, columns: str, rows: list[str], view: str = "") -> None:
    """Paste a query that gives these rows into the question, and wait for its result."""
    values = " ".join(f"({row})" for row in rows)
    page.goto(url)
    ask(page, f"{view}\nSELECT {columns} {{ VALUES ({columns}) {{ {values} }} }}")
    page.wait_for_selector(".typed .rows tbody tr", state="attached")


def test_the_first_screen_is_light_and_a_pasted_query_is_run_as_one(page, server):
    loaded: list[int] = []
    page.on("response", lambda reply: loaded.append(len(reply.body())) if reply.ok else None)
    page.goto(server.url)
    page.wait_for_selector(".welcome li button")
    assert 0 < sum(loaded) < FIRST_LOAD
    assert "Wikidata" in page.inner_text(".welcome h2")
    page.click("#write")
    page.wait_for_selector(".typed .cm-content")
    paste(page, server.url, "?n", ["1", "2"])
    assert page.locator(".typed .rows tbody tr").count() == 2
    assert page.locator(".run:not(.typed)").count() == 0


def test_five_hundred_points_are_clustered_and_one_opens(page, server):
    rows = [f'"town {n}" "Point({n % 360 - 180} {n % 160 - 80})"^^geo:wktLiteral' for n in range(500)]
    paste(page, server.url, "?town ?at", rows, "#defaultView:Map")
    page.wait_for_selector(".map .cluster")
    single = page.locator(".map .pin").count()
    clusters = [int(text) for text in page.locator(".map .cluster").all_inner_texts()]
    assert single + sum(clusters) <= 500
    assert "500" in page.inner_text(".map figcaption")
    paste(page, server.url, "?town ?at", rows[:2], "#defaultView:Map")
    page.click(".map .pin >> nth=0")
    assert "town" in page.inner_text(".map .popup")


def test_dates_from_before_christ_on_are_a_timeline_though_one_is_unknown(page, server):
    years = [-480 + 8 * n for n in range(300)]
    days = [f'"{"-" * (year < 0)}{abs(year):04}-05-03T00:00:00Z"^^xsd:dateTime' for year in years]
    rows = [f'"event {n}" {day}' for n, day in enumerate(days)] + ['"unknown" UNDEF', '"some time" "somebody knows"']
    paste(page, server.url, "?event ?when", rows, "#defaultView:Timeline")
    page.wait_for_selector(".timeline svg [aria-roledescription=point]", state="attached")
    assert page.locator(".timeline svg [aria-roledescription=point]").count() == 300
    labels = page.locator(".timeline .role-axis-label text").all_text_contents()
    assert [label for label in labels if "BC" in label]
    assert all(int(label) <= 2000 for label in labels if label.isdigit())


def test_sixty_names_with_numbers_are_sixty_bars_and_two_columns_of_things_a_graph(page, server):
    paste(page, server.url, "?name ?size", [f'"name {n}" {n + 1}' for n in range(60)], "# defaultView:BarChart")
    page.wait_for_selector(".chart svg [aria-roledescription=bar]")
    assert page.locator(".chart svg [aria-roledescription=bar]").count() == 60
    links = [f"wd:Q{n} wd:Q{n // 3 + 500}" for n in range(1, 201)]
    paste(page, server.url, "?from ?to", links, "#defaultView:Graph")
    page.wait_for_selector(".graph canvas >> nth=0")
    assert "200" in page.inner_text(".graph figcaption")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_chosen_view_is_kept_by_the_address(page, server, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(server.url)
    ask(page, MARIE)
    wait_for_the_end(page)
    assert page.is_visible(".answer .rows")
    page.click("[data-view=graph]")
    page.wait_for_selector(".graph canvas >> nth=0")
    page.reload()
    wait_for_the_end(page)
    page.wait_for_selector(".graph canvas >> nth=0")
    assert page.get_attribute("[data-view=graph]", "aria-pressed") == "true"
    assert not page.is_visible(".answer .rows")
