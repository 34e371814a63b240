"""Evaluations on a Ray cluster of two workers, one of which is killed."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kbnav.evaluation.evaluate import evaluate, score_folder
from kbnav.evaluation.records import read_records
from kbnav.evaluation.runner import on_ray
from kbnav.settings.model import Settings
from tests.apps.web.parts import Explorer
from tests.deploy.evaluations import kill_one_of_two, plan, processes
from tests.models.stub import Canned

WORKER = "ray::Worker"
"""The title of a worker's process."""


def test_a_cluster_gives_the_scores_of_one_machine(cluster, tmp_path, dataset, mini_home):
    settings = Settings(home=mini_home, kb="mini", language="en")
    assert evaluate(plan(dataset, settings), tmp_path / "here") == "done"
    with on_ray(4, workers=2) as build:
        assert evaluate(plan(dataset, settings, jobs=4), tmp_path / "there", build=build) == "done"
    assert score_folder(tmp_path / "there") == score_folder(tmp_path / "here")
    there, here = (read_records(tmp_path / name) for name in ("there", "here"))
    assert {name: one.run.outcome.table for name, one in there.items()} == {
        name: one.run.outcome.table for name, one in here.items()
    }


def test_the_questions_of_a_killed_worker_are_asked_again_once_and_the_journal_has_all(
    cluster, tmp_path, dataset, mini_home
):
    class Counting(Explorer):
        begun = 0

        def reply(self, asked: dict[str, Any]) -> Canned:
            if "tools" in asked and asked["messages"][-1]["role"] == "user":
                self.begun += 1
            return super().reply(asked)

    out = tmp_path / "run"
    with Counting(held=1) as model, on_ray(4, workers=2) as build, ThreadPoolExecutor(1) as pool:
        settings = Settings(home=mini_home, kb="mini", language="en", **model.options())
        running = pool.submit(evaluate, plan(dataset, settings, jobs=4), out, build=build)
        try:
            assert all(model.holding.acquire(timeout=60) for _ in range(4))
            kill_one_of_two(WORKER)
        finally:
            model.go_on.set()
        assert running.result(240) == "done"
        assert model.begun == 6, "the two of the dead worker once more"
        records = read_records(out)
        assert len(records) == 4
        assert not [one.error for one in records.values() if one.error]
        assert len((out / "questions.jsonl").read_text().splitlines()) == 4
        assert evaluate(plan(dataset, settings), out) == "done"
        assert model.begun == 6, "the journal had them"


def test_a_question_of_which_its_worker_dies_twice_fails_and_the_others_are_answered(
    cluster, tmp_path, dataset, mini_home
):
    class Deadly(Explorer):
        killed = 0

        def reply(self, asked: dict[str, Any]) -> Canned:
            if any("radium?" in str(said["content"]) for said in asked["messages"]):
                for worker in processes(WORKER):
                    os.kill(worker, signal.SIGKILL)
                    self.killed += 1
            return super().reply(asked)

    with Deadly() as model, on_ray(1, workers=1) as build:
        settings = Settings(home=mini_home, kb="mini", language="en", **model.options())
        assert evaluate(plan(dataset, settings), tmp_path / "run", build=build) == "done"
    assert model.killed == 2, "once, and once more"
    errors = {name: one.error for name, one in read_records(tmp_path / "run").items()}
    assert {name: bool(error) for name, error in errors.items()} == {"q0": False, "q1": False, "q2": True, "q3": False}
    assert errors["q2"] in ("ActorDiedError", "ActorUnavailableError")


def test_a_failure_in_a_worker_is_the_failure_that_it_was(cluster, tmp_path, dataset, mini_home):
    class Refusing(Explorer):
        def reply(self, asked: object) -> Canned:
            return Canned(b'{"error": {"message": "no"}}', 500)

    with Refusing() as model, on_ray(4, workers=2) as build:
        settings = Settings(home=mini_home, kb="mini", language="en", model_retries=0, **model.options())
        assert evaluate(plan(dataset, settings, jobs=4), tmp_path / "run", build=build) == "done"
    assert {one.error for one in read_records(tmp_path / "run").values()} == {"ServiceError"}
