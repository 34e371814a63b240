"""Programs in CPython behind bubblewrap (``bwrap``): the whole language, one process a run.

The process has namespaces of its own, so no network, no other process and no files but Python's standard library,
read-only; an empty environment; hard limits of memory, time and files; and a filter of system calls. All that it says
comes as frames over a pipe, and is read as what an untrusted stranger says: a frame that a program forges can do no
more than one that the functions of the API would have sent, and reading it is the program's time.
"""

from __future__ import annotations

import errno
import json
import math
import os
import platform
import select
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any, BinaryIO, Literal

from kbnav.errors import TellModel, UsageError
from kbnav.programs.api import Api, Calls, OutOfCalls, bounded
from kbnav.programs.api.bounded import MOST_ITEMS
from kbnav.programs.program import Entry, Failure, FailureKind, Parameter, Problem, Program, unknown_names
from kbnav.programs.sandbox import inside
from kbnav.programs.sandbox.base import (
    SEED,
    OutOfOutput,
    Printed,
    Sandbox,
    SandboxLimits,
    error_line,
    raised_in_program,
)

MOST_BYTES = 16 << 20
"""Of a frame. One that is announced as longer ends the conversation before it is read."""
MOST_SIGNS = 2 * MOST_ITEMS + 1_000
"""Commas, colons and opening brackets between a frame's strings, of which each value has one or two.

Reading a frame of many values takes a hundred times as long as one with a text of the same length.
"""
_CHUNK = 1 << 16
_HEAD = 4


class Silent(Exception):
    """The process took longer than it may."""


class Gone(Exception):
    """The process has ended, or what it says is no frame."""


class Frames:
    """A conversation with a process; ``seconds`` is how long it, reading and writing took in all."""

    def __init__(self, process: Popen[bytes], limit: float) -> None:
        """Gives the process ``limit`` seconds in all."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._out, self._in = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(self._out, False)
        os.set_blocking(self._in, False)
        self._limit = limit
        self._read = bytearray()
        self.seconds = 0.0

    def allow(self, limit: float) -> None:
        """Give it ``limit`` seconds in all from now on."""
        self._limit, self.seconds = limit, 0.0

    def send(self, value: Any) -> None:
        """Raises Silent where the process does not read it in its time, Gone where it has ended."""
        began = time.perf_counter()
        data = json.dumps(value).encode("utf-8", "surrogatepass")
        self.seconds += time.perf_counter() - began
        left = memoryview(len(data).to_bytes(_HEAD, "big") + data)
        while left:
            self._wait(self._out, select.POLLOUT)
            try:
                left = left[os.write(self._out, left[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise Gone("it closed its pipe") from error

    def receive(self) -> dict[str, Any]:
        """The next frame, an object. Raises Silent and Gone."""
        size = int.from_bytes(self._take(_HEAD), "big")
        if size > MOST_BYTES:
            raise Gone(f"it announced a frame of {size} bytes, {MOST_BYTES} are allowed")
        data = self._take(size)
        began = time.perf_counter()
        try:
            if _signs(data) > MOST_SIGNS:
                raise Gone(f"it sent a frame of more than {MOST_ITEMS} values")
            value = json.loads(data.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise Gone("it sent what is no JSON") from error
        finally:
            self.seconds += time.perf_counter() - began
        if not isinstance(value, dict):
            raise Gone("it sent what is no frame")
        return value

    def _take(self, size: int) -> bytes:
        while len(self._read) < size:
            self._wait(self._in, select.POLLIN)
            try:
                data = os.read(self._in, _CHUNK)
            except BlockingIOError:
                continue
            if not data:
                raise Gone("it ended without a result")
            self._read += data
        taken = bytes(self._read[:size])
        del self._read[:size]
        return taken

    def _wait(self, handle: int, event: int) -> None:
        began = time.perf_counter()
        poll = select.poll()
        poll.register(handle, event)
        ready = poll.poll(max(0.0, self._limit - self.seconds) * 1000)
        self.seconds += time.perf_counter() - began
        if not ready or self.seconds > self._limit:
            raise Silent


def _signs(data: bytes) -> int:
    """How many commas, colons and opening brackets stand between the strings of a JSON, or in all where those are few.

    Where it is no JSON, as many as are read before that is seen.
    """
    signs = b",", b":", b"[", b"{"
    found = sum(map(data.count, signs))
    if found <= MOST_SIGNS:
        return found
    ends = data.replace(rb"\\", b"").replace(rb"\"", b"")  # the quotation marks that are left begin or end a string
    if (strings := ends.count(b'"') // 2) > MOST_SIGNS:
        return strings
    return sum(map(b"".join(ends.split(b'"')[::2]).count, signs))


_NUMBERS: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "socket": 41, "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58, "shmget": 29, "ptrace": 101,
            "mount": 165, "add_key": 248, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "setns": 308,
            "process_vm_readv": 310, "process_vm_writev": 311, "memfd_create": 319, "bpf": 321, "userfaultfd": 323,
            "io_uring_setup": 425, "clone3": 435, "memfd_secret": 447,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "socket": 198, "socketpair": 199, "clone": 220, "shmget": 194, "ptrace": 117, "mount": 40, "add_key": 217,
            "keyctl": 219, "unshare": 97, "perf_event_open": 241, "setns": 268, "process_vm_readv": 270,
            "process_vm_writev": 271, "memfd_create": 279, "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425,
            "clone3": 435, "memfd_secret": 447,
        },
    ),
}  # fmt: skip
"""By machine: how the kernel names its calling convention, and the numbers of what is refused."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _CONVENTION_AT = 0, 4
_X32 = 0x40000000
"""Numbers from here on are those of another calling convention of x86_64."""


def blocked_calls(machine: str = "") -> bytes:
    """The filter for this machine, or another. Raises UsageError for one whose numbers are not known."""
    machine = machine or platform.machine()
    if machine not in _NUMBERS:
        raise UsageError(f"the sandbox bubblewrap knows {' and '.join(_NUMBERS)}, not {machine}: use the sandbox monty")
    convention, numbers = _NUMBERS[machine]
    return b"".join(struct.pack("=HBBI", *one) for one in _program(convention, sorted(numbers.values())))


def _program(convention: int, numbers: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Operation, jump where true, jump where false, operand; jumps count instructions to leave out."""
    yield _LOAD, 0, 0, _CONVENTION_AT
    yield _EQUAL, 1, 0, convention
    yield _RETURN, 0, 0, _KILL
    yield _LOAD, 0, 0, _NUMBER_AT
    yield _AT_LEAST, len(numbers) + 1, 0, _X32
    for place, number in enumerate(numbers):
        yield _EQUAL, len(numbers) - place, 0, number
    yield _RETURN, 0, 0, _ALLOW
    yield _RETURN, 0, 0, _ERRNO | errno.EPERM


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


class BubblewrapSandbox(Sandbox):
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
        """See ``Sandbox``."""
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
