"""A saved run put through the state machine again, from its recordings alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from kbnav.errors import UsageError
from kbnav.evaluation.evaluate import score_folder
from kbnav.evaluation.records import GOLD, GoldAnswer, GoldInfo, read_records
from kbnav.evaluation.replay import replay_run
from kbnav.evaluation.runner import System, begin_run, run_questions
from kbnav.models.scripted import says
from kbnav.runs.journal import open_journal
from kbnav.runs.trajectory import Run
from kbnav.sessions.session import Attempt, attempt
from kbnav.settings.model import Settings
from tests.agents.parts import NumbersKB, agent_of, finishes, looks, runs
from tests.evaluation.parts import info_of, saved_folder, table

SCRIPTS: dict[str, list[AIMessage]] = {
    "plain?": [looks("a"), runs(2), finishes()],
    "repeats?": [looks("a"), runs(3), looks("b"), looks("a"), looks("a"), runs(1), finishes()],
    "finishes too early?": [runs(0), finishes(), runs("broken"), finishes(), runs(2), finishes()],
    "calls side by side?": [says(("look", {"at": "a"}), ("execute_query", {"query": "SELECT 4"}), ("finish", {}))],
    "calls nothing?": [AIMessage("I wonder."), says(("fly", {})), runs(1), finishes()],
    "probes?": [runs("5 LIMIT 2"), finishes()],
    "runs out of budget?": [looks(f"{number}") for number in range(20)],
    "the service dies?": [runs(3), runs("down")],
    "refuses?": [runs(1), AIMessage("", additional_kwargs={"refusal": "no"})],
}


def scripted(home: Path) -> System:
    def ask(question: str, given: object) -> Attempt:
        agent = agent_of(SCRIPTS[question], home)
        return attempt(agent, question)

    return System("test", "scripted", ask)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    folder = tmp_path / "recorded"
    settings = Settings(home=tmp_path, language="en")
    begin_run(folder, info_of(list(SCRIPTS), settings=settings.public()))
    with open_journal(folder / GOLD) as journal:
        journal.append(GoldInfo("own", "00"))
        for name in SCRIPTS:
            gold = NumbersKB().execute_query("SELECT 2")
            journal.append(GoldAnswer(name, name, "stored", table=gold))
    assert run_questions(scripted(tmp_path), {name: name for name in SCRIPTS}, folder, jobs=2) == "done"
    return folder


def essence(run: Run) -> tuple[object, ...]:
    """All of a run but how long its steps took, and how a message was worded."""
    steps = [replace(step, seconds=0.0) for step in run.steps]
    return steps, len(run.path), replace(run.outcome, note=""), run.usage, run.id


def test_a_replay_has_the_same_steps_and_byte_for_byte_the_same_scores(recorded, tmp_path):
    assert replay_run(recorded, tmp_path / "again") == len(SCRIPTS)
    before, after = read_records(recorded), read_records(tmp_path / "again")
    for name in SCRIPTS:
        assert essence(after[name].run) == essence(before[name].run), name
        assert after[name].error == before[name].error, name
    statuses = {record.run.outcome.status for record in before.values()}
    assert statuses == {"answered", "no answer", "failed", "refused"}
    scores = [score_folder(folder) for folder in (recorded, tmp_path / "again")]
    assert 0 < scores[0].all.values["f1"] < 1
    assert (recorded / "scores.json").read_bytes() == (tmp_path / "again" / "scores.json").read_bytes()


def test_a_recording_under_other_rules_is_noticed(recorded, tmp_path):
    lenient = Settings(home=tmp_path, language="en", budget={"premature_finish": False})
    (recorded / "run.json").unlink()
    begin_run(recorded, info_of(list(SCRIPTS), settings=lenient.public()))
    replay_run(recorded, tmp_path / "again")
    after = read_records(tmp_path / "again")["finishes too early?"].run
    assert after.outcome.status == "no answer"
    assert len(after.steps) == 2


def test_answers_without_steps_are_taken_over(tmp_path):
    folder = saved_folder(tmp_path / "a", {"a": table("Q1")}, {"a": table("Q1")})
    replay_run(folder, tmp_path / "b")
    assert score_folder(tmp_path / "b").all.values["f1"] == 1.0


def test_imports_and_folders_in_use_are_refused(recorded, tmp_path):
    imported = saved_folder(tmp_path / "a", {"a": table("Q1")}, {}, origin="predictions.json")
    with pytest.raises(UsageError, match=r"comes from predictions\.json"):
        replay_run(imported, tmp_path / "b")
    with pytest.raises(UsageError, match="holds a run with another origin"):
        replay_run(recorded, recorded)
    replay_run(recorded, tmp_path / "c")
    with pytest.raises(UsageError, match="holds questions already"):
        replay_run(recorded, tmp_path / "c")
