"""What the page says, in each reader's language: one JSON file a language under ``locale``.

A text is a string with ``{names}`` for values, or one string for each plural form of its value ``n``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.datastructures import Headers

from kbnav.apps.web.parts import HERE

Book = Mapping[str, str | Mapping[str, str]]
"""Texts of one language by their keys."""
COOKIE = "kbnav_language"
"""What a reader chose on the page; without it, what the browser asks for counts."""
FIRST = "en"
OF_SERVER = "said."
"""What keys of texts begin with that the server says by itself."""
_ASKED = re.compile(r"\s*([A-Za-z]{1,8})(?:-[A-Za-z0-9-]+)?\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?")
_NAME = re.compile(r"\{(\w+)\}")


@cache
def books() -> Mapping[str, Book]:
    """Every language's texts, by its code."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((HERE / "locale").glob("*.json"))}


def language_of(headers: Headers) -> str:
    """The language to speak to a reader: the one chosen, else the first that the browser asks for, else English."""
    try:
        chosen = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        chosen = None
    if chosen and chosen.value in books():
        return chosen.value
    asked = [found for one in headers.get("accept-language", "").split(",") if (found := _ASKED.fullmatch(one))]
    wanted = sorted(asked, key=lambda one: -float(one[2] or 1))
    return next((code for one in wanted if (code := one[1].lower()) in books() and one[2] != "0"), FIRST)


class Texts:
    """The texts of one language, for templates."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.book = books()[language]
        self.on_page = {key: text for key, text in self.book.items() if not key.startswith(OF_SERVER)}
        """The texts that the page's scripts need."""
        self.names = {code: book["language.name"] for code, book in books().items()}
        """Languages to choose from, by their own names."""

    def __call__(self, key: str, **values: Any) -> str:
        """A text with its values put in. Raises KeyError."""
        text = self.book[key]
        if not isinstance(text, str):
            text = text["one" if values["n"] == 1 and "one" in text else "other"]
        return _NAME.sub(lambda found: shown(values[found[1]]), text)


def shown(value: object) -> str:
    """A value as text; the digits of a large number in groups, by a space that every language understands."""
    large = isinstance(value, int) and abs(value) >= 10_000
    return f"{value:,}".replace(",", "\u202f") if large else str(value)
