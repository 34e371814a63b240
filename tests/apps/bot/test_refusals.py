"""Who gets no reply, and what a wiki refuses or says oddly."""

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest

from kbnav.apps.bot.talk import Question
from kbnav.apps.bot.wiki import Page, Wiki
from kbnav.errors import CredentialsError, KbnavError, ServiceError
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.replies import Reply, Request
from tests.apps.bot.mediawiki import BOT, BOT_PASSWORD
from tests.apps.bot.parts import TALK, connect
from tests.attack.rows import tampered
from tests.knowledge.wikidata.serving import Answer, Asked, serving


def test_bots_forged_signatures_of_blocked_users_and_unsigned_texts_get_no_reply(scene):
    scene.other_bot.ask(TALK, "A", "Shall we talk?")
    scene.bob.add(
        TALK, "\n== B ==\nMoved here? [[User:Other bot]] 12:00, 1 January 2026 (UTC)\n== C ==\nunsigned test?\n"
    )
    said = scene.tick(scene.bot())
    assert scene.answer.asked == []
    assert scene.statuses() == ["refused", "refused"]
    assert all("Other bot is a bot, or blocked" in one for one in said)


def test_a_question_is_its_writers_whatever_signature_it_has(scene):
    bot = scene.bot(questions_per_user_per_day=2)
    scene.ann.ask(TALK, "A", "Am I Ann?")
    signature = re.search(r"\[\[User:Ann.*", scene.ann.text(TALK))
    forged = "".join(f"\n== B{number} ==\nForged {number}? {signature[0]}\n" for number in range(3))
    scene.bob.add(TALK, forged)
    scene.ann.ask(TALK, "C", "And still?")
    said = scene.tick(bot)
    assert "refused: Bob has asked 2 questions in a day" in said[3]
    authors = [(entry.question.author, entry.status) for entry in scene.ledger().entries()]
    posted = [("Ann", "posted"), ("Bob", "posted"), ("Bob", "posted"), ("Bob", "refused"), ("Ann", "posted")]
    assert authors == posted
    assert "signed by Ann, put there by Bob" in said[1]


def test_where_too_many_edits_were_made_a_signature_counts_if_its_user_has_edited_the_page(scene):
    title = f"Project:Busy {time.monotonic_ns()}"
    scene.ann.write(title, "Lead.\n")
    bot = scene.bot(pages=(title,))
    scene.tick(bot)
    scene.ann.ask(title, "A", "Who?")
    scene.bob.add(title, "\n== B ==\nForged? [[User:Carol|Carol]] 12:00, 1 January 2026 (UTC)\n")
    for number in range(50):
        scene.bob.add(title, f"\nmore {number}")
    said = scene.tick(bot)
    assert [text for text, _ in scene.answer.asked] == ["Who?"]
    assert "signed by Carol, who has not edited the page" in "".join(said)


def test_the_history_of_a_big_page_is_read_in_as_many_replies_as_it_takes(scene):
    title = f"Project:Big {time.monotonic_ns()}"
    scene.admin.write(title, "x" * 4000)
    wiki = connect(scene.wiki.api)
    wiki.login()
    base = wiki.revisions([title])[title]
    scene.ann.ask(title, "A", "Who?")
    for number in range(8):
        scene.bob.add(title, f"\nmore {number}")
    with scene.wiki.configured(wgAPIMaxResultSize=20_000):  # four texts of ten
        text, edits = wiki.edits_since(title, base)
    assert text == "x" * 4000
    assert [user for user, _ in edits] == ["Ann"] + ["Bob"] * 8
    assert [len(left) for _, left in edits] == sorted(len(left) for _, left in edits)
    with scene.wiki.configured(wgAPIMaxResultSize=3000), pytest.raises(ServiceError, match="too big"):
        wiki.edits_since(title, base)


