"""Options of the agents that walk along links, as ``--set`` gives them; saved with every run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import Field

from kbnav.agents.scores import Pruning
from kbnav.knowledge.skb.matching import Variant
from kbnav.options import Options
from kbnav.planning.open import Name


class PlanOptions(Options):
    """Options of every system with a plan. ``trained`` is the folder of a trained planner."""

    planner: Name = "ranker"
    trained: str = ""
    matching: Variant = "hybrid"


class PasemiqaOptions(PlanOptions):
    """``k`` neighbours are kept at each search, and ``rounds`` (T) is all it may take.

    The paper varies both (section 5.3) and does not say which it uses elsewhere.
    """

    k: int = Field(default=10, ge=1, le=50)
    rounds: int = Field(default=10, ge=1, le=50)


class RogOptions(PlanOptions):
    """The planner's paths that are retrieved, and the tokens that their instances may take."""

    paths: int = Field(default=3, ge=1, le=10)
    tokens: int = Field(default=4_000, ge=20)


class TogOptions(Options):
    """The defaults are the authors'; ``prune`` says what scores relations and links."""

    depth: int = Field(default=3, ge=1, le=5)
    width: int = Field(default=3, ge=1, le=10)
    prune: Pruning = "model"
    matching: Variant = "hybrid"


class GogOptions(Options):
    """The neighbours that the model keeps of one node, and how nodes are matched."""

    k: int = Field(default=10, ge=1, le=50)
    matching: Variant = "hybrid"


WALKERS: Mapping[str, type[Options]] = MappingProxyType(
    {"pasemiqa": PasemiqaOptions, "tog": TogOptions, "rog": RogOptions, "gog": GogOptions}
)
"""The options of each of these agents by its name."""
