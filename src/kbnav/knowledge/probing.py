"""Find out which dialect an endpoint speaks, by at most five cheap queries.

An engine is known by what it says of itself (the ``Server`` header, QLever's ``meta``), by an extension that only
Blazegraph runs, and by the words of its error about it. A text index is believed only if it finds a label that is
there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kbnav.answers.tables import AnswerTable
from kbnav.errors import BadResponse, TellModel
from kbnav.knowledge.replies import Again, Reply, Request, check_status, read_query
from kbnav.knowledge.sparql.dialects import AUTO, DIALECTS, Dialect, dialect_named, text_search

if TYPE_CHECKING:
    from kbnav.knowledge.http import HttpClient

_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_PLAIN = "SELECT (1 AS ?one) WHERE { }"
_NAMED = "SELECT ?x WITH { SELECT ?x WHERE { BIND(1 AS ?x) } } AS %one WHERE { INCLUDE %one }"
_LATERAL = "SELECT ?y WHERE { VALUES ?x { 1 } LATERAL { SELECT ?y WHERE { BIND(2 AS ?y) } } }"
_SOME_LABELS = f"SELECT ?label WHERE {{ ?s {_LABEL} ?label }} LIMIT 20"
_SIGNS = (
    ("kbnav", r"^kbnav", r"(?!)"),
    ("virtuoso", r"virtuoso", r"^Virtuoso \w{5} Error"),
    ("oxigraph", r"oxigraph", r"^error at \d+:\d+: expected"),
    ("qlever", r"qlever", r'"exception"\s*:.*"(?:resultsize|status)"'),
)
"""Dialects, each with a pattern for the header ``Server``, and one for the text of an error."""


def dialect_at(url: str, name: str, http: HttpClient) -> Dialect:
    """An endpoint's dialect: the one named or, for ``auto``, what ``probe`` finds. Raises UsageError, as ``probe``."""

    def ask(query: str) -> Reply:
        # Posted, so that no cache keeps the error that an engine answers with.
        return http.fetch(Request("sparql", url, {"query": query}, post=True), any_status)

    return probe(ask) if name == AUTO else dialect_named(name)


def probe(ask: Callable[[str], Reply]) -> Dialect:
    """What an endpoint understands, by replies of ``ask``, whatever their status. Raises ServiceError, Again."""
    first = ask(_PLAIN)
    if not read_query(first).rows:
        raise BadResponse(f"{first.url} does not answer the simplest query as SPARQL 1.1 has it")
    server = first.headers.get("server", "")
    name = next((name for name, pattern, _ in _SIGNS if re.search(pattern, server, re.IGNORECASE)), "")
    if re.search(r'"meta"\s*:\s*\{[^}]*"query-time-ms"', first.text):
        name = "qlever"
    if not name:
        second = ask(_NAMED)
        if (named := _table(second)) is not None and len(named) == 1:
            return DIALECTS["wdqs"]
        name = next((name for name, _, error in _SIGNS if re.search(error, second.text, re.DOTALL)), "")
    if not name:
        found = _table(ask(_LATERAL))
        return replace(DIALECTS["sparql11"], lateral=bool(found and found.rows and found.rows[0][0]))
    return _with_text(DIALECTS[name], ask) if DIALECTS[name].text else DIALECTS[name]


def _with_text(dialect: Dialect, ask: Callable[[str], Reply]) -> Dialect:
    """The dialect, with its text index only where that finds a label of the data by a long word of plain letters."""
    labels = _table(ask(_SOME_LABELS))
    texts = (row[0].value.lower() for row in (labels.rows if labels else ()) if row[0])
    words = (match for text in texts if (match := re.search(r"\b[a-z]{4,20}\b", text)))
    if word := next(words, None):
        found = _table(ask(f"SELECT ?s WHERE {{ {text_search(dialect, '?s', [_LABEL], '?label', word[0])} }} LIMIT 1"))
        if found is not None and found.rows:
            return dialect
    return replace(dialect, text="")


def _table(reply: Reply) -> AnswerTable | None:
    try:
        return read_query(reply)
    except (TellModel, BadResponse):
        return None
    except Again:
        if reply.status == 500:  # some engines answer so to what they do not understand
            return None
        raise


def any_status(reply: Reply) -> Reply:
    """A reader that lets errors about a query pass, and raises for those of the service, as ``check_status`` does."""
    if reply.status != 500:
        check_status(reply)
    return reply
