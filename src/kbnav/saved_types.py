"""Types of what a saved run holds that say more than Python's: it may come from somebody else, who changed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from kbnav.answers import AnswerTable

_STATE: Mapping[str, type] = {"mirror": dict, "endpoints": dict, "kbs": dict, "nodes": int, "edges": int}


def _sound_state(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state as it is. Raises ValueError where it is none."""
    for name, kind in _STATE.items():
        if name in state and not isinstance(state[name], kind):
            raise ValueError(f"{name} is not of the type {kind.__name__}")
    page = state.get("query_page", "")
    if page and not str(page).startswith(("http://", "https://")):
        raise ValueError("query_page is no address of a page")
    for one in state.get("kbs", {}).values():
        if not isinstance(one, Mapping):
            raise ValueError("kbs has what is no knowledge base")
        _sound_state(one)
    return state


def _even(table: AnswerTable | None) -> AnswerTable | None:
    """The table as it is. Raises ValueError where a row has not a cell for each column."""
    if table is not None and any(len(row) != len(table.columns) for row in table.rows):
        raise ValueError("a row has not a cell for each column")
    return table


EvenTable = Annotated[AnswerTable | None, AfterValidator(_even)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
RunId = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]*$", max_length=100)]
"""It is a part of files' names."""
KBState = Annotated[Mapping[str, Any], AfterValidator(_sound_state)]
"""What a knowledge base says of itself, of which what is shown has the types that it is shown by."""
