"""Endpoints of models, and the calls that side jobs make: kept, counted, cut, given up."""

import asyncio
import base64
import gc
import gzip
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from kbnav.agents.common.policy import ChatPolicy
from kbnav.agents.common.state import start
from kbnav.encoders.endpoint import Endpoint
from kbnav.errors import BadResponse, CredentialsError, PromptTooLong, ServiceError, StopRun, UsageError
from kbnav.models.calls import BYTES_PER_TOKEN, Blobs, ModelCalls, Replies, open_calls
from kbnav.models.cancellation import _CANCELLATION, Cancellation, OutOfTime, within
from kbnav.models.chat import LARGEST, ask, invoke, open_chat_model
from kbnav.models.scripted import ScriptedModel, answer, names
from kbnav.models.transport import Draft, _Reading, client, reply_purpose, streaming_to
from kbnav.prompts import render
from kbnav.retrieval.expansion import parse_score
from kbnav.runs.trajectory import Call, Step, Trace, Usage
from kbnav.settings.model import Budget, Settings
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox
from tests.agents.parts import NumbersKB, execute_query, finish, look
from tests.dripping import dripping
from tests.models.stub import Canned, ModelStub, cancellation, completion, failure, served, streamed

KEY = "sk-nevertobeleft-of-the-test"


def settings_for(url: str, **changes: object) -> Settings:
    fixed = {"model": "stub", "base_url": url, "api_key": KEY, "model_retries": 0, "model_timeout": 5.0}
    return Settings(**{**fixed, **changes})  # type: ignore[arg-type]


def policy_for(stub: ModelStub) -> ChatPolicy:
    settings = settings_for(stub.base_url)
    toolbox = Toolbox([look, execute_query, finish], NumbersKB.capabilities)
    return ChatPolicy(open_chat_model(settings, sampling=True), toolbox, "spinach/policy.md", settings.budget)


def context() -> Context:
    return Context(NumbersKB(), "?", "en", lambda entry, question: (entry, Usage()))


def test_the_policy_samples_and_everything_else_does_not():
    with ModelStub([completion("hello")]) as stub:
        policy_for(stub)(start("How many?", [], Budget()), context())
        ask(open_chat_model(settings_for(stub.base_url), sampling=False), "hello")
    policy, other = stub.requests
    assert (policy["temperature"], policy["top_p"]) == (1.0, 0.9)
    assert other["temperature"] == 0.0
    assert "top_p" not in other


@pytest.mark.parametrize("variable", ["OPENAI_PROXY", "HTTP_PROXY"])
def test_a_proxy_of_the_environment_is_used(monkeypatch, variable):
    host = f"{variable[:4]}.invalid".lower()  # LangChain keeps clients by the endpoint's address
    with ModelStub([replace(completion("hello"), headers={"Connection": "close"})]) as proxy:
        monkeypatch.setenv(variable, proxy.base_url.removesuffix("/v1"))
        assert asked(f"http://{host}/v1") == "hello"
    (headers,) = proxy.headers
    assert (headers["host"], headers["connection"]) == (host, "close")


def test_the_path_goes_back_to_the_model_as_its_own_calls_and_the_tools_replies():
    state = start("How many?", [], Budget())
    state["path"] = [
        Step(1, Call("look", {"at": "a"}, "first", "c1", 1), "seen: a"),
        Step(2, Call("look", {"at": "b"}, "also", "c2", 1), "seen: b"),
        Step(
            3, Call("(no tool)", {"text": "hm"}, "hm", "n", 2, "No tool was called."), "No tool was called.", ok=False
        ),
    ]
    with ModelStub([completion("x")]) as stub:
        policy_for(stub)(state, context())
    messages = stub.requests[0]["messages"]
    assert [message["role"] for message in messages] == [
        "system", "user", "assistant", "tool", "tool", "assistant", "user",
    ]  # fmt: skip
    assert [call["id"] for call in messages[2]["tool_calls"]] == ["c1", "c2"]
    assert [(m["tool_call_id"], m["content"]) for m in messages[3:5]] == [
        ("c1", "<result>\nseen: a\n</result>"),
        ("c2", "<result>\nseen: b\n</result>"),
    ]


