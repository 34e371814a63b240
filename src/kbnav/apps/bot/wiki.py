"""A MediaWiki's action API as a bot uses it: log in, find what changed, read a page, edit it with good manners."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kbnav.apps.bot.talk import Names, normal_user
from kbnav.errors import CredentialsError, ServiceError
from kbnav.knowledge.wikidata.http import HttpClient, Reply, Request
from kbnav.knowledge.wikidata.replies import read_api, read_json

MAXLAG = "5"
_BATCH = 50
_CONFLICTS = {"editconflict", "articleexists", "missingrev", "nosuchrevid"}
_LOGGED_OUT = {"badtoken", "notoken", "assertuserfailed", "assertbotfailed", "assertnameduserfailed", "notloggedin"}
_STOPPED = {"blocked", "autoblocked", "globalblocking-blockedtext-user", "systemblocked", "permissiondenied"}
_REFUSED = (
    "protectedpage", "protectednamespace", "cascadeprotected", "abusefilter", "spamblacklist", "spamdetected",
    "titleblacklist", "contenttoobig", "customcssjsprotected", "noedit", "cantcreate", "nocreate", "missingtitle",
    "pagedeleted", "hookaborted", "tpt-", "captcha",
)  # fmt: skip


@dataclass(frozen=True)
class Page:
    """A page as it was read: ``revision`` and ``timestamp`` are of its text, ``read_at`` is the wiki's clock."""

    title: str
    text: str
    revision: int
    timestamp: str
    read_at: str


@dataclass(frozen=True)
class Edit:
    """What came of an edit: ``revision`` where it was saved, ``why`` where it was not."""

    status: Literal["saved", "conflict", "refused"]
    revision: int = 0
    why: str = ""


