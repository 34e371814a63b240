"""Sends one SPARQL query with SPARQLWrapper. Imported where used: SPARQLWrapper loads rdflib."""

from __future__ import annotations

import gzip
import http.client
import io
import re
import ssl
import urllib.error
import urllib.request
import zlib
from typing import Any

from SPARQLWrapper import POST, SPARQLWrapper

from kbnav.errors import BadResponse, QueryRefused, QueryTimeout, ServiceError
from kbnav.knowledge.service.exchange import MAX_BODY, TIMED_OUT, Again, Reply, Request
from kbnav.knowledge.service.hanging_up import Line, hung_up_with_the_run
from kbnav.knowledge.service.redirects import MOST, host_of, next_place, untrusted


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
