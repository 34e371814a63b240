"""The library's LangChain tools and LangGraph graph, in agents and graphs that know nothing of kbnav."""

import asyncio
import gc
import time

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import kbnav
from kbnav.errors import ServiceError
from kbnav.models.scripted import ScriptedModel, says
from tests.agents.parts import NumbersKB
from tests.apps.web.parts import Explorer
from tests.library.test_asking import MARIE, POLONIUM, explorer, kb

__all__ = ["kb"]


def an_agent(model: ScriptedModel, tools: list) -> object:
    """LangGraph's own example of an agent: a model, a node of tools, and a way back."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.bind_tools(tools).invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


def without_thought(tool: str, **arguments: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": "1"}])


def test_somebody_elses_agent_navigates_with_the_tools(mini_home):
    tools = kbnav.langchain_tools("mini", settings=kbnav.Settings(home=mini_home, language="en"))
    gc.collect()  # nothing but the tools holds the knowledge base, which must stay open
    names = ["search_entities", "get_entry", "get_property_examples", "execute_query", "search_neighbors"]
    assert [tool.name for tool in tools] == names
    assert tools[3].args.keys() == {"thought", "query"}
    replies = [
        without_thought("search_entities", query="polonium"),
        says(("execute_query", {"query": POLONIUM})),
        without_thought("execute_query", query="SELECT nothing"),
        without_thought("get_entry"),
        AIMessage("The Curies."),
    ]
    said = an_agent(ScriptedModel(replies=replies), tools).invoke({"messages": [HumanMessage("Who?")]})["messages"]
    found, rows, broken, wrong = (message for message in said if isinstance(message, ToolMessage))
    assert "polonium (Q979)" in found.text
    assert len(rows.artifact) == 2
    assert (found.status, rows.status, broken.status, wrong.status) == ("success", "success", "error", "error")
    assert "syntax error at line 1" in broken.text
    assert "entity_id: Field required" in wrong.text
    assert asyncio.run(tools[0].ainvoke({"query": "radium"})).startswith("radium (Q1128)")


def test_a_graph_is_invoked_awaited_and_streamed_with_a_question_or_messages(kb):
    graph = kbnav.graph(kb, model=explorer())
    nodes = [name for update in graph.stream({"question": "Who?"}, stream_mode="updates") for name in update]
    assert nodes == ["begin", "think", "act", "think", "act", "report", "answer"]
    offline = kbnav.graph(kb)
    state = offline.invoke({"question": MARIE})
    assert (state["answer"], len(state["outcome"].table)) == ("polonium, radium", 2)
    assert offline.get_input_jsonschema()["properties"].keys() == {"question", "messages"}
    assert {"answer", "outcome"} < offline.get_output_jsonschema()["properties"].keys()
    asked = {"messages": [HumanMessage("Who discovered polonium?")]}
    said = asyncio.run(offline.ainvoke(asked))["messages"]
    assert [message.text for message in said] == ["Who discovered polonium?", "Marie Curie, Pierre Curie"]
    custom = [event.kind for event in offline.stream({"question": MARIE}, stream_mode="custom")]
    assert custom[0] == "call"
    assert custom[-1] == "step"


def test_a_graph_is_a_node_of_a_larger_one(kb):
    larger = StateGraph(MessagesState)
    larger.add_node("wikidata", kbnav.graph(kb))
    larger.add_edge(START, "wikidata")
    said = larger.compile().invoke({"messages": [HumanMessage(MARIE)]})["messages"]
    assert [message.text for message in said] == [MARIE, "polonium, radium"]


def test_a_thread_is_a_chat_and_is_read_back_without_a_warning(kb, caplog):
    model = ScriptedModel(replies=explorer().replies * 4)
    graph = kbnav.graph(kb, model=model, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    questions = ["Who?", "Who?", "And then?", "And before?"]
    for asked in (*({"question": one} for one in questions[:3]), {"messages": [HumanMessage(questions[3])]}):
        state = graph.invoke(asked, thread)
        assert [turn.question for turn in state["history"]] == questions[: len(state["history"])]
    said = [text for question in questions for text in (question, "The Curies.")]
    assert ([message.text for message in state["messages"]], len(state["history"])) == (said, 3)
    assert "unregistered" not in caplog.text


def test_a_task_that_is_cancelled_gives_up_its_call_of_the_model_and_goes_on_later(kb):
    async def cancelled() -> float:
        asking = asyncio.create_task(graph.ainvoke({"question": "Who?"}, thread))
        assert await asyncio.to_thread(model.waiting.wait, 60)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        return time.monotonic()

    thread = {"configurable": {"thread_id": "1"}}
    with Explorer(held=1) as model:
        own = kb.settings.model_copy(update={"model_timeout": 30.0, "model_retries": 0, **model.options()})
        graph = kbnav.graph(kb, settings=own, checkpointer=InMemorySaver())
        assert time.monotonic() - asyncio.run(cancelled()) < 20  # the loop waits for its threads when it ends
        model.go_on.set()
        assert graph.invoke(None, thread)["answer"] == "Polonium and radium."


def test_a_dead_service_raises_and_what_was_not_ended_goes_on_in_its_thread(tmp_path):
    settings = kbnav.Settings(home=tmp_path, language="en")
    down = ScriptedModel(replies=[says(("execute_query", {"query": "SELECT down"}))])
    with pytest.raises(ServiceError, match="the query service is down"):
        kbnav.graph(NumbersKB(), model=down, system="spinach", settings=settings).invoke({"question": "How many?"})
    memory, thread = InMemorySaver(), {"configurable": {"thread_id": "1"}}
    first = ScriptedModel(replies=[says(("execute_query", {"query": "SELECT 2"}))])
    begun = kbnav.graph(NumbersKB(), model=first, system="spinach", settings=settings, checkpointer=memory)
    begun.invoke({"question": "How many?"}, thread, interrupt_after=["act"])
    second = ScriptedModel(replies=[says(("finish", {})), AIMessage("Two.")])
    later = kbnav.graph(NumbersKB(), model=second, system="spinach", settings=settings, checkpointer=memory)
    state = later.invoke(None, thread)
    assert (state["answer"], len(state["outcome"].table)) == ("Two.", 2)
