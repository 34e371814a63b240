"""Whom the bot answers and whom not, on a real MediaWiki: writers, quotas, switches, protection, blocks."""

import re
import time

import pytest

from kbnav.errors import CredentialsError, ServiceError
from tests.apps.bot.mediawiki import BOT
from tests.apps.bot.parts import TALK, connect


def test_bots_forged_signatures_of_blocked_users_and_unsigned_texts_get_no_reply(scene):
    scene.other_bot.ask(TALK, "A", "Shall we talk?")
    scene.bob.add(
        TALK,
        "\n== B ==\nMoved here? [[User:Other bot]] 12:00, 1 January 2026 (UTC)\n== C ==\nunsigned test?\n",
    )
    said = scene.tick(scene.bot())
    assert scene.answer.asked == []
    assert scene.statuses() == ["refused", "refused"]
    assert all("Other bot is a bot, or blocked" in one for one in said)


def test_a_question_is_its_writers_whatever_signature_it_has(scene):
    bot = scene.bot(questions_per_user_per_day=2)
    scene.ann.ask(TALK, "A", "Am I Ann?")
    signature = re.search(r"\[\[User:Ann.*", scene.ann.text(TALK))
    assert signature is not None
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
