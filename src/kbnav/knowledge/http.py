"""One policy for every request to a Wikibase: User-Agent, limits, retries, timeouts, cache."""

from __future__ import annotations

import copy
import gzip
import hashlib
import http.client
import io
import ipaddress
import json
import logging
import random
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from SPARQLWrapper import POST, SPARQLWrapper

from kbnav.errors import BadResponse, CredentialsError, KbnavError, QueryRefused, QueryTimeout, ServiceError
from kbnav.knowledge.base import Meter
from kbnav.knowledge.http_store import HttpCache, Rules, Slot, Throttle
from kbnav.models.cancellation import Brake, current_brake
from kbnav.models.transport import MIB, TooMuch, credentials, hidden_in, in_time
from kbnav.settings.model import Settings

Service = Literal["api", "sparql", "vector"]

LONGEST_GET = 2000
"""Characters of parameters up to which GET is used, so that caches on the way work; longer ones are posted."""
MAX_BODY = 64 * 1024 * 1024
"""Bytes of an answer, unpacked."""
GRACE = 10.0
"""Seconds waited beyond the query service's own time limit, so that its message arrives."""
SIMPLER = "start from the most specific pattern, drop paths of any length such as wdt:P279*, add a LIMIT"
TIMED_OUT = f"the query service stopped the query at its time limit; make it simpler: {SIMPLER}"


@dataclass(frozen=True)
class Request:
    """Where, what, and which of the services it goes to; ``post`` for what changes something, which no cache keeps."""

    service: Service
    url: str
    params: Mapping[str, str]
    accept: str = "application/json"
    post: bool = False

    @property
    def method(self) -> Literal["GET", "POST"]:
        """POST where it is asked for and for long parameters; the vector service has GET only."""
        long = self.service != "vector" and len(urlencode(self.params)) > LONGEST_GET
        return "POST" if long or self.post else "GET"

    @property
    def key(self) -> str:
        """What the cache knows the request by."""
        parts = [self.method, self.url, sorted(self.params.items()), self.accept]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Reply:
    """An answer as it came: header names are in lower case, the body is decoded from its transfer form."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    url: str = ""

    @property
    def content_type(self) -> str:
        """The media type without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def partial(self) -> bool:
        """Whether the service says, outside the body, that this is a part of the result only: as Virtuoso does."""
        return self.status == 206 or "x-sparql-maxrows" in self.headers or "x-sql-state" in self.headers

    @property
    def text(self) -> str:
        """The body for messages and patterns, undecodable bytes replaced."""
        return self.body.decode("utf-8", "replace")


Nearby = Callable[[Request], Reply | None]
"""What answers requests in this process, within limits of its own; None for what goes elsewhere."""


