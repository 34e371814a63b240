"""Talk pages in wikitext: what is a question on them, where its reply goes, and how that is written."""

import html
import re
import unicodedata
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.bot.talk import (
    Names,
    added_by,
    comment_ids,
    marker,
    markers,
    may_edit,
    question_ids,
    questions,
    refusal,
    sections,
    with_reply,
)
from kbnav.apps.bot.wikitext import edit_summary, escape, reply_text
from kbnav.knowledge.evidence import Evidence, Provenance
from kbnav.runs.trajectory import Call, Outcome, Run, Step
from kbnav.settings.model import Settings

BOT = "KB bot"
ANN = "[[User:Ann|Ann]] ([[User talk:Ann|talk]]) 12:34, 1 January 2026 (UTC)"
BOB = "--[[User:bob_x|Bob]] 09:05, 2 January 2026 (UTC)"
SELF = "[[User:KB bot|KB bot]] ([[User talk:KB bot|talk]]) 12:35, 1 January 2026 (UTC)"


def asked(page: str, *, own: bool = True, **options) -> list[tuple[str, str]]:
    """Author and text of the questions on the bot's page, or on another's."""
    return [(one.author, one.text) for one in questions("User talk:KB bot", page, bot=BOT, own=own, **options)]


def test_a_follow_up_is_a_question_behind_a_reply_and_knows_what_came_before():
    page = f"== A ==\nWho discovered radium? {ANN}\n"
    (first,) = questions("P", page, bot=BOT, own=True)
    page = with_reply(page, first, f"<!-- {marker(first.id)} -->Curie {SELF}") or ""
    assert asked(page) == []
    thanks = f"{page}::Thanks! {BOB}\n"
    assert asked(thanks) == []
    (second,) = questions("P", f"{page}::And polonium? {BOB}\n", bot=BOT, own=True)
    assert (second.text, second.depth, second.earlier) == ("And polonium?", 2, (first.id,))


def test_markup_that_is_not_read_hides_headings_and_signatures():
    page = f"== A ==\n<nowiki>\n== B ==\nx {ANN}</nowiki> Why? {BOB}\n<!-- == C ==\n{ANN} -->\n"
    assert [section.heading for section in sections(page)] == ["A"]
    assert [author for author, _ in asked(page)] == ["Bob x"]


def test_a_question_is_the_same_wherever_its_section_moves_and_another_when_its_words_change():
    page = f"== A ==\nWho? {ANN}\n"
    (one,) = questions("P", page, bot=BOT, own=True)
    (moved,) = questions("P", f"== Z ==\nx\n{page.replace('== A ==', '== B ==')}", bot=BOT, own=True)
    (other,) = questions("P", page.replace("Who", "Whom"), bot=BOT, own=True)
    assert one.id == moved.id != other.id


def test_a_reply_goes_to_the_end_of_its_section_and_only_once():
    page = f"lead\n\n== A ==\nWho? {ANN}\n:I wonder, too. {BOB}\n\n\n== B ==\nx\n"
    (question,) = questions("P", page, bot=BOT, own=True)
    reply = f"<!-- {marker(question.id)} -->Curie ~~~~\n"
    new = with_reply(page, question, reply)
    assert new == f"lead\n\n== A ==\nWho? {ANN}\n:I wonder, too. {BOB}\n:{reply}\n== B ==\nx\n"
    assert markers(new) == {question.id}
    assert with_reply(new, question, reply) == new
    assert with_reply("== A ==\nall gone\n", question, reply) is None


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("Capital of {{Q|142}} by {{P|36}}?", "Capital of Q142 by P36?"),
        ("What is {{Q|P31}}?", "What is P31?"),
        ("Who made [[:en:Eiffel Tower]] and [[Q243|it]]?", "Who made Eiffel Tower and it?"),
        ("{{welcome}} Who? <small>x</small>", "Who? x"),
        ("=== Sub ===\nWho?", "Who?"),
        ("Who discovered radium, {{ping|KB bot}}?", "Who discovered radium?"),
        ("Who discovered radium? <span style='color:red'>", "Who discovered radium?"),
    ],
)
def test_a_question_is_its_words_whatever_they_are_written_with(written, text):
    assert asked(f"== A ==\n{written} {ANN}\n") == [("Ann", text)]


