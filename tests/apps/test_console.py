"""What programs are told of an answer."""

import json
from dataclasses import replace
from pathlib import Path

from kbnav.agents.common.agent import build_agent
from kbnav.apps.console import answer_json
from kbnav.knowledge.base import KnowledgeBase
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings


def test_an_answer_whose_query_cannot_be_read_is_told_with_the_query_as_it_is(mini_kb: KnowledgeBase, tmp_path: Path):
    run = ask(build_agent(mini_kb, Settings(home=tmp_path, language="en")), "Who discovered polonium?")
    told = json.loads(answer_json(run, "https://query.example/#"))
    assert "P61: discoverer or inventor" in told["query_labelled"]
    query = 'SELECT ?who { ?who rdfs:label "never closed }'
    told = json.loads(answer_json(replace(run, outcome=replace(run.outcome, query=query)), "https://query.example/#"))
    assert (told["answer"], told["query"], told["query_labelled"]) == ("Marie Curie, Pierre Curie", query, query)
