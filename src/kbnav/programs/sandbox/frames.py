"""Length-framed JSON over the pipes of a process that may say anything, nothing, or read nothing."""

from __future__ import annotations

import json
import os
import select
import time
from subprocess import Popen
from typing import Any

MOST_BYTES = 16 << 20
"""Of a frame. One that is announced as longer ends the conversation before it is read."""
_CHUNK = 1 << 16
_HEAD = 4


class Silent(Exception):
    """The process took longer than it may."""


class Gone(Exception):
    """The process has ended, or what it says is no frame."""


class Frames:
    """A conversation with a process; ``seconds`` is how long it has been waited for in all."""

    def __init__(self, process: Popen[bytes], limit: float) -> None:
        """Waits for the process ``limit`` seconds in all."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._out, self._in = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(self._out, False)
        os.set_blocking(self._in, False)
        self._limit = limit
        self._read = bytearray()
        self.seconds = 0.0

    def allow(self, limit: float) -> None:
        """Wait ``limit`` seconds in all from now on."""
        self._limit, self.seconds = limit, 0.0

    def send(self, value: Any) -> None:
        """Raises Silent where the process does not read it in its time, Gone where it has ended."""
        data = json.dumps(value).encode("utf-8", "surrogatepass")
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
        try:
            value = json.loads(self._take(size).decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise Gone("it sent what is no JSON") from error
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
        if not ready:
            raise Silent
