"""Hearing a model's reply while it is being written.

Whoever listens is told of it as far as it has come; who asked gets the whole reply as ever. The request is changed to
one for a stream on its way out, and the pieces are put together again to the completion that an endpoint would have
sent at once, so that nothing else need know of streams: limits, retries and the reading of replies stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

Purpose = Literal["", "step", "answer"]
"""What a reply is for: the next step of a run, the answer in words, or nothing that anybody wants to hear."""


@dataclass(frozen=True)
class Draft:
    """A reply as far as it has come: its words, and the call that it is writing; ``arguments`` is JSON cut off."""

    purpose: Purpose
    text: str = ""
    tool: str = ""
    arguments: str = ""


Listener = Callable[[Draft], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)
_PURPOSE: ContextVar[Purpose] = ContextVar("purpose", default="")


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Have a listener, who is called from any thread, told of the replies that are asked for within."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def asking_for(purpose: Purpose) -> Iterator[None]:
    """Say what the replies that are asked for within are for."""
    token = _PURPOSE.set(purpose)
    try:
        yield
    finally:
        _PURPOSE.reset(token)


def heard() -> Callable[[str, str, str], None] | None:
    """How the listener is told of text, tool and arguments of a reply; None where nobody listens, or to this."""
    listener, purpose = _LISTENER.get(), _PURPOSE.get()
    if listener is None or not purpose:
        return None
    return lambda text, tool, arguments: listener(Draft(purpose, text, tool, arguments))


def as_stream(body: bytes) -> bytes | None:
    """A request for a completion as one for a stream; None for any other, and where several replies are asked for."""
    try:
        asked = json.loads(body)
    except ValueError:
        return None
    if not isinstance(asked, dict) or "messages" not in asked or asked.get("stream") or asked.get("n", 1) != 1:
        return None
    return json.dumps({**asked, "stream": True, "stream_options": {"include_usage": True}}).encode()


class Pieces:
    """Puts the pieces of a streamed completion together (OpenAI's chat completion chunks, as server-sent events)."""

    def __init__(self, tell: Callable[[str, str, str], None]) -> None:
        """``tell`` is told text, tool and arguments as far as they have come."""
        self._tell = tell
        self._head: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: list[dict[str, Any]] = []
        self._places: dict[Any, int] = {}
        self._finish: str | None = None
        self.error: dict[str, Any] | None = None
        """What went wrong, where the endpoint says so in the middle."""
        self.over = False
        """Whether the endpoint said that this was all."""

    def line(self, line: str) -> None:
        """Take one line of the stream. Raises ValueError for one that is no piece."""
        if not line.startswith("data:"):
            return
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            self.over = True
            return
        piece = json.loads(data)
        if piece.get("error"):
            self.error = {"error": piece["error"]}
            return
        self._head.update({name: piece[name] for name in ("id", "created", "model", "usage") if piece.get(name)})
        for choice in (piece.get("choices") or ())[:1]:
            self._finish = choice.get("finish_reason") or self._finish
            self._add(choice.get("delta") or {})
        self.over = self.over or bool(self._finish)

    def _add(self, delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            if name == "tool_calls":
                for call in value or ():
                    self._add_to_call(call)
            elif name != "role" and isinstance(value, str):
                self._message[name] = (self._message.get(name) or "") + value
        last = self._calls[-1]["function"] if self._calls else {"name": "", "arguments": ""}
        self._tell(self._message["content"] or "", last["name"], last["arguments"])

    def _add_to_call(self, piece: dict[str, Any]) -> None:
        """A piece belongs to the call of its index; without one, to the call of its id, or to the last."""
        key = piece.get("index", piece.get("id"))
        if not self._calls or (key is not None and key not in self._places):
            self._places[key] = len(self._calls)
            self._calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        call = self._calls[-1 if key is None else self._places[key]]
        function = piece.get("function") or {}
        call["id"] = call["id"] or piece.get("id") or ""
        call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
        given = function.get("arguments") or ""
        call["function"]["arguments"] += given if isinstance(given, str) else json.dumps(given)

    def whole(self) -> dict[str, Any]:
        """The completion, as an endpoint sends it that does not stream."""
        message = {**self._message, **({"tool_calls": self._calls} if self._calls else {})}
        choice = {"index": 0, "message": message, "finish_reason": self._finish or "stop"}
        head = {"id": "", "created": 0, "model": "", **self._head}
        return {**head, "object": "chat.completion", "choices": [choice]}
