"""What may be asked: one line of text, of a length that a person would write; of which knowledge base; or back."""

from __future__ import annotations

import re
import unicodedata

from kbnav.errors import UsageError

_UNWANTED = frozenset({"Cc", "Cs", "Co", "Cn"})
"""Control characters, lone surrogates, private use, unassigned."""
LONGEST_QUESTION = 10_000
"""Characters; a longer question is refused, because it is a document and not a question."""


def checked_question(question: str) -> str:
    """The question on one line, without control characters. Raises UsageError where it is empty or far too long."""
    if not isinstance(question, str):
        raise UsageError(f"a question is a text, not {type(question).__name__}")
    text = " ".join("".join(" " if unicodedata.category(char) in _UNWANTED else char for char in question).split())
    if not text:
        raise UsageError("the question is empty")
    if len(text) > LONGEST_QUESTION:
        raise UsageError(f"the question has {len(text):,} characters; at most {LONGEST_QUESTION:,} can be asked")
    return text


def asks_back(sentence: str) -> bool:
    """Whether an answer is a question, as where it is not clear what was asked about."""
    return sentence.rstrip().endswith(("?", "？", "؟"))


_KB_LINE = re.compile(r"^# kb: (\S.*)\n?", re.MULTILINE)


SPARQL = re.compile(
    r"^\s*(?:#.*\n\s*|(?:prefix|base)\s[^>]*>\s*)*"
    r"(?:(?=[^{]*\{)(?:select\b(?:\s|#.*\n)*(?:(?:distinct|reduced)\b(?:\s|#.*\n)*)?"
    r"(?:(?:\w+\s*)?\([^\n{]*[?$*]|[?$]\w|\*)"
    r"|(?:ask|construct)\s*(?:from\s+(?:named\s+)?\S*:\S*\s+)*(?:where\s*)?\{)"
    r"|describe\s+(?:[?$<]|(?:wdt?|p)?:\w))",
    re.IGNORECASE,
)
"""What a query begins as, and no sentence does, also one with a query below it; the page's scripts read it too."""


def in_kb(query: str, kb: str) -> str:
    """A query with a first line, a comment of SPARQL, that says which of several knowledge bases it is for."""
    return f"# kb: {kb}\n{query}" if kb else query


def kb_of(query: str) -> tuple[str, str]:
    """Which knowledge base a query says it is for, empty where it says none; and the query without that line."""
    found = _KB_LINE.search(query)
    return (found[1].strip(), query[: found.start()] + query[found.end() :]) if found else ("", query)
