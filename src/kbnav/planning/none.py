"""The planner ``none``: the agent goes without a plan (PASemiQA, Table 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbnav.planning.base import Plan

if TYPE_CHECKING:
    from kbnav.runs.trace import Trace


class NoPlanner:
    """Plans nothing."""

    name = "none"

    def plan(self, question: str, nodes: Sequence[str], trace: Trace | None = None) -> Plan:  # noqa: ARG002
        """No paths."""
        return Plan()
