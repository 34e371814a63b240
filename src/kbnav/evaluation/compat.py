"""A run scored as STaRK's published evaluation does: every candidate is ranked, and equals in the candidates' order."""

from __future__ import annotations

from dataclasses import replace

from kbnav.errors import UsageError
from kbnav.evaluation.records import SavedRun
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.skb.kb import as_skb
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.common import RetrievalOptions, candidate_ranges
from kbnav.settings.model import Settings


def stark_compat(run: SavedRun, settings: Settings, kb: str = "") -> SavedRun:
    """The run with the candidates of the SKB that it was run on, or of ``kb``, so that it is scored like STaRK's.

    Raises UsageError where that is no SKB or another one than the run's.
    """
    name = kb or str(run.info.settings.get("kb", ""))
    with open_kb(settings.model_copy(update={"kb": name})) as opened:
        skb = as_skb(opened, "stark-compat").skb
        was = run.info.kb.get("nodes"), run.info.kb.get("edges")
        if was != (skb.meta.nodes, skb.meta.edges):
            raise UsageError(
                f"{name} is not the SKB of the run, which has {was[0]} nodes and {was[1]} edges; name it: --kb"
            )
        return replace(run, candidates=_candidates(skb, run.info.settings.get("options", {}).get("candidates", ())))


def _candidates(skb: SKB, types: tuple[str, ...]) -> tuple[str, ...]:
    """The ids of the nodes that may answer: STaRK's by their number there, others in the order of the SKB."""
    ranges = candidate_ranges(skb, RetrievalOptions(candidates=tuple(types))) or [(0, len(skb.nodes))]
    ids = [skb.id(node) for first, end in ranges for node in range(first, end)]
    return tuple(sorted(ids, key=int) if skb.meta.style != "plain" else ids)
