"""A run whose journal is in PostgreSQL: its machine is lost in the middle, and another goes on with it."""

import subprocess
import sys
import threading
from typing import Any

import pytest
from psycopg import connect

from kbnav.errors import UsageError
from kbnav.evaluation.evaluate import evaluate, score_folder
from kbnav.evaluation.records import GOLD, INFO, QUESTIONS, read_records
from kbnav.settings.model import Settings
from tests.apps.web.parts import Explorer
from tests.deploy.evaluations import RUN, machine, plan
from tests.models.stub import Canned


class Counting(Explorer):
    """Answers at once, but the third question waits until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0
        self.third, self.released = threading.Event(), threading.Event()

    def reply(self, asked: dict[str, Any]) -> Canned:
        if "tools" in asked and asked["messages"][-1]["role"] == "user":
            self.begun += 1
            if self.begun == 3:
                self.third.set()
                self.released.wait(120)
        return super().reply(asked)


def test_another_machine_goes_on_with_the_run_of_one_that_is_lost(tmp_path, dataset, mini_home, database, monkeypatch):
    with Counting() as model:
        options = {"home": mini_home, "kb": "mini", "language": "en", **model.options()}
        settings = Settings(**options, database=database)
        one = machine(tmp_path, "one", monkeypatch)
        told = {"--model": "stub", "--base-url": model.base_url, "--kb": "mini", "--set": f"database={database}"}
        command = [
            sys.executable,
            "-m",
            "kbnav",
            "eval",
            "run",
            str(dataset),
            "--out",
            str(RUN),
            "--set",
            "language=en",
        ]
        command += [part for option in told.items() for part in option]
        environment = {"KBNAV_HOME": str(mini_home), "KBNAV_API_KEY": "none", "PATH": "/usr/bin:/bin"}
        lost = subprocess.Popen(command, cwd=one, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert model.third.wait(120)
            two = machine(tmp_path, "two", monkeypatch)
            with pytest.raises(UsageError, match="is being written by another run"):
                evaluate(plan(dataset, settings), RUN)
        finally:
            lost.kill()
            lost.wait()
            model.released.set()
        assert evaluate(plan(dataset, settings), RUN) == "done"
        assert model.begun == 5, "four, and the one that was under way once more"
        alone = machine(tmp_path, "alone", monkeypatch)
        assert evaluate(plan(dataset, Settings(**options)), RUN) == "done"
    assert score_folder(two / RUN) == score_folder(alone / RUN)
    assert sorted(read_records(two / RUN)) == ["q0", "q1", "q2", "q3"]
    assert len((two / RUN / QUESTIONS).read_bytes().splitlines()) == 4
    machine(tmp_path, "one", monkeypatch)
    assert evaluate(plan(dataset, settings), RUN) == "done", "nothing is left to be asked: the rest comes to it"
    for name in (INFO, GOLD, QUESTIONS):
        assert (one / RUN / name).read_bytes() == (two / RUN / name).read_bytes()


def test_a_run_begun_in_its_folder_is_kept_from_then_on_and_another_of_its_name_is_refused(
    tmp_path, dataset, mini_home, database, monkeypatch
):
    settings = Settings(home=mini_home, kb="mini", language="en")
    kept = settings.model_copy(update={"database": Settings(database=database).database})
    first = machine(tmp_path, "first", monkeypatch)
    evaluate(plan(dataset, settings, only=frozenset(["q0", "q1"])), RUN)
    evaluate(plan(dataset, kept, only=frozenset(["q0", "q1"])), RUN)
    second = machine(tmp_path, "second", monkeypatch)
    evaluate(plan(dataset, kept, only=frozenset(["q0", "q1"])), RUN)
    assert (second / RUN / QUESTIONS).read_bytes() == (first / RUN / QUESTIONS).read_bytes()
    machine(tmp_path, "third", monkeypatch)
    evaluate(plan(dataset, settings), RUN)
    with pytest.raises(UsageError, match=r"not that of the run of this name.*choose another folder"):
        evaluate(plan(dataset, kept), RUN)


def test_a_database_that_fails_ends_the_run_with_what_was_answered(tmp_path, dataset, mini_home, database, monkeypatch):
    with Counting() as model, connect(database, autocommit=True) as admin:
        settings = Settings(home=mini_home, kb="mini", language="en", database=database, **model.options())
        machine(tmp_path, "one", monkeypatch)

        def end_others() -> None:
            assert model.third.wait(120)
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            model.released.set()

        ending = threading.Thread(target=end_others)
        ending.start()
        with pytest.raises(UsageError, match=r"the database failed.*the same command goes on"):
            evaluate(plan(dataset, settings), RUN)
        ending.join()
        assert list(read_records(RUN)) == ["q0", "q1"]
        assert evaluate(plan(dataset, settings), RUN) == "done"
        assert list(read_records(RUN)) == ["q0", "q1", "q2", "q3"]
