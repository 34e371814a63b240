"""The bot on a wiki: what it answers, where it waits, and what it keeps of it."""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.talk import Question, markers
from kbnav.apps.bot.wiki import Page
from kbnav.errors import CredentialsError, ServiceError, UsageError
from tests.apps.bot.mediawiki import BOT
from tests.apps.bot.parts import TALK, connect, run_of

WD = "http://www.wikidata.org/entity/"


def test_a_question_is_found_and_answered_in_its_section_and_a_follow_up_knows_it(scene):
    scene.ann.ask(TALK, "Radium", "Who discovered radium?")
    scene.ann.ask(TALK, "Other", "And what else?")
    bot = scene.bot()
    scene.tick(bot)
    first, second = re.split(r"^== Other ==$", scene.ann.text(TALK), flags=re.MULTILINE)
    assert "Answer to Who discovered radium?" in first
    assert "Answer to And what else?" in second
    assert re.search(rf"^:\[\[User:{BOT}\|{BOT}\]\] \(\[\[User talk:{BOT}\|talk\]\]\) .*\(UTC\)$", first, re.MULTILINE)
    scene.bob.write(TALK, first + "::Where was that?? ~~~~\n\n== Other ==" + second)
    scene.tick(bot)
    assert scene.answer.asked[2] == ("Where was that??", ("Who discovered radium?",))
    assert scene.statuses() == ["posted"] * 3
    before = scene.ann.text(TALK)
    assert scene.tick(bot) == scene.tick(scene.bot()) == []
    assert scene.ann.text(TALK) == before


def test_the_edit_names_its_task_and_is_marked_as_a_bots(scene):
    scene.ann.ask(TALK, "Radium", "Who?")
    scene.tick(scene.bot(task_page="Project:Task"))
    (change,) = scene.ann.call(
        action="query", list="recentchanges", rclimit=1, rcprop="comment|flags|user", rctype="edit"
    )["query"]["recentchanges"]
    assert change["user"] == BOT
    assert change["bot"] is True
    assert change["comment"] == "/* Radium */ answer to a question (bot, see [[Project:Task]])"


HOSTILE = (
    "[[Category:X]] {{nobots}} [[User:Ann|ping]] [[de:Z]] [[:d:Q1]] https://evil.example www.evil.example "
    "mailto:a@evil.example //evil.example ~~~~ ~~~~~ {{subst:x}} __NOTOC__ __NOINDEX__ <b onclick=x>b</b> "
    "<script>x</script> <nowiki> <!-- ISBN 9780306406157 RFC 2616 PMID 12345 [[File:X.png]] [https://evil.example x] "
    "{{{1}}} -{zh:a}- ''i'' |} <ref>x</ref> &lt;b&gt; #REDIRECT [[Y]] {| </div> </pre>"
)


def test_nothing_that_a_model_or_a_knowledge_base_says_acts_on_the_wiki(scene):
    table = AnswerTable(
        (HOSTILE, "b"),
        ((Term("uri", f"{WD}Q1"), Term("literal", f"\n* {HOSTILE}\n== h ==\n")), (Term("literal", "|-"), None)),
        labels={"Q1": HOSTILE},
    )
    scene.answer.make = lambda question: run_of(
        question, HOSTILE, table=table, query=f"SELECT '{HOSTILE}'\n == h ==\n", note=HOSTILE
    )
    scene.ann.ask(TALK, "A", "What does it say?")
    page = "https://query.example.org/#"
    scene.tick(scene.bot(query_page=page, entity_link="[[Special:EntityPage/{id}]]"))
    read = scene.ann.parsed(TALK)
    assert {link["title"] for link in read["links"]} <= {"User:Ann", "User talk:Ann", f"User:{BOT}", TALK}
    kinds = ("templates", "categories", "iwlinks", "langlinks", "images", "properties")
    assert [read[kind] for kind in kinds] == [[], [], [], [], [], {}]
    assert [url.split("#")[0] for url in read["externallinks"]] == ["https://query.example.org/"]
    assert [section["line"] for section in read["sections"]] == ["A"]
    shown = read["text"]
    assert not re.search(r"<(script|b|nowiki|ref|i)\b", shown)
    assert html.unescape(shown).count("<script>x</script>") == 4  # answer, note, column, query; cells are cut before it
    assert scene.ann.text(TALK).count("(UTC)") == 2  # Ann's signature and the bot's


