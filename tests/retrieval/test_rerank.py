"""Reranking: scores read from replies of every kind, and put together with ranks worked out by hand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.errors import CredentialsError, ServiceError
from kbnav.retrieval.base import attempt, build_retriever
from kbnav.retrieval.expansion import Rerank, RerankOptions, parse_score
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import Settings
from tests.models.stub import ModelStub, completion, failure
from tests.retrieval.expand.conftest import QUERY, Listening, Script


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("1", 1.0),
        ("0.85.", 0.85),
        (".5", 0.5),
        ("0,75", 0.75),
        ("Score: 0.7 because it meets 3 of the 4 requirements", 0.7),
        ('{"score": 0.35, "why": "2 of 3"}', 0.35),
        ("7/10", 0.7),
        ("7 out of 10", 0.7),
        ("70 %", 0.7),
        ("7", None),
        ("-0.5", None),
        ("Score: 1.2", None),
        ("1,000", None),
        ("between 0 and 1", None),
        ("it meets 2 of 3 requirements", None),
        ("1. It is a guitar.\n2. Its text does not speak of a storm.\n3. Ann made it.", None),
        ("The score for the kind is 1, that for the text is 0.2. Final score: 0.6", 0.6),
        ("0.5-0.6", None),
        ("<think>A 0.5, B 0.3</think>\n0.8", 0.8),
        ("<think>The score is 0.5", None),
        ("Requirement A 0.5 and B 0.4.\n\n0.45", 0.45),
        ("", None),
    ],
)
def test_scores_are_read_from_all_kinds_of_replies(reply, score):
    assert parse_score(reply) == pytest.approx(score) if score is not None else parse_score(reply) is None


@given(st.text() | st.from_regex(r"[-+.,/%0-9e ]{0,20}"))
def test_whatever_is_read_lies_between_0_and_1(reply):
    score = parse_score(reply)
    assert score is None or 0.0 <= score <= 1.0


def test_scores_and_ranks_are_put_together(related):
    script = Script("0.2", "0.9", "0.9")
    first, trace = Listening("lark", "wren", "crow", "finch", "mew"), Trace()
    hits = Rerank(related.skb, first, script.calls, RerankOptions(top_v=3)).retrieve(QUERY, 5, trace)
    assert hits.ids == ["wren", "crow", "lark", "finch", "mew"]
    # The ranks add a tenth of 3/3, 2/3 and 1/3; what was not scored goes down from the lowest by 1 each.
    wanted = [0.9 + 0.2 / 3, 0.9 + 0.1 / 3, 0.2 + 0.1, 0.3 - 1, 0.3 - 2]
    assert [node.score for node in hits.nodes] == pytest.approx(wanted, abs=1e-6)
    assert first.asked == [(QUERY, 5)]
    assert trace.usage.calls == 3


def test_the_model_sees_which_way_a_relation_goes_and_so_many_neighbours_as_told(related):
    script = Script("1")
    Rerank(related.skb, Listening("ann"), script.calls, RerankOptions(neighbors=2)).retrieve(QUERY, 1)
    assert (
        " relations: ←made by— Lark, Wren (guitar). ←owned by— Lark (guitar). —born in→ Mew (town)."
        " —learned from→ Bob Reed (person).\n"
    ) in script.prompts[0]
    assert '"←relation— X" that X has it to the entry' in script.prompts[0]


def test_where_no_score_can_be_read_the_order_stays_and_the_step_has_failed(related):
    script, trace = Script("I cannot tell.", "Perhaps.", ""), Trace()
    hits = Rerank(related.skb, Listening("lark", "wren", "crow"), script.calls, RerankOptions()).retrieve("?", 3, trace)
    assert hits.ids == ["lark", "wren", "crow"]
    assert not trace.steps[-1].ok


def served(stub: ModelStub, home: Path, **changes: object) -> Settings:
    fixed = {"model": "stub", "base_url": stub.base_url, "api_key": "k", "model_retries": 0, "home": home}
    return Settings(**{**fixed, "model_jobs": 1, **changes})  # type: ignore[arg-type]


def test_a_call_that_fails_costs_one_candidate(related, tmp_path):
    with ModelStub([completion("0.1"), failure(500, "down"), completion("0.3")]) as stub:
        settings = served(stub, tmp_path)
        system = build_retriever("rerank", related, settings, {"top_v": 3})
        run, problem = attempt(system, related, settings, QUERY, k=3)
    assert problem is None
    assert len(stub.requests) == 3
    assert [step.ok for step in run.path if step.call.tool == "model"] == [True, False, True]
    assert (run.usage.calls, run.usage.prompt, run.usage.completion) == (2, 200, 40)
    assert run.outcome.ranking is not None
    first, failed, last = run.path[0].nodes[:3]
    assert run.outcome.ranking.ids == [last, first, failed]


@pytest.mark.parametrize(("status", "kind"), [(500, ServiceError), (401, CredentialsError)])
def test_where_no_call_can_go_well_the_run_fails_with_its_steps(related, tmp_path, status, kind):
    with ModelStub([failure(status, "no")]) as stub:
        settings = served(stub, tmp_path)
        run, problem = attempt(build_retriever("rerank", related, settings, {}), related, settings, QUERY)
    assert isinstance(problem, kind)
    assert run.outcome.status == "failed"
    assert run.path[0].call.tool == "vss"
    if status == 401:
        assert len(stub.requests) <= 2  # the others are not even sent