class Again(Exception):
    """Raised by a reader: the same request may work later, after ``after`` seconds where the service says so."""

    def __init__(self, error: KbnavError, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.after = after


class Lagged(ServiceError):
    """The service's copies of its data are behind, and stayed so; a read may be asked for without ``maxlag``."""


_LINE: ContextVar[Line | None] = ContextVar("line", default=None)


def current_line() -> Line | None:
    """The line of the request that this code makes, if it has one."""
    return _LINE.get()


class Line:
    """The connections of one request, redirects and all, which another thread may close."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._over = False

    def add(self, connected: socket.socket) -> None:
        """A connection was made. Raises ConnectionAbortedError where it is not wanted any more."""
        with self._lock:
            self._sockets.append(connected)
            over = self._over
        if over:
            self.hang_up()
            raise ConnectionAbortedError("the run was ended")

    def drop(self) -> None:
        """Forget them: a reply is read, and its connection may be another request's by now."""
        with self._lock:
            self._sockets.clear()

    def hang_up(self) -> None:
        """Close them, from any thread: whoever reads from one finds its end."""
        with self._lock:
            self._over = True
            open_ones = list(self._sockets)
        for one in open_ones:
            with suppress(OSError):  # it has just ended by itself
                socket.socket.shutdown(one, socket.SHUT_RDWR)  # below TLS, whose own would wait for the other side

    def handlers(self) -> list[urllib.request.BaseHandler]:
        """What urllib makes connections with, so that they are known here."""
        line = self

        class Plain(http.client.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                line.add(self.sock)

        class Secure(http.client.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                line.add(self.sock)

        class ByPlain(urllib.request.HTTPHandler):
            def http_open(self, req: urllib.request.Request) -> Any:
                return self.do_open(Plain, req)

        class BySecure(urllib.request.HTTPSHandler):
            def https_open(self, req: urllib.request.Request) -> Any:
                return self.do_open(Secure, req)

        return [ByPlain(), BySecure()]


@contextmanager
def hung_up_with_the_run() -> Iterator[Line]:
    """A line that is hung up when the run is ended that this code is a part of.

    Whatever went wrong then went wrong because of it: raises what the run's brake does.
    """
    line, brake = Line(), current_brake()
    if brake is None:
        yield line
        return
    token = _LINE.set(line)
    try:
        with brake.telling(line.hang_up):
            yield line
    except Exception:
        brake.check()
        raise
    finally:
        _LINE.reset(token)


def check_the_run() -> None:
    """Raise Stopped, or CancelledError, where the run is over that this code is a part of."""
    brake: Brake | None = current_brake()
    if brake is not None:
        brake.check()


MOST = 5
"""Redirects of one request that are followed."""
STATUSES = frozenset({301, 302, 303, 307, 308})


def host_of(url: str) -> str:
    """Host and port as they may be shown: without a user's name and password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def next_place(url: str, location: str, method: str) -> str:
    """The address to go on to. Raises BadResponse where a request may not be sent on there."""
    target = urljoin(url, location)
    old, new = urlsplit(url), urlsplit(target)
    same = (old.scheme, old.hostname, _port(old)) == (new.scheme, new.hostname, _port(new))
    shown = f"{new.scheme}://{host_of(target)}{new.path}"
    if not same:
        raise BadResponse(
            f"{host_of(url)} sends the request on to {shown}: only the same host is followed; "
            "if that is where it belongs, set the address to it"
        )
    if method != "GET":
        raise BadResponse(
            f"{host_of(url)} sends a posted request on to {shown}, which is not followed: set the address to that"
        )
    return target


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:  # no number
        return -1


def too_many(url: str) -> BadResponse:
    """The error for a service that sends a request round."""
    return BadResponse(f"{host_of(url)} sends the request on more than {MOST} times")


def untrusted(url: str, reason: object) -> ServiceError:
    """The error for a certificate that fails; trying again would not help."""
    return ServiceError(
        f"{host_of(url)} cannot be trusted: {reason}. Where its certificate is your own, name the file of the "
        "authority that signed it in SSL_CERT_FILE and REQUESTS_CA_BUNDLE"
    )


class Watch(Protocol):
    """Counts how requests to a knowledge base's services end; threads share it."""

    def failed(self) -> None:
        """One failed, after all tries."""
        ...

    def answered(self) -> None:
        """One was answered."""
        ...


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched_by(watch: Watch) -> Iterator[None]:
    """Have ``watch`` told of every request that is made within, in threads with this context too."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


@contextmanager
def told() -> Iterator[None]:
    """Tell whoever watches how the request within ends; a query that is at fault itself is neither."""
    watch = _WATCH.get()
    if watch is None:
        yield
        return
    try:
        yield
    except ServiceError:
        watch.failed()
        raise
    watch.answered()


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


class _Wrapper(SPARQLWrapper):
    def request(self) -> urllib.request.Request:
        """The prepared request. SPARQLWrapper's own ``query`` drops the status, headers and body of an error."""
        request: urllib.request.Request = self._createRequest()
        return request


class _SameHost(urllib.request.HTTPRedirectHandler):
    max_redirections = MOST

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """The request to the next place; the parameters that are a query's own are in its address already."""
        try:
            target = next_place(req.full_url, newurl, req.get_method())
        except BadResponse:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, target)


def send(request: Request, user_agent: str, *, timeout: float, authorization: str = "") -> Reply:
    """Send a query once; any status is a Reply. ``authorization`` goes to the address itself, and to no other.

    Raises QueryTimeout after ``timeout`` seconds of silence, QueryRefused for an answer beyond 64 MiB, Again where the
    endpoint cannot be reached, Stopped where the run is ended meanwhile, with which the connection is.
    """
    with hung_up_with_the_run() as line:
        return _send(request, user_agent, timeout, authorization, line)


def _send(request: Request, user_agent: str, timeout: float, authorization: str, line: Line) -> Reply:
    wrapper = _Wrapper(request.url, agent=user_agent)
    wrapper.setOnlyConneg(True)
    wrapper.setQuery(request.params["query"])
    for name in request.params.keys() - {"query"}:
        wrapper.addParameter(name, request.params[name])
    # Named subqueries and other extensions may be misread as updates; the read-only guard has looked before.
    wrapper.queryType = "SELECT"
    if request.method == "POST":
        wrapper.setMethod(POST)
    wrapper.addCustomHttpHeader("Accept", request.accept)
    wrapper.addCustomHttpHeader("Accept-Encoding", "gzip")
    place = host_of(request.url)
    try:
        prepared = wrapper.request()
        if authorization:  # urllib leaves such a header behind when it follows a redirect
            prepared.add_unredirected_header("Authorization", authorization)
        return _open(prepared, timeout, line)
    except TimeoutError as error:
        raise QueryTimeout(TIMED_OUT) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLError):
            raise untrusted(request.url, error.reason) from error
        if isinstance(error.reason, TimeoutError):
            raise Again(ServiceError(f"{place} cannot be reached: no connection in {timeout:.0f} s")) from error
        raise Again(ServiceError(f"{place} cannot be reached: {error.reason}")) from error
    except (OSError, EOFError, zlib.error, http.client.HTTPException) as error:
        raise Again(ServiceError(f"{place} broke off the answer: {error!r}")) from error


def _open(request: urllib.request.Request, timeout: float, line: Line) -> Reply:
    try:
        response = urllib.request.build_opener(_SameHost, *line.handlers()).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        response = error
    with response:
        body = response.read(MAX_BODY + 1)
        headers = {name.lower(): value for name, value in response.headers.items()}
    length = headers.get("content-length", "").strip()
    promised = int(length) if re.fullmatch("[0-9]{1,18}", length) else 0
    if len(body) < min(promised, MAX_BODY):  # a bounded read does not say so by itself
        raise http.client.IncompleteRead(body, promised - len(body))
    if headers.get("content-encoding", "").lower() == "gzip":
        body = _gunzip(body)
    if len(body) > MAX_BODY:
        raise QueryRefused("the answer is larger than 64 MiB: add a LIMIT, or count instead of listing")
    return Reply(response.status or 0, body, headers, request.full_url)


def _gunzip(body: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
        return packed.read(MAX_BODY + 1)


def session(user_agent: str) -> requests.Session:
    """One that says who asks."""
    made = requests.Session()
    made.headers.update({"User-Agent": user_agent})
    for scheme in ("http://", "https://"):
        made.mount(scheme, _Adapter())
    return made


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *given: Any, **named: Any) -> None:
        """The pools of connections to each host."""
        super().init_poolmanager(*given, **named)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *given: Any, **named: Any) -> Any:
        """Those by way of a proxy."""
        manager = super().proxy_manager_for(*given, **named)
        manager.pool_classes_by_scheme = _POOLS
        return manager


class _Plain(urllib3.HTTPConnectionPool):
    @property
    def ConnectionCls(self) -> Any:  # type: ignore[override]
        """What a connection is made with."""
        return _known(urllib3.HTTPConnectionPool.ConnectionCls)


class _Secure(urllib3.HTTPSConnectionPool):
    @property
    def ConnectionCls(self) -> Any:  # type: ignore[override]
        """What a connection is made with."""
        return _known(urllib3.HTTPSConnectionPool.ConnectionCls)


_POOLS = {"http": _Plain, "https": _Secure}


@cache
def _known(base: Any) -> Any:
    """The same connections, of which the line of the request at hand knows."""

    class Connection(base):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            self._tell()

        def getresponse(self, *given: Any, **named: Any) -> Any:
            self._tell()  # one that was kept was made for another request
            return super().getresponse(*given, **named)

        def _tell(self) -> None:
            line = current_line()
            if line is not None and self.sock is not None:
                line.add(self.sock)

    return Connection
