"""What may be asked: one line of text, of a length that a person would write."""

from __future__ import annotations

import unicodedata

from kbnav.errors import UsageError

_UNWANTED = frozenset({"Cc", "Cs", "Co", "Cn"})
"""Control characters, lone surrogates, private use, unassigned."""
LONGEST_QUESTION = 10_000
"""Characters; a longer question is refused, because it is a document and not a question."""


def checked_question(question: str) -> str:
    """The question on one line, without control characters. Raises UsageError where it is empty or far too long."""
    text = " ".join("".join(" " if unicodedata.category(char) in _UNWANTED else char for char in question).split())
    if not text:
        raise UsageError("the question is empty")
    if len(text) > LONGEST_QUESTION:
        raise UsageError(f"the question has {len(text):,} characters; at most {LONGEST_QUESTION:,} can be asked")
    return text
