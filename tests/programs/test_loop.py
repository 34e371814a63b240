"""The loop: what is accepted, what the writer is told, when it ends."""

from collections.abc import Sequence
from threading import Barrier
from typing import Any

import pytest

from kbnav.programs.first_stage import TrainingQuery
from kbnav.programs.program import Outcome, Program
from kbnav.programs.steps import History, Step, TrialRunner, curve, means
from kbnav.programs.train import ProgramsOptions, Task, train_group
from kbnav.programs.writer import Brief, next_action
from kbnav.runs.trajectory import Trace, Usage
from kbnav.settings.model import Price
from tests.programs.parts import NODES, Runner, ScriptedWriter, plan, program, queries, workshop

BROKEN = "def score(query, candidates)\n    return {}\n"


def run(
    writer: ScriptedWriter, options: ProgramsOptions | None = None, runner: Runner | None = None, **more: object
) -> tuple[History, str]:
    shop = workshop(writer, runner, **more)
    validation = queries(32, "v")
    task = Task("g1", "things", queries(40), validation, shop.bench.baseline(validation))
    return train_group(task, History(), options or plan(), shop, lambda step: None)


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


def test_what_is_worse_on_the_batch_is_not_validated():
    runner = Runner()
    history, _ = run(ScriptedWriter([program("bad")]), plan(steps=1), runner)
    assert runner.runs == 8
    assert history.steps[0].compared is None
    assert history.steps[0].metrics["mrr"] < (history.steps[0].best_on_batch or 0)


def test_a_program_that_fails_is_told_its_line_and_debug_output_and_is_not_validated():
    writer = ScriptedWriter([program("crash"), program("good")])
    history, _ = run(writer, plan(steps=2))
    first = history.steps[0]
    asked = {one.id: one.text for one in queries(40)}
    told = [f"Query: {asked[name]}\nI got here" for name in first.batch[:3]]
    assert (first.failed, first.error, first.debug) == (
        8,
        "line 2: ZeroDivisionError: division by zero",
        "\n\n".join(told),
    )
    assert first.compared is None
    assert not first.instruction
    assert history.best is not None
    assert history.best.number == 2
    assert writer.briefs[1].action == "repair"
    assert writer.briefs[1].history.last == first


def test_a_failed_query_scores_what_the_first_stage_scores_and_none_is_left_out():
    step = run(ScriptedWriter([program("crash")]), plan(steps=1))[0].steps[0]
    asked = [one for one in queries(40) if one.id in step.batch]
    assert len(asked) == step.failed == 8
    assert step.metrics == means(workshop(ScriptedWriter([])).bench.baseline(asked))


def test_a_program_that_is_wrong_before_it_runs_is_given_back_within_the_step_and_mended():
    writer = ScriptedWriter([BROKEN], mended=["def score(query):\n    return {}\n", program("good")])
    history, _ = run(writer, plan(steps=1))
    (step,) = history.steps
    assert (step.action, step.source, step.accepted, step.rejected) == ("write", program("good"), True, 2)
    assert [len(brief.rejected) for brief in writer.given_back] == [1, 2]
    first, second = writer.given_back[1].rejected
    assert (first.source, second.source) == (BROKEN, writer.mended[0])
    assert first.error == "check of the source, before running: line 1: SyntaxError: expected ':'"
    assert "must begin as score(query, candidates" in second.error


def test_a_program_is_given_back_twice_at_most_and_not_where_it_comes_again_as_it_was():
    writer = ScriptedWriter([BROKEN], mended=[f"{BROKEN}# {number}\n" for number in range(9)])
    (step,) = run(writer, plan(steps=1))[0].steps
    assert (len(writer.given_back), step.rejected, step.source) == (2, 2, f"{BROKEN}# 1\n")
    assert not step.batch
    stubborn = ScriptedWriter([BROKEN])
    (step,) = run(stubborn, plan(steps=1))[0].steps
    assert (len(stubborn.given_back), step.rejected) == (1, 1)
    assert step.broken


def test_a_batch_that_does_not_divide_the_queries_leaves_none_out_for_good():
    history, _ = run(ScriptedWriter([program("middling")]), plan(steps=4, batch=13))
    assert {len(step.batch) for step in history.steps} == {13}
    assert {name for step in history.steps for name in step.batch} == {one.id for one in queries(40)}


def test_after_steps_without_gain_the_writer_starts_anew_and_then_has_as_many_again():
    writer = ScriptedWriter([program("good")])
    run(writer, plan(steps=9, patience=3))
    assert [brief.action for brief in writer.briefs] == [
        *("write", "improve", "improve", "improve", "anew"), *("improve", "improve", "anew", "improve")
    ]  # fmt: skip


