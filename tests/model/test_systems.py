"""Every system that asks a model, with a real one over real HTTP: it proves the plumbing, and no accuracy at all."""

import pytest

from kbnav.evaluation.runner import build_system
from kbnav.knowledge.base import KnowledgeBase
from kbnav.runs.trajectory import Run, load_run, save_run
from kbnav.settings.systems import BUILT_IN
from tests.model.served import Served

LETTER = "Which instrument has a love letter hidden in it?"
CURIE = "Which elements were discovered by Marie Curie?"
SMALL = {
    "rerank": {"top_v": 3},
    **{name: {"samples": 1, "initial": 2} for name in ("rar", "agr")},
    "hyde": {"samples": 1},
    "kar": {"samples": 1, "edges": 1, "neighbours": 2},
}
"""Options that make fewer calls; every kind of call is still made."""


ON_AN_SKB = [
    one.name
    for one in BUILT_IN
    if "model" in (*one.needs, *one.uses) and one.fits("skb") and one.name != "agent-retriever"  # it wants programs
]


def asked(name: str, kb: KnowledgeBase, model: Served, question: str, **changes: object) -> Run:
    settings = model.settings(options=SMALL.get(name, {}), **changes)
    attempt = build_system(name, kb, settings).ask(question, {})
    assert attempt.failure is None
    return attempt.run


@pytest.mark.parametrize("name", ON_AN_SKB)
def test_a_system_on_an_skb_comes_to_its_end_and_counts_what_it_asked(name, demo_kb, small_model, tmp_path):
    run = asked(name, demo_kb, small_model, LETTER)
    assert run.outcome.status not in ("failed", "refused")
    assert run.usage.calls >= 1
    assert run.usage.prompt > 50 * run.usage.calls
    assert run.usage.completion >= run.usage.calls
    save_run(run, tmp_path)
    assert load_run(tmp_path / f"{run.id}.json") == run


def test_spinach_on_a_mirror_comes_to_its_end(mini_kb, small_model):
    run = asked("spinach", mini_kb, small_model, CURIE, pruning="model")
    assert run.outcome.status in ("answered", "no answer", "best effort")
    # two actions; words alone are asked for again once, which costs none
    assert len(run.path) + len(run.discarded) in (2, 3)
    assert all(step.observation for step in run.path)  # what a tool said, or what was wrong with the call
    assert run.usage.calls >= 2
