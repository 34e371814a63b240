"""What made a node an answer: its place, the steps that showed it, what its document says, ways from what was asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbnav.apps.web.results import Kept
from kbnav.apps.web.store import StoredEvent, StoredRun
from kbnav.knowledge.base import Value
from kbnav.knowledge.skb.exploring import Explorer, ShortestPaths
from kbnav.knowledge.skb.question_reading import read
from kbnav.tools.show import cut

WAYS = 3
"""Paths that are shown from each node that the question names."""
ROWS = 10_000
"""Rows of a table in which the node is looked for."""
_WIDTH = 200


@dataclass(frozen=True)
class Seen:
    """A step that showed the node: its number, the tool, and what it was called with."""

    number: int
    tool: str
    told: str


@dataclass(frozen=True)
class Place:
    """Where the node stands in the answer: its rank, or its row from 1 on and its column, of ``total``."""

    number: int
    total: int
    score: float | None = None
    column: str = ""


@dataclass(frozen=True)
class Why:
    """Why a node answers the question of a run; ``named`` are ways to it from the nodes that the question names."""

    run: StoredRun
    place: Place | None
    query: str
    steps: tuple[Seen, ...]
    sentence: str
    named: tuple[tuple[Value, ShortestPaths], ...]


def why(
    explorer: Explorer, run: StoredRun, events: Sequence[StoredEvent], kept: Kept | None, node_id: str, language: str
) -> Why:
    """What a run that has ended tells of one node. Raises UnknownId."""
    node = explorer.skb.number(node_id)
    reading = read(run.question, explorer.skb, language)
    starts = dict.fromkeys(one.nodes[0] for one in reading.mentions if node not in one.nodes)
    return Why(
        run,
        _place(kept, node_id) if kept else None,
        str((run.answer or {}).get("query") or ""),
        tuple(_steps(events, node_id)),
        explorer.kb.excerpts([node_id], run.question).get(node_id, ""),
        tuple((explorer.value(start), explorer.ways(explorer.skb.id(start), node_id, WAYS)) for start in starts),
    )


def _place(kept: Kept, node_id: str) -> Place | None:
    if kept.ranking:
        nodes = kept.ranking.nodes
        found = next(((place, one) for place, one in enumerate(nodes, 1) if one.id == node_id), None)
        return Place(found[0], len(nodes), found[1].score) if found else None
    for number, row in enumerate(kept.rows(0, ROWS), 1):
        for column, cell in zip(kept.columns, row, strict=True):
            if kept.head.entity(cell) == node_id:
                return Place(number, kept.count, column=column)
    return None


def _steps(events: Sequence[StoredEvent], node_id: str) -> Iterator[Seen]:
    """The steps on the path whose observation has the node's id as a word of its own."""
    shows = re.compile(rf"(?<![\w:-]){re.escape(node_id)}(?![\w-])").search
    told = [one.data for one in events]
    calls: Mapping[int, Mapping[str, Any]] = {one["call"]: one for one in told if one["kind"] == "call"}
    dropped = {step["call"] for one in told if one["kind"] == "dropped" for step in one["steps"]}
    for one in told:
        if one["kind"] != "step" or one["call"] in dropped or not shows(one["observation"]):
            continue
        call = calls.get(one["call"], {"tool": "", "arguments": {}})
        values = [str(value) for value in call["arguments"].values() if value]
        yield Seen(one["number"], call["tool"], cut(", ".join(values), _WIDTH))
