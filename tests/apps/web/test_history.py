"""Queries in the editor, and the sessions and queries of before."""

import json
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe

from kbnav.apps.bot.wikitext import escape
from tests.apps.web.parts import MARIE, Explorer, Server, Visit, web_settings
from tests.apps.web.test_page import ask, ask_and_wait, asked_of, menu, open_query, wait_for_the_end, write, written
from tests.ending import until

NOTHING = "SELECT ?x { wd:Q7186 wdt:P61 ?x }"
LONG = "Which elements were discovered by Marie Curie, and which others did somebody of her family discover? " * 30


def test_a_session_is_shown_with_its_time_and_called_something_else(page, server):
    ask_and_wait(page, server, LONG)
    page.wait_for_selector("#sessions li time")
    for part in (".question", "#sessions li"):  # three thousand letters leave room for what follows
        assert page.locator(part).bounding_box()["height"] < 180, part
        assert page.inner_text(part).startswith(LONG[:100])
    assert Axe().run(page).response["violations"] == []
    assert page.locator("#sessions li .title").evaluate("one => one.scrollWidth <= one.clientWidth + 1")
    menu(page, LONG[:60])
    last = "document.querySelector('#sessions .menu[open] .delete')"
    page.wait_for_function(
        f"((box) => document.elementFromPoint(box.x + 9, box.bottom - 2))({last}.getBoundingClientRect()) === {last}"
    )
    page.click("text=Rename")
    page.keyboard.type("Curies")
    page.keyboard.press("Enter")
    page.wait_for_selector("#sessions li a:has-text('Curies')")
    assert page.title() == "Curies"
    page.reload()
    page.wait_for_selector("#sessions li a:has-text('Curies')")


def test_a_session_is_found_by_what_was_said_and_a_shared_follow_up_says_whom_it_means(page, server):
    page.goto(server.url)
    for n in range(5):
        ask(page, f"SELECT ?n {{ VALUES ?n {{ {n} }} }}")
        page.wait_for_selector(f".typed .rows td >> text=/^{n}$/")
    ask_and_wait(page, server, MARIE)
    ask(page, "When was she born?")
    wait_for_the_end(page, 1)
    for words, found in (("she born", 1), ("radium", 1), ("VALUES", 5), ("tungsten", 0)):
        page.fill("#sessions .find", words)
        until(lambda n=found: page.locator("#sessions li").count() == n)
    page.locator("text=Share").last.click()
    page.locator("text=Make the link").last.click()
    page.goto(page.get_attribute(".shared-link", "href") or "")
    page.wait_for_selector(".read >> text=date of birth of Marie Curie")  # who “she” is


def test_what_was_deleted_is_fetched_back_or_goes_when_the_page_is_left(page, server, fresh_home):
    with Server(web_settings(fresh_home)) as own:
        ask_and_wait(page, own, MARIE)
        page.wait_for_selector("#sessions li time")
        session = page.url.rpartition("/")[2]
        menu(page, MARIE)
        page.click("#sessions .delete")
        page.wait_for_selector(".welcome")
        page.wait_for_selector("#sessions [data-id]:focus")
        page.keyboard.press("Enter")
        page.wait_for_selector("#sessions li a")
        page.click("#sessions li a >> nth=0")
        wait_for_the_end(page)
        menu(page, MARIE)
        page.click("#sessions .delete")
        page.wait_for_selector("text=Undo")
        page.go_back()  # who opens it takes the deletion back
        page.wait_for_selector("text=Undo", state="detached")
        wait_for_the_end(page)
        menu(page, MARIE)
        page.click("#sessions .delete")
        page.wait_for_selector("text=Undo")
        page.goto(f"{own.url}/api")
        until(lambda: page.request.get(f"{own.url}/api/sessions/{session}").status == 404)


def test_what_was_deleted_is_gone_after_a_while_and_what_is_fetched_back_stays(page, server):
    page.clock.install()
    page.goto(server.url)
    for number in (1, 2):
        ask(page, f"SELECT ?n {{ VALUES ?n {{ {number} }} }}")
        page.wait_for_selector(f".typed .rows td >> text=/^{number}$/")
    for _ in range(2):
        menu(page, "n is")
        page.click("#sessions .delete:visible")
    page.clock.fast_forward(20_000)
    page.click("text=Undo >> nth=0")
    menu(page, "n is")
    page.click("#sessions .choices:visible >> text=Rename")
    page.keyboard.type("Numbers")  # is not thrown away
    page.clock.fast_forward(11_000)
    page.wait_for_selector("#sessions [data-id]", state="detached")
    page.keyboard.press("Enter")
    assert page.locator("#sessions li a").all_inner_texts()[0].startswith("Numbers")
    assert page.locator("#sessions li a").count() == 1