class SmallWindow(ModelStub):
    """Refuses what is longer than ``room`` characters, as llama.cpp does, and calls a tool otherwise."""

    room = 14_000

    def reply(self, asked: dict[str, Any]) -> Canned:
        size = sum(len(message["content"] or "") for message in asked["messages"])
        if size > self.room:
            return failure(400, f"request ({size} tokens) exceeds the available context size ({self.room} tokens)")
        return completion(None, [("finish", {"thought": "done"})])


def test_a_path_that_is_too_long_for_the_model_is_sent_again_with_less_of_its_observations():
    state = start("How many?", [], Budget())
    state["path"] = [
        Step(n, Call("look", {"at": str(n)}, "", f"c{n}", n), f"{n}: {'x' * 9000}", ok=True) for n in (1, 2, 3)
    ]
    with SmallWindow([]) as stub:
        said = policy_for(stub)(state, context())
    assert [call.tool for call in said.calls] == ["finish"]
    *_, last = stub.requests
    shown = [message["content"] for message in last["messages"] if message["role"] == "tool"]
    assert [text[:12] for text in shown] == ["<result>\n1: ", "<result>\n2: ", "<result>\n3: "]
    assert all("… (8003 more characters are not shown again)" in text for text in shown)
    assert shown[-1].endswith("3 of 15 turns used.")
    assert len(stub.requests) == 3  # whole, 4000 characters each, 1000


def test_after_eight_replies_without_a_tool_the_run_ends_and_says_what_is_needed():
    state = start("How many?", [], Budget())
    calls = [Call("(no tool)", {"text": str(n)}, "", f"n{n}", n, "No tool was called.") for n in range(1, 9)]
    state["path"] = [Step(n, call, call.problem, ok=False) for n, call in enumerate(calls[:3], 1)]
    state["discarded"] = [Step(n, call, dropped="repeat") for n, call in enumerate(calls[3:7], 4)]
    with ModelStub([completion("The answer is 42.")]) as stub:
        assert policy_for(stub)(state, context()).calls
        state["path"].append(Step(8, calls[7], calls[7].problem, ok=False))
        said = policy_for(stub)(state, context())
        later = policy_for(stub)({**state, "path": [Step(0, Call("get_entry")), *state["path"]]}, context())
        early = [Step(n, Call("finish"), ok=False, dropped="premature finish") for n in range(1, 9)]
        given_up = policy_for(stub)({**state, "path": [], "discarded": early}, context())
    assert (len(stub.requests), said.calls, given_up.calls) == (1, (), ())
    assert ("called no tool. kbnav needs" in said.refusal, later.note[-15:]) == (True, "called no tool.")
    assert "finished too early" in given_up.note


def test_a_reply_that_was_cut_off_is_told_so():
    replies = [completion("Well, let me think", finish="length"), completion(None, [("look", '{"at')], finish="length")]
    with ModelStub(replies) as stub:
        prose, call = (policy_for(stub)(start("How many?", [], Budget()), context()).calls[0] for _ in range(2))
        text, _ = ask(open_chat_model(settings_for(stub.base_url), sampling=False), "hello")
    assert "cut off" in prose.problem
    assert "cut off" in call.problem
    assert text == ""  # nothing was said, so that there is nothing to mark
    with ModelStub(replies[:1]) as stub:
        assert ask(open_chat_model(settings_for(stub.base_url), sampling=False), "hello")[0] == "Well, let me think […]"


@pytest.mark.parametrize("arguments", ['{"at": ', "[1]", "null", '"a"', '{"at": "a"} trailing', ""])
def test_unreadable_arguments_become_a_call_that_says_so(arguments):
    with ModelStub([completion(None, [("look", arguments)])]) as stub:
        said = policy_for(stub)(start("How many?", [], Budget()), context())
    (call,) = said.calls
    assert call.tool in ("look", "(no tool)")
    assert call.problem