def test_repairs_end_after_three_in_a_row():
    writer = ScriptedWriter([BROKEN])
    run(writer, plan(steps=6))
    assert [brief.action for brief in writer.briefs] == ["write", "repair", "repair", "repair", "improve", "repair"]


def test_instructions_that_helped_and_that_did_not_reach_the_next_brief():
    class Adviser(ScriptedWriter):
        def reflect(self, brief: Brief, *rest: Any) -> str:
            return f"advice {brief.number}"

    writer = Adviser([program("middling"), program("middling"), program("good")])
    run(writer, plan(steps=4, batch=40))
    assert writer.briefs[3].history.lessons() == {"advice 1": "tie", "advice 2": "better"}
    leaders = writer.briefs[3].history.leaders()
    assert next((step.number, step.source) for step in leaders) == (3, program("good"))
    for step in leaders:  # numbers stand beside the program that got them
        assert step.validation["mrr"] == pytest.approx(sum(step.validated) / 32, abs=1e-5)


def test_names_of_the_examples_are_kept_out_of_instructions_by_code():
    writer = ScriptedWriter([program("middling")], says="Put Node 9 (n9) above Node 0.")
    history, _ = run(writer, plan(steps=1))
    assert history.steps[0].instruction == "Put [a name] ([a name]) above [a name]."


def test_it_ends_where_every_answer_comes_first_at_the_cost_and_the_time_and_when_stopped():
    assert run(ScriptedWriter([program("perfect")]))[1] == "perfect"
    assert run(ScriptedWriter([program("good")]), plan(cost=1.0), spent=lambda: 1.0)[1] == "cost"
    assert run(ScriptedWriter([program("good")]), plan(seconds=5.0), elapsed=lambda: 5.0)[1] == "time"
    assert run(ScriptedWriter([program("good")]), stopped=lambda: True)[1] == "stopped"


def test_tokens_and_dollars_of_a_step_are_those_of_its_own_calls():
    class Paid(ScriptedWriter):
        def write(self, brief: Brief, trace: Trace) -> str:
            trace.spend(Usage(1_000_000, 0, 0, 1))
            return super().write(brief, trace)

    history, _ = run(Paid([program("good")]), plan(steps=2), price=Price(prompt=2, completion=8))
    assert [step.cost for step in history.steps] == [2.0, 2.0]
    assert history.steps[0].usage == Usage(1_000_000, 0, 0, 1)


def test_the_curve_begins_at_the_first_stage_and_never_falls():
    history, _ = run(ScriptedWriter([program("bad"), program("good"), program("middling")]))
    rows = curve(history.steps, 0.3)
    assert rows[0] == (0, 0.3, 0.3)
    assert [best for _, _, best in rows] == [0.3, 0.3, 0.875, 0.875, 0.875]
    assert next_action(History((Step(1, "write", "", "", batch=("t1",), accepted=True),)), 10) == "improve"
    steps = [
        Step(1, "write", "", "", accepted=True, validation={"mrr": 0.8}),
        Step(2, "improve", "", "", validation={"mrr": 0.9}),
    ]
    assert curve(steps, 0.3)[2] == (2, 0.9, 0.8)  # higher by no more than chance may do


def test_the_queries_of_a_batch_are_run_side_by_side_and_come_back_in_their_order():
    asked = [TrainingQuery(str(number), f"query {number} x", (NODES[number],)) for number in range(4)]
    together = Barrier(4)

    def run_one(program: Program, query: str, nodes: Sequence[str]) -> Outcome:
        together.wait(30)  # breaks where one waits for another
        return Outcome({NODES[int(query.split()[1])]: 1.0})

    trials = TrialRunner(lambda query: NODES, run_one).run(Program.read(program("good")), asked)
    assert [(one.query.id, one.metrics["mrr"]) for one in trials] == [(str(number), 1.0) for number in range(4)]


def test_a_query_whose_answer_is_no_candidate_counts_as_any_other_and_a_program_may_still_find_it():
    lost, found = TrainingQuery("1", "query 1 x", ("elsewhere",)), TrainingQuery("2", "query 2 x", (NODES[0],))
    bench = TrialRunner(
        lambda query: NODES,
        lambda program, query, nodes: Outcome({"elsewhere": 2.0, NODES[0]: 1.0}),
    )
    assert means(bench.baseline([lost, found]))["mrr"] == 0.5
    trials = bench.run(Program.read(program("good")), [lost, found])
    assert [one.metrics["mrr"] for one in trials] == [1.0, 0.5]
    assert bench.oracle([lost, found]) == 0.5


def test_the_writer_is_shown_the_three_best_programs():
    steps = [Step(number, "improve", "", str(number), validation={"mrr": number / 10}) for number in (1, 5, 2, 4, 3)]
    assert [step.number for step in History(tuple(steps)).leaders()] == [5, 4, 3]
