"""The bot: it looks for questions, has them answered, and posts each answer exactly once.

What happens to a question is written to the ledger before and after each step, and every reply carries the question's
id in a hidden comment, which is looked for before posting: so a kill at any moment neither loses nor repeats one.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kbnav.answers.language import question_language
from kbnav.apps.bot.ledger import Entry, Ledger, Status
from kbnav.apps.bot.talk import (
    Question,
    added_by,
    comment_ids,
    marker,
    markers,
    may_edit,
    questions,
    refusal,
    with_reply,
)
from kbnav.apps.bot.wiki import Page, Site, Wiki
from kbnav.apps.bot.wikitext import edit_summary, reply_text
from kbnav.apps.texts import Texts
from kbnav.errors import FATAL, ServiceError, StopRun
from kbnav.knowledge.evidence import Provenance
from kbnav.runs.trajectory import Run, Turn
from kbnav.settings.model import Settings

TRIES = 8
"""How often an answer is tried before the bot says that it failed; within two hours."""
POLL = 30.0
"""Seconds between looks at the wiki."""
LONGEST_WAIT = 3600.0
"""Seconds between two tries at most."""
_CONFLICTS = 10
_BEGAN = "began"
"""The mark of the wiki's newest revision when the bot first looked; mentions from before it are not answered."""
_OLD = "was there before the bot first looked"
_DAY = 24 * 3600.0
_PROTECTED = 7 * _DAY
"""For so long a page that the bot may not edit is looked at again every hour."""

Answer = Callable[[Question, Sequence[Turn]], Run]
"""Answers a question that follows earlier ones; raises StopRun where that failed."""
Evidence = Callable[[Run], Provenance | None]
"""Looks up what makes the rows of a run's answer true."""


@dataclass(frozen=True)
class Said:
    """Something an operator may want to read; ``question`` is an id, empty where it is about no single one."""

    question: str
    text: str


