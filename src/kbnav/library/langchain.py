"""The tools that navigate a knowledge base, as LangChain tools."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command
from typing_extensions import TypedDict

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.state import State, Update, start, step_limit
from kbnav.agents.machine import Node, RunContext
from kbnav.answers.question import checked_question
from kbnav.answers.tables import AnswerTable
from kbnav.errors import ServiceError, TellModel, UsageError
from kbnav.library.asking import KB, AgentSource, AnyKB, AskOptions, awaited
from kbnav.models.cancellation import Cancellation, current_cancellation
from kbnav.runs.trajectory import new_id
from kbnav.sessions.session import serializer, turns_of, use
from kbnav.tools.toolbox import Tool

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Checkpointer


def langchain_tools(kb: AnyKB | None = None, **how: Unpack[AskOptions]) -> list[BaseTool]:
    """The tools of a system for any agent of LangChain, as ``kbnav.langchain_tools("mini", tools=["get_entry"])``.

    A tool gives text for a model; the ``artifact`` of its message is the whole AnswerTable where a query ran. What a
    model can mend (a query that does not parse) comes back as a message of status ``error``; services that fail raise.

    The parameters are those of ``kbnav.ask``, but names of the system's own ``tools`` choose among them. A knowledge
    base given by name stays open as long as its tools are referred to. Without a ``language``, labels are in English,
    or in that of a call's ``thought``.
    """
    made = AgentSource(kb, **how)
    opened = made.opened()
    agent = made.built(opened, calls=False)
    tools = agent.lookups
    if chosen := [tool.name for tool in tools if tool.name in how.get("tools", ())]:
        tools = tools.only([name for name in tools.names if name in chosen or tools.owns(name)])
    return [_langchain_tool(tool, agent, opened) for tool in tools]


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


_AT_WORK = 256
"""Runs whose contexts are kept; that of an older one, or of one that goes on elsewhere, is made anew."""


class Question(TypedDict, total=False):
    """What the graph is given: a ``question``, or ``messages`` whose last one from a person is the question."""

    question: str
    messages: Annotated[list[AnyMessage], add_messages]


class Conversation(State):
    """The graph's state: that of the machine, the messages, and the answer in words."""

    messages: Annotated[list[AnyMessage], add_messages]
    answer: str
    begun: str
    """The question with which the last run began."""
    run: str
    """Of the run that is at work."""


def graph(
    kb: AnyKB | None = None, *, checkpointer: Checkpointer = None, **how: Unpack[AskOptions]
) -> CompiledStateGraph[Conversation, None, Question, Conversation]:
    """A system as a LangGraph graph, as ``kbnav.graph("mini").invoke({"question": "Who discovered radium?"})``.

    It is given ``{"question": …}`` or ``{"messages": […]}``, and its last state has ``answer`` (the words), ``outcome``
    (query, table or ranking), ``path`` and ``discarded`` (the steps), ``usage``, and the answer among ``messages``.
    With a ``checkpointer`` a thread is a chat: each question knows the earlier ones. Runs are not saved as files.

    The other parameters are those of ``kbnav.ask``; a knowledge base given by name stays open as long as the graph is
    referred to. A service that fails and stays failed raises ServiceError, as ``kbnav.ask`` does.
    """
    made = AgentSource(kb, **how)
    opened = made.opened()
    agent = made.built(opened, calls=True)
    runs = _Runs(agent, opened)
    built: StateGraph[Conversation, None, Question, Conversation] = StateGraph(Conversation, input_schema=Question)
    agent.machine.build_into(built, runs.context, _Node)
    built.add_node("begin", runs.begin)
    built.add_node("answer", runs.answer)
    built.add_edge(START, "begin")
    built.add_edge("begin", "think")
    built.add_edge("report", "answer")
    built.add_edge("answer", END)
    compiled = built.compile(checkpointer=_reading(checkpointer), name=agent.name)
    return compiled.with_config(recursion_limit=step_limit(agent.settings.budget))


class _Node(Runnable[Conversation, Command[Node]]):
    """A node that, where it is awaited, ends with the task that awaits it; its run can be gone on with."""

    def __init__(self, work: Callable[[Conversation, Runtime[Any]], Command[Node]]) -> None:
        self._work = work

    def invoke(self, input: Conversation, config: RunnableConfig | None = None, **_: Any) -> Command[Node]:  # noqa: ARG002
        """Do the work here."""
        return self._work(input, get_runtime())

    async def ainvoke(self, input: Conversation, config: RunnableConfig | None = None, **_: Any) -> Command[Node]:  # noqa: ARG002
        """Do it in a thread."""
        work = partial(self._work, input, get_runtime())
        return await awaited(lambda cancellation: cancellation.run(work), Cancellation.abandon)


class _Runs:
    """What stands before and behind the machine, and the contexts of the runs that are at work."""

    def __init__(self, agent: Agent, kb: KB) -> None:
        """``kb`` is that of the agent; it is open while it is referred to."""
        self._agent = agent
        self._kb = kb
        self._contexts: OrderedDict[str, RunContext] = OrderedDict()

    def begin(self, state: Conversation) -> Update:
        """A fresh run on the question; earlier ones of the same thread are its history."""
        asked, is_message = _question(state)
        question = checked_question(asked)
        before = {**state, "question": state.get("begun", "")}  # ``question`` is already the one asked now
        fresh = start(question, turns_of(before), self._agent.settings.budget)
        said = [] if is_message else [HumanMessage(question)]
        return {**fresh, "messages": said, "answer": "", "begun": question, "run": new_id("run")}

    def context(self, state: State, runtime: Runtime[Any]) -> RunContext:  # noqa: ARG002 - as the machine asks for it
        """That of the run at work, with the tables of its queries."""
        run = str(state["run"])  # type: ignore[typeddict-item]
        context = self._contexts.get(run)
        if context is None:
            question = state["question"]
            agent = replace(self._agent, kb=self._kb.base)
            context = self._contexts[run] = agent.context(question)
            while len(self._contexts) > _AT_WORK:
                self._contexts.popitem(last=False)
        return replace(context, cancellation=current_cancellation())

    def answer(self, state: Conversation) -> Update:
        """The answer in words, also as a message. Raises what stopped the run."""
        context = self._contexts.pop(state["run"], None)
        outcome = state["outcome"]
        if context and context.failure:
            raise context.failure[0]
        if outcome is None or outcome.status == "failed":
            raise ServiceError(outcome.note if outcome else "the run did not end")
        said = outcome.text or outcome.note or outcome.status
        return {"answer": said, "messages": [AIMessage(said, name=self._agent.name)]}


def _question(state: Conversation) -> tuple[str, bool]:
    """The question, and whether it is among the messages, whose last it then is; a thread may have an earlier one."""
    given = state.get("question", "")
    if given and given != state.get("begun"):
        return given, False
    messages = state.get("messages") or []
    if messages and isinstance(messages[-1], HumanMessage):
        return str(messages[-1].text), True
    if messages and not given:
        raise UsageError("the messages must end with a question")
    return given, False


def _reading(checkpointer: Checkpointer) -> Checkpointer:
    if checkpointer is None or isinstance(checkpointer, bool) or not isinstance(checkpointer.serde, JsonPlusSerializer):
        return checkpointer
    told = copy(checkpointer)
    told.serde = serializer()
    return told
