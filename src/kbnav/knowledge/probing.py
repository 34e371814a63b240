"""Find out which dialect an endpoint speaks, by at most six cheap queries, and keep that for a while.

An engine is known by what it says of itself (the ``Server`` header, QLever's ``meta``), by an extension that only
Blazegraph runs, and by the words of its error about it. A text index is believed only if it finds a label that is
there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kbnav.answers.tables import AnswerTable
from kbnav.errors import BadResponse, KbnavError, TellModel
from kbnav.knowledge.replies import Again, Reply, check_status, read_query
from kbnav.knowledge.sparql.dialects import DIALECTS, Dialect, TextIndex, dialect_named, text_search

Send = Callable[[str], Reply]
"""Sends a query and gives the reply, whatever its status."""

AGE = 30 * 24 * 3600.0
"""Seconds for which what was found out is used."""
_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_PLAIN = "SELECT (1 AS ?one) WHERE { }"
_NAMED = "SELECT ?x WITH { SELECT ?x WHERE { BIND(1 AS ?x) } } AS %one WHERE { INCLUDE %one }"
_LATERAL = "SELECT ?y WHERE { VALUES ?x { 1 } LATERAL { SELECT ?y WHERE { BIND(2 AS ?y) } } }"
_SOME_LABELS = f"SELECT ?label WHERE {{ ?s {_LABEL} ?label }} LIMIT 20"
_CONNECTORS = "SELECT ?name WHERE { ?name <http://www.ontotext.com/connectors/lucene#listConnectors> ?status } LIMIT 1"


@dataclass(frozen=True)
class _Sign:
    """What an engine's replies hold: a pattern for the header ``Server``, and one for an error's text."""

    dialect: Dialect
    server: str
    error: str
    text: tuple[TextIndex, ...] = ()
    """Kinds of text index that it may have."""


_NEVER = r"(?!)"
_SIGNS = (
    _Sign(DIALECTS["kbnav"], r"^kbnav", _NEVER),
    _Sign(DIALECTS["virtuoso"], r"virtuoso", r"^Virtuoso \w{5} Error", ("virtuoso",)),
    _Sign(DIALECTS["oxigraph"], r"oxigraph", r"^error at \d+:\d+: expected"),
    _Sign(DIALECTS["qlever"], r"qlever", r'"exception"\s*:.*"(?:resultsize|status)"', ("qlever",)),
    _Sign(
        replace(DIALECTS["sparql11"], engine="Apache Jena", lateral=True),
        r"jena|fuseki",
        r"^(?:Error 400: )?Parse error|Lexical error at line",
        ("jena",),
    ),
    _Sign(replace(DIALECTS["sparql11"], engine="Stardog"), r"stardog", r"stardog|QE0PE2", ("stardog",)),
    _Sign(replace(DIALECTS["sparql11"], engine="GraphDB or RDF4J"), r"graphdb", r"MALFORMED QUERY|rdf4j", ("graphdb",)),
)


def probe(ask: Send) -> Dialect:
    """Ask an endpoint what it understands.

    Raises ServiceError and its kinds where there is no query service, and Again where it may answer later.
    """
    first = ask(_PLAIN)
    plain = read_query(first)
    if not plain.rows:
        raise BadResponse(f"{first.url} does not answer the simplest query as SPARQL 1.1 has it")
    sign = _by_itself(first)
    if sign is None:
        second = ask(_NAMED)
        if (named := _table(second)) is not None and len(named) == 1:
            return DIALECTS["wdqs"]
        sign = next((one for one in _SIGNS if re.search(one.error, second.text, re.DOTALL)), None)
    found = sign.dialect if sign else _unknown(ask)
    return _with_text(found, sign.text if sign else (), ask)


def _by_itself(reply: Reply) -> _Sign | None:
    """The engine as its first reply tells it."""
    if re.search(r'"meta"\s*:\s*\{[^}]*"query-time-ms"', reply.text):
        return next(one for one in _SIGNS if one.dialect.name == "qlever")
    server = reply.headers.get("server", "")
    headers = " ".join([server, *(name for name in reply.headers if name.startswith("fuseki"))])
    return next((one for one in _SIGNS if re.search(one.server, headers, re.IGNORECASE)), None)


def _unknown(ask: Send) -> Dialect:
    """The standard, with LATERAL where an engine without a name turns out to have it."""
    found = _table(ask(_LATERAL))
    return replace(DIALECTS["sparql11"], lateral=bool(found and found.rows and found.rows[0][0]))


def _with_text(dialect: Dialect, kinds: tuple[TextIndex, ...], ask: Send) -> Dialect:
    """The dialect with the text index that finds a label of the data; with none where none does."""
    plain = replace(dialect, text="", index_name="")
    words = list(_words(_table(ask(_SOME_LABELS)))) if kinds else []
    for kind in kinds if words else ():
        name = ""
        if kind == "graphdb":
            listed = _table(ask(_CONNECTORS))
            cell = listed.rows[0][0] if listed and listed.rows else None
            name = re.split(r"[#/]", cell.value)[-1] if cell else ""
            if not name:
                continue
        tried = replace(plain, text=kind, index_name=name)
        pattern = text_search(tried, "?s", [_LABEL], "?label", words[0])
        found = _table(ask(f"SELECT ?s WHERE {{ {pattern} }} LIMIT 1"))
        if found is not None and found.rows:
            return tried
    return plain


def _words(labels: AnswerTable | None) -> Iterator[str]:
    """Words of labels that any text index has: long ones of plain letters."""
    for row in labels.rows if labels else ():
        yield from re.findall(r"\b[a-z]{4,20}\b", row[0].value.lower() if row[0] else "")


def _table(reply: Reply) -> AnswerTable | None:
    """The rows of a reply; None where the engine did not take the query."""
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


def dialect_at(url: str, name: str, home: Path, ask: Send, *, clock: Callable[[], float] = time.time) -> Dialect:
    """The dialect of an endpoint: the one that is named, or, for ``auto``, what was found out within the last 30 days.

    Raises UsageError for an unknown name, and what ``probe`` raises.
    """
    if name != "auto":
        return dialect_named(name)
    path = home / "dialects" / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
    with suppress(OSError, ValueError, KeyError, TypeError, KbnavError):
        said = json.loads(path.read_text(encoding="utf-8"))
        if said["url"] == url and 0 <= clock() - said["found"] < AGE:
            return replace(dialect_named(said["name"]), **{key: said[key] for key in _VARYING})
    dialect = probe(ask)
    document = {"url": url, "found": clock(), "name": dialect.name}
    document |= {key: getattr(dialect, key) for key in _VARYING}
    with suppress(OSError):  # then it is asked again
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(document), encoding="utf-8")
        unfinished.replace(path)
    return dialect


_VARYING = ("engine", "lateral", "text", "index_name")
"""What may differ between endpoints of one dialect."""
