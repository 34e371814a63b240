"""How texts are compared and cut into words, in the index and in what is asked of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_RUN = re.compile(
    "[\u3005-\u3007\u3041-\u3096\u30a1-\u30fa\u30fc-\u30fe\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Han, hiragana and katakana."""
_OR = re.compile(r"\s+OR\s+")
_ACCENTS = re.compile("[\u0300-\u036f]")


def fold(text: str) -> str:
    """A text as names are compared: without case, accents and doubled spaces."""
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return " ".join(text.casefold().split())


def split(text: str | None) -> str | None:
    """A text with each run of Chinese characters or kana in pairs, the last alone too: ``北京 京市 市`` of ``北京市``.

    So each part of a run is a phrase of pairs, or a single character the beginning of one.
    """
    return text and _RUN.sub(
        lambda run: f" {' '.join(run[0][place : place + 2] for place in range(len(run[0])))} ", text
    )


def phrases(text: str) -> Iterator[str]:
    """The words of a text as the index's query language has them, each quoted; operators are plain words."""
    for word in re.findall(r"\w+", _RUN.sub(r" \g<0> ", text)):
        if _RUN.fullmatch(word) is None:
            yield f'"{word}"'
        elif len(word) == 1:
            yield f'"{word}" *'
        else:
            yield f'"{" ".join(word[place : place + 2] for place in range(len(word) - 1))}"'


def any_of(text: str) -> str:
    """The query for all words of a text or, with ``OR`` between them, those of one side; empty where it has none."""
    return " OR ".join(some for part in _OR.split(text) if (some := " ".join(phrases(part))))


def as_phrase(text: str) -> str:
    """The query for the words of a text one behind the other; empty where it has none."""
    words = [phrase.strip('"* ') for phrase in phrases(text)]
    return f'"{" ".join(words)}"' if words else ""
