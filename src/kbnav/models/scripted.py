"""Chat models that say what they are told to: scripts for tests, and the actions of a saved run."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from kbnav.answers.relevance import content_words, relevance
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


NAME = "standin"
"""The model's name in every run it took part in."""
_SENTENCES = 8
"""Sentences a document is put together from."""
_NUMBERED = re.compile(r"(?:Found for [^\[\]]*: )?\[\d+\] ")
_DOCUMENTS = re.compile(r"<documents?>\n(.*?)\n</documents?>", re.DOTALL)
_QUERY = re.compile(r"^Query: (.+)$", re.MULTILINE)
_NAMED = re.compile(
    r"[\"“„«]([^\"“”„«»]+)[\"“”»]"
    r"|(?<![\w'’])([A-Z0-9][\w'’.+/-]*(?:\s+(?:(?:of|the|de|van|von)\s+)*[A-Z0-9][\w'’.+/-]*)*)"
)
"""What stands in quotes or in capitals."""
_JUDGED = re.compile(
    r"^# Question\n(.+?)\n+# Entry\n<result>\n(.*)</result>\n.*^# Judgement$", re.DOTALL | re.MULTILINE
)


class StandIn(BaseChatModel):
    """Answers a prompt by the cue in its last line (``Document:``), or as a judge of one entry."""

    @property
    def _llm_type(self) -> str:
        return NAME

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - part of the protocol
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(answer(messages[-1].text)))])


def answer(prompt: str) -> str:
    """The reply to one prompt; empty for a prompt of another form. Cues are those that files of prompts end with."""
    if judged := _JUDGED.search(prompt):
        wanted = list(dict.fromkeys(content_words(judged[1])))
        shared = sum(relevance(word, [judged[2]])[0] > 0 for word in wanted)
        return f"{shared / len(wanted):.2f}" if wanted else "0"
    cue = prompt.rstrip().rpartition("\n")[2]
    queries = _QUERY.findall(prompt)
    if not queries:
        return ""
    query, documents = queries[-1], _DOCUMENTS.findall(prompt)
    keywords = ", ".join(dict.fromkeys(content_words(query)))
    match cue:
        case "Entities:":
            return json.dumps([{"entity": {"name": name}} for name in names(query)], ensure_ascii=False)
        case "Document:":
            return " ".join(sentences(query, documents[-1] if documents else "") or content_words(query))
        case "Keywords:":
            return keywords
        case "Analysis:":
            return f"The query names {', '.join(names(query)) or 'nothing'}. It is about {keywords}."
    return ""


def names(query: str) -> list[str]:
    """What a query may name: what stands in quotes or in capitals; where there is neither, the query's words."""
    found = [quoted or capitals for quoted, capitals in _NAMED.findall(query)]
    if found and query.lstrip().startswith(found[0]):  # what begins a sentence is in capitals whatever it is
        first, _, rest = found[0].partition(" ")
        found[:1] = [found[0]] if content_words(first) and rest else [rest]
    telling = " ".join(content_words(query))
    return list(dict.fromkeys(name for name in found if content_words(name))) or ([telling] if telling else [])


def sentences(query: str, documents: str) -> list[str]:
    """The sentences of the documents that share most with the query, each once, in their order."""
    given = list(dict.fromkeys(re.split(r"(?<=[.!?])\s+|\n", _NUMBERED.sub("", documents).strip())))
    scores = dict(zip(given, relevance(query, given), strict=True))
    best = sorted((part for part in given if scores[part] > 0), key=lambda part: -scores[part])[:_SENTENCES]
    return [part for part in given if part in best]