@pytest.mark.parametrize(
    ("written", "texts"),
    [
        ("{{ping|KB bot}} Who made radium? {{ping|KB bot|Ann}} And polonium?", ["Who made radium?", "And polonium?"]),
        ("Who made radium, {{ping|KB bot}}? And polonium, {{ping|KB bot}}?", ["Who made radium?", "And polonium?"]),
        ("{{ping|KB bot}} {{ping|KB bot}} Who?", ["Who?"]),
        ("{{ping|KB bot}} Who? Thanks, {{ping|KB bot}}!", ["Who? Thanks!"]),
        ("{{ping|KB bot}} What did [[User:KB bot]] say? And why?", ["What did User:KB bot say? And why?"]),
        ("[[User:KB bot]]: who?\n\n[[User:KB bot]]: when?", ["who?", "when?"]),
        ("{{ping|KB bot}} Is it so? " * 9, ["Is it so?"] * 5),
    ],
)
def test_two_pings_are_two_questions_with_a_reply_each(written, texts):
    page = f"== A ==\n{written} {ANN}\n"
    found = list(questions("P", page, bot=BOT, own=False))
    assert [one.text for one in found] == texts
    assert {one.id for one in found} <= comment_ids(page)
    for one in found:
        page = with_reply(page, one, f"<!-- {marker(one.id)} -->{one.text} {SELF}") or ""
    assert asked(page, own=False) == []
    assert [one.text for one in next(sections(page)).comments[1:]] == texts


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", True),
        ("{{nobots}}", False),
        ("{{Template:Nobots}}", False),
        ("{{nobots|1}}", False),
        ("{{template:bots|deny=all}}", False),
        ("<nowiki>{{nobots}}</nowiki>", True),
        ("{{bots|allow=none}}", False),
        ("{{bots|allow=OtherBot}}", False),
        ("{{bots|allow=OtherBot, KB_bot}}", True),
        ("{{bots|deny=all}}", False),
        ("{{bots | deny = OtherBot,kB bot }}", False),
        ("{{bots|optout=all}}", False),
        ("{{bots|optout=nosource}}", True),
    ],
)
def test_exclusion_templates(text, allowed):
    assert may_edit(f"x {text} y", BOT, kind="answer") is allowed


@pytest.mark.parametrize("opening", ["<!-- see", "<includeonly>"])
def test_a_reply_stays_visible_where_something_is_never_closed(opening):
    page = f"== A ==\nWho? {ANN}\n{opening} x\n== B ==\nWhat? {BOB}\n"
    assert asked(page) == [("Ann", "Who?")]
    (question,) = questions("P", page, bot=BOT, own=True)
    assert with_reply(page, question, "R") == f"== A ==\nWho? {ANN}\n:R\n\n{opening} x\n== B ==\nWhat? {BOB}\n"


@pytest.mark.parametrize("piece", ["<pre>", "<!--", "[[", "[[ ", "{{", "== ", "12:34, ", "{{bots|", "<nowiki>x", "\n:"])
def test_large_hostile_pages_are_read_in_linear_time(piece):
    page = f"== A ==\nWho? {ANN}\n" + piece * 60_000
    (question,) = questions("P", page, bot=BOT, own=True)
    assert question.text == "Who?"
    assert ":R" in (with_reply(page, question, "R") or "")
    assert may_edit(page, BOT)


def test_who_put_a_comment_on_a_page_is_told_by_its_edits():
    base, one, two = f"== A ==\nOld? {ANN}\n", f"== B ==\nNew? {BOB}\n", f"== C ==\nForged? {ANN}\n"
    found = added_by(base, [("Bob x", base + one), ("Eve", base), ("Eve", base + one + two), ("", two)])
    ids = {text: question_ids(next(sections(text)).comments[0])[0] for text in (base, one, two)}
    assert found == {ids[one]: "Bob x", ids[two]: "Eve"}
    assert comment_ids(base + one) == {ids[base], ids[one]}


