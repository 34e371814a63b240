"""Queries for an engine other than the one that they were written for: the seam for every knowledge base.

Models and people write for Wikidata's query service, which is Blazegraph, or in standard SPARQL. ``prepare`` checks
such a query and gives the text that another engine runs with the same rows, or says which part it cannot say there.
It never leaves a part out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.aliases import expand_aliases
from kbnav.knowledge.sparql.blocks import Parsed, parsed, service_blocks
from kbnav.knowledge.sparql.check import QueryForm, check, query_form, without_services
from kbnav.knowledge.sparql.dates import rewrite_dates
from kbnav.knowledge.sparql.dialects import Dialect, TextIndex
from kbnav.knowledge.sparql.extensions import (
    AROUND,
    BOX,
    HINTS,
    SLICE,
    drop_hints,
    inline_subqueries,
    rewrite_services,
)
from kbnav.knowledge.sparql.functions import missing_function, rewrite_functions
from kbnav.knowledge.sparql.guard import guard
from kbnav.knowledge.sparql.labels import LABEL_SERVICE, rewrite_label_service
from kbnav.knowledge.sparql.locate import explain
from kbnav.knowledge.sparql.parser import close_up, parse_error
from kbnav.knowledge.sparql.prefixes import STANDARD_PREFIXES, add_prefixes
from kbnav.knowledge.sparql.tokens import refuse_oversized, syntax_error

REWRITTEN_SERVICES = frozenset({LABEL_SERVICE, AROUND, BOX, SLICE})
"""Services that no engine has to have: what they do is said in standard SPARQL."""
_BIGDATA = "http://www.bigdata.com/"
_WIKIDATA_ONLY: Mapping[str, str] = {
    "http://wikiba.se/ontology#mwapi": "it asks Wikidata's own search: search for the names, and put the ids in VALUES",
    f"{_BIGDATA}rdf/gas#service": "write a property path such as `wd:Q1 wdt:P40* ?x`",
    f"{_BIGDATA}rdf#sample": "there is no sample by chance: use a subquery with a LIMIT, which takes the first",
}
_TEXT: Mapping[str, TextIndex] = {
    "bif:contains": "virtuoso",
    "http://qlever.cs.uni-freiburg.de/builtin-functions/contains-word": "qlever",
    "http://qlever.cs.uni-freiburg.de/builtin-functions/contains-entity": "qlever",
    "http://jena.apache.org/text#query": "jena",
    "tag:stardog:api:property:textMatch": "stardog",
    "http://www.ontotext.com/connectors/lucene#query": "graphdb",
}


@dataclass(frozen=True)
class Prepared:
    """A query that was checked: its form, and the text to send, with the prefixes that it lacked in front."""

    form: QueryForm
    text: str
    changed: bool
    """Whether more than prefixes was changed, so that places in the engine's messages are not those of the query."""


def prepare(
    query: str,
    dialect: Dialect,
    *,
    services: Collection[str] = (),
    prefixes: Mapping[str, str] = STANDARD_PREFIXES,
    language: str = "en",
) -> Prepared:
    """Check a query and write it for an engine.

    Args:
        query: as a model or person wrote it, in standard SPARQL or for Wikidata's query service.
        dialect: the engine's.
        services: IRIs that SERVICE may name besides those that are rewritten.
        prefixes: need not be declared by the query.
        language: stands for ``[AUTO_LANGUAGE]`` where the label service is rewritten.

    Raises:
        QueryRefused: the query changes data, names a dataset, or a SERVICE that is not allowed.
        QuerySyntaxError: it does not parse, or has a part that the engine does not understand and that cannot be said
            otherwise; line and column are those of ``query``.
    """
    if dialect.blazegraph:
        form = check(query, services=services, strict=False)
        _refuse_missing(parsed(query), dialect)
        return Prepared(form, add_prefixes(query, prefixes), False)
    refuse_oversized(query)
    guard(query, {*services, *REWRITTEN_SERVICES, *_WIKIDATA_ONLY})
    split = parsed(query)
    form = query_form(query, split.tokens)
    _refuse_missing(split, dialect)
    text = rewrite(query, dialect, language=language)
    if error := parse_error(text):
        plain = without_services(query, split.tokens)
        own = None if _extended(split) else parse_error(plain)
        raise explain(query, plain, own) if own else _unparsed(text, dialect, error)
    return Prepared(form, add_prefixes(text, prefixes), text != query)


def rewrite(query: str, dialect: Dialect, *, language: str = "en") -> str:
    """The query in a dialect, with nothing checked; prefixes are not added. Raises QuerySyntaxError."""
    if dialect.blazegraph:
        return query
    text = drop_hints(inline_subqueries(query))
    text = rewrite_services(text, dialect)
    text = rewrite_dates(rewrite_functions(expand_aliases(text), dialect), dialect)
    return close_up(rewrite_label_service(text, lateral=dialect.lateral, auto_language=language))


def _refuse_missing(query: Parsed, dialect: Dialect) -> None:
    """Raise QuerySyntaxError for the first part that cannot be said in the dialect."""
    found = _missing_service(query, dialect) or _missing_word(query, dialect) or missing_function(query, dialect)
    if found:
        index, reason = found
        raise syntax_error(query.text, query.tokens[index].start, f"{dialect.engine} cannot run {reason}")


def _missing_service(query: Parsed, dialect: Dialect) -> tuple[int, str] | None:
    if dialect.blazegraph:
        return None
    for block in service_blocks(query):
        iri, shown = query.iri(block.target), f"SERVICE {query.tokens[block.target].text}"
        if iri in _WIKIDATA_ONLY:
            return block.target, f"{shown}: {_WIKIDATA_ONLY[iri]}"
        if (iri == AROUND and "distance" not in dialect.geo) or (iri == BOX and "latitude" not in dialect.geo):
            return block.target, f"{shown}: it has no functions for places"
        if iri not in REWRITTEN_SERVICES and not dialect.federation:
            return block.target, f"{shown}: it asks no other endpoint; ask that one by itself"
    return None


def _missing_word(query: Parsed, dialect: Dialect) -> tuple[int, str] | None:
    for index, token in enumerate(query.tokens):
        if token.is_word("LATERAL") and not dialect.lateral:
            return index, "LATERAL, which only Oxigraph and Jena have: use a subquery"
        owner = _TEXT.get("bif:contains" if token.text == "bif:contains" else query.iri(index))
        if owner and owner != dialect.text:
            return index, f"the text search `{token.text}` of another engine: use FILTER(CONTAINS(LCASE(?label), …))"
    return None


def _extended(query: Parsed) -> bool:
    """Whether a query has an extension that the standard's parser does not read."""
    return any(
        token.is_word("INCLUDE", "WITH") or token.kind == "subquery" or query.iri(index).startswith(HINTS)
        for index, token in enumerate(query.tokens)
    )


def _unparsed(text: str, dialect: Dialect, error: str) -> QuerySyntaxError:
    found = explain(text, text, error)
    return QuerySyntaxError(f"as rewritten for {dialect.engine}: {found}")