@pytest.mark.parametrize(
    ("reply", "error", "said"),
    [
        (failure(401, "Incorrect API key provided"), CredentialsError, "refused the key: Incorrect API key"),
        (failure(403, "Country not supported"), CredentialsError, "refused the key: Country"),
        (
            failure(404, "The model `gpt-9` does not exist"),
            UsageError,
            "does not know this model or path: The model `gpt-9`",
        ),
        (failure(400, "maximum context length is 8192 tokens"), PromptTooLong, "so much at once: maximum context"),
        (failure(400, "unknown argument: top_p"), UsageError, "refused the request: unknown argument"),
        (failure(429, "Rate limit reached"), ServiceError, "keeps failing: Rate limit"),
        (failure(503, "Overloaded"), ServiceError, "keeps failing: Overloaded"),
        (Canned(b"<html><title>Sign in</title></html>", 200, "text/html"), BadResponse, "no completion"),
        (Canned(b'{"id": "chatcmpl-1", "choices": [{"ind'), BadResponse, "no completion"),
        (Canned(b""), BadResponse, "no completion"),
    ],
)
def test_every_failure_is_one_typed_line(reply, error, said):
    with ModelStub([reply]) as stub, pytest.raises(error, match=said.replace("(", r"\(")) as caught:
        ask(open_chat_model(settings_for(stub.base_url), sampling=False), "hello")
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "reply", [completion(None, refusal="I cannot help with that."), completion("", finish="content_filter")]
)
def test_refusals_are_recognised(reply):
    with ModelStub([reply]) as stub:
        said = policy_for(stub)(start("How many?", [], Budget()), context())
    assert said.refusal
    assert not said.calls


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"


@pytest.fixture(params=["the shared loop", "the run's loop"])
def loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """In which loop a model is asked; that of the run is its caller's, as of ``aask``."""
    if request.param == "the shared loop":
        yield
        return
    with cancellation() as own, within(_CANCELLATION, own):
        yield


def asked(url: str, *, timeout: float = 5.0) -> str:
    """A model's reply to a prompt."""
    return ask(open_chat_model(settings_for(url, model_timeout=timeout), sampling=False), "hello")[0]


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("first", [HEAD, HEAD[:20]], ids=["body", "headers"])
def test_a_reply_that_drips_ends_with_the_time_for_a_whole_one(first):
    began = time.monotonic()
    with dripping(first) as url, pytest.raises(ServiceError, match="did not answer in time; the setting model_timeout"):
        asked(f"{url}/v1", timeout=0.4)
    assert time.monotonic() - began < 30  # it would never end


@pytest.mark.usefixtures("loop")
def test_a_small_body_that_unpacks_to_a_huge_one_is_refused():
    body = json.loads(completion("hello").body)
    bomb = gzip.compress(json.dumps(body).encode() + b" " * (8 * LARGEST))
    packed = Canned(bomb, headers={"Content-Encoding": "gzip"})
    with ModelStub([packed]) as stub, pytest.raises(BadResponse, match="larger than 4 MiB"):
        asked(stub.base_url)


@pytest.mark.usefixtures("loop")
def test_a_plain_body_beyond_the_limit_is_refused_and_one_within_is_read():
    with ModelStub([completion("x" * LARGEST)]) as stub, pytest.raises(BadResponse, match="larger than 4 MiB"):
        asked(stub.base_url)
    with ModelStub([completion("x" * (LARGEST - 2000))]) as stub:
        assert len(asked(stub.base_url)) == LARGEST - 2000


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_place_is_not_followed(status):
    with ModelStub([completion("caught")]) as other:
        led = Canned(b"", status, headers={"Location": other.base_url + "/chat/completions"})
        with ModelStub([led]) as stub, pytest.raises(BadResponse, match="redirects to 127"):
            asked(stub.base_url)
        assert not other.requests


@pytest.mark.usefixtures("loop")
def test_a_redirect_within_the_place_is_followed():
    with ModelStub([Canned(b"", 307, headers={"Location": "/v2/chat/completions"}), completion("hello")]) as stub:
        assert asked(stub.base_url) == "hello"


def test_vectors_are_asked_for_in_the_same_way():
    with ModelStub([completion("caught")]) as other:
        led = Canned(b"", 307, headers={"Location": other.base_url})
        with ModelStub([led]) as stub, pytest.raises(ServiceError, match="redirects to"):
            Endpoint("e", base_url=stub.base_url, retries=0).encode(["text"])
        assert not other.requests


def document(change: Callable[[dict[str, object]], object]) -> Canned:
    found = json.loads(completion("hello").body)
    change(found)
    return Canned(json.dumps(found).encode())