@pytest.mark.parametrize(
    ("writer", "unwanted", "editors", "why"),
    [
        ("Ann", (), (), ""),
        ("Eve", (), (), ""),  # a forger may ask, as who she is
        ("", (), ("Ann",), ""),
        ("", (), ("Eve",), "signed by Ann, who has not edited the page"),
        ("Eve", ("Eve",), ("Ann", "Eve"), "Eve is a bot, or blocked"),
        ("Eve", ("Ann",), ("Ann", "Eve"), "Ann is a bot, or blocked"),
        ("", ("Ann",), ("Ann",), "Ann is a bot, or blocked"),
    ],
)
def test_who_gets_no_reply_whether_signer_or_writer(writer, unwanted, editors, why):
    (question,) = questions("P", f"== A ==\nWho? {ANN}\n", bot=BOT, own=True)
    assert refusal(question, writer, unwanted, editors) == why


PIECES = ("== H ==\n", "\n", ":", "{{", "}}", "[[", "]]", "<!--", "-->", "<nowiki>", "<pre>", "</pre>", "x?", "|")
WIKITEXT = st.lists(st.sampled_from([*PIECES, ANN, SELF])).map("".join)


@given(WIKITEXT)
def test_whatever_a_page_holds_sections_cover_it_and_each_question_gets_one_reply(page):
    found = list(sections(page))
    assert all(one.start < one.end <= len(page) for one in found)
    assert [one.start for one in found[1:]] == [one.end for one in found[:-1]]
    for question in questions("P", page, bot=BOT, own=True):
        new = with_reply(page, question, f"<!-- {marker(question.id)} -->A {SELF}")
        assert new.count(question.id) == 1
        moved = replace(question, section="elsewhere")
        assert with_reply(new, moved, "x") == new


SPACES = (
    "user", "user talk", "benutzer", "benutzerin", "benutzer diskussion", "utilisateur", "discussion utilisateur",
    "usuario", "usuario discusión", "usuário(a)", "usuário(a) discussão", "участник", "участница",
    "обсуждение участника", "обсуждение участницы", "利用者", "利用者‐会話", "用户", "用户讨论", "مستخدم",
    "نقاش المستخدم", "کاربر", "بحث کاربر", "ব্যবহারকারী", "ব্যবহারকারী আলাপ",
)  # fmt: skip
NAMES = Names(frozenset(SPACES))
_, *THREADS = re.split(r"^#### ", (Path(__file__).parent / "threads.txt").read_text("utf-8"), flags=re.MULTILINE)


def signed(text: str) -> str:
    """The text with a signature, each a minute later, for each short one, and the bot's marks with the right ids."""
    minutes = count(10)

    def sign(found: re.Match[str]) -> str:
        user = found[1]
        return f"[[User:{user}|{user}]] ([[User talk:{user}|talk]]) 09:{next(minutes)}, 2 January 2026 (UTC)"

    text = re.sub(r"~(KB bot|[A-Z][a-z]+)$", sign, text, flags=re.MULTILINE)
    if "kbnav:ID" in text:
        first = next(sections(text)).comments[0]
        text = text.replace("kbnav:ID", f"kbnav:{question_ids(first)[0]}")
    return text


