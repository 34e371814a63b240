"""The seam to what reads an SKB's files: whatever damaged ones do to it becomes one error of kbnav's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from inspect import signature
from types import UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from kbnav.errors import DamagedKB, KbnavError

P = ParamSpec("P")
T = TypeVar("T")
_OURS = (KbnavError, KeyboardInterrupt, SystemExit, GeneratorExit)


def reading(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Have a function raise DamagedKB where the files behind it cannot be read.

    A panic inside a library written in Rust is no Exception: it would end the thread that meets it, and whoever waits
    for that would wait for ever. Numbers that lead out of an array are as sure a sign. What fails where the arguments
    are not of the types that the function names is its caller's, and raised as it is.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*given: P.args, **named: P.kwargs) -> T:
            try:
                return function(*given, **named)
            except _OURS:
                raise
            except BaseException as error:
                if not _fit(function, given, named):
                    raise
                why = (str(error).splitlines() or [""])[0][:200]
                raise DamagedKB(
                    f"{what} cannot be read, its files seem to be damaged ({type(error).__name__}: {why}); "
                    "kbnav skb check names them"
                ) from error

        return call

    return decorate


def _fit(function: Callable[..., object], given: Sequence[object], named: Mapping[str, object]) -> bool:
    """Whether arguments are of the types that a function names, as far as these are classes and collections of them."""
    try:
        arguments = signature(function).bind(*given, **named).arguments
    except TypeError:
        return False
    hints = get_type_hints(function)
    return all(_is(value, hints[name]) for name, value in arguments.items() if name in hints)


def _is(value: object, hint: Any) -> bool:
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_is(value, one) for one in parts)
    if kind is Any or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    if kind in (int, float):  # numpy's too
        return hasattr(value, "__index__" if kind is int else "__float__")
    if not isinstance(value, kind):
        return False
    within = value if len(parts) == 1 and isinstance(value, Collection) and not isinstance(value, str) else ()
    return all(_is(one, parts[0]) for one in within)
