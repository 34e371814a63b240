"""The extensions DiscussionTools and Echo: where the wiki places a reply, and notifications of mentions."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.bot.bot import Bot
from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.wiki import Wiki
from kbnav.errors import ServiceError
from kbnav.settings.model import Settings
from tests.apps.bot.mediawiki import BOT, MediaWiki, Person, missing
from tests.apps.bot.parts import Answerer, Scene, connect, run_of
from tests.apps.bot.test_bot import HOSTILE
from tests.apps.bot.test_refusals import ASKED, COMMENT, PAGE_READ, wiki_of
from tests.knowledge.wikidata.serving import Answer, serving

ANN = "[[User:Ann|Ann]] ([[User talk:Ann|talk]]) 12:34, 1 January 2026 (UTC)"
SPACES = {"2": ("User", "User"), "3": ("User talk", "User talk"), "1": ("Talk", "Talk"), "4": ("Project", "Project")}


class EchoWiki:
    """A wiki with Echo: pages, notifications that were not read, and the edits that were made."""

    def __init__(self) -> None:
        self.pages = {
            "Wikidata:Cafe": f"== A ==\n[[User:KB bot]] Who? {ANN}\n",
            "Talk:Old": f"== A ==\n[[User:KB bot]] Old? {ANN}\n",
        }
        self.old = {"Talk:Old"}
        self.unread: dict[str, tuple[str, str]] = {}
        self.requests: list[dict[str, str]] = []

    def answer(self, asked: dict[str, str]) -> dict[str, Any]:
        self.requests.append(asked)
        if asked["action"] == "login":
            return {"login": {"result": "Success"}}
        if asked["action"] == "echomarkread":
            assert len(asked["list"].split("|")) <= 50
            for number in asked["list"].split("|"):
                del self.unread[number]
            return {"query": {"echomarkread": {"result": "success"}}}
        if asked["action"] == "edit":
            self.pages[asked["title"]] = asked["text"]
            return {"edit": {"result": "Success", "newrevid": 2}}
        if "titles" in asked:
            pages = [self._page(title, asked) for title in asked["titles"].split("|")]
            return {"curtimestamp": "2026-01-01T00:00:00Z", "query": {"pages": pages}}
        if asked.get("list") == "allrevisions":
            return {"query": {"allrevisions": [{"revisions": [{"revid": 1}]}]}}
        return {"query": {**self._meta(asked), "users": [{"name": "Ann", "groups": ["*", "user"]}]}}

    def _page(self, title: str, asked: dict[str, str]) -> dict[str, Any]:
        """Every page has a revision 1 from before the bot's time or 2 from after it."""
        if title not in self.pages:
            return {"title": title, "missing": True}
        number = 1 if title in self.old else 2
        if asked.get("rvstartid") and int(asked["rvstartid"]) < number:
            return {"title": title}
        revision = {"revid": number, "user": "Ann", "timestamp": "2026-01-01T00:00:00Z"}
        return {
            "title": title,
            "lastrevid": number,
            "actions": {"edit": []},
            "revisions": [{**revision, "slots": {"main": {"content": self.pages[title]}}}],
        }

    def _meta(self, asked: dict[str, str]) -> dict[str, Any]:
        start = int(asked.get("notcontinue") or 0)
        unread = list(self.unread.items())
        end = start + int(asked.get("notlimit") or 0)
        listed = [
            {
                "wiki": "wikidatawiki", "id": number, "type": kind, "category": "mention", "section": "alert",
                "timestamp": {"utciso8601": "2026-01-01T00:00:00Z"}, "title": {"full": title, "namespace-key": 4},
                "agent": {"id": 7, "name": "Ann"}, "revid": 1, "read": None,
            }
            for number, (kind, title) in unread[start:end]
        ]  # fmt: skip
        spaces = {n: {"id": int(n), "name": name, "canonical": other} for n, (name, other) in SPACES.items()}
        known = {
            "tokens": {"tokens": {"logintoken": "l", "csrftoken": "c+\\"}},
            "userinfo": {"userinfo": {"name": "KB bot", "rights": ["edit", "bot"]}},
            "siteinfo": {
                "general": {"time": "2026-01-01T00:00:00Z"},
                "namespaces": spaces,
                "extensions": [{"type": "notification", "name": "Echo"}],
            },
            "notifications": {"notifications": {"list": listed, "continue": str(end) if end < len(unread) else None}},
        }
        return known.get(asked.get("meta", ""), {})


