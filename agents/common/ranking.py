"""What SKB agents answer: ranked nodes, and a sentence about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbnav.agents.common.answering import Writer
from kbnav.agents.common.state import LIMITS, State
from kbnav.agents.common.writers import plain_ranking
from kbnav.answers.tables import Absence, Ranked, Ranking
from kbnav.knowledge.base import Entity
from kbnav.knowledge.skb.fusion import reciprocal_rank_fusion
from kbnav.runs.trajectory import Call, Outcome, Status, Step, Turn, Usage
from kbnav.tools.observation import Context

BEST_EFFORT = 20
"""Nodes of a ranking that no finish chose."""
_START = "entity_id"
"""Argument of the tools that look at a node, which is where a search starts and seldom where it ends."""

Describe = Callable[[Sequence[str]], Mapping[str, Entity]]
"""Name and type of nodes by their ids; ids that are none are left out."""


@dataclass(frozen=True)
class RankingEnding:
    """The nodes that finish names are the answer, with its sentence, which alone is one where a number is asked for.

    Out of budget, the answer are the nodes that the observations support best.
    """

    write: Writer
    describe: Describe

    def premature(self, finish: Call, path: Sequence[Step], history: Sequence[Turn]) -> bool:
        """A finish is premature if it names a node that no observation has shown, on the path or in an earlier turn.

        That there is no answer (no nodes) may be said once anything was looked at.
        """
        nodes = named_by(finish)
        shown = {node for steps in (path, *(turn.steps for turn in history)) for step in steps for node in step.nodes}
        return not shown.issuperset(nodes) if nodes else not path

    def chosen(self, call: Call, path: Sequence[Step]) -> bool:  # noqa: ARG002 - an Ending
        """Never: the answer is named by finish."""
        return False

    def conclude(self, state: State, context: Context) -> tuple[Outcome, Usage]:
        """The ranking with names and types, put into words where finish brought none; the note is finish's thought."""
        outcome = self.outcome(state)
        if outcome.status == "failed" or outcome.ranking is None or outcome.text:
            return outcome, Usage()
        if outcome.stop in LIMITS:
            return replace(outcome, text=plain_ranking(outcome.ranking)), Usage()
        text, usage = self.write(outcome, state, context)
        return replace(outcome, text=text), usage

    def outcome(self, state: State) -> Outcome:
        """The outcome without its words. Scores are 1/rank where finish chose, else sums of 1/(60 + rank)."""
        stop = state["stop"] or "error"
        status: Status = {"finish": "answered", "refusal": "refused", "error": "failed"}.get(stop, "best effort")  # type: ignore[assignment]
        outcome = Outcome(status, stop, note=state["failure"])
        if stop == "finish":
            chosen = state["path"][-1].call
            scored = [(node, round(1 / rank, 4)) for rank, node in enumerate(named_by(chosen), 1)]
            outcome = replace(outcome, note=chosen.thought, text=str(chosen.arguments.get("answer", "")).strip())
        else:
            scored = best_supported([*state["path"], *state["discarded"]])[:BEST_EFFORT]
        ranking = self._ranking(scored)
        if status == "failed":
            return replace(outcome, ranking=ranking)
        if not ranking.nodes:
            if status == "refused" or outcome.text:
                return replace(outcome, status=status)
            # A graph is whole: what was looked for and not found in it is not there.
            return replace(outcome, status="no answer", absence=Absence("not stated"))
        return replace(outcome, ranking=ranking)

    def _ranking(self, scored: Sequence[tuple[str, float]]) -> Ranking:
        known = self.describe([node for node, _ in scored])
        return Ranking(
            tuple(Ranked(node, score, known[node].label, known[node].kind) for node, score in scored if node in known)
        )


def best_supported(steps: Iterable[Step]) -> list[tuple[str, float]]:
    """Nodes by how often and how far up the observations show them, best first: their reciprocal ranks summed.

    Nodes that were looked at by their ids are left out, unless nothing else was seen.
    """
    taken = list(steps)
    starts = {start for step in taken for start in looked_at(step.call.arguments)}
    fused = reciprocal_rank_fusion([step.nodes for step in taken if step.nodes])
    found = [(node, round(score, 4)) for node, score in fused]
    return [pair for pair in found if pair[0] not in starts] or found


def looked_at(arguments: Mapping[str, Any]) -> list[str]:
    """The nodes that a call looked at: one, several, or those of the ways it followed."""
    ways = [way.get(_START, "") for way in arguments.get("ways") or () if isinstance(way, dict)]
    return [str(one) for one in (arguments.get(_START, ""), *(arguments.get(f"{_START}s") or ()), *ways)]


def named_by(finish: Call) -> list[str]:
    """The ids that a finish names, each once."""
    return list(dict.fromkeys(str(node) for node in finish.arguments.get("nodes") or ()))