@pytest.mark.parametrize(
    "reply",
    [
        document(lambda body: body.update(choices=[])),
        document(lambda body: body.update(choices=[{"index": 0}])),
        document(lambda body: body.update(usage="a lot")),
        Canned(b"[" * 100_000),
        Canned(b'{"choices":' + b'{"a":' * 900 + b"1" + b"}" * 901),
    ],
)
def test_a_completion_that_is_none_is_a_bad_response(reply):
    with ModelStub([reply]) as stub, pytest.raises(BadResponse, match=r"no completion|odd message"):
        policy_for(stub)(start("How many?", [], Budget()), context())


@pytest.mark.parametrize(
    "odd",
    [
        {"prompt_tokens": "many", "completion_tokens": [], "total_tokens": {}},
        {"prompt_tokens": -5},
        {"completion_tokens": 10**40},
    ],
)
def test_tokens_that_are_no_numbers_are_not_counted(odd):
    with ModelStub([document(lambda body: body.update(usage=odd))]) as stub:
        said = policy_for(stub)(start("How many?", [], Budget()), context())
    assert said.usage == Usage(calls=1)


@pytest.mark.parametrize("depth", [50, 400, 900, 5000])
def test_arguments_nested_deeply_are_told_to_the_model_and_not_kept(depth):
    deep = '{"at": ' + "[" * depth + "]" * depth + "}"
    with ModelStub([completion(None, [("look", deep)])]) as stub:
        said = policy_for(stub)(start("How many?", [], Budget()), context())
    (call,) = said.calls
    assert "nested" in call.problem or "readable" in call.problem
    assert len(json.dumps(call.arguments)) < 3000


def test_thoughts_and_arguments_of_no_sensible_length_are_cut():
    reply = completion(None, [("look", {"thought": "t" * 100_000, "at": "a" * 1_000_000})])
    with ModelStub([reply, completion("w" * 1_000_000)]) as stub:
        policy = policy_for(stub)
        (call,) = policy(start("How many?", [], Budget()), context()).calls
        (silent,) = policy(start("How many?", [], Budget()), context()).calls
    assert len(call.thought) < 10_000
    assert "long" in call.problem
    assert len(json.dumps(call.arguments)) < 3000
    assert len(silent.thought) < 10_000
    assert len(json.dumps(silent.arguments)) < 10_000


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_a_key_that_is_echoed_is_told_nobody(status):
    reply = completion(f"You sent {KEY}, did you?") if status == 200 else failure(status, f"no such key: {KEY}")
    with ModelStub([replace(reply, status=status)]) as stub:
        try:
            said = asked(stub.base_url)
        except StopRun as error:
            said = str(error)
    assert KEY not in said
    assert "[hidden]" in said


def test_a_password_in_the_address_is_told_nobody_and_its_base64_neither():
    packed = base64.b64encode(b"me:a-nevertobeleft").decode()
    reply = failure(400, f"Basic {packed} is a-nevertobeleft")
    with ModelStub([reply]) as stub:
        url = stub.base_url.replace("http://", "http://me:a-nevertobeleft@")
        with pytest.raises(UsageError) as told:
            asked(url)
        with pytest.raises(ServiceError) as vectors:
            Endpoint("e", base_url=url, retries=0).encode(["text"])
    for text in (str(told.value), str(vectors.value)):
        assert "a-nevertobeleft" not in text
        assert packed not in text


def test_a_key_is_left_out_wherever_a_piece_of_the_reply_ends():
    text = f"1 {KEY} 2 {KEY}{KEY} 3".encode()
    for size in range(1, len(text)):
        read = _Reading("", 10_000, [KEY])
        pieces = [read(text[start : start + size]) for start in range(0, len(text), size)]
        assert b"".join([*pieces, read.rest()]) == b"1 [hidden] 2 [hidden][hidden] 3"


def test_a_reply_that_is_packed_is_unpacked():
    packed = replace(
        completion("hello"), body=gzip.compress(completion("hello").body), headers={"Content-Encoding": "gzip"}
    )
    with ModelStub([packed]) as stub:
        assert asked(stub.base_url) == "hello"


CALL = ("finish", {"thought": "Done.", "answer": "Polonium and radium."})


