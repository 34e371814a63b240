"""Length-framed JSON over the pipes of a process that may say anything, nothing, or read nothing."""

from __future__ import annotations

import json
import os
import select
import time
from subprocess import Popen
from typing import Any

from kbnav.programs.api.bounded import MOST_ITEMS

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
