"""The label service of the Wikidata query service, for engines that do not have it.

The service runs after everything else in its group, once for each row. So does what takes its place at the end of the
group, which looks up each language and takes the first that has something: a LATERAL subquery where the engine has
that (SPARQL 1.2 community proposal SEP-0006), which keeps its helper variables from a ``SELECT *``, or else OPTIONALs,
with the names that the ``*`` stood for in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kbnav.knowledge.sparql.parser import close_up, fresh_variable
from kbnav.knowledge.sparql.prefixes import declared_prefixes, expand
from kbnav.knowledge.sparql.reading import UnreadQuery, read_query
from kbnav.knowledge.sparql.syntax import subqueries
from kbnav.knowledge.sparql.tokens import Nesting, Token, nesting, syntax_error, tokenize

LABEL_SERVICE = "http://wikiba.se/ontology#label"
_LANGUAGE = "http://wikiba.se/ontology#language"
_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_ALIAS = "http://www.w3.org/2004/02/skos/core#altLabel"
_DESCRIPTION = "http://schema.org/description"
_SUFFIXES = {"AltLabel": _ALIAS, "Label": _LABEL, "Description": _DESCRIPTION}
_STAR = re.compile(r"\bSELECT\s+(?:DISTINCT\s+|REDUCED\s+)?\*", re.IGNORECASE)
_NOTHING = "<urn:kbnav:nothing>"


@dataclass(frozen=True)
class _Wish:
    """What one use of the service is to fill in: ``variable`` with the ``predicate`` (an IRI) of ``subject``."""

    subject: str
    predicate: str
    variable: str


@dataclass(frozen=True)
class _Block:
    """A ``SERVICE wikibase:label { … }`` by indexes of its tokens: SERVICE, ``{`` and ``}``."""

    start: int
    open: int
    close: int


def rewrite_label_service(query: str, *, lateral: bool = True, auto_language: str = "en") -> str:
    """Rewrite a query that uses the label service for an engine that does not have it.

    Both modes work: the automatic one (``?xLabel``, ``?xDescription`` and ``?xAltLabel`` wherever the SELECT uses them
    without giving them a value) and the manual one. An entity without a label is labelled with its id, a literal with
    itself.

    Args:
        query: SPARQL.
        lateral: whether the engine has LATERAL.
        auto_language: stands for ``[AUTO_LANGUAGE]``.

    Raises QuerySyntaxError where strings or brackets do not close, or a ``*`` cannot be resolved.
    """
    tokens = tokenize(query)
    nested = nesting(query, tokens)
    blocks = list(_blocks(tokens, nested))
    edits: dict[tuple[int, int], str] = {}
    done: set[tuple[int, str]] = set()
    for block in blocks:
        following = block.close + 1
        dot = following < len(tokens) and tokens[following].text == "."
        apart = tokens[block.start - 1].text in ("{", "}", ".")
        edits[tokens[block.start].start, tokens[following if dot else block.close].end] = "" if apart else "."
        languages, wishes = _read(tokens[block.open + 1 : block.close], declared_prefixes(tokens), auto_language)
        for wish in wishes or _automatic(tokens, nested, block, blocks):
            group = _group(tokens, nested, block, wish, blocks)
            if group is not None and (group, wish.variable) not in done:
                done.add((group, wish.variable))
                place = tokens[nested.close[group]].start
                key = "?" + fresh_variable(query, "labelled") + ("" if lateral else f"_{len(done)}")
                edits[place, place] = edits.get((place, place), "") + _lookup(key, wish, languages, lateral)
    if done and not lateral:
        edits |= _named_stars(query, [tokens[nested.close[group]].start for group, _ in done])
    for (start, end), text in sorted(edits.items(), reverse=True):
        query = query[:start] + text + query[end:]
    return close_up(query)


def _named_stars(query: str, places: Sequence[int]) -> dict[tuple[int, int], str]:
    """For each ``SELECT *`` around one of the places the names that it stands for."""
    try:
        read = read_query(query)
    except UnreadQuery as error:
        if _STAR.search(query):
            raise syntax_error(query, 0, "name the variables behind SELECT where labels are asked for") from error
        return {}
    selects = [one for one in (read.select, *subqueries(read.where)) if one is not None]
    found = {}
    for place in places:
        around = [one for one in selects if one.where.place.start < place < one.where.place.end]
        inner = max(around, key=lambda one: one.where.place.start, default=None)
        if inner is not None and inner.star is not None:
            found[inner.star.start, inner.star.end] = " ".join(inner.where.visible)
    return found


def _blocks(tokens: Sequence[Token], nested: Nesting) -> Iterator[_Block]:
    declared = declared_prefixes(tokens)
    for index, token in enumerate(tokens):
        if token.is_word("SERVICE"):
            target = index + (2 if index + 1 < len(tokens) and tokens[index + 1].is_word("SILENT") else 1)
            named = target < len(tokens) and expand(tokens[target], declared) == LABEL_SERVICE
            if named and target + 1 in nested.close:
                yield _Block(index, target + 1, nested.close[target + 1])


def _read(block: Sequence[Token], declared: dict[str, str], auto_language: str) -> tuple[list[str], list[_Wish]]:
    """The languages, best first, and the triples that are not parameters."""
    languages: list[str] = []
    wishes: list[_Wish] = []
    subject, predicate, place = "", "", 0
    for token in block:
        if token.text in (".", ";", ","):
            place = {".": 0, ";": 1, ",": 2}[token.text]
        elif place == 0:
            subject, place = token.text, 1
        elif place == 1:
            predicate, place = expand(token, declared), 2
        elif predicate == _LANGUAGE and token.kind == "string":
            languages += [code.strip() for code in token.text.strip("\"'").split(",")]
        elif predicate in _SUFFIXES.values() and token.kind == "variable":
            wishes.append(_Wish(subject, predicate, token.text))
    codes = [auto_language if code == "[AUTO_LANGUAGE]" else code.lower() for code in languages]
    return list(dict.fromkeys(code for code in codes if code.replace("-", "").isalnum())), wishes


def _automatic(tokens: Sequence[Token], nested: Nesting, block: _Block, blocks: Sequence[_Block]) -> list[_Wish]:
    """Label variables that the SELECT around the service uses and that nothing in it binds."""
    scope = _select(tokens, nested, block.start)
    used: dict[str, None] = {}
    bound: set[str] = set()
    for index in range(scope + 1, nested.close[scope] if scope >= 0 else len(tokens)):
        if tokens[index].kind != "variable" or any(other.open < index < other.close for other in blocks):
            continue
        name = "?" + tokens[index].text[1:]
        if _binds(tokens, nested, index, scope):
            bound.add(name)
        if _select(tokens, nested, index) == scope:
            used[name] = None
    wishes = []
    for name in used:
        suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), None)
        subject = name.removesuffix(suffix) if suffix else "?"
        if suffix and subject != "?" and name not in bound:
            wishes.append(_Wish(subject, _SUFFIXES[suffix], name))
    return wishes


def _select(tokens: Sequence[Token], nested: Nesting, index: int) -> int:
    """The bracket of the innermost subquery around a token, -1 where it belongs to the query itself."""
    bracket = nested.parent[index]
    while bracket >= 0 and not tokens[bracket + 1].is_word("SELECT"):
        bracket = nested.parent[bracket]
    return bracket


def _binds(tokens: Sequence[Token], nested: Nesting, index: int, scope: int) -> bool:
    """Whether a variable gets a value here: by a triple, VALUES, a subquery or AS; a filter only reads it."""
    bracket = nested.parent[index]
    if tokens[index - 1].is_word("AS"):
        return True
    return bracket != scope and tokens[bracket].text in ("{", "[") and not tokens[bracket - 1].is_word("CONSTRUCT")


def _group(
    tokens: Sequence[Token], nested: Nesting, block: _Block, wish: _Wish, blocks: Sequence[_Block]
) -> int | None:
    """The innermost group around the service that knows the wish's subject; None where no group does."""
    scope = _select(tokens, nested, block.start)
    group = nested.parent[block.start]
    while group > scope:
        inside = range(group + 1, nested.close[group])
        outside = (i for i in inside if not any(other.open < i < other.close for other in blocks))
        if not wish.subject.startswith(("?", "$")) or any(
            tokens[i].kind == "variable" and tokens[i].text[1:] == wish.subject[1:] for i in outside
        ):
            return group
        group = nested.parent[group]
    return None


