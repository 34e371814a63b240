"""A mirror that is asked in the process that serves it: the same replies, without a connection for each request."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from kbnav.answers.tables import encodable
from kbnav.knowledge.http import STATUSES, Nearby, Reply, Request
from kbnav.knowledge.serving.http import MOST_FORM, Asked, Site, answered

KEPT_BYTES = 16 << 20
"""Of replies, together. What is looked up of names and common entities is looked up for most questions."""
LARGEST = 1 << 18
"""Bytes of a reply that is kept."""
_CHANGING = re.compile(r"\b(?:NOW|RAND|UUID|STRUUID|BNODE)\s*\(", re.IGNORECASE)
"""What a query may hold that gives something else each time."""


def nearby(site: Site, url: str, *, most: int = KEPT_BYTES) -> Nearby:
    """What answers the requests that go to ``url``, the address of the site; None for those that go elsewhere.

    The data of the site do not change: good replies are kept, ``most`` bytes of them. A run that is stopped stops its
    query too, as ``QueryPool`` looks at its brake; all else is a look-up in files of this machine. A request that is
    redirected, or is too large, is left to HTTP.
    """
    kept = _Kept(most)

    def ask(request: Request) -> Reply | None:
        if not request.url.startswith(f"{url}/") or sum(map(len, request.params.values())) > MOST_FORM // 4:
            return None
        if _CHANGING.search(request.params.get("query", "")):
            return reply(request)
        return kept.get(_key(request), lambda: reply(request))

    def reply(request: Request) -> Reply | None:
        parameters = {name: encodable(value) for name, value in request.params.items()}
        found = answered(site, Asked(unquote(urlsplit(request.url).path), parameters, request.accept))
        if found.status in STATUSES:
            return None
        headers = {name.lower(): value for name, value in found.headers.items()}
        return Reply(found.status, found.body, {**headers, "content-type": found.media_type}, request.url)

    return ask


def _key(request: Request) -> str:
    """By the parameters as they are: how they would be sent does not matter here."""
    parts = [request.url, sorted(request.params.items()), request.accept]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class _Kept:
    """The good replies that were asked for last; threads share it."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._lock = threading.Lock()
        self._replies: OrderedDict[str, Reply] = OrderedDict()

    def get(self, key: str, make: Callable[[], Reply | None]) -> Reply | None:
        """The reply of a key; made where it is not here, by several threads where they come at once."""
        with self._lock:
            if found := self._replies.get(key):
                self._replies.move_to_end(key)
                return found
        made = make()
        if made is not None and made.status == 200 and len(made.body) <= min(LARGEST, self._most):
            with self._lock:
                self._put(key, made)
        return made

    def _put(self, key: str, reply: Reply) -> None:
        if key in self._replies:
            return
        self._replies[key] = reply
        self._size += len(reply.body)
        while self._size > self._most:
            self._size -= len(self._replies.popitem(last=False)[1].body)
