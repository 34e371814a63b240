"""Builds, questions, chats, evaluations and the page's server, killed at random: nothing is lost, nothing is double."""

import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.long.shares import LONGEST, SHARES, seed, share


@pytest.mark.timeout(LONGEST)
@pytest.mark.parametrize("kind", [kind for kind in SHARES if kind != "bot"])
def test_whatever_is_killed_loses_nothing_and_does_nothing_twice(kind, tmp_path):
    command = [sys.executable, "-m", "tests.long.killing", kind, str(share(kind)), str(seed()), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {seed()}: {done.stderr[-5000:]}"
    told = json.loads(done.stdout.splitlines()[-1])
    print(f"{kind}: {told['kills']} kills, {told['ended']} came to their end, seed {seed()}")
    assert told["kills"] == share(kind)
    assert told["ended"] >= 1
