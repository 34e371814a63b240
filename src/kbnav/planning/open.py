"""A planner by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kbnav.errors import UsageError
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import Planner
from kbnav.planning.planners import NAMES, InContext, NoPlanner, encoder_of, matched_otherwise, read_description

if TYPE_CHECKING:
    from kbnav.models.calls import ModelCalls


def open_planner(
    name: str,
    skb: SKB,
    *,
    trained: Path | None = None,
    calls: Callable[[], ModelCalls] | None = None,
    matching: str = "",
) -> Planner:
    """A planner of an open SKB.

    Args:
        name: One of NAMES.
        skb: What is planned for.
        trained: Folder of a trained ``ranker`` or ``seq2seq``.
        calls: Opens the model that ``in-context`` asks.
        matching: How the nodes it will be given are matched; where it learned from others, its plans say so.

    Raises:
        UsageError: An unknown name, or what the planner needs is missing or was made for another SKB.
        DataError: The trained planner is damaged.
    """
    if name == "none":
        return NoPlanner()
    if name not in NAMES:
        raise UsageError(f"no planner {name!r}; there are {', '.join(NAMES)}")
    if name == "in-context":
        if calls is None:
            raise UsageError("the planner in-context needs a model")
        return InContext(skb, calls())
    if trained is None:
        raise UsageError(f"the planner {name} must be trained first: kbnav train {name}")
    if name == "ranker":
        from kbnav.planning.ranker import Ranker

        return Ranker.load(trained, skb, encoder_of(skb), trained_for(trained, matching))
    from kbnav.planning.seq2seq import Seq2Seq

    return Seq2Seq.load(trained, skb, trained_for(trained, matching))


def trained_for(folder: Path, matching: str) -> tuple[str, ...]:
    """What must be said of a trained planner whose nodes will be matched so. Raises as ``read_description`` does."""
    trained = read_description(folder).get("matching", "")
    return tuple(filter(None, [matched_otherwise(trained, matching)])) if matching else ()
