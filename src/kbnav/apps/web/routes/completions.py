"""OpenAI's chat completions and responses, so that chat front ends can connect; a model there is a choice here."""

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
from pydantic import BaseModel, Field

from kbnav.answers.question import checked_question
from kbnav.answers.tables import markdown_table
from kbnav.apps.web.auth import Visitor
from kbnav.apps.web.results import text_of
from kbnav.apps.web.routes.common import REFUSALS, ChatOf, ChatParts, VisitorOf, finished, sse, sse_event
from kbnav.apps.web.store import StoredRun
from kbnav.errors import UsageError
from kbnav.runs.trajectory import Outcome, Turn

SHOWN_ROWS = 20
MOST_TURNS = 20
_RESPONSE = "resp-"
_UNSERVED = ("tools", "functions", "logprobs", "background", "conversation")
"""Parameters that ask for what an answer here cannot be."""
_LIVE = str.maketrans({char: "\\" + char for char in "\\`[]<>&"})


class Failure(BaseModel):
    """An error in OpenAI's form."""

    error: dict[str, str | None]


router = APIRouter(
    prefix="/v1", responses={status: {**refused, "model": Failure} for status, refused in REFUSALS.items()}
)


class Part(BaseModel):
    """A part of a message; only text can be asked."""

    type: str
    text: str = ""


class Message(BaseModel):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        """What it says."""
        parts = self.content if isinstance(self.content, list) else [Part(type="text", text=self.content or "")]
        return "\n".join(part.text for part in parts if part.type in ("text", "input_text", "output_text"))


class Asked(BaseModel):
    """What both ways of asking take; settings of sampling are the operator's here, and are ignored."""

    model: str = Field(max_length=600)
    stream: bool = False
    tools: list[Any] | None = None


class Conversation(Asked):
    """A request for a completion."""

    messages: list[Message] = Field(min_length=1, max_length=1000)
    stream_options: dict[str, bool | None] | None = None
    n: int | None = None
    functions: list[Any] | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None


