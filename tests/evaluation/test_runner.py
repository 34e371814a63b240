"""Running a system over questions: bounds, limits, failures, resuming."""

import threading
from dataclasses import replace

import pytest
from pydantic import SecretStr

from kbnav.errors import Banned, CredentialsError, ServiceError, UsageError
from kbnav.evaluation.records import QUESTIONS, read_records
from kbnav.evaluation.runner import Progress, begin_run, run_questions
from kbnav.settings.model import Settings
from tests.evaluation.parts import Script, info_of, table

ASKED = {f"q{number}": f"question {number}?" for number in range(12)}


def right(question: str):
    return table("Q1")


def test_as_many_questions_are_under_way_as_there_are_jobs_and_no_more(tmp_path):
    together = threading.Barrier(3, timeout=20)

    def meet(question: str):
        together.wait()
        return table("Q1")

    script = Script(meet)
    assert run_questions(script.system, ASKED, tmp_path, jobs=3) == "done"
    assert script.most == 3
    assert set(read_records(tmp_path)) == set(ASKED)


def test_what_was_answered_is_not_asked_again(tmp_path):
    first = Script(right)
    run_questions(first.system, dict(list(ASKED.items())[:5]), tmp_path)
    second = Script(right)
    heard: list[Progress] = []
    assert run_questions(second.system, ASKED, tmp_path, listener=heard.append) == "done"
    assert second.asked == list(ASKED.values())[5:]
    assert (heard[0].done, heard[0].resumed, heard[-1].done, heard[-1].total) == (5, 5, 12, 12)
    assert len((tmp_path / QUESTIONS).read_text().splitlines()) == 12


def test_a_failure_is_kept_with_its_reason_and_asked_again_only_on_request(tmp_path):
    def broken(question: str):
        if "3" in question:
            return ServiceError("the query service is down")
        if "4" in question:
            raise KeyError("a bug")
        return table("Q1")

    assert run_questions(Script(broken).system, ASKED, tmp_path) == "done"
    records = read_records(tmp_path)
    assert {name: record.error for name, record in records.items() if record.error} == {
        "q3": "ServiceError",
        "q4": "KeyError",
    }
    assert records["q3"].run.outcome.note == "the query service is down"
    assert records["q4"].run.outcome.note == "KeyError: 'a bug'"
    assert records["q4"].run.outcome.status == "failed"
    again = Script(right)
    run_questions(again.system, ASKED, tmp_path)
    assert again.asked == []
    run_questions(again.system, ASKED, tmp_path, retry_failed=True)
    assert again.asked == [ASKED["q3"], ASKED["q4"]]
    assert not any(record.error for record in read_records(tmp_path).values())


@pytest.mark.parametrize("error", [CredentialsError("no key"), Banned("banned")])
def test_without_a_key_or_after_a_ban_the_run_ends_and_nothing_is_recorded_of_it(tmp_path, error):
    def after_two(question: str):
        return error if question == ASKED["q2"] else table("Q1")

    with pytest.raises(type(error)):
        run_questions(Script(after_two).system, ASKED, tmp_path)
    assert set(read_records(tmp_path)) == {"q0", "q1"}


def test_a_service_that_stays_down_ends_the_run_after_ten_failures(tmp_path):
    with pytest.raises(ServiceError, match=r"10 failures in a row.*--retry-failed.*down"):
        run_questions(Script(lambda question: ServiceError("down")).system, ASKED, tmp_path)
    assert len(read_records(tmp_path)) == 10


def test_it_stops_at_the_cost_of_the_whole_run(tmp_path):
    script = Script(right, cost=0.5)
    assert run_questions(script.system, ASKED, tmp_path, max_cost=1.5) == "cost limit"
    assert len(script.asked) == 3
    assert run_questions(script.system, ASKED, tmp_path, max_cost=1.5) == "cost limit"
    assert len(script.asked) == 3
    heard: list[Progress] = []
    run_questions(script.system, ASKED, tmp_path, max_cost=2.5, listener=heard.append)
    assert heard[-1].cost == 2.5


def test_when_stopped_the_questions_under_way_end_and_are_kept(tmp_path):
    stop = threading.Event()

    def asks_to_stop(question: str):
        stop.set()
        return table("Q1")

    assert run_questions(Script(asks_to_stop).system, ASKED, tmp_path, stopped=stop.is_set) == "interrupted"
    assert set(read_records(tmp_path)) == {"q0"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"questions": ("q1",)}, "questions"),
        ({"dataset_sha256": "11"}, "dataset_sha256"),
        ({"prompts": {"policy.md": "22"}}, "prompts"),
        ({"gold_sha256": "33"}, "gold_sha256"),
    ],
)
def test_a_run_is_not_gone_on_with_under_other_conditions(tmp_path, change, named):
    begin_run(tmp_path, info_of(["q0"]))
    with pytest.raises(UsageError, match=f"another {named};"):
        begin_run(tmp_path, replace(info_of(["q0"]), **change))


def test_settings_that_change_no_answer_may_change(tmp_path):
    settings = Settings(home=tmp_path)
    begin_run(tmp_path, info_of(["q0"], settings=settings.public(), started="monday"))
    moved = settings.model_copy(
        update={"home": tmp_path / "b", "cache_age": 0.0, "model_retries": 9, "database": SecretStr("postgresql://a/b")}
    )
    assert begin_run(tmp_path, info_of(["q0"], settings=moved.public(), started="tuesday")).started == "monday"
    hotter = settings.model_copy(update={"temperature": 0.3})
    with pytest.raises(UsageError, match=r"settings\.temperature"):
        begin_run(tmp_path, info_of(["q0"], settings=hotter.public()))
