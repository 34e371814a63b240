"""What is sent to a service, and what its replies mean: data, or one of kbnav's errors. Nothing is sent from here.

The forms of errors are those that Blazegraph (Wikidata), QLever, Virtuoso, Oxigraph, GraphDB and Stardog use.
Blazegraph echoes the query, then appends a Java trace, and does so under status 200 too once rows have been sent.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

from kbnav.answers.tables import XSD_STRING, AnswerTable, Cell, Term
from kbnav.errors import (
    BadResponse,
    Banned,
    CredentialsError,
    KbnavError,
    QueryRefused,
    QuerySyntaxError,
    QueryTimeout,
    ServiceError,
)
from kbnav.knowledge.sparql.syntax import Query, parse_query

Service = Literal["api", "sparql", "vector"]
LONGEST_GET = 2000
"""Characters of parameters up to which GET is used, so that caches on the way work; longer ones are posted."""
SIMPLER = "start from the most specific pattern, drop paths of any length such as wdt:P279*, add a LIMIT"
TIMED_OUT = f"the query service stopped the query at its time limit; make it simpler: {SIMPLER}"


def host_of(url: str) -> str:
    """Host and port as they may be shown: without a user's name and password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def is_loopback(url: str) -> bool:
    """Whether a URL is served by this machine."""
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


@dataclass(frozen=True)
class Request:
    """Where, what, and which of the services it goes to; ``post`` for what changes something, which no cache keeps."""

    service: Service
    url: str
    params: Mapping[str, Any]
    accept: str = "application/json"
    post: bool = False

    @property
    def method(self) -> Literal["GET", "POST"]:
        """POST where it is asked for and for long parameters; the vector service has GET only."""
        long = self.service != "vector" and len(urlencode(self.params, doseq=True)) > LONGEST_GET
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
    def host(self) -> str:
        """The host that answered, for messages."""
        return host_of(self.url) or "the service"

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


