"""Reading what a model was asked to write: entities as JSON, or one document; whatever else it put around them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kbnav.knowledge.skb.names import normalise
from kbnav.knowledge.skb.nodes import plain_text
from kbnav.retrieval.common import without_thought

_FENCED = re.compile(r"[^\n`]{0,80}\s*```[\w-]*\n?((?:(?!```).)*)(?:```\s*)?", re.DOTALL)
"""A reply that is one fence of code, with a line at most before it."""
_LABEL = re.compile(r"\A\s*(?:[*_#\s]*)(?:answer|document|keywords|analysis)\s*:[*_]*\s*", re.IGNORECASE)
_ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+(.+?)\s*$", re.MULTILINE)
_NO_NAME = re.compile(r"\W*(?:none|null|n/a|no\b.*\bentit(?:y|ies)\b.*)\W*", re.IGNORECASE | re.DOTALL)
"""What stands in the place of a name where there is none."""
_OPENING = re.compile(r"[\[{]")
_NAMING = ("name", "title")
"""In the name of the field that holds a document's name."""
_DEEPEST = 8
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class Entity:
    """A thing that a query names, as a model wrote its document.

    ``kind`` is a node type of the SKB, empty where the model named none that exists. ``text`` is the whole document,
    its name first.
    """

    kind: str
    name: str
    text: str


def document(reply: str) -> str:
    """The document in a reply: without thoughts, a fence of code around the whole of it, and a label before it."""
    said = without_thought(reply)
    fenced = _FENCED.fullmatch(said)
    return _LABEL.sub("", fenced[1] if fenced else said).strip()


def entities(reply: str, kinds: Sequence[str]) -> list[Entity]:
    """The entities in a reply, each once, in its order.

    Asked for is a JSON list of ``{type: {field: value}}``. Read as well are one object of all types, a list of
    documents under a type, objects one after the other, Python's notation, plain names in a JSON list, and a list of
    lines ``- type: name``. Nothing is made of prose, of thoughts, or of names that say that there is none.
    """
    said = without_thought(reply)
    known = {normalise(kind): kind for kind in kinds}
    found = [entity for value in _values(said) for entity in _entities(value, "", known)]
    if not found:
        found = [entity for line in _ITEM.findall(said) for entity in _line(line, known)]
    named = [entity for entity in reversed(found) if not _NO_NAME.fullmatch(entity.name)]
    return list({(entity.kind, normalise(entity.name)): entity for entity in named}.values())[::-1]


def _values(reply: str) -> Iterator[Any]:
    """Every JSON list or object in a text, not those inside of another; else one in Python's notation."""
    place, none = 0, True
    while match := _OPENING.search(reply, place):
        try:
            value, place = _DECODER.raw_decode(reply, match.start())
        except (ValueError, RecursionError):
            place = match.end()
            continue
        none = False
        yield value
    match = _OPENING.search(reply)
    if none and match and "\\" not in reply:  # an escape that Python does not know would warn
        end = max(reply.rfind("]"), reply.rfind("}")) + 1
        with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            yield ast.literal_eval(reply[match.start() : end])


def _entities(value: Any, kind: str, known: Mapping[str, str], depth: int = 0) -> Iterator[Entity]:
    """What one value names: a name, a document, a list of either, or an object of these by their types."""
    if depth > _DEEPEST:
        return
    if isinstance(value, str) and value.strip():
        yield Entity(kind, value.strip(), value.strip())
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _entities(item, kind, known, depth + 1)
    elif isinstance(value, Mapping):
        typed = {key: known[normalise(str(key))] for key in value if normalise(str(key)) in known}
        if not kind and (typed or all(isinstance(inner, (Mapping, list, tuple)) for inner in value.values())):
            for key, inner in value.items():
                if key in typed or not isinstance(inner, str):
                    yield from _entities(inner, typed.get(key, ""), known, depth + 1)
        else:
            yield from _document(value, kind, known, depth)


def _document(fields: Mapping[Any, Any], kind: str, known: Mapping[str, str], depth: int) -> Iterator[Entity]:
    """A document by its fields, one of which may say its type; or what holds such a document.

    Without a known type only a field for names makes a document of it: it may as well be a message.
    """
    words = {str(key): inner for key, inner in fields.items()}
    told = known.get(normalise(str(words.get("type", ""))))
    if told and not kind:
        kind = told
        del words["type"]
    texts = {key: inner for key, inner in words.items() if isinstance(inner, str) and inner.strip()}
    first = next(iter(texts), "") if kind else ""
    named = next((key for key in texts if any(part in key.casefold() for part in _NAMING)), first)
    if named:
        rest = plain_text({key: inner for key, inner in words.items() if key != named})
        name = texts[named].strip()
        yield Entity(kind, name, "\n".join(part for part in (name, rest) if part))
    else:
        yield from _entities([inner for inner in words.values() if not isinstance(inner, str)], kind, known, depth + 1)


def _line(line: str, known: Mapping[str, str]) -> Iterator[Entity]:
    """A line of a list, ``type: name``; without a known type it may as well be prose."""
    head, _, name = (part.strip(" \t*_`\"'“”") for part in line.partition(":"))
    if name and normalise(head) in known:
        yield Entity(known[normalise(head)], name, name)
