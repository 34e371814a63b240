"""What a program that uses the library may write under ``mypy --strict``; ``make lint`` checks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import kbnav

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


def graphed(question: str) -> object:
    return kbnav.graph("mini").invoke({"question": question})["answer"]
