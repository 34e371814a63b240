"""The page in a browser: asked, waited for, read, shared."""

import csv
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kbnav.settings.systems import find
from tests.apps.web.parts import CURIE, MARIE, Explorer, Server, web_settings
from tests.dripping import silent
from tests.ending import running, until
from tests.knowledge.endpoint.served import serving
from tests.models.stub import Canned, ModelStub, streamed


def menu(page, title: str) -> None:
    """Open the menu of a session."""
    page.click(f"#sessions li:has-text('{title}') .menu > summary")


def ask(page, question: str) -> None:
    page.fill("#question", question)
    page.press("#question", "Enter")


def wait_for_the_end(page, run: int = 0) -> None:
    """Until a run is answered, and its rows and its editor are there."""
    there = """number => { const run = document.querySelectorAll(".run:not(.typed)")[number];
      return run?.querySelector(".foot") && !run.querySelector("[aria-busy=true]"); }"""
    page.wait_for_function(there, arg=run)


def ask_and_wait(page, server: Server, question: str, kb: str = "") -> None:
    """Ask the first question of a session, until it is answered."""
    page.goto(server.url)
    if kb:
        page.select_option("#kb", kb)
    ask(page, question)
    wait_for_the_end(page)


def open_steps(page) -> None:
    """Steps that came too fast to be read are open."""
    if page.get_attribute(".steps >> nth=0", "open") is None:
        page.click(".steps summary >> nth=0")


def open_query(page) -> None:
    """Open the first answer's query; its editor is loaded then."""
    if page.get_attribute(".sparql >> nth=0", "open") is None:
        page.click(".sparql > summary >> nth=0")
    page.wait_for_selector(".cm-content")


def write(page, query: str) -> None:
    """Put a query into the editor in place of the one that is there."""
    open_query(page)
    page.click(".cm-content")
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(query)


def written(page) -> str:
    """The query in the editor."""
    return "\n".join(page.locator(".cm-line").all_inner_texts())


def asked_of(page, part: str) -> list[str]:
    """The addresses with a part that a page asks from now on."""
    found: list[str] = []
    page.on("request", lambda one: part in one.url and found.append(one.url))
    return found


def share(page) -> str:
    """Share the first answer, which is told before it is done; the address."""
    page.click(".foot >> text=Share >> nth=0")
    assert "Anybody who has the link" in page.inner_text(".share")
    page.click("text=Make the link")
    page.wait_for_selector(".share button:focus >> text=Copy the link")
    return page.get_attribute(".shared-link", "href")


@pytest.fixture
def held_server(fresh_home: Path) -> Iterator[tuple[Server, Explorer]]:
    """A server whose model waits before its second action until it is told to go on."""
    with Explorer(held=1) as model, Server(web_settings(fresh_home, **model.options(), temperature=None)) as server:
        yield server, model
        model.go_on.set()


