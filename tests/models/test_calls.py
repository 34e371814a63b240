"""Prompts to a model: side by side, kept on disk, cut to the window; and what stands in for a model."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from kbnav.errors import CredentialsError, ServiceError
from kbnav.models.calls import BYTES_PER_TOKEN, Blobs, ModelCalls, Replies, open_calls
from kbnav.models.scripted import answer, names
from kbnav.prompts import render
from kbnav.retrieval.expansion import parse_score
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import Settings
from tests.models.stub import ModelStub, completion, failure


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
    assert [how for _, how in model.asked] == [{}, {}, {"temperature": 0.7}, {"temperature": 0.7}]
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


def served(stub: ModelStub, home: Path, **changes: object) -> Settings:
    fixed = {"model": "stub", "base_url": stub.base_url, "api_key": "k", "model_retries": 0, "home": home}
    return Settings(**{**fixed, "model_jobs": 1, **changes})  # type: ignore[arg-type]


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
def test_names_are_in_quotes_or_capitals_or_else_all_words(query: str, expected: list[str]):
    assert names(query) == expected


def test_a_document_is_made_of_the_sentences_that_share_words():
    prompt = render("kar/generate.md", query=QUERY, structures=STRUCTURES, linked=True, documents=WITH_LINKS)
    assert answer(prompt) == ("type: guitar. —made by→ Ann Reed (person) ←made by— name: Lark. A letter is in it.")


@pytest.mark.parametrize(
    ("document", "score"),
    [("Lark, a guitar with a letter", 0.5), ("Letters by Ann Reed on guitars", 1.0), ("A boat", 0.0), ("", 0.0)],
)
def test_a_judgement_is_the_share_of_the_querys_words(document: str, score: float):
    reply = answer(render("rerank/score.md", query=QUERY, document=document, directed=True))
    assert parse_score(reply) == score