def lines(text: str) -> list[str]:
    """The lines that are not empty."""
    return [line for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize("thread", THREADS, ids=lambda thread: thread.partition("\n")[0])
def test_what_is_asked_and_where_the_reply_goes(thread):
    name, _, written = thread.partition("\n")
    texts = [text.replace("\\n", "\n") for text in re.findall(r"^\d\? (.*)$", written, re.MULTILINE)]
    page = signed(re.sub(r"^\d\?.*\n", "", written, flags=re.MULTILINE))
    bare = re.sub(r"^\d>.*\n", "", page, flags=re.MULTILINE)
    found = list(questions("P", bare, bot=BOT, own=name.startswith("own"), names=NAMES))
    assert [question.text for question in found] == texts
    for number, question in enumerate(found, 1):
        reply = f"<!-- kbnav:{question.id} -->Curie.\n<pre>x</pre>\n~~~~"
        indent = re.search(rf"^{number}>(.*)$", page, re.MULTILINE)[1]
        replied = "".join(f"{indent}{line}\n" for line in reply.split("\n"))
        expected = re.sub(rf"^{number}>.*\n", lambda _, there=replied: there, page, flags=re.MULTILINE)
        expected = re.sub(r"^\d>.*\n", "", expected, flags=re.MULTILINE)
        new = with_reply(bare, question, reply, NAMES)
        assert lines(new) == lines(expected)
        assert markers(new) - markers(bare) == {question.id}


WD = "http://www.wikidata.org/entity/"
TABLE = AnswerTable(
    ("element",),
    tuple((Term("uri", f"{WD}Q{number}"),) for number in range(1, 13)),
    labels={"Q1": "radium", "Q2": "<b>|{{x}}"},
)
RUN = Run(
    "run-1",
    "Which?",
    "spinach",
    "m",
    "en",
    (Step(1, Call("execute_query", {}, "Look [[here]]")),),
    (),
    Outcome("answered", "finish", "SELECT ?x {\n ?x ?y '~~~~' }", TABLE, text="polonium, [[Category:X]]"),
)


LINKING = Settings(bot={"entity_link": "[[{id}]]"}, endpoints={"query_page": "https://q.example/#"})


def test_a_reply_holds_answer_ten_rows_query_link_steps_and_signature():
    text = reply_text(RUN, LINKING, marker="kbnav:00")
    lines = text.splitlines()
    assert lines[0] == "<!-- kbnav:00 -->polonium, &#91;&#91;Category&#58;X&#93;&#93;"
    assert lines[1].startswith('<table class="wikitable"><tr><th>element</th></tr><tr><td>[[Q1]] radium</td></tr>')
    assert "<td>[[Q2]] &#60;b&#62;&#124;&#123;&#123;x&#125;&#125;</td>" in lines[1]
    assert lines[1].count("<tr>") == 11
    assert "''12 rows, the first 10 shown''" in lines
    assert "[https://q.example/#SELECT%20%3Fx%20%7B%0A%20%3Fx%20%3Fy%20%27%7E%7E%7E%7E%27%20%7D run it]" in text
    assert "<li>Look &#91;&#91;here&#93;&#93; (execute&#95;query)</li>" in lines[-2]
    assert lines[-1] == "~~~~"


def test_the_statements_behind_the_rows_are_footnotes():
    told = Evidence(Term("uri", f"{WD}Q9"), "P61", Term("uri", f"{WD}Q1"), f"{WD}statement/Q9-1")
    found = Provenance(((told,), ()), cut=True, labels={"P61": "found [[by]]"})
    text = reply_text(RUN, LINKING, marker="m", evidence=found)
    assert "<td>[[Q1]] radium<sup>1</sup></td>" in text
    assert "<td>[[Q3]]</td>" in text
    assert "<li>Q9 — found &#91;&#91;by&#93;&#93; — Q1&#59; no reference is stated</li>" in text
    assert "<li>nothing was found that is stated of it</li>" in text
    assert "<p>There is more, which was not looked at.</p>" in text
    yes = replace(RUN, outcome=Outcome("answered", "finish", "ASK {}", AnswerTable(boolean=True), text="Yes."))
    assert "-->Yes.<sup>1</sup>" in reply_text(yes, LINKING, marker="m", evidence=Provenance(((told,),)))
    failed = reply_text(RUN, LINKING, marker="m", evidence=Provenance(failed="down"))
    assert failed == reply_text(RUN, LINKING, marker="m")
    back = replace(RUN, outcome=Outcome("no answer", "finish", text="Which Curie?"))
    assert reply_text(back, LINKING).startswith("Which Curie?\n")


@given(st.text())
def test_escaped_text_reads_the_same_and_has_no_mark_that_mediawiki_knows(text):
    safe = escape(text)
    for form in ("NFC", "NFKC"):  # the first is what MediaWiki saves
        assert re.fullmatch(r"(?:[A-Za-z0-9 .,?()%+$]|[^\x00-\x7f]|&#\d+;)*", unicodedata.normalize(form, safe))
    assert not re.search(r"RFC|PMID|ISBN", safe)
    assert not safe.startswith(" ")
    seen = "".join(c for c in text if c.isspace() or unicodedata.category(c) not in ("Cc", "Cs", "Co", "Cn"))
    assert html.unescape(safe).split() == re.sub(r"[\u202a-\u202e\u2066-\u2069]", "", seen).split()


@given(st.text(), st.text())
def test_a_summary_links_to_nothing_but_the_task(section, task):
    summary = edit_summary(section, task)
    assert summary.count("[[") == 1
    assert summary.count("/*") == summary.count("*/") <= 1
    assert "{" not in summary
    assert "\n" not in summary
