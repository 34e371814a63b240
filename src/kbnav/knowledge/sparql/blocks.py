"""Blocks such as ``SERVICE wikibase:around { … }``, and the plain triples in them, by a query's tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kbnav.knowledge.sparql.prefixes import declared_prefixes, expand
from kbnav.knowledge.sparql.tokens import Nesting, Token, nesting, tokenize

SERVICE_PARAMETER = "http://www.bigdata.com/rdf#serviceParam"


@dataclass(frozen=True)
class Parsed:
    """A query's text with its tokens, how they nest, and the prefixes that it declares."""

    text: str
    tokens: Sequence[Token]
    nested: Nesting
    declared: Mapping[str, str]

    def iri(self, index: int) -> str:
        """The IRI that a token stands for; empty where it is none, or there is no such token."""
        return expand(self.tokens[index], self.declared) if index < len(self.tokens) else ""

    def between(self, start: int, stop: int) -> str:
        """The text from a token to the one before ``stop``."""
        return self.text[self.tokens[start].start : self.tokens[stop - 1].end] if stop > start else ""


@dataclass(frozen=True)
class Block:
    """A SERVICE by indexes of its tokens: SERVICE itself, ``{`` and ``}``; ``target`` is what it names."""

    start: int
    target: int
    open: int
    close: int


def parsed(query: str) -> Parsed:
    """Split a query. Raises QuerySyntaxError where strings or brackets do not close."""
    tokens = tokenize(query)
    return Parsed(query, tokens, nesting(query, tokens), declared_prefixes(tokens))


def service_blocks(query: Parsed) -> Iterator[Block]:
    """Every SERVICE with a group behind it, in the order they are written."""
    for index, token in enumerate(query.tokens):
        if token.is_word("SERVICE"):
            silent = index + 1 < len(query.tokens) and query.tokens[index + 1].is_word("SILENT")
            target = index + (2 if silent else 1)
            if target + 1 in query.nested.close:
                yield Block(index, target, target + 1, query.nested.close[target + 1])


def parameters(query: Parsed, block: Block) -> tuple[str, dict[str, str]]:
    """The patterns of a block as text, and what its ``bd:serviceParam`` triples say by the predicates' IRIs."""
    patterns: list[str] = []
    said: dict[str, str] = {}
    for start, stop in _split(query, block.open + 1, block.close, block.open, "."):
        if query.iri(start) != SERVICE_PARAMETER:
            patterns.append(query.between(start, stop))
            continue
        for place, (first, last) in enumerate(_split(query, start, stop, block.open, ";")):
            predicate = first + (place == 0)
            said[query.iri(predicate)] = query.between(predicate + 1, last)
    return " . ".join(patterns), said


def _split(query: Parsed, start: int, stop: int, level: int, mark: str) -> Iterator[tuple[int, int]]:
    """Runs of tokens between marks that stand at one level of brackets; empty runs are left out."""
    begin = start
    for index in range(start, stop + 1):
        if index == stop or (query.tokens[index].text == mark and query.nested.parent[index] == level):
            if index > begin:
                yield begin, index
            begin = index + 1


def arguments(query: Parsed, bracket: int) -> list[str]:
    """The texts between the commas of a call, by its opening bracket."""
    close = query.nested.close[bracket]
    return [query.between(*run) for run in _split(query, bracket + 1, close, bracket, ",")]


def replaced(text: str, edits: Mapping[tuple[int, int], str]) -> str:
    """The text with parts of it, by start and end, replaced; the parts do not overlap."""
    for (start, end), new in sorted(edits.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return text
