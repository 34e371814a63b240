"""Time and money of one question: the best so far when they end."""

import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from kbnav.agents.common.agent import Agent, build_agent, completed
from kbnav.agents.spinach import spinach_with
from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.models.prices import cost_of, known_prices, needed_price
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Usage
from kbnav.sessions.session import ask
from kbnav.settings.model import Budget, Price, Settings

BOTH = "SELECT ?x WHERE { ?x wdt:P61 wd:Q7186 }"
FOUND = says(("execute_query", {"query": BOTH}))
DONE = says(("finish", {"answer": "These."}))
ASKED = "Which is the heaviest element that Marie Curie discovered?"
PRICE = {"scripted": Price(prompt=1000, completion=0)}


def priced(*replies: AIMessage, tokens: int = 10) -> ScriptedModel:
    """A model each of whose replies costs a cent."""
    used: Any = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    return ScriptedModel(replies=[reply.model_copy(update={"usage_metadata": used}) for reply in replies])


def agent_with(kb: KnowledgeBase, home: Path, model: ScriptedModel, **more: Any) -> Agent:
    settings = Settings(home=home, model="scripted", language="en", prices=PRICE, **more)
    return completed(spinach_with(model, None, kb, settings), settings)


def looks(number: int) -> AIMessage:
    return says(("get_entry", {"entity_id": f"Q{number}"}))


def test_a_question_that_may_cost_no_more_gives_the_best_so_far(mini_kb, tmp_path):
    model = priced(FOUND, looks(7186), looks(979), looks(1128), DONE)
    run = ask(agent_with(mini_kb, tmp_path, model, budget=Budget(dollars=0.035)), ASKED)
    assert (run.outcome.status, run.outcome.stop, run.outcome.query) == ("best effort", "cost limit", BOTH)
    assert run.cost == pytest.approx(0.03)  # a fourth call would have gone beyond
    assert len(run.outcome.table) == 2


def test_a_limit_in_dollars_needs_a_price(mini_kb, tmp_path):
    with pytest.raises(UsageError, match="--max-dollars needs the price of dear"):
        needed_price(Settings(home=tmp_path, model="dear", budget=Budget(dollars=1)), "--max-dollars")
    assert build_agent(mini_kb, Settings(home=tmp_path, budget=Budget(dollars=1))).model == "offline"


class Slow(ScriptedModel):
    """Does not answer its second call before it is told to."""

    gate: Any = None

    def _generate(self, *given: Any, **more: Any) -> Any:
        if len(self.seen) == 1:
            self.gate.wait(30)
        return super()._generate(*given, **more)


def test_a_question_whose_time_is_over_gives_the_best_so_far_though_the_model_is_still_writing(mini_kb, tmp_path):
    gate = threading.Event()
    model = Slow(replies=[FOUND, DONE], gate=gate)
    run = ask(agent_with(mini_kb, tmp_path, model, budget=Budget(seconds=1.5)), ASKED)
    gate.set()
    assert (run.outcome.status, run.outcome.stop, run.outcome.query) == ("best effort", "time limit", BOTH)
    assert "polonium" in run.outcome.text
    assert run.seconds < 10


def test_tokens_that_were_cached_cost_what_cached_ones_do():
    used = Usage(prompt=1000, completion=100, cached=600)
    assert cost_of(used, Price(prompt=2, completion=8)) == pytest.approx((1000 * 2 + 100 * 8) / 1e6)
    assert cost_of(used, Price(prompt=2, cached=0.5, completion=8)) == pytest.approx(
        (400 * 2 + 600 * 0.5 + 100 * 8) / 1e6
    )


def test_prompts_begin_alike_from_call_to_call_and_what_an_endpoint_had_cached_is_counted(mini_kb, tmp_path):
    told: Any = {"input_tokens": 1000, "output_tokens": 0, "total_tokens": 1000}
    kept: Any = {**told, "input_token_details": {"cache_read": 600}}
    replies = [(FOUND, told), (looks(979), kept), (DONE, kept)]
    model = ScriptedModel(replies=[reply.model_copy(update={"usage_metadata": used}) for reply, used in replies])
    run = ask(agent_with(mini_kb, tmp_path, model), ASKED)
    assert (run.usage.prompt, run.usage.cached) == (3000, 1200)
    for before, after in pairwise(model.seen):
        assert len(after) > len(before)
        assert [one.text for one in after[: len(before) - 1]] == [one.text for one in before[:-1]]  # all but the last


def test_list_prices_hold_at_their_makers_endpoint_and_ones_own_go_before(tmp_path):
    own = {"gpt-4o": Price(prompt=1, completion=1)}
    assert known_prices(Settings(home=tmp_path))["gpt-4o"].prompt == 2.5
    assert known_prices(Settings(home=tmp_path, prices=own))["gpt-4o"].prompt == 1
    assert "gpt-4o" not in known_prices(Settings(home=tmp_path, base_url="http://127.0.0.1:8000/v1"))
