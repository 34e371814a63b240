"""Training: batches, validation, what a writer is told and what is frozen of it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from kbnav.errors import DataError, ServiceError, Stopped, UsageError
from kbnav.models.calls import ModelCalls
from kbnav.models.scripted import ScriptedModel
from kbnav.planning.training import LabelledQuestion
from kbnav.programs.groups import Centroids, Group, groups_by_model, merged
from kbnav.programs.program import Outcome, Program
from kbnav.programs.retriever import DESCRIPTION, check_bound, check_prompts, read_frozen
from kbnav.programs.sandbox import SIZE, open_parts
from kbnav.programs.steps import Comparison, History, Step, Trial, TrialRunner, curve, means
from kbnav.programs.train import GroupsFound, Order, ProgramsOptions, Task, read_steps, train, train_group
from kbnav.programs.writer import (
    Brief,
    ModelWriter,
    Setting,
    describe_trial,
    document_pair,
    names_in,
    next_action,
    program_in,
    split,
    standing,
    without_names,
)
from kbnav.retrieval.base import build_retriever
from kbnav.runs.trajectory import Trace, Usage
from kbnav.settings.model import Price, Settings
from tests.programs.parts import NODES, Runner, ScriptedWriter, plan, program, queries, query, workshop

BOUND = {"api": 1, "schema": "abc", "encoder": "lsa", "first stage": {"of": ["bm25"], "depth": 200}}
SOURCES = [program("bad"), "def score(query, candidates)\n", program("middling"), program("good"), program("middling")]


class Killed(BaseException):
    """As a process ends that is killed."""


class Fragile(Runner):
    """Dies at one of its runs."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at

    def __call__(self, program: Program, query: str, candidates: Sequence[str]) -> Outcome:
        if self.runs == self._at:
            raise Killed
        return super().__call__(program, query, candidates)


def order(**more: Any) -> Order:
    return Order(
        "shelf", queries(40), queries(32, "v"), plan(steps=5, **more), BOUND, {"writer": "scripted"}, {"a.md": "1"}
    )


def one_group(order: Order) -> Group:
    return Group("g1", "any query", *(tuple(one.id for one in part) for part in (order.training, order.validation)))


def trained(folder: Path, runner: Runner | None = None, wanted: Order | None = None, **more: Any) -> None:
    wanted = wanted or order()
    shop = workshop(ScriptedWriter(SOURCES), runner, **more)
    train(wanted, folder, shop, lambda: GroupsFound((one_group(wanted),)))