@pytest.mark.parametrize(
    ("language", "switches"),
    [
        (
            "ja",
            [
                "＿＿目次強制＿＿",
                "＿＿インデックス拒否＿＿",
                "＿＿新しいセクションリンク＿＿",
                "＿＿セクション編集非表示＿＿",
            ],
        ),
        ("sh", ["SKRIVENAKAT"]),
    ],
)
def test_nor_do_the_switches_of_other_languages_and_what_the_wiki_makes_a_mark(scene, language, switches):
    with scene.wiki.configured(wgLanguageCode=language):
        scene.admin.write("Project:Switches", " ".join(switches))
        assert scene.admin.parsed("Project:Switches")["properties"]  # they do act where they are not escaped
        text = f"\u037e {' '.join(switches)}"
        scene.answer.make = lambda question: run_of(question, text, query=f"SELECT '{text}'")
        scene.ann.ask(TALK, "A", "What does it say?")
        scene.tick(scene.bot(query_page="https://query.example.org/#"))
        read = scene.ann.parsed(TALK)
    assert read["properties"] == {}
    assert "<dt>" not in read["text"]
    shown = html.unescape(read["text"])
    assert all(shown.count(switch) == 2 for switch in switches)  # answer and query
    (address,) = (url for url in read["externallinks"] if url.startswith("https://query.example.org/"))
    assert unquote(address).endswith(f"#SELECT '{text}'")


def test_what_a_service_said_as_it_failed_is_not_posted(scene):
    echoed = "Incorrect API key provided: sk-nevertobeleft at https://models.example"
    scene.answer.make = lambda question: run_of(question, note="The sentence is missing.", error=echoed)
    scene.ann.ask(TALK, "A", "Which?")
    scene.tick(scene.bot())
    text = html.unescape(scene.ann.text(TALK))
    assert "The sentence is missing." in text
    assert "sk-nevertobeleft" not in text
    assert "models.example" not in text


def test_a_second_users_edit_in_between_is_kept(scene):
    scene.ann.ask(TALK, "A", "Who?")
    scene.answer.then = lambda: scene.bob.add(TALK, "\n:I think I know. ~~~~\n\n== B ==\nmine\n")
    scene.tick(scene.bot())
    text = scene.ann.text(TALK)
    assert text.index("I think I know") < text.index("Answer to Who?") < text.index("== B ==") < text.index("mine")


def test_an_edit_conflict_is_found_and_the_page_read_again(scene):
    scene.ann.ask(TALK, "A", "Who?")
    bot = scene.bot()
    (page,) = bot._wiki.read(TALK)
    scene.bob.add(TALK, "\n:Me, too. ~~~~")
    assert bot._wiki.edit(page, page.text + "\n:Here at the same place.", "x") == (0, "")
    scene.tick(bot)
    text = scene.ann.text(TALK)
    assert "Me, too" in text
    assert markers(text) == {scene.ledger().entries()[0].question.id}


def test_an_edit_in_the_second_of_the_one_the_bot_read_is_a_conflict_and_not_overwritten(scene):
    wiki = scene.bot()._wiki
    for attempt in range(100):
        written = f"== A ==\nWho asks for time {attempt}?"
        base = scene.ann.write(TALK, written)
        other = scene.bob.add(TALK, "\n:Me, too.")
        if base["newtimestamp"] == other["newtimestamp"]:
            break
    assert base["newtimestamp"] == other["newtimestamp"]
    page = Page(TALK, written, base["newrevid"], base["newtimestamp"])  # as read between the two
    assert wiki.edit(page, written + "\n:Here at the same place.", "x") == (0, "")
    assert scene.ann.text(TALK) == written + "\n:Me, too."


def test_what_stood_on_a_configured_page_before_is_not_answered(scene):
    scene.ann.write("Project:Questions", "== Old ==\nWas this here? ~~~~\n")
    bot = scene.bot(pages=("Project:Questions",))
    assert scene.tick(bot) == []
    scene.ann.ask("Project:Questions", "New", "Is this new?")
    scene.tick(bot)
    assert [text for text, _ in scene.answer.asked] == ["Is this new?"]


@pytest.mark.parametrize(("file", "content", "told"), [("readonly", "A backup.", "readonly"), ("lag", "7", "lagged")])
def test_a_wiki_that_is_read_only_or_lagged_is_waited_out(scene, file, content, told):
    obstacle = scene.wiki.folder / file
    scene.ann.ask(TALK, "A", "Who?")
    bot = scene.bot()
    scene.answer.then = lambda: obstacle.write_text(content)
    waits: list[float] = []

    def stop(seconds: float) -> bool:
        waits.append(seconds)
        scene.now += seconds
        if len(waits) == 2:
            obstacle.unlink()
        return len(waits) == 3

    try:
        said = [one.text for one in bot.rounds(stop)]
    finally:
        obstacle.unlink(missing_ok=True)
    assert told in said[1]
    assert waits == [60, 120, 30]
    assert (len(scene.answer.asked), scene.statuses()) == (1, ["posted"])
    assert min(scene.sleeps) >= (5 if file == "lag" else 0.5)


