"""How a question was read, in a real browser: by rules."""

import re
from types import SimpleNamespace

import pytest

from kbnav.apps.web.routes import explore as made_examples
from kbnav.knowledge.sparql.verbalization import verbalize
from kbnav.models.cancellation import Cancellation
from kbnav.settings.model import Settings
from tests.apps.web.parts import Server, Visit, web_settings
from tests.apps.web.test_page import MARIE, ask, ask_and_wait, wait_for_the_end
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import serving
from tests.knowledge.skb.sources import small_skb
from tests.models.stub import ModelStub, completion

TOO_MUCH = "Who is the husband of Marie Curie's favourite former colleague?"
PART = "only a part of Wikidata"


def test_words_that_are_left_over_are_named_and_the_question_is_declined(page, server):
    ask_and_wait(page, server, TOO_MUCH)
    assert page.inner_text(".answer .head") == "No answer was found."
    assert page.locator(".rows").count() == 0
    assert "“favourite”, “former”, “colleague”" in page.inner_text(".answer .note")
    assert page.locator(".doubt").count() == 0  # the same words


@pytest.mark.parametrize(
    ("question", "nearest", "answer"),
    [
        ("hello", "What is the atomic number of tungsten?", "74"),
        ("Who is the president of France?", "What is the capital of France?", "Paris"),
        ("How tall is Marie Curie?", "How many elements were discovered by Marie Curie?", "2"),
    ],
)
def test_a_question_that_leads_to_nothing_is_followed_by_the_three_nearest(page, server, question, nearest, answer):
    ask_and_wait(page, server, question)
    page.wait_for_selector(".answer .example")
    assert "a copy of 199 things with names, November 1, 2026" in page.inner_text(".answer .holds")
    assert page.locator(".answer .example").count() == 3
    page.click(f".answer .example >> nth=0 >> text={nearest}")
    page.wait_for_selector(f".run:nth-of-type(2) .answer .rows td >> text={answer}")


def test_other_ways_to_answer_need_nothing_that_is_not_there(page, server):
    ask_and_wait(page, server, "Which person was born in Little Mew?", "demo")
    others = [one.partition(" ")[0].rstrip(":") for one in page.locator(".other option").all_text_contents()]
    assert others == ["Answer", "bm25", "vss", "multi-vss", "prf", "graph-rank"]


@pytest.mark.parametrize(
    ("said", "told"),
    [("Which Curie do you mean?", []), ("She is not here.", [PART])],
    ids=["no failure", "not here"],
)
def test_a_question_that_is_asked_back_is_no_failure_and_what_is_not_here_may_be_elsewhere(
    page, fresh_home, said, told
):
    looked = ("execute_query", {"thought": "Who?", "query": "SELECT ?x { ?x wdt:P18 wd:Q7186 }"})
    back = ("finish", {"thought": "Two.", "no_answer": True, "answer": said})
    with (
        ModelStub([completion(None, [one]) for one in (looked, looked, back)]) as model,
        Server(web_settings(fresh_home, "mini", model="stub", base_url=model.base_url)) as server,
    ):
        ask_and_wait(page, server, "When was Curie born?")
    assert page.inner_text(".answer .text") == said
    assert page.locator(".answer .head, .answer .part").all_inner_texts() == told
    assert page.locator(".sparql").count() == len(told)


HELPERS = "@prefix v: <urn:v:> . [] a v:Extent . [] a v:Extent . [] a v:Extent . [] a v:Extent . <urn:o> a v:Offer ."


