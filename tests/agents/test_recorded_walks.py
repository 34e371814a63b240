"""ToG and GoG on Wikidata over recorded HTTP: see test_recorded_runs.py for how the recordings are made."""

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
    """The run whose script the test names; the agent is the first part of its name."""
    name = request.node.get_closest_marker("script").args[0]
    question = json.loads((SCRIPTS / f"{name}.json").read_text(encoding="utf-8"))["question"]
    settings = Settings(
        home=tmp_path, base_url=MODEL, api_key="none", model_retries=0, endpoints=endpoints_of(MIRROR), model=name
    )
    with closing(WikidataKB.by_http(settings)) as kb:
        yield ask(build_agent(kb, settings, name.partition("-")[0]), question)


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
    assert run.outcome.ranking is not None
    assert [(node.id, node.label) for node in run.outcome.ranking.chosen] == [("Q270", "Warsaw")]
    assert run.outcome.table is not None
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
    assert run.outcome.ranking is not None
    assert [(node.id, node.basis) for node in run.outcome.ranking.chosen] == [("Bronisława Skłodowska", "generated")]
    assert run.outcome.text == f"{LABEL} Her mother was Bronisława Skłodowska."
    assert "facts that the model generated and the knowledge base does not have" in run.outcome.note
