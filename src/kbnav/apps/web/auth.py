"""Who may come in: names, origins, sizes, identities, and the headers that every answer carries."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kbnav.apps.web.rendering import cookie_value, refusal
from kbnav.apps.web.store import Logouts, logouts_in_memory
from kbnav.errors import DatabaseAway, UsageError
from kbnav.knowledge.connections import host_name
from kbnav.settings.model import Settings, Web

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "kbnav"
COOKIE_AGE = 30 * 24 * 3600
LARGEST_CONVERSATION, LARGEST_BODY = 2_000_000, 400_000
"""Bytes of a request: to the OpenAI-compatible API, which is sent whole conversations, and of any other."""
LONGEST_COOKIES = 8_000
"""Characters; Python's reader of cookies takes a minute for some of 60,000."""
SHORTEST_TOKEN = 16
WRONG_TOKENS = "too many wrong tokens; try again"
FREE_TRIES = 5
"""Wrong tokens from one address before it has to wait."""
MOST_WAIT = 30.0
FORGET = 600.0
"""Seconds after which wrong tokens of an address are forgotten."""
MOST_CLIENTS = 10_000
"""Addresses with wrong tokens that are remembered."""
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN = ("/health", "/ready", "/static/", "/login", "/share/", "/api/shared/")
"""What needs no identity: nothing of anybody's is behind it but what was shared."""
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing but this server's own files."""
_EMBEDDED_POLICY = CONTENT_POLICY.replace("frame-ancestors 'none'", "frame-ancestors *")
_PROBES = frozenset({"/health", "/ready"})
"""Asked by the address, and not by a name."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LOG = logging.getLogger("kbnav.web")


@dataclass(frozen=True)
class Visitor:
    """Who asks; ``owner`` marks what is theirs, ``name`` is shown where there is one."""

    owner: str
    name: str = ""

    @property
    def owners(self) -> tuple[str, str]:
        """Whose things it may have: its own, and a client's without a cookie, as it was before the first reply."""
        return self.owner, NOBODY.owner


NOBODY = Visitor("anonymous")
"""A client without a cookie: what it makes is protected by unguessable ids only, and never listed."""


def checked(settings: Settings) -> Web:
    """The page's settings, if it is safe to serve with them. Raises UsageError that says what to set."""
    web = settings.web
    short = [name for name, token in web.tokens.items() if len(token.get_secret_value()) < SHORTEST_TOKEN]
    if short:
        raise UsageError(f"web.tokens: those of {', '.join(short)} are shorter than {SHORTEST_TOKEN} characters")
    if not is_loopback(web.host):
        if not (web.tokens or web.proxy_header):
            raise UsageError(
                f"{web.host} is reached from other machines: set web.tokens, or web.proxy_header for a proxy that "
                "logs people in (docs/serve.md)"
            )
        if not web.hosts:
            raise UsageError(f"{web.host} is reached from other machines: set web.hosts to the names they use for it")
    try:
        Identities(web, logouts_in_memory())
    except ValueError as error:
        raise UsageError(f"web.proxy_addresses: {error}") from error
    if web.workers > 1 and not settings.database.get_secret_value():
        raise UsageError("web.workers: several processes share their sessions in PostgreSQL; set database")
    return web


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Identities:
    """Tells visitors apart: by a proxy's header, a token, the cookie of a login, or the cookie of a browser."""

    def __init__(self, web: Web, logouts: Logouts) -> None:
        self._logouts = logouts
        self._header = web.proxy_header
        self._proxies = [ipaddress.ip_network(one, strict=False) for one in web.proxy_addresses]
        self._tokens = {name: token.get_secret_value().encode() for name, token in web.tokens.items()}
        self.closed = bool(self._tokens or self._header)
        """Whether one must log in."""
        self.by_token = bool(self._tokens)

    def of(self, headers: Headers, client: str) -> Visitor | None:
        """The visitor; None for one who must log in first."""
        if self._header and self.is_proxy(client) and (name := _user_name(headers.getlist(self._header))):
            return Visitor(f"proxy:{name}" if name in self._tokens else f"user:{name}", name)
        cookie = _cookie(headers)
        if not self.closed:
            return Visitor(f"browser:{hashlib.sha256(cookie.encode()).hexdigest()[:32]}") if cookie else NOBODY
        kind, _, given = headers.get("authorization", "").partition(" ")
        found = self.by_secret(given.strip()) if kind.casefold() == "bearer" else self._by_cookie(cookie)
        return Visitor(f"user:{found}", found) if found else None

    def by_secret(self, given: str) -> str:
        """The user of a token; empty for none."""
        matches = [name for name, token in self._tokens.items() if hmac.compare_digest(token, given.encode())]
        return matches[0] if matches else ""

    def cookie_of(self, name: str, login: str = "") -> str:
        """What a browser keeps after a login; useless once the token has changed, or after a logout."""
        signed = f"{name.encode().hex()}.{login or secrets.token_urlsafe(18)}"
        return f"{signed}.{hmac.new(self._tokens[name], signed.encode(), 'sha256').hexdigest()}"

    def _by_cookie(self, cookie: str) -> str:
        login = cookie.split(".")[1] if cookie.count(".") == 2 else ""
        if not login or self._logouts.has(cookie_key(cookie)):
            return ""
        matches = [name for name in self._tokens if hmac.compare_digest(self.cookie_of(name, login), cookie)]
        return matches[0] if matches else ""

    def logout(self, headers: Headers) -> None:
        """Take back what the browser kept: a copy of its cookie opens nothing any more."""
        cookie = _cookie(headers)
        if self._by_cookie(cookie):
            self._logouts.add(cookie_key(cookie))

    def is_proxy(self, client: str) -> bool:
        """Whether an address is that of the proxy, or in one of its networks."""
        try:
            address = ipaddress.ip_address(client)
        except ValueError:
            return False
        return any(address in network for network in self._proxies)


