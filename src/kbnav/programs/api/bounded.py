"""Any plain value as short text, and whether it is too large to be sent, at a cost that is bounded whatever it is.

Also what runs inside the sandbox ``bubblewrap`` has this file, which must need nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import TypeVar

Item = TypeVar("Item")

MOST_ITEMS, MOST_CHARACTERS = 200_000, 10_000_000
"""In the arguments of one call, or a result, however they are nested; what is shared counts as often as it is met."""
_DEEPEST = 6
"""Collections inside one another."""
_MOST = 2_000
"""Characters of one value."""
_DEPTH = 4
_ITEMS = 50


def short_text(value: object) -> str:
    """The value as Python would print it, cut in length, width and depth."""
    room = [_MOST]
    return value[:_MOST] if isinstance(value, str) else _short_text(value, _DEPTH, room)


def _short_text(value: object, depth: int, room: list[int]) -> str:
    if room[0] <= 0 or depth < 0:
        return "…"
    if isinstance(value, Mapping):
        inner = ", ".join(
            f"{_short_text(key, depth - 1, room)}: {_short_text(one, depth - 1, room)}"
            for key, one in _first(value.items())
        )
        text = f"{{{inner}{_more(len(value))}}}"
    elif isinstance(value, list | tuple | set | frozenset):
        text = f"[{', '.join(_short_text(one, depth - 1, room) for one in _first(value))}{_more(len(value))}]"
    elif isinstance(value, str):
        text = repr(value[: room[0]])
    elif isinstance(value, int) and value.bit_length() > 256:
        text = f"an integer of {value.bit_length()} bits"
    elif value is None or isinstance(value, bool | int | float | range):
        text = repr(value)
    else:
        text = f"<{type(value).__name__}>"
    room[0] -= len(text)
    return text


def _first(values: Iterable[Item]) -> Iterable[Item]:
    return islice(values, _ITEMS)


def _more(count: int) -> str:
    return f", … {count - _ITEMS} more" if count > _ITEMS else ""


def excess(value: object) -> str | None:
    """What of a value is too much to be sent, as in "more than 200000 values …"; None where nothing is.

    Its parts may be shared a million times or nested for ever: it is walked through as far as is allowed.
    """
    values, items, characters = [value], 1, 0
    for _ in range(_DEEPEST + 1):
        characters += sum(len(one) for one in values if isinstance(one, str | bytes))
        within = [one for one in values if isinstance(one, list | tuple | dict | set | frozenset)]
        items += sum(len(one) * (2 if isinstance(one, dict) else 1) for one in within)
        if items > MOST_ITEMS or characters > MOST_CHARACTERS:
            return f"more than {MOST_ITEMS} values or {MOST_CHARACTERS} characters"
        if not within:
            return None
        values = [part for one in within for part in (chain(one, one.values()) if isinstance(one, dict) else one)]
    return "values nested too deep"
