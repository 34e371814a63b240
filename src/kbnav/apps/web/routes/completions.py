"""OpenAI's chat completions, so that chat front ends can connect; a model there is a choice of all three here."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from kbnav.answers.question import checked_question
from kbnav.apps.web.results import text_of
from kbnav.apps.web.routes.common import REFUSALS, ChatOf, ChatParts, VisitorOf, finished, sse, sse_event
from kbnav.apps.web.store import StoredRun
from kbnav.errors import UsageError
from kbnav.runs.trajectory import Outcome, Turn

SHOWN_ROWS = 20
MOST_TURNS = 20
_ESCAPED = str.maketrans({char: "\\" + char for char in "\\`*_{}[]<>()#+-!|~&"})
_LIVE = str.maketrans({char: "\\" + char for char in "\\`[]<>&"})


class Failure(BaseModel):
    """An error in OpenAI's form."""

    error: dict[str, str | None]


router = APIRouter(
    prefix="/v1", responses={status: {**refused, "model": Failure} for status, refused in REFUSALS.items()}
)


class Part(BaseModel):
    """A part of a message; only text can be asked."""

    model_config = ConfigDict(extra="ignore")

    type: str
    text: str = ""


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        """What it says."""
        parts = self.content if isinstance(self.content, list) else [Part(type="text", text=self.content or "")]
        return "\n".join(part.text for part in parts if part.type == "text")


