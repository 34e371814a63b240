"""The functions of the API that ask a language model (Agent Retriever, section 3 and Figure 9)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field

from kbnav.errors import FATAL, BadArguments, Stopped, StopRun
from kbnav.models.calls import ModelCalls
from kbnav.programs.api.functions import Function, Phrase
from kbnav.prompts import prompt_hashes, render
from kbnav.retrieval.base import without_thought
from kbnav.retrieval.rerank import parse_score
from kbnav.runs.trace import Trace

LETTERS = 6_000
"""Characters of a text that the model is shown."""
_DECODER = json.JSONDecoder(strict=False)
WordCount = Annotated[int, Field(ge=5, le=300)]


class OverLimit(BadArguments):
    """A call that would send more prompts than one run may; none of them was sent. A program sees a RuntimeError."""


class ModelFunctions:
    """What a model says of texts, for one run of a program. Docstrings are what the writer of a program reads."""

    def __init__(self, model: ModelCalls | None, trace: Trace, limit: int, tell: Callable[[str], None]) -> None:
        """Each function may send ``limit`` prompts; ``tell`` takes what the writer should hear of."""
        self._model, self._trace, self._limit, self._tell = model, trace, limit, tell
        self.sent: dict[str, int] = {}
        """Prompts so far, by function."""

    @classmethod
    def functions(cls) -> Iterator[Function]:
        """All of them, in the order in which they are told."""
        for method in (
            cls.parse_query,
            cls.score_texts,
            cls.check_texts,
            cls.extract,
            cls.summarise,
            cls.classify,
        ):
            yield Function("language model", method, asks_model=True)

    def parse_query(self, query: Phrase, fields: list[str]) -> dict[str, str]:
        """What the query says of each field, such as {"brand": "Nike"}; "" where it says nothing. One prompt."""
        fields = list(dict.fromkeys(fields))
        if not fields:
            return {}
        reply = self._ask("parse_query", [render("programs/parse.md", query=query, fields=fields)])[0]
        found = _object(reply)
        return {field: _plain(found.get(field)) for field in fields}

    def score_texts(self, query: Phrase, texts: list[str]) -> list[float]:
        """For each text from 0 to 1 how well it answers the query, as a model judges. One prompt a text."""
        prompts = [render("programs/score.md", query=query, text=_cut(text)) for text in texts]
        return [parse_score(reply) or 0.0 for reply in self._ask("score_texts", prompts)]

    def check_texts(self, requirement: Phrase, texts: list[str]) -> list[bool]:
        """For each text whether it meets a requirement in plain words, as a model judges. One prompt a text."""
        prompts = [render("programs/check.md", requirement=requirement, text=_cut(text)) for text in texts]
        return [reply.strip(" *_.`'\"").casefold().startswith("yes") for reply in self._ask("check_texts", prompts)]

    def extract(self, what: Phrase, texts: list[str]) -> list[str]:
        """From each text what is asked for, such as "the year"; "" where it does not say. One prompt a text."""
        prompts = [render("programs/extract.md", what=what, text=_cut(text)) for text in texts]
        return ["" if reply.strip(" .").casefold() == "none" else reply for reply in self._ask("extract", prompts)]

    def summarise(self, texts: list[str], words: WordCount = 50) -> list[str]:
        """Each text in at most so many words, as a model tells it. One prompt a text."""
        return self._ask("summarise", [render("programs/summarise.md", words=words, text=_cut(text)) for text in texts])

    def classify(self, texts: list[str], labels: list[str]) -> list[str]:
        """For each text the one of the labels that fits best, as a model judges; "" where it chose none. One prompt a
        text.
        """  # noqa: D205
        prompts = [render("programs/classify.md", labels=labels, text=_cut(text)) for text in texts]
        by_name = {_key(label): label for label in labels}
        return [by_name.get(_key(reply), "") for reply in self._ask("classify", prompts)]

    def _ask(self, name: str, prompts: Sequence[str]) -> list[str]:
        """The replies, empty where a call failed. Raises OverLimit, and StopRun where no call can go well."""
        sent = self.sent.get(name, 0)
        if sent + len(prompts) > self._limit:
            raise OverLimit(
                f"{name}: {self._limit} prompts are allowed for a query, {sent} were sent and this would send "
                f"{len(prompts)} more; none of them was sent"
            )
        if self._model is None or not prompts:
            return []
        self.sent[name] = sent + len(prompts)
        replies = self._model.ask_many(prompts, self._trace, purpose=name)
        failed = [reply for reply in replies if isinstance(reply, StopRun)]
        for error in failed:
            if isinstance(error, (*FATAL, Stopped)):
                raise error
        if failed:
            self._tell(f"[{name}: {len(failed)} of {len(prompts)} prompts were not answered: {failed[0]}]")
        return ["" if isinstance(reply, StopRun) else without_thought(reply) for reply in replies]


def model_prompts() -> dict[str, str]:
    """SHA-256 of each prompt file of these functions."""
    return prompt_hashes("programs")


def _cut(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[:LETTERS]} […]"


def _key(label: str) -> str:
    return label.strip(" *_.`'\"-").casefold()


def _object(reply: str) -> dict[str, Any]:
    """The first JSON object of a reply, empty where it has none."""
    start = reply.find("{")
    try:
        found = _DECODER.raw_decode(reply, start)[0] if start >= 0 else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(str(one) for one in value)
    return "" if value is None else str(value)
