"""Replies that DiscussionTools places: by what it said once, and on a real MediaWiki where it is installed."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.bot.wiki import Edit, Wiki
from kbnav.errors import ServiceError
from tests.apps.bot.mediawiki import BOT, MediaWiki, Person, missing
from tests.apps.bot.parts import Scene, run_of
from tests.apps.bot.test_bot import HOSTILE
from tests.apps.bot.test_odd_replies import ASKED, COMMENT, PAGE_READ, wiki_of

EXTENSIONS = os.environ.get("KBNAV_WIKI_EXTENSIONS", "")
PAGE = "Talk:Radium"


@pytest.mark.parametrize(
    ("items", "revision"),
    [
        ([{"html": "A", "replies": [COMMENT]}], 9),
        ([{"html": "A", "replies": [{"html": "B", "replies": [COMMENT]}]}, {"html": "B", "replies": [COMMENT]}], 9),
        ([{**COMMENT, "html": '<a href="./Who">Who</a>&nbsp;? Thanks'}], 9),
        ([{"html": "A", "replies": [COMMENT, {**COMMENT, "id": "c-2"}]}], 0),
        ([{**COMMENT, "author": "Bob"}], 0),
        ([{**COMMENT, "html": "What?"}], 0),
        ([], 0),
    ],
    ids=["one", "below two headings", "markup", "asked twice", "another user", "another text", "none"],
)
def test_the_wiki_places_a_reply_where_it_knows_the_one_comment(items, revision):
    body = {
        "query": {"tokens": {"csrftoken": "t"}},
        "discussiontoolspageinfo": {"threaditemshtml": [{"replies": [], **item} for item in items]},
        "discussiontoolsedit": {"result": "success", "newrevid": 9},
    }
    assert wiki_of(body).reply(PAGE_READ, ASKED, "text", "summary") == revision


@pytest.fixture(scope="module")
def discussing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MediaWiki]:
    """A wiki with DiscussionTools and Linter, of which KBNAV_WIKI_EXTENSIONS holds clones (branch REL1_39)."""
    if not EXTENSIONS or missing():
        pytest.skip("KBNAV_WIKI_EXTENSIONS names no folder with DiscussionTools, or there is no MediaWiki")
    with MediaWiki(tmp_path_factory.mktemp("wiki"), EXTENSIONS) as wiki:
        yield wiki


@pytest.fixture
def scene(discussing: MediaWiki, tmp_path: Path) -> Iterator[Scene]:
    people = {name: Person(discussing.api, name) for name in ("Ann", "Bob", "Other bot", "Admin")}
    people["Admin"].write(PAGE, "Lead.\n")
    scene = Scene(discussing, people, tmp_path)
    yield scene
    scene.close()


def asked(scene: Scene) -> None:
    scene.ann.add(
        PAGE,
        "\n== Radium ==\n* Who discovered [[radium]]? ~~~~\n** I wonder. [[User:Bob]] 12:34, 1 January 2026 (UTC)\n"
        "* By the way. [[User:Bob]] 12:35, 1 January 2026 (UTC)\n=== Aside ===\nNothing. ~~~~\n",
    )


def refused(*_: object) -> Edit:
    raise AssertionError("the bot placed it")


def test_the_wiki_puts_the_reply_behind_those_who_replied(scene, monkeypatch):
    bot = scene.bot(pages=(PAGE,))
    scene.tick(bot)
    asked(scene)
    table = AnswerTable((HOSTILE,), ((Term("literal", f"\n* {HOSTILE}\n== h ==\n"),),))
    scene.answer.make = lambda question: run_of(
        question, HOSTILE, table=table, query=f"SELECT '{HOSTILE}'\n", note=HOSTILE
    )
    with monkeypatch.context() as patch:
        patch.setattr(Wiki, "edit", refused)
        scene.tick(bot)
    text = scene.ann.text(PAGE)
    assert scene.statuses() == ["posted"]
    lines = text.split("\n")
    marked = next(number for number, line in enumerate(lines) if "<!-- kbnav:" in line)
    assert lines[marked - 1].startswith("** I wonder.")
    behind = lines[marked:].index(next(line for line in lines if line.startswith("* By the way.")))
    assert all(line.startswith("*:") for line in lines[marked : marked + behind])
    assert f"[[User:{BOT}|{BOT}]]" in lines[marked + behind - 1]
    read = scene.ann.parsed(PAGE)
    kinds = ("templates", "categories", "iwlinks", "langlinks", "images", "externallinks")
    assert [read[kind] for kind in kinds] == [[]] * len(kinds)
    assert [section["line"] for section in read["sections"]] == ["Radium", "Aside"]


@pytest.mark.parametrize("saved", [True, False], ids=["saved, and its word was lost", "not saved"])
def test_what_the_wiki_did_not_place_is_placed_once(scene, monkeypatch, saved):
    real: Callable[..., int] = Wiki.reply

    def reply(*given: Any) -> int:
        if saved:
            real(*given)
            raise ServiceError("the line was cut")
        return 0

    monkeypatch.setattr(Wiki, "reply", reply)
    bot = scene.bot(pages=(PAGE,))
    scene.tick(bot)
    asked(scene)
    if saved:
        with pytest.raises(ServiceError):
            scene.tick(bot)
        scene.now += 3600
    scene.tick(bot)
    assert scene.statuses() == ["posted"]
    assert scene.ann.text(PAGE).count("<!-- kbnav:") == 1