class ResponseAsked(Asked):
    """A request for a response; ``previous_response_id`` is the answer that the question follows up."""

    input: str | list[Message] = Field(min_length=1, max_length=10_000)
    previous_response_id: str | None = Field(default=None, max_length=200)
    text: dict[str, Any] | None = None
    background: bool | None = None
    conversation: Any = None


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
    run = await asyncio.to_thread(_ask, asked, asked.messages, (), parts, visitor)
    if asked.stream:
        usage = bool((asked.stream_options or {}).get("include_usage"))
        return sse(_stream(asked.model, run, parts, usage))
    answer = await finished(parts.queue, run, request)
    message = {"role": "assistant", "content": await asyncio.to_thread(_markdown, answer, parts), "refusal": None}
    document = {
        **_head(asked.model, run, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": _usage(answer),
    }
    return Response(json.dumps(document, ensure_ascii=False), media_type="application/json")


@router.post("/responses", responses={400: {"model": Failure, "description": "The last message asks nothing."}})
async def respond(asked: ResponseAsked, request: Request, parts: ChatOf, visitor: VisitorOf) -> Response:
    """As a completion, in the form of OpenAI's responses; ``previous_response_id`` brings what went before."""
    messages = [Message(role="user", content=asked.input)] if isinstance(asked.input, str) else asked.input
    before = await asyncio.to_thread(_answered, asked.previous_response_id, parts, visitor.owners)
    run = await asyncio.to_thread(_ask, asked, messages, before, parts, visitor)
    if asked.stream:
        return sse(_response_stream(asked, run, parts))
    answer = await finished(parts.queue, run, request)
    document = _response(asked, run, await asyncio.to_thread(_markdown, answer, parts), answer)
    return Response(json.dumps(document, ensure_ascii=False), media_type="application/json")


def _ask(
    asked: Conversation | ResponseAsked,
    messages: Sequence[Message],
    before: Sequence[Turn],
    parts: ChatParts,
    visitor: Visitor,
) -> StoredRun:
    """Put the question that a request asks into the queue. Raises HTTPException."""
    given = vars(asked)
    forms = {"response_format": given.get("response_format"), "text.format": (given.get("text") or {}).get("format")}
    unserved = [name for name, form in forms.items() if (form or {}).get("type", "text") != "text"]
    unserved += [name for name in _UNSERVED if given.get(name)] + ["n"] * (given.get("n") not in (None, 1))
    if unserved:
        raise HTTPException(400, f"not served here: {', '.join(unserved)}; an answer is one text")
    question, history = _conversation(messages, parts, visitor.owners)
    choice = next((choice for choice in _choices(parts) if asked.model in ("/".join(choice), choice[0])), None)
    if choice is None:
        raise HTTPException(404, f"no model {asked.model!r}; GET /v1/models lists them")
    return parts.queue.ask(visitor.owner, question, choice, history=[*before, *history][-MOST_TURNS:])


def _answered(response: str | None, parts: ChatParts, owners: tuple[str, str]) -> Sequence[Turn]:
    """The questions up to an earlier response of the same owner. Raises HTTPException where there is none."""
    if not response:
        return ()
    run = parts.store.run(response.removeprefix(_RESPONSE))
    if run is None or run.owner not in owners or not run.answer:
        raise HTTPException(404, "there is no such previous_response_id, or no more")
    saved = parts.store.saved(run.answer.get("run") or "")
    return saved.turns if saved else (_said(run.question, str(run.answer.get("text", ""))),)


def _said(question: str, text: str) -> Turn:
    return Turn(question, (), Outcome("answered", "finish", text=text))


def _choices(parts: ChatParts) -> list[tuple[str, str, str]]:
    return [
        (kb.key, system.name, model)
        for kb in parts.service.kbs.values()
        for system in kb.systems
        for model in parts.service.models
        if system.runs_with(model)
    ]


def _conversation(messages: Sequence[Message], parts: ChatParts, owners: tuple[str, str]) -> tuple[str, list[Turn]]:
    """The question, and the earlier ones with all that was found where it was answered here. Raises HTTPException."""
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
                before = parts.store.asked_before(owners, checked_question(asked))
            except UsageError as error:
                raise HTTPException(400, str(error)) from error
            same = before and message.text.strip().startswith(_sentences(before.outcome.text).strip())
            turns.append(before.turns[-1] if before and same else _said(asked, message.text))
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
        async with aclosing(parts.queue.follow(run.id)) as following:
            async for events in following:
                if said := "".join(_reasoning(event.data) for event in events):
                    yield chunk({"reasoning_content": said})
                if not events:
                    yield ": waiting\n\n"
                elif events[-1].data["kind"] == "end":
                    answer = events[-1].data["answer"]
                    yield chunk({"content": await asyncio.to_thread(_markdown, answer, parts)})
                    yield chunk({}, "stop")
                    if usage:
                        yield sse_event({**head, "choices": [], "usage": _usage(answer)})
                    yield sse_event("[DONE]")
    finally:
        parts.queue.stop_soon(run)


def _response(asked: ResponseAsked, run: StoredRun, text: str, answer: Mapping[str, Any] | None) -> dict[str, Any]:
    """A response; one whose answer is still to come has no text."""
    tokens = _usage(answer or {})
    usage = {
        "input_tokens": tokens["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": tokens["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens["total_tokens"],
    }
    return {
        "id": _RESPONSE + run.id,
        "object": "response",
        "created_at": int(run.made),
        "status": "completed" if answer else "in_progress",
        "model": asked.model,
        "previous_response_id": asked.previous_response_id,
        "output": [_output(run, text)] if answer else [],
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": usage if answer else None,
    }


def _output(run: StoredRun, text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": f"msg-{run.id}", "role": "assistant", "status": "completed", "content": content}


async def _response_stream(asked: ResponseAsked, run: StoredRun, parts: ChatParts) -> AsyncIterator[str]:
    """The events of a response; a client that hangs up closes this generator, which stops the run."""
    sent = 0

    def event(kind: str, **data: Any) -> str:
        nonlocal sent
        sent += 1
        return f"event: {kind}\n{sse_event({'type': kind, 'sequence_number': sent, **data})}"

    part = {"item_id": f"msg-{run.id}", "output_index": 0, "content_index": 0}
    try:
        yield event("response.created", response=_response(asked, run, "", None))
        async with aclosing(parts.queue.follow(run.id)) as following:
            async for events in following:
                if not events or events[-1].data["kind"] != "end":
                    yield ": waiting\n\n"
                    continue
                answer = events[-1].data["answer"]
                text = await asyncio.to_thread(_markdown, answer, parts)
                item, empty = _output(run, text), {"type": "output_text", "text": "", "annotations": []}
                begun = {**item, "status": "in_progress", "content": []}
                yield event("response.output_item.added", output_index=0, item=begun)
                yield event("response.content_part.added", **part, part=empty)
                yield event("response.output_text.delta", **part, delta=text, logprobs=[])
                yield event("response.output_text.done", **part, text=text, logprobs=[])
                yield event("response.content_part.done", **part, part=item["content"][0])
                yield event("response.output_item.done", output_index=0, item=item)
                yield event("response.completed", response=_response(asked, run, text, answer))
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
        rows = [[text_of(cell, table.head) for cell in row] for row in table.rows(0, SHOWN_ROWS)]
        blocks.append(markdown_table(table.columns, rows).rstrip())
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
