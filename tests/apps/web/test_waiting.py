"""What a reader sees while a question is answered: what is awaited, the words as they come, a server that is lost."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tests.apps.web.parts import CURIE, Server, web_settings
from tests.apps.web.test_page import MARIE, ask, held_server, wait_for_the_end
from tests.models.stub import Canned, ModelStub, streamed

if TYPE_CHECKING:
    pass

__all__ = ["held_server"]
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


def test_it_says_what_is_awaited_and_for_how_many_seconds(page, held_server):
    server, model = held_server
    page.goto(server.url)
    ask(page, MARIE)
    page.wait_for_selector(".awaited >> text=Waiting for stub")
    page.wait_for_selector(".awaited .time >> text=1 s")
    page.reload()
    page.wait_for_selector(".awaited >> text=Waiting for stub")
    page.wait_for_selector(".awaited .time >> text=2 s")  # it counts from when it began
    model.go_on.set()
    wait_for_the_end(page)
    assert not page.is_visible(".awaited")


def test_the_answer_is_read_while_it_is_written(page, fresh_home):
    with (
        Writer() as model,
        Server(web_settings(fresh_home, model="stub", base_url=model.base_url, temperature=None)) as server,
    ):
        page.goto(server.url)
        ask(page, MARIE)
        assert model.half.wait(60)
        page.wait_for_selector(".awaited >> text=stub is writing")
        page.wait_for_selector(".draft >> text=Marie Curie discovered polonium and")
        assert "1898" not in page.inner_text(".draft")
        model.go_on.set()
        wait_for_the_end(page)
        assert page.inner_text(".answer .text") == SENTENCE
        assert page.locator(".draft, .writing").count() == 0
        page.reload()
        wait_for_the_end(page)
        assert page.inner_text(".answer .text") == SENTENCE


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
    page.wait_for_selector("text=Who is she?")
    for question in ("A first one?", "Not this one?", "A last one?"):
        ask(page, question)
    assert page.input_value("#question") == ""
    page.click("[aria-label='Do not ask: Not this one?']")
    page.reload()
    assert page.locator("#queue [dir]").all_inner_texts() == ["A first one?", "A last one?"]
    page.wait_for_selector("text=Who is she?")
    model.go_on.set()
    wait_for_the_end(page, 2)
    assert page.locator(".question").all_inner_texts() == [MARIE, "A first one?", "A last one?"]
    assert page.locator("#queue li").count() == 0
    assert page.inner_text("#send") == "Ask"
