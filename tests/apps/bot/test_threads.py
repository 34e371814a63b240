"""Fifty threads written after the habits of talk pages: what is asked in each, and where the reply goes."""

import re
from itertools import count
from pathlib import Path

import pytest

from kbnav.apps.bot.talk import Names, markers, question_ids, questions, sections, with_reply

BOT = "KB bot"
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
