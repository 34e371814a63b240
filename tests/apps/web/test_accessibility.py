"""axe finds nothing on any page: light, dark, and on a phone."""

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.apps.web.parts import LETTER, Server, web_settings
from tests.apps.web.test_page import MARIE, ask, ask_and_wait, share, wait_for_the_end, write

QUERY = (
    """SELECT ?element ?number ?at { ?element wdt:P1086 ?number . BIND("Point(21.0 52.2)"^^geo:wktLiteral AS ?at) }"""
)


WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 380, "height": 740}


@pytest.fixture
def look(browser) -> Iterator[Any]:
    """An empty page, wide and light."""
    context = browser.new_context(color_scheme="light", viewport=WIDE)
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


def faults(page) -> list[str]:
    """What axe finds as the page is, and in the dark on a phone, with the elements that it names.

    Colours do not depend on the width, nor what is where on colours: so these two stand for all four.
    """
    found = []
    for scheme, size in (("dark", PHONE), ("light", WIDE)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        for one in Axe().run(page).response["violations"]:
            found += [f"{scheme}: {one['id']}: {node['html'][:120]} {node['failureSummary']}" for node in one["nodes"]]
    return found


@pytest.mark.slow
def test_axe_finds_nothing_from_the_empty_page_to_an_answer_and_its_sharing(look, server):
    look.goto(server.url)
    look.wait_for_selector(".welcome button")
    assert faults(look) == []
    ask(look, MARIE)
    wait_for_the_end(look)
    look.click(".steps summary")
    address = share(look)
    assert faults(look) == []
    look.keyboard.press("Escape")  # the menu lies over the query
    write(look, QUERY)
    look.click(".again")
    look.click(".typed [data-view=map]")
    look.wait_for_selector(".typed .cluster")
    look.evaluate("document.getElementById('sessions').open = true")
    look.wait_for_selector("#sessions li")
    assert faults(look) == []
    write(look, "SELECT ?element {")
    look.click(".again")
    look.wait_for_selector(".sparql .problem:visible")
    assert faults(look) == []
    look.goto(address)
    look.wait_for_selector(".rows td")
    assert faults(look) == []


@pytest.mark.slow
def test_axe_finds_nothing_in_what_opens(look, server):
    ask_and_wait(look, server, MARIE)
    look.click(".why >> nth=0")
    look.wait_for_selector(".evidence .statements")
    look.click("[data-view=graph] >> nth=0")
    look.wait_for_selector("figure.graph canvas")
    look.evaluate("document.getElementById('sessions').open = true")
    look.click("#sessions .menu > summary >> nth=0")
    look.wait_for_selector("#sessions .choices >> nth=0")
    assert faults(look) == []
    look.click("#more > summary")
    assert faults(look) == []
    look.click("#about-open")
    look.wait_for_selector("#about h2")
    assert faults(look) == []
    look.keyboard.press("Escape")
    look.click("[data-view=table] >> nth=0")
    look.focus(".rows a >> nth=0")
    look.wait_for_selector(".card")
    write(look, "")
    look.locator(".cm-content").press_sequentially("SELECT * { ?x wdt:discov")
    look.wait_for_selector(".cm-tooltip-autocomplete li")
    assert faults(look) == []


@pytest.mark.slow
def test_axe_finds_nothing_on_the_other_pages(look, server):
    look.goto(f"{server.url}/api")
    look.wait_for_selector("details.operation")
    assert faults(look) == []
    ask_and_wait(look, server, LETTER, "demo")
    assert faults(look) == []
    look.goto(f"{server.url}{look.get_attribute('.rows a', 'href')}")
    assert faults(look) == []
    for path in ("/s/none", "/share/none", "/entry/demo/none", "/nowhere", "/api/results/none/csv"):
        assert look.goto(server.url + path).status == 404
        assert faults(look) == []


def test_axe_finds_nothing_where_one_logs_in(look, fresh_home):
    with Server(web_settings(fresh_home, web_tokens={"ada": "0123456789abcdef"})) as server:
        look.goto(server.url)
        look.fill("#token", "wrong")
        look.click("button")
        look.wait_for_selector(".problem")
        assert faults(look) == []
