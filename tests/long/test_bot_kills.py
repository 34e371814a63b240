"""Two hundred questions, and a bot that is killed again and again: each is answered exactly once."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.talk import MARKER
from tests.apps.bot.mediawiki import BOT
from tests.long.shares import LONGEST, seed, share

PAGES = tuple(f"Project talk:Questions {number}" for number in range(8))
EACH = 25
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(LONGEST)
def test_two_hundred_questions_are_each_answered_once_however_often_the_bot_is_killed(mediawiki, people, tmp_path):
    for page in PAGES:
        people["Admin"].write(page, "Lead.\n")
    state = tmp_path / "bot.sqlite"
    ledger = Ledger(state)
    for page in PAGES:  # the bot has looked before
        ledger.set_mark(f"page {page}", "1")
    ledger.close()
    for page in PAGES:
        sections = [f"== Question {number} ==\n{page[-1]}, is it {number}? ~~~~\n" for number in range(EACH)]
        people["Ann"].write(page, "\n".join(sections))
    command = [
        sys.executable,
        "-m",
        "tests.long.killable",
        str(seed()),
        str(share("bot")),
        mediawiki.api,
        str(state),
        str(EACH * len(PAGES)),
        *PAGES,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kills = int(done.stdout)
    print(f"bot: {kills} kills, seed {seed()}")
    assert kills >= share("bot")
    for page in PAGES:
        text = people["Ann"].text(page)
        marks = Counter(part[:16] for part in text.split(MARKER)[1:])
        assert len(marks) == EACH
        assert set(marks.values()) == {1}
        for number in range(EACH):
            assert text.count(f"Answer to {page[-1]}, is it {number}?") == 1
        made = people["Ann"].call(
            action="query", titles=page, prop="revisions", rvprop="ids", rvuser=BOT, rvlimit="50"
        )["query"]["pages"][0]["revisions"]
        assert len(made) == EACH
