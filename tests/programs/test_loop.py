"""The loop: what is accepted, what the writer is told, when it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kbnav.programs.loop import PARTS, Plan, Prices, Task, improve, next_action
from kbnav.programs.program import Outcome, Problem, Program
from kbnav.programs.steps import History, Step, curve
from kbnav.programs.trials import Bench, TrainingQuery, means
from kbnav.programs.writer import Advice, Brief, Draft
from kbnav.settings import Price
from kbnav.trace import Trace
from kbnav.trajectory import Usage
from tests.programs.parts import NODES, PLAN, Runner, ScriptedWriter, program, queries, workshop

BROKEN = "def score(query, candidates)\n    return {}\n"


def run(writer: ScriptedWriter, plan: Plan = PLAN, runner: Runner | None = None, **more: object) -> tuple[History, str]:
    shop = workshop(writer, runner, **more)
    validation = queries(32, "v")
    task = Task("g1", "things", queries(40), validation, shop.bench.baseline(validation))
    return improve(task, History(), plan, shop, lambda step: None)


def test_of_a_bad_a_broken_a_good_and_a_worse_program_the_good_one_is_the_best():
    writer = ScriptedWriter([program("bad"), BROKEN, program("good"), program("middling")])
    history, ended = run(writer)
    assert ended == "steps"
    assert history.best is not None
    assert history.best.number == 3
    assert [step.accepted for step in history.steps] == [False, False, True, False]
    assert "line 1" in history.steps[1].error
    assert not history.steps[1].batch
    # 24 answers come first and 8, every fourth, second: (24 + 8 / 2) / 32
    assert history.best.validation["mrr"] == pytest.approx((24 + 8 / 2) / 32)
    assert [brief.action for brief in writer.briefs] == ["write", "improve", "repair", "improve"]


def test_what_is_worse_on_the_batch_is_not_raced_and_what_is_worse_on_a_first_heat_runs_no_second():
    runner = Runner()
    history, _ = run(ScriptedWriter([program("bad")]), replace(PLAN, steps=1), runner)
    assert runner.runs == 8
    assert history.steps[0].heats == ()
    assert history.steps[0].metrics["mrr"] < (history.steps[0].best_on_batch or 0)


def test_a_program_that_fails_is_told_its_line_and_debug_output_and_is_not_raced():
    writer = ScriptedWriter([program("crash"), program("good")])
    history, _ = run(writer, replace(PLAN, steps=2))
    first = history.steps[0]
    assert (first.failed, first.error, first.debug) == (8, "line 2: ZeroDivisionError: division by zero", "I got here")
    assert not first.heats
    assert not first.instruction
    assert history.best is not None
    assert history.best.number == 2
    told = writer.briefs[1].history.last
    assert writer.briefs[1].action == "repair"
    assert told is not None
    assert told.debug == "I got here"


def test_a_failed_query_scores_what_the_first_stage_scores_and_none_is_left_out():
    step = run(ScriptedWriter([program("crash")]), replace(PLAN, steps=1))[0].steps[0]
    asked = [one for one in queries(40) if one.id in step.batch]
    assert len(asked) == step.failed == 8
    assert step.metrics == means(workshop(ScriptedWriter([])).bench.baseline(asked))


def test_what_a_check_finds_is_an_error_before_anything_runs():
    runner = Runner()
    history, _ = run(
        ScriptedWriter([program("good")]),
        replace(PLAN, steps=1),
        runner,
        check=lambda one: (Problem("no such name", 2),),
    )
    assert history.steps[0].error == "line 2: no such name"
    assert runner.runs == 0


def test_a_batch_that_does_not_divide_the_queries_leaves_none_out_for_good():
    history, _ = run(ScriptedWriter([program("middling")]), replace(PLAN, steps=4, batch=13))
    assert {len(step.batch) for step in history.steps} == {13}
    assert {name for step in history.steps for name in step.batch} == {one.id for one in queries(40)}


def test_after_steps_without_gain_the_writer_starts_anew_and_then_has_as_many_again():
    writer = ScriptedWriter([program("good")])
    run(writer, replace(PLAN, steps=9, patience=3))
    assert [brief.action for brief in writer.briefs] == [
        *("write", "improve", "improve", "improve", "anew"), *("improve", "improve", "anew", "improve")
    ]  # fmt: skip


def test_repairs_end_after_three_in_a_row():
    writer = ScriptedWriter([BROKEN])
    run(writer, replace(PLAN, steps=6))
    assert [brief.action for brief in writer.briefs] == ["write", "repair", "repair", "repair", "improve", "repair"]


def test_instructions_that_helped_and_that_did_not_reach_the_next_brief():
    class Adviser(ScriptedWriter):
        def reflect(self, brief: Brief, *rest: Any) -> Advice:
            return Advice(f"advice {brief.number}")

    writer = Adviser([program("middling"), program("middling"), program("good")])
    run(writer, replace(PLAN, steps=4, batch=40))
    assert writer.briefs[3].history.lessons() == (["advice 2"], ["advice 1"])
    leaders = writer.briefs[3].history.leaders()
    assert next((step.number, step.source) for step in leaders) == (3, program("good"))
    for step in leaders:  # numbers stand beside the program that got them
        assert step.validation["mrr"] == pytest.approx(sum(step.validated) / 32, abs=1e-5)


def test_names_of_the_examples_are_kept_out_of_instructions_by_code():
    writer = ScriptedWriter([program("middling")], says="Put Node 9 (n9) above Node 0.")
    history, _ = run(writer, replace(PLAN, steps=1))
    assert history.steps[0].instruction == "Put [a name] ([a name]) above [a name]."


def test_it_ends_where_every_answer_comes_first_at_the_cost_and_the_time_and_when_stopped():
    assert run(ScriptedWriter([program("perfect")]))[1] == "perfect"
    assert run(ScriptedWriter([program("good")]), replace(PLAN, cost=1.0), spent=lambda: 1.0)[1] == "cost"
    assert run(ScriptedWriter([program("good")]), replace(PLAN, seconds=5.0), elapsed=lambda: 5.0)[1] == "time"
    assert run(ScriptedWriter([program("good")]), stopped=lambda: True)[1] == "stopped"


def test_without_contrast_nothing_is_reflected_without_memory_the_writer_is_told_so():
    writer = ScriptedWriter([program("middling")])
    history, _ = run(writer, replace(PLAN, steps=2, without=frozenset({"contrast", "memory"})))
    assert not writer.reflected
    assert not history.steps[0].instruction
    assert not writer.briefs[1].memory
    assert {"contrast", "memory", "groups", "model-functions", "relations", "improvement"} == set(PARTS)


def test_without_improvement_the_first_program_that_runs_is_taken_whatever_it_scores():
    history, ended = run(
        ScriptedWriter([BROKEN, program("bad"), program("good")]), replace(PLAN, without=frozenset({"improvement"}))
    )
    assert ended == "first program"
    assert history.best is not None
    assert history.best.number == 2


def test_tokens_and_dollars_of_a_step_are_those_of_its_own_calls():
    class Paid(ScriptedWriter):
        def write(self, brief: Brief, trace: Trace) -> Draft:
            trace.spend(Usage(1_000_000, 0, 0, 1))
            trace.spend(Usage(5, 5, 0, 1), replayed=True)
            return super().write(brief, trace)

    history, _ = run(
        Paid([program("good")]), replace(PLAN, steps=2), prices=Prices(writer=Price(prompt=2, completion=8))
    )
    assert [step.cost for step in history.steps] == [2.0, 2.0]
    assert history.steps[0].paid == Usage(1_000_000, 0, 0, 1)
    assert history.steps[0].replayed == Usage(5, 5, 0, 1)
    assert history.cost == 4.0


def test_the_curve_begins_at_the_first_stage_and_never_falls():
    history, _ = run(ScriptedWriter([program("bad"), program("good"), program("middling")]))
    rows = curve(history.steps, 0.3)
    assert rows[0] == (0, 0.3, 0.3)
    assert [best for _, _, best in rows] == [0.3, 0.3, 0.875, 0.875, 0.875]
    assert next_action(History((Step(1, "write", "", {}, "", batch=("t1",), accepted=True),)), PLAN) == "improve"


def test_a_query_whose_answer_is_no_candidate_counts_as_any_other_and_a_program_may_still_find_it():
    lost, found = TrainingQuery("1", "query 1 x", ("elsewhere",)), TrainingQuery("2", "query 2 x", (NODES[0],))
    bench = Bench(
        lambda query: NODES,
        lambda program, query, nodes, given: Outcome({"elsewhere": 2.0, NODES[0]: 1.0}),
    )
    assert means(bench.baseline([lost, found]))["mrr"] == 0.5
    trials = bench.run(Program.read(program("good")), {}, [lost, found])
    assert [one.metrics["mrr"] for one in trials] == [1.0, 0.5]
    assert bench.oracle([lost, found]) == 0.5
