"""Any plain value as short text, at a cost that is bounded whatever the value is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")

_MOST = 2_000
"""Characters of one value."""
_DEPTH = 4
_ITEMS = 50


def shown(value: object) -> str:
    """The value as Python would print it, cut in length, width and depth."""
    room = [_MOST]
    return value[:_MOST] if isinstance(value, str) else _shown(value, _DEPTH, room)


def _shown(value: object, depth: int, room: list[int]) -> str:
    if room[0] <= 0 or depth < 0:
        return "…"
    if isinstance(value, Mapping):
        inner = ", ".join(
            f"{_shown(key, depth - 1, room)}: {_shown(one, depth - 1, room)}" for key, one in _first(value.items())
        )
        text = f"{{{inner}{_more(len(value))}}}"
    elif isinstance(value, list | tuple | set | frozenset):
        text = f"[{', '.join(_shown(one, depth - 1, room) for one in _first(value))}{_more(len(value))}]"
    elif isinstance(value, str):
        text = repr(value[: room[0]])
    elif isinstance(value, int) and value.bit_length() > 256:
        text = f"an integer of {value.bit_length()} bits"
    elif value is None or isinstance(value, bool | int | float):
        text = repr(value)
    else:
        text = f"<{type(value).__name__}>"
    room[0] -= len(text)
    return text


def _first(values: Iterable[Item]) -> Iterable[Item]:
    return islice(values, _ITEMS)


def _more(count: int) -> str:
    return f", … {count - _ITEMS} more" if count > _ITEMS else ""
