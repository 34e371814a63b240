"""Programs in CPython behind bubblewrap (``bwrap``): the whole language, one process a run.

The process has namespaces of its own, so no network, no other process and no files but Python's standard library,
read-only; an empty environment; hard limits of memory, time and files; and a filter of system calls. All that it says
comes as frames over a pipe, and is read as what an untrusted stranger says: a frame that a program forges can do no
more than one that the functions of the API would have sent, and reading it is the program's time.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self

from kbnav.errors import TellModel, UsageError
from kbnav.programs.api import Api, Calls, OutOfCalls, bounded
from kbnav.programs.program import Entry, Failure, FailureKind, Parameter, Problem, Program, unknown_names
from kbnav.programs.sandbox import inside
from kbnav.programs.sandbox.base import SEED, OutOfOutput, Printed, Runner, SandboxLimits, error_line, raised_in_program
from kbnav.programs.sandbox.frames import Frames, Gone, Silent
from kbnav.programs.sandbox.seccomp import blocked_calls

_KINDS: Mapping[str, FailureKind] = {
    "MemoryError": "memory",
    "RecursionError": "recursion",
    "SyntaxError": "program",
}
_START = 10.0
"""Seconds in which Python must have started."""
_MESSAGE = 1_000
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_HOME = "/python"
_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")


class BubblewrapSandbox(Runner):
    """See ``Sandbox``. Random numbers are the same in every run; the clock is the machine's."""

    name = "bubblewrap"
    checks = "check of names and of loading the module"
    language = (
        f"It runs in CPython {sys.version_info.major}.{sys.version_info.minor} with its standard library: no other "
        "packages, no files, no network. Names are checked before anything runs; types are not."
    )

    def __init__(self, limits: SandboxLimits | None = None) -> None:
        """Raises UsageError, in one line, where bwrap or user namespaces are missing, or Python does not start."""
        self.limits = limits or SandboxLimits()
        found = shutil.which("bwrap")
        if found is None:
            raise UsageError("the sandbox bubblewrap needs the program bwrap (Debian: apt-get install bubblewrap)")
        self._bwrap = found
        self._filter = blocked_calls()
        self._try()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is left to end: each run ends its own process."""

    def check(self, program: Program, api: Api) -> tuple[Problem, ...]:
        """See ``Sandbox``: unknown names, and what is raised where the module is loaded; types are not looked at."""
        unknown = tuple(unknown_names(program.source, api.functions))
        if unknown:
            return unknown
        try:
            _, failure = self._value(program, (), {}, api.open(""), api, entry="")
        except (OutOfCalls, OutOfOutput) as error:
            return (Problem(str(error)),)
        return (Problem(failure.message, failure.line),) if failure else ()

    def _value(
        self,
        program: Program,
        candidates: Sequence[str],
        parameters: Mapping[str, Parameter],
        calls: Calls,
        api: Api,
        *,
        entry: Entry | Literal[""],
    ) -> tuple[Any, Failure | None]:
        """See ``Runner``."""
        asked = {
            "source": program.source,
            "entry": entry,
            "arguments": [calls.query, list(candidates)] if entry == "score" else [calls.query],
            "parameters": dict(parameters),
            "functions": [*api.functions],
            "seed": SEED,
            "memory": self.limits.memory,
            "cpu_seconds": math.ceil(self.limits.seconds) + 1,
            "recursion": self.limits.recursion,
        }
        with self._process() as process:
            frames = Frames(process, _START)
            try:
                frames.send(asked)
                frames.receive()  # it has begun
                frames.allow(self.limits.seconds)
                return self._driven(frames, calls)
            except Silent:
                return None, Failure("time", f"TimeoutError: it ran longer than {self.limits.seconds:g} seconds")
            except Gone as error:
                return None, Failure("crash", f"the program's process ended: {error}")

    def _driven(self, frames: Frames, calls: Calls) -> tuple[Any, Failure | None]:
        """Answer the program's calls until it is done. Raises as ``Frames`` and ``Calls.call`` do."""
        printed = Printed(calls, self.limits.output)
        while True:
            frame = frames.receive()
            if "done" in frame:
                return frame["done"], None
            if "gave" in frame:
                return None, Failure("scores", f"it gave {str(frame['gave'])[:_MESSAGE]}")
            if "failed" in frame:
                return None, _failure(frame["failed"])
            if "print" in frame:
                printed("stdout", str(frame["print"]))
            else:
                frames.send(_answer(frame, calls))

    @contextmanager
    def _process(self) -> Iterator[subprocess.Popen[bytes]]:
        """A sandboxed Python that waits for its first frame; it and all it started are gone afterwards."""
        handle, end = os.pipe()
        os.write(end, self._filter)  # a pipe has room for it
        os.close(end)
        command = [self._bwrap, *_arguments(handle)]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[handle],
                env={},
                start_new_session=True,
                bufsize=0,
            )
        finally:
            os.close(handle)
        try:
            yield process
        finally:
            process.kill()  # bwrap's first child dies with it, and with that all processes of its namespace
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                _close(pipe)

    def _try(self) -> None:
        with self._process() as process:
            frames = Frames(process, _START)
            try:
                frames.send({})
                frames.receive()
            except (Gone, Silent) as error:
                process.kill()
                said = (process.stderr.read(2_000) if process.stderr else b"").decode("utf-8", "replace").strip()
                why = said.splitlines()[-1] if said else str(error)
                raise UsageError(
                    f"the sandbox bubblewrap does not start here ({why}): use the sandbox monty"
                ) from error


