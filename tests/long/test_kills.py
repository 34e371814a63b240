"""Builds, questions, chats, evaluations, the page's server and the bot, killed at random: nothing lost, none twice.

``KBNAV_KILLS`` in all (60), at moments that ``KBNAV_SEED`` draws.
"""

import faulthandler
import json
import math
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.long.killing import KINDS

# Read here, because what the environment says of kbnav is taken away before a test.
KILLS = int(os.environ.get("KBNAV_KILLS", "60"))
SEED = int(os.environ.get("KBNAV_SEED", "7"))
LONGEST = 900 + 60 * KILLS
"""Seconds after which a kind of work hangs, on a machine that does much else."""


@pytest.mark.timeout(LONGEST)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_killed_loses_nothing_and_does_nothing_twice(kind, tmp_path, request):
    faulthandler.cancel_dump_traceback_later()  # faulthandler_timeout is shorter than this test's limit
    wiki = {"WIKI_API": request.getfixturevalue("mediawiki").api} if kind == "bot" else {}
    kills = math.ceil(KILLS * KINDS[kind].share)
    command = [sys.executable, "-m", "tests.long.killing", kind, str(kills), str(SEED), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | wiki, capture_output=True, text=True)
    assert done.returncode == 0, f"seed {SEED}: {done.stderr[-5000:]}"
    told = json.loads(done.stdout.splitlines()[-1])
    print(f"{kind}: {told['kills']} kills, {told['ended']} came to their end, seed {SEED}")
    assert told["kills"] == kills
    assert told["ended"] >= 1
