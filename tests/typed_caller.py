"""What a program that uses the library may write under ``mypy --strict``; ``make lint`` checks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import kbnav
from kbnav.answers.tables import AnswerTable
from kbnav.knowledge.base import KnowledgeBase
from kbnav.settings.model import Budget, Web

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


def names(kb: kbnav.KB) -> list[str]:
    return [found.label for found in kb.search("radium")]


def answered(question: str) -> kbnav.Answer:
    settings = kbnav.Settings(language="en")
    with kbnav.open("mini", settings=settings) as kb:
        return kbnav.ask(question, kb=kb, model="offline", on_step=lambda step: print(step.call.tool))


async def awaited(question: str) -> str:
    answer = await kbnav.aask(question, kb="mini")
    return answer.text


def watched(question: str) -> Iterator[str]:
    for event in kbnav.stream(question):
        if event.kind == "call" and event.call:
            yield event.call.tool
        elif event.answer:
            yield event.answer.text


def tools(kb: kbnav.KB) -> list[BaseTool]:
    return kbnav.langchain_tools(kb)


class Own(KnowledgeBase):
    name = "own"
    capabilities = frozenset({"execute_query"})

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        return AnswerTable(boolean=True)


def asked() -> kbnav.Settings:
    settings = kbnav.Settings(budget=Budget(seconds=60), web=Web(port=8081))
    return kbnav.open(Own(), settings=settings).settings


def graphed(question: str) -> object:
    return kbnav.graph("mini").invoke({"question": question})["answer"]