class StreamOptions(BaseModel):
    """How a stream ends."""

    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class Conversation(BaseModel):
    """A request for a completion; settings of sampling are the operator's here, and are ignored."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field(max_length=600)
    messages: list[Message] = Field(min_length=1, max_length=1000)
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None

    @property
    def unserved(self) -> list[str]:
        """Parameters that ask for what an answer here cannot be."""
        text_only = (self.response_format or {}).get("type", "text") == "text"
        served = {"n": self.n in (None, 1), "response_format": text_only}
        served |= {name: not getattr(self, name) for name in ("tools", "functions", "logprobs")}
        return [name for name, fine in served.items() if not fine]


@router.get("/models")
def models(parts: ChatOf, visitor: VisitorOf) -> dict[str, Any]:  # noqa: ARG001 - must be one
    """What can be asked: ``kb/system/model``."""
    data = [
        {"id": "/".join(choice), "object": "model", "created": 0, "owned_by": "kbnav"} for choice in _choices(parts)
    ]
    return {"object": "list", "data": data}


@router.post("/chat/completions", responses={400: {"model": Failure, "description": "The last message asks nothing."}})
async def completions(asked: Conversation, request: Request, parts: ChatOf, visitor: VisitorOf) -> Response:
    """Answer the last message of the user; earlier ones, and what was answered, are known to the system.

    In a stream, the steps come as ``reasoning_content``, then the answer. Hanging up stops the run.
    """
    if asked.unserved:
        raise HTTPException(400, f"not served here: {', '.join(asked.unserved)}; an answer is one text")
    question, history = _conversation(asked.messages)
    choice = next((choice for choice in _choices(parts) if asked.model in ("/".join(choice), choice[0])), None)
    if choice is None:
        raise HTTPException(404, f"no model {asked.model!r}; GET /v1/models lists them")
    run = await asyncio.to_thread(parts.queue.ask, visitor.owner, question, choice, history=history)
    if asked.stream:
        usage = bool(asked.stream_options and asked.stream_options.include_usage)
        return sse(_stream(asked.model, run, parts, usage))
    answer = await finished(parts.queue, run, request)
    message = {"role": "assistant", "content": await asyncio.to_thread(_markdown, answer, parts), "refusal": None}
    document = {
        **_head(asked.model, run, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": _usage(answer),
    }
    return Response(json.dumps(document, ensure_ascii=False), media_type="application/json")


def _choices(parts: ChatParts) -> list[tuple[str, str, str]]:
    return [
        (kb.key, system.name, model)
        for kb in parts.service.kbs.values()
        for system in kb.systems
        for model in parts.service.models
        if system.runs_with(model)
    ]


def _conversation(messages: Sequence[Message]) -> tuple[str, list[Turn]]:
    """The question, and the earlier ones with what was answered. Raises HTTPException."""
    spoken = [message for message in messages if message.role in ("user", "assistant") and message.text.strip()]
    if not spoken or spoken[-1].role != "user":
        raise HTTPException(400, "the last message must be the user's question")
    turns: list[Turn] = []
    asked = ""
    for message in spoken[:-1]:
        if message.role == "user":
            asked = message.text
        elif asked:
            try:
                turns.append(Turn(checked_question(asked), (), Outcome("answered", "finish", text=message.text)))
            except UsageError as error:
                raise HTTPException(400, str(error)) from error
            asked = ""
    return spoken[-1].text, turns[-MOST_TURNS:]


def _head(model: str, run: StoredRun, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{run.id}", "object": kind, "created": int(time.time()), "model": model}


def _usage(answer: Mapping[str, Any]) -> dict[str, int]:
    tokens = answer.get("tokens", {"prompt": 0, "completion": 0})
    prompt, completion = tokens["prompt"], tokens["completion"]
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


async def _stream(model: str, run: StoredRun, parts: ChatParts, usage: bool) -> AsyncIterator[str]:
    """Chunks; a client that hangs up closes this generator, which stops the run."""
    head = _head(model, run, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> str:
        return sse_event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    try:
        yield chunk({"role": "assistant", "content": ""})
        async with aclosing(parts.queue.follow(run.id)) as events:
            async for event in events:
                if event is None:
                    yield ": waiting\n\n"
                elif event.data["kind"] == "end":
                    answer = event.data["answer"]
                    yield chunk({"content": await asyncio.to_thread(_markdown, answer, parts)})
                    yield chunk({}, "stop")
                    if usage:
                        yield sse_event({**head, "choices": [], "usage": _usage(answer)})
                    yield sse_event("[DONE]")
                elif said := _reasoning(event.data):
                    yield chunk({"reasoning_content": said})
    finally:
        parts.queue.stop_soon(run)


def _reasoning(event: Mapping[str, Any]) -> str:
    """What an event tells of a step; nothing for most kinds."""
    if event["kind"] == "call":
        arguments = ", ".join(str(value) for value in event["arguments"].values() if value)
        return f"{event['thought']}\n→ {event['tool']} {arguments}\n"
    return f"{event['observation']}\n\n" if event["kind"] == "step" else ""


def _markdown(answer: Mapping[str, Any], parts: ChatParts) -> str:
    """The answer as Markdown: text, the first rows, the query with a link. Nothing of a result is taken for markup."""
    blocks = [_sentences(answer["text"] or answer["note"] or f"({answer['status']})")]
    if answer["status"] == "best effort":
        blocks.insert(0, "Out of budget; the best found so far:")
    found = parts.store.results.find(answer["result"]["id"]) if answer.get("result") else None
    if found:
        table = found[1]
        rows = [[_cell(text_of(cell, table.head)) for cell in row] for row in table.rows(0, SHOWN_ROWS)]
        lines = [[_cell(name) for name in table.columns], ["---"] * len(table.columns), *rows]
        blocks.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        if table.count > SHOWN_ROWS:
            blocks.append(f"{table.count} rows, the first {SHOWN_ROWS} shown")
    if answer["query"]:
        query = answer["query_labelled"]
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", query)), default=0))  # longer than any in the query
        blocks.append(f"{fence}sparql\n{query}\n{fence}")
    if answer.get("link"):
        blocks.append(f"[Open the query](<{answer['link']}>)")
    return "\n\n".join(blocks)


def _sentences(text: str) -> str:
    """A name in them becomes no link, picture or HTML; other Markdown, which only looks odd, is let be."""
    return text.translate(_LIVE)


def _cell(text: str) -> str:
    return " ".join(text.split()).translate(_ESCAPED)
