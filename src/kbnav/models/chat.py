"""OpenAI-compatible chat models: opened from the settings, asked with their failures typed, their tokens counted."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.tool import invalid_tool_call, tool_call
from langchain_core.runnables import Runnable
from pydantic import ValidationError

from kbnav.errors import BadResponse, CredentialsError, PromptTooLong, ServiceError, UsageError
from kbnav.models.cancellation import Cancellation, current_cancellation
from kbnav.models.transport import MIB, TooMuch, TooSlow, client, current_listener, out_of_bounds
from kbnav.runs.trajectory import Usage, load_run, span, tokens
from kbnav.settings.model import OFFLINE, REPLAY, Settings

_LOG = logging.getLogger("kbnav.models")
LARGEST = 4 * MIB
"""Bytes of a reply, which is a million tokens."""
_MOST_TOKENS = 10**9
"""Of one reply: more than any model reads or writes."""
_TOO_LONG = re.compile(r"context[_ ](length|size|window)|prompt is too long")
"""How OpenAI, llama.cpp, vLLM and others say in a refusal that a prompt does not fit."""


def open_models(settings: Settings) -> tuple[BaseChatModel, BaseChatModel | None]:
    """The models that choose actions and that write answers; ``replay:RUN`` repeats a saved run and writes nothing.

    Raises CredentialsError as ``open_chat_model`` does, UsageError or DataError for a run that cannot be read.
    """
    if settings.chat is None and settings.model.startswith(REPLAY):
        from kbnav.models.scripted import replay_model

        return replay_model(load_run(Path(settings.model.removeprefix(REPLAY)))), None
    return open_chat_model(settings, sampling=True), open_chat_model(settings, sampling=False)


def open_chat_model(settings: Settings, *, sampling: bool) -> BaseChatModel:
    """The model of the settings; ``sampling`` for the policy, otherwise 0 (SPINACH, appendix D).

    One that was made elsewhere is taken as it is. One that is made here is asked asynchronously, as kbnav does: only so
    does it keep to kbnav's limits and proxies; its ``invoke`` uses LangChain's own client.

    Raises UsageError where no model is set, CredentialsError where OpenAI's own endpoint is meant and no key is set.
    """
    if settings.chat is not None:
        return settings.chat
    if settings.model == OFFLINE:
        raise UsageError("this system needs a language model, and none is set: name one by --model (model= in Python)")
    settings.check_key()
    from langchain_openai import ChatOpenAI

    key = settings.api_key.get_secret_value()
    options: dict[str, Any] = {"temperature": settings.other_temperature}
    if sampling:
        options = {"temperature": settings.temperature, "top_p": settings.top_p}
    # OPENAI_PROXY is LangChain's own name for a proxy, which it reads only for clients that it makes itself.
    proxy = os.environ.get("OPENAI_PROXY", "")
    return ChatOpenAI(
        model=settings.model,
        api_key=key or "none",  # type: ignore[arg-type]
        base_url=settings.base_url or None,
        timeout=settings.model_timeout,
        max_retries=settings.model_retries,
        use_responses_api=False,
        stream_usage=True,
        http_async_client=client(settings.base_url, settings.model_timeout, proxy, LARGEST),
        openai_proxy=None,
        **{name: value for name, value in options.items() if value is not None},
    )


def ask(model: BaseChatModel, prompt: str) -> tuple[str, Usage]:
    """One prompt, one text, with a mark at its end where the endpoint cut it off. Raises as ``invoke`` does."""
    reply = invoke(model, prompt)
    text = str(reply.text)
    return (f"{text.rstrip()} […]" if text.strip() and is_cut_off(reply) else text), usage_of(reply)


def is_cut_off(reply: AIMessage) -> bool:
    """Whether the endpoint ended the reply because it had become too long."""
    return reply.response_metadata.get("finish_reason") == "length"


def invoke(model: Runnable[LanguageModelInput, AIMessage], prompt: Any) -> AIMessage:
    """One call of a model; whatever goes wrong with the service comes out as a StopRun with one clear line.

    Raises CredentialsError (401, 403), PromptTooLong, UsageError (unknown model, request refused as malformed),
    BadResponse (the endpoint does not speak the protocol) and ServiceError (unreachable, overloaded or failing after
    retries); errors of other models than OpenAI's come as they are. Within a run that has a cancellation, the call is
    cancelled with the run, and Stopped is raised.
    """
    import openai

    try:
        name = str(getattr(getattr(model, "bound", model), "model_name", ""))
        with span("chat", name, request_model=name) as tell:
            reply = (current_cancellation() or Cancellation()).ask(lambda: _stream(model, prompt))
            tell(tokens(usage_of(reply)))
            return reply
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        raise CredentialsError(f"the model's endpoint refused the key: {_line(error)}") from error
    except openai.NotFoundError as error:
        raise UsageError(f"the model's endpoint does not know this model or path: {_line(error)}") from error
    except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
        if _TOO_LONG.search(f"{error.body} {error}".lower()):
            raise PromptTooLong(f"the model cannot read so much at once: {_line(error)}") from error
        raise UsageError(f"the model's endpoint refused the request: {_line(error)}") from error
    except openai.APIResponseValidationError as error:
        raise BadResponse(f"the model's endpoint does not speak OpenAI's protocol: {_line(error)}") from error
    except (TooSlow, openai.APITimeoutError) as error:
        raise ServiceError("the model did not answer in time; the setting model_timeout gives it more") from error
    except TooMuch as error:
        raise BadResponse(f"the model's endpoint is not to be trusted: {error}") from error
    except openai.APIConnectionError as error:
        if beyond := out_of_bounds(error):
            raise BadResponse(f"the model's endpoint is not to be trusted: {beyond}") from error
        where = error.request.url.netloc.decode()
        raise ServiceError(f"{where} cannot be reached: does a model run there? {_line(error)}") from error
    except openai.APIError as error:  # 429, 5xx after the client's own retries
        raise ServiceError(f"the model's endpoint keeps failing: {_line(error)}") from error
    except (AttributeError, TypeError, LookupError, ValueError, RecursionError) as error:
        odd = error.errors() if isinstance(error, ValidationError) else []
        if odd and all(item["loc"][:1] == ("tool_calls",) for item in odd):
            # Tool calls whose arguments are JSON but no object become calls that could not be read.
            return AIMessage("", invalid_tool_calls=[invalid_tool_call(args=json.dumps(item["input"])) for item in odd])
        from langchain_openai.chat_models.base import BaseChatOpenAI

        if not isinstance(getattr(model, "bound", model), BaseChatOpenAI):
            raise
        # The client libraries parse a body that is not a completion (HTML, cut-off JSON) into these.
        said = "an odd message" if odd else "something that is no completion"
        raise BadResponse(f"the model's endpoint answered with {said}: {_line(error)}") from error


async def _stream(model: Runnable[LanguageModelInput, AIMessage], prompt: Any) -> AIMessage:
    """The reply, of which a listener is told as it comes; where its stream goes wrong, one that is asked for anew."""
    import openai

    # A connection that is kept belongs to the event loop that made it, and there is no telling when that ends. Said per
    # request, because a client of our own would have to know of every variable that names a proxy.
    options: dict[str, Any] = {"extra_headers": {"Connection": "close"}}
    asked: Any = getattr(model, "bound", model)
    refused = False
    if (tell := current_listener()) and not getattr(asked, "disable_streaming", False):
        try:
            return await _streamed(model, prompt, tell, options)
        except TooMuch:
            raise
        except Exception as error:  # noqa: BLE001 - the endpoint refuses streams, or breaks one off
            _LOG.debug("a stream went wrong", exc_info=True)
            refused = isinstance(error, (openai.BadRequestError, openai.UnprocessableEntityError, EOFError))
    reply = await model.ainvoke(prompt, **options)
    if refused:  # else every call would be made twice
        asked.disable_streaming = True
    return reply


async def _streamed(
    model: Runnable[LanguageModelInput, AIMessage], prompt: Any, tell: Callable[[str, str, str], None], options: Any
) -> AIMessage:
    """A streamed reply. Raises EOFError where none comes, ValueError where it breaks off, and as reading it does."""
    pieces: list[Any] = []
    text, tool, arguments = "", "", ""
    try:
        async for piece in model.astream(prompt, **options):
            pieces.append(piece)
            text += str(piece.text)
            for chunk in getattr(piece, "tool_call_chunks", ()):
                if chunk["name"]:
                    tool, arguments = chunk["name"], ""
                arguments += chunk["args"] or ""
            tell(text, tool, arguments)
    except ValueError as error:
        if not pieces:
            raise EOFError("no stream came") from error
        raise
    whole = pieces[0] if len(pieces) == 1 else add_ai_message_chunks(*pieces)
    if not whole.response_metadata.get("finish_reason"):
        raise ValueError("the stream broke off")
    calls, odd = [], []
    for one in whole.tool_call_chunks:  # LangChain reads arguments that were cut off as if they were whole
        try:
            read = json.loads(one["args"] or "{}")
        except (ValueError, RecursionError):
            read = None
        if isinstance(read, dict):
            calls.append(tool_call(name=one["name"] or "", args=read, id=one["id"]))
        else:
            if one["index"] is None:
                raise ValueError("the pieces of a tool call cannot be put together")
            odd.append(invalid_tool_call(name=one["name"] or "", args=one["args"], id=one["id"]))
    return AIMessage(
        whole.content,
        tool_calls=calls,
        invalid_tool_calls=odd,
        usage_metadata=whole.usage_metadata,
        response_metadata=whole.response_metadata,
    )


def _line(error: Exception) -> str:
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    text = " ".join(str(message or error).split())
    return text if len(text) <= 300 else text[:299] + "…"


def usage_of(reply: AIMessage) -> Usage:
    """Tokens of one reply, as its endpoint reports them; endpoints that report none count as one call."""
    told = reply.usage_metadata
    if told is None:
        return Usage(calls=1)
    cached = (told.get("input_token_details") or {}).get("cache_read", 0)
    return Usage(_count(told["input_tokens"]), _count(told["output_tokens"]), _count(cached), 1)


def _count(told: object) -> int:
    if isinstance(told, int) and 0 <= told <= _MOST_TOKENS:
        return told
    _LOG.warning("The model's service reports an impossible number of tokens; it counts as 0.")
    return 0
