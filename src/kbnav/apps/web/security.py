"""Who may come in, and by which door: names, origins, sizes, identities, and the headers that every answer carries."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import secrets
import time
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response

from kbnav.errors import UsageError
from kbnav.settings import Web

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "kbnav"
COOKIE_AGE = 30 * 24 * 3600
LARGEST_BODY = 2_000_000
"""Bytes of a request; only conversations sent to the OpenAI-compatible API come near."""
SHORTEST_TOKEN = 16
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN = ("/health", "/ready", "/static/", "/login", "/share/", "/api/shared/")
"""What needs no identity: nothing of anybody's is behind it but what was shared."""
_PROBES = frozenset({"/health", "/ready"})
"""Asked by the address, and not by a name."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LOG = logging.getLogger("kbnav.web")


@dataclass(frozen=True)
class Visitor:
    """Who asks; ``owner`` marks what is theirs, ``name`` is shown where there is one."""

    owner: str
    name: str = ""


NOBODY = Visitor("anonymous")
"""A client without a cookie: what it makes is protected by unguessable ids only, and never listed."""


def checked(web: Web) -> Web:
    """The settings, if it is safe to serve with them. Raises UsageError that says what to set."""
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
    if web.workers > 1 and not web.database.get_secret_value():
        raise UsageError("web.workers: several processes share their sessions in PostgreSQL; set web.database")
    return web


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def content_policy(tiles: str) -> str:
    """The Content-Security-Policy: nothing but this server's own files, and map tiles where they are set."""
    site = urlsplit(tiles.replace("{", "").replace("}", ""))
    images = f" {site.scheme}://{site.netloc}" if site.netloc else ""
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'{images}; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


class Identities:
    """Tells visitors apart: by a proxy's header, a token, the cookie of a login, or the cookie of a browser."""

    def __init__(self, web: Web) -> None:
        self._header, self._proxies = web.proxy_header, frozenset(web.proxy_addresses)
        self._tokens = {name: token.get_secret_value().encode() for name, token in web.tokens.items()}
        self.closed = bool(self._tokens or self._header)
        """Whether one must log in."""
        self.by_token = bool(self._tokens)

    def of(self, headers: Headers, client: str) -> Visitor | None:
        """The visitor; None for one who must log in first."""
        if self._header and client in self._proxies and (name := headers.get(self._header, "").strip()):
            return Visitor(f"user:{name}", name)
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

    def cookie_of(self, name: str) -> str:
        """What a browser keeps after a login; useless once the token has changed."""
        return f"{name.encode().hex()}.{hmac.new(self._tokens[name], name.encode(), 'sha256').hexdigest()}"

    def _by_cookie(self, cookie: str) -> str:
        matches = [name for name in self._tokens if hmac.compare_digest(self.cookie_of(name), cookie)]
        return matches[0] if matches else ""

    def is_proxy(self, client: str) -> bool:
        """Whether an address is that of the proxy."""
        return client in self._proxies


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found and found.value.isascii() else ""


def cookie_header(value: str, *, secure: bool) -> str:
    """A Set-Cookie header that scripts cannot read."""
    marks = "; Secure" if secure else ""
    return f"{COOKIE}={value}; Path=/; Max-Age={COOKIE_AGE}; HttpOnly; SameSite=Lax{marks}"


class Gate:
    """The ASGI middleware in front of everything."""

    def __init__(self, app: ASGIApp, web: Web) -> None:
        self._app = app
        self._names = _LOOPBACK_NAMES | {name.casefold() for name in web.hosts}
        self._public = {name.casefold() for name in web.hosts}
        self._identities = Identities(web)
        self._policy = content_policy(web.tiles)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with ``scope["state"]["visitor"]`` set."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        visitor, refused = self._visit(scope)
        headers = Headers(scope=scope)
        secure = self._is_secure(scope, headers)
        scope.setdefault("state", {}).update(visitor=visitor, identities=self._identities, secure=secure)
        # Only answers to a browser that has no cookie yet set one; a login sets its own.
        new_cookie = visitor is NOBODY and not refused

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = MutableHeaders(scope=message)
                own["Content-Security-Policy"] = self._policy
                own["X-Content-Type-Options"] = "nosniff"
                own["Referrer-Policy"] = "no-referrer"
                own["Cross-Origin-Opener-Policy"] = own["Cross-Origin-Resource-Policy"] = "same-origin"
                if "cache-control" not in own:
                    own["Cache-Control"] = "no-store"
                if new_cookie:
                    own.append("Set-Cookie", cookie_header(secrets.token_urlsafe(24), secure=secure))
            await send(message)

        await (refused or self._app)(scope, receive, sending)
        route: Any = scope.get("route")
        path = getattr(route, "path", "-")  # the address itself may hold ids and questions
        _LOG.info("%s %s %d %.0f ms", scope["method"], path, status, 1e3 * (time.monotonic() - began))

    def _visit(self, scope: Scope) -> tuple[Visitor | None, Response | None]:
        """Who comes, and the answer to those who may not come in."""
        headers, path = Headers(scope=scope), scope["path"]
        if path not in _PROBES and host_name(headers.get("host", "")) not in self._names:
            return None, _refusal(path, 421, "this name is not served here; the operator sets web.hosts")
        if problem := self._crosses(scope, headers):
            return None, _refusal(path, 403, problem)
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers:
            return None, _refusal(path, 411, "give the length of the body")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return None, _refusal(path, 413, f"at most {LARGEST_BODY:,} bytes can be sent")
        visitor = self._identities.of(headers, self._client(scope))
        if visitor or path.startswith(_OPEN):
            return visitor, None
        if self._identities.by_token and scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return None, RedirectResponse("/login", 303)
        refusal = _refusal(path, 401, "log in first, or send a token: Authorization: Bearer …")
        refusal.headers["WWW-Authenticate"] = "Bearer"
        return None, refusal

    def _crosses(self, scope: Scope, headers: Headers) -> str:
        """What is wrong with a request that another site's page sends; empty for all others.

        Opening a page by a link is allowed; a question in the address is none, because it costs something.
        """
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
        except ValueError:
            return "the Origin header is no address"
        if site.netloc.casefold() == headers.get("host", "").casefold() or (site.hostname or "") in self._public:
            return ""
        return "requests from other sites are refused"

    def _client(self, scope: Scope) -> str:
        return scope["client"][0] if scope.get("client") else ""

    def _is_secure(self, scope: Scope, headers: Headers) -> bool:
        forwarded = headers.get("x-forwarded-proto", "") if self._identities.is_proxy(self._client(scope)) else ""
        return (forwarded or scope["scheme"]) == "https"


def host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").casefold()
    except ValueError:
        return ""


def _refusal(path: str, status: int, why: str) -> Response:
    return JSONResponse(problem(path, status, why), status)


def problem(path: str, status: int, why: str) -> dict[str, Any]:
    """An error as the API that was called writes it."""
    if path.startswith("/v1"):
        kind = "invalid_request_error" if status < 500 else "server_error"
        return {"error": {"message": why, "type": kind, "param": None, "code": None}}
    return {"detail": why}