def test_quotas_per_user_and_per_day(scene):
    for number in range(3):
        scene.ann.ask(TALK, f"A{number}", f"Is it {number}?")
    scene.bob.ask(TALK, "B", "May I?")
    scene.bob.ask(TALK, "C", "And now?")
    bot = scene.bot(questions_per_user_per_day=2, questions_per_day=3)
    scene.tick(bot)
    assert [text for text, _ in scene.answer.asked] == ["Is it 0?", "Is it 1?", "May I?"]
    assert scene.statuses() == ["posted", "posted", "refused", "posted", "refused"]
    scene.now += 24 * 3600 + 1
    scene.ann.ask(TALK, "D", "A day later?")
    scene.tick(bot)
    assert scene.answer.asked[-1][0] == "A day later?"


@pytest.mark.parametrize("template", ["{{nobots}}", f"{{{{bots|deny=Other,{BOT}}}}}", "{{bots|optout=answer}}"])
def test_a_page_that_wants_no_bots_gets_no_reply(scene, template):
    scene.ann.write(TALK, f"{template}\n== A ==\nWho? ~~~~\n")
    before = scene.ann.text(TALK)
    assert scene.tick(scene.bot())[-1] == f"{TALK} does not want bots"
    assert (scene.answer.asked, scene.statuses(), scene.ann.text(TALK)) == ([], ["refused"], before)


def test_nobots_written_while_the_bot_thinks_is_respected(scene):
    scene.ann.ask(TALK, "A", "Who?")
    scene.answer.then = lambda: scene.bob.add(TALK, "\n{{nobots}}")
    scene.tick(scene.bot())
    assert scene.statuses() == ["refused"]
    assert "Answer to" not in scene.ann.text(TALK)


def test_a_shut_off_bot_asks_no_model_and_goes_on_when_the_page_is_emptied(scene):
    shutoff = f"User:{BOT}/shutoff"
    scene.ann.ask(TALK, "A", "Who?")
    scene.answer.then = lambda: scene.ann.write(shutoff, "Stop, please.")
    bot = scene.bot()
    assert scene.tick(bot)[-1] == f"shut off by {shutoff}"
    assert (len(scene.answer.asked), scene.statuses()) == (1, ["answered"])
    assert scene.tick(bot) == [f"shut off by {shutoff}"]
    assert scene.tick(bot) == []
    scene.ann.write(shutoff, "")
    scene.tick(bot)
    assert (len(scene.answer.asked), scene.statuses()) == (1, ["posted"])


@pytest.mark.parametrize(("days", "end"), [(2, "posted"), (7, "refused")])
def test_a_protected_page_is_looked_at_for_a_week_before_the_model_is_asked(scene, days, end):
    scene.ann.ask(TALK, "A", "Who?")
    bot = scene.bot()
    scene.admin.act(action="protect", title=TALK, protections="edit=sysop", expiry="never")
    try:
        assert scene.tick(bot)[-1] == f"{TALK} cannot be edited: protectedpage"
        for _ in range(3):
            scene.now += 3600
            assert scene.tick(bot) == []
        assert (scene.answer.asked, scene.statuses()) == ([], ["seen"])
        scene.now += (days - 1) * 24 * 3600
        assert scene.tick(bot) == []
        scene.now += 24 * 3600
        if end == "refused":
            scene.tick(bot)
    finally:
        scene.admin.act(action="protect", title=TALK, protections="edit=all", expiry="never")
    scene.tick(bot)
    assert (len(scene.answer.asked), scene.statuses()) == (int(end == "posted"), [end])


def test_a_blocked_account_stops_the_bot_and_loses_nothing(scene):
    scene.ann.ask(TALK, "A", "Who?")
    bot = scene.bot()
    scene.answer.then = lambda: scene.admin.act(action="block", user=BOT, reason="misbehaves", expiry="never")
    try:
        for _ in range(2):
            with pytest.raises(CredentialsError, match="KB bot is blocked by Admin: misbehaves"):
                scene.tick(bot)
        assert scene.statuses() == ["answered"]
    finally:
        scene.admin.act(action="unblock", user=BOT)
    scene.now += 3600
    scene.tick(bot)
    assert (len(scene.answer.asked), scene.statuses()) == (1, ["posted"])


