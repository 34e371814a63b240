"""An OpenAI-compatible endpoint on the loopback address whose replies are a list."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from kbnav.models.cancellation import Cancellation
from kbnav.models.scripted import ScriptedModel
from kbnav.settings.model import Settings
from tests.ending import running
from tests.knowledge.wikidata.serving import Answer as Canned
from tests.knowledge.wikidata.serving import Asked, serving


def completion(
    content: str | None = None, calls: Sequence[tuple[str, Any]] = (), finish: str | None = None, **message: Any
) -> Canned:
    """A chat completion; a call's arguments are sent as JSON, or, where they are a string, as they are."""
    tool_calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for number, (name, given) in enumerate(calls)
    ]
    said: dict[str, Any] = {"role": "assistant", "content": content, **message}
    if tool_calls:
        said["tool_calls"] = tool_calls
    document = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "stub",
        "choices": [{"index": 0, "message": said, "finish_reason": finish or ("tool_calls" if tool_calls else "stop")}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }
    return Canned(json.dumps(document).encode())


def streamed(
    content: str = "", calls: Sequence[tuple[str, Any]] = (), *, size: int = 4, between: Callable[[str], object] = len
) -> Canned:
    """The same as ``completion``, in pieces of ``size`` characters; ``between`` is told what was sent so far."""
    finish = "tool_calls" if calls else "stop"

    def piece(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}] if delta or finish else []
        document = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "stub"}
        return f"data: {json.dumps({**document, 'choices': choices, **more})}\n\n".encode()

    def body() -> Iterator[bytes]:
        yield piece({"role": "assistant", "content": ""})
        for at in range(0, len(content), size):
            yield piece({"content": content[at : at + size]})
            between(content[: at + size])
        for number, (name, given) in enumerate(calls):
            arguments = given if isinstance(given, str) else json.dumps(given)
            call = {"index": number, "id": f"call_{number}", "type": "function"}
            yield piece({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})
            for at in range(0, len(arguments), size):
                yield piece({"tool_calls": [{"index": number, "function": {"arguments": arguments[at : at + size]}}]})
                between(arguments[: at + size])
        yield piece({}, finish)
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        yield piece({}, usage=usage)
        yield b"data: [DONE]\n\n"

    return Canned(body(), type="text/event-stream")


def failure(status: int, message: str, **headers: str) -> Canned:
    """An error in OpenAI's form."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": None}}).encode()
    return Canned(body, status, headers=headers)


class ModelStub:
    """Serves ``replies`` one after another, the last one again and again; keeps the requests' bodies and headers."""

    def __init__(self, replies: Sequence[Canned], port: int = 0) -> None:
        self.replies, self._port = list(replies), port
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []

    def reply(self, asked: dict[str, Any]) -> Canned:
        """The reply to a request; another stub may look at what is asked."""
        return self.replies[min(len(self.requests), len(self.replies)) - 1]

    def _answer(self, asked: Asked) -> Canned:
        body = json.loads(asked.body or "{}")
        self.requests.append(body)
        self.headers.append(asked.headers)
        return self.reply(body)

    def __enter__(self) -> Self:
        self._serving = serving(self._answer, self._port)
        self.base_url = f"{self._serving.__enter__().url}/v1"
        return self

    def __exit__(self, *error: Any) -> None:
        self._serving.__exit__(*error)


def served(stub: ModelStub, home: Path, **changes: object) -> Settings:
    fixed = {"model": "stub", "base_url": stub.base_url, "api_key": "k", "model_retries": 0, "home": home}
    return Settings(**{**fixed, "model_jobs": 1, **changes})  # type: ignore[arg-type]


class Faltering(ScriptedModel):
    """Says, raises or does these in turn, the last one again and again; what is done gives what is said."""

    replies: list[Any]  # type: ignore[assignment]

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        reply = self.replies[min(len(self.seen), len(self.replies) - 1)]
        self.seen.append(messages)
        if callable(reply):
            reply = reply()
        if isinstance(reply, Exception):
            raise reply
        said = AIMessage(reply) if isinstance(reply, str) else reply
        return ChatResult(generations=[ChatGeneration(message=said)])


@contextmanager
def cancellation() -> Iterator[Cancellation]:
    """One with an event loop that runs in a thread, as a server has it."""
    loop = asyncio.new_event_loop()
    with closing(loop), running(loop.run_forever, lambda: loop.call_soon_threadsafe(loop.stop)):
        yield Cancellation(loop)
