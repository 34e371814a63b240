"""One line of what a document says: the sentence that fits a question best, or the first of what reads like prose.

Addresses, identifiers, bare numbers and other names say nothing of a node to who does not know it, and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kbnav.answers.relevance import relevance
from kbnav.knowledge.skb.documents import Fields, is_empty

WIDTH = 160
"""Characters of an excerpt."""
_READ = 20_000
"""Characters of a document that are looked at."""
_PROSE = 4
"""Words from which on a value reads like prose."""
_FACTS = 3
"""Fields that are told of a document without prose."""
_TELLING = ("description", "summary", "abstract", "definition", "gloss", "details")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_IDENTIFIER = re.compile(r"(?=\S*\d)[\w.:/#-]+|\d[\d.,:/ -]*")
_ADDRESS = re.compile(r"\S*(?:://|www\.)\S*")
_ASIDE = re.compile(r"(?:^|[ _])(?:ids?|urls?|uri|iri|licen[cs]es?|rights|copyright|sources?)$|^_", re.IGNORECASE)
"""Names of fields that hold identifiers or addresses, or say where the text is from and on what terms."""


def excerpt(fields: Fields, name: str = "", *, about: str = "", without: Collection[str] = ()) -> str:
    """At most ``WIDTH`` characters on one line; empty where the document says nothing but names and numbers.

    Args:
        fields: the document.
        name: that of the node, which need not be told again.
        about: a question; the sentence that shares most with it is taken, where one shares anything.
        without: fields that hold other names.
    """
    found = [(key, text) for key, text in _texts(fields, frozenset(without)) if text.casefold() != name.casefold()]
    prose = [(key, text) for key, text in found if len(text.split()) >= _PROSE or key in _TELLING]
    if not prose:
        return _line("; ".join(f"{key}: {text}" for key, text in found[:_FACTS]))
    prose.sort(key=lambda one: one[0].split(" ")[-1] not in _TELLING)
    if about:
        sentences = [part.strip() for _, text in prose for part in _SENTENCE.split(text) if part.strip()]
        scores = relevance(about, sentences)
        best = max(range(len(sentences)), key=lambda place: scores[place])
        if scores[best] > 0:
            return _line(sentences[best])
    return _line(prose[0][1])


def _texts(fields: Fields, without: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Fields with what they say, nested ones by their own names; of the first ``_READ`` characters."""
    room = _READ
    for key, value in _leaves(fields, ""):
        if key in without or _ASIDE.search(key):
            continue
        said = [text for text in (" ".join(str(one).split()) for one in value) if _says(text)]
        text = ", ".join(said)[:room]
        if text:
            yield key.replace("_", " "), text
        room -= len(text)
        if room <= 0:
            return


def _leaves(value: Any, key: str) -> Iterator[tuple[str, list[Any]]]:
    if is_empty(value) or isinstance(value, bool):
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, str(name))
    elif isinstance(value, list):
        plain = [one for one in value if not isinstance(one, (Mapping, list))]
        if plain:
            yield key, plain
        for one in value:
            if isinstance(one, (Mapping, list)):
                yield from _leaves(one, key)
    else:
        yield key, [value]


def _says(text: str) -> bool:
    return bool(text) and not _IDENTIFIER.fullmatch(text) and not _ADDRESS.fullmatch(text)


def _line(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 1].rstrip() + "…"