def test_queries_that_were_run_are_kept_renamed_and_deleted_beside_the_sessions(page, server):
    page.goto(server.url)
    for query in ("SELECT ?n { VALUES ?n { 1 2 } }", "ASK { wd:Q979 wdt:P61 wd:Q7186 }"):
        ask(page, query)
        page.wait_for_selector(".typed .rows tbody tr")
    first = page.locator("#sessions li a >> nth=1")
    assert first.inner_text().startswith("n is one of: 1, 2")
    assert page.get_attribute("#sessions li a >> nth=0", "aria-current") == "page"
    first.click()
    page.wait_for_selector(".typed .rows tbody tr >> nth=1")
    menu(page, "n is one of")
    page.click("#sessions .choices:visible >> text=Rename")
    page.keyboard.type("Numbers")
    page.keyboard.press("Enter")
    page.reload()
    page.wait_for_selector(".typed .rows tbody tr >> nth=1")
    assert page.inner_text(".typed .question") == "Numbers"
    menu(page, "Numbers")
    asked = asked_of(page, "query%20")  # the server, which knows nothing of it
    page.click("#sessions .delete:visible")
    page.wait_for_selector(".welcome")
    page.reload()
    page.wait_for_selector("#sessions li a:has-text('inventor of polonium')")
    assert (page.locator("#sessions li a:has-text('Numbers')").count(), asked) == (0, [])


def test_a_changed_example_is_a_query_of_its_own_and_the_example_keeps_its_name(page, server):
    page.goto(server.url)
    page.click(".welcome .example >> text=Countries and cities")
    page.wait_for_selector(".typed .map")  # which stands above the query
    open_query(page)
    page.click(".typed .cm-content")
    page.keyboard.press("Control+Home")
    page.keyboard.type("# x\n")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".typed >> text=From the query of: Countries and cities")
    assert (page.title(), page.inner_text(".typed .question")) == ("SPARQL query", "SPARQL query")
    page.click(".typed .cm-content")
    page.keyboard.press("Control+End")
    page.keyboard.type(" ")
    page.keyboard.press("Control+Enter")  # the same query
    page.wait_for_timeout(500)
    titles = page.locator("#sessions .title").all_inner_texts()
    assert (len(titles), titles[1]) == (2, "Countries and cities")
    assert "place is an instance of kind" in titles[0]
    page.click(".typed > p a")
    page.wait_for_selector(".typed .map")
    assert page.inner_text(".typed .question") == "Countries and cities"


def test_a_session_is_taken_along_as_json_and_html(visit):
    session = visit.session(kb="mini")
    visit.answered(session, MARIE)
    visit("PATCH", f"/api/sessions/{session}", {"title": "Élements `x`"})
    whole = visit("GET", f"/api/sessions/{session}/json")
    assert "filename*=UTF-8''%C3%89lements%20x.json" in whole.headers["content-disposition"]
    assert whole.json()["runs"][0]["answer"]["text"] == "polonium, radium"
    assert visit("GET", f"/api/sessions/{session}/exe").status_code == 422
    shared = visit("GET", f"/api/sessions/{session}/html")
    assert shared.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "<article" in shared.text
    wiki = visit("GET", f"/api/sessions/{session}/wiki").text
    assert (wiki.startswith(f"== {escape(MARIE)} ==\n"), wiki.endswith("~~~~\n")) == (True, True)
    assert "only a part of Wikidata" in wiki
    assert "<td>{{Q|979}}</td>" in wiki
    assert visit("GET", f"/api/sessions/{visit.session()}/html").status_code == 404
    assert Visit(visit.url)("GET", f"/api/sessions/{session}/html").status_code == 404
    assert Visit(visit.url)("PATCH", f"/api/sessions/{session}", {"title": "mine"}).status_code == 404


@pytest.mark.slow
def test_the_same_question_is_asked_again_changed_and_of_another_model_in_the_session(page, fresh_home):
    with Explorer() as model:
        own = {**model.options(), "model": "offline"}
        with Server(web_settings(fresh_home, web_models=("offline", "stub"), **own)) as server:
            page.set_viewport_size({"width": 1000, "height": 800})
            ask_and_wait(page, server, MARIE)
            address = page.url
            page.click(".foot .menu:last-of-type > summary")
            assert page.locator(".other").evaluate("one => one.getBoundingClientRect().right <= innerWidth")
            page.click("text=Edit and ask")
            assert page.input_value("#question") == MARIE
            assert page.evaluate("document.activeElement.id") == "question"
            page.fill("#question", "")
            page.click(".foot .menu:last-of-type > summary")
            page.click("text='Ask again' >> visible=true")
            wait_for_the_end(page, 1)
            page.click(".foot .menu:last-of-type > summary >> nth=0")
            other = page.locator(".other >> nth=0").locator("option", has_text="stub").first.inner_text()
            page.select_option(".other >> nth=0", label=other)
            wait_for_the_end(page, 2)
            assert page.url == address
            assert page.locator(".question").all_inner_texts() == [MARIE] * 3
            assert page.inner_text(".run >> nth=2 >> css=.answer .text") == "Polonium and radium."
            assert page.inner_text(".run >> nth=2 >> css=.origin").startswith("stub · 0.")

            page.click("#settings > summary")
            page.select_option("#model", "stub")
            page.keyboard.press("Escape")
            ask(page, "And her husband?")
            wait_for_the_end(page, 3)
            assert page.url == address
            sent = [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "user"]
            assert "And her husband?" in json.dumps(sent)

            page.goto(f"{server.url}/#{urlencode({'query': NOTHING, 'kb': 'mini'})}")
            page.wait_for_selector(".absent")
            page.select_option("#model", "stub", force=True)
            ask(page, "x" * 10_001)  # refused: the query stays
            page.wait_for_selector(".complaint")
            assert page.locator(".typed").count() == 1
            why = "Select what makes it empty"  # no query, with one below it neither
            ask(page, why)
            wait_for_the_end(page)
            assert page.locator(".typed").count() == 0
            page.wait_for_selector(f"#sessions >> text='{why}'")  # and no more
            page.click(".foot .menu:last-of-type > summary")
            page.click("text='Ask again' >> visible=true")
            wait_for_the_end(page, 1)
            assert page.locator(".question").all_inner_texts() == [f"{why} {NOTHING}"] * 2


