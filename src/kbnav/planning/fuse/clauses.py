"""The names in a question, each with the words around it, which say how the answer is related to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from kbnav.knowledge.skb.names import NodeMatcher
from kbnav.knowledge.skb.store import SKB

BEFORE, BEHIND = 6, 4
"""Words before a name, and behind it, that may speak of its relation."""
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Clause:
    """A name, the characters ``start`` up to ``end``, with the nodes it may be, by number.

    ``text`` is the words around it up to the names beside it, with the node's type in the name's place: a relation is
    worded in the same way whatever it is that is named.
    """

    nodes: tuple[int, ...]
    start: int
    end: int
    text: str


def clauses(question: str, matcher: NodeMatcher, skb: SKB) -> list[Clause]:
    """The names of a question in its order, without those that may be mere words; none where nothing is named."""
    matched = [node for node in matcher.match(question) if node.end and node.sure]
    named = [(span, tuple(nodes)) for span, nodes in groupby(matched, key=lambda node: (node.start, node.end))]
    named.sort(key=lambda one: one[0])
    borders = [0, *(end for (_, end), _ in named), len(question)]
    found = []
    for place, ((start, end), nodes) in enumerate(named):
        behind = named[place + 1][0][0] if place + 1 < len(named) else len(question)
        words = [
            *_WORD.findall(question[borders[place] : start])[-BEFORE:],
            nodes[0].kind,
            *_WORD.findall(question[end:behind])[:BEHIND],
        ]
        numbers = tuple(skb.number(node.id) for node in nodes)
        found.append(Clause(numbers, start, end, " ".join(words)))
    return found


def unnamed(question: str, found: Sequence[Clause]) -> str:
    """What a question says beside the names."""
    for clause in sorted(found, key=lambda one: -one.start):
        question = f"{question[: clause.start]} {question[clause.end :]}"
    return question
