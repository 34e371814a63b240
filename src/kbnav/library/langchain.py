"""The tools that navigate a knowledge base, as LangChain tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbnav.answers.tables import AnswerTable
from kbnav.errors import TellModel
from kbnav.library.asking import AnyKB, How
from kbnav.sessions.session import use
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

    from kbnav.agents.common.agent import Agent
    from kbnav.library.kb import KB
    from kbnav.tools.toolbox import Tool


def tools(
    kb: AnyKB | None = None,
    *,
    system: str = "",
    model: str | BaseChatModel | None = None,
    language: str | None = None,
    options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> list[BaseTool]:
    """The tools with which a system navigates a knowledge base, for any agent that takes LangChain tools.

    A tool gives text for a model; the ``artifact`` of its message is the whole AnswerTable where a query ran. What a
    model can mend (a query that does not parse) comes back as a message of status ``error``; services that fail raise.

    Args:
        kb: as in ``kbnav.ask``; one given by name stays open as long as its tools are referred to.
        system: whose tools; empty: those of the system that fits the knowledge base.
        model: for systems some of whose tools ask a model themselves.
        language: language code of labels; None: English, or what a call's ``thought`` is written in.
        options: options of the system.
        settings: all other settings.
    """
    how = How(kb, model, system, language, None, options, settings)
    opened = how.opened()
    agent = how.built(opened)
    return [_langchain_tool(tool, agent, opened) for tool in agent.lookups]


def _langchain_tool(tool: Tool, agent: Agent, kb: KB) -> BaseTool:
    from langchain_core.tools import StructuredTool, ToolException

    def call(**arguments: Any) -> tuple[str, AnswerTable | None]:
        try:
            seen, table = use(replace(agent, kb=kb.base), tool.name, arguments)  # a KB is open while it is referred to
        except TellModel as error:
            raise ToolException(str(error)) from error
        if not seen.ok:
            raise ToolException(seen.text)
        return seen.text, table

    told = tool.lookup
    return StructuredTool(
        func=call,
        name=told["name"],
        description=told["description"],
        args_schema=told["parameters"],
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
