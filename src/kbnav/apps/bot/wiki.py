"""A MediaWiki's action API as a bot uses it: log in, find what changed, read a page, edit it with good manners."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from html import unescape
from typing import Any, ParamSpec, TypeVar

from kbnav.apps.bot.talk import Names, Question, normal_user
from kbnav.errors import BadResponse, CredentialsError, ServiceError, TellModel
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.replies import Reply, Request, read_json
from kbnav.knowledge.wikidata.api import read_api

MAXLAG = "5"
P = ParamSpec("P")
T = TypeVar("T")
_BATCH = 50
_REPLIES = 200
"""Replies to one question that goes on and on, of at most 500 pages each."""
_MENTIONS = {"mention", "edit-user-talk", "mention-summary"}
_CONFLICTS = {"editconflict", "articleexists", "missingrev", "nosuchrevid"}
_LOGGED_OUT = {"badtoken", "notoken", "assertuserfailed", "assertnameduserfailed", "notloggedin", "readapidenied"}
_PASSING = {"Aborted", "NeedToken", "WrongToken", "Throttled"}
"""Results of a login that say nothing of the password."""
_TAG = re.compile(r"<[^<>]*>")
_FORMAT = {"format": "json", "formatversion": "2", "errorformat": "bc", "maxlag": MAXLAG}


@dataclass(frozen=True)
class Page:
    """A page: ``revision`` of its text, ``read_at`` by the wiki, ``denied``: why it may not be edited, or empty."""

    title: str
    text: str
    revision: int
    read_at: str
    denied: str = ""


@dataclass(frozen=True)
class Site:
    """What a bot must know of a wiki: its user names, Echo, DiscussionTools, and the language it is in."""

    names: Names
    echo: bool
    discussion_tools: bool
    language: str


def _understood(method: Callable[P, T]) -> Callable[P, T]:
    """A method of ``Wiki`` that raises BadResponse where a reply is JSON, and not what the action API promises."""

    @wraps(method)
    def call(*given: P.args, **named: P.kwargs) -> T:
        try:
            return method(*given, **named)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            asked = method.__name__.replace("_", " ")
            raise BadResponse(f"the wiki's reply is not what its API promises ({asked}: {error!r:.80})") from error

    return call


class Wiki:
    """One wiki and one account. Edits are serial, at least ``pause`` seconds apart; one thread at a time."""

    def __init__(
        self,
        url: str,
        http: HttpClient,
        *,
        user: str,
        password: str,
        flagged: bool = True,
        pause: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = url
        self._http = http
        self._user, self._password, self._flagged = user, password, flagged
        self._pause, self._clock, self._sleep = pause, clock, sleep
        self._edited_at = clock() - pause
        self._logged_in = False
        self._token = ""

    @property
    def account(self) -> str:
        """The account's name; that of a bot password is ``Account@name``."""
        return normal_user(self._user.rpartition("@")[0] or self._user)

    @_understood
    def login(self) -> None:
        """Log in by the bot password, with new cookies. Raises CredentialsError where refused, ServiceError."""
        self._logged_in, self._token = False, ""
        self._http.forget_cookies()
        token = self._query(meta="tokens", type="login")["tokens"]["logintoken"]
        account = {"lgname": self._user, "lgpassword": self._password, "lgtoken": token}
        reply = self._call({"action": "login", **account}, post=True)
        said = reply.get("login", {})
        if said.get("result") != "Success":
            reason = said.get("reason") or said.get("result")
            passing = said.get("result") in _PASSING
            raise (ServiceError if passing else CredentialsError)(f"the wiki does not log {self._user!r} in: {reason}")
        self._logged_in = True

    @_understood
    def check_account(self) -> None:
        """Raise CredentialsError where the account may not edit at all: blocked, or without a right it needs."""
        user = self._query(meta="userinfo", uiprop="blockinfo|rights")["userinfo"]
        if "blockid" in user and not user.get("blockpartial"):
            raise CredentialsError(
                f"{self.account} is blocked by {user.get('blockedby')}: {user.get('blockreason') or 'no reason given'}"
            )
        for right, remedy in (
            ("edit", "grant its bot password 'Edit existing pages'"),
            (
                "bot",
                "ask for the bot flag and grant its bot password 'High-volume access', or set bot.flagged = false",
            ),
        ):
            if right not in user.get("rights", ()) and (self._flagged or right != "bot"):
                raise CredentialsError(f"{self.account} lacks the right {right!r}: {remedy}")

    @_understood
    def site(self) -> Site:
        """Namespaces and extensions of the wiki."""
        found = self._query(meta="siteinfo", siprop="general|namespaces|namespacealiases|extensions")
        spaces = {int(space["id"]): space for space in found["namespaces"].values()}
        user = {
            str(spaces[number].get(key, "")).replace("_", " ").lower()
            for number in (2, 3)
            for key in ("name", "canonical")
        }
        user |= {str(one["alias"]).lower() for one in found.get("namespacealiases", ()) if one["id"] in (2, 3)}
        has = {one.get("name") for one in found.get("extensions", ())}
        names = Names(frozenset(name for name in user if name))
        return Site(names, "Echo" in has, "DiscussionTools" in has, str(found["general"].get("lang", "en")))

    @_understood
    def revisions(self, titles: Sequence[str]) -> dict[str, int]:
        """The newest revision of each page, by the title asked for; missing pages are left out."""
        found: dict[str, int] = {}
        for batch in _batches(titles):
            reply = self._query(titles=batch, prop="info")
            renamed = {one["to"]: one["from"] for one in reply.get("normalized", ())}
            for page in reply.get("pages", ()):
                if "lastrevid" in page:
                    found[renamed.get(page["title"], page["title"])] = int(page["lastrevid"])
        return found

    @_understood
    def read(self, *titles: str) -> list[Page | None]:
        """The pages of up to 50 different titles, at one moment; None for those that do not exist."""
        reply = self._call({
            "action": "query", "titles": "|".join(dict.fromkeys(titles)), "prop": "revisions|info", "rvslots": "main",
            "rvprop": "content|ids", "intestactions": "edit", "intestactionsdetail": "full",
            "curtimestamp": "1",
        })  # fmt: skip
        found = reply["query"]
        renamed = {one["to"]: one["from"] for one in found.get("normalized", ())}
        pages = {renamed.get(page["title"], page["title"]): page for page in found["pages"]}
        return [_page(title, pages[title], str(reply.get("curtimestamp", ""))) for title in titles]

    @_understood
    def newest_revision(self) -> int:
        """The revision made last on the whole wiki; 0 where there is none."""
        pages = self._query(list="allrevisions", arvlimit="1", arvprop="ids").get("allrevisions", ())
        return max((int(one["revid"]) for page in pages for one in page["revisions"]), default=0)

    @_understood
    def text_at(self, title: str, revision: int) -> str:
        """A page's text when a revision was made on whatever page; empty where it did not exist yet."""
        (found,) = self._revisions(title, 1, rvstartid=str(revision)) or ({},)
        return _content(found)

    @_understood
    def edits_since(self, title: str, revision: int) -> tuple[str, list[tuple[str, str]]]:
        """A page's text at a revision (0: none), and who left which texts in up to 50 edits since; empty if hidden."""
        limits = {"rvendid": str(revision)} if revision else {}
        found = [*reversed(self._revisions(title, _BATCH, **limits))]
        base = ""
        if found and (len(found) == _BATCH or found[0]["revid"] == revision):
            base = _content(found.pop(0))  # that revision; or, of more, one that was not looked at for what it added
        return base, [(normal_user(str(one.get("user", ""))), _content(one)) for one in found]

    def _revisions(self, title: str, limit: int, **which: str) -> Sequence[Mapping[str, Any]]:
        """Up to ``limit`` revisions of a page, the newest first, in one or several replies. Raises ServiceError."""
        found: list[Mapping[str, Any]] = []
        more = dict[str, str]()
        while True:
            reply = self._call({
                "action": "query", "titles": title, "prop": "revisions", "rvprop": "ids|user|content",
                "rvslots": "main", "rvlimit": str(limit - len(found)), **which, **more,
            })  # fmt: skip
            (page,) = reply["query"]["pages"]
            sent = page.get("revisions", ())
            found += sent
            if len(found) == limit or "continue" not in reply:
                return found
            if not sent:
                raise ServiceError(f"{self._url}: a revision of {title} is too big for a reply")
            more = {name: str(value) for name, value in reply["continue"].items()}

    @_understood
    def editors(self, title: str) -> set[str]:
        """Who made the last 500 edits of a page."""
        (page,) = self._query(titles=title, prop="revisions", rvprop="user", rvlimit="500")["pages"]
        return {normal_user(str(one["user"])) for one in page.get("revisions", ()) if "user" in one}

    @_understood
    def bots_and_blocked(self, users: Iterable[str]) -> set[str]:
        """Those of the users that are bots, or that may not edit now."""
        found: set[str] = set()
        for batch in _batches(sorted(set(users))):
            reply = self._query(list="users", ususers=batch, usprop="groups|blockinfo")
            for one in reply.get("users", ()):
                sitewide = "blockid" in one and not one.get("blockpartial")
                if "bot" in one.get("groups", ()) or sitewide:
                    found.add(normal_user(str(one.get("name", ""))))
        return found

    @_understood
    def mentions(self) -> list[tuple[str, str]]:
        """All unread notifications of mentions, as id and title (Echo)."""
        found: list[tuple[str, str]] = []
        more = dict[str, str]()
        for _ in range(_REPLIES):
            reply = self._query(
                meta="notifications", notprop="list", notfilter="!read", notformat="model", notlimit=str(_BATCH), **more
            )
            told = reply.get("notifications", {})
            for one in told.get("list", ()):
                if one.get("type") in _MENTIONS:
                    found.append((str(one["id"]), str(one.get("title", {}).get("full", ""))))
            if not told.get("continue"):
                break
            more = {"notcontinue": str(told["continue"])}
        return found

    @_understood
    def mark_read(self, ids: Sequence[str]) -> None:
        """Tell Echo that notifications were seen to."""
        for batch in _batches(ids):
            self._call({"action": "echomarkread", "list": batch}, post=True, token=True)

    @_understood
    def edit(self, page: Page, text: str, summary: str) -> tuple[int, str]:
        """Save a page as it was read with another text; the revision, or 0 and why it was refused.

        Where others have edited since, MediaWiki merges; where it cannot, there is neither a revision nor a reason.

        Raises CredentialsError where the account may not edit at all, ServiceError where the wiki stays read-only or
        lagged for longer than the limits allow.
        """
        # No basetimestamp: with one, MediaWiki drops a conflict where no foreign revision is of a later second than it,
        # and so overwrites an edit of the very second in which our base was made. By revision it finds every conflict.
        reply = self._save({
            "action": "edit", "title": page.title, "text": text, "bot": "1", "nocreate": "1",
            "baserevid": str(page.revision), "starttimestamp": page.read_at,
        }, summary)  # fmt: skip
        code, why = _error(reply)
        if not code:
            return int(reply["edit"].get("newrevid") or page.revision), ""
        if code in _CONFLICTS:
            return 0, ""
        if "blocked" in code or code == "assertbotfailed":
            self.check_account()
        if code in _LOGGED_OUT or code == "assertbotfailed":
            raise ServiceError(f"the wiki does not let {self.account} edit: {why}")
        return 0, why

    @_understood
    def reply(self, page: Page, to: Question, text: str, summary: str) -> int:
        """Have DiscussionTools put a reply below a question, each line indented as the page does it; the revision.

        0 where it finds no or several such comments of that user, or did not save. The wiki refuses to save a second
        reply to the same question.
        """
        asked = {"action": "discussiontoolspageinfo", "page": page.title, "prop": "threaditemshtml"}
        items = [*self._send(asked).get("discussiontoolspageinfo", {}).get("threaditemshtml", ())]
        found = set[str]()
        for item in items:
            items += item["replies"]
            if normal_user(str(item.get("author", ""))) == to.author and _words(to.text) in _words(str(item["html"])):
                found.add(str(item["id"]))  # what is below a sub-heading is listed with its heading, too
        if len(found) != 1:
            return 0
        reply = self._save({
            "action": "discussiontoolsedit", "paction": "addcomment", "page": page.title, "commentid": found.pop(),
            "wikitext": text.rstrip("\n"), "formtoken": to.id, "nocontent": "1",
        }, summary)  # fmt: skip
        return int(reply.get("discussiontoolsedit", {}).get("newrevid", 0))

    def _save(self, params: Mapping[str, str], summary: str) -> Mapping[str, Any]:
        wait = self._edited_at + self._pause - self._clock()
        if wait > 0:
            self._sleep(wait)
        signed = {**params, "summary": summary, "assert": "bot" if self._flagged else "user"}
        reply = self._send(signed, post=True, token=True)
        self._edited_at = self._clock()
        return reply

    def _query(self, **params: str) -> Mapping[str, Any]:
        found = self._call({"action": "query", **params}).get("query", {})
        return found if isinstance(found, dict) else {}

    def _call(self, params: Mapping[str, str], *, post: bool = False, token: bool = False) -> Mapping[str, Any]:
        reply = self._send(params, post=post, token=token)
        if "error" in reply:
            raise ServiceError(f"{self._url}: {_error(reply)[1]}")
        return reply

    def _send(self, params: Mapping[str, str], *, post: bool = False, token: bool = False) -> Mapping[str, Any]:
        """A reply, or the error in it that waiting does not help.

        Where the wiki has forgotten us, it is asked again with a new token, then after a new login.

        One error of that kind may be a mistake of the wiki's, so it never ends the bot by itself.
        """
        for attempt in range(3):
            sent = {**params, **_FORMAT}
            if self._logged_in:
                sent["assertuser"] = self.account
            if token:
                self._token = self._token or str(self._query(meta="tokens", type="csrf")["tokens"]["csrftoken"])
                sent["token"] = self._token
            reply = self._http.fetch(Request("api", self._url, sent, post=post), _read)
            if not self._logged_in or _error(reply)[0] not in _LOGGED_OUT:
                break
            if attempt == 0:
                self._token = ""
            elif attempt == 1:
                self.login()
        return reply


