"""Several knowledge bases in one question: looked in one, then the other, joined by SERVICE, and named throughout."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.agents.common.agent import build_agent
from kbnav.agents.spinach import spinach_with
from kbnav.apps.console import asked_words
from kbnav.apps.texts import Texts
from kbnav.errors import BadArguments, QueryRefused, UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.several import SeveralKB
from kbnav.library.asking import open as open_named
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Run, load_run, saved_runs
from kbnav.sessions.evidence import run_evidence
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import serving

PLACES = """
@prefix geo: <http://places.example/vocab/> . @prefix at: <http://places.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
geo:Country a rdfs:Class ; rdfs:label "Country"@en .
geo:capital a <http://www.w3.org/1999/02/22-rdf-syntax-ns#Property> ; rdfs:label "capital"@en .
at:fr a geo:Country ; rdfs:label "France"@en ; geo:capital at:paris .
at:de a geo:Country ; rdfs:label "Germany"@en ; geo:capital at:berlin .
at:es a geo:Country ; rdfs:label "Spain"@en ; geo:capital at:madrid .
at:paris rdfs:label "Paris"@en . at:berlin rdfs:label "Berlin"@en . at:madrid rdfs:label "Madrid"@en .
"""
SUPPLIERS = 'SELECT ?s { ?s a shop:Supplier ; shop:country "France" }'
CAPITAL = "SELECT ?c { at:fr geo:capital ?c }"
QUESTION = "What is the capital of the country of Lumen & Söhne?"


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    prefixes = {"at": "http://places.example/", "geo": "http://places.example/vocab/"}
    with serving(COMPANY) as company, serving(PLACES) as places:
        sparql = {"company": {"url": company.url}, "places": {"url": places.url, "prefixes": prefixes}}
        yield Settings(kb=["company", "places"], sparql=sparql, home=tmp_path)  # type: ignore[arg-type]


@pytest.fixture
def both(settings: Settings) -> Iterator[KnowledgeBase]:
    with open_kb(settings) as kb:
        yield kb


def scripted(kb: KnowledgeBase, settings: Settings, *replies: object) -> tuple[Run, ScriptedModel]:
    model = ScriptedModel(replies=list(replies))
    agent = spinach_with(model, None, kb, settings.model_copy(update={"model": "scripted"}))
    return ask(agent, QUESTION), model


def test_a_question_is_answered_by_looking_in_one_and_then_in_the_other(both, settings):
    run, model = scripted(
        both,
        settings,
        says(("search_entities", {"query": "Lumen", "kb": "company"})),
        says(("search_entities", {"query": "France"})),
        says(("execute_query", {"query": SUPPLIERS, "kb": "company"})),
        says(("execute_query", {"query": CAPITAL, "kb": "places"})),
        says(("finish", {"answer": "Paris."})),
    )
    named, everywhere, suppliers, capital, _ = (step.observation for step in run.path)
    assert named.startswith("From company:\n")
    assert "data:s1" in named
    assert "From places:\nFrance (at:fr)" in everywhere
    assert suppliers.startswith("From company:\n")
    assert "Result 1: 2 rows" in suppliers
    assert capital.startswith("From places:\n")
    assert "at:paris (Paris)" in capital
    assert (run.outcome.status, run.outcome.text, run.outcome.note) == ("answered", "Paris.", "From places.")
    assert run.outcome.query.startswith("# kb: places\nPREFIX ")
    assert both.execute_query(run.outcome.query).rows == run.outcome.table.rows
    assert set(run.kb["kbs"]) == {"company", "places"}
    assert run.kb["kbs"]["places"]["url"] == settings.sparql["places"].url
    assert load_run(saved_runs(settings.home / "runs")[0]).kb == run.kb
    prompt = model.seen[0][0].text
    assert "shop: <http://shop.example/vocab/>" in prompt
    assert "Country (geo:Country) 3" in prompt
    assert f"join with places by SERVICE <{settings.sparql['places'].url}>" in prompt


def test_one_query_text_on_two_is_two_results_and_finish_takes_the_one_named(both, settings):
    query = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
    run, _ = scripted(
        both,
        settings,
        says(("execute_query", {"query": query, "kb": "company"})),
        says(("execute_query", {"query": query, "kb": "places"})),
        says(("show_rows", {"result": 1})),
        says(("finish", {"result": 1, "answer": "So many."})),
    )
    of = [next(step for step in run.path if step.call.arguments.get("kb") == name) for name in ("company", "places")]
    assert of[0].observation != of[1].observation
    assert run.outcome.note == "From company."
    assert run.outcome.table.rows[0][0].value in of[0].observation
    assert run.outcome.table.rows[0][0].value in run.path[2].observation


CAPITALS = """SELECT ?s ?c { ?land <http://www.w3.org/2000/01/rdf-schema#label> ?l ; geo:capital ?c .
FILTER(STR(?l) = ?country) }"""


@pytest.mark.parametrize("limit", ["", "\nLIMIT 9"])  # which is left out, and the query run anew
def test_rows_of_one_are_taken_up_by_a_query_to_the_other(both, settings, limit):
    countries = "SELECT ?s ?country { ?s a shop:Supplier ; shop:country ?country }"
    run, _ = scripted(
        both,
        settings,
        says(  # a join beside the query of its rows waits for these
            ("execute_query", {"query": countries, "kb": "company"}),
            ("join_results", {"query": "SELECT ?c { ?land geo:capital ?c }", "result": 1, "kb": "places"}),
        ),
        says(("join_results", {"query": CAPITALS, "result": 7, "kb": "places"})),
        says(("join_results", {"query": CAPITALS + limit, "result": 1, "kb": "places"})),
        says(("finish", {"answer": "Paris and others."})),
    )
    no_column, no_result, joined = (step for step in run.path if step.call.tool == "join_results")
    assert not no_column.ok
    assert "?s, ?country" in no_column.observation
    assert not no_result.ok
    assert joined.result == 4
    note = joined.observation.splitlines()[1]  # which says where the rows are from, and by which query
    assert note.startswith("?s, ?country are of result 1, from company (3 rows of `SELECT ?s ?country")
    assert note.endswith("from places.")
    assert note in run.outcome.note
    assert asked_words(run, Texts("en")) == "from: places, company"
    behind = run_evidence(both, run)
    assert not behind.failed
    for (supplier, capital), told in zip(run.outcome.table.rows, behind.rows, strict=True):
        assert any(one.subject == supplier and one.property.endswith("country") for one in told)
        assert capital in {one.value for one in told}
    assert "Lumen & Söhne" in {run.outcome.table.label(supplier) for supplier, _ in run.outcome.table.rows}
    known = {"France": "paris", "Germany": "berlin", "Spain": "madrid"}
    rows = both.execute_query(f"# kb: company\n{countries}").rows
    expected = {(s.value, f"http://places.example/{known[name.value]}") for s, name in rows if name.value in known}
    assert {(s.value, c.value) for s, c in run.outcome.table.rows} == expected
    assert len(expected) > 1
    assert both.execute_query(run.outcome.query).rows == run.outcome.table.rows  # it says all by itself


def test_a_join_of_a_join_names_every_source(both, settings):
    countries = "SELECT ?s ?country { ?s a shop:Supplier ; shop:country ?country }"
    run, _ = scripted(
        both,
        settings,
        says(("execute_query", {"query": countries, "kb": "company"})),
        says(("join_results", {"query": CAPITALS, "result": 1, "kb": "places"})),
        says(("join_results", {"query": "SELECT ?c { ?land geo:capital ?c }", "result": 2, "kb": "places"})),
        says(("finish", {"answer": "Paris and others."})),
    )
    assert asked_words(run, Texts("en")) == "from: places, company"
    behind = run_evidence(both, run)
    assert behind.untold == ("company: the answer has none of its columns",)
    assert "country" not in "".join(one.property for told in behind.rows for one in told)


def test_many_rows_are_taken_up_in_batches(settings, tmp_path):
    items = "".join(f'<http://s.example/{n}> <http://s.example/number> "{n}" .\n' for n in range(1_200))
    prices = "".join(f'<http://p.example/{n}> <http://p.example/of> "{n}" .\n' for n in range(0, 2_400, 2))
    with serving(items) as one, serving(prices) as other:
        settings = Settings(
            kb=["one", "other"], sparql={"one": {"url": one.url}, "other": {"url": other.url}}, home=tmp_path
        )
        numbers = "SELECT ?n { ?s <http://s.example/number> ?n }"
        priced = "SELECT DISTINCT ?n { ?p <http://p.example/of> ?n }"
        counted = "SELECT (COUNT(?p) AS ?many) { ?p <http://p.example/of> ?n }"
        with open_kb(settings) as kb:
            run, _ = scripted(
                kb,
                settings,
                says(("execute_query", {"query": numbers, "kb": "one"})),
                says(("join_results", {"query": counted, "result": 1, "kb": "other"})),
                says(("join_results", {"query": priced, "result": 1, "kb": "other"})),
                says(("finish", {"answer": "Half."})),
            )
    assert "1200 rows, too many to be taken up by a query with COUNT" in run.path[1].observation
    assert {int(n.value) for (n,) in run.outcome.table.rows} == set(range(0, 1_200, 2))


def test_a_query_joins_the_two_by_service(both, settings):
    url = settings.sparql["places"].url
    query = (
        "PREFIX geo: <http://places.example/vocab/> SELECT ?c { data:s1 shop:country ?name . "
        f"SERVICE <{url}> {{ ?land <http://www.w3.org/2000/01/rdf-schema#label> ?label ; geo:capital ?c }} "
        "FILTER(STR(?label) = ?name) }"
    )
    table = both.execute_query(f"# kb: company\n{query}")
    assert [row[0].value for row in table.rows] == ["http://places.example/paris"]
    elsewhere = query.replace(url, "http://elsewhere.example/sparql")
    with pytest.raises(QueryRefused, match=r"elsewhere\.example"):
        both.execute_query(f"# kb: company\n{elsewhere}")


def test_a_query_needs_a_name_and_a_wrong_one_is_told_with_those_there_are(both, settings):
    with pytest.raises(BadArguments, match="one of company, places"):
        both.execute_query(CAPITAL)
    run, _ = scripted(
        both,
        settings,
        says(("execute_query", {"query": CAPITAL})),
        says(("execute_query", {"query": CAPITAL, "kb": "shop"})),
    )
    seen = [step.observation for step in run.steps if step.call.tool == "execute_query"]
    assert "kb: Field required" in seen[0]
    assert "'company' or 'places'" in seen[1]


def test_the_rules_answer_from_the_first_that_knows_and_say_which_it_was(settings):
    for question, answer, kb in [
        ("Which suppliers are in France?", "Lumen & Söhne", "company"),
        ("What is the capital of Germany?", "Berlin", "places"),
    ]:
        with open_kb(settings) as both:
            run = ask(build_agent(both, settings), question)
        assert run.outcome.status == "answered", [step.observation for step in run.steps]
        assert run.outcome.note.startswith(f"From {kb}.")
        assert answer in run.outcome.text
        assert run.path[-1].call.thought.startswith(f"{kb} answers: ")
    with open_kb(settings) as both:
        none = ask(build_agent(both, settings), "Who is the supplier of Xanadu?").outcome
    assert (none.status, "company: " in none.note, "places: " in none.note) == ("no answer", True, True)


def test_entries_say_where_they_are_from_in_python_too(settings):
    with open_named("company", "places", settings=settings) as kb:
        assert kb.name == "company + places"
        assert {one.source for one in kb.search("France")} == {"places"}
        assert kb.entry("at:fr").entity.source == "places"
        assert isinstance(kb.base, SeveralKB)


def test_a_mirror_and_an_endpoint_say_that_the_mirror_joins_nothing(settings, mini_home):
    chosen = settings.model_copy(update={"kb": "mini + places", "home": mini_home})
    with open_kb(chosen) as kb:
        assert kb.unreachable("mini", "places") == "mini is on this machine and asks no other"
        assert kb.unreachable("places", "mini") == "mini has no address that others could ask"
        run, model = scripted(
            kb, chosen, says(("get_entry", {"entity_id": "Q7186"})), says(("finish", {"no_answer": True}))
        )
    assert run.steps[0].observation.startswith("From mini:\nMarie Curie")
    assert "A query here cannot join with places (mini is on this machine" in model.seen[0][0].text


def test_a_system_for_one_knowledge_base_says_which_asks_several(both, settings):
    with pytest.raises(UsageError, match="one-query asks one knowledge base: name one, or take spinach"):
        build_agent(both, settings.model_copy(update={"model": "gpt-4o"}), "one-query")
