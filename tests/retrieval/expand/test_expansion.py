"""What PRF, HyDE, RAR and AGR ask of the model, and what is asked of the base retriever in the end, to the letter."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from kbnav.errors import CredentialsError, ServiceError, Stopped
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.retrieval.expansion import (
    AGR,
    PRF,
    RAR,
    Entity,
    FeedbackOptions,
    HyDE,
    PRFOptions,
    SampledOptions,
    document,
    entities,
    structures,
)
from kbnav.retrieval.kar import KAR, KAROptions
from kbnav.runs.trajectory import Trace
from tests.knowledge.skb.sources import small_skb
from tests.retrieval.expand.conftest import QUERY, Listening, Script

STRUCTURES = "- person: name, born, description\n- guitar: name, description\n- town: name, description\n"
LARK = "name: Lark. type: guitar. description: A letter from the storm is in it."
WREN = "name: Wren. type: guitar. description: Lost in a storm."
FINCH = "name: Finch. type: guitar. description: A letter on wood."


def test_structures_are_the_fields_that_documents_of_each_type_have(skb):
    assert structures(skb) == {
        "person": ("name", "born", "description"),
        "guitar": ("name", "description"),
        "town": ("name", "description"),
    }


def test_structures_are_read_off_documents_spread_over_a_type_and_leave_out_a_sources_own_fields(tmp_path):
    """127 documents, of which every other is looked at; one that is not has a field of its own."""
    fields = {0: {"first": "x", "_rank": 3}, 1: {"skipped": "x"}, 64: {"middle": "x"}, 126: {"last": "x", "empty": ""}}
    lines = [{"id": f"{n:03}", "type": "guitar", "name": f"G{n}", **fields.get(n, {})} for n in range(127)]
    with small_skb(tmp_path, lines, []) as many:
        assert structures(many) == {"guitar": ("name", "first", "middle", "last")}


def test_prf_puts_the_documents_found_first_behind_the_query(skb, said):
    base, trace = Listening("lark", "wren", "finch", "crow"), Trace()
    ranking = PRF(skb, base, PRFOptions(initial=2)).retrieve(QUERY, 7, trace)
    documents = ["Lark\ndescription: A letter from the storm is in it.", "Wren\ndescription: Lost in a storm."]
    expanded = "\n".join([QUERY, *documents])
    assert base.asked == [(QUERY, 2), (expanded, 7)]
    assert ranking.ids == ["lark", "wren", "finch", "crow"]
    assert said(trace, "expansion") == documents
    assert said(trace, "expanded_query") == [expanded]
    assert trace.usage.calls == 0


def test_prf_asks_the_plain_query_where_nothing_is_found_and_says_so(skb):
    base, trace = Listening(), Trace()
    PRF(skb, base, PRFOptions()).retrieve(QUERY, 5, trace)
    assert base.asked == [(QUERY, 3), (QUERY, 5)]
    told = next(step for step in trace.steps if step.call.tool == "expanded_query")
    assert not told.ok
    assert "as it is" in told.observation


def test_hyde_samples_documents_with_the_structures_in_view(skb, said):
    script, base, trace = Script("Document: one", "", "```\nthree\n```"), Listening("lark"), Trace()
    HyDE(skb, base, script.calls, SampledOptions()).retrieve(QUERY, 5, trace)
    assert len(script.prompts) == 3
    assert set(script.prompts) == {script.prompts[0]}
    assert STRUCTURES in script.prompts[0]
    assert script.prompts[0].endswith(f"Query: {QUERY}\nDocument:")
    assert "<documents>" not in script.prompts[0]
    assert base.asked == [(f"{QUERY}\none\nthree", 5)]
    assert said(trace, "model") == ["Document: one", "", "```\nthree\n```"]
    sampled = [step.call.arguments for step in trace.steps if step.call.tool == "model"]
    assert [(call["temperature"], call.get("sample", 0)) for call in sampled] == [(0.7, 0), (0.7, 1), (0.7, 2)]
    assert trace.usage.calls == 3


def test_rar_shows_the_model_what_the_query_finds(skb):
    script, base = Script("x", "y"), Listening("lark", "wren", "finch", "crow")
    RAR(skb, base, script.calls, FeedbackOptions(initial=2, samples=2)).retrieve(QUERY, 5)
    assert f"<documents>\n[1] {LARK}\n[2] {WREN}\n</documents>" in script.prompts[0]
    assert STRUCTURES in script.prompts[0]
    assert base.asked == [(QUERY, 2), (f"{QUERY}\nx\ny", 5)]


def test_agr_takes_its_five_calls_in_order(skb):
    script = Script("storm, letter", "A guitar by Ann.", "d1", "d2", "d1", "e1", "e2\nmore", "e1", "Document: refined")
    base, trace = Listening("lark", "wren", "finch", "crow"), Trace()
    AGR(skb, base, script.calls, FeedbackOptions()).retrieve(QUERY, 5, trace)
    purposes = [step.call.arguments["purpose"] for step in trace.steps if step.call.tool == "model"]
    assert purposes == ["extract", "analyse", *["generate"] * 3, *["again"] * 3, "refine"]
    extract, analyse, *rest = script.prompts
    generate, again, refine = rest[0], rest[3], rest[6]
    assert STRUCTURES not in extract + analyse + refine
    assert "Its keywords: storm, letter" in analyse
    assert STRUCTURES in generate
    assert "A guitar by Ann." in generate
    assert "<documents>" not in generate
    assert STRUCTURES in again
    assert f"<documents>\n[1] {LARK}\n[2] {WREN}\n[3] {FINCH}\n</documents>" in again  # each once, whoever found it
    assert "A guitar by Ann." not in again + refine  # in KAR's Table 7 neither sees the analysis
    assert "<documents>\n[1] e1\n[2] e2 more\n</documents>" in refine
    assert base.asked == [(f"{QUERY}\nd1", 3), (f"{QUERY}\nd2", 3), (f"{QUERY}\nrefined", 5)]
    temperatures = [step.call.arguments.get("temperature", 0) for step in trace.steps if step.call.tool == "model"]
    assert temperatures == [0, 0, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0]


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
    return KAR(skb, Listening("wren"), ModelCalls(model, "faltering", jobs=1), KAROptions())


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


KINDS = ("person", "gene/protein", "field_of_study")
ANN = Entity("person", "Ann Reed", "Ann Reed\nborn: 1701")
TP53 = Entity("gene/protein", "TP53", "TP53")


@pytest.mark.parametrize(
    "reply",
    [
        '[{"person": {"name": "Ann Reed", "born": "1701"}}, {"gene/protein": {"name": "TP53"}}]',
        '{"person": {"name": "Ann Reed", "born": 1701}, "gene/protein": {"name": "TP53"}}',
        '{"Person": [{"born": "1701", "name": "Ann Reed"}], "gene/protein": ["TP53"]}',
        'Yes:\n```json\n[{"person": {"name": "Ann Reed", "born": "1701"}},\n{"gene/protein": "TP53"}]\n```\nOK.',
        '{"person": {"name": "Ann Reed", "born": "1701"}}\n{"gene/protein": {"name": "TP53"}}',
        '{"all": [{"type": "person", "name": "Ann Reed", "born": "1701"}, {"type": "Gene protein", "id": "TP53"}]}',
        '[{"type": "person", "attributes": {"name": "Ann Reed", "born": "1701"}}, {"gene/protein": {"name": "TP53"}},'
        ' {"gene/protein": {"name": "TP53"}}]',
    ],
)
def test_entities_are_read_however_the_model_nests_them(reply):
    assert entities(reply, KINDS) == [ANN, TP53]


@given(st.text() | st.text(alphabet="[]{}\"',:ab\\ \n-1."))
def test_no_reply_is_an_error(reply):
    assert all(entity.name.strip() for entity in entities(reply, KINDS))
    assert document(reply) == document(reply).strip()