def heard(
    *replies: Canned, listen: bool = True, **changes: object
) -> tuple[object, list[Draft], list[dict[str, object]]]:
    """The reply or its error, what was heard before, and what the endpoint was asked."""
    drafts: list[Draft] = []
    with ModelStub(replies) as stub, cancellation() as cancellations:
        model = open_chat_model(settings_for(stub.base_url, **changes), sampling=False)
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
        Canned(islice(streamed("Polonium and radium.").body, 4), type="text/event-stream"),
        Canned(b"data: <html>\n\n", type="text/event-stream"),
        Canned(b'data: {"error": {"message": "out of memory"}}\n\n', type="text/event-stream"),
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
        model = open_chat_model(settings_for(stub.base_url), sampling=False)
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

    error, drafts, _ = heard(Canned(slowly(), type="text/event-stream"), model_timeout=0.5)
    assert isinstance(error, ServiceError)
    assert drafts


def test_calls_of_models_from_several_threads_are_made_by_one_loop():
    class Noting(ScriptedModel):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
            loops.add(asyncio.get_running_loop())
            return self._generate(*args, **kwargs)

    loops: set[asyncio.AbstractEventLoop] = set()
    model = Noting(replies=[AIMessage("Yes.")] * 9)
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda _: Cancellation().run_here(lambda: ask(model, "hello"))[0], range(9)))
    assert len(loops) == 1


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # of loops that were closed
def test_one_model_is_asked_in_several_loops():
    with ModelStub([completion("Yes.")] * 6) as stub:
        model = open_chat_model(settings_for(stub.base_url), sampling=False)
        for _ in range(3):
            assert asyncio.run(model.ainvoke("hello")).text == "Yes."
            assert Cancellation().ask(lambda: model.ainvoke("hello")).text == "Yes."
    gc.collect()  # no connection of a loop that has ended is left


def test_connections_of_clients_that_nothing_uses_any_more_are_closed():
    gc.collect()
    with warnings.catch_warnings(record=True) as caught, ModelStub([completion("Yes.")]) as stub:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(3):
            model = open_chat_model(settings_for(stub.base_url), sampling=False)
            assert Cancellation().ask(partial(model.ainvoke, "hello")).text == "Yes."
            client.cache_clear()
            del model
            gc.collect()
        assert Cancellation().ask(partial(asyncio.sleep, 0.05, "closed")) == "closed"
        gc.collect()
    assert [str(one.message) for one in caught] == []


