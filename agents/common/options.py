"""Options of the agents that walk along links, as ``--set`` gives them; saved with every run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from kbnav.agents.common.scores import Pruning
from kbnav.knowledge.skb.matching import NEAREST, Variant
from kbnav.options import Options
from kbnav.planning.open import Name


class PlanOptions(Options):
    """Options of every system with a plan. ``trained`` is the folder of a trained planner; alone, of a ``ranker``."""

    planner: Name = "none"
    trained: str = ""
    matching: Variant = "hybrid"

    @property
    def nearest(self) -> int:
        """Nodes that are matched by meaning."""
        return NEAREST

    @model_validator(mode="before")
    @classmethod
    def _named_by_what_is_trained(cls, given: Any) -> Any:
        return {"planner": "ranker", **given} if isinstance(given, dict) and given.get("trained") else given

    @field_validator("trained")
    @classmethod
    def _of_one_that_learns(cls, value: str, info: ValidationInfo) -> str:
        if value and info.data.get("planner") in ("none", "in-context"):
            raise ValueError(f"the planner {info.data['planner']} is not trained; ranker and seq2seq are")
        return value


class PasemiqaOptions(PlanOptions):
    """``k`` (K) nodes are kept at each search, query and match by meaning, and ``rounds`` (T) is all it may take.

    The paper varies both (section 5.3) and does not say which it uses elsewhere. ``search_k``, ``query_k`` and
    ``match_k`` set one of the three apart. ``query`` is ``fused``, by words and meaning, or ``cosine`` as in the paper.
    """

    k: int = Field(default=10, ge=1, le=50)
    search_k: int = Field(default=0, ge=0, le=50)
    query_k: int = Field(default=0, ge=0, le=50)
    match_k: int = Field(default=0, ge=0, le=50)
    query: Literal["fused", "cosine"] = "fused"
    rounds: int = Field(default=10, ge=1, le=50)

    @property
    def kept(self) -> int:
        """Neighbours of a search."""
        return self.search_k or self.k

    @property
    def found(self) -> int:
        """Nodes of a query."""
        return self.query_k or self.k

    @property
    def nearest(self) -> int:
        """Nodes that are matched by meaning."""
        return self.match_k or self.k


class RogOptions(PlanOptions):
    """The planner's paths that are retrieved, and the tokens that their instances may take.

    Without a plan there is nothing to retrieve.
    """

    planner: Name = "in-context"
    paths: int = Field(default=3, ge=1, le=10)
    tokens: int = Field(default=4_000, ge=20)

    @field_validator("planner")
    @classmethod
    def _is_one(cls, value: Name) -> Name:
        if value == "none":
            raise ValueError("rog answers from a plan's paths; it needs one of in-context, ranker, seq2seq")
        return value


class TogOptions(Options):
    """Depth, width and what scores (``prune``) are by default the authors'.

    ``reasoning=relations`` is their ToG-R: links are drawn, not scored, and chains of relations are judged.
    ``exploration`` is the temperature at which relations and links are scored; the authors' is 0.4. Where nothing is
    scored ``low`` or more, the question is linked anew, once. ``backwards``: the relation just followed is offered
    backwards too, which finds what has the same neighbour.
    """

    depth: int = Field(default=3, ge=1, le=5)
    width: int = Field(default=3, ge=1, le=10)
    prune: Pruning = "model"
    matching: Variant = "hybrid"
    reasoning: Literal["links", "relations"] = "links"
    exploration: float = Field(default=0.0, ge=0, le=2)
    low: float = Field(default=0.1, ge=0, le=1)
    backwards: bool = False


class GogOptions(Options):
    """The neighbours that the model keeps of one node, and how nodes are matched."""

    k: int = Field(default=10, ge=1, le=50)
    matching: Variant = "hybrid"


WALKERS: Mapping[str, type[Options]] = MappingProxyType(
    {"pasemiqa": PasemiqaOptions, "tog": TogOptions, "rog": RogOptions, "gog": GogOptions}
)
"""The options of each of these agents by its name."""
NEED_A_MODEL = frozenset({"tog", "rog", "gog"})
"""The systems that have no offline policy."""