@pytest.fixture
def echo() -> Iterator[tuple[EchoWiki, str]]:
    wiki = EchoWiki()
    with serving(lambda asked: Answer(wiki.answer(asked.params))) as served:
        yield wiki, f"{served.url}/api.php"


def bot(api: str, folder: Path, *, edits: bool = True) -> tuple[Bot, Answerer, Ledger]:
    wiki, answer, ledger = connect(api), Answerer(), Ledger(folder / f"{edits}.sqlite")
    wiki.login()
    return Bot(wiki, ledger, answer, answer.runs.get, Settings(), edits=edits), answer, ledger


def test_mentions_are_read_from_notifications_answered_and_marked_as_read(echo, tmp_path):
    wiki, api = echo
    one, answer, ledger = bot(api, tmp_path)
    wiki.unread = {"5": ("mention", "Talk:Old")}
    list(one.tick())
    assert (answer.asked, wiki.unread) == ([], {})  # it is from before the bot's time
    wiki.unread = {"6": ("mention", "Wikidata:Cafe"), "7": ("reverted", "Talk:Old"), "8": ("mention", "Talk:Gone")}
    list(one.tick())
    assert answer.asked == [("Who?", ())]
    assert list(wiki.unread) == ["7"]
    assert ":Answer to Who?" not in wiki.pages["Wikidata:Cafe"]
    assert "-->Answer to Who?" in wiki.pages["Wikidata:Cafe"]
    ledger.close()


def test_more_notifications_than_one_reply_holds_are_all_read(echo, tmp_path):
    wiki, api = echo
    one, answer, ledger = bot(api, tmp_path)
    wiki.unread = {str(number): ("mention", "Talk:Old") for number in range(1, 121)}
    list(one.tick())
    assert (answer.asked, wiki.unread) == ([], {})
    for number in range(60):
        title = f"Talk:New {number}"
        wiki.pages[title] = f"== A ==\n[[User:KB bot]] Is it {number}? {ANN}\n"
        wiki.unread[str(200 + number)] = ("mention", title)
    wiki.unread["300"] = ("mention", "Talk:Old")
    list(one.tick())
    questions = [entry.question.text for entry in ledger.entries()]
    assert sorted(questions) == sorted([*(f"Is it {number}?" for number in range(60)), "Old?"])
    assert [entry.question.text for entry in ledger.entries() if entry.status == "old"] == ["Old?"]
    assert wiki.unread == {}
    ledger.close()


def test_each_request_has_good_manners(echo, tmp_path):
    wiki, api = echo
    one, _, ledger = bot(api, tmp_path)
    list(one.tick())
    wiki.unread = {"6": ("mention", "Wikidata:Cafe")}
    list(one.tick())
    (edit,) = [request for request in wiki.requests if request["action"] == "edit"]
    assert {request["maxlag"] for request in wiki.requests} == {"5"}
    assert (edit["assert"], edit["assertuser"], edit["bot"], edit["token"]) == ("bot", "KB bot", "1", "c+\\")
    assert (edit["baserevid"], edit["starttimestamp"], edit["nocreate"]) == ("2", "2026-01-01T00:00:00Z", "1")
    assert "basetimestamp" not in edit  # it would hide conflicts within a second
    before = wiki.requests[wiki.requests.index(edit) - 2]
    assert before["titles"] == "User:KB bot/shutoff|Wikidata:Cafe" or "csrf" in before.get("type", "")
    ledger.close()


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


def refused(*_: object) -> None:
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
