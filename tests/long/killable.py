"""A bot with a scripted answer in a process that is killed, and begun again, until all is answered.

``python -m tests.long.killable SEED KILLS API STATE QUESTIONS PAGE…`` prints the number of kills, at most so many. Each
process is forked from this one, which has the modules loaded and did nothing else.
"""

import math
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kbnav.apps.bot.bot import Bot
from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.wikitext import Style
from kbnav.settings.model import Bot as Rules
from tests.apps.bot.parts import connect, run_of


def answer_all(api: str, state: Path, pages: Sequence[str], questions: int) -> None:
    """Look and answer until so many questions have their reply."""
    wiki = connect(api)
    wiki.login()
    ledger = Ledger(state)
    rules = Rules(pages=tuple(pages), questions_per_user_per_day=1000, questions_per_day=1000)
    bot = Bot(wiki, ledger, lambda question, _: run_of(question), lambda _: None, rules, Style(), edits=True)

    def stop(seconds: float) -> bool:
        time.sleep(min(seconds, 0.05))
        return sum(entry.status == "posted" for entry in ledger.entries()) == questions

    for _ in bot.rounds(stop):
        pass


def kill_until_done(seed: int, most: int, api: str, state: Path, questions: int, pages: Sequence[str]) -> int:
    """How often a bot was killed before it had answered everything. Raises RuntimeError where it failed by itself."""
    chance, kills = random.Random(seed), 0
    while True:
        child = os.fork()
        if child == 0:
            answer_all(api, state, pages, questions)
            os._exit(0)
        # After so many it is left alone: on a slow machine such short lives would bring it nowhere.
        deadline = time.monotonic() + (chance.uniform(0.3, 2.5) if kills < most else math.inf)
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.01)
        if ended != (0, 0):
            if ended[1]:
                raise RuntimeError(f"the bot ended with status {ended[1]}")
            return kills
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1


if __name__ == "__main__":
    print(
        kill_until_done(
            int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), int(sys.argv[5]), sys.argv[6:]
        )
    )