@dataclass(frozen=True)
class Site:
    """What a bot must know of a wiki: how it names users, which namespaces are for talk, whether it notifies."""

    names: Names
    talk: tuple[int, ...]
    echo: bool


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
        self._edited_at = -pause
        self._token = ""

    @property
    def account(self) -> str:
        """The account's name; that of a bot password is ``Account@name``."""
        return normal_user(self._user.rpartition("@")[0] or self._user)

    def login(self) -> None:
        """Log in with the bot password. Raises CredentialsError where it is refused."""
        token = self._query(meta="tokens", type="login")["tokens"]["logintoken"]
        reply = self._post(action="login", lgname=self._user, lgpassword=self._password, lgtoken=token)
        said = reply.get("login", {})
        if said.get("result") != "Success":
            reason = said.get("reason") or said.get("result")
            raise CredentialsError(f"the wiki does not log {self._user!r} in: {reason}")
        self._token = ""

    def site(self) -> Site:
        """Namespaces and extensions of the wiki."""
        found = self._query(meta="siteinfo", siprop="namespaces|namespacealiases|extensions")
        spaces = {int(space["id"]): space for space in found["namespaces"].values()}
        user = {
            str(spaces[number].get(key, "")).replace("_", " ").lower()
            for number in (2, 3)
            for key in ("name", "canonical")
        }
        user |= {str(one["alias"]).lower() for one in found.get("namespacealiases", ()) if one["id"] in (2, 3)}
        echo = any(one.get("name") == "Echo" for one in found.get("extensions", ()))
        return Site(
            Names(frozenset(name for name in user if name)), tuple(sorted(n for n in spaces if n > 0 and n % 2)), echo
        )

    def revisions(self, titles: Sequence[str]) -> dict[str, int]:
        """The newest revision of each page, by the title asked for; missing pages are left out."""
        found: dict[str, int] = {}
        for start in range(0, len(titles), _BATCH):
            batch = titles[start : start + _BATCH]
            reply = self._query(titles="|".join(batch), prop="info")
            renamed = {one["to"]: one["from"] for one in reply.get("normalized", ())}
            for page in reply.get("pages", ()):
                if "lastrevid" in page:
                    found[renamed.get(page["title"], page["title"])] = int(page["lastrevid"])
        return found

    def read(self, title: str) -> Page | None:
        """A page's text; None where there is no such page."""
        reply = self._call(
            action="query", titles=title, prop="revisions", rvprop="content|ids|timestamp", rvslots="main",
            curtimestamp="1",
        )  # fmt: skip
        (page,) = reply["query"]["pages"]
        if not page.get("revisions"):
            return None
        revision = page["revisions"][0]
        text = str(revision.get("slots", {}).get("main", {}).get("content", ""))
        return Page(title, text, int(revision["revid"]), str(revision["timestamp"]), str(reply.get("curtimestamp", "")))

    def bots_and_blocked(self, users: Iterable[str]) -> set[str]:
        """Those of the users that are bots, or that may not edit now."""
        wanted = sorted(set(users))
        found: set[str] = set()
        for start in range(0, len(wanted), _BATCH):
            reply = self._query(
                list="users", ususers="|".join(wanted[start : start + _BATCH]), usprop="groups|blockinfo"
            )
            for one in reply.get("users", ()):
                sitewide = "blockid" in one and not one.get("blockpartial")
                if "bot" in one.get("groups", ()) or sitewide:
                    found.add(normal_user(str(one.get("name", ""))))
        return found

    def changed_since(self, since: str, spaces: Sequence[int]) -> tuple[list[str], str]:
        """Titles changed by people after a timestamp (oldest first), and the timestamp to go on from."""
        found: dict[str, None] = {}
        newest, more = since, dict[str, str]()
        while True:
            reply = self._call(
                action="query", list="recentchanges", rcnamespace="|".join(map(str, spaces)), rcdir="newer",
                rcprop="title|timestamp", rcshow="!bot", rctype="edit|new", rclimit="500",
                **({"rcstart": since} if since else {}), **more,
            )  # fmt: skip
            for change in reply["query"]["recentchanges"]:
                found[str(change["title"])] = None
                newest = max(newest, str(change["timestamp"]))
            if "continue" not in reply:
                return list(found), newest
            more = {name: str(value) for name, value in reply["continue"].items()}

    def mentions(self) -> list[tuple[str, str]]:
        """Unread notifications of mentions, as id and title (Echo)."""
        reply = self._query(meta="notifications", notprop="list", notfilter="!read", notformat="model", notlimit="50")
        found = reply.get("notifications", {}).get("list", ())
        kinds = {"mention", "edit-user-talk", "mention-summary"}
        return [
            (str(one["id"]), str(one.get("title", {}).get("full", ""))) for one in found if one.get("type") in kinds
        ]

    def mark_read(self, ids: Sequence[str]) -> None:
        """Tell Echo that notifications were seen to."""
        if ids:
            self._post(action="echomarkread", list="|".join(ids), token=self._csrf())

    def edit(self, page: Page, text: str, summary: str) -> Edit:
        """Save a page as it was read with another text.

        Raises CredentialsError where the account is blocked or logged out for good, ServiceError where the wiki stays
        read-only or lagged longer than the limits allow.
        """
        wait = self._edited_at + self._pause - self._clock()
        if wait > 0:
            self._sleep(wait)
        for attempt in range(3):
            code, reply = self._try_edit(page, text, summary)
            if code in _LOGGED_OUT and attempt < 2:
                self.login()
                continue
            break
        self._edited_at = self._clock()
        if code == "":
            return Edit("saved", int(reply["edit"].get("newrevid") or page.revision))
        why = f"{code}: {reply.get('info', '')}".strip()
        if code in _CONFLICTS:
            return Edit("conflict", why=why)
        if code in _STOPPED or code in _LOGGED_OUT:
            raise CredentialsError(f"the wiki does not let {self.account} edit: {why}")
        if code.startswith(_REFUSED):
            return Edit("refused", why=why)
        raise ServiceError(f"the wiki did not save the edit: {why}")

    def _try_edit(self, page: Page, text: str, summary: str) -> tuple[str, Mapping[str, Any]]:
        """Code of the error, empty for none, and the reply or the error."""
        params = {
            "action": "edit", "title": page.title, "text": text, "summary": summary, "bot": "1", "nocreate": "1",
            "baserevid": str(page.revision), "basetimestamp": page.timestamp, "starttimestamp": page.read_at,
            "assert": "bot" if self._flagged else "user", "assertuser": self.account, "token": self._csrf(),
        }  # fmt: skip
        reply = self._http.fetch(Request("api", self._url, {**params, **_FORMAT}, post=True), _read_edit)
        if "error" in reply:
            code = str(reply["error"].get("code", "unknown"))
            if code in _LOGGED_OUT:
                self._token = ""
            return code, reply["error"]
        result = reply.get("edit", {})
        if result.get("result") != "Success":
            return str(result.get("code") or ("captcha" if "captcha" in result else "hookaborted")), result
        return "", reply

    def _csrf(self) -> str:
        if not self._token:
            self._token = str(self._query(meta="tokens", type="csrf")["tokens"]["csrftoken"])
        return self._token

    def _query(self, **params: str) -> Mapping[str, Any]:
        found = self._call(action="query", **params).get("query", {})
        return found if isinstance(found, dict) else {}

    def _call(self, **params: str) -> Mapping[str, Any]:
        return self._http.fetch(Request("api", self._url, {**params, **_FORMAT}), read_api)

    def _post(self, **params: str) -> Mapping[str, Any]:
        return self._http.fetch(Request("api", self._url, {**params, **_FORMAT}, post=True), read_api)


_FORMAT = {"format": "json", "formatversion": "2", "errorformat": "bc", "maxlag": MAXLAG}


def _read_edit(reply: Reply) -> Mapping[str, Any]:
    """As ``read_api``, but refusals of an edit are given back, because they end one reply and not the bot."""
    body = read_json(reply) if reply.status == 200 else {}
    code = str(body["error"].get("code", "")) if isinstance(body, dict) and isinstance(body.get("error"), dict) else ""
    if code in _CONFLICTS | _LOGGED_OUT | _STOPPED or code.startswith(_REFUSED):
        return {"error": body["error"]}
    return read_api(reply)