class Bot:
    """Answers on one wiki. Nothing is kept in memory that a restart would need."""

    def __init__(
        self,
        wiki: Wiki,
        ledger: Ledger,
        answer: Answer,
        find_run: Callable[[str], Run | None],
        settings: Settings,
        *,
        edits: bool = False,
        clock: Callable[[], float] = time.time,
        evidence: Evidence = lambda run: None,  # noqa: ARG005
    ) -> None:
        """Make a bot.

        Args:
            wiki: where; logged in.
            ledger: what was done before.
            answer: see ``Answer``; saves its run before it returns.
            find_run: a saved run by its id.
            settings: ``bot`` has pages, quotas and names.
            edits: False: nothing is saved on the wiki; what would be is said, once.
            clock: seconds since 1970.
            evidence: see ``Evidence``; without it replies have no footnotes.
        """
        self._wiki, self._ledger, self._answer, self._find_run = wiki, ledger, answer, find_run
        self._settings, self._rules, self._edits, self._clock = settings, settings.bot, edits, clock
        self._evidence = evidence
        self._shut = ""
        self.talk_page = f"User talk:{wiki.account}"
        self.shutoff_page = f"User:{wiki.account}/shutoff"
        """The page that stops all edits while it holds any text."""
        self.task_page = self._rules.task_page or f"User:{wiki.account}"
        """The page that edit summaries name."""

    def rounds(self, stop: Callable[[float], bool]) -> Iterator[Said]:
        """Tick until ``stop``, which waits so many seconds; failing services are waited out. Raises as they do."""
        failures = 0
        while True:
            try:
                yield from self.tick()
                failures = 0
            except FATAL:
                raise
            except ServiceError as error:
                failures += 1
                yield Said("", f"{error}; looking again in {self._wait(failures):.0f} s")
            if stop(self._wait(failures)):
                return

    def _wait(self, failures: int) -> float:
        return min(POLL * 2.0**failures, LONGEST_WAIT)

    def tick(self) -> Iterator[Said]:
        """Look for questions once, and see to those that are open. Raises ServiceError where the round must end."""
        self._wiki.check_account()
        yield from self.look()
        for entry in self._ledger.due(self._clock(), LONGEST_WAIT):
            shut, page = self._wiki.read(self.shutoff_page, entry.question.page)
            if self._is_shut(shut):
                if not self._shut:
                    self._shut = f"shut off by {self.shutoff_page}"
                    yield Said("", self._shut)
                return
            self._shut = ""
            told, now = self._see_to(entry, page), self._ledger.entry(entry.question.id)
            if told != entry.note or (now and now.status != entry.status):  # what is put off is told once
                yield Said(entry.question.id, told)

    def look(self) -> Iterator[Said]:
        """Read what changed, and remember what is asked."""
        if not self._ledger.mark(_BEGAN):
            self._ledger.set_mark(_BEGAN, str(self._wiki.newest_revision()))
        own = tuple(dict.fromkeys((self.talk_page, *self._rules.pages)))
        found = self._wiki.revisions(own)
        for title in own:
            if title not in found and not self._ledger.mark(f"page {title}"):
                self._ledger.set_mark(f"page {title}", "0")  # what is written on it later is for the bot
        for title, revision in found.items():
            mark = self._ledger.mark(f"page {title}")
            if mark != str(revision):
                # What stood on a page before the bot came is not for it; on its own talk page everything is.
                yield from self._read(title, own=True, old=not mark and title != self.talk_page)
        if self._known.echo:
            mentions = self._wiki.mentions()
            titles = dict.fromkeys(title for _, title in mentions if title and title not in own)
            for title, revision in self._wiki.revisions(list(titles)).items():
                if self._ledger.mark(f"mentions {title}") != str(revision):
                    yield from self._read(title, own=False)
            if self._edits:
                self._wiki.mark_read([number for number, _ in mentions])

    def _read(self, title: str, *, own: bool, old: bool = False) -> Iterator[Said]:
        """Remember the questions of a page that are not known yet; ``old``: as such, not to be answered."""
        (page,) = self._wiki.read(title)
        if page is None:
            return
        mark = f"page {title}" if own else f"mentions {title}"
        asked = questions(title, page.text, bot=self._wiki.account, own=own, names=self._known.names)
        new = [question for question in asked if self._ledger.entry(question.id) is None]
        if new and not old:
            yield from self._remember(title, new, own=own, since=int(self._ledger.mark(mark) or 0))
        elif new:
            for question in new:
                self._ledger.add(question, self._clock(), status="old", note=_OLD)
        self._ledger.set_mark(mark, str(page.revision))

    def _remember(self, title: str, new: Sequence[Question], *, own: bool, since: int) -> Iterator[Said]:
        """Remember new questions as those of who put them on the page; ``since``: the revision read before, or 0."""
        names, began = self._known.names, int(self._ledger.mark(_BEGAN))
        before = comment_ids(self._wiki.text_at(title, began), names) if began and not own else set[str]()
        added = added_by(*self._wiki.edits_since(title, since or (0 if own else began)), names)
        users = {user for question in new for user in (question.author, added.get(question.id)) if user}
        unwanted = self._wiki.bots_and_blocked(users)
        editors = self._wiki.editors(title) if any(not added.get(question.id) for question in new) else set[str]()
        for question in new:
            if question.id in before:
                self._ledger.add(question, self._clock(), status="old", note=_OLD)
                continue
            writer = added.get(question.id, "")
            author = writer or question.author
            refused = refusal(question, writer, unwanted, editors) or self._over_quota(author)
            status: Status = "refused" if refused else "seen"
            forged = f"signed by {question.author}, put there by {author}" if author != question.author else ""
            why = refused or forged
            if self._ledger.add(replace(question, author=author), self._clock(), status=status, note=why):
                told = f"{title} § {question.section}: {author} asks: {question.text}"
                yield Said(question.id, f"{told}\n{status}: {why}" if why else told)

    def _over_quota(self, author: str) -> str:
        """Why a new question is not answered; empty where it is."""
        now = self._clock()
        if self._ledger.asked_since(now - _DAY, author, now=now) >= self._rules.questions_per_user_per_day:
            return f"{author} has asked {self._rules.questions_per_user_per_day} questions in a day"
        if self._ledger.asked_since(now - _DAY, now=now) >= self._rules.questions_per_day:
            return f"{self._rules.questions_per_day} questions were asked in a day"
        return ""

    def _see_to(self, entry: Entry, page: Page | None) -> str:
        """Bring an open question to its end, or to the next try; what happened."""
        question, tries = entry.question, entry.tries + 1
        if over := self._over_already(entry, page):
            return over
        # Written before trying, so that a question that kills the process is not tried for ever.
        self._ledger.update(question.id, self._clock(), tries=tries, due=self._clock() + self._wait(tries))
        try:
            reply = entry.reply or self._have_answered(question, tries)
            return self._post(question, reply, by_wiki=self._known.discussion_tools and not entry.reply)
        except ServiceError as error:
            self._ledger.update(question.id, self._clock(), note=str(error))
            raise

    def _over_already(self, entry: Entry, page: Page | None) -> str:
        """Why a question needs no reply any more, or may get none (yet); empty where it waits for one."""
        question = entry.question
        if page is None or with_reply(page.text, question, "", self._known.names) is None:
            return self._end(question, "gone", "the question is no longer on its page")
        if question.id in markers(page.text):
            return self._end(question, "posted", "the reply is on the page already", revision=page.revision)
        if not may_edit(page.text, self._wiki.account, kind="answer"):
            return self._end(question, "refused", f"{question.page} does not want bots")
        if page.denied:
            self._wiki.check_account()  # a block of the account is no matter of this page
            why = f"{question.page} cannot be edited: {page.denied}"
            if self._clock() >= entry.seen_at + _PROTECTED:
                return self._end(question, "refused", why)
            self._ledger.update(question.id, self._clock(), due=self._clock() + LONGEST_WAIT, note=why)
            return why
        return ""

    def _have_answered(self, question: Question, tries: int) -> str:
        """Answer and keep the reply. Raises ServiceError where it is to be tried again."""
        run, note = "", ""
        language = question_language(question.text, self._known.language)
        mark = marker(question.id)
        try:
            if tries > TRIES:
                raise StopRun(f"given up after {TRIES} tries")
            entries = [self._ledger.entry(number) for number in question.earlier]
            earlier = [found for entry in entries if entry and entry.run and (found := self._find_run(entry.run))]
            found = self._answer(question, [run.turns[-1] for run in earlier])
            made_of = self._evidence(found)
            reply = reply_text(found, self._settings, marker=mark, language=language, evidence=made_of)
            run = found.id
        except FATAL:
            raise
        except StopRun as error:
            if isinstance(error, ServiceError) and tries < TRIES:
                raise
            reply, note = f"<!-- {mark} -->{Texts(language)('bot.failed')} ~~~~\n", str(error)
        self._ledger.update(question.id, self._clock(), status="answered", reply=reply, run=run, note=note, tries=0)
        return reply

    def _post(self, question: Question, reply: str, *, by_wiki: bool) -> str:
        """Put the reply on whatever its page has become; first as DiscussionTools does where the wiki has it."""
        summary = edit_summary(question.section, self.task_page, self._known.language)
        for attempt in range(_CONFLICTS):
            shut, page = self._wiki.read(self.shutoff_page, question.page)
            entry = self._ledger.entry(question.id)
            if entry and (over := self._over_already(entry, page)):
                return over
            text = with_reply(page.text, question, reply, self._known.names) if page else None
            if self._is_shut(shut) or page is None or text is None:
                self._ledger.update(question.id, self._clock(), due=0)
                return f"shut off by {self.shutoff_page}"
            if not self._edits:
                old, new, name = page.text.splitlines(), text.splitlines(), page.title
                lines = difflib.unified_diff(old, new, name, f"{name} with the reply", lineterm="", n=2)
                return self._end(question, "shown", "dry run, would be saved:\n" + "\n".join(lines))
            if by_wiki and not attempt:
                if revision := self._wiki.reply(page, question, reply, summary):
                    return self._end(question, "posted", f"posted as revision {revision}", revision=revision)
                continue
            revision, refused = self._wiki.edit(page, text, summary)
            if refused:
                return self._end(question, "refused", refused)
            if revision:
                return self._end(question, "posted", f"posted as revision {revision}", revision=revision)
        raise ServiceError(f"others keep editing {question.page}")

    def _end(self, question: Question, status: Status, note: str, *, revision: int = 0) -> str:
        self._ledger.update(question.id, self._clock(), status=status, note=note, revision=revision)
        return note

    @staticmethod
    def _is_shut(page: Page | None) -> bool:
        return page is not None and bool(page.text.strip())

    @cached_property
    def _known(self) -> Site:
        return self._wiki.site()