def test_examples_are_made_of_an_endpoint_and_of_an_skb_and_are_answered(fresh_home, tmp_path):
    nodes = [{"id": "1", "type": "person", "name": "Ann Reed"}, {"id": "2", "type": "town", "name": "Coldwick"}]
    place = small_skb(tmp_path, nodes, [("1", "born in", "2")], sparql=True).place
    with serving(COMPANY, HELPERS) as shop, Server(web_settings(fresh_home, str(place), shop.url)) as server:
        visit = Visit(server.url)
        town, store = (one["key"] for one in visit("GET", "/api/options").json()["kbs"])
        assert visit("GET", f"/api/examples/{town}").json() == ["Who was born in Coldwick?"]
        made = visit("GET", f"/api/examples/{store}").json()
        lamps = ["What is the supplier of Floor Lamp?", "How many Lamps are there?"]
        assert made == ["How many Suppliers are there?", *lamps]
        assert visit("GET", f"/api/examples/{store}").json() == made  # kept
        for kb, question in ((town, "Who was born in Coldwick?"), (store, made[0])):
            answer = visit.answered(visit.session(kb=kb), question)["answer"]
            assert (answer["status"], answer["understood"]["unused"]) == ("answered", [])


@pytest.mark.parametrize(
    ("relation", "made"),
    [
        ("cites", []),
        ("members of", []),
        ("has address", ["What is the address of Red Moon?"]),
        ("lives in", ["Which book lives in B?"]),
        ("part of", ["Which book is part of B?"]),
        ("associated with", ["Which book is associated with B?"]),
        ("located in the area", []),
        ("office held by head of government", []),
    ],
)
def test_examples_are_made_of_relations_that_make_a_sentence(relation, made):
    assert made_examples._asked("book", relation, "Red Moon", "B") == made


def test_examples_are_made_again_after_a_failure_alone(monkeypatch):
    served = SimpleNamespace(kb=None, key="x", settings=Settings(), asking=lambda *_: Settings())
    monkeypatch.setattr(made_examples, "usual_agent", lambda kb: "")
    monkeypatch.setattr(made_examples, "build_agent", lambda kb, settings: settings)
    monkeypatch.setattr(made_examples, "_questions", lambda kb: iter([[]] * kb))
    service = SimpleNamespace(examples={}, ending=Cancellation())
    with pytest.raises(TypeError):  # of no questions
        made_examples.examples_of(service, served).result(10)
    served.kb = 20
    again = made_examples.examples_of(service, served)
    assert again.result(10) == []
    assert made_examples.examples_of(service, served) is again


def test_a_card_says_what_an_entity_is(page, server):
    ask_and_wait(page, server, MARIE)
    page.hover(".rows a >> nth=0")
    page.wait_for_selector(".card >> text=atomic number")
    assert page.locator(".card dt").first.inner_text() == "instance of"
    assert page.locator(".card dd").first.inner_text().startswith("chemical element")
    assert page.inner_text(".card strong") == "polonium"
    page.keyboard.press("Escape")
    assert page.locator(".card").count() == 0
    page.focus(".rows a >> nth=1")
    page.wait_for_selector(".card >> text=radium")


@pytest.mark.parametrize(
    ("question", "cell", "why"),
    [
        (
            "Is Paris the capital of Germany?",
            "Not stated here",
            "This copy is a part only: what is asked for may be missing here.",
        ),
        ("Was Henry Cavendish ever married?", "No", "It is stated that there is none."),
    ],
)
def test_what_a_copy_only_lacks_is_not_denied_and_of_which_copy_it_is(page, server, question, cell, why):
    ask_and_wait(page, server, question)
    assert page.inner_text(".rows tbody td >> nth=0") == cell
    assert not page.is_visible(".answer .text")
    assert page.locator(".absent strong").all_inner_texts() == [why]
    assert re.search(r"copy of 199 things with names, \w+ 1, 2026", page.inner_text(".answer .origin"))


def test_what_is_said_of_a_typed_query_is_open_but_in_english_alone_it_is_closed(page, server):
    page.goto(server.url)
    ask(page, "ASK { wd:Q7186 wdt:P36 wd:Q979 }")
    page.wait_for_selector(".absent")
    assert "Marie Curie" in page.inner_text(".absent [lang=en]")
    page.select_option("#languages select", "de")
    page.wait_for_selector("html[lang=de] .absent")
    assert not page.is_visible(".absent [lang=en]")


