"""A reply is heard while it is written, and comes out whole whatever the endpoint makes of a request for a stream."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from langchain_core.messages import AIMessage

from kbnav.errors import BadResponse, PromptTooLong, ServiceError
from kbnav.models.cancellation import Cancellation
from kbnav.models.chat import invoke, open_chat_model
from kbnav.models.transport import Draft, reply_purpose, streaming_to
from kbnav.settings.model import Settings
from tests.models.stub import Canned, ModelStub, completion, failure, streamed

CALL = ("finish", {"thought": "Done.", "answer": "Polonium and radium."})


@contextmanager
def cancellation() -> Iterator[Cancellation]:
    """One with a loop, as a server has it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield Cancellation(loop)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def heard(
    *replies: Canned, listen: bool = True, **changes: object
) -> tuple[object, list[Draft], list[dict[str, object]]]:
    """The reply or its error, what was heard before, and what the endpoint was asked."""
    drafts: list[Draft] = []
    with ModelStub(replies) as stub, cancellation() as cancellations:
        settings = Settings(
            **{"model": "stub", "base_url": stub.base_url, "model_retries": 0, "model_timeout": 5.0, **changes}  # type: ignore[arg-type]
        )
        model = open_chat_model(settings, sampling=False)
        with (
            streaming_to(drafts.append if listen else (lambda draft: pytest.fail("heard"))),
            reply_purpose("step" if listen else ""),
        ):
            try:
                return cancellations.run_here(lambda: invoke(model, "hello")), drafts, stub.requests
            except (ServiceError, BadResponse, PromptTooLong) as error:
                return error, drafts, stub.requests


def facts(reply: object) -> tuple[object, ...]:
    """All that a policy reads of a reply."""
    assert isinstance(reply, AIMessage)
    assert reply.usage_metadata
    end = reply.response_metadata["finish_reason"]
    return reply.text, reply.tool_calls, reply.invalid_tool_calls, reply.usage_metadata["output_tokens"], end


def test_a_reply_is_heard_piece_by_piece_and_is_in_the_end_what_it_is_without_a_stream():
    reply, drafts, asked = heard(streamed("I am done.", [CALL]))
    plain, none, _ = heard(completion("I am done.", [CALL]), listen=False)
    assert facts(reply) == facts(plain)
    assert none == []
    assert asked[0]["stream"] is True
    texts = [draft.text for draft in drafts]
    assert [one for one in texts if one][:2] == ["I am", "I am don"]
    assert drafts[-1].tool == "finish"
    assert json.loads(drafts[-1].arguments) == CALL[1]
    assert len({draft.arguments for draft in drafts}) > 10


def test_arguments_that_were_cut_off_are_not_taken_for_whole_ones():
    reply, _, _ = heard(streamed("", [("execute_query", '{"query": "SELECT ?x WHERE {')]))
    assert reply.tool_calls == []  # type: ignore[attr-defined]
    assert reply.invalid_tool_calls[0]["args"] == '{"query": "SELECT ?x WHERE {'  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "first",
    [
        failure(400, "stream is not supported"),
        completion("no stream"),
        Canned(list(streamed("Polonium and radium.").body)[:4], content_type="text/event-stream"),
        Canned([b"data: <html>\n\n"], content_type="text/event-stream"),
        Canned([b'data: {"error": {"message": "out of memory"}}\n\n'], content_type="text/event-stream"),
    ],
    ids=["refused", "not streamed", "broken off", "no piece", "error"],
)
def test_a_stream_that_goes_wrong_is_asked_for_again_as_a_whole(first):
    reply, _, asked = heard(first, completion("whole"))
    assert reply.text == "whole"  # type: ignore[attr-defined]
    assert [bool(one.get("stream")) for one in asked] == [True, False]


def test_an_endpoint_that_cannot_stream_is_asked_so_only_once():
    refusal = failure(400, "stream is not supported")
    with ModelStub([refusal, completion("one"), completion("two")]) as stub, cancellation() as cancels:
        model = open_chat_model(Settings(model="stub", base_url=stub.base_url, model_retries=0), sampling=False)
        with streaming_to(lambda draft: None), reply_purpose("step"):
            for _ in range(2):
                cancels.run_here(lambda: invoke(model, "hello"))
    assert [bool(one.get("stream")) for one in stub.requests] == [True, False, False]


def test_a_refusal_that_is_not_for_the_stream_is_told_as_ever():
    error, _, _ = heard(failure(400, "This model's maximum context length is 10 tokens"))
    assert isinstance(error, PromptTooLong)


def test_a_reply_that_is_never_whole_is_given_up_in_time():
    pause = threading.Event()

    def slowly() -> Iterator[bytes]:
        for piece in streamed("word " * 200, size=1).body:
            pause.wait(0.05)
            yield piece

    error, drafts, _ = heard(Canned(slowly(), content_type="text/event-stream"), model_timeout=0.5)
    assert isinstance(error, ServiceError)
    assert drafts
