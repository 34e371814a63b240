"""Chat models that say what they are told to: scripts for tests, and the actions of a saved run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from kbnav.answers.relevance import relevance, words
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
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_NUMBERED = re.compile(r"(?:Found for [^\[\]]*: )?\[\d+\] ")
_DOCUMENTS = re.compile(r"<documents?>\n(.*?)\n</documents?>", re.DOTALL)
_QUERY = re.compile(r"^Query: (.+)$", re.MULTILINE)
_CUE = re.compile(r"^(\w+):$")
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»]+)[\"“”»]")
_CAPITALISED = re.compile(r"(?<![\w'’])[A-Z0-9][\w'’.+/-]*(?:\s+(?:(?:of|the|de|van|von)\s+)*[A-Z0-9][\w'’.+/-]*)*")
_JUDGED = re.compile(
    r"^# Question\n(.+?)\n+# Entry\n<result>\n(.*)</result>\n.*^# Judgement$", re.DOTALL | re.MULTILINE
)
_EDGES = ".,;:!?'’"


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
    """The reply to one prompt; empty for a prompt of another form."""
    if judged := _JUDGED.search(prompt):
        return _score(judged[1], judged[2])
    lines = prompt.rstrip().splitlines()
    cue = _CUE.match(lines[-1]) if lines else None
    queries = _QUERY.findall(prompt)
    if cue is None or not queries or cue[1] not in _ANSWERS:
        return ""
    found = _DOCUMENTS.findall(prompt)
    return _ANSWERS[cue[1]](queries[-1], found[-1] if found else "")


def names(query: str) -> list[str]:
    """What a query may name: what stands in quotes or in capitals; where there is neither, its other words in runs."""
    quoted = _QUOTED.findall(query)
    found = [match[0].strip(_EDGES) for match in _CAPITALISED.finditer(_QUOTED.sub(" ", query))]
    first, _, rest = found[0].partition(" ") if found else ("", "", "")
    if query.lstrip().startswith(first) and not words(first):
        found[:1] = [rest]  # what begins a sentence is in capitals whatever it is: "Which Stradivari"
    elif query.lstrip().startswith(first) and not rest and first.istitle():
        found = found[1:]  # "Find"
    return list(dict.fromkeys(name for name in (*quoted, *found) if words(name))) or _runs(query)


def _runs(query: str) -> list[str]:
    """Runs of words between function words and punctuation, the longest first."""
    runs: list[list[str]] = [[]]
    for word in re.findall(r"[^\W_][\w'’-]*|[^\w\s]", query):
        if words(word):
            runs[-1].append(word)
        else:
            runs.append([])
    return sorted((" ".join(run) for run in runs if run), key=lambda run: -len(run.split()))


def sentences(query: str, documents: str) -> list[str]:
    """The sentences of the documents, a line each, that share most with the query, behind the first of their document.

    They keep their order; each comes once.
    """
    lines = [_SENTENCE.split(_NUMBERED.sub("", line.strip())) for line in documents.splitlines()]
    given = list(dict.fromkeys(part for line in lines for part in line))
    scores = dict(zip(given, relevance(query, given), strict=True))
    best = set(sorted((part for part in given if scores[part] > 0), key=lambda part: -scores[part])[:_SENTENCES])
    chosen = [line for line in lines if not best.isdisjoint(line)]
    return list(dict.fromkeys(part for line in chosen for part in line if part == line[0] or part in best))


def _entities(query: str, documents: str) -> str:  # noqa: ARG001 - as all answers
    return json.dumps([{"entity": {"name": name}} for name in names(query)], ensure_ascii=False)


def _document(query: str, documents: str) -> str:
    return " ".join(sentences(query, documents)) or " ".join(words(query))


def _keywords(query: str, documents: str) -> str:  # noqa: ARG001
    return ", ".join(dict.fromkeys(words(query)))


def _analysis(query: str, documents: str) -> str:  # noqa: ARG001
    named = ", ".join(names(query)) or "nothing"
    return f"The query names {named}. It is about {', '.join(dict.fromkeys(words(query)))}."


def _score(query: str, documents: str) -> str:
    wanted: Sequence[str] = list(dict.fromkeys(words(query)))
    shared = sum(relevance(word, [documents])[0] > 0 for word in wanted)
    return f"{shared / len(wanted):.2f}" if wanted else "0"


_ANSWERS: Mapping[str, Callable[[str, str], str]] = MappingProxyType(
    {
        "Entities": _entities,
        "Document": _document,
        "Keywords": _keywords,
        "Analysis": _analysis,
    }
)
"""By the cue that the prompts under ``prompts/`` end with."""