def cookie_key(cookie: str) -> str:
    """By what a login that was taken back is kept; nobody can log in with it."""
    return hashlib.sha256(cookie.encode()).hexdigest()


def _user_name(given: Sequence[str]) -> str:
    """The user whom a proxy names; empty for none, for two, and for a name that another could be taken for.

    Headers are Latin-1, and ``str.strip`` takes a no-break space for white space: so only spaces and tabs go, and
    what is left must be visible.
    """
    name = given[0].strip(" \t") if len(given) == 1 else ""
    return name if name.isprintable() and "\xa0" not in name else ""


class WrongTokens:
    """Each wrong token from an address waits longer, up to ``MOST_WAIT`` seconds; a right one always passes."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, float]] = {}

    def another(self, client: str) -> float:
        """Count another wrong one; or, where the address must wait before it tries again, for how many seconds."""
        (tries, last), now = self._since.get(client, (0, 0.0)), time.monotonic()
        wait = last + min(MOST_WAIT, 0.1 * 2.0 ** min(tries, 10)) - now
        if tries >= FREE_TRIES and wait > 0:
            return wait
        if len(self._since) >= MOST_CLIENTS:
            self._since.pop(next(iter(self._since)))
        self._since.pop(client, None)
        self._since[client] = (1 if now - last > FORGET else tries + 1, now)
        return 0.0


def _cookie(headers: Headers) -> str:
    found = cookie_value(headers, COOKIE)
    return found if found.isascii() else ""


def cookie_header(value: str, *, secure: bool, name: str = COOKIE) -> str:
    """A Set-Cookie header that scripts cannot read."""
    return f"{name}={value}; Path=/; Max-Age={COOKIE_AGE}; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"


class Gate:
    """The ASGI middleware in front of everything."""

    def __init__(self, app: ASGIApp, web: Web, logouts: Logouts | None = None) -> None:
        self._app = app
        self._wrong = WrongTokens()
        self._names = _LOOPBACK_NAMES | {name.casefold() for name in web.hosts}
        self._public = {name.casefold() for name in web.hosts}
        self._identities = Identities(web, logouts or logouts_in_memory())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with ``scope["state"]["visitor"]`` set."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        visitor, refused = self._visit(scope)
        headers = Headers(scope=scope)
        forwarded = headers.get("x-forwarded-proto", "") if self._identities.is_proxy(self._connected(scope)) else ""
        secure = (forwarded or scope["scheme"]) == "https"
        client = self._client(scope)
        scope.setdefault("state", {}).update(
            visitor=visitor, identities=self._identities, secure=secure, wrong=self._wrong, client=client
        )
        # Only answers to a browser that has no cookie yet set one; a login sets its own.
        new_cookie = visitor is NOBODY and not refused

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = MutableHeaders(scope=message)
                embedded = scope["path"].startswith("/share/") and scope["query_string"] == b"embed=1"
                own["Content-Security-Policy"] = _EMBEDDED_POLICY if embedded else CONTENT_POLICY
                own["X-Content-Type-Options"] = "nosniff"
                own["Referrer-Policy"] = "same-origin"  # not "no-referrer": forms would say that they come from "null"
                own["Cross-Origin-Opener-Policy"] = own["Cross-Origin-Resource-Policy"] = "same-origin"
                if "cache-control" not in own:
                    own["Cache-Control"] = "no-store"
                if new_cookie:
                    own.append("Set-Cookie", cookie_header(secrets.token_urlsafe(24), secure=secure))
            await send(message)

        await (refused or self._app)(scope, receive, sending)
        route: Any = scope.get("route")
        path = getattr(route, "path", "-")  # the address itself may hold ids and questions
        method, seconds = scope["method"], time.monotonic() - began
        _LOG.info("%s %s %d %d ms", method, path, status, round(1e3 * seconds))

    def _visit(self, scope: Scope) -> tuple[Visitor | None, Response | None]:
        """Who comes, and the answer to those who may not come in."""
        request = Request(scope)
        headers, path = request.headers, scope["path"]
        if path in _PROBES and scope["method"] in _SAFE:
            return None, None  # nothing is looked up for them
        if host_name(headers.get("host", "")) not in self._names:
            return None, refusal(request, 421, "this name is not served here; the operator sets web.hosts")
        if problem := self._crosses(scope, headers):
            return None, refusal(request, 403, problem)
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers:
            return None, refusal(request, 411, "give the length of the body")
        most = LARGEST_CONVERSATION if path.startswith("/v1/") else LARGEST_BODY
        if not length.isdecimal() or int(length) > most:
            return None, refusal(request, 413, f"at most {most:,} bytes can be sent")
        if sum(map(len, headers.getlist("cookie"))) > LONGEST_COOKIES:
            return None, Response(f"more than {LONGEST_COOKIES:,} characters of cookies", 431)
        try:
            visitor = self._identities.of(headers, self._connected(scope))
        except DatabaseAway as error:
            return None, refusal(request, 503, str(error))
        if self._identities.closed and not visitor and "authorization" in headers:
            client = self._client(scope)
            if wait := self._wrong.another(client):
                refused = refusal(request, 429, f"{WRONG_TOKENS} in {wait:.0f} s")
                refused.headers["Retry-After"] = str(round(wait) + 1)
                return None, refused
        if visitor or path.startswith(_OPEN):
            return visitor, None
        if self._identities.by_token and scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return None, RedirectResponse("/login", 303)
        refused = refusal(request, 401, "log in first, or send a token: Authorization: Bearer …")
        refused.headers["WWW-Authenticate"] = "Bearer"
        return None, refused

    def _crosses(self, scope: Scope, headers: Headers) -> str:
        """What is wrong with a request that another site's page sends; empty for all others, and for opened links."""
        asks = scope["path"].startswith(("/api", "/v1", "/mcp")) or (scope["path"] == "/" and scope["query_string"])
        if scope["method"] in _SAFE and not asks:
            return ""
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return "requests from other sites are refused"
        origin = headers.get("origin")
        if origin is None:
            return ""
        try:
            site = urlsplit(origin)
            usual_port = site.port in (None, {"http": 80, "https": 443}.get(site.scheme))
        except ValueError:
            return "the Origin header is no address"
        host = headers.get("host", "")
        same = host_name(host) and site.netloc.casefold() == host.casefold() and site.scheme in ("http", "https")
        # A proxy hides our port: then the names that browsers use, at the usual one, are ours as well.
        public = usual_port and (site.hostname or "") in self._public
        return "" if same or public else "requests from other sites are refused"

    def _connected(self, scope: Scope) -> str:
        return scope["client"][0] if scope.get("client") else ""

    def _client(self, scope: Scope) -> str:
        """The address that a request comes from: as the proxy says, the last of its header that is none of a proxy."""
        connected = self._connected(scope)
        if not self._identities.is_proxy(connected):
            return connected
        named = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).split(",")
        return next(
            (one for name in reversed(named) if (one := name.strip()) and not self._identities.is_proxy(one)), connected
        )
