"""A whole training: resumed after any kill, alike for equal seeds, frozen so that nothing else loads."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from kbnav.errors import DataError, ServiceError, Stopped, UsageError
from kbnav.programs.groups import Centroids, Group, one_group
from kbnav.programs.program import Outcome, Program
from kbnav.programs.retriever import DESCRIPTION, check_bound, check_prompts, read_frozen
from kbnav.programs.train import GroupsFound, Order, read_steps, train
from kbnav.programs.writer import Brief
from kbnav.runs.trajectory import Trace, Usage
from tests.programs.parts import Runner, ScriptedWriter, plan, program, queries, workshop

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


def trained(folder: Path, runner: Runner | None = None, wanted: Order | None = None, **more: Any) -> None:
    wanted = wanted or order()
    shop = workshop(ScriptedWriter(SOURCES), runner, **more)
    train(wanted, folder, shop, lambda: GroupsFound(tuple(one_group(wanted.training, wanted.validation))))


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
    (group,) = read_frozen(whole).groups
    assert group.program is not None
    assert group.program.source == program("good")
    assert (group.record.step, group.record.queries) == (4, 32)
    assert group.record.scores["mrr"] == pytest.approx(0.875, abs=1e-5)
    assert group.record.first["mrr"] == pytest.approx((8 + 24 / 10) / 32, abs=1e-5)
    assert group.record.p is not None
    assert group.record.p < 0.001
    assert read_frozen(whole).about.oracle == 1.0


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
    assert read_frozen(tmp_path / "cost").groups[0].program is None
    with pytest.raises(Stopped, match="the same command goes on"):
        trained(tmp_path / "stopped", stopped=lambda: True)
    assert not (tmp_path / "stopped" / DESCRIPTION).exists()


def test_the_cost_of_grouping_counts_towards_the_limit(tmp_path):
    wanted = order()
    groups = GroupsFound(tuple(one_group(wanted.training, wanted.validation)), Usage(1, 1, 0, 1), 3.0)
    found = train(
        order(cost=3.0),
        tmp_path,
        workshop(ScriptedWriter(SOURCES)),
        lambda: groups,
    )
    assert (found.cost, found.ended) == (3.0, {"g1": "cost"})


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


def test_another_schema_encoder_api_or_first_stage_is_refused_by_name(whole: Path):
    frozen = read_frozen(whole)
    check_bound(frozen, BOUND)
    for name in BOUND:
        with pytest.raises(UsageError, match=f"{name}: .*, now "):
            check_bound(frozen, {**BOUND, name: "changed"})
    check_prompts(frozen, {"a.md": "1"})
    with pytest.raises(UsageError, match=r"the prompt a\.md"):
        check_prompts(frozen, {"a.md": "2"})