def files(folder: Path) -> dict[str, Any]:
    """Every file by its path; of a journal's lines all but how long they took."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".jsonl":
            found[name] = [json.loads(line) | {"seconds": 0} for line in path.read_text().splitlines()]
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    trained(folder)
    return folder


def test_the_good_program_is_frozen_with_its_own_numbers(whole):
    found = read_frozen(whole)
    (group,) = found.about.groups
    assert found.programs["g1"].source == program("good")
    assert (group.step, group.queries) == (4, 32)
    assert group.scores["mrr"] == pytest.approx(0.875, abs=1e-5)
    assert group.first["mrr"] == pytest.approx((8 + 24 / 10) / 32, abs=1e-5)
    assert group.p < 0.001
    assert found.about.oracle == 1.0


@pytest.mark.parametrize("at", [0, 3, 8, 20, 30, 50, 70, 90, 110])
def test_a_training_that_is_killed_anywhere_goes_on_to_the_same_files(at, whole, tmp_path):
    with pytest.raises(Killed):
        trained(tmp_path, Fragile(at))
    trained(tmp_path)
    assert files(tmp_path) == files(whole)


def test_a_torn_line_of_the_journal_is_cut_off_and_the_step_taken_again(whole, tmp_path):
    with pytest.raises(Killed):
        trained(tmp_path, Fragile(60))
    with (tmp_path / "steps" / "g1.jsonl").open("ab") as journal:
        journal.write(b'{"number": 9, "act')
    trained(tmp_path)
    assert files(tmp_path) == files(whole)


def test_a_folder_is_not_gone_on_with_for_other_questions_or_another_plan(whole):
    for wanted, what in (
        (replace(order(), training=queries(41)), "training"),
        (order(seed=7), "options"),
        (replace(order(), bound={**BOUND, "schema": "x"}), "bound"),
        (replace(order(), models={"writer": "else"}), "models"),
    ):
        with pytest.raises(UsageError, match=f"another {what}"):
            trained(whole, wanted=wanted)


def test_a_limit_freezes_what_is_best_until_then_and_a_person_who_stops_it_freezes_nothing(tmp_path):
    trained(tmp_path / "cost", wanted=order(cost=0.0))
    assert read_frozen(tmp_path / "cost").programs == {}
    with pytest.raises(Stopped, match="the same command continues it"):
        trained(tmp_path / "stopped", stopped=lambda: True)
    assert not (tmp_path / "stopped" / DESCRIPTION).exists()


def test_a_changed_program_or_description_is_refused(whole, tmp_path):
    for name in ("programs/g1.py", DESCRIPTION):
        trained(tmp_path)
        path = tmp_path / name
        path.write_text(path.read_text().replace("good", "evil").replace('"oracle": 1.0', '"oracle": 0.9'))
        with pytest.raises(DataError, match="checksum does not match"):
            read_frozen(tmp_path)


def test_a_program_outside_the_folder_is_not_read(tmp_path):
    trained(tmp_path)
    path = tmp_path / DESCRIPTION
    about = read_frozen(tmp_path).about
    group = about.groups[0].model_copy(update={"program": "../../secret.py"})
    about = about.model_copy(update={"groups": (group,)})
    about = about.model_copy(update={"sha256": about.digest()})
    path.write_text(about.model_dump_json())
    with pytest.raises(DataError, match="is no file's name"):
        read_frozen(tmp_path)


def test_questions_of_the_training_are_refused_whatever_their_id_and_punctuation(whole):
    frozen = read_frozen(whole)
    frozen.refuse_seen([("x", "t query 400 of things")])
    for seen in ("t query 4 of things", "V query 4: of THINGS?"):
        with pytest.raises(UsageError, match="were used to train or choose its programs, as 'x'"):
            frozen.refuse_seen([("x", seen)])


def of_two_kinds() -> tuple[Order, tuple[Group, ...]]:
    """Queries of birds and of fish, and a group for each."""
    kinds = ("bird", "fish")
    training, held = (
        [replace(one, text=f"Which {kinds[n % 2]} {one.text}") for n, one in enumerate(queries(count, split))]
        for count, split in ((80, "t"), (64, "v"))
    )
    groups = tuple(
        Group(f"g{n + 1}", kinds[n], *(tuple(one.id for one in part[n::2]) for part in (training, held)))
        for n in range(2)
    )
    return replace(order(), training=training, validation=held), groups


def test_each_group_has_a_program_of_its_own(tmp_path):
    wanted, groups = of_two_kinds()
    train(wanted, tmp_path, workshop(ScriptedWriter([program("good")])), lambda: GroupsFound(groups))
    about = read_frozen(tmp_path).about
    assert [one.program for one in about.groups] == ["", "g2.py"]
    centroids = Centroids(about.words, about.centroids)
    assert centroids.nearest(["Which fish is red?", "Which bird is red?"]) == [1, 0]
    fish = about.groups[1]  # their answers are never first; those of birds are every other time
    assert (fish.scores["mrr"], fish.first["mrr"]) == (1.0, 0.1)


def test_groups_that_are_trained_side_by_side_have_the_files_of_one_after_the_other(tmp_path):
    class Meeting(ScriptedWriter):
        together = Barrier(2)

        def write(self, brief: Brief, trace: Trace) -> str:
            if brief.number == 1:
                self.together.wait(30)  # breaks where one group waits for the other
            return super().write(brief, trace)

    wanted, groups = of_two_kinds()
    sources = [program("middling"), program("good")]
    train(wanted, tmp_path / "one", workshop(ScriptedWriter(sources)), lambda: GroupsFound(groups))
    side = replace(wanted, options=plan(steps=5, at_once=2))
    train(side, tmp_path / "two", workshop(Meeting(sources)), lambda: GroupsFound(groups))
    assert files(tmp_path / "two") == files(tmp_path / "one")


def test_the_cost_of_grouping_counts_towards_the_limit(tmp_path):
    wanted = order(cost=3.0)
    groups = GroupsFound((one_group(wanted),), Usage(1, 1, 0, 1), 3.0)
    found = train(wanted, tmp_path, workshop(ScriptedWriter(SOURCES)), lambda: groups)
    assert (found.cost, found.ended) == (3.0, {"g1": "cost"})


def test_what_is_worse_on_the_batch_is_not_validated():
    runner = Runner()
    history, _ = run(ScriptedWriter([program("bad")]), plan(steps=1), runner)
    assert (runner.runs, history.steps[0].compared) == (8, None)


def test_where_one_group_fails_the_others_end_behind_their_step_and_the_failure_is_told(tmp_path):
    class Failing(ScriptedWriter):
        failed = Event()

        def write(self, brief: Brief, trace: Trace) -> str:
            if brief.pattern == "bird":
                self.failed.set()
                raise ServiceError("the model is away")
            assert self.failed.wait(30)
            return super().write(brief, trace)

    wanted, groups = of_two_kinds()
    wanted = replace(wanted, options=plan(steps=500, at_once=2))
    with pytest.raises(ServiceError, match="the model is away"):
        train(wanted, tmp_path, workshop(Failing([program("bad")])), lambda: GroupsFound(groups))
    assert len(read_steps(tmp_path, groups[1])) < 500


def test_another_schema_encoder_api_or_first_stage_is_refused_by_name(whole):
    frozen = read_frozen(whole)
    check_bound(frozen, BOUND)
    for name in BOUND:
        with pytest.raises(UsageError, match=f"{name}: .*, now "):
            check_bound(frozen, {**BOUND, name: "changed"})
    check_prompts(frozen, {"a.md": "1"})
    with pytest.raises(UsageError, match=r"the prompt a\.md"):
        check_prompts(frozen, {"a.md": "2"})


KINDS = ("Which drug treats {} well?", "Name a gene that is a part of {} somewhere", "Who wrote {} and when did they?")


def asked(name: str, text: str, *answers: str) -> LabelledQuestion:
    return LabelledQuestion(text, answers, id=name)


def made(count: int, split: str) -> list[LabelledQuestion]:
    return [asked(f"{split}{n}", KINDS[n % 3].format(f"thing{n} x{n * 7}"), "a") for n in range(count)]


class Model:
    """Replies to prompts by their purpose; counts them."""

    def __init__(self, none_of: str = "") -> None:
        self.asked: list[str] = []
        self._none_of, self._patterns = none_of, 0

    def __call__(self, prompt: str, trace: Trace, purpose: str) -> str:
        self.asked.append(purpose)
        if purpose == "patterns":
            self._patterns += 1
            return "Here they are:\n1. drugs\n2) genes\n" if self._patterns == 1 else "1. authors"
        asked = prompt.partition("# Queries")[2].splitlines()
        numbered = [line.partition(". ") for line in asked if line[:1].isdigit()]
        words = {"drug": 1, "gene": 2} if "drugs" in prompt else {"wrote": 1}
        found = [(number, next((to for word, to in words.items() if word in text), 0)) for number, _, text in numbered]
        return "\n".join(f"{number}: {to}" for number, to in found)


def test_a_model_proposes_patterns_assigns_in_batches_and_is_asked_once_more_for_those_left_over():
    model, training, validation = Model(), made(120, "t"), made(90, "v")
    found = groups_by_model(training, validation, model, Trace(), most=6, smallest=20)
    assert [group.pattern for group in found] == ["drugs", "genes", "authors"]
    assert [len(group.training) for group in found] == [40, 40, 40]
    assert [len(group.validation) for group in found] == [30, 30, 30]
    assert model.asked == ["patterns", *["assign"] * 6, "patterns", *["assign"] * 2]


def test_where_the_number_of_patterns_is_used_up_leftovers_are_a_group_of_their_own():
    found = groups_by_model(made(120, "t"), made(90, "v"), Model(), Trace(), most=2, smallest=20)
    assert [group.pattern for group in found] == ["drugs", "genes", "queries of no other pattern"]
    assert sum(len(group.training) for group in found) == 120


GROUPS = [
    Group("g1", "swim", ("a1",), ("a2", "a3", "a4")),
    Group("g2", "fly", ("b1",), ("b2", "b3", "b4")),
    Group("g3", "jump", ("c1",), ("c2",)),
]


def test_a_group_too_small_to_validate_joins_the_nearest_and_no_query_is_lost():
    texts = {"a": "red fish swim", "b": "blue birds fly", "c": "red fish jump"}
    training = [asked(one, texts[one[0]], "x") for group in GROUPS for one in group.training]
    held = [asked(one, texts[one[0]], "x") for group in GROUPS for one in group.validation]
    found = merged(GROUPS, training, held, smallest=3)
    assert sorted(group.pattern for group in found) == ["fly", "swim; or jump"]
    assert [group.id for group in found] == ["g1", "g2"]
    assert sorted(name for group in found for name in group.validation) == sorted(one.id for one in held)
    assert len(merged(GROUPS, training, held, smallest=100)) == 1


def test_a_group_joins_none_whose_answers_are_of_another_type_unless_nothing_can_be_held_out_for_it():
    training = [asked("a1", "red fish swim", "fish"), asked("b1", "red birds fly", "bird")]
    training.append(asked("c1", "red fish jump", "bird", "bird", "fish"))  # whose words are those of fish
    held = [asked(f"{name}{n}", "red", kind) for name, kind in (("a", "fish"), ("b", "bird")) for n in range(2, 5)]
    alone = asked("c2", "red fish jump", "bird")
    fish, _, birds = GROUPS

    def patterns(*groups: Group) -> list[str]:
        return sorted(group.pattern for group in merged(groups, training, [*held, alone], smallest=3, kinds=str))

    assert patterns(*GROUPS) == ["fly; or jump", "swim"]
    assert patterns(fish, birds) == ["jump", "swim"]
    assert patterns(fish, replace(birds, validation=())) == ["swim; or jump"]


def test_candidates_are_the_first_200_of_graph_rank(demo_kb, demo_home):
    query = "Which instrument made by somebody from Little Mew has a love letter hidden in it?"
    settings = Settings(kb="demo", home=demo_home)
    found = open_parts(demo_kb, settings).first(query, None)
    assert found == build_retriever("graph-rank", demo_kb, settings, {}).retrieve(query, SIZE).ids
    assert 50 < len(found) <= SIZE == 200
    assert found[0] == "instrument:the-brown-eye"


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
    assert history.best.number == 3
    assert [step.accepted for step in history.steps] == [False, False, True, False]
    assert "line 1" in history.steps[1].error
    assert not history.steps[1].batch
    # 24 answers come first and 8, every fourth, second: (24 + 8 / 2) / 32
    assert history.best.validation["mrr"] == pytest.approx((24 + 8 / 2) / 32)
    assert [brief.action for brief in writer.briefs] == ["write", "improve", "repair", "improve"]


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
    several = [asked(str(number), f"query {number} x", NODES[number]) for number in range(4)]
    together = Barrier(4)

    def run_one(program: Program, query: str, nodes: Sequence[str]) -> Outcome:
        together.wait(30)  # breaks where one waits for another
        return Outcome({NODES[int(query.split()[1])]: 1.0})

    trials = TrialRunner(lambda query: NODES, run_one).run(Program.read(program("good")), several)
    assert [(one.query.id, one.metrics["mrr"]) for one in trials] == [(str(number), 1.0) for number in range(4)]


def test_a_query_whose_answer_is_no_candidate_counts_as_any_other_and_a_program_may_still_find_it():
    lost, found = asked("1", "query 1 x", "elsewhere"), asked("2", "query 2 x", NODES[0])
    bench = TrialRunner(lambda query: NODES, lambda program, query, nodes: Outcome({"elsewhere": 2.0, NODES[0]: 1.0}))
    assert means(bench.baseline([lost, found]))["mrr"] == 0.5
    trials = bench.run(Program.read(program("good")), [lost, found])
    assert [one.metrics["mrr"] for one in trials] == [1.0, 0.5]
    assert bench.oracle([lost, found]) == 0.5


def test_the_writer_is_shown_the_three_best_programs():
    steps = [Step(number, "improve", "", str(number), validation={"mrr": number / 10}) for number in (1, 5, 2, 4, 3)]
    assert [step.number for step in History(tuple(steps)).leaders()] == [5, 4, 3]


SETTING = Setting(
    *("a shelf of books", "- book --by--> author (9)", "- book: name, year", "def names_of(ids): ..."),
    "It runs in Basic.",
)


def writer(*replies: str) -> tuple[ModelWriter, ScriptedModel]:
    model = ScriptedModel(replies=[AIMessage(reply) for reply in replies])
    return ModelWriter(ModelCalls(model, "scripted"), SETTING), model


def prompts(model: ScriptedModel) -> list[str]:
    return [str(messages[-1].text) for messages in model.seen]


def test_the_program_is_the_last_block_that_defines_an_entry():
    assert program_in("```python\nx = 1\n```\nand\n```py\ndef score(q, c):\n    pass\n```\n```\nnothing\n```") == (
        "def score(q, c):\n    pass\n"
    )
    assert program_in("```\nx = 1\n```") == "x = 1\n"
    assert program_in("def retrieve(query):\n    return {}") == "def retrieve(query):\n    return {}\n"


def test_a_training_by_a_model_tells_it_what_came_of_its_programs():
    replies = [
        *(f"```python\n{program('middling')}```", "Trust relations, not Node 9."),
        *(f"```python\n{program('crash')}```", f"```python\n{program('good')}```", "Fine."),
    ]
    author, model = writer(*replies)
    shop = replace(workshop(ScriptedWriter([]), Runner()), writer=author)
    validation = queries(32, "v")
    task = Task("g1", "books of a year", queries(40), validation, shop.bench.baseline(validation))
    history, _ = train_group(task, History(), plan(steps=3, batch=40), shop, lambda step: None)
    assert [step.accepted for step in history.steps] == [True, False, True]
    first, reflect, second, third, _ = prompts(model)
    for told in ("a shelf of books", "book --by--> author", "name, year", "def names_of", "books of a year"):
        assert told in first
    assert "Write the first program." in first
    assert "0.3250 MRR" in first
    assert sum(f"- {one.text} (1)" in first for one in queries(40)) == 20
    well, _, badly = reflect.partition("# What it did badly, or less well")
    assert badly.count("Query: ") == 5  # those whose answer came second
    assert "It was run on 40 queries: 0.6250 MRR, 1.0000 recall@20.\n40 of 40 went well: " in well
    assert "10 of 40 went as well as they can" in well
    assert "Right answers: Node 0 (n0) at rank 1 with 200" in well
    assert (
        "Program of step 1: 0.6250 MRR, 0.2500 hit@1 on the 32 validation queries; on 24 no right answer stands first, "
        "and 0 ended with an error, accepted" in second
    )
    assert second.count(program("middling")) == 1  # which is the best and the last
    assert "It is the program of step 1 above." in second
    assert "better on 24, worse on 0, an error on 0" in second
    assert "Trust relations, not [a name]." in second
    assert "Write a better program." in second
    assert "It ended with an error on 40 of these queries, first with: line 2: ZeroDivisionError" in third
    assert "It told by debug, on queries that ended so:\nQuery: t query" in third
    assert third.count("I got here") == 3
    assert third.count("Trust relations") == 1  # it is still to be followed, and nothing came of it yet
    assert "What to change in the program of step 1, from what it ranked well and badly:\nTrust relations" in third
    assert "without the error" in third


def test_advice_is_told_apart_by_what_it_led_to():
    author, model = writer("```python\nx\n```")
    best = Step(1, "write", program("good"), "a", "Advice 1.", batch=("t1",), accepted=True)
    steps = [
        replace(best, validation={"mrr": 0.7, "hit@1": 0.2}, validated=(1.0, 0.4), compared=Comparison(0.7, 0.5, 1.0))
    ]
    for number, (mean, failed) in enumerate([(0.7, 0), (0.6, 0), (0.8, 0), (0.7, 1)], 2):
        more = {"compared": Comparison(mean, 0.7, 1.0), "accepted": False, "failed": failed}
        steps.append(replace(best, number=number, instruction=f"Advice {number}.", **more))
    author.write(Brief("improve", 6, "books", [], {"mrr": 0.3, "hit@1": 0.1}, History(tuple(steps))), Trace())
    (told,) = prompts(model)
    for advice, led_to in enumerate(
        ("the same", "worse", "higher, but by no more than chance may do", "a program that failed"), 1
    ):
        before, _, after = told.partition(f"Advice {advice}.")
        assert led_to in before.rpartition("What was advised before")[2].splitlines()[0]
        assert "Advice" not in after.splitlines()[0]
    assert "Advice 1." not in History((steps[0], replace(steps[1], action="anew"))).lessons()


def test_a_fresh_start_does_not_show_the_last_program_but_the_best():
    author, model = writer("```python\nx\n```")
    best = Step(1, "write", program("good"), "a", batch=("t1",), validation={"mrr": 0.7, "hit@1": 0.2}, accepted=True)
    last = Step(2, "improve", program("bad"), "b", "Advice.", batch=("t1",), metrics={"mrr": 0.1, "hit@1": 0.0})
    author.write(Brief("anew", 3, "books", [], {"mrr": 0.3, "hit@1": 0.1}, History((best, last))), Trace())
    (told,) = prompts(model)
    assert program("good") in told
    assert program("bad") not in told
    assert "in another way" in told


def trial(name: str, hit5: float, mrr: float, error: str = "") -> Trial:
    query = LabelledQuestion(f"query {name}", ("a", "z"), id=name)
    return Trial(query, ("b", "a", "c"), {"b": 0.5, "a": 0.25}, {"hit@5": hit5, "mrr": mrr}, error)


def placed(name: str, *ranks: int | None, error: str = "", debug: str = "") -> Trial:
    """A query whose answers came at these ranks of 100, None: nowhere."""
    at = {rank: f"a{place}" for place, rank in enumerate(ranks) if rank}
    first = min(at, default=0)
    metrics = {"hit@5": float(0 < first <= 5), "mrr": 1 / first if first else 0.0}
    ranking = tuple(at.get(place, f"n{place}") for place in range(1, 101))
    query = LabelledQuestion(f"query {name}", tuple(f"a{place}" for place in range(len(ranks))), id=name)
    return Trial(query, ranking, {}, metrics, error, debug)


def sides(*trials: Trial) -> tuple[list[str], list[str]]:
    found = split(trials)
    return [one.query.id for one in found.well], [one.query.id for one in found.badly]


def test_of_either_side_the_most_telling_stand_first_by_first_answer_and_all_answers():
    trials = [
        placed("second", 2),  # (1/2 + 1) / 2
        placed("late", 10),  # hit@5 0
        placed("whole", 1, 2, 3),
        placed("nowhere", None),
        placed("mostly", 1, 3, None),  # two of three found
        placed("half", 1, None),  # one of two found: not more than half
        placed("fifth", 5),
        placed("sixth", 6),
    ]
    found = split(trials)
    # (1 + 1) / 2, (1 + 2/3) / 2, (1/2 + 1) / 2, (1/5 + 1) / 2; and 0, (1/10 + 1) / 2, (1/6 + 1) / 2, (1 + 1/2) / 2
    assert [round(standing(one), 3) for one in found.well] == [1.0, 0.833, 0.75]
    assert sides(*trials) == (["whole", "mostly", "second"], ["nowhere", "late", "sixth", "half", "fifth"])
    assert (found.went_well, found.whole, found.failed) == (4, 1, 0)


def test_where_few_went_badly_those_that_could_go_better_are_shown_in_their_place():
    whole = [placed(f"whole{n}", 1) for n in range(6)]
    assert sides(*whole, placed("below", 1, 3), placed("bad", 30)) == (
        ["whole0", "whole1", "whole2", "whole3", "whole4"],
        ["bad", "below"],
    )
    assert sides(*whole[:2]) == (["whole0", "whole1"], [])


def test_a_right_and_a_wrong_document_of_the_worst_query_are_told():
    told = document_pair(trial("1", 1.0, 0.5), lambda node: f"Text of {node}")
    assert told == ["Text of a", "Text of b"]
    author, model = writer("Fine.")
    brief = Brief("write", 1, "", [], {}, History())
    bad = split(workshop(ScriptedWriter([])).bench.run(Program.read(program("bad")), [query(1)]))
    author.reflect(brief, "", bad, str, lambda node: f"Text of {node}", Trace())
    (prompt,) = prompts(model)
    assert prompt.index("Text of n9") < prompt.index("Text of n29") < prompt.index("# Your task")
    assert document_pair(placed("2", None), str) == ["a0", "n1"]


def test_names_of_the_nodes_shown_and_of_what_the_queries_name_are_replaced():
    contrast = split([trial("1", 1.0, 1.0)])
    names = names_in(contrast, lambda node: {"b": "Bob Boat", "a": "key"}.get(node, node), lambda text: ["Averhythe"])
    assert names == ["Averhythe", "Bob Boat", "key"]
    advice = "Boost BOB BOAT and 'key'; use the key of the dictionary, not Averhythe."
    assert without_names(advice, names) == (
        "Boost [a name] and '[a name]'; use the key of the dictionary, not [a name]."
    )
    assert without_names("Bob Boats is another", names) == "Bob Boats is another"


def test_a_query_is_told_with_first_predictions_their_scores_and_the_ranks_of_the_truth():
    assert describe_trial(trial("1", 1.0, 0.5), {"a": "Ann", "b": "Bob", "c": "Cy", "z": "Zoe"}.__getitem__) == (
        "Query: query 1\nFirst predictions:\n1. Bob (b) 0.5\n2. Ann (a) 0.25\n3. Cy (c)\n"
        "Right answers: Ann (a) at rank 2 with 0.25; Zoe (z) no candidate"
    )


def test_an_answer_that_is_no_candidate_is_told_apart_from_one_that_ranks_low():
    told = replace(trial("1", 1.0, 0.5), candidates=("a", "b", "c", "z"))
    assert describe_trial(told, str).endswith("z (z) not among the first 3, though a candidate")
