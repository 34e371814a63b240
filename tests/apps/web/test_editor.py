"""The editor of queries: it completes, explains and lays out, and what was changed is kept and shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.apps.web.parts import Server, Visit
from tests.apps.web.test_page import MARIE, ask_and_wait, open_query, wait_for_the_end, write, written

if TYPE_CHECKING:
    from playwright.sync_api import Page

NUMBERS = "SELECT ?element ?number { ?element wdt:P1086 ?number }"


@pytest.fixture
def answered(page: Page, server: Server) -> Page:
    """A page with an answer, its query in the editor."""
    ask_and_wait(page, server, MARIE)
    open_query(page)
    return page


def take_completion(page: Page, text: str) -> None:
    """Press Enter once the selected completion has this text: CodeMirror takes it for a line break while the list is
    being looked up again, and for the first 75 ms of a list."""
    page.wait_for_selector(
        f".cm-tooltip-autocomplete:not(.cm-tooltip-autocomplete-disabled) li[aria-selected] >> text={text}"
    )
    page.wait_for_timeout(150)
    page.keyboard.press("Enter")


def test_ids_are_completed_by_labels_and_prefixes_by_their_beginning(answered: Page):
    page = answered
    write(page, "")
    page.locator(".cm-content").press_sequentially("SELECT * { ?x wdt:discov")
    take_completion(page, "discoverer or inventor (P61)")
    page.locator(".cm-content").press_sequentially(" wd:Marie Curie")
    take_completion(page, "Marie Curie (Q7186)")
    assert written(page).startswith("SELECT * { ?x wdt:P61 wd:Q7186")
    page.locator(".cm-content").press_sequentially(" ; skos")
    page.wait_for_selector(".cm-tooltip-autocomplete >> text=http://www.w3.org/2004/02/skos/core#")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    assert written(page).strip() == ""


def test_the_caret_stands_under_what_is_wrong_here_and_in_the_editor(answered: Page):
    write(answered, "SELECT ?x {\n  ?x wdt:P31 wd:Q5 ;; FILTR(?x) }")
    answered.keyboard.press("Control+Enter")
    answered.wait_for_selector(".sparql .problem:visible")
    assert answered.inner_text(".cm-content .wrong") == "F"
    shown, caret = answered.inner_text(".sparql .problem").split("\n")[-2:]
    assert shown[caret.index("^") :].startswith("FILTR")
    font = answered.eval_on_selector(".sparql .problem pre", "one => getComputedStyle(one).fontFamily")
    assert "monospace" in font
    answered.locator(".cm-content").press_sequentially("x")
    assert answered.locator(".cm-content .wrong").count() == 0
    assert "xFILTR" in written(answered)  # the cursor stood there


def test_a_changed_query_has_its_own_page_and_link_and_is_taken_back(answered: Page, server: Server):
    page = answered
    write(page, NUMBERS)
    assert page.get_attribute(".sparql a.out", "href").endswith("#SELECT%20%3Felement%20%3Fnumber%20%7B%20%3Felement%20"
                                                                "wdt%3AP1086%20%3Fnumber%20%7D")  # fmt: skip
    page.click("text=Back to the answer's query")
    assert "wdt:P61" in written(page)
    write(page, NUMBERS)
    page.click(".again")
    page.wait_for_selector(".typed .rows td.number")
    assert MARIE in page.inner_text(".typed > p")
    assert page.url.startswith(f"{server.url}/#query=")
    page.reload()
    page.wait_for_selector(".typed .rows td.number")
    page.go_back()
    wait_for_the_end(page)
    assert page.locator(".typed").count() == 0
    assert page.url.startswith(f"{server.url}/s/")
    open_query(page)
    lines = page.locator(".cm-line").all_inner_texts()
    assert [lines[0][-1], lines[1][:2], lines[-1]] == ["{", "  ", "}"]
    assert page.locator(".original:visible").count() == 0


LAID_OUT = """SELECT ?a (COUNT(?b) AS ?n) WHERE {
  ?a wdt:P31 wd:Q5 ;
    rdfs:label "a . b; {" .
  FILTER(?b > 1.5)
  VALUES ?k { wd:Q1 wd:Q2 }
  {
    ?a ?b <http://a.b/c.d#e>
  } UNION {
    ?b ?a [ a ?k ; ?k ?a ]
  }
}
GROUP BY ?a
ORDER BY DESC(?n)
LIMIT 1"""


def test_a_query_of_one_line_is_laid_out_and_of_several_left_alone(page: Page, server: Server):
    page.goto(server.url)
    one = " ".join(LAID_OUT.split())
    for query in (one, LAID_OUT, f"# {one}", f"{one} # all"):
        laid = page.evaluate("query => import('/static/layout.js').then(({ laidOut }) => laidOut(query))", query)
        assert laid == (LAID_OUT if query == one else query)


def test_names_of_an_skb_are_written_as_its_queries_write_them(visit: Visit):
    found = visit("GET", "/api/kbs/demo/names?text=Brown Eye&kind=item").json()
    assert found[0]["label"].startswith("The Brown Eye")
    query = f"SELECT ?p {{ {found[0]['written']} ?p ?o }}"
    assert visit("POST", "/api/queries", {"kb": "demo", "query": query}).json()["result"]["rows"] > 0
    assert visit("GET", "/api/kbs/demo/prefixes").json()["rel"] == "urn:kbnav:relation/"
