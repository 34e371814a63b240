"""Bots with scripted answers, on the wiki of the tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbnav.apps.bot.bot import Bot
from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.talk import Question
from kbnav.apps.bot.wiki import Wiki
from kbnav.knowledge.http import HttpClient
from kbnav.runs.trajectory import Call, Outcome, Run, Step, Turn
from kbnav.settings.model import Bot as Rules
from kbnav.settings.model import Endpoints, Limits, Settings
from tests.apps.bot.mediawiki import BOT, BOT_PASSWORD, MediaWiki, Person

TALK = f"User talk:{BOT}"


def run_of(question: Question, text: str = "", **outcome: Any) -> Run:
    """A run that says ``text``, or repeats the question."""
    path = (Step(1, Call("get_wikidata_entry", {}, "I look it up.")),)
    found = Outcome("answered", "finish", text=text or f"Answer to {question.text}", **outcome)
    return Run(f"run-{question.id}", question.text, "spinach", "scripted", "en", path, (), found)


@dataclass
class Answerer:
    """Answers as it is told, and remembers what it was asked; ``then`` happens while it thinks."""

    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    make: Callable[[Question], Run] = run_of
    then: Callable[[], object] = lambda: None
    runs: dict[str, Run] = field(default_factory=dict)

    def __call__(self, question: Question, history: Sequence[Turn]) -> Run:
        self.asked.append((question.text, tuple(turn.question for turn in history)))
        self.then()
        run = self.make(question)
        self.runs[run.id] = run
        return run


def connect(api: str, *, sleeps: list[float] | None = None, retries: int = 2, **options: Any) -> Wiki:
    """The bot's account, not logged in yet; waits are noted in ``sleeps`` instead of being waited."""
    settings = Settings(limits=Limits(retries=retries))
    noted = sleeps if sleeps is not None else []
    http = HttpClient(settings, cache=None, throttle=None, urls=[api], sleep=noted.append)
    return Wiki(api, http, **{"user": f"{BOT}@test", "password": BOT_PASSWORD, "pause": 0.0, **options})


class Scene:
    """A bot, people, and what they did. The clock is the test's own."""

    def __init__(self, wiki: MediaWiki, people: dict[str, Person], folder: Path) -> None:
        self.wiki, self.folder = wiki, folder
        self.ann, self.bob, self.other_bot, self.admin = people.values()
        self.answer = Answerer()
        self.now = 1_000_000.0
        self.sleeps: list[float] = []
        self._ledgers: dict[str, Ledger] = {}

    def bot(self, *, edits: bool = True, flagged: bool = True, query_page: str = "", **rules: Any) -> Bot:
        """A bot that is logged in, as if its process had just begun."""
        wiki = connect(self.wiki.api, sleeps=self.sleeps, flagged=flagged)
        wiki.login()
        settings = Settings(bot=Rules(**rules), endpoints=Endpoints(query_page=query_page))
        find = self.answer.runs.get
        return Bot(wiki, self.ledger(edits), self.answer, find, settings, edits=edits, clock=lambda: self.now)

    def ledger(self, edits: bool = True) -> Ledger:
        """The bot's state; that of dry runs is apart."""
        name = "edit" if edits else "dry"
        if name not in self._ledgers:
            self._ledgers[name] = Ledger(self.folder / f"{name}.sqlite")
        return self._ledgers[name]

    def tick(self, bot: Bot) -> list[str]:
        """What a round says."""
        return [said.text for said in bot.tick()]

    def statuses(self) -> list[str]:
        """How far each question is, the oldest first."""
        return [entry.status for entry in self.ledger().entries()]

    def close(self) -> None:
        """Close the ledgers."""
        for ledger in self._ledgers.values():
            ledger.close()
