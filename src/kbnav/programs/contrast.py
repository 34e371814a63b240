"""What went well beside what went badly, and general instructions that name none of the examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kbnav.programs.trials import Trial

THRESHOLD = 0.5
"""Of hit@5: queries at or above it went well."""
SHOWN = 5
"""Queries shown of each side."""
PREDICTIONS = 5
"""First nodes of a ranking that are shown."""
_PLACE = "[a name]"
_COMMON = re.compile(r"[a-z]+(?:['’-][a-z]+)*")
_QUOTED = re.compile(r"[\"“”„«»'‘’`]")


@dataclass(frozen=True)
class Contrast:
    """The queries that a program did best on, best first, and those it did worst on, worst first."""

    well: tuple[Trial, ...]
    badly: tuple[Trial, ...]
    went_well: int
    """How many of ``queries`` reached the threshold."""
    queries: int


def split(trials: Sequence[Trial], *, threshold: float = THRESHOLD, shown: int = SHOWN) -> Contrast:
    """Divide trials at a threshold of hit@5; of either side the most telling by MRR, then in their order.

    Trials that failed are on neither side: their rankings are not the program's.
    """
    done = [one for one in trials if not one.error]
    well = [one for one in done if one.metrics["hit@5"] >= threshold]
    badly = [one for one in done if one.metrics["hit@5"] < threshold]
    return Contrast(
        tuple(sorted(well, key=lambda one: -one.metrics["mrr"])[:shown]),
        tuple(sorted(badly, key=lambda one: one.metrics["mrr"])[:shown]),
        len(well),
        len(done),
    )


def described(trial: Trial, label: Callable[[str], str]) -> str:
    """One query for the writer: its first predictions with their scores, and the truth with its ranks."""
    predicted = [
        f"{place}. {label(node)} ({node}){f' {trial.scores[node]:.4g}' if node in trial.scores else ''}"
        for place, node in enumerate(trial.ranking[:PREDICTIONS], 1)
    ]
    truth = [
        f"{label(node)} ({node}) at rank {rank}{f' with {trial.scores[node]:.4g}' if node in trial.scores else ''}"
        if rank
        else f"{label(node)} ({node}) not among the first {len(trial.ranking)}"
        for node, rank in trial.ranks.items()
    ]
    few = truth[:PREDICTIONS] + ([f"and {len(truth) - PREDICTIONS} more"] if len(truth) > PREDICTIONS else [])
    return "\n".join(
        [f"Query: {trial.query.text}", "First predictions:", *predicted, f"Right answers: {'; '.join(few)}"]
    )


def names_in(contrast: Contrast, label: Callable[[str], str], named: Callable[[str], Iterable[str]]) -> list[str]:
    """What instructions may not name: ids and names of the nodes shown, and what the queries name, longest first."""
    found: set[str] = set()
    for trial in (*contrast.well, *contrast.badly):
        nodes = [*trial.ranking[:PREDICTIONS], *trial.query.answers]
        found.update(nodes, map(label, nodes), named(trial.query.text))
    return sorted((name for name in found if len(name) > 1), key=lambda name: (-len(name), name))


def without_names(text: str, names: Sequence[str]) -> str:
    """The text with each of the names replaced.

    A name that is one word in small letters, as ``key`` in a dictionary, is a name only where it stands in quotes.
    """
    for name in names:
        escaped = re.escape(name)
        if _COMMON.fullmatch(name):
            text = re.sub(rf"({_QUOTED.pattern}){escaped}({_QUOTED.pattern})", rf"\1{_PLACE}\2", text)
        else:
            text = re.sub(rf"(?<!\w){escaped}(?!\w)", _PLACE, text, flags=re.IGNORECASE)
    return text
