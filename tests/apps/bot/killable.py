"""A process that runs a bot with a scripted answer until it is killed: ``python -m … API FOLDER PAGE PAGE…``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kbnav.apps.bot.bot import Bot
from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.wikitext import Style
from kbnav.settings import Bot as Rules
from tests.apps.bot.parts import connect, run_of


def main(api: str, folder: str, *pages: str) -> None:
    """Tick for ever."""
    wiki = connect(api)
    wiki.login()
    rules = Rules(pages=pages, mentions=False, poll=0.05, questions_per_user_per_day=1000, questions_per_day=1000)
    bot = Bot(
        wiki,
        Ledger(Path(folder) / "bot.sqlite"),
        lambda one, _: run_of(one),
        lambda _: None,
        rules,
        Style(),
        edits=True,
    )
    for said in bot.rounds(lambda seconds: bool(time.sleep(seconds))):
        print(said.text, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
