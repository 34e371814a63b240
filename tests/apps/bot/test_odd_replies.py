"""A wiki whose replies are JSON, and not what the action API promises: no such reply ends the bot."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from kbnav.apps.bot.talk import Question
from kbnav.apps.bot.wiki import Page, Wiki
from kbnav.errors import CredentialsError, KbnavError, ServiceError
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.replies import Reply, Request
from tests.apps.bot.mediawiki import BOT_PASSWORD
from tests.apps.bot.parts import connect
from tests.knowledge.wikidata.serving import Answer, Asked, serving

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
    "login": (
        {"query": {"tokens": {"logintoken": "t"}}, "login": {"result": "Success"}},
        lambda wiki: wiki.login(),
    ),
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


def changed(body: Any, odd: object) -> Iterator[Any]:
    """The body with each of its values in turn made ``odd``, or left out."""

    def places(value: Any, way: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, one in inner:
            yield (*way, name)
            yield from places(one, (*way, name))

    for way in places(body, ()):
        other = copy.deepcopy(body)
        at = other
        for name in way[:-1]:
            at = at[name]
        at[way[-1]] = odd
        yield other


@pytest.mark.parametrize("case", CASES)
def test_an_odd_reply_is_an_error_that_the_bot_waits_out(case):
    body, call = CASES[case]
    call(wiki_of(body))  # the reply as it should be is understood
    for odd in ODD:
        for one in (odd, *changed(body, odd)):
            try:
                call(wiki_of(one))
            except KbnavError:
                continue


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
