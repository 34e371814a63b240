"""What goes between a pool of queries and its children: frames of a kind, a length and bytes."""

from __future__ import annotations

import struct
from typing import IO, Literal

Form = Literal["json", "xml", "csv", "tsv", "ntriples", "turtle", "rdfxml"]
"""How a result is written."""
RESULT, SYNTAX, FAILED, BROKEN, SIZE, GONE, READY = range(7)
"""Kinds of a reply; ``GONE`` is none, for a child that has ended, ``READY`` the first word of one that has begun."""
_LENGTH = struct.Struct("!BQ")


def write_frame(stream: IO[bytes], kind: int, body: bytes) -> None:
    """Send a frame. Raises OSError where the other side is gone."""
    stream.write(_LENGTH.pack(kind, len(body)))
    stream.write(body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[int, bytes] | None:
    """One frame; None where the other side is gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    kind, length = _LENGTH.unpack(head)
    body = stream.read(length)
    return (kind, body) if len(body) == length else None
