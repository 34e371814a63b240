"""How long the conversations of a forum are (SPINACH, appendix C.1, Table 8)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kbnav.evaluation.markdown import table

GROUPS = (("1–3", 1, 3), ("4–6", 4, 6), ("7 and more", 7, None))
"""The paper's short, medium and long conversations, in responses."""
LONGEST = 10
_QUERY = re.compile(
    r"\{\{\s*sparql|lang\s*=\s*[\"']?sparql|query\.wikidata\.org|w\.wiki/|\bselect\b[^{}]{0,500}\{", re.IGNORECASE
)


@dataclass(frozen=True)
class Lengths:
    """Conversations by their number of responses, and how many were left out: without a response, without a query."""

    responses: Counter[int]
    unanswered: int
    without_query: int

    @property
    def conversations(self) -> int:
        """Those that count."""
        return self.responses.total()


def conversation_lengths(threads: Iterable[tuple[str, int]]) -> Lengths:
    """Of threads, each its wikitext and the number of its posts; the first post is the question, the others responses.

    As in the paper, threads without a response and threads without SPARQL are left out.
    """
    responses: Counter[int] = Counter()
    unanswered = without_query = 0
    for text, posts in threads:
        if posts < 2:
            unanswered += 1
        elif not _QUERY.search(text):
            without_query += 1
        else:
            responses[posts - 1] += 1
    return Lengths(responses, unanswered, without_query)


def markdown(found: Lengths) -> str:
    """The shares by length, those of more than ten together, and by the paper's three groups."""
    total = max(1, found.conversations)
    rows = [(str(size), found.responses[size]) for size in range(1, LONGEST + 1)]
    rows.append((f"> {LONGEST}", sum(count for size, count in found.responses.items() if size > LONGEST)))
    groups = [
        (name, sum(count for size, count in found.responses.items() if size >= low and (high is None or size <= high)))
        for name, low, high in GROUPS
    ]
    lines = [(name, count, f"{count / total:.1%}") for name, count in (*rows, *groups)]
    left_out = f"{found.unanswered:,} without a response and {found.without_query:,} without SPARQL are left out"
    head = f"{found.conversations:,} conversations; {left_out}.\n\n"
    return head + table(("Responses", "Conversations", "Share"), lines)
