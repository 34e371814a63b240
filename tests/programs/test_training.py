"""A whole training: resumed after any kill, alike for equal seeds, frozen so that nothing else loads."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from kbnav.errors import DataError, ServiceError, Stopped, UsageError
from kbnav.programs.first_stage import SIZE, TrainingQuery, open_parts, oracle_recall
from kbnav.programs.groups import Centroids, Group, groups_by_model, merged, one_group
from kbnav.programs.program import Outcome, Program
from kbnav.programs.retriever import DESCRIPTION, check_bound, check_prompts, read_frozen
from kbnav.programs.train import GroupsFound, Order, read_steps, train
from kbnav.programs.writer import Brief
from kbnav.retrieval.base import build_retriever
from kbnav.runs.trajectory import Trace, Usage
from kbnav.settings.model import Settings
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


KINDS = ("Which drug treats {} well?", "Name a gene that is a part of {} somewhere", "Who wrote {} and when did they?")


def made(count: int, split: str) -> list[TrainingQuery]:
    return [TrainingQuery(f"{split}{n}", KINDS[n % 3].format(f"thing{n} x{n * 7}"), ("a",)) for n in range(count)]


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


def test_common_words_route_new_queries_to_their_group():
    texts = [one.text for one in made(120, "t")]
    centroids = Centroids.of([texts[n::3] for n in range(3)])
    assert centroids.nearest(["Which drug treats gout well?", "Who wrote it?"]) == [0, 2]


def test_a_group_too_small_to_validate_joins_the_nearest_and_no_query_is_lost():
    training = [TrainingQuery("a1", "red fish swim", ("x",)), TrainingQuery("b1", "blue birds fly", ("x",))]
    training += [TrainingQuery("c1", "red fish jump", ("x",))]
    held = [TrainingQuery(f"a{n}", "red fish swim", ("x",)) for n in range(2, 5)]
    held += [TrainingQuery(f"b{n}", "blue birds fly", ("x",)) for n in range(2, 5)]
    held += [TrainingQuery("c2", "red fish jump", ("x",))]
    groups = [
        Group("g1", "swim", ("a1",), ("a2", "a3", "a4")),
        Group("g2", "fly", ("b1",), ("b2", "b3", "b4")),
        Group("g3", "jump", ("c1",), ("c2",)),
    ]
    found = merged(groups, training, held, smallest=3)
    assert sorted(group.pattern for group in found) == ["fly", "swim; or jump"]
    assert [group.id for group in found] == ["g1", "g2"]
    assert sorted(name for group in found for name in group.validation) == sorted(one.id for one in held)
    assert len(merged(groups, training, held, smallest=100)) == 1


def test_a_group_joins_none_whose_answers_are_of_another_type_unless_nothing_can_be_held_out_for_it():
    def asked(name: str, text: str, *kinds: str) -> TrainingQuery:
        return TrainingQuery(name, text, kinds)

    training = [asked("a1", "red fish swim", "fish"), asked("b1", "red birds fly", "bird")]
    training.append(asked("c1", "red fish jump", "bird", "bird", "fish"))  # whose words are those of fish
    held = [asked(f"{name}{n}", "red", kind) for name, kind in (("a", "fish"), ("b", "bird")) for n in range(2, 5)]
    alone = asked("c2", "red fish jump", "bird")
    groups = [
        Group("g1", "swim", ("a1",), ("a2", "a3", "a4")),
        Group("g2", "fly", ("b1",), ("b2", "b3", "b4")),
        Group("g3", "jump", ("c1",), ("c2",)),
    ]
    found = merged(groups, training, [*held, alone], smallest=3, kinds=str)
    assert sorted(group.pattern for group in found) == ["fly; or jump", "swim"]
    found = merged([groups[0], groups[2]], training, [*held, alone], smallest=3, kinds=str)
    assert sorted(group.pattern for group in found) == ["jump", "swim"]
    bare = Group("g3", "jump", ("c1",), ())
    assert [group.pattern for group in merged([groups[0], bare], training, held, smallest=3, kinds=str)] == [
        "swim; or jump"
    ]


def test_candidates_are_the_first_200_of_graph_rank(demo_kb, demo_home):
    query = "Which instrument made by somebody from Little Mew has a love letter hidden in it?"
    settings = Settings(kb="demo", home=demo_home)
    found = open_parts(demo_kb, settings).first(query, None)
    assert found == build_retriever("graph-rank", demo_kb, settings, {}).retrieve(query, SIZE).ids
    assert 50 < len(found) <= SIZE == 200
    assert found[0] == "instrument:the-brown-eye"


def test_oracle_recall_is_what_no_program_can_pass():
    found = oracle_recall([(["a", "b"], ["a", "c"]), (["a"], ["d"]), (["x"], ["x"])])
    assert found == pytest.approx(0.5)
    assert oracle_recall([]) == 0