NUMBERS = "SELECT ?element ?number { ?element wdt:P1086 ?number }"


def take_completion(page, text: str) -> None:
    """Press Enter once the selected completion has this text: CodeMirror takes it for a line break while the list is
    being looked up again, and for the first 75 ms of a list."""
    page.wait_for_selector(
        f".cm-tooltip-autocomplete:not(.cm-tooltip-autocomplete-disabled) li[aria-selected] >> text={text}"
    )
    page.wait_for_timeout(150)
    page.keyboard.press("Enter")


def test_ids_are_completed_by_labels_and_prefixes_by_their_beginning(answered):
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


def test_the_caret_stands_under_what_is_wrong_here_and_in_the_editor(answered):
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


def test_a_changed_query_has_its_own_page_and_link_and_is_taken_back(answered, server):
    page = answered
    write(page, NUMBERS)
    assert page.get_attribute(".sparql a.out", "href").endswith("#SELECT%20%3Felement%20%3Fnumber%20%7B%20%3Felement%20"
                                                                "wdt%3AP1086%20%3Fnumber%20%7D")  # fmt: skip
    assert "discoverer" in page.inner_text(".sparql .query-words")
    assert page.is_visible("text=as it was last run")
    page.click("text=Back to the answer's query")
    assert "wdt:P61" in written(page)
    assert not page.is_visible("text=as it was last run")
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


def test_a_query_of_one_line_is_laid_out_and_of_several_left_alone(page, server):
    page.goto(server.url)
    one = " ".join(LAID_OUT.split())
    for query in (one, LAID_OUT, f"# {one}", f"{one} # all"):
        laid = page.evaluate("query => import('/static/layout.js').then(({ laidOut }) => laidOut(query))", query)
        assert laid == (LAID_OUT if query == one else query)
    names = "query => import('/static/service.js').then(({ withNames }) => withNames(query, ['a']))"
    service = '\n  SERVICE wikibase:label { bd:serviceParam wikibase:language "[AUTO_LANGUAGE],mul,en". }\n}'
    for query, asked in (
        ("SELECT ?a ?b { ?a ?b ?c } LIMIT 3", f"SELECT ?a ?aLabel ?b {{ ?a ?b ?c{service} LIMIT 3"),
        ("SELECT ?a ?aLabel { ?a rdfs:label ?aLabel }", ""),
        ("SELECT ?a { ?a ?b ?c } VALUES ?c { wd:Q1 }", ""),
        ("SELECT ?a { ?a ?b ?c } # as in { }", ""),
    ):
        assert page.evaluate(names, query) == (asked or query)


def test_a_step_says_in_a_line_what_is_looked_at(page, server):
    page.goto(server.url)
    told = """calls => import('/static/steps.js').then(({ Steps }) => {
        const steps = new Steps();
        steps.called({ call: 0, tool: "search_entities", arguments: { query: "Dune" } });
        steps.stepped({ call: 0, ok: true, observation: "Dune (1984): a film\\nDune (Q2)" });
        return calls.map(([tool, given]) => steps.line({ tool, arguments: given })); })"""
    calls = {
        "Looks for “1984”": ("search_entities", {"kb": "x", "query": "1984"}),
        "Looks for “fast”": ("vector_query", {"node_type": "ship", "text": "fast"}),
        "Looks at examples of P1": ("get_property_examples", {"kb": "x", "property_id": "P1"}),
        "Reads about Dune": ("get_fields", {"entity_ids": ["Q2"], "fields": ["year"]}),
        "Asks the database by a query": ("join_results", {"query": "ASK {}", "kb": "x"}),
    }
    assert page.evaluate(told, list(calls.values())) == [*calls]


def test_names_of_an_skb_are_written_as_its_queries_write_them(visit):
    found = visit("GET", "/api/kbs/demo/names?text=Brown Eye&kind=item").json()
    assert found[0]["label"].startswith("The Brown Eye")
    query = f"SELECT ?p {{ {found[0]['written']} ?p ?o }}"
    assert visit("POST", "/api/queries", {"kb": "demo", "query": query}).json()["result"]["rows"] > 0
    assert visit("GET", "/api/kbs/demo/prefixes").json()["rel"] == "urn:kbnav:relation/"
