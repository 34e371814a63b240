"""Whole runs over recorded HTTP: the model's endpoint and the knowledge base, as they answered.

The model's replies were written by hand (``tests/agents/scripts``) and served by a local OpenAI-compatible stub; the
knowledge base is the bundled mirror. Requests are matched with their bodies, so that any change of what a model is
shown breaks these tests; ``make cassettes`` records them again.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kbnav.agents.spinach import build_spinach
from kbnav.knowledge.wikidata.kb import WikidataKB, endpoints_of
from kbnav.runs.trajectory import Run
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings

SCRIPTS = Path(__file__).parent / "scripts"
MIRROR, MODEL = "http://127.0.0.1:7878", "http://127.0.0.1:7879/v1"


def script(name: str) -> dict[str, Any]:
    return json.loads((SCRIPTS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, base_url=MODEL, api_key="none", model_retries=0, endpoints=endpoints_of(MIRROR))


@pytest.fixture
def run(request: pytest.FixtureRequest, settings: Settings) -> Iterator[Run]:
    """The run whose script the test names."""
    name = request.node.get_closest_marker("script").args[0]
    own = settings.model_copy(update={"model": name})
    with closing(WikidataKB.by_http(own)) as kb:
        yield ask(build_spinach(kb, own), script(name)["question"])


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
        ("finish", True, "premature finish"),
    ]
    syntax = next(step for step in run.path if step.call.tool == "execute_query")
    assert not syntax.ok
    assert "never closed" in syntax.observation
    assert "LIMIT 1" in run.outcome.query
