"""Chat models over real HTTP: what a model is sent, how its replies are read, how its failures come out."""

import asyncio
import os
import threading
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel

from kbnav.agents.common.policy import ChatPolicy
from kbnav.agents.common.state import start
from kbnav.errors import BadResponse, CredentialsError, PromptTooLong, ServiceError, UsageError
from kbnav.models.cancellation import Cancellation, OutOfTime
from kbnav.models.chat import ask, open_chat_model
from kbnav.runs.trajectory import Call, Step, Usage
from kbnav.settings.model import Budget, Settings
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox
from tests.agents.parts import NumbersKB, execute_query, finish, look
from tests.models.stub import Canned, ModelStub, completion, failure

KEY = "sk-nevertobeleft-of-the-test"


def settings_for(stub: ModelStub, **changes: object) -> Settings:
    return Settings(
        **{
            "model": "stub",
            "base_url": stub.base_url,
            "api_key": KEY,
            "model_retries": 0,
            "model_timeout": 5.0,
            **changes,
        }  # type: ignore[arg-type]
    )


def policy_for(stub: ModelStub) -> ChatPolicy:
    settings = settings_for(stub)
    toolbox = Toolbox([look, execute_query, finish], NumbersKB.capabilities)
    return ChatPolicy(open_chat_model(settings, sampling=True), toolbox, "spinach/policy.md", settings.budget)


def context() -> Context:
    return Context(NumbersKB(), "?", "en", lambda entry, question: (entry, Usage()))


def test_the_policy_samples_and_everything_else_does_not():
    with ModelStub([completion("hello")]) as stub:
        policy_for(stub)(start("How many?", [], Budget()), context())
        ask(open_chat_model(settings_for(stub), sampling=False), "hello")
    policy, other = stub.requests
    assert (policy["temperature"], policy["top_p"]) == (1.0, 0.9)
    assert other["temperature"] == 0.0
    assert "top_p" not in other


@pytest.mark.parametrize("braked", [False, True])
@pytest.mark.parametrize("variable", ["OPENAI_PROXY", "HTTP_PROXY"])
def test_a_proxy_of_the_environment_is_used(monkeypatch, variable, braked):
    async def within_a_brake(model: BaseChatModel) -> tuple[str, Usage]:
        cancellation = Cancellation(asyncio.get_running_loop())
        return await asyncio.to_thread(cancellation.run_here, lambda: ask(model, "hello"))

    host = f"{variable[:4]}-{braked}.invalid".lower()  # LangChain keeps clients by the endpoint's address
    with ModelStub([replace(completion("hello"), headers={"Connection": "close"})]) as proxy:
        monkeypatch.setenv(variable, proxy.base_url.removesuffix("/v1"))
        model = open_chat_model(settings_for(proxy, base_url=f"http://{host}/v1"), sampling=False)
        said = asyncio.run(within_a_brake(model)) if braked else ask(model, "hello")
    assert said[0] == "hello"
    (headers,) = ({name.lower(): value for name, value in sent.items()} for sent in proxy.headers)
    assert (headers["host"], headers["connection"]) == (host, "close" if braked else "keep-alive")


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
    assert (len(stub.requests), said.calls) == (1, ())
    assert "called no tool" in said.refusal


def test_a_reply_that_was_cut_off_is_told_so():
    replies = [completion("Well, let me think", finish="length"), completion(None, [("look", '{"at')], finish="length")]
    with ModelStub(replies) as stub:
        prose, call = (policy_for(stub)(start("How many?", [], Budget()), context()).calls[0] for _ in range(2))
        text, _ = ask(open_chat_model(settings_for(stub), sampling=False), "hello")
    assert "cut off" in prose.problem
    assert "cut off" in call.problem
    assert text == ""  # nothing was said, so that there is nothing to mark
    with ModelStub(replies[:1]) as stub:
        assert ask(open_chat_model(settings_for(stub), sampling=False), "hello")[0] == "Well, let me think […]"


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
        ask(open_chat_model(settings_for(stub), sampling=False), "hello")
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "reply",
    [completion(None, refusal="I cannot help with that."), completion("", finish="content_filter")],
)
def test_refusals_are_recognised(reply):
    with ModelStub([reply]) as stub:
        said = policy_for(stub)(start("How many?", [], Budget()), context())
    assert said.refusal
    assert not said.calls


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