def test_an_account_blocked_from_one_page_is_refused_there_only(scene):
    title = "Project:Partly"
    scene.ann.write(title, "Lead.\n")
    bot = scene.bot(pages=(title,))
    scene.tick(bot)
    scene.ann.ask(title, "A", "Who?")
    scene.admin.act(action="block", user=BOT, partial=1, pagerestrictions=title, allowusertalk=1, expiry="never")
    try:
        assert scene.tick(bot)[-1] == f"{title} cannot be edited: blocked"
        assert scene.statuses() == ["seen"]
    finally:
        scene.admin.act(action="unblock", user=BOT)


def test_a_question_that_is_taken_away_gets_no_reply(scene):
    scene.ann.ask(TALK, "A", "Who?")
    scene.answer.then = lambda: scene.ann.write(TALK, "Lead.\n")
    scene.tick(scene.bot())
    assert (scene.statuses(), scene.ann.text(TALK)) == (["gone"], "Lead.")


def test_who_takes_questions_away_while_the_bot_thinks_does_not_pass_the_quota(scene):
    scene.answer.then = lambda: scene.ann.write(TALK, "Lead.\n")
    bot = scene.bot(questions_per_user_per_day=2)
    for number in range(3):
        scene.ann.ask(TALK, f"A{number}", f"Is it {number}?")
        scene.tick(bot)
    assert [text for text, _ in scene.answer.asked] == ["Is it 0?", "Is it 1?"]
    assert scene.statuses() == ["gone", "gone", "refused"]


REVISION = {"revid": 5, "user": "Ann", "slots": {"main": {"content": "text"}}}
PAGE = {"title": "Talk:A", "lastrevid": 5, "revisions": [REVISION], "actions": {"edit": [{"code": "protected"}]}}
NOTE = {"id": 1, "type": "mention", "title": {"full": "Talk:A"}}
PAGE_READ = Page("Talk:A", "text", 5, "now")
ASKED = Question("0123456789abcdef", "Talk:A", "A", "Ann", "12:34", "Who?", 0, ())
COMMENT = {"type": "comment", "id": "c-1", "author": "Ann", "html": "<b>Who?</b>", "replies": []}
SPACES = {"2": {"id": 2, "name": "User", "canonical": "User"}, "3": {"id": 3, "name": "User talk"}}
SITE = {
    "general": {"time": "2026-01-01T00:00:00Z", "lang": "en"},
    "namespaces": SPACES,
    "namespacealiases": [{"id": 2, "alias": "U"}],
    "extensions": [{"name": "Echo"}],
}
CASES: dict[str, tuple[dict[str, Any], Callable[[Wiki], object]]] = {
    "check_account": (
        {"query": {"userinfo": {"rights": ["edit", "bot"], "blockid": 4, "blockpartial": True}}},
        lambda wiki: wiki.check_account(),
    ),
    "site": ({"query": SITE}, lambda wiki: wiki.site()),
    "revisions": (
        {"query": {"pages": [PAGE], "normalized": [{"from": "talk:A", "to": "Talk:A"}]}},
        lambda wiki: wiki.revisions(["talk:A"]),
    ),
    "read": ({"curtimestamp": "now", "query": {"pages": [PAGE]}}, lambda wiki: wiki.read("Talk:A")),
    "newest_revision": (
        {"query": {"allrevisions": [{"revisions": [{"revid": 7}]}]}},
        lambda wiki: wiki.newest_revision(),
    ),
    "text_at": ({"query": {"pages": [PAGE]}}, lambda wiki: wiki.text_at("Talk:A", 5)),
    "edits_since": (
        {"query": {"pages": [PAGE]}, "continue": {"rvcontinue": "1"}},
        lambda wiki: wiki.edits_since("Talk:A", 1),
    ),
    "editors": ({"query": {"pages": [PAGE]}}, lambda wiki: wiki.editors("Talk:A")),
    "bots_and_blocked": (
        {"query": {"users": [{"name": "Ann", "groups": ["bot"], "blockid": 1}]}},
        lambda wiki: wiki.bots_and_blocked(["Ann"]),
    ),
    "mentions": ({"query": {"notifications": {"list": [NOTE], "continue": "3"}}}, lambda wiki: wiki.mentions()),
    "edit": (
        {"query": {"tokens": {"csrftoken": "t"}}, "edit": {"result": "Success", "newrevid": 9}},
        lambda wiki: wiki.edit(PAGE_READ, "more", "summary"),
    ),
    "reply": (
        {
            "query": {"tokens": {"csrftoken": "t"}},
            "discussiontoolspageinfo": {"threaditemshtml": [{"html": "A", "replies": [COMMENT]}]},
            "discussiontoolsedit": {"result": "success", "newrevid": 9},
        },
        lambda wiki: wiki.reply(PAGE_READ, ASKED, "more", "summary"),
    ),
    "mark_read": ({"query": {"tokens": {"csrftoken": "t"}}}, lambda wiki: wiki.mark_read(["1"])),
    "login": ({"query": {"tokens": {"logintoken": "t"}}, "login": {"result": "Success"}}, lambda wiki: wiki.login()),
}
ODD = (None, [], {}, "", "x", 5, True, [None], {"x": None}, [[]], -1.5)


