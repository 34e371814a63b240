"""Ablations: tools, rules and parts left out by name (SPINACH, Table 4; KAR, section 5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kbnav.settings.model import Settings

RULES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "rollback": {"budget": {"rollback": False}},
        "premature_finish": {"budget": {"premature_finish": False}},
        "hint": {"budget": {"hint": False}},
        "pruning": {"pruning": "none"},
    }
)
"""What each rule's name sets; any name that is no part's either is that of a tool."""
PARTS = frozenset({"kg", "drf"})
"""Parts of the system ``kar``; its option ``without`` holds them."""


def leave_out(settings: Settings, names: Sequence[str]) -> Settings:
    """The settings without these rules, parts and tools; whether the system has them is seen when it is built."""
    changed = settings
    for name in names:
        if name in PARTS:
            given = changed.options.get("without", ())
            parts = given.split(",") if isinstance(given, str) else given
            changed = changed.model_copy(update={"options": {**changed.options, "without": (*parts, name)}})
            continue
        rule = RULES.get(name, {"without_tools": (*changed.without_tools, name)})
        budget = changed.budget.model_copy(update=rule.get("budget", {}))
        changed = changed.model_copy(update={**rule, "budget": budget})
    return changed
