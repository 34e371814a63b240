"""What the server says in errors and notes, in the reader's language.

kbnav says everything in English, wherever it is used. The texts whose keys begin with ``said.`` are what readers of the
page meet of it: the English one is the form, with ``{names}`` for what changes, by which a text is recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from kbnav.apps.web.texts import FIRST, OF_SERVER, Texts, books

LONGEST = 2_000
"""Characters of a text that is looked at; kbnav's own are shorter."""
_SENTENCES = re.compile(r"(?<=[.!?]) (?=\S)")
_VALUE = re.compile(r"\\\{(\w+)\\\}")
_INNER = frozenset({"why"})
"""Values that are texts themselves."""


def said(text: str, language: str) -> str:
    """A text of kbnav's in a language of the page; sentences that are not known stay as they are."""
    if language == FIRST or len(text) > LONGEST:
        return text
    whole = _one(text, language)
    if whole is not None:
        return whole
    return " ".join(_known(_SENTENCES.split(text), language))


def answer_said(answer: Mapping[str, Any], language: str) -> dict[str, Any]:
    """An answer with its note, and a text that is not a writer's, in the reader's language."""
    return {**answer, **{name: said(answer[name], language) for name in ("note", "text") if answer.get(name)}}


def _known(sentences: Sequence[str], language: str) -> Iterator[str]:
    """Each text, of one sentence or two, that is known; the others as they are."""
    place = 0
    while place < len(sentences):
        for length in (2, 1):
            some = " ".join(sentences[place : place + length])
            if (told := _one(some, language)) is not None or length == 1:
                yield some if told is None else told
                place += length
                break


def _one(text: str, language: str) -> str | None:
    for form, key in _forms():
        if found := form.fullmatch(text):
            values = found.groupdict()
            told = {name: said(value, language) if name in _INNER else value for name, value in values.items()}
            return Texts(language)(key, **told)
    return None


@cache
def _forms() -> Sequence[tuple[re.Pattern[str], str]]:
    """How the English texts are recognised, those with the most words of their own first."""
    texts = {key: str(text) for key, text in books()[FIRST].items() if key.startswith(OF_SERVER)}
    longest = sorted(texts, key=lambda key: -len(re.sub(r"\{\w+\}", "", texts[key])))
    return [(re.compile(_VALUE.sub(r"(?P<\1>.+?)", re.escape(texts[key])), re.DOTALL), key) for key in longest]
