"""A hook of the site's build: links to files outside the guide, which the site does not have, become plain text."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page's text as the site shows it."""
    return _OUTSIDE.sub(r"\1", markdown)
