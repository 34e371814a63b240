"""What people read around answers, in their language: on the page, in a terminal, from the bot.

Each language has one JSON file of texts under ``web/locale``. A text is a string with ``{names}`` for values, or one
string for each plural form of its value ``n``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FIRST = "en"
Book = Mapping[str, str | Mapping[str, str]]
"""Texts of one language by their keys."""
_NAME = re.compile(r"\{(\w+)\}")
_NOT_OF_SCRIPTS = (
    "about.", "api.", "bot.", "cli.", "closed.", "collect.", "entry.", "explore.", "judge.", "login.", "people.",
    "problem.", "statement.", "theme.",
)  # fmt: skip
"""Beginnings of texts that no script of the chat page needs: those of templates, APIs, the terminal and the bot."""


@cache
def books() -> Mapping[str, Book]:
    """Every language's texts, by its code."""
    files = sorted((Path(__file__).parent / "web" / "locale").glob("*.json"))
    return {path.stem: json.loads(path.read_text("utf-8")) for path in files}


class Texts:
    """The texts of one language, such as ``de`` or ``de-at``; English where there are none."""

    def __init__(self, language: str) -> None:
        code = language.partition("-")[0].lower()
        self.language = code if code in books() else FIRST
        self.book = books()[self.language]

    @property
    def of_scripts(self) -> Book:
        """The texts that scripts of the chat page need."""
        return {key: text for key, text in self.book.items() if not key.startswith(_NOT_OF_SCRIPTS)}

    @property
    def names(self) -> Mapping[str, object]:
        """Languages to choose from, by their own names."""
        return {code: book["language.name"] for code, book in books().items()}

    def __call__(self, key: str, **values: Any) -> str:
        """A text with its values put in. Raises KeyError."""
        text = self.book[key]
        if not isinstance(text, str):
            text = text["one" if values["n"] == 1 and "one" in text else "other"]
        return _NAME.sub(lambda found: number_text(values[found[1]]), text)


def number_text(value: object) -> str:
    """A value as text; the digits of a large number in groups, by a space that every language understands."""
    large = isinstance(value, int) and abs(value) >= 10_000
    return f"{value:,}".replace(",", "\u202f") if large else str(value)
