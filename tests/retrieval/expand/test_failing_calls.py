"""Calls that fail where a system can go on without their replies, and where it cannot."""

from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from kbnav.errors import CredentialsError, ServiceError, Stopped
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.retrieval.expansion import AGR, FeedbackOptions
from kbnav.retrieval.kar import KAR, KAROptions, similarity_for
from kbnav.runs.trace import Trace
from tests.retrieval.expand.conftest import QUERY, Listening

DOWN = ServiceError("overloaded")


class Faltering(BaseChatModel):
    """Says or raises these in turn, the last one again and again."""

    replies: list[Any]
    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "faltering"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        reply = self.replies[min(self.asked, len(self.replies) - 1)]
        self.asked += 1
        if isinstance(reply, Exception):
            raise reply
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply))])


def kar(skb: SKB, model: Faltering) -> KAR:
    return KAR(skb, Listening("wren"), ModelCalls(model, "faltering", jobs=1), similarity_for(skb, "vss"), KAROptions())


def agr(skb: SKB, model: Faltering) -> AGR:
    return AGR(skb, Listening("lark"), ModelCalls(model, "faltering", jobs=1), FeedbackOptions())


def test_kar_goes_on_without_entities_where_that_call_fails(skb):
    trace = Trace()
    assert kar(skb, Faltering(replies=[DOWN, "one", "two", "three"])).expand(QUERY, trace) == ["one", "two", "three"]
    assert [step.ok for step in trace.steps if step.call.tool == "model"] == [False, True, True, True]


def test_agr_goes_on_where_any_of_its_single_calls_fails(skb):
    trace = Trace()
    model = Faltering(replies=[DOWN, DOWN, "d1", "d2", "d3", "e1", "e2", "e3", DOWN])
    assert agr(skb, model).expand(QUERY, trace) == ["e1", "e2", "e3"]
    failed = [step.call.arguments["purpose"] for step in trace.steps if step.call.tool == "model" and not step.ok]
    assert failed == ["extract", "analyse", "refine"]


@pytest.mark.parametrize("system", [kar, agr])
def test_where_every_call_fails_the_run_does(skb, system):
    with pytest.raises(ServiceError, match="overloaded"):
        system(skb, Faltering(replies=[DOWN])).expand(QUERY, Trace())


@pytest.mark.parametrize("system", [kar, agr])
@pytest.mark.parametrize("failure", [CredentialsError("refused"), Stopped("stopped")])
def test_what_leaves_no_call_a_chance_ends_the_run_at_once(skb, system, failure):
    model = Faltering(replies=[failure, "one"])
    with pytest.raises(type(failure)):
        system(skb, model).expand(QUERY, Trace())
    assert model.asked == 1