def test_a_session_that_the_wiki_forgot_is_begun_again(scene):
    scene.ann.ask(TALK, "A", "Who?")
    bot = scene.bot()
    scene.answer.then = lambda: bot._wiki._http._session.cookies.clear()
    scene.tick(bot)
    assert scene.statuses() == ["posted"]
    assert f"User:{BOT}" in scene.ann.text(TALK)


def test_a_wrong_password_and_a_missing_flag_are_named(scene):
    with pytest.raises(CredentialsError, match="does not log 'KB bot@test' in"):
        connect(scene.wiki.api, password="x" * 32).login()
    scene.admin.rights(BOT, remove="bot")
    try:
        with pytest.raises(CredentialsError, match="lacks the right 'bot': ask for the bot flag"):
            scene.tick(scene.bot())
        scene.ann.ask(TALK, "A", "Who?")
        scene.tick(scene.bot(flagged=False))
    finally:
        scene.admin.rights(BOT, add="bot")
    assert scene.statuses() == ["posted"]


def test_a_dry_run_shows_the_edit_once_and_saves_nothing(scene):
    scene.ann.ask(TALK, "A", "Who?")
    before = scene.ann.text(TALK)
    bot = scene.bot(edits=False)
    _, diff = scene.tick(bot)
    assert re.search(r"^\+:<!-- kbnav:\w{16} -->Answer to Who\?$", diff, re.MULTILINE)
    assert scene.tick(bot) == scene.tick(scene.bot(edits=False)) == []
    assert len(scene.answer.asked) == 1
    assert scene.ann.text(TALK) == before
    scene.tick(scene.bot())
    assert scene.statuses() == ["posted"]


def test_a_model_that_fails_is_asked_again_later_and_at_last_the_bot_says_so(scene):
    def fails(question):
        raise ServiceError("no model")

    scene.ann.ask(TALK, "A", "Who?")
    scene.answer.make = fails
    bot = scene.bot()
    for tried in range(1, 8):
        with pytest.raises(ServiceError, match="no model"):
            scene.tick(bot)
        assert scene.tick(bot) == []  # not before its time
        assert len(scene.answer.asked) == tried
        scene.now += 30 * 2**tried
    scene.tick(bot)
    assert scene.statuses() == ["posted"]
    assert "Something failed while I looked for an answer" in scene.ann.text(TALK)


def test_a_reply_that_is_there_already_is_not_repeated_whatever_the_ledger_says(scene):
    scene.ann.ask(TALK, "A", "Who?")
    scene.tick(scene.bot())
    before = scene.ann.text(TALK)
    question = scene.ledger().entries()[0].question
    for status in ("answered", "seen"):
        scene.ledger().update(question.id, scene.now, status=status, due=0)
        assert scene.tick(scene.bot()) == ["the reply is on the page already"]
    assert scene.ann.text(TALK) == before


def test_a_bot_that_is_logged_in_can_log_in_again(scene):
    wiki = connect(scene.wiki.api)
    wiki.login()
    wiki.login()  # a bot password's cookies would have it refused
    wiki.check_account()


FIRST = Question("a" * 16, "P", "S", "Ann", "12:00", "Who?", 1, ("b" * 16, "c" * 16))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    one = Ledger(tmp_path / "new" / "bot.sqlite")
    yield one
    one.close()


@pytest.mark.parametrize("end", ["gone", "refused"])
@pytest.mark.parametrize("asked", [{"status": "answered", "reply": "R", "tries": 0}, {"tries": 1}])
def test_quotas_count_what_a_model_was_asked_whatever_became_of_it(ledger, asked, end):
    ledger.add(FIRST, 100.0)
    ledger.update(FIRST.id, 110.0, **asked)
    ledger.update(FIRST.id, 120.0, status=end)
    assert ledger.asked_since(100.0, "Ann") == 1


def test_one_bot_writes_others_read(ledger, tmp_path):
    path = tmp_path / "new" / "bot.sqlite"
    ledger.add(FIRST, 1.0)
    with pytest.raises(UsageError, match="another bot is running"):
        Ledger(path)
    reader = Ledger(path, alone=False)
    assert len(reader.entries()) == 1
    reader.close()