def test_ask_see_steps_download_csv_edit_the_query_and_ask_on(page, server, tmp_path):
    page.goto(server.url)
    assert page.text_content("#system option[value=spinach]") == f"spinach: {find('spinach').about}"
    ask(page, MARIE)
    wait_for_the_end(page)
    assert page.inner_text(".answer .text") == "polonium, radium"
    assert page.locator(".rows a").evaluate_all("links => links.map(link => link.href)") == [
        "https://www.wikidata.org/wiki/Q979",
        "https://www.wikidata.org/wiki/Q1128",
    ]
    open_steps(page)
    steps = page.locator(".steps .action").all_inner_texts()
    assert steps[0] == "Looks for “Marie Curie”"
    assert "Reads about Marie Curie" in steps
    assert "Marie Curie (Q7186)" not in page.inner_text(".steps")
    page.click(".steps .action >> nth=0")
    assert "Marie Curie (Q7186)" in page.inner_text(".steps")

    with page.expect_download() as download:
        page.click(".foot [data-files]")
        page.click("text=CSV")
    assert download.value.suggested_filename == "Which elements were discovered by Marie Curie.csv"
    download.value.save_as(tmp_path / "got.csv")
    with (tmp_path / "got.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["\ufeffanswer", "answer id"], ["polonium", "Q979"], ["radium", "Q1128"]]

    open_query(page)
    assert "Q7186: Marie Curie" in page.inner_text(".sparql .meaning")
    assert not written(page).startswith("#")
    link = page.get_attribute(".sparql a.out", "href")
    assert link.startswith("https://query.wikidata.org/#SELECT%20DISTINCT%20%3Fanswer%20%3FanswerLabel%20WHERE")
    write(page, "SELECT ?element ?number { ?element wdt:P1086 ?number }")
    page.click("text=Run the query")
    page.wait_for_selector(".sparql .rows td.number")
    assert page.text_content(".typed .meaning") == "P1086: atomic number"
    write(page, "SELECT ?element { ?element wdt:P1086 ")
    page.click("text=Run the query")
    assert re.search("line 1", page.inner_text(".sparql .problem:visible"))

    page.go_back()
    wait_for_the_end(page)
    ask(page, "Who discovered polonium?")
    wait_for_the_end(page, 1)
    assert page.inner_text(".run:not(.typed) >> nth=1 >> css=.answer .text") == "Marie Curie, Pierre Curie"
    looked = asked_of(page, "/evidence")
    page.reload()
    wait_for_the_end(page, 1)
    assert page.locator(".run:not(.typed) .question").all_inner_texts() == [MARIE, "Who discovered polonium?"]
    until(lambda: looked)
    last = page.get_attribute(".run:not(.typed) >> nth=1", "id")
    assert [url.split("/")[5] for url in looked] == [last]  # what ranks there are beside the newest answer alone


def test_thousands_of_rows_are_sorted_and_paged_by_the_server(page, server):
    ask_and_wait(page, server, MARIE)
    write(page, "SELECT ?n ?s { ?n ?p ?s . FILTER(isLiteral(?s)) } LIMIT 4000")
    page.click("text=Run the query")
    page.wait_for_selector("text=Rows 1 to 50 of")
    where = page.locator(".sparql .where")
    total = int(re.search(r"of ([\d,]+)", where.inner_text())[1].replace(",", ""))
    assert total > 1000
    first = page.locator(".sparql .rows tbody tr").first.inner_text()
    page.click(".sparql >> text=Next")
    page.wait_for_selector("text=Rows 51 to 100 of")
    assert page.locator(".sparql .rows tbody tr").first.inner_text() != first
    page.click(".sparql .sort >> nth=1")
    page.wait_for_selector("text=Rows 1 to 50 of")
    page.wait_for_selector(".sparql th[aria-sort=ascending]")
    page.click(".sparql .sort >> nth=1")
    page.wait_for_selector(".sparql th[aria-sort=descending]")


def test_a_reload_goes_on_where_the_run_is_and_says_what_is_awaited_and_for_how_many_seconds(page, held_server):
    server, model = held_server
    page.goto(server.url)
    ask(page, MARIE)
    page.wait_for_selector("text=Looks for “Marie Curie”")
    assert model.waiting.wait(60)
    page.wait_for_selector(".awaited .time >> text=1 s")
    page.reload()
    page.wait_for_selector("text=Looks for “Marie Curie”")
    page.wait_for_selector(".awaited >> text=The language model is thinking")
    page.wait_for_selector(".awaited .time >> text=2 s")  # it counts from when it began
    assert page.locator(".foot").count() == 0
    model.go_on.set()
    wait_for_the_end(page)
    assert not page.is_visible(".awaited")
    open_steps(page)
    assert len(page.locator(".steps .action").all_inner_texts()) == 3
    assert page.inner_text(".answer .text") == "Polonium and radium."


def test_stop_hangs_up_on_the_model(page, fresh_home):
    with silent() as (url, asked, hung_up):
        settings = web_settings(fresh_home, model="any", base_url=url, model_retries=0)
        with Server(settings) as server:
            page.goto(server.url)
            ask(page, MARIE)
            assert asked.wait(60)
            page.keyboard.press("Escape")
            wait_for_the_end(page)
            assert hung_up.wait(60)
            assert page.inner_text(".answer .head") == "Stopped."
            assert page.is_visible("#send")


def test_a_shared_run_is_read_by_others_and_no_longer_when_it_is_taken_back(page, server, tmp_path):
    page.goto(server.url)
    page.wait_for_selector("text=Try one of these:")
    assert page.inner_text(".welcome h2") == "Ask Wikidata (partial copy) in your own words"
    ask(page, MARIE)
    wait_for_the_end(page)
    address = share(page)
    other = page.context.browser.new_context().new_page()
    looked = asked_of(other, "/evidence")
    other.goto(address)
    other.wait_for_selector(".rows a")
    assert other.inner_text(".answer .text") == "polonium, radium"
    assert other.locator("#ask, .again").count() == 0
    assert re.search(r"\w+ \d+, \d{4}", other.inner_text(".run > .soft"))
    assert "Wikidata (partial copy)" in other.inner_text("header")
    assert page.inner_text(".origin .rules") == other.inner_text(".origin .rules") == "Simple rules, no AI"
    open_query(other)
    assert other.locator(".cm-content").get_attribute("aria-readonly") == "true"
    (tmp_path / "index.html").write_text(
        f'<iframe src="{address}?embed=1" width="640" height="360"></iframe><iframe src="{address}"></iframe>'
    )
    blog = ThreadingHTTPServer(("localhost", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path))
    with blog, running(blog.serve_forever, blog.shutdown):
        other.goto(f"http://localhost:{blog.server_port}/")
        embedded, refused = other.frame_locator("iframe >> nth=0"), other.frame_locator("iframe >> nth=1")
        embedded.locator(".rows a >> nth=0").wait_for()
        assert embedded.locator("header, #ask").count() == 0
        assert embedded.locator(".embedded a").get_attribute("href") == address.removeprefix(server.url)
        frame = other.locator("iframe >> nth=0").bounding_box()
        ends = [embedded.locator(one).bounding_box() for one in (".rows tr >> nth=-1", ".embedded")]
        assert all(end["y"] + end["height"] <= frame["y"] + frame["height"] for end in ends)
        assert refused.locator(".rows").count() == 0
    page.keyboard.press("Escape")
    assert not page.is_visible(".share")
    page.reload()
    page.click(".foot >> text=Shared")
    assert page.get_attribute(".shared-link", "href") == address
    page.click("text=Unshare")
    page.wait_for_selector("text=No longer shared.")
    assert page.is_visible(".foot summary >> text=/^Share$/")
    assert (other.goto(address).status, looked) == (404, [])
    other.context.close()


def test_where_no_examples_are_known_none_are_announced(page, tmp_path):
    with (
        serving('<http://a.example/1> <http://a.example/of> "x" .') as served,
        Server(web_settings(tmp_path, served.url)) as server,
    ):
        page.goto(server.url)
        page.wait_for_load_state("networkidle")
        assert page.is_visible(".welcome h2")
        assert not page.is_visible("text=Try one of these:")


def test_on_a_phone_the_header_is_two_lines_and_the_rest_opens(page, server):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(server.url)
    page.wait_for_selector(".welcome button")
    assert page.locator("header").bounding_box()["height"] < 100
    assert not page.is_visible("#language")
    page.click("#more > summary")
    box = page.locator("#more .choices").bounding_box()
    assert page.is_visible("#language")
    assert box["x"] + box["width"] <= 390
    page.set_viewport_size({"width": 360, "height": 740})
    ask(page, MARIE)
    wait_for_the_end(page)
    open_steps(page)
    page.click(".foot .menu:last-of-type > summary")
    box = page.locator(".foot .choices:visible").bounding_box()
    assert box["x"] > 360 / 3  # under its own button, the second of a row
    assert box["y"] + box["height"] <= page.locator("#ask").bounding_box()["y"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_page_is_used_by_keyboard_alone(page, server):
    page.goto(server.url)
    page.keyboard.press("Tab")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "question"
    page.keyboard.press("Tab")
    page.keyboard.press("?")
    page.wait_for_selector("#about >> text=Ctrl+Enter runs it")
    assert re.search(r"Wikidata · .* facts \(triples\) · .* wikidata.org · .*CC0", page.inner_text("#about"))
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("Who discovered polonium?")
    page.keyboard.press("Enter")
    wait_for_the_end(page)
    assert page.evaluate("document.activeElement.id") == "question"
    assert page.inner_text("#status").startswith("Answered: Marie Curie")
    page.keyboard.press("ArrowUp")
    assert page.input_value("#question") == "Who discovered polonium?"
    reached = []
    while "Graph" not in reached and len(reached) < 20:  # back from the box for the next question
        page.keyboard.press("Shift+Tab")
        reached.append(page.evaluate("document.activeElement.innerText"))
    assert {"Again or edit", "Download", "Share", "Copy the answer", "Why?"} <= set(reached)
    page.keyboard.press("Enter")
    page.wait_for_selector(".graph canvas >> nth=0")


@pytest.mark.parametrize("width", [1280, 390])
def test_little_moves_under_the_reader_however_slow_the_server_is(page, server, width):
    """Chromium's cumulative layout shift, without what follows a key within half a second."""
    page.set_viewport_size({"width": width, "height": 800})
    page.add_init_script("""window.moved = 0; new PerformanceObserver((list) => list.getEntries().forEach((one) => {
      if (!one.hadRecentInput) window.moved += one.value; })).observe({ type: "layout-shift", buffered: true });""")
    page.route(
        "**/sessions", lambda route: (route.request.method == "POST" and page.wait_for_timeout(600), route.continue_())
    )
    page.goto(server.url)
    page.wait_for_selector(".welcome .example")
    page.click("#question")
    page.keyboard.type(MARIE)
    page.keyboard.press("Enter")
    wait_for_the_end(page)
    assert page.evaluate("window.moved") < 0.1


SENTENCE = "Marie Curie discovered polonium and radium, both of them in 1898."


class Writer(ModelStub):
    """Writes its replies piece by piece, and waits in the middle of the last one until it is told to go on."""

    def __init__(self) -> None:
        super().__init__([])
        self.half, self.go_on = threading.Event(), threading.Event()

    def reply(self, asked: dict[str, Any]) -> Canned:
        done = sum(len(said.get("tool_calls") or ()) for said in asked["messages"])
        steps: list[tuple[str, dict[str, Any]]] = [
            ("execute_query", {"thought": "Ask for what she found.", "query": CURIE}),
            ("finish", {"thought": "Done.", "answer": SENTENCE}),
        ]
        return streamed(calls=[steps[min(done, 1)]], between=self._between)

    def _between(self, so_far: str) -> None:
        if "polonium and" in so_far and not self.go_on.is_set():
            self.half.set()
            self.go_on.wait(60)


def test_the_answer_is_read_while_it_is_written(page, fresh_home):
    with (
        Writer() as model,
        Server(web_settings(fresh_home, model="stub", base_url=model.base_url, temperature=None)) as server,
    ):
        page.goto(server.url)
        page.wait_for_selector(".welcome >> text=A language model (stub) answers from this data.")
        ask(page, MARIE)
        assert model.half.wait(60)
        page.wait_for_selector(".awaited >> text=The language model is writing")
        page.wait_for_selector(".draft >> text=Marie Curie discovered polonium and")
        assert "1898" not in page.inner_text(".draft")
        model.go_on.set()
        wait_for_the_end(page)
        assert page.inner_text(".answer .text") == SENTENCE
        assert page.locator(".draft, .writing").count() == 0


def test_a_lost_server_is_a_banner_that_counts_its_tries(page, held_server):
    server, model = held_server
    page.route("**/api/runs/*/events*", lambda route: route.abort())
    page.goto(server.url)
    ask(page, MARIE)
    page.wait_for_selector(".banner >> text=The connection to the server is lost.")
    page.wait_for_selector(".banner >> text=2 failed tries.")
    page.click("text=Try now")
    page.wait_for_selector(".banner >> text=3 failed tries.")
    page.unroute("**/api/runs/*/events*")
    page.wait_for_selector(".banner", state="detached")
    model.go_on.set()
    wait_for_the_end(page)
    assert page.inner_text(".answer .text") == "Polonium and radium."


def test_what_is_asked_in_mid_run_is_asked_next(page, held_server):
    server, model = held_server
    page.goto(server.url)
    ask(page, MARIE)
    page.wait_for_selector("text=Looks for “Marie Curie”")
    for question in ("A first one?", "Not this one?", "A last one?"):
        ask(page, question)
    assert page.input_value("#question") == ""
    page.click("[aria-label='Do not ask: Not this one?']")
    page.reload()
    assert page.locator("#queue [dir]").all_inner_texts() == ["A first one?", "A last one?"]
    page.wait_for_selector("text=Looks for “Marie Curie”")
    model.go_on.set()
    wait_for_the_end(page, 2)
    assert page.locator(".question").all_inner_texts() == [MARIE, "A first one?", "A last one?"]
    assert page.locator("#queue li").count() == 0
    assert page.inner_text("#send") == "Ask"
