"""What can become of one call of a model, at a real server; and every system that asks one comes to its end."""

import threading
from collections.abc import Iterator

import pytest

from kbnav.agents.common.agent import build_agent
from kbnav.agents.common.policy import ChatPolicy, parse_calls
from kbnav.agents.common.state import start
from kbnav.errors import PromptTooLong, ServiceError, Stopped
from kbnav.evaluation.runner import build_system
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.chat import ask, invoke, open_chat_model
from kbnav.runs.trajectory import Call, Run, Step, load_run, save_run
from kbnav.settings.model import Budget
from kbnav.settings.systems import BUILT_IN
from kbnav.tools.toolbox import Toolbox
from tests.agents.parts import NumbersKB, execute_query, finish, look
from tests.ending import until
from tests.model.served import Served, served
from tests.models.stub import cancellation
from tests.models.test_chat import context

LONG = "Write down every whole number from one to ten thousand, in words."


@pytest.fixture(scope="module")
def talkative() -> Iterator[Served]:
    """The model without tools, whose replies are long and one at a time."""
    with served(context=8192, at_once=1, reply=8000, tools=False) as one:
        yield one


@pytest.fixture(scope="module")
def terse() -> Iterator[Served]:
    """The model with tools, whose replies are cut off after a few tokens."""
    with served(context=2560, at_once=1, reply=12) as one:
        yield one


def policy_for(model: Served) -> ChatPolicy:
    toolbox = Toolbox([look, execute_query, finish], NumbersKB.capabilities)
    return ChatPolicy(open_chat_model(model.settings(), sampling=True), toolbox, "spinach/policy.md", Budget())


def test_a_stopped_run_ends_the_models_work(talkative):
    with cancellation() as stoppable:
        model = open_chat_model(talkative.settings(), sampling=False)
        threading.Thread(target=lambda: (until(talkative.busy), stoppable.stop())).start()
        with pytest.raises(Stopped):
            stoppable.run_here(lambda: invoke(model, LONG))
        assert talkative.gives_up()


def test_a_reply_that_takes_too_long_is_given_up_at_both_ends(talkative):
    model = open_chat_model(talkative.settings(model_timeout=1.0), sampling=False)
    with pytest.raises(ServiceError, match="did not answer in time"):
        ask(model, LONG)
    assert talkative.gives_up()
    assert ask(open_chat_model(talkative.settings(), sampling=False), "Say hello.")[0]  # and it works again


def test_a_call_that_is_cut_off_is_told_to_the_model(terse):
    (call,) = policy_for(terse)(start("What about silver?", [], Budget()), context()).calls
    assert call.problem
    assert "cut off" in call.problem


def test_what_the_model_cannot_read_at_once_is_cut_and_else_named(terse):
    state = start("What about silver?", [], Budget())
    seen = "Silver is a metal. " * 600
    state["path"] = [Step(n, Call("look", {"at": str(n)}, "", f"c{n}", n), seen) for n in (1, 2)]
    said = policy_for(terse)(state, context())
    assert said.calls
    assert 0 < said.usage.prompt < 2560
    state["question"] = seen
    with pytest.raises(PromptTooLong, match="2560"):
        policy_for(terse)(state, context())


@pytest.mark.parametrize("name", [one.name for one in BUILT_IN if one.kind == "agent"])
def test_the_schemas_of_an_agents_tools_make_grammars_and_calls_that_fit_them(name, mini_kb, demo_kb, small_model):
    kb = mini_kb if name == "spinach" else demo_kb
    tools = build_agent(kb, small_model.settings(), name).toolbox
    model = open_chat_model(small_model.settings(), sampling=False).bind_tools(tools.schemas, tool_choice="required")
    reply = invoke(model, "What about silver?")
    calls = parse_calls(reply, 1, tools)
    assert {call.tool for call in calls} <= set(
        tools.names
    )  # the model's own calls, in the form its endpoint gave them
    assert all(not call.problem or "cut off" in call.problem for call in calls)


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
