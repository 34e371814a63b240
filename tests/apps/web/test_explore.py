"""Looking around in an SKB on the page, in a real browser: from an answer to what made it one, and on from there."""

import pytest

from kbnav.knowledge.base import KnowledgeBase
from tests.apps.web.parts import LETTER, Server
from tests.apps.web.test_accessibility import faults, look  # noqa: F401 - a fixture
from tests.apps.web.test_page import ask_and_wait


def count(kb: KnowledgeBase, where: str) -> int:
    """How many nodes of the demo fit a pattern, asked of its RDF store."""
    (row,) = kb.execute_query(f"SELECT (COUNT(DISTINCT ?x) AS ?n) {{ {where} }}").rows
    return int(row[0].value)


def test_from_an_answer_to_its_node_and_on_along_its_relations(page, server):
    ask_and_wait(page, server, LETTER, "demo")
    with page.expect_popup() as opened:
        page.click(".rows a >> nth=0")
    node = opened.value
    node.click(".kin:has-text('made_by') a")
    node.wait_for_selector("h2 >> text=Marit Skarrow")


def test_search_types_relations_and_neighbours_with_their_counts(page, server, demo_kb):
    page.goto(server.url)
    page.click("#more > summary")
    assert not page.is_visible("#explore-open")
    page.select_option("#kb", "demo")
    page.click("#more > summary")
    page.click("header >> text=Explore")
    page.wait_for_url("**/explore/demo")
    ships, made = count(demo_kb, "?x a type:ship"), count(demo_kb, "?x rel:made_by ?y")
    assert page.inner_text(".types tr:has-text('ship') td") == str(ships)
    assert int(page.inner_text(".relations tr:has-text('made_by') td.number")) >= made
    assert "instrument → person" in page.inner_text(".relations tr:has-text('made_by')")
    page.fill("#q", "love letter")
    page.press("#q", "Enter")
    page.wait_for_selector("h2 >> text=love letter")
    assert page.inner_text(".nodes li a >> nth=0") == "The Brown Eye"
    page.goto(f"{server.url}/explore/demo?type=person")
    people = count(demo_kb, "?x a type:person")
    assert page.locator(".nodes li").count() == 50
    page.click("text=Next")
    page.wait_for_selector(f"text=51 to {people} of {people}")
    assert page.locator(".nodes li").count() == people - 50
    born = count(demo_kb, "?x rel:born_in node:place:averhythe")
    page.goto(f"{server.url}/entry/demo/place%3Aaverhythe")
    assert page.inner_text(".kin summary:has-text('born_in') small") == str(born)
    page.goto(f"{server.url}/explore/demo/neighbors?node=place:averhythe&relation=^born_in")
    assert page.locator(".nodes li").count() == born


def test_what_is_not_there_is_told(visit):
    hidden = visit("GET", "/explore/demo?q=%3Cscript%3Ealert(1)").text
    assert "<script>alert" not in hidden
    for path in (
        *("/explore/mini", "/explore/none", "/explore/demo?type=none", "/explore/demo?relation=none"),
        *("/explore/demo/neighbors?node=none&relation=made_by", "/entry/demo/none"),
    ):
        assert visit("GET", path).status_code == 404, path
    assert visit("GET", "/entry/demo/made_by").url.endswith("/explore/demo?relation=made_by")


@pytest.mark.slow
def test_axe_finds_nothing_wherever_one_looks(look, server: Server):  # noqa: F811 - the fixture
    ask_and_wait(look, server, LETTER, "demo")
    look.context.set_extra_http_headers({"Accept-Language": "fr"})
    node = look.get_attribute(".rows a", "href")
    others = {1280: "/explore/demo", 380: "/explore/demo/neighbors?node=place:averhythe&relation=^born_in"}
    for path in (node, others[look.viewport_size["width"]]):
        look.goto(server.url + path)
        assert look.get_attribute("html", "lang") == "fr"
        assert faults(look) == [], path
        assert look.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
