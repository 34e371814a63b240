"""A run that is killed while a model is asked goes on from there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from kbnav.errors import ServiceError
from kbnav.models.scripted import ScriptedModel
from kbnav.programs.sandbox.monty import Paused, PausedRuns
from tests.programs.paused_run import Counting, answering, run


def test_a_run_that_is_killed_at_a_model_call_goes_on_there(demo_home, demo_kb, tmp_path):
    whole = run(demo_home, tmp_path / "other", answering())
    command = [sys.executable, "-m", "tests.programs.paused_run", str(demo_home), str(tmp_path)]
    child = subprocess.Popen(command, start_new_session=True)
    try:
        began = time.monotonic()
        while not (tmp_path / "asked").exists() and time.monotonic() - began < 60:
            assert child.poll() is None
            time.sleep(0.05)
        assert (tmp_path / "asked").exists()
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    [kept] = tmp_path.glob("*.paused")
    assert kept.stat().st_mode & 0o077 == 0
    encoder = Counting()
    resumed = run(demo_home, tmp_path, answering(), encoder)
    assert encoder.asked == 0, "what came before the kill was done again"
    # Random numbers and what was told and counted before the kill are as in a run that nothing interrupted.
    assert replace(resumed, seconds=whole.seconds) == whole
    assert whole.scores == {"place:ropewalk-lane": 0.9, "place:averhythe": 0.3}
    assert whole.calls == {"embed": 1, "debug": 2, "score_texts": 1}
    assert not list(tmp_path.glob("*.paused"))


class _Down(ScriptedModel):
    def _generate(self, *args, **kwargs):
        raise ServiceError("the endpoint is down")


def test_a_run_that_a_service_ended_is_kept_too(demo_home, demo_kb, tmp_path):
    with pytest.raises(ServiceError):
        run(demo_home, tmp_path, _Down(replies=[]))
    assert len(list(tmp_path.glob("*.paused"))) == 1
    assert run(demo_home, tmp_path, answering()).ok
    assert not list(tmp_path.glob("*.paused"))


def test_a_file_that_is_not_whole_or_not_of_this_run_counts_for_nothing(demo_home, demo_kb, tmp_path):
    runs = PausedRuns(tmp_path)
    runs.keep("key", Paused({"seconds": 1.0}, b"state"))
    assert runs.find("key") == Paused({"seconds": 1.0}, b"state")
    file = tmp_path / "key.paused"
    file.write_bytes(file.read_bytes()[:-1])
    assert runs.find("key") is None
    file.write_bytes(b"no JSON")
    assert runs.find("key") is None
    runs.keep("key", Paused({}, b"state"))
    file.rename(tmp_path / "another.paused")
    assert runs.find("another") is None
    with pytest.raises(ServiceError):
        run(demo_home, tmp_path / "runs", _Down(replies=[]))
    [kept] = (tmp_path / "runs").glob("*.paused")
    kept.write_bytes(kept.read_bytes()[:-5])
    assert run(demo_home, tmp_path / "runs", answering()).ok