def _arguments(seccomp: int) -> list[str]:
    """bwrap's, up to and with the command that it runs; ``seccomp`` is the open file with the filter."""
    prefix = Path(sys.base_prefix)
    python = (prefix / "bin" / _VERSION).resolve()
    bound = [(path, path) for path in _LIBRARIES if Path(path).exists()]
    bound += [(str(python), f"{_HOME}/bin/{_VERSION}"), (str(prefix / "lib" / _VERSION), f"{_HOME}/lib/{_VERSION}")]
    bound += [(str(path), f"{_HOME}/lib/{path.name}") for path in sorted((prefix / "lib").glob("libpython*.so*"))]
    bound += [(str(inside.__file__), "/inside.py"), (str(bounded.__file__), "/bounded.py")]
    packages = [f"{_HOME}/lib/{_VERSION}/{name}" for name in ("site-packages", "dist-packages")]
    hidden = [one for one in packages if (prefix / "lib" / _VERSION / Path(one).name).is_dir()]
    return [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
        *("--disable-userns", "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--clearenv"),
        *(part for source, target in bound for part in ("--ro-bind", source, target)),
        *(part for path in hidden for part in ("--tmpfs", path, "--remount-ro", path)),
        *("--setenv", "LD_LIBRARY_PATH", f"{_HOME}/lib", "--setenv", "PYTHONHASHSEED", str(SEED)),
        *("--remount-ro", "/", "--chdir", "/", "--hostname", "sandbox", "--seccomp", str(seccomp)),
        *(f"{_HOME}/bin/{_VERSION}", "-s", "-S", "-B", "/inside.py"),
    ]


def _answer(frame: Mapping[str, Any], calls: Calls) -> dict[str, Any]:
    """The reply to a frame that asks for a call. Raises Gone for one that asks for none, OutOfCalls, StopRun."""
    name, args, kwargs = frame.get("call"), frame.get("args"), frame.get("kwargs")
    if not isinstance(name, str) or not isinstance(args, list) or not isinstance(kwargs, dict):
        raise Gone("it sent what is no frame")
    try:
        return {"value": calls.call(name, args, kwargs)}
    except TellModel as error:
        return {"error": raised_in_program(error)}


def _failure(told: Any) -> Failure:
    """What the process says of how its program failed, none of which need be so."""
    if not isinstance(told, dict):
        return Failure("crash", "the program's process ended: it sent what is no frame")
    kind, line = str(told.get("type"))[:80], told.get("line")
    known = isinstance(line, int) and not isinstance(line, bool) and 0 <= line < 10**6
    message = error_line(kind, str(told.get("message")))[:_MESSAGE]
    return Failure(_KINDS.get(kind, "raised"), message, line if known else 0)  # type: ignore[arg-type]


def _close(pipe: BinaryIO | Any) -> None:
    try:
        pipe.close()
    except OSError:  # what was not read by the process is lost
        return
