"""One policy for every request to a Wikibase: User-Agent, limits, retries, timeouts, cache."""

from __future__ import annotations

import copy
import ipaddress
import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from kbnav.errors import BadResponse, CredentialsError, QueryTimeout, ServiceError
from kbnav.knowledge.service.cache import HttpCache
from kbnav.knowledge.service.exchange import GRACE, MAX_BODY, Again, Nearby, Reply, Request
from kbnav.knowledge.service.hanging_up import Line, check_the_run, hung_up_with_the_run
from kbnav.knowledge.service.limits import Rules, Slot, Throttle
from kbnav.knowledge.service.metering import Meter
from kbnav.knowledge.service.redirects import MOST, STATUSES, host_of, next_place, too_many, untrusted
from kbnav.knowledge.service.watching import told
from kbnav.models.transport import MIB, TooMuch, credentials, hidden_in, in_time
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    import requests

_LOG = logging.getLogger("kbnav.http")
_WIKIMEDIA = tuple(
    f".{name}.org"
    for name in (
        "wikidata", "wikipedia", "wikimedia", "wiktionary", "wikisource", "wikibooks", "wikiquote", "wikinews",
        "wikiversity", "wikivoyage", "mediawiki", "wikifunctions",
    )
)  # fmt: skip
_PIECE = 1 << 16
_SECRET = ("lgpassword",)
"""Parameters of the action API that no error text may bring back."""
T = TypeVar("T")


