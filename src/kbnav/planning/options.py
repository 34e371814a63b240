"""Options of whatever has a plan, agent or retriever."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationInfo, field_validator, model_validator

from kbnav.knowledge.skb.matching import NEAREST, Variant
from kbnav.planning.open import Name
from kbnav.settings.systems import Options


class PlanOptions(Options):
    """Options of every system with a plan."""

    planner: Name = "none"
    """What plans the relation paths."""
    trained: str = ""
    """Folder of a trained planner (``kbnav planner train``); given alone, it is a ``ranker``."""
    matching: Variant = "hybrid"
    """How the nodes that the question names are found."""

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
