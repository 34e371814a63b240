"""Answers as the bytes of a file, by the ending of its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from kbnav.apps.sharing.crate import Told, as_text, crate, metadata
from kbnav.apps.sharing.page import page

SharedForm = Literal["html", "jsonld", "zip"]
"""One page, a description for programs in the form of RO-Crate, or a crate with page, runs, queries and tables."""


def written(
    told: Sequence[Told], form: SharedForm, query_page: str, hide: Callable[[str], str] = lambda text: text
) -> bytes:
    """The file; ``hide`` takes out of every text what may not be told."""
    if form == "jsonld":
        return hide(as_text(metadata(told, query_page))).encode("utf-8", "replace")
    text = hide(page(told, query_page))
    return crate(told, text, query_page, hide) if form == "zip" else text.encode("utf-8", "replace")
