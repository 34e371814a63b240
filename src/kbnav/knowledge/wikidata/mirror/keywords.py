"""The keywords of Wikidata's full-text search: ``haswbstatement:`` and ``insource:``, beside plain words.

https://www.mediawiki.org/wiki/Help:Extension:WikibaseCirrusSearch tells their form. Here ``insource`` looks into the
texts that statements and qualifiers have as values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyoxigraph import Literal, NamedNode, Store

from kbnav.knowledge.wikidata.mirror import vocabulary as v
from kbnav.knowledge.wikidata.mirror.documents import Documents
from kbnav.knowledge.wikidata.mirror.search import Index

_KEYWORD = re.compile(r'(?<!\S)(-?)(haswbstatement|insource):\s*(?:"((?:[^"\\]|\\.)*)"|(\S+))', re.IGNORECASE)
_CONDITION = re.compile(r"(P[1-9]\d{0,9})(?:=(.*?))?(?:\[(P[1-9]\d{0,9})(?:=(.*))?\])?", re.IGNORECASE | re.DOTALL)


class UnreadKeyword(ValueError):
    """A keyword whose value is not in a form that is understood."""


class NoValues(Exception):
    """The mirror has no index of values, because an older version built it."""


@dataclass(frozen=True)
class Keyword:
    """One keyword of a search; ``without`` where it excludes."""

    name: str
    value: str
    without: bool


def read_keywords(search: str) -> tuple[list[Keyword], str]:
    """The keywords of a search, and what remains: plain words."""
    found = [
        Keyword(match[2].lower(), match[4] or re.sub(r"\\(.)", r"\1", match[3]), bool(match[1]))
        for match in _KEYWORD.finditer(search)
    ]
    return found, " ".join(_KEYWORD.sub(" ", search).split())


def by_keywords(
    documents: Documents, index: Index, keywords: Sequence[Keyword], words: str, kinds: Sequence[str]
) -> list[str]:
    """All entities that fit every keyword and the words, best first. Raises UnreadKeyword, NoValues."""
    wanted: set[str] | None = set(index.by_words(words, kinds, limit=-1)[0]) if words else None
    unwanted: set[str] = set()
    for keyword in keywords:
        found = _found(documents, index, keyword)
        if keyword.without:
            unwanted |= found
        else:
            wanted = found if wanted is None else wanted & found
    if wanted is None:
        raise UnreadKeyword("a search needs something to look for beside what it leaves out")
    return index.ranked(wanted - unwanted, kinds)


def _found(documents: Documents, index: Index, keyword: Keyword) -> set[str]:
    if keyword.name == "insource":
        if re.match(r"/.*/", keyword.value):
            raise UnreadKeyword("insource: regular expressions are not searched for here, only words")
        if not index.has_values:
            raise NoValues
        return set(index.by_value(keyword.value))
    found: set[str] = set()
    for condition in keyword.value.split("|"):
        read = _CONDITION.fullmatch(condition.strip())
        if read is None:
            raise UnreadKeyword(f"haswbstatement: not a statement: {condition[:100]}")
        found.update(
            _stated(documents.store, documents.names_here, read[1].upper(), read[2], (read[3] or "").upper(), read[4])
        )
    return found


def _stated(
    store: Store, here: v.Namespaces, property_id: str, value: str | None, qualifier: str, qualified: str | None
) -> Iterator[str]:
    """Entities with such a statement; without a value, or with ``*``, any will do."""
    if not qualifier:
        yield from map(here.local_id, _uses(store, here, here.wdt + property_id, value))
    for statement in _uses(store, here, here.ps + property_id, value):
        node = NamedNode(statement)
        qualifiers = _objects(store, node, here.pq + qualifier) if qualifier else ()
        if qualifier and not any(_is(one, qualified, here) for one in qualifiers):
            continue
        for quad in store.quads_for_pattern(None, NamedNode(here.p + property_id), node, None):
            if isinstance(quad.subject, NamedNode):
                yield here.local_id(quad.subject.value)


def _uses(store: Store, here: v.Namespaces, predicate: str, value: str | None) -> Iterator[str]:
    """The subjects of triples with a predicate and value."""
    entity = (value or "").strip().upper()
    target = NamedNode(here.wd + entity) if v.is_entity_id(entity) else None
    for quad in store.quads_for_pattern(None, NamedNode(predicate), target, None):
        if isinstance(quad.subject, NamedNode) and (target is not None or _is(quad.object, value, here)):
            yield quad.subject.value


def _objects(store: Store, subject: NamedNode, predicate: str) -> Iterator[object]:
    return (quad.object for quad in store.quads_for_pattern(subject, NamedNode(predicate), None, None))


def _is(term: object, value: str | None, here: v.Namespaces) -> bool:
    """Whether a term is a value as a search has it, in any case; a monolingual text, a date or a number is none."""
    if value is None or value.strip() == "*":
        return True
    if isinstance(term, NamedNode):
        return here.local_id(term.value).casefold() == value.strip().casefold() != ""
    if not isinstance(term, Literal) or term.language or term.datatype.value != f"{v.XSD}string":
        return False
    return term.value.casefold() == value.strip().casefold()
