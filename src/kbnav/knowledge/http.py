"""All HTTP of knowledge bases: who asks, limits, retries, time, size, redirects, secrets, cancellation, a cache.

Every request is sent by ``requests``; one of SPARQL is made by SPARQLWrapper. Importing this takes a while.
"""

from __future__ import annotations

import logging
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from kbnav.errors import BadResponse, CredentialsError, QueryRefused, QueryTimeout, ServiceError
from kbnav.knowledge.base import current_meter
from kbnav.knowledge.http_store import MAX_BODY, HttpCache, Rules, Slot, Throttle
from kbnav.knowledge.replies import TIMED_OUT, Again, Reply, Request, host_of, is_loopback
from kbnav.models.cancellation import Cancellation, OutOfTime, current_cancellation, sleep, within
from kbnav.models.transport import MIB, credentials, hidden_in
from kbnav.settings.model import Settings

GRACE = 10.0
"""Seconds waited beyond the query service's own time limit, so that its message arrives."""
MOST_REDIRECTS = 5
LONGEST_WAIT = 120.0
"""Longest wait for one Retry-After, in seconds; a longer one stops the run."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NO_POST = (405, 501)
_ODD = re.compile(r"[\\@\x00-\x20\x7f]|^/{3,}")
"""What one parser of URLs takes for a part of the host, and another does not."""
_ERRORS = 30
"""Failed queries a minute, as the Wikidata Query Service allows them."""
_VECTOR_REQUESTS = 30
"""Requests a minute to a vector database, as Wikidata's allows them."""
_WIKIMEDIA = re.compile(
    r"\.(?:wikidata|wikipedia|wikimedia|wiktionary|wikisource|wikibooks|wikiquote|wikinews|wikiversity|wikivoyage|"
    r"mediawiki|wikifunctions)\.org(?::\d+)?$"
)
_PIECE = 1 << 16
_LOG = logging.getLogger("kbnav.http")
T = TypeVar("T")


def user_agent(settings: Settings, urls: Sequence[str] | None = None) -> str:
    """The User-Agent with the operator's contact. Raises CredentialsError where live use of ``urls`` lacks one."""
    endpoints = settings.endpoints
    contact = settings.contact.strip()
    services = urls if urls is not None else (endpoints.sparql, endpoints.api, endpoints.vector)
    live = [url for url in services if url and not is_loopback(url)]
    if live and not contact:
        raise CredentialsError(
            f"{urlsplit(live[0]).hostname} asks for a contact in the User-Agent: "
            "set KBNAV_CONTACT, contact in kbnav.toml, or contact= of kbnav.open, to your e-mail address or page"
        )
    if not (contact.isascii() and contact.isprintable()):
        raise CredentialsError("the contact (KBNAV_CONTACT, or contact in kbnav.toml) must be plain ASCII on one line")
    return f"kbnav/{version('kbnav')} ({contact or 'local mirror'})"


def open_http(settings: Settings, *, url: str = "", authorization: str = "") -> HttpClient:
    """The HTTP client for these settings, or for the one ``url`` of another service.

    Answers are cached and requests counted under ``settings.home``, except for a mirror on this machine: it has no
    limits, and another one may have its port tomorrow. ``authorization`` is sent with queries, and their answers are
    not cached. Raises CredentialsError where the contact is missing.
    """
    endpoints = settings.endpoints
    urls = [url] if url else [one for one in (endpoints.sparql, endpoints.api, endpoints.vector) if one]
    user_agent(settings, urls)  # refuses before anything is written
    mirror = all(is_loopback(one) for one in urls if one != endpoints.vector)
    cached = settings.cache_age > 0 and not mirror and not authorization
    return HttpClient(
        settings,
        cache=HttpCache(settings.shared_path("http-cache.sqlite"), age=settings.cache_age) if cached else None,
        throttle=None if all(map(is_loopback, urls)) else Throttle(settings.shared_path("limits.sqlite")),
        urls=urls,
        authorization=authorization,
        api_token="" if url else settings.access_token.get_secret_value(),
    )