class Again(Exception):
    """Raised by a reader: the same request may work later, after ``after`` seconds where the service says so."""

    def __init__(self, error: KbnavError, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.after = after


class Lagged(ServiceError):
    """The service's copies of its data are behind, and stayed so; a read may be asked for without ``maxlag``."""


_HTML = re.compile(rb"^\s*(?:<!doctype html|<html|<head|<body)", re.IGNORECASE)
CHECK_CREDENTIALS = "check the credentials and the address"
CHECK_ADDRESS = "check the address"
_RETRY_IN = re.compile(r"retry in (\d+) second", re.IGNORECASE)
_BAN = re.compile(r"\bbanned\b|\bblocked until\b", re.IGNORECASE)
_TITLE = re.compile(r"<title>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")
_AGENT = re.compile(r"user.?agent|robot policy", re.IGNORECASE)


def check_status(reply: Reply) -> None:
    """Raise for a status that means the same at every service: 401, 403, 429 and 5xx; others pass."""
    where = reply.host
    if reply.status == 429:
        seconds = retry_after(reply)
        raise Again(ServiceError(f"{where} answers 429, too many requests"), seconds)
    if reply.status == 403 and _BAN.search(reply.text):
        raise Banned(f"{where} has banned this client: {one_line(reply.text)}")
    if reply.status in (401, 403):
        hint = "set contact to a real address" if _AGENT.search(reply.text) else CHECK_CREDENTIALS
        told = ": ".join(filter(None, (str(reply.status), one_line(reply.text))))
        raise CredentialsError(f"{where} refuses access ({told}); {hint}")
    if reply.status >= 500:
        raise Again(ServiceError(f"{where} fails with {reply.status}: {one_line(reply.text)}"), retry_after(reply))


def retry_after(reply: Reply) -> float | None:
    """Seconds to wait: from the header (seconds or a date) or, as the query service puts it, from the HTML text."""
    if header := reply.headers.get("retry-after", "").strip():
        if header.isdecimal():
            return float(header)
        until, began = _moment(header), _moment(reply.headers.get("date", ""))  # by the clock that the date is of
        return None if until is None else max(0.0, until - (time.time() if began is None else began))
    text = _RETRY_IN.search(reply.text[:5000])
    return float(text.group(1)) if text else None


def _moment(date: str) -> float | None:
    with suppress(ValueError, OverflowError):
        return parsedate_to_datetime(date).timestamp()
    return None


def read_json(reply: Reply) -> Any:
    """The JSON body. Raises BadResponse for HTML, for JSON that is cut off, and for anything else."""
    where = reply.host
    if _HTML.match(reply.body[:500]):
        raise BadResponse(
            f"{where} answers with a web page where JSON is promised: {one_line(reply.text)}; {CHECK_ADDRESS}"
        )
    try:
        return json.loads(reply.body.decode("utf-8-sig"), strict=False)
    except (ValueError, RecursionError) as error:
        kind = "cut off" if _cut_off(reply.body, error) else "not JSON"
        sent = f", {reply.content_type}" if reply.content_type else ""
        raise BadResponse(f"{where} answers with a body that is {kind} ({len(reply.body)} bytes{sent})") from error


def one_line(text: str, *, limit: int = 200) -> str:
    """The start of a text in one line: a web page by its title, tags and runs of blanks dropped."""
    title = _TITLE.search(text)
    plain = _TAG.sub(" ", title.group(1) if title else text)
    line = " ".join(plain.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _cut_off(body: bytes, error: Exception) -> bool:
    if isinstance(error, UnicodeDecodeError):
        return error.end >= len(body)
    text = body.decode("utf-8-sig", "replace").strip()
    return text[:1] in ("{", "[") and (not text.endswith(("}", "]")) or text.count("{") > text.count("}"))


LEFT_OUT = (
    "Scholarly articles are in a graph of their own, and none of them is among this. For them, put the patterns about "
    "articles inside SERVICE wdsubgraph:scholarly_articles { … }."
)
"""Noted on a result of Wikidata's service that may lack scholarly articles."""
ACCEPT_ROWS = "application/sparql-results+json"
ACCEPT_TRIPLES = "application/n-triples, text/turtle;q=0.9"

_RDF_TYPES = {"application/n-triples", "text/turtle", "application/x-turtle", "application/turtle"}
_TIMEOUT = re.compile(
    r"\bTimeoutException\b|QueryTimeoutException|Query deadline is expired|\bS1T00\b|"
    r"(?:operation|query|transaction) (?:has )?timed out|cancell?ed due to timeout|time limit|memory limit|"
    r"estimated execution time|exceeded query timeout|query evaluation took too long",
    re.IGNORECASE,
)
_OF_COPY = re.compile(r"TimeoutException: the query took longer than ([\d.]+) s")
"""What a mirror says, whose time limit is its own."""
_TRACE_START = re.compile(r"^(?:[a-z]\w*\.)+\w*(?:Exception|Error)\b", re.MULTILINE)
_TRACE_LINES = re.compile(r"\n\s*(?:at [\w.$<>/]+\(|Caused by:|\.\.\. \d+ more)")
_EXCEPTIONS = re.compile(r"^(?:\s*(?:[a-z]\w*\.)+(\w*(?:Exception|Error)):?[ \t]*)+")
_SYNTAX = re.compile(
    r"Malformed ?Query|\bparse (?:error|exception)|ParseException|syntax|lexical error|invalid sparql|\bexpected\b|"
    r"was not registered|unresolved prefix|undefined prefix",
    re.IGNORECASE,
)
_PLACES = (
    re.compile(r"\s*\bat line (?P<line>\d+), column (?P<column>\d+)\.?"),
    re.compile(r"\bat (?P<line>\d+):(?P<column>\d+)(?:-\d+:\d+)?:?"),
    re.compile(r",? *\bline (?P<line>\d+)(?:,? column (?P<column>\d+))?:?", re.IGNORECASE),
)
_ECHO = "SPARQL-QUERY: queryStr="
_VIRTUOSO_ECHO = "\n\nSPARQL query:\n"
_COUNT = re.compile(r"\bCOUNT\s*\([^()]*\)\s*AS\s*[?$](\w+)", re.IGNORECASE)
_WHOLE = re.compile(r"\+?[0-9]{1,18}")
_VIRTUOSO = re.compile(r"^Virtuoso \w{5} Error ")


def read_query(reply: Reply, *, query: str = "") -> AnswerTable:
    """A reply of a query service, rows, a boolean or triples; where the service says that it cut them, ``cut`` does.

    With the ``query`` that was sent: a result that ends at its LIMIT is whole, SELECT has the columns that it names, in
    its order (one that is missing is unbound in each row), and ASK without a boolean or a COUNT without a whole number
    is a BadResponse.

    Raises QuerySyntaxError, QueryTimeout, QueryRefused, Again, BadResponse and what ``check_status`` raises.
    """
    if reply.status not in (200, 206):
        raise _failure(reply)
    asked = None
    with suppress(QuerySyntaxError):  # of an engine's own form nothing is known
        asked = parse_query(query) if query else None
    limit = next((one.number for one in asked.tail.modifiers if one.kind == "LIMIT"), None) if asked else None
    if reply.content_type in _RDF_TYPES:
        return replace(_triples(reply), cut=_cut(reply, None, limit))
    try:
        document = read_json(reply)
    except BadResponse as error:
        if _ECHO in reply.text or _TRACE_START.search(reply.text):
            raise _failure(reply) from error
        raise
    if not isinstance(document, dict):
        raise BadResponse(f"{reply.host} answers with {type(document).__name__} where a query result is promised")
    if "exception" in document:
        raise _failure(reply)
    table = AnswerTable.from_sparql_json(document)
    if table.columns == ("subject", "predicate", "object", "context"):
        # Blazegraph gives triples as rows with a fourth column, the graph, that is never bound.
        table = AnswerTable(table.columns[:3], tuple(row[:3] for row in table.rows))
    if asked:
        table = _as_asked(reply, table, asked, frozenset(_COUNT.findall(query)))
    meta = document.get("meta")
    total = meta.get("result-size-total") if isinstance(meta, dict) else None
    return replace(table, cut=_cut(reply, total, limit, len(table.rows)))


def _as_asked(reply: Reply, table: AnswerTable, asked: Query, counts: frozenset[str]) -> AnswerTable:
    if (table.boolean is not None) != (asked.form == "ASK"):
        raise BadResponse(f"{reply.host} answers {asked.form} with {'rows' if table.boolean is None else 'a boolean'}")
    if asked.select is not None and asked.select.star is None:
        wanted = tuple(name[1:] for name in asked.select.visible)
        places = {name: at for at, name in enumerate(table.columns)}  # a column that is missing is bound nowhere
        rows = tuple(tuple(row[places[name]] if name in places else None for name in wanted) for row in table.rows)
        table = replace(table, columns=wanted, rows=rows)
    for at in (at for at, name in enumerate(table.columns) if name in counts):
        for cell in (row[at] for row in table.rows):
            if cell and not _WHOLE.fullmatch(cell.value):
                raise BadResponse(f"{reply.host} answers COUNT with {one_line(cell.value, limit=40)!r}")
    return table


def _cut(reply: Reply, total: object, limit: int | None, rows: int = 0) -> str:
    """Why rows are missing: Virtuoso says it in headers, QLever in ``meta``; empty where nothing is said."""
    where = reply.host
    if reply.status == 206 or reply.headers.get("x-sql-state", "").upper() == "S1TAT":
        return f"{where} gave only the rows that it had found at its time limit; there may be more."
    most = reply.headers.get("x-sparql-maxrows", "").strip()
    if most.isdecimal() and (limit is None or limit > int(most)):
        return (
            f"{where} gives at most {int(most):,} rows of a result and left out the rest; count, or page with OFFSET."
        )
    if isinstance(total, int) and total > rows and (limit is None or rows < limit):
        return f"{where} gave {rows:,} of {total:,} rows."
    return ""


def _failure(reply: Reply) -> Exception:
    message, details = _explain(reply)
    if own := _OF_COPY.search(details):
        limit = f"the query was stopped after {own[1]} s, the limit of this copy"
        return QueryTimeout(f"{limit}; make it simpler: {SIMPLER}")
    if reply.status == 504 or (_TIMEOUT.search(details) and reply.status in (200, 400, 429, 500, 503)):
        return QueryTimeout(TIMED_OUT)
    if reply.status in (200, 400) and _SYNTAX.search(details):
        return _syntax_error(reply, message)
    if reply.status in (200, 400, 413, 414) or (
        reply.status == 500 and (_ECHO in reply.text or _VIRTUOSO.match(reply.text))
    ):
        return QueryRefused(f"the query service refuses the query: {message}")
    try:
        check_status(reply)
    except (KbnavError, Again) as error:
        return error
    hint = f"; {CHECK_ADDRESS}" if reply.status in (404, 405) else ""
    return ServiceError(f"{reply.host} answers {reply.status}: {one_line(reply.text)}{hint}")


def _explain(reply: Reply) -> tuple[str, str]:
    """The service's message in one line, and the text it was found in: without the echoed query and the trace."""
    exception = _json_error(reply)
    if exception is not None:
        text = str(exception.get("exception", exception.get("message", "")))
        return one_line(_EXCEPTIONS.sub("", text), limit=400), text
    text = reply.text
    echo = text.rfind(_ECHO)
    start = _TRACE_START.search(text, max(echo, 0))
    text = text[start.start() :] if start else text[max(echo, 0) :]
    text = _TRACE_LINES.split(text, maxsplit=1)[0].partition(_VIRTUOSO_ECHO)[0]
    message = one_line(_EXCEPTIONS.sub("", text), limit=400)
    return message or one_line(text), text


def _json_error(reply: Reply) -> dict[str, Any] | None:
    try:
        document = json.loads(reply.text)
    except (ValueError, RecursionError):
        return None
    told = isinstance(document, dict) and ("exception" in document or {"message", "code"} <= document.keys())
    return document if told else None


def _syntax_error(reply: Reply, message: str) -> QuerySyntaxError:
    line = column = 0
    metadata = (_json_error(reply) or {}).get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("line"), int):
        offset = metadata.get("positionInLine")  # counts from 0
        line, column = metadata["line"], offset + 1 if isinstance(offset, int) else 0
    else:
        for pattern in _PLACES:
            if found := pattern.search(message):
                line, column = int(found["line"]), int(found["column"] or 0)
                message = one_line(message[: found.start()] + " " + message[found.end() :], limit=400)
                break
    return QuerySyntaxError(message, line=line, column=column)


def _triples(reply: Reply) -> AnswerTable:
    import pyoxigraph

    try:
        triples = list(pyoxigraph.parse(reply.body, format=pyoxigraph.RdfFormat.TURTLE))
    except (SyntaxError, ValueError) as error:
        if _ECHO in reply.text:
            raise _failure(reply) from error
        raise BadResponse(f"{reply.host} answers with triples that do not parse: {one_line(str(error))}") from error
    rows = tuple((_term(quad.subject), _term(quad.predicate), _term(quad.object)) for quad in triples)
    return AnswerTable(("subject", "predicate", "object"), rows)


def _term(node: Any) -> Cell:
    import pyoxigraph

    if isinstance(node, pyoxigraph.Triple):
        return Term("literal", f"<< {node} >>")
    if isinstance(node, pyoxigraph.Literal):
        datatype = None if node.language or node.datatype.value == XSD_STRING else node.datatype.value
        return Term("literal", node.value, datatype, node.language)
    return Term("bnode" if isinstance(node, pyoxigraph.BlankNode) else "uri", node.value)
