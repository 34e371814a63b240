"""A mirror that is asked in the process that serves it: the same replies, without a connection for each request."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from kbnav.answers import encodable
from kbnav.knowledge.service.exchange import Nearby, Reply, Request
from kbnav.knowledge.service.redirects import STATUSES
from kbnav.knowledge.serving.http import MOST_FORM, Asked, Site, answered


def nearby(site: Site, url: str) -> Nearby:
    """What answers the requests that go to ``url``, the address of the site; None for those that go elsewhere.

    A run that is stopped stops its query too, as ``QueryPool`` looks at its brake; all else is a look-up in files of
    this machine. A request that is redirected, or is too large, is left to HTTP, which reads nothing of it twice.
    """

    def ask(request: Request) -> Reply | None:
        if not request.url.startswith(f"{url}/") or sum(map(len, request.params.values())) > MOST_FORM // 4:
            return None
        parameters = {name: encodable(value) for name, value in request.params.items()}
        reply = answered(site, Asked(unquote(urlsplit(request.url).path), parameters, request.accept))
        if reply.status in STATUSES:
            return None
        headers = {name.lower(): value for name, value in reply.headers.items()}
        return Reply(reply.status, reply.body, {**headers, "content-type": reply.media_type}, request.url)

    return ask
