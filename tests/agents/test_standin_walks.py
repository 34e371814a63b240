"""The agents that walk along links run to their end with the stand-in, which reads back what their prompts hold."""

from __future__ import annotations

import pytest

from kbnav.agents.common.walking import asker
from kbnav.agents.gog import gog_with
from kbnav.agents.pasemiqa import pasemiqa_with
from kbnav.agents.rog import rog_with
from kbnav.agents.tog import tog_with
from kbnav.models.calls import ModelCalls
from kbnav.models.standin import NAME, StandIn, answer
from kbnav.planning.planners import InContext
from kbnav.prompts import render
from kbnav.sessions.session import ask
from tests.agents.walkers import OWNED, OWNED_IN, Given, settings


@pytest.mark.parametrize(
    ("system", "expected"),
    [("pasemiqa", ["h2"]), ("rog", ["h2", "h1", "h3"]), ("tog", None), ("gog", None)],
)
def test_each_agent_ends_with_nodes_that_the_graph_shows(village, tmp_path, system, expected):
    model = StandIn()
    own, by = settings(tmp_path), asker(ModelCalls(model, NAME))
    agent = {
        "pasemiqa": lambda: pasemiqa_with(model, by, None, village, own, Given((OWNED, OWNED_IN))),
        "rog": lambda: rog_with(by, None, village, own, Given((OWNED,))),
        "tog": lambda: tog_with(by, None, village, own),
        "gog": lambda: gog_with(model, by, None, village, own),
    }[system]()
    run = ask(agent, "Which houses do Ann Reed and Bob Lisk owns?")
    assert (run.outcome.status, run.outcome.stop) == ("answered", "finish")
    assert run.discarded == ()
    assert run.outcome.ranking is not None
    chosen = [node.id for node in run.outcome.ranking.chosen]
    if system == "pasemiqa":
        assert chosen[:1] == expected  # both names lead to it
    elif expected:
        assert sorted(chosen) == sorted(expected)
        assert chosen[:1] == expected[:1]
    else:
        assert "h2" in chosen


def test_it_supplies_no_facts_and_knows_no_answers():
    facts = render(
        "walking/generate.md", question="Who?", request="Who built it?", known=["- a -- b --> c"], documents=[], most=3
    )
    assert answer(facts) == "unknown"
    assert answer(render("tog/recall.md", demonstrations=(), question="Who?", known=[])) == "unknown"


def test_it_scores_by_shared_words_and_keeps_within_the_number_asked_for():
    lines = [("Ann", "owns"), ("Ann", "painted"), ("Ann", "born in")]
    prompt = render(
        "tog/relations.md", demonstrations=(), question="What has Ann painted?", known=[], relations=lines, most=2
    )
    said = answer(prompt).splitlines()
    assert len(said) == 2
    assert said[0] == "2: 1.00"


def test_asked_for_a_plan_it_takes_the_paths_of_the_schema_that_share_most_words_with_the_question(village):
    planner = InContext(village.skb, ModelCalls(StandIn(), NAME))
    plan = planner.plan("In which town is a house located that Ann Reed painted?", ["p1"])
    assert [str(hop) for hop in plan.paths[0].hops] == ["painted", "located_in"]
    assert plan.paths[0].types == ("person", "house", "town")
    assert plan.notes == ()  # all are paths of the schema
    assert planner.plan("Which town?", []).paths[0].is_text