@pytest.mark.parametrize(
    ("question", "box"),
    [
        ("Which elements were discovered by happy Marie Curie?", ["Not used of your question: “happy”", PART]),
        ("Which city has the largest population?", ["Only 3 of 12 have “population” here; others are left out.", PART]),
        ("In which year was Marie Curie born?", [PART]),
        ("How many elements were discovered by Marie Curie?", [PART]),
    ],
)
def test_what_speaks_against_an_answer_stands_above_it_and_below_each_that_the_copy_is_a_part(
    page, server, question, box
):
    ask_and_wait(page, server, question)
    assert page.locator(".doubt p, .origin .part").all_inner_texts() == box
    assert page.locator(".doubt ~ .text").count() == len(box) - 1
    assert page.locator(".read > p").count() == 1
    depends = any(word in question for word in ("largest", "How many"))
    assert page.locator(".words > .part:visible").count() == depends


@pytest.mark.parametrize(
    ("query", "short"),
    [
        ("?x wdt:P61 ?y FILTER NOT EXISTS { ?y wdt:P20 ?w }", "P61 of [x]: [y]; there is no such: P20 of [y]: [w]"),
        ("?x wdt:P61 ?y MINUS { ?y wdt:P20 ?w }", "P61 of [x]: [y]; left out is what fits this: P20 of [y]: [w]"),
        ("GRAPH wd:Q1 { ?x wdt:P19 ?z } FILTER(!BOUND(?z))", "in the graph Q1: P19 of [x]: [z]; …; [z] is not known"),
        (f"?x wdt:P1 'a', '{'b ' * 99}' FILTER(!BOUND(?z))", "P1 of [x]: “a”; …; [z] is not known"),
        ("wd:Q1 p:P166 ?s . ?s ps:P166 wd:Q2 ; pq:P585 ?answer", "P166 of Q1: Q2; P585"),
    ],
)
def test_what_a_query_denies_is_in_its_short_form(page, server, query, short):
    page.goto(server.url)
    words = verbalize(f"SELECT ?x {{ {query} }}", {}).to_document()
    read = page.evaluate("async (words) => (await import('/static/readings.js')).inWords(words)", words)
    assert read == short


@pytest.mark.parametrize(
    ("question", "read", "shown"),
    [
        ("Which countries are in Europe?", "country or a subclass of it; answer is linked in any way to Europe", ""),
        (
            "Which element has the lowest atomic number?",
            "atomic number of answer: value; Sorted by value; Only the first row",
            ".text >> text=hydrogen (1)",
        ),
        ("Is Paris the capital of France?", "capital of France: Paris", ".single >> text=Yes"),
        ("In which year was radium discovered?", "time of discovery or invention of radium", ".single >> text=1898"),
        ("Who discovered iron?", "inventor of iron", ".single td >> text=It is stated that this is not known."),
        (
            "Who was the wife of Henry Cavendish?",
            "spouse of Henry Cavendish",
            ".text >> text=It is stated that there is none.",
        ),
        (
            "What is the coordinate location of Warsaw?",
            "coordinate location of Warsaw",
            ":has(.pin) > .words >> text=/^52.2\\d+°.N, 21/",
        ),
        (
            "What is the population of Berlin?",
            "population of Berlin",
            ".found:has(.single) > [data-said] >> text=: Dec 31, 2014",
        ),
    ],
)
def test_how_rules_read_a_question_stands_below_its_answer_and_one_value_stands_there_once(
    page, server, question, read, shown
):
    ask_and_wait(page, server, question)
    line = page.inner_text(".read > p")
    assert (line.startswith("Read as: "), line.endswith(read), len(line) < 160) == (True, True, True)
    assert page.is_visible(".answer .text") == (".single" not in shown)
    if shown:
        page.wait_for_selector(shown)


def test_a_box_says_from_which_question_a_follow_up_goes_on_where_the_last_was_not_answered(page, server):
    page.goto(server.url)
    told = []
    for place, question in enumerate(("hello", MARIE, "hello")):
        ask(page, question)
        wait_for_the_end(page, place)
        told.append(page.get_attribute("#question", "placeholder"))
    assert told == ["Ask another question", "Ask a follow-up", f"Go on from “{MARIE}”"]
