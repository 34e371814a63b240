"""The statements behind a row: by the API, and on the page."""

from tests.apps.web.parts import MARIE, Visit
from tests.apps.web.test_page import ask_and_wait, write

POLONIUM = "Who discovered polonium?"
LITTLE_MEW = "Which person was born in Little Mew?"


def said(document: dict, row: int = 0) -> list[tuple[str, str, str]]:
    """Subject, property and value of a row's statements, by their names."""
    return [(one["subject"]["text"], one["property"]["text"], one["value"]["text"]) for one in document["rows"][row]]


def test_the_statements_of_rows_are_told_by_their_numbers(server):
    visit = Visit(server.url)
    run = visit.answered(visit.session(), POLONIUM)
    path = f"/api/results/{run['id']}/evidence"
    both = visit("GET", f"{path}?row=0&row=1").json()
    claim = ("polonium", "discoverer or inventor")
    assert [said(both, row) for row in (0, 1)] == [[(*claim, "Marie Curie")], [(*claim, "Pierre Curie")]]
    (one,) = both["rows"][1]
    assert one["subject"]["href"].endswith("/Q979")
    assert ([other["text"] for other in one["others"]], one["references"]) == (["Marie Curie"], [])
    assert said(visit("GET", f"{path}?row=1").json()) == [(*claim, "Pierre Curie")]
    assert visit("GET", f"{path}?row=7").json()["rows"] == []
    assert visit("GET", path).status_code == 422
    titanium = {"kb": "mini", "query": "SELECT ?who { wd:Q716 wdt:P61 ?who }"}
    result = visit("POST", "/api/queries", titanium).json()["result"]["id"]
    (preferred,) = visit("GET", f"/api/results/{result}/evidence?row=0").json()["rows"][0]
    assert {"William Gregor", "Martin Heinrich Klaproth"} == {one["text"] for one in preferred["lower"]}
    assert Visit(server.url)("GET", f"{path}?row=0").status_code == 404

    rows = visit("GET", f"/api/results/{run['id']}/rows?sort=answer&descending=true").json()
    names = [row[0]["text"] for row in rows["rows"]]
    assert (names, rows["numbers"]) == (["Pierre Curie", "Marie Curie"], [1, 0])
    found = visit("GET", f"/api/results/{run['id']}/rows?find=Pierre").json()
    assert found["numbers"] == [1]

    share = visit("POST", f"/api/runs/{run['id']}/share").json()["share"]
    shared = f"/api/shared/{share}/evidence"
    assert said(Visit(server.url)("GET", f"{shared}?row=1").json()) == [(*claim, "Pierre Curie")]
    assert visit("GET", "/api/shared/share-none/evidence?row=0").status_code == 404


def test_a_changed_query_has_statements_of_its_own(server):
    visit = Visit(server.url)
    changed = {"kb": "mini", "query": "SELECT (COUNT(?x) AS ?n) { ?x wdt:P61 wd:Q7186 }"}
    result = visit("POST", "/api/queries", changed).json()["result"]["id"]
    found = said(visit("GET", f"/api/results/{result}/evidence?row=0").json())
    assert sorted(subject for subject, _, _ in found) == ["polonium", "radium"]
    run = visit.answered(visit.session(), "Xyzzy?")  # without rows
    assert visit("GET", f"/api/results/{run['id']}/evidence?row=0").status_code == 404


def test_a_node_of_an_skb_has_edges_and_a_sentence(server):
    visit = Visit(server.url)
    run = visit.answered(visit.session(kb="demo"), LITTLE_MEW)
    (told,) = visit("GET", f"/api/results/{run['id']}/evidence?row=0").json()["rows"]
    assert [one["source"] for one in told] == ["graph", "document"]
    assert (told[0]["property"]["text"], told[0]["value"]["text"]) == ("born in", "Little Mew")
    assert told[0]["value"]["href"].startswith("/entry/demo/")


def test_a_press_beside_a_row_opens_and_closes_its_statements_also_on_a_phone(page, server):
    page.set_viewport_size({"width": 390, "height": 900})
    ask_and_wait(page, server, MARIE)
    why = page.get_by_role("button", name="Why?")
    page.wait_for_selector(".rows tbody tr >> nth=1")
    assert why.count() == 2
    why.nth(1).click()
    page.wait_for_selector(".evidence .statements")
    text = page.inner_text(".evidence")
    assert "radium — discoverer or inventor — Marie Curie" in text
    assert "Also stated, of the same rank: Pierre Curie" in text
    assert "This copy has no reference for it." in text
    assert why.nth(1).get_attribute("aria-expanded") == "true"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    why.nth(1).click()
    assert page.locator(".evidence").count() == 0

    write(
        page,
        "SELECT ?who ?whoLabel ?p ?q ?r ?s { wd:Q979 wdt:P61 ?who . "
        "?who wdt:P569 ?p ; wdt:P27 ?q ; wdt:P19 ?r ; wdt:P106 ?s }",
    )
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".typed .rows tbody tr")
    box = page.locator(".typed .why >> nth=0").bounding_box()
    assert box["x"] + box["width"] <= 390  # though the table is wider
    page.evaluate("document.querySelector('.typed .scroll').scrollLeft = 150")
    assert page.locator(".typed .rows td >> nth=0").bounding_box()["x"] >= 0  # the first column stays
    assert "SERVICE wikibase:label" in page.inner_text(".typed .doubt")
    page.click(".typed .why >> nth=0")
    assert "polonium — discoverer" in page.inner_text(".typed .evidence .statements")
    assert page.locator(".typed .evidence >> text=Pierre Curie").count() == 0  # he is a row

    page.goto(
        f"{server.url}/#query=SELECT ?element ?symbol ?number {{ ?element wdt:P246 ?symbol ; wdt:P1086 ?number }}"
    )
    page.wait_for_selector(".typed .rows tbody tr")
    third, fourth = (page.locator(f".typed th >> nth={place}").bounding_box() for place in (2, 3))
    assert third["x"] + third["width"] <= fourth["x"]

    write(page, "SELECT ?who { wd:Q716 wdt:P61 ?who }")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".typed .why >> text=Why? 2 more of lower rank")
