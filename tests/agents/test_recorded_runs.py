"""Whole runs over recorded HTTP: the model's endpoint and the knowledge base, as they answered.

The model's replies were written by hand (``tests/agents/scripts``) and served by a local OpenAI-compatible stub; the
knowledge base is the bundled mirror. Requests are matched with their bodies, so that any change of what a model is
shown breaks these tests; ``make cassettes`` records them again.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kbnav.agents.common.agent import build_agent
from kbnav.answers.tables import Term
from kbnav.knowledge.wikidata.kb import WikidataKB, endpoints_of
from kbnav.runs.trajectory import Run
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings

SCRIPTS = Path(__file__).parent / "scripts"
MIRROR, MODEL = "http://127.0.0.1:7878", "http://127.0.0.1:7879/v1"
LABEL = "[Rests on the model's own word, not on the knowledge base.]"


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    """The run whose script the test names; the first part of its name is the agent, where it is not SPINACH."""
    name = request.node.get_closest_marker("script").args[0]
    question = json.loads((SCRIPTS / f"{name}.json").read_text(encoding="utf-8"))["question"]
    settings = Settings(
        home=tmp_path, base_url=MODEL, api_key="none", model_retries=0, endpoints=endpoints_of(MIRROR), model=name
    )
    system = name.partition("-")[0]
    with closing(WikidataKB.by_http(settings)) as kb:
        yield ask(build_agent(kb, settings, system if system in ("tog", "gog") else "spinach"), question)


def found(run: Run, column: str) -> list[str]:
    at = run.outcome.table.columns.index(column)
    return [row[at].entity_id or row[at].value for row in run.outcome.table.rows if row[at]]


@pytest.mark.vcr
@pytest.mark.script("curie-de")
def test_a_german_question_is_answered_in_german(run):
    assert run.language == "de"
    assert run.outcome.status == "answered"
    assert run.outcome.text == "Marie Curie entdeckte Polonium und Radium, beide im Jahr 1898."
    assert set(found(run, "element")) == {"Q979", "Q1128"}
    assert {value[:4] for value in found(run, "zeit")} == {"1898"}
    assert run.outcome.table.labels["P61"] == "Entdecker oder Erfinder"
    assert run.discarded == ()
    assert run.usage.calls == 5


@pytest.mark.vcr
@pytest.mark.script("wrong-turns")
def test_a_model_that_goes_wrong_is_brought_back(run):
    assert run.outcome.status == "answered"
    assert found(run, "element") == ["Q876"]  # selenium, by Berzelius
    assert found(run, "number") == ["34"]
    told = [(step.call.tool, step.ok, step.dropped) for step in run.steps]
    assert told[:4] == [
        ("(no tool)", False, ""),
        ("search_wikidata", False, ""),
        ("search_entities", True, "rolled back"),
        ("finish", False, "premature finish"),
    ]
    syntax = next(step for step in run.path if step.call.tool == "execute_query")
    assert not syntax.ok
    assert "never closed" in syntax.observation
    assert "LIMIT 1" in run.outcome.query


@pytest.mark.vcr
@pytest.mark.script("tog-curie")
def test_tog_walks_wikidata_and_answers_with_a_table_too(run):
    assert [step.call.tool for step in run.path] == [
        "search_entities", "search_relations", "follow_relations",
        "search_relations", "follow_relations", "finish",
    ]  # fmt: skip
    # Marie Curie was scored above Pierre, so that her relations come first: the fifth is her place of birth.
    assert run.path[3].call.arguments["entity_ids"] == ["Q7186", "Q37463"]
    assert run.path[4].call.arguments == {"ways": [{"entity_id": "Q7186", "relation": "P19", "score": 0.95}]}
    assert (run.outcome.status, run.outcome.text) == ("answered", "She was born in Warsaw.")
    assert [(node.id, node.label) for node in run.outcome.ranking.chosen] == [("Q270", "Warsaw")]
    assert run.outcome.table.rows == ((Term("uri", "http://www.wikidata.org/entity/Q270"),),)
    assert run.outcome.table.labels == {"Q270": "Warsaw"}
    assert run.usage.calls == 8


@pytest.mark.vcr
@pytest.mark.script("gog-curie")
def test_gog_supplies_what_wikidata_lacks_and_says_so(run):
    assert [(step.call.tool, step.dropped) for step in run.steps] == [
        ("search_entities", ""),
        ("search_neighbors", "rolled back"),
        ("finish", "premature finish"),
        ("generate", ""),
        ("finish", ""),
    ]
    assert "Marie Curie (Q7186) -- mother --> Bronisława Skłodowska [generated]" in run.path[1].observation
    assert [(node.id, node.basis) for node in run.outcome.ranking.chosen] == [("Bronisława Skłodowska", "generated")]
    assert run.outcome.text == f"{LABEL} Her mother was Bronisława Skłodowska."
    assert "facts that the model generated and the knowledge base does not have" in run.outcome.note
