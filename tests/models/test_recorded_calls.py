"""Real tool calls of another agent on GPT-4.1, served as they were recorded, are read call by call."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kbnav.agents.common.policy import parse_calls
from kbnav.models.chat import invoke, open_chat_model
from kbnav.settings.model import Settings
from kbnav.tools.toolbox import Toolbox
from tests.agents.parts import NumbersKB, finish, look
from tests.models.stub import Canned, ModelStub


def recorded_messages(folder: Path) -> list[dict[str, Any]]:
    with gzip.open(folder / "openai-tool-runs" / "simplequestions-gpt-4.1.jsonl.gz", "rt") as file:
        runs = [json.loads(line) for line in file]
    return [message for run in runs for message in run["messages"] if message["role"] == "assistant"]


def as_completion(message: dict[str, Any]) -> Canned:
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if message.get("tool_calls") else "stop"}
    document = {"id": "x", "object": "chat.completion", "created": 0, "model": "gpt-4.1", "choices": [choice]}
    return Canned(json.dumps(document).encode())


@pytest.mark.slow
def test_every_recorded_call_is_read_with_its_arguments_and_its_thought(shared_data):
    messages = recorded_messages(shared_data)
    toolbox = Toolbox([look, finish], NumbersKB.capabilities)
    read = without_thought = 0
    with ModelStub([as_completion(message) for message in messages]) as stub:
        model = open_chat_model(Settings(model="gpt-4.1", base_url=stub.base_url), sampling=True)
        for turn, message in enumerate(messages, start=1):
            calls = parse_calls(invoke(model, "?"), turn, toolbox)
            recorded = message.get("tool_calls") or []
            if not recorded:
                (call,) = calls
                assert call.thought == message["content"].strip()
                continue
            said = (message.get("content") or "").strip()
            for call, wanted in zip(calls, recorded, strict=True):
                assert (call.tool, call.id) == (wanted["function"]["name"], wanted["id"])
                assert dict(call.arguments) == json.loads(wanted["function"]["arguments"])
                assert call.thought == said
                assert call.problem.startswith(f"There is no tool '{call.tool}'.")
                read += 1
                without_thought += not said
    assert (read, without_thought) == (285, 108)
