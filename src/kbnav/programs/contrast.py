"""What went well beside what went badly, and general instructions that name none of the examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kbnav.programs.trials import Trial

THRESHOLD = 0.5
"""Of hit@5, and of the share of the answers that are found: queries above both went well."""
SHOWN = 5
"""Queries shown of each side."""
PREDICTIONS = 5
"""First nodes of a ranking that are shown."""
FOUND_AMONG = 20
"""First nodes among which an answer counts as found, as in Recall@20 (STaRK, section 3.2; Agent Retriever, 5.3)."""
DEBUG = 1_200
"""Characters of a query's debug output that the writer is shown."""
_PLACE = "[a name]"
_COMMON = re.compile(r"[a-z]+(?:['’-][a-z]+)*")
_QUOTED = re.compile(r"[\"“”„«»'‘’`]")


@dataclass(frozen=True)
class Contrast:
    """The queries that a program did best on, best first, and those it did worst on, worst first."""

    well: tuple[Trial, ...]
    badly: tuple[Trial, ...]
    went_well: int
    """How many of ``queries`` went well."""
    whole: int
    """How many went as well as they can: no wrong node above a right one."""
    queries: int


def split(trials: Sequence[Trial], *, threshold: float = THRESHOLD, shown: int = SHOWN) -> Contrast:
    """Divide trials by all their answers: well went those with a hit@5 of the threshold or more and most answers found.

    Found is what is among the first 20, and most of them is more than the threshold. Where fewer than ``shown`` went
    badly, those that went well but not as well as they can stand behind them. Either side is in order of ``standing``,
    equal ones in their own. Trials that failed are on neither: their rankings are not the program's.
    """
    done = sorted((one for one in trials if not one.error), key=lambda one: -standing(one))
    well = [one for one in done if one.metrics["hit@5"] >= threshold and found_share(one) > threshold]
    less = [one for one in well if not _is_whole(one)]
    badly = sorted((one for one in done if one not in well), key=standing)
    badly += sorted(less, key=standing)[: max(0, shown - len(badly))]
    return Contrast(
        tuple([one for one in well if one not in badly][:shown]),
        tuple(badly[:shown]),
        len(well),
        sum(map(_is_whole, done)),
        len(done),
    )


def standing(trial: Trial) -> float:
    """How well a query went, from 0 to 1: the mean of its MRR and of the share of its answers that are found."""
    return (trial.metrics["mrr"] + found_share(trial)) / 2


def found_share(trial: Trial) -> float:
    """The answers among the first 20, as a share of those that there is room for."""
    ranks = trial.ranks.values()
    return sum(rank is not None and rank <= FOUND_AMONG for rank in ranks) / max(1, min(FOUND_AMONG, len(ranks)))


def _is_whole(trial: Trial) -> bool:
    """Whether no wrong node stands above a right one, as far as is looked."""
    wanted = range(1, min(FOUND_AMONG, len(trial.ranks)) + 1)
    return set(wanted) <= set(trial.ranks.values())


def described(trial: Trial, label: Callable[[str], str]) -> str:
    """One query for the writer: its first predictions with their scores, the truth with its ranks, what debug told."""
    predicted = [
        f"{place}. {label(node)} ({node}){f' {trial.scores[node]:.4g}' if node in trial.scores else ''}"
        for place, node in enumerate(trial.ranking[:PREDICTIONS], 1)
    ]
    truth = [
        f"{label(node)} ({node}) at rank {rank}{f' with {trial.scores[node]:.4g}' if node in trial.scores else ''}"
        if rank
        else f"{label(node)} ({node}) not among the first {len(trial.ranking)}"
        for node, rank in sorted(trial.ranks.items(), key=lambda pair: pair[1] or len(trial.ranking) + 1)
    ]
    few = truth[:PREDICTIONS] + ([f"and {len(truth) - PREDICTIONS} more"] if len(truth) > PREDICTIONS else [])
    told = [f"Debug output: {_cut(trial.debug)}"] if trial.debug else []
    return "\n".join(
        [f"Query: {trial.query.text}", "First predictions:", *predicted, f"Right answers: {'; '.join(few)}", *told]
    )


def debug_of_worst(trials: Sequence[Trial], *, shown: int = 3) -> str:
    """What a program told by ``debug`` on the queries that failed, or else on those that went worst; empty for none."""
    failed = [one for one in trials if one.error]
    chosen = failed or sorted(trials, key=standing)
    return "\n\n".join(f"Query: {one.query.text}\n{_cut(one.debug)}" for one in chosen[:shown] if one.debug)


def _cut(text: str) -> str:
    return text if len(text) <= DEBUG else f"{text[:DEBUG]} [{len(text) - DEBUG} more characters]"


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