class HttpClient:
    """Sends requests under the policy. One instance serves all threads.

    ``throttle`` None: no client-side limits (a mirror on this machine). ``urls`` as in ``user_agent``.
    ``authorization`` is the header that queries are sent with, and nothing else is; ``api_token`` goes to the place of
    the settings' action API alone. ``sleep`` and ``jitter`` (a number from 0 to 1) are arguments for tests.
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
        sleep: Callable[[float], None] = sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.user_agent = user_agent(settings, urls)
        self._limits = settings.limits
        self._authorization = authorization
        self._api_token, self._api = api_token, settings.endpoints.api
        self._cache, self._throttle = cache, throttle
        self._sleep, self._jitter = sleep, jitter
        self._get_only: set[str] = set()
        self._session = open_session(self.user_agent)

    def fetch(self, request: Request, read: Callable[[Reply], T]) -> T:
        """Send a request until ``read`` accepts the answer; good answers are cached.

        Raises whatever ``read`` raises, ServiceError where the service stays down, QueryTimeout where a query is not
        answered in time, Stopped where the run is ended meanwhile.
        """
        if self._cache and not request.post and (hit := self._cache.get(request.key)):
            # Only what was accepted is cached: what is not any more was changed by somebody else.
            with suppress(Again, ServiceError):
                return read(Reply(200, hit[1], {"content-type": hit[0]}, request.url))
        meter = current_meter()
        with _COUNTING.get()():
            attempt = 0
            while True:
                if meter.impatient:
                    raise (
                        QueryTimeout(meter.impatient) if request.service == "sparql" else ServiceError(meter.impatient)
                    )
                began = time.monotonic()
                try:
                    return self._once(request, read)
                except (Again, QueryTimeout) as error:
                    meter.wait(time.monotonic() - began)
                    if isinstance(error, QueryTimeout):
                        raise
                    seconds = self._wait(error, attempt)
                    attempt += 1
                    _LOG.warning("%s; trying again in %.0f s (%d of %d)", error, seconds, attempt, self._limits.retries)
                meter.wait(seconds)
                self._sleep(seconds)

    def forget_cookies(self) -> None:
        """Ask as somebody who has never been here."""
        self._session.cookies.clear()

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._session.close()

    def _wait(self, again: Again, attempt: int) -> float:
        if attempt >= self._limits.retries:
            raise again.error from again
        if again.after is not None and again.after > LONGEST_WAIT:
            raise ServiceError(
                f"{again.error} (it asks to wait {again.after:.0f} s, more than {LONGEST_WAIT:.0f} s)"
            ) from again
        backoff = min(2.0**attempt, 30.0) * (0.5 + self._jitter() / 2)
        return max(again.after or 0.0, backoff)

    def _once(self, request: Request, read: Callable[[Reply], T]) -> T:
        with self._slot(request) as slot:
            slot.failed = True
            current_meter().count(request.service)
            reply = self._reply(request)
            if reply.status in _NO_POST and request.service == "sparql" and request.method == "POST":
                self._get_only.add(request.url)
                reply = self._reply(request)
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
        if request.service == "api":  # all of Wikimedia's wikis count requests together
            place = f"api of {'wikimedia' if _WIKIMEDIA.search(place) else place}"
            rules = Rules(requests=limits.api_requests_per_minute or None)
        elif request.service == "vector":
            rules = Rules(requests=_VECTOR_REQUESTS)
        else:
            rules = Rules(seconds=limits.query_seconds_per_minute, errors=_ERRORS)
        return self._throttle.slot(f"{place} {self.user_agent}", rules, longest=self._timeout(request))

    def _timeout(self, request: Request) -> float:
        return self._limits.query_timeout + GRACE if request.service == "sparql" else self._limits.request_timeout

    def _reply(self, request: Request) -> Reply:
        # Silence is ended by the limit itself; a service that drips may take it twice.
        seconds = 2 * self._timeout(request)
        try:
            reply = (current_cancellation() or Cancellation()).run(lambda: self._send(request), seconds)
        except OutOfTime as error:
            said = f"{host_of(request.url)}: the reply was not whole after {seconds:g} s"
            raise QueryTimeout(said) if request.service == "sparql" else Again(ServiceError(said)) from error
        secrets = (self._api_token, *credentials(self._authorization), request.params.get("lgpassword", ""))
        return replace(reply, body=hidden_in(reply.body, [one for one in secrets if one]))

    def _send(self, request: Request) -> Reply:
        is_query, timeout = request.service == "sparql", self._timeout(request)
        method = "GET" if request.url in self._get_only else request.method
        made = _sparql_request(request, method, self._authorization) if is_query else self._api_request(request)
        host = host_of(request.url)
        try:
            with closed_with_the_run() as connections:
                with send(self._session, made, timeout) as response:
                    body = _bounded(response, is_query)
                connections.forget()
        except requests.exceptions.SSLError as error:
            raise untrusted(request.url, _reason(error)) from error
        except requests.RequestException as error:
            silent = any(isinstance(one, TimeoutError | urllib3.exceptions.ReadTimeoutError) for one in _causes(error))
            if is_query and silent and not isinstance(error, requests.ConnectTimeout):
                raise QueryTimeout(TIMED_OUT) from error
            if is_loopback(request.url) and any(isinstance(one, ConnectionRefusedError) for one in _causes(error)):
                raise ServiceError(f"nothing answers at {host}: is the server running?") from error
            raise Again(ServiceError(f"{host} cannot be reached: {_reason(error)}")) from error
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Reply(response.status_code, body, headers, request.url)

    def _api_request(self, request: Request) -> requests.Request:
        headers = {"Accept": request.accept}
        if self._api_token and request.service == "api" and origin(request.url) == origin(self._api):
            headers["Authorization"] = f"Bearer {self._api_token}"
        return _request(request.method, request.url, headers, dict(request.params))


def _sparql_request(request: Request, method: str, authorization: str) -> requests.Request:
    from SPARQLWrapper import SPARQLWrapper  # loads rdflib

    wrapper = SPARQLWrapper(request.url)
    wrapper.setMethod(method)
    wrapper.setQuery(request.params["query"])
    wrapper.addCustomHttpHeader("Accept", request.accept)
    if authorization:
        wrapper.addCustomHttpHeader("Authorization", authorization)
    fields = {**request.params, "query": wrapper.queryString}
    return _request(wrapper.method, wrapper.endpoint, wrapper.customHttpHeaders, fields)


def _request(method: str, url: str, headers: Mapping[str, str], fields: Mapping[str, Any]) -> requests.Request:
    return requests.Request(method, url, headers, **{"params" if method == "GET" else "data": fields})


def send(session: requests.Session, request: requests.Request, timeout: float) -> requests.Response:
    """The reply to a request, its body unread; redirects are followed within scheme, host and port.

    Any other place is one that nobody has named: following would let a service have requests made in this machine's
    network, or have credentials sent there. Raises BadResponse for such a redirect, and what requests raises.
    """
    request.auth = request.auth or (lambda made: made)  # else a password of .netrc would go with it
    for _ in range(MOST_REDIRECTS + 1):
        made = session.prepare_request(request)
        url = str(made.url)
        options = session.merge_environment_settings(url, {}, True, None, None)  # streamed
        response = session.send(made, timeout=timeout, allow_redirects=False, **options)
        location = response.headers.get("Location", "")
        if response.status_code not in _REDIRECTS or not location:
            return response
        response.close()
        target = redirect_target(url, location, str(request.method))
        request = requests.Request("GET", target, request.headers, auth=request.auth)
    raise BadResponse(f"{host_of(url)} sends the request on more than {MOST_REDIRECTS} times")


def redirect_target(url: str, location: str, method: str = "GET") -> str:
    """The address that a reply of ``url`` sends on to, as it is sent to. Raises BadResponse where it may not be."""
    host = host_of(url)
    odd = _ODD.search(location)
    try:
        target = str(requests.Request("GET", urljoin(url, location)).prepare().url)
        same = not odd and origin(target) == origin(url)
    except (requests.RequestException, LocationParseError, ValueError) as error:
        raise BadResponse(f"{host} sends the request on to an address that is none") from error
    read = parse_url("" if odd else target)
    shown = (
        "an address with characters that may hide another" if odd else f"{read.scheme}://{read.netloc}{read.path or ''}"
    )
    if not same:
        raise BadResponse(
            f"{host} sends the request on to {shown}: only the same host is followed; "
            "if that is where it belongs, set the address to it"
        )
    if method != "GET":
        raise BadResponse(f"{host} sends a posted request on to {shown}, which is not followed: set the address to it")
    return target


def origin(url: str) -> tuple[str | None, str | None, int | None]:
    """Scheme, host and port of a URL, read as the library reads it that sends. Raises LocationParseError."""
    read = parse_url(url)
    return read.scheme, read.host, read.port or {"http": 80, "https": 443}.get(read.scheme or "")


def untrusted(url: str, reason: object) -> ServiceError:
    """The error for a certificate that fails; trying again would not help."""
    return ServiceError(
        f"{host_of(url)} cannot be trusted: {reason}. Where its certificate is your own, name the file of the "
        "authority that signed it in REQUESTS_CA_BUNDLE"
    )


def _bounded(response: requests.Response, is_query: bool) -> bytes:
    """The unpacked body. Raises QueryRefused, of no query BadResponse, beyond ``MAX_BODY``."""
    body = bytearray()
    for piece in response.iter_content(_PIECE):
        body += piece
        if len(body) > MAX_BODY:
            if is_query:
                raise QueryRefused("the answer is larger than 64 MiB: add a LIMIT, or count instead of listing")
            raise BadResponse(f"{host_of(response.url)} sends more than {MAX_BODY // MIB} MiB")
    return bytes(body)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__context__


def _reason(error: BaseException) -> str:
    *_, cause = _causes(error)
    return (str(cause) or type(cause).__name__).splitlines()[0][:200]


# Cancellation: a request is hung up on when its run is ended, so that the service can end its work too.


class _Connections:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._closed = False

    def add(self, connected: socket.socket) -> None:
        """A connection was made. Raises ConnectionAbortedError where it is not wanted any more."""
        with self._lock:
            self._sockets.append(connected)
            closed = self._closed
        if closed:
            self.close()
            raise ConnectionAbortedError("the run was ended")

    def forget(self) -> None:
        with self._lock:
            self._sockets.clear()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            sockets = list(self._sockets)
        for one in sockets:
            with suppress(OSError):  # it has just ended by itself
                socket.socket.shutdown(one, socket.SHUT_RDWR)  # below TLS, whose own would wait for the other side


_CONNECTIONS: ContextVar[_Connections | None] = ContextVar("connections", default=None)


@contextmanager
def closed_with_the_run() -> Iterator[_Connections]:
    """The connections that are made within are closed when the run ends that this code is a part of.

    What went wrong then went wrong because of it: raises Stopped, or CancelledError.
    """
    connections, cancellation = _Connections(), current_cancellation()
    if cancellation is None:
        yield connections
        return
    try:
        with within(_CONNECTIONS, connections), cancellation.on_cancel(connections.close):
            yield connections
    except Exception:
        cancellation.check()
        raise


def open_session(user_agent: str, encodings: str = "gzip, deflate") -> requests.Session:
    """A session of requests that says who asks, and whose connections ``closed_with_the_run`` closes."""
    session = _Session()
    session.headers.update({"User-Agent": user_agent, "Accept-Encoding": encodings})
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter())
    return session


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        """None: ``send`` follows redirects, and reads their addresses by itself."""


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *given: Any, **named: Any) -> None:
        super().init_poolmanager(*given, **named)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *given: Any, **named: Any) -> Any:
        manager = super().proxy_manager_for(*given, **named)
        manager.pool_classes_by_scheme = _POOLS
        return manager


@cache
def _registering(base: Any) -> Any:
    """The same connections, which the request at hand has in its ``_Connections``."""

    class Connection(base):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            self._register()

        def getresponse(self, *given: Any, **named: Any) -> Any:
            self._register()  # one that is used again was made for another request
            return super().getresponse(*given, **named)

        def _register(self) -> None:
            connections = _CONNECTIONS.get()
            if connections is not None and self.sock is not None:
                connections.add(self.sock)

    return Connection


def _pool(base: Any) -> Any:
    """The same pool of connections that are registered; what ``base`` makes them with may be replaced meanwhile."""
    return type(base.__name__, (base,), {"ConnectionCls": property(lambda _: _registering(base.ConnectionCls))})


_POOLS = {"http": _pool(urllib3.HTTPConnectionPool), "https": _pool(urllib3.HTTPSConnectionPool)}


# Whether services answer, reported to a server that leaves one alone for a while which does not.


Counting = Callable[[], AbstractContextManager[None]]
"""What goes around a request with all its tries, and counts how that ends; threads share it."""
_COUNTING: ContextVar[Counting] = ContextVar("counting", default=nullcontext)


def reporting_to(counting: Counting) -> AbstractContextManager[None]:
    """Have ``counting`` around every request that is made within, in threads with this context too."""
    return within(_COUNTING, counting)
