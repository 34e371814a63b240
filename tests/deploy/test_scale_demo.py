"""``make scale-demo`` in its small form: nothing is lost, and nothing is left behind."""

import os
import subprocess
import sys
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.conftest import ROOT

MARK = "KBNAV_SCALE_DEMO_TEST"


@pytest.mark.timeout(600)
def test_of_fifty_questions_none_is_lost_and_everything_that_was_started_ends():
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "deploy.scale_demo", "--small"]
    with TemporaryDirectory(prefix="k", dir="/tmp") as folder:  # the path of a socket of Ray's must be short
        environment = {**os.environ, MARK: mark, "TMPDIR": folder}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=580)
        left = list(Path(folder).glob("kbnav-*"))
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert "killed one of the two servers" in said
    assert "asked 50, answered 50, lost 0" in said
    assert left == [], "its folders are gone"
    assert started(mark) == [], "its processes have ended"


def started(mark: str) -> list[str]:
    """Processes with a mark in their environment, which they have from who started them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # it has ended meanwhile, or is another user's
            continue
    return found
