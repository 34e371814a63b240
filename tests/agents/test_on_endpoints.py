"""SPINACH on a SPARQL endpoint: its tools, its prompt, and the answer in the endpoint's own names."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.agents.common.agent import Agent
from kbnav.agents.spinach import spinach_with
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.models.scripted import ScriptedModel, says
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import serving

QUESTION = "Which suppliers of lamps are in France?"
QUERY = 'SELECT DISTINCT ?s { ?p a shop:Lamp ; shop:hasSupplier ?s . ?s shop:country "France" }'


@pytest.fixture
def company(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with serving(COMPANY) as served, open_kb(Settings(kb=served.url, home=tmp_path)) as kb:
        yield kb


def scripted(kb: KnowledgeBase, tmp_path: Path, *replies: object, **settings: object) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(replies=list(replies))
    return spinach_with(model, None, kb, Settings(home=tmp_path, model="scripted", **settings)), model


def test_a_question_is_answered_with_the_tools_in_the_words_of_rdf(company, tmp_path):
    agent, model = scripted(
        company,
        tmp_path,
        says(("search_entities", {"query": "lamp"}), ("get_entry", {"entity_id": "shop:Lamp"})),
        says(("get_property_examples", {"property_id": "shop:hasSupplier"})),
        says(("search_neighbors", {"entity_id": "data:s1", "query": "desk lamp"})),
        says(("execute_query", {"query": QUERY})),
        says(("finish", {"answer": "Lumen & Söhne."})),
    )
    run = ask(agent, QUESTION)
    assert (run.outcome.status, run.outcome.text) == ("answered", "Lumen & Söhne.")
    assert run.outcome.query == f"PREFIX shop: <http://shop.example/vocab/>\n{QUERY}"
    shown = {(step.call.tool, str(step.call.arguments.get("query", ""))): step.observation for step in run.path}
    assert "Lamp (shop:Lamp): class; 2 members" in shown["search_entities", "lamp"]
    entry = shown["get_entry", ""]
    assert "supplier (shop:hasSupplier): all, up to 2 each; Supplier (shop:Supplier)" in entry
    assert "^fits (shop:fits): comes in once from Product (shop:Product)" in entry
    assert "shop:hasSupplier is used 4 times." in shown["get_property_examples", ""]
    assert shown["search_neighbors", "desk lamp"].splitlines()[0].startswith("Desk Lamp 12 (data:p1) -- supplier")
    assert "data:s1 (Lumen & Söhne)\nResult 1: 1 row." in shown["execute_query", QUERY]


def test_the_prompt_tells_of_the_endpoint_and_not_of_wikidata(company, tmp_path):
    agent, model = scripted(company, tmp_path, says(("finish", {"no_answer": True})))
    ask(agent, QUESTION)
    prompt = model.seen[0][0].text
    assert "shop: <http://shop.example/vocab/>" in prompt
    assert "Supplier (shop:Supplier) is a class with 3 direct members; " in prompt
    for word in ("Wikidata", "wdt:", "P31", "Q42"):
        assert word not in prompt
        assert word not in str(agent.toolbox.schemas)


def test_an_id_that_nobody_has_shown_and_the_endpoint_lacks_is_named(company, tmp_path):
    query = "SELECT ?s { ?s shop:supplies ?p ; shop:country ?c }"
    agent, _ = scripted(company, tmp_path, says(("execute_query", {"query": query})))
    observation = ask(agent, QUESTION).path[0].observation
    assert observation.startswith("(Unknown here: shop:supplies; search for the names.)\n")
    assert "nothing here has shop:supplies" in observation


def test_the_papers_own_agent_is_for_wikidata(company, tmp_path):
    with pytest.raises(UsageError, match="for Wikidata"):
        scripted(company, tmp_path, options={"preset": "paper"})