def _batches(names: Sequence[str]) -> Iterator[str]:
    """The names, as many at a time as the API takes."""
    return ("|".join(names[start : start + _BATCH]) for start in range(0, len(names), _BATCH))


def _page(title: str, found: Mapping[str, Any], now: str) -> Page | None:
    if not found.get("revisions"):
        return None
    revision = found["revisions"][0]
    refusals = found.get("actions", {}).get("edit", ())
    denied = ", ".join(str(one.get("code", "unknown")) for one in refusals if "readonly" not in str(one.get("code")))
    return Page(title, _content(revision), int(revision["revid"]), now, denied)


def _content(revision: Mapping[str, Any]) -> str:
    return str(revision.get("slots", {}).get("main", {}).get("content", ""))


def _words(html: str) -> str:
    return " ".join(re.findall(r"\w+", unescape(_TAG.sub("", html)).lower()))


def _error(reply: Mapping[str, Any]) -> tuple[str, str]:
    """Code and text of a reply's error, also of an edit that an extension held up; both empty where there is none."""
    if "error" in reply:
        code = str(reply["error"].get("code", "unknown"))
        return code, f"{code}: {reply['error'].get('info', '')}".removesuffix(": ")
    edit = reply.get("edit")
    if edit is not None and edit.get("result") != "Success":
        code = str(edit.get("code") or ("captcha" if "captcha" in edit else "held up by an extension"))
        return code, f"{code}: {edit.get('info', '')}".removesuffix(": ")
    return "", ""


def _read(reply: Reply) -> Mapping[str, Any]:
    """As ``read_api``, but an error that is about this request is given back, because it need not end the bot."""
    try:
        return read_api(reply)
    except (TellModel, ServiceError):
        body = read_json(reply) if reply.status == 200 else {}
        if isinstance(body, dict) and isinstance(body.get("error"), dict):
            return body
        raise
