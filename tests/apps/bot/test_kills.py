"""Two hundred questions, and a bot that is killed again and again: each is answered exactly once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.talk import MARKER, Question
from kbnav.errors import UsageError
from tests.apps.bot.mediawiki import BOT, MediaWiki, Person

PAGES = tuple(f"Project talk:Questions {number}" for number in range(20))
EACH = 10
ROOT = Path(__file__).resolve().parents[3]


def _begin(wiki: MediaWiki, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.apps.bot.killable", wiki.api, str(folder), *PAGES]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)


def _left(folder: Path) -> int:
    if not (folder / "bot.sqlite").is_file():
        return EACH * len(PAGES)
    ledger = Ledger(folder / "bot.sqlite", alone=False)
    try:
        return EACH * len(PAGES) - sum(entry.status == "posted" for entry in ledger.entries())
    finally:
        ledger.close()


@pytest.mark.timeout(600)
def test_two_hundred_questions_are_each_answered_once_however_often_the_bot_is_killed(
    mediawiki: MediaWiki, people: dict[str, Person], tmp_path: Path
):
    for page in PAGES:
        people["Admin"].write(page, "Lead.\n")
    ledger = Ledger(tmp_path / "bot.sqlite")
    for page in PAGES:  # the bot has looked before
        ledger.set_mark(f"page {page}", "1")
    ledger.close()
    for page in PAGES:
        sections = [f"== Question {number} ==\n{page[-2:]}: is it {number}? ~~~~\n" for number in range(EACH)]
        people["Ann"].write(page, "\n".join(sections))
    chance = random.Random(7)
    kills = 0
    while _left(tmp_path):
        process = _begin(mediawiki, tmp_path)
        # The first line is said when the bot is at work; a kill before that would test the interpreter's start.
        deadline = time.monotonic() + chance.uniform(0.5, 6.0)
        while time.monotonic() < deadline and process.poll() is None and _left(tmp_path):
            time.sleep(0.02)
        assert process.poll() is None, (tmp_path / "log").read_text()
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    assert kills >= 5
    for page in PAGES:
        text = people["Ann"].text(page)
        marks = Counter(part[:16] for part in text.split(MARKER)[1:])
        assert len(marks) == EACH
        assert set(marks.values()) == {1}
        for number in range(EACH):
            assert text.count(f"Answer to {page[-2:]}: is it {number}?") == 1
        made = people["Ann"].call(
            action="query", titles=page, prop="revisions", rvprop="ids", rvuser=BOT, rvlimit="50"
        )["query"]["pages"][0]["revisions"]
        assert len(made) == EACH