STARTS_ANOTHER_AND_DIES = """
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from kbnav.models.cancellation import end_with_parent
pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=end_with_parent)
pool.submit(print, "begun", flush=True).result()
os._exit(7)
"""
HANGS_IN_A_THREAD = """
import asyncio, threading, time
from kbnav.errors import Stopped
from kbnav.models.cancellation import Cancellation
cancellation, begun = Cancellation(), threading.Event()
threading.Thread(target=lambda: (begun.wait(), cancellation.stop())).start()
try:
    cancellation.ask(lambda: asyncio.to_thread(lambda: (begun.set(), time.sleep(600))))
except Stopped as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [(STARTS_ANOTHER_AND_DIES, 7, "begun\n"), (HANGS_IN_A_THREAD, 0, "Stopped on request.\n")],
)
def test_a_process_ends_with_the_one_that_started_it_and_with_a_call_that_hangs(program, code, said):
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (code, said)  # its output ends with the last process that has it


def test_calls_of_a_run_share_a_few_threads_and_a_call_that_hangs_keeps_only_its_own():
    cancellation, release, threads = Cancellation(), threading.Event(), set[int]()
    with pytest.raises(OutOfTime):
        cancellation.run(release.wait, seconds=0.01)
    for _ in range(50):
        threads.add(cancellation.run(threading.get_ident, seconds=5))
    release.set()
    assert len(threads) <= 2
    with pytest.raises(ZeroDivisionError):
        cancellation.run(lambda: 1 // 0, seconds=5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_makes_calls_though_its_parent_had_idle_threads():
    cancellation = Cancellation()
    cancellation.run(int, seconds=5)
    if (child := os.fork()) == 0:
        try:
            os._exit(cancellation.run(lambda: 7, seconds=5))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


class Echo(BaseChatModel):
    """Says what it was asked, with a number; ``together`` calls must be under way before one of them ends."""

    together: int = 1
    asked: list[tuple[str, dict[str, Any]]] = Field(default_factory=list)
    most: int = 0
    _lock: Any = PrivateAttr(default_factory=threading.Lock)
    _busy: int = PrivateAttr(default=0)
    _barrier: Any = PrivateAttr(default=None)

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._barrier = threading.Barrier(self.together)

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any):
        prompt = str(messages[-1].text)
        with self._lock:
            self.asked.append((prompt, kwargs))
            self._busy += 1
            self.most = max(self.most, self._busy)
            number = len(self.asked)
        self._barrier.wait(timeout=10)
        with self._lock:
            self._busy -= 1
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"{prompt} ({number})"))])


def test_calls_run_side_by_side_and_keep_their_order():
    model, trace = Echo(together=4), Trace()
    prompts = [f"prompt {number}" for number in range(8)]
    replies = ModelCalls(model, "echo", jobs=4).ask_many(prompts, trace, purpose="test")
    assert [str(reply).rpartition(" ")[0] for reply in replies] == prompts
    assert [step.observation for step in trace.steps] == replies
    assert [step.number for step in trace.steps] == list(range(1, 9))
    assert model.most == 4


def test_a_reply_is_kept_by_prompt_sample_temperature_and_model(tmp_path):
    model = Echo()
    replies = Replies(tmp_path / "replies.sqlite")
    calls = ModelCalls(model, "echo", replies=replies)
    asked = [{}, {"sample": 1}, {"temperature": 0.7}, {"temperature": 0.7, "sample": 1}]
    first = [calls.ask("hello", Trace(), purpose="a", **how) for how in asked]
    assert first == [f"hello ({number})" for number in (1, 2, 3, 4)]
    assert [how.get("temperature") for _, how in model.asked] == [None, None, 0.7, 0.7]
    again = ModelCalls(model, "echo", replies=Replies(tmp_path / "replies.sqlite"))
    assert [again.ask("hello", Trace(), purpose="b", **how) for how in asked] == first
    other = ModelCalls(model, "echo-2", replies=replies)
    assert other.ask("hello", Trace(), purpose="a") == "hello (5)"
    elsewhere = ModelCalls(model, "echo", base_url="http://127.0.0.1:1/v1", replies=replies)
    assert elsewhere.ask("hello", Trace(), purpose="a") == "hello (6)"


@pytest.mark.parametrize(("setting", "sent"), [(1.0, [0.0, 0.7, 0.0]), (None, [None] * 3)])
def test_the_temperature_is_the_settings_unless_another_is_asked_for_and_that_may_be_none(tmp_path, setting, sent):
    with ModelStub([completion("hi")]) as stub:
        calls, trace = open_calls(served(stub, tmp_path, temperature=setting, cache_age=0)), Trace()
        calls.ask("hello", trace, purpose="test")
        calls.ask_many(["hello"], trace, purpose="test", temperature=0.7)
        calls.ask("hello", trace, purpose="test", temperature=0.0)
    assert [request.get("temperature") for request in stub.requests] == sent
    assert [step.call.arguments.get("temperature") for step in trace.steps] == [heat or None for heat in sent]


def test_replies_given_again_count_as_when_they_were_made(tmp_path):
    with ModelStub([completion("hi")]) as stub:
        settings = served(stub, tmp_path)
        paid, free = Trace(), Trace()
        open_calls(settings).ask("hello", paid, purpose="test")
        open_calls(settings).ask("hello", free, purpose="test")
    assert len(stub.requests) == 1
    assert (paid.usage.prompt, paid.usage.calls, paid.usage.kept) == (100, 1, 0)
    assert (free.usage.prompt, free.usage.calls, free.usage.kept) == (100, 1, 1)
    assert free.steps[0].call.arguments["kept_from_before"] is True


@pytest.mark.parametrize(
    "reply",
    [
        completion(""),
        completion(" \n"),
        completion("It is half a sen", finish="length"),
        completion("It is", finish="content_filter"),
    ],
)
def test_a_reply_that_is_empty_or_cut_off_is_given_once_and_not_kept(tmp_path, reply):
    with ModelStub([reply, completion("whole")]) as stub:
        calls = open_calls(served(stub, tmp_path))
        first, *others = [calls.ask("hello", Trace(), purpose="test") for _ in range(3)]
    assert first == json.loads(reply.body)["choices"][0]["message"]["content"]
    assert others == ["whole", "whole"]
    assert len(stub.requests) == 2


def test_a_failure_is_a_step_and_is_not_kept(tmp_path):
    with ModelStub([failure(500, "down"), completion("up")]) as stub:
        calls, trace = open_calls(served(stub, tmp_path)), Trace()
        with pytest.raises(ServiceError):
            calls.ask("hello", trace, purpose="test")
        assert calls.ask("hello", trace, purpose="test") == "up"
    assert [(step.ok, step.call.arguments["purpose"]) for step in trace.steps] == [(False, "test"), (True, "test")]


def test_a_refused_key_ends_all_at_once(tmp_path):
    with ModelStub([completion("a"), failure(401, "no")]) as stub, pytest.raises(CredentialsError):
        open_calls(served(stub, tmp_path)).ask_many([str(n) for n in range(20)], Trace(), purpose="test")
    assert len(stub.requests) <= 4


def test_what_does_not_fit_the_window_is_cut_in_the_middle_and_said():
    model, trace = Echo(), Trace()
    prompt = "Instructions first. " + "x" * 3000 + " The question last."
    ModelCalls(model, "echo", window=400).ask(prompt, trace, purpose="test")
    sent = model.asked[0][0]
    room = (400 - 100) * BYTES_PER_TOKEN
    assert room - 40 <= len(sent.encode()) <= room
    assert sent.startswith("Instructions first. xxx")
    assert sent.endswith("xxx The question last.")
    left_out = len(prompt) - len(sent.replace(sent[sent.index("\n[…") : sent.index("…]\n") + 3], ""))
    assert trace.steps[0].call.arguments["cut"].startswith(f"{left_out} characters")


def test_what_is_stored_first_stays_also_between_threads(tmp_path):
    blobs = Blobs(tmp_path / "b.sqlite", "bytes")
    keys = [f"k{number}" for number in range(1200)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: blobs.put({key: f"{n}".encode() for key in keys}), range(4)))
    found = blobs.get([*keys, "none"])
    assert found.keys() == set(keys)
    assert len(set(found.values())) == 1
    blobs.put({"k0": b"later"})
    assert blobs.get(["k0"]) == {"k0": found["k0"]}


QUERY = "Which guitar by Ann Reed has a letter in it?"
STRUCTURES = {"guitar": ("name", "description"), "person": ("name",)}
WITH_LINKS = [
    "Found for the query itself: [1] name: Wren. type: guitar. description: Lost. It was never found.",
    "  —made by→ Ann Reed (person) ←made by— [2] name: Lark. type: guitar. description: It hums. A letter is in it.",
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (QUERY, ["Ann Reed"]),
        ("Find papers of the Max Planck Institute for optics", ["Max Planck Institute"]),
        ('What made "the storm at sea" is by Bob?', ["the storm at sea", "Bob"]),
        ("Which drug binds TP53 and IL-6?", ["TP53", "IL-6"]),
        ("which symptoms are there of kidney cancer and of asthma", ["symptoms kidney cancer asthma"]),
        ("Who is it?", []),
    ],
)
def test_names_are_in_quotes_or_capitals_or_else_all_words(query, expected):
    assert names(query) == expected


def test_a_document_is_made_of_the_sentences_that_share_words():
    prompt = render("kar/document.md", query=QUERY, structures=STRUCTURES, linked=True, documents=WITH_LINKS)
    assert answer(prompt) == ("type: guitar. —made by→ Ann Reed (person) ←made by— name: Lark. A letter is in it.")


@pytest.mark.parametrize(
    ("document", "score"),
    [("Lark, a guitar with a letter", 0.5), ("Letters by Ann Reed on guitars", 1.0), ("A boat", 0.0), ("", 0.0)],
)
def test_a_judgement_is_the_share_of_the_querys_words(document, score):
    reply = answer(render("rerank/score.md", query=QUERY, document=document, directed=True))
    assert parse_score(reply) == score
