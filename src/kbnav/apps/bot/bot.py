"""The bot: it looks for questions, has them answered, and posts each answer exactly once.

What happens to a question is written to the ledger before and after each step, and every reply carries the question's
id in a hidden comment, which is looked for before posting: so a kill at any moment neither loses nor repeats one.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kbnav.apps.bot.ledger import OPEN, Entry, Ledger
from kbnav.apps.bot.talk import Names, Question, marker, markers, may_edit, questions, with_reply
from kbnav.apps.bot.wiki import Page, Site, Wiki
from kbnav.apps.bot.wikitext import Style, edit_summary, reply_text
from kbnav.errors import FATAL, StopRun
from kbnav.settings import Bot as Rules
from kbnav.trajectory import Run, Turn

TRIES = 3
"""How often an answer is tried before the bot says that it failed."""
_CONFLICTS = 10
_DAY = 24 * 3600.0

Answer = Callable[[Question, Sequence[Turn]], Run]
"""Answers a question that follows earlier ones; raises StopRun where a service failed."""


@dataclass(frozen=True)
class Said:
    """Something an operator may want to read."""

    question: str
    text: str


class Bot:
    """Answers on one wiki. ``tick`` does one round; nothing is kept in memory that a restart would need."""

    def __init__(
        self,
        wiki: Wiki,
        ledger: Ledger,
        answer: Answer,
        find_run: Callable[[str], Run | None],
        rules: Rules,
        style: Style,
        *,
        edits: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make a bot.

        Args:
            wiki: where; logged in.
            ledger: what was done before.
            answer: see ``Answer``; saves its run before it returns.
            find_run: a saved run by its id.
            rules: pages, quotas and names.
            style: of the replies.
            edits: False: nothing is saved on the wiki; ``tick`` says what would be.
            clock: seconds since 1970.
        """
        self._wiki, self._ledger, self._answer, self._find_run = wiki, ledger, answer, find_run
        self._rules, self._style, self._edits, self._clock = rules, style, edits, clock
        self._site: Site | None = None

    @property
    def task_page(self) -> str:
        """The page that edit summaries name."""
        return self._rules.task_page or f"User:{self._wiki.account}"

    @property
    def own_pages(self) -> tuple[str, ...]:
        """Pages on which every section is a question."""
        return tuple(dict.fromkeys((f"User talk:{self._wiki.account}", *self._rules.pages)))

    def tick(self) -> Iterator[Said]:
        """Look for questions once, and see to those that are open. Raises StopRun where going on is useless."""
        yield from self.look()
        for entry in self._ledger.entries(OPEN):
            if said := self._see_to(entry):
                yield Said(entry.question.id, said)

    def look(self) -> Iterator[Said]:
        """Read what changed, and remember what is asked."""
        if self._site is None:
            self._site = self._wiki.site()
        for title, revision in self._wiki.revisions(self.own_pages).items():
            if self._ledger.mark(f"page {title}") != str(revision):
                yield from self._read(title, own=True)
        if self._rules.mentions:
            yield from self._look_for_mentions(self._site)

    def _look_for_mentions(self, site: Site) -> Iterator[Said]:
        if site.echo:
            found = self._wiki.mentions()
            for title in dict.fromkeys(title for _, title in found if title not in self.own_pages):
                yield from self._read(title, own=False)
            if self._edits:
                self._wiki.mark_read([number for number, _ in found])
            return
        since = self._ledger.mark("changes")
        titles, newest = self._wiki.changed_since(since, site.talk)
        if since:  # at the very first look there is no telling old mentions from new ones
            for title in titles:
                if title not in self.own_pages:
                    yield from self._read(title, own=False)
        self._ledger.set_mark("changes", newest or "2000-01-01T00:00:00Z")

    def _read(self, title: str, *, own: bool) -> Iterator[Said]:
        page = self._wiki.read(title)
        if page is None or self._site is None:
            return
        asked = list(questions(title, page.text, bot=self._wiki.account, own=own, names=self._site.names))
        unwanted = self._wiki.bots_and_blocked(question.author for question in asked) if asked else set()
        for question in asked:
            if question.author not in unwanted and self._ledger.add(question, self._clock()):
                yield Said(question.id, f"{title} § {question.section}: {question.author} asks: {question.text}")
                if why := self._over_quota(question):
                    self._ledger.update(question.id, self._clock(), status="refused", note=why)
                    yield Said(question.id, why)
        if own:
            self._ledger.set_mark(f"page {title}", str(page.revision))

    def _over_quota(self, question: Question) -> str:
        """Why a question that was just remembered is not answered; empty where it is."""
        since = self._clock() - _DAY
        if self._ledger.asked_since(since, question.author) > self._rules.questions_per_user_per_day:
            return f"{question.author} has asked {self._rules.questions_per_user_per_day} questions in a day"
        if self._ledger.asked_since(since) > self._rules.questions_per_day:
            return f"{self._rules.questions_per_day} questions were asked in a day"
        return ""

    def _see_to(self, entry: Entry) -> str:
        """Bring an open question one step or more further; what happened."""
        question = entry.question
        page = self._wiki.read(question.page)
        if page is None or with_reply(page.text, question, "", self._names) is None:
            return self._end(question, "gone", "the question is no longer on its page")
        if question.id in markers(page.text):
            return self._end(question, "posted", "the reply is on the page already", revision=page.revision)
        if not may_edit(page.text, self._wiki.account):
            return self._end(question, "refused", f"{question.page} does not want bots")
        if why := self._shut_off():
            return why
        if entry.status == "seen":
            said = self._have_answered(entry)
            if said:
                return said
            entry = self._ledger.entry(question.id) or entry
        return self._post(entry)

    def _have_answered(self, entry: Entry) -> str:
        """Answer and keep the reply; what went wrong, empty where nothing did."""
        question, tries = entry.question, entry.tries + 1
        self._ledger.update(question.id, self._clock(), tries=tries)
        try:
            run = self._answer(question, self._history(question))
        except FATAL:
            raise
        except StopRun as error:
            if tries < TRIES:
                self._ledger.update(question.id, self._clock(), note=str(error))
                return f"not answered, will be tried again: {error}"
            sorry = ":" * (question.depth + 1) + f"<!-- {marker(question.id)} -->"
            sorry += "Something failed while I looked for an answer; please ask again later. ~~~~"
            self._ledger.update(question.id, self._clock(), status="answered", reply=sorry, note=str(error))
            return ""
        reply = reply_text(run, self._style, marker=marker(question.id), depth=question.depth + 1)
        self._ledger.update(question.id, self._clock(), status="answered", reply=reply, run=run.id, note="")
        return ""

    def _history(self, question: Question) -> list[Turn]:
        """The earlier questions of the section with what was found, as far as their runs are still there."""
        turns = []
        for number in question.earlier:
            entry = self._ledger.entry(number)
            run = self._find_run(entry.run) if entry and entry.run else None
            if run:
                turns.append(Turn(run.question, run.path, run.outcome))
        return turns

    def _post(self, entry: Entry) -> str:
        """Put the reply on its page, on whatever the page has become meanwhile."""
        question = entry.question
        for _ in range(_CONFLICTS):
            page = self._wiki.read(question.page)
            text = with_reply(page.text, question, entry.reply, self._names) if page else None
            if page is None or text is None:
                return self._end(question, "gone", "the question is no longer on its page")
            if text == page.text:
                return self._end(question, "posted", "the reply is on the page already", revision=page.revision)
            if not self._edits:
                return _diff(page, text)
            if not may_edit(page.text, self._wiki.account):
                return self._end(question, "refused", f"{question.page} does not want bots")
            if why := self._shut_off():
                return why
            done = self._wiki.edit(page, text, edit_summary(question.section, self.task_page))
            if done.status == "saved":
                return self._end(question, "posted", f"posted as revision {done.revision}", revision=done.revision)
            if done.status == "refused":
                return self._end(question, "refused", done.why)
        return "others keep editing the page; will be tried again"

    def _end(self, question: Question, status: str, note: str, *, revision: int = 0) -> str:
        if self._edits:
            self._ledger.update(question.id, self._clock(), status=status, note=note, revision=revision)
        return note

    def _shut_off(self) -> str:
        """Why nothing may be edited now; empty where it may."""
        title = self._rules.shutoff_page or f"User:{self._wiki.account}/shutoff"
        page = self._wiki.read(title)
        return f"shut off by {title}" if page and page.text.strip() else ""

    @property
    def _names(self) -> Names:
        site = self._site = self._site or self._wiki.site()
        return site.names


def _diff(page: Page, text: str) -> str:
    """What an edit would change."""
    lines = difflib.unified_diff(
        page.text.splitlines(), text.splitlines(), page.title, f"{page.title} with the reply", lineterm="", n=2
    )
    return "dry run, would be saved:\n" + "\n".join(lines)
