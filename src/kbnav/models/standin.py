"""A stand-in for a language model: rules that answer the prompts of systems from the prompts alone.

It lets these systems run, and be tested and timed, where there is no model. It understands nothing: it copies names out
of a query, and out of given documents the sentences that share words with the query. What a system scores with it says
nothing of what it scores with a model; wherever results are shown it goes by its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from kbnav.answers.relevance import relevance, words
from kbnav.models.standin_walks import walk_answer, walk_call

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForLLMRun
    from langchain_core.language_models import LanguageModelInput
    from langchain_core.runnables import Runnable

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
        **kwargs: Any,
    ) -> ChatResult:
        message = walk_call(messages) if kwargs.get("tools") else AIMessage(answer(messages[-1].text))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        """As an agent's policy: it calls the tools of ``pasemiqa`` and ``gog``."""
        return self.bind(tools=tools, **kwargs)


def answer(prompt: str) -> str:
    """The reply to one prompt; empty for a prompt of another form."""
    walked = walk_answer(prompt)
    if walked is not None:
        return walked
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
    """The share of the query's words that the document has too, with any ending."""
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
