"""Chat models that say what they are told to: scripts for tests, and the actions of a saved run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from kbnav.runs.trajectory import NO_TOOL, Run, Step

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForLLMRun


class ScriptedModel(BaseChatModel):
    """Gives its replies one after another, then empty ones; keeps every conversation it was shown in ``seen``."""

    replies: list[AIMessage]
    seen: list[list[BaseMessage]] = Field(default_factory=list)
    _next: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> ScriptedModel:  # noqa: ARG002
        """Itself: a script needs no schemas."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        self.seen.append(messages)
        reply = self.replies[self._next] if self._next < len(self.replies) else AIMessage("")
        self._next += 1
        return ChatResult(generations=[ChatGeneration(message=reply)])


def says(*calls: tuple[str, dict[str, Any]], text: str = "", thought: str = "scripted") -> AIMessage:
    """A reply with these calls: (tool, arguments) pairs, to which ``thought`` is added."""
    return AIMessage(
        text,
        tool_calls=[
            {"name": name, "args": {"thought": thought, **arguments}, "id": f"scripted-{number}"}
            for number, (name, arguments) in enumerate(calls)
        ],
    )


def replay_model(run: Run) -> ScriptedModel:
    """A model that asks for the actions of a saved run, dropped ones included, turn by turn."""
    turns: dict[int, list[Step]] = {}
    for step in run.steps:
        turns.setdefault(step.call.turn, []).append(step)
    return ScriptedModel(replies=[_reply(steps) for _, steps in sorted(turns.items())])


def _reply(steps: Sequence[Step]) -> AIMessage:
    called = [step.call for step in steps if step.call.tool != NO_TOOL]
    return AIMessage(
        "" if called else steps[0].call.thought,
        tool_calls=[
            {"name": call.tool, "args": {"thought": call.thought, **call.arguments}, "id": call.id} for call in called
        ],
    )
