"""The SPARQL endpoint: a query and an Accept header in, a reply out, errors in the words of the query service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kbnav.errors import QueryRefused, QuerySyntaxError
from kbnav.knowledge.serving.http import Asked, Reply, failure
from kbnav.knowledge.sparql.dialects import DIALECTS, GEO_WIKIDATA
from kbnav.knowledge.sparql.prefixes import STANDARD_PREFIXES
from kbnav.knowledge.sparql.rewriting import prepare
from kbnav.knowledge.wikidata.mirror.pool import Gone, QueryError, QueryPool
from kbnav.knowledge.wikidata.mirror.worker import DAYS, Form

_PLAIN = "text/plain;charset=utf-8"
_FORMS: Mapping[str, Form] = {
    "application/sparql-results+json": "json",
    "application/json": "json",
    "json": "json",
    "application/sparql-results+xml": "xml",
    "application/xml": "xml",
    "xml": "xml",
    "text/csv": "csv",
    "csv": "csv",
    "text/tab-separated-values": "tsv",
    "tsv": "tsv",
}
_GRAPH_FORMS: Mapping[str, Form] = {
    "text/turtle": "turtle",
    "application/x-turtle": "turtle",
    "turtle": "turtle",
    "application/n-triples": "ntriples",
    "text/plain": "ntriples",
    "ntriples": "ntriples",
    "application/rdf+xml": "rdfxml",
    "rdf": "rdfxml",
    "xml": "rdfxml",
    "application/sparql-results+json": "json",
    "application/json": "json",
    "json": "json",
}
MIRROR = replace(
    DIALECTS["oxigraph"],
    federation=False,
    closed=True,
    geo=GEO_WIKIDATA,
    functions=DIALECTS["wdqs"].functions,
    days=DAYS,
)
"""What a mirror understands beyond what is rewritten: Oxigraph with the functions of ``functions``."""
_EXECUTION = "java.util.concurrent.ExecutionException: "


def sparql_protocol(pool: QueryPool, asked: Asked, prefixes: Mapping[str, str]) -> Reply:
    """Answer a request of the SPARQL 1.1 protocol for a query; ``prefixes`` need not be declared."""
    parameters = asked.parameters
    if "update" in parameters:
        return failure(405, "a mirror is read-only: updates are refused")
    if not parameters.get("query", "").strip():
        return failure(400, 'the parameter "query" is missing')
    if "named-graph-uri" in parameters:
        return failure(400, "named-graph-uri is not understood here: every named graph is there")
    form, graph = parameters.get("format", ""), parameters.get("default-graph-uri", "")
    query, gone = parameters["query"], asked.gone
    return answer_query(pool, query, accept=asked.accept, form=form, prefixes=prefixes, graph=graph, gone=gone)


def answer_query(
    pool: QueryPool,
    query: str,
    *,
    accept: str = "",
    form: str = "",
    prefixes: Mapping[str, str] = STANDARD_PREFIXES,
    graph: str = "",
    gone: Gone | None = None,
) -> Reply:
    """Run one query, on one ``graph`` where it is given by its IRI.

    ``form`` is the ``format`` parameter, which goes before the Accept header.

    As on Wikidata, rows come as XML and triples as RDF/XML to clients that ask for nothing.
    """
    try:
        prepared = prepare(query, MIRROR, prefixes=prefixes).text
        wanted = [form.lower(), *_accepted(accept)]
        forms = _choose(_FORMS, wanted, "xml"), _choose(_GRAPH_FORMS, wanted, "rdfxml")
        result = pool.query(prepared, *forms, graph=graph, gone=gone)
    except (QuerySyntaxError, QueryRefused) as error:
        return _error(400, query, f"{_EXECUTION}org.openrdf.query.MalformedQueryException: {error}")
    except QueryError as error:
        return _query_error(query, error)
    return Reply(200, result.media_type, result.body)


def _query_error(query: str, error: QueryError) -> Reply:
    if error.reason == "broken":  # without the query, which is not at fault
        return Reply(500, _PLAIN, f"500: the mirror failed: {error}\n".encode(errors="replace"))
    if error.reason == "busy":
        return failure(503, str(error))
    if error.reason == "timeout":
        return _error(500, query, f"java.util.concurrent.TimeoutException: {error}")
    if error.reason == "memory":
        return _error(500, query, f"{_EXECUTION}java.lang.OutOfMemoryError: {error}")
    if error.reason == "syntax":
        return _error(400, query, f"{_EXECUTION}org.openrdf.query.MalformedQueryException: {error}")
    return _error(500, query, f"{_EXECUTION}{error}")


def _error(status: int, query: str, trace: str) -> Reply:
    return Reply(status, _PLAIN, f"SPARQL-QUERY: queryStr={query}\n{trace}\n".encode(errors="replace"))


def _accepted(accept: str) -> list[str]:
    """The media types of an Accept header, the most wanted first."""
    found = []
    for part in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
        try:
            found.append((-float(quality), name))
        except ValueError:
            continue
    return [name for _, name in sorted(found, key=lambda pair: pair[0])]


def _choose(forms: Mapping[str, Form], wanted: list[str], default: Form) -> Form:
    return next((forms[name] for name in wanted if name in forms), default)
