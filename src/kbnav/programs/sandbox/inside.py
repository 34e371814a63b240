"""What runs in the sandbox ``bubblewrap``: the program, and the calls that it makes of the process outside.

This file is run by a Python that has nothing but its standard library, and ``bounded.py`` beside this file. Nothing
here keeps a program from anything: what it may not do, the namespaces, limits and the process outside keep it from. A
frame is four bytes with the length of what follows, and JSON in UTF-8.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import resource
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any, BinaryIO

FILE = "program.py"
_LINE = 4_096
_TAKES_ANYTHING = "debug"
"""The function of which only the beginning of each value is read."""
_INTERPRETER = 96 << 20
"""Bytes of address space that Python itself takes."""


class _Outside:
    """The process outside, over two pipes."""

    def __init__(self, replies: BinaryIO, frames: BinaryIO) -> None:
        self._replies, self._frames = replies, frames

    def tell(self, **frame: Any) -> None:
        data = json.dumps(frame, default=_json_value).encode("utf-8", "surrogatepass")
        self._frames.write(len(data).to_bytes(4, "big") + data)
        self._frames.flush()

    def hear(self) -> Any:
        size = int.from_bytes(self._replies.read(4), "big")
        return json.loads(self._replies.read(size))

    def function(self, name: str) -> Callable[..., Any]:
        from bounded import excess, short_text  # type: ignore[import-not-found]

        def call(*args: Any, **kwargs: Any) -> Any:
            given = [short_text(one) for one in args] if name == _TAKES_ANYTHING else args
            if why := excess([given, kwargs]):
                raise ValueError(f"{name}: {why} in one call")
            self.tell(call=name, args=given, kwargs=kwargs)
            reply = self.hear()
            if "error" in reply:
                kind, message = reply["error"]
                raise getattr(builtins, kind)(message)
            return reply["value"]

        call.__name__ = name
        return call


class _Printed:
    """Stands for the standard output; tells whole lines."""

    def __init__(self, outside: _Outside) -> None:
        self._outside = outside
        self._line = ""

    def write(self, text: str) -> int:
        self._line += text
        if "\n" in text or len(self._line) > _LINE:
            self.flush()
        return len(text)

    def flush(self) -> None:
        line, self._line = self._line, ""
        if line:
            self._outside.tell(print=line)


def _json_value(value: Any) -> Any:
    """What JSON has no form for: collections as lists, anything else by its name alone."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, type({}.keys()) | type({}.values()) | type({}.items()) | range):
        return list(value)
    return f"<{type(value).__name__}>"


def _limit(asked: dict[str, Any]) -> None:
    """Hard limits, which nobody here can raise again."""
    for kind, most in (
        (resource.RLIMIT_AS, asked["memory"] + _INTERPRETER),
        (resource.RLIMIT_CPU, asked["cpu_seconds"]),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 16),
    ):
        resource.setrlimit(kind, (most, most))
    sys.setrecursionlimit(asked["recursion"] + 50)


def _value(asked: dict[str, Any], outside: _Outside) -> Any:
    """What the program's entry gives."""
    module = ModuleType("program")
    for name in asked["functions"]:
        setattr(module, name, outside.function(name))
    code = compile(asked["source"], FILE, "exec", dont_inherit=True)
    exec(code, vars(module))  # noqa: S102 - this process is the sandbox
    if not asked["entry"]:
        return None
    return getattr(module, asked["entry"])(*asked["arguments"], **asked["parameters"])


def _arguments(value: Any) -> dict[str, Any]:
    """The frame with a program's result, or with what of it is too much to be sent."""
    from bounded import excess

    why = excess(value)
    return {"gave": why} if why else {"done": value}


def _failure(error: BaseException) -> dict[str, Any]:
    found = traceback.walk_tb(error.__traceback__)
    lines: list[int | None] = [line for frame, line in found if frame.f_code.co_filename == FILE]
    if isinstance(error, SyntaxError) and error.filename == FILE:
        lines.append(error.lineno)
    return {"type": type(error).__name__, "message": str(error)[:2_000], "line": (lines or [0])[-1] or 0}


def main() -> None:
    """Run one program, as the first frame asks."""
    outside = _Outside(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    for stream in (0, 1, 2):
        os.close(stream)
    asked = outside.hear()
    if not asked:
        outside.tell(started=True)
        return
    _limit(asked)
    outside.tell(started=True)
    random.seed(asked["seed"])
    printed = _Printed(outside)
    sys.stdin, sys.stdout, sys.stderr = None, printed, printed
    try:
        value = _value(asked, outside)
        printed.flush()
        outside.tell(**_arguments(value))
    except BaseException as error:  # noqa: BLE001 - whatever a program raises is told outside
        outside.tell(failed=_failure(error))
    os._exit(0)


if __name__ == "__main__":
    main()