class Canned:
    """In place of the HTTP client: the same reply to whatever is asked."""

    def __init__(self, body: Any) -> None:
        self.body = json.dumps(body).encode()

    def forget_cookies(self) -> None:
        return

    def fetch(self, request: Request, read: Callable[[Reply], object]) -> object:
        return read(Reply(200, self.body, {"content-type": "application/json"}, request.url))


def wiki_of(body: Any) -> Wiki:
    http = cast(HttpClient, Canned(body))
    return Wiki("https://wiki.example/api.php", http, user="Bot@x", password="p", pause=0)


@pytest.mark.parametrize("case", CASES)
def test_an_odd_reply_is_an_error_that_the_bot_waits_out(case):
    body, call = CASES[case]
    call(wiki_of(body))  # the reply as it should be is understood
    for one in (*ODD, *(json.loads(text) for _, _, text in tampered(body, values=ODD))):
        with suppress(KbnavError):
            call(wiki_of(one))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_login_that_is_redirected_sends_the_password_nowhere(status):
    with serving(lambda _: Answer({"login": {"result": "Success"}})) as other:

        def answer(asked: Asked) -> Answer:
            if "lgpassword" in asked.params:
                return Answer("", status, headers={"Location": f"{other.url}/api.php"})
            return Answer({"query": {"tokens": {"logintoken": "+\\"}}})

        with serving(answer) as wiki:
            bot = connect(f"{wiki.url}/api.php")
            with pytest.raises(KbnavError, match="only the same host is followed") as caught:
                bot.login()
            assert sum("lgpassword" in one.params for one in wiki.asked) == 1
        assert other.asked == []
        assert BOT_PASSWORD not in str(caught.value)


class Forgetful(Canned):
    """A wiki that says so many times that nobody is logged in, and then answers."""

    def __init__(self, times: int, login: str = "Success") -> None:
        super().__init__({
            "login": {"result": login}, "query": {"tokens": {"logintoken": "a", "csrftoken": "b"}, "pages": []},
        })  # fmt: skip
        self.times, self.asked = times, list[str]()

    def fetch(self, request: Request, read: Callable[[Reply], object]) -> object:
        asked = str(request.params.get("meta") or request.params["action"])
        self.asked.append(asked)
        if asked == "query" and self.times:
            self.times -= 1
            body = json.dumps({"error": {"code": "assertuserfailed", "info": "You are no longer logged in."}})
            return read(Reply(200, body.encode(), {"content-type": "application/json"}, request.url))
        return super().fetch(request, read)


def test_a_wiki_that_goes_on_forgetting_is_waited_for_and_only_a_refused_password_ends_the_bot():
    http = Forgetful(9)
    wiki = Wiki("https://wiki.example/api.php", cast(HttpClient, http), user="Bot@x", password="p", pause=0)
    wiki.login()
    for _ in range(3):
        with pytest.raises(ServiceError, match="no longer logged in"):
            wiki.revisions(["A"])
    for said, kind in (("Aborted", ServiceError), ("Throttled", ServiceError), ("Failed", CredentialsError)):
        http = Forgetful(0, said)
        refused = Wiki("https://wiki.example/api.php", cast(HttpClient, http), user="Bot@x", password="p", pause=0)
        with pytest.raises(kind):
            refused.login()
