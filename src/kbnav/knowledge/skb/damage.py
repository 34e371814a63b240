"""The seam to what reads an SKB's files: whatever damaged ones do to it becomes one error of kbnav's."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from kbnav.errors import DamagedKB, KbnavError

P = ParamSpec("P")
T = TypeVar("T")
_OURS = (KbnavError, KeyboardInterrupt, SystemExit, GeneratorExit)


def reading(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Have a function raise DamagedKB where the files behind it cannot be read.

    A panic inside a library written in Rust is no Exception: it would end the thread that meets it, and whoever waits
    for that would wait for ever. Numbers that lead out of an array are as sure a sign.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*given: P.args, **named: P.kwargs) -> T:
            try:
                return function(*given, **named)
            except _OURS:
                raise
            except BaseException as error:
                why = (str(error).splitlines() or [""])[0][:200]
                raise DamagedKB(
                    f"{what} cannot be read, its files seem to be damaged ({type(error).__name__}: {why}); "
                    "kbnav skb check names them"
                ) from error

        return call

    return decorate