def _lookup(key: str, wish: _Wish, languages: Sequence[str], lateral: bool) -> str:
    """The patterns that fill in a wish; ``key`` is a variable that nothing else has, nor its like with ``_0``."""
    found = [f"{key}_{place}" for place in range(len(languages))]
    parts = [f"BIND(COALESCE({wish.subject}, {_NOTHING}) AS {key})"]
    for name, language in zip(found, languages, strict=True):
        if wish.predicate == _ALIAS:
            one = f'{key} <{_ALIAS}> ?one FILTER(LANG(?one) = "{language}")'
            joined = f'SELECT {key} (GROUP_CONCAT(?one; SEPARATOR=", ") AS {name})'
            if lateral:
                parts.append(f"LATERAL {{ {joined} WHERE {{ OPTIONAL {{ {one} }} }} GROUP BY {key} }}")
            else:
                parts.append(f"OPTIONAL {{ {joined} WHERE {{ {one} }} GROUP BY {key} }}")
        else:
            parts.append(f'OPTIONAL {{ {key} <{wish.predicate}> {name} FILTER(LANG({name}) = "{language}") }}')
    if wish.predicate == _LABEL:
        found.append(f'REPLACE(STR({wish.subject}), "^https?://[^/]+/entity/", "")')
    if found:
        parts.append(f"BIND(COALESCE({', '.join(found)}) AS {wish.variable})")
    if not lateral:
        return f" {' '.join(parts)} "
    kept = f"{wish.subject} " if wish.subject.startswith(("?", "$")) else ""
    return f" LATERAL {{ SELECT {kept}{wish.variable} WHERE {{ {' '.join(parts)} }} }} "