def is_loopback(url: str) -> bool:
    """Whether a URL is served by this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def user_agent(settings: Settings, urls: Sequence[str] | None = None) -> str:
    """The User-Agent with the operator's contact. Raises CredentialsError where live use lacks one.

    ``urls`` are the services that are talked to; those of the settings' endpoints unless given.
    """
    endpoints = settings.endpoints
    contact = settings.contact.strip()
    spoken = urls if urls is not None else (endpoints.sparql, endpoints.api, endpoints.vector)
    live = [url for url in spoken if url and not is_loopback(url)]
    if live and not contact:
        raise CredentialsError(
            f"{urlsplit(live[0]).hostname} asks for a contact in the User-Agent: "
            "set KBNAV_CONTACT, or contact in kbnav.toml, to your e-mail address or page"
        )
    if not (contact.isascii() and contact.isprintable()):
        raise CredentialsError("the contact (KBNAV_CONTACT, or contact in kbnav.toml) must be plain ASCII on one line")
    return f"kbnav/{version('kbnav')} ({contact or 'local mirror'})"


class HttpClient:
    """Sends requests under the policy. One instance serves all threads.

    ``throttle`` None: no client-side limits (a mirror on this machine). ``urls`` as in ``user_agent``.
    ``authorization`` is the header that queries are sent with, and nothing else is. ``nearby`` is asked before anything
    is sent. ``clock``, ``sleep`` and ``jitter`` (a number from 0 to 1) are arguments so that nothing has to wait in
    order to be observed.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        cache: HttpCache | None,
        throttle: Throttle | None,
        urls: Sequence[str] | None = None,
        authorization: str = "",
        api_token: str = "",
        nearby: Nearby | None = None,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        from kbnav.knowledge.service.kept import session  # requests takes a while

        self.user_agent = user_agent(settings, urls)
        self._limits = settings.limits
        self._authorization = authorization
        self._api_token, self._api = api_token, settings.endpoints.api
        self._nearby = nearby
        self._meter: Meter | None = None
        self._cache = cache
        self._throttle = throttle
        self._sleep = sleep
        self._jitter = jitter
        self._session = session(self.user_agent)

    def fetch(self, request: Request, read: Callable[[Reply], T]) -> T:
        """Send a request until ``read`` accepts the answer; good answers are kept in the cache.

        Raises whatever ``read`` raises, ServiceError where the service stays down, QueryTimeout where a query is not
        answered in time.
        """
        if self._cache and not request.post and (hit := self._cache.get(request.key)):
            # Only what was accepted is kept: what is not any more was changed by somebody else.
            with suppress(Again, ServiceError):
                return read(Reply(200, hit[1], {"content-type": hit[0]}, request.url))
        with told():
            return self._tried(request, read)

    def _tried(self, request: Request, read: Callable[[Reply], T]) -> T:
        attempt = 0
        while True:
            try:
                return self._once(request, read)
            except Again as again:
                seconds = self._wait(again, attempt)
                attempt += 1
                _LOG.warning("%s; trying again in %.0f s (%d of %d)", again, seconds, attempt, self._limits.retries)
                self._sleep(seconds)
                check_the_run()

    def metered(self, meter: Meter) -> HttpClient:
        """The same client, connections and all, with what it sends counted."""
        other = copy.copy(self)
        other._meter = meter
        return other

    def close(self) -> None:
        """Close the kept connections."""
        self._session.close()

    def _wait(self, again: Again, attempt: int) -> float:
        """Seconds until the next attempt; raises the error where there is to be none."""
        if attempt >= self._limits.retries:
            raise again.error from again
        if again.after is not None and again.after > self._limits.max_wait:
            raise ServiceError(
                f"{again.error} (it asks to wait {again.after:.0f} s, more than limits.max_wait)"
            ) from again
        backoff = min(2.0**attempt, 30.0) * (0.5 + self._jitter() / 2)
        return max(again.after or 0.0, backoff)

    def _once(self, request: Request, read: Callable[[Reply], T]) -> T:
        with self._slot(request) as slot:
            slot.failed = True
            if self._meter:
                self._meter.count(request.service)
            reply = self._send(request)
            value = read(reply)
            slot.failed = False
        if self._cache and not request.post and not reply.partial:
            self._cache.put(request.key, reply.content_type, reply.body)
        return value

    def _slot(self, request: Request) -> AbstractContextManager[Slot]:
        limits = self._limits
        place = host_of(request.url)
        if self._throttle is None or (request.service == "api" and is_loopback(request.url)):
            return nullcontext(Slot())
        if request.service == "api":
            place = f"api of {_wikis(place)}"
            rules = Rules(requests=limits.api_requests_per_minute or None)
        elif request.service == "vector":
            rules = Rules(requests=limits.vector_requests_per_minute)
        else:
            rules = Rules(seconds=limits.query_seconds_per_minute, errors=limits.errors_per_minute)
        longest = limits.query_timeout + GRACE if request.service == "sparql" else limits.request_timeout
        return self._throttle.slot(f"{place} {self.user_agent}", rules, longest=longest)

    def _send(self, request: Request) -> Reply:
        """The reply, whole and in time, without what the request was allowed by."""
        if self._nearby is not None and (near := self._nearby(request)) is not None:
            check_the_run()
            return near
        is_query = request.service == "sparql"
        # silence is ended by the limit itself; a service that drips may take it twice
        seconds = 2 * (self._limits.query_timeout + GRACE if is_query else self._limits.request_timeout)
        try:
            reply = in_time(lambda: self._sent(request), seconds)
        except TooMuch as error:
            place = host_of(request.url)
            raise QueryTimeout(f"{place}: {error}") if is_query else Again(ServiceError(f"{place}: {error}")) from error
        secrets = (self._api_token, *credentials(self._authorization), *map(request.params.get, _SECRET))
        return replace(reply, body=hidden_in(reply.body, [one for one in secrets if one]))

    def _sent(self, request: Request) -> Reply:
        if request.service == "sparql":
            from kbnav.knowledge.service.sending import send  # SPARQLWrapper takes a while

            longest = self._limits.query_timeout + GRACE
            return send(request, self.user_agent, timeout=longest, authorization=self._authorization)
        return self._send_by_requests(request)

    def _send_by_requests(self, request: Request) -> Reply:
        with hung_up_with_the_run() as line:
            return self._followed(request, line)

    def _followed(self, request: Request, line: Line) -> Reply:
        import requests

        sent = {"Accept": request.accept}
        if self._api_token and request.service == "api" and _same_site(request.url, self._api):
            sent["Authorization"] = f"Bearer {self._api_token}"
        place = {"params": request.params} if request.method == "GET" else {"data": request.params}
        url = request.url
        for _ in range(MOST + 1):
            try:
                response = self._session.request(
                    request.method,
                    url,
                    headers=sent,
                    timeout=self._limits.request_timeout,
                    allow_redirects=False,
                    stream=True,
                    **place,  # type: ignore[arg-type]
                )
                with response:
                    body = _bounded(response)
                line.drop()
            except requests.exceptions.SSLError as error:
                raise untrusted(url, _reason(error)) from error
            except requests.RequestException as error:
                raise Again(ServiceError(f"{host_of(url)} cannot be reached: {_reason(error)}")) from error
            location = response.headers.get("Location", "")
            if response.status_code not in STATUSES or not location:
                told = {name.lower(): value for name, value in response.headers.items()}
                return Reply(response.status_code, body, told, request.url)
            url, place = next_place(response.url, location, request.method), {}
        raise too_many(request.url)


def _bounded(response: requests.Response) -> bytes:
    """The unpacked body. Raises BadResponse beyond ``MAX_BODY``."""
    parts, size = [], 0
    for part in response.iter_content(_PIECE):
        size += len(part)
        if size > MAX_BODY:
            raise BadResponse(f"{host_of(response.url)} sends more than {MAX_BODY // MIB} MiB")
        parts.append(part)
    return b"".join(parts)


def _wikis(host: str) -> str:
    """Those that count requests together: all of Wikimedia's wikis, or the host by itself."""
    return "wikimedia" if host.endswith(_WIKIMEDIA) else host


def _same_site(one: str, other: str) -> bool:
    return urlsplit(one)[:2] == urlsplit(other)[:2]


def _reason(error: BaseException) -> str:
    """The innermost cause in one short line."""
    while error.__context__ is not None:
        error = error.__context__
    return (str(error) or type(error).__name__).splitlines()[0][:200]
