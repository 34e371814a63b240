"""Check a query before it is sent: that it only reads, asks no foreign service, and parses.

Nothing is run here, and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

from kbnav.knowledge.sparql.aliases import expand_aliases
from kbnav.knowledge.sparql.guard import guard, service_targets
from kbnav.knowledge.sparql.labels import LABEL_SERVICE
from kbnav.knowledge.sparql.locate import explain
from kbnav.knowledge.sparql.parser import parse_error
from kbnav.knowledge.sparql.prefixes import STANDARD_PREFIXES, declared_prefixes, expand
from kbnav.knowledge.sparql.relax import parses_relaxed
from kbnav.knowledge.sparql.tokens import Nesting, Token, nesting, refuse_oversized, syntax_error, tokenize

_HINTS = "http://www.bigdata.com/queryHints#"


class QueryForm(StrEnum):
    """What a query returns: rows, a truth value, or (the last two) triples."""

    SELECT = "SELECT"
    ASK = "ASK"
    CONSTRUCT = "CONSTRUCT"
    DESCRIBE = "DESCRIBE"


def check(query: str, *, services: Collection[str], strict: bool, functions: Collection[str] = ()) -> QueryForm:
    """Check a query before it is sent, and say which form it has.

    Args:
        query: the text as the model wrote it; standard prefixes need not be declared.
        services: IRIs that SERVICE may name.
        strict: whether the query is for a store that knows the SPARQL standard, the label service and what
            ``expand_aliases`` rewrites only. Otherwise it is for Blazegraph, and its extensions pass.
        functions: IRIs of functions beyond the standard's that the store has; it matters where ``strict``.

    Raises:
        QueryRefused: the query changes data, names a dataset, or names a SERVICE that is not allowed.
        QuerySyntaxError: it does not parse, or is too large for parsers; line and column are those of ``query``.
    """
    refuse_oversized(query)
    guard(query, services)
    tokens = tokenize(query)
    form = query_form(query, tokens)
    nested = nesting(query, tokens)
    extension = _extension(tokens)
    if strict and extension:
        detail = f"{extension[1]} is an extension that this query service does not have; use standard SPARQL"
        raise syntax_error(query, extension[0].start, detail)
    if strict and (call := _unknown_function(tokens, nested, functions)):
        detail = f"the function {call.text} is an extension that this query service does not have"
        raise syntax_error(query, call.start, detail)
    text = without_services(query, tokens)
    error = parse_error(text)
    if error and not extension and (parse_error(expand_aliases(text)) if strict else not parses_relaxed(text)):
        raise explain(query, text, error)
    return form


def without_services(query: str, tokens: Sequence[Token]) -> str:
    """The query with each ``SERVICE target`` blanked out: a plain group is left, and positions stay as they were."""
    text = query
    targets = {target.start: target for target, _ in service_targets(tokens) if target}
    for index, token in enumerate(tokens):
        if token.is_word("SERVICE"):
            target = next((t for t in tokens[index + 1 : index + 3] if t.start in targets), None)
            end = target.end if target else token.end
            text = text[: token.start] + " " * (end - token.start) + text[end:]
    return text


def query_form(query: str, tokens: Sequence[Token]) -> QueryForm:
    """The form of a query, by its first word behind the declarations. Raises QuerySyntaxError where it has none."""
    index = 0
    while index < len(tokens) and tokens[index].is_word("PREFIX", "BASE"):
        index += 3 if tokens[index].is_word("PREFIX") else 2
    if index >= len(tokens):
        raise syntax_error(query, len(query), "expected SELECT, ASK, CONSTRUCT or DESCRIBE; the query is empty")
    if not tokens[index].is_word(*QueryForm):
        detail = f"expected SELECT, ASK, CONSTRUCT or DESCRIBE, not `{tokens[index].text[:40]}`"
        raise syntax_error(query, tokens[index].start, detail)
    return QueryForm(tokens[index].text.upper())


def _extension(tokens: Sequence[Token]) -> tuple[Token, str] | None:
    """The first token that only Blazegraph understands, and what it is called."""
    declared = declared_prefixes(tokens)
    services = {target.start: iri for target, iri in service_targets(tokens) if target}
    for token in tokens:
        if token.is_word("INCLUDE", "WITH") or token.kind == "subquery":
            return token, "a named subquery (WITH … AS %name, INCLUDE %name)"
        if expand(token, declared).startswith(_HINTS):
            return token, f"the query hint `{token.text}`"
        if services.get(token.start, LABEL_SERVICE) != LABEL_SERVICE:
            return token, f"SERVICE {token.text}"
    return None


def _unknown_function(tokens: Sequence[Token], nested: Nesting, functions: Collection[str]) -> Token | None:
    """The first call of a function that has an IRI and is neither a cast to an XSD type nor among ``functions``."""
    declared = declared_prefixes(tokens)
    for index, token in enumerate(tokens[:-1]):
        bracket = nested.parent[index]
        # Elsewhere a name before a bracket is a predicate, and the bracket a list.
        expression = (bracket >= 0 and tokens[bracket].text == "(") or tokens[index - 1].is_word(
            "FILTER", "HAVING", "BY"
        )
        if expression and token.kind in ("name", "iri") and tokens[index + 1].text == "(":
            iri = expand(token, declared)
            if iri not in functions and not iri.startswith(STANDARD_PREFIXES["xsd"]):
                return token
    return None
