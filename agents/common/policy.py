"""A policy that asks a chat model: the state as messages, the reply as calls.

Few-shot demonstrations are questions that were answered, with the steps that led to the answer (PASemiQA, appendix A).
A question is never shown as its own example; in an evaluation one that is evaluated is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BeforeValidator, ConfigDict, Field, field_validator

from kbnav.agents.common.answering import last_with_rows
from kbnav.agents.common.state import (
    UNCOUNTED,
    Reply,
    State,
    actions_used,
    all_steps,
    next_turn,
    turns_left,
    turns_used,
)
from kbnav.errors import BadArguments, PromptTooLong, UsageError
from kbnav.models.chat import invoke, is_cut_off, usage_of
from kbnav.models.transport import reply_purpose
from kbnav.prompts import as_data, render
from kbnav.runs.journal import read_toml
from kbnav.runs.trajectory import FINISH, NO_TOOL, QUERY, Call, Step, Turn
from kbnav.settings.model import Budget, Strict
from kbnav.tools.context import EARLIER, Context
from kbnav.tools.toolbox import Toolbox
from kbnav.tools.wikidata import described

_PROMPTS = 32
"""Questions whose system prompts are kept."""
_RECENT = 6
"""Actions for which a hint stays."""
_PUBLISHED = 10
"""Actions that SPINACH's published program shows its model."""
_WARN_LEFT = 3
_EARLIER_WIDTH = 1000
"""Characters of an observation of an earlier question."""
_SILENT = 8
"""Replies in a row that called no tool, or finished too early, after which no more are asked for."""
_WIDTHS = (None, 4000, 1000, 300)
"""Characters of an observation, from as they are to less and less, until the model can read the whole."""
_THOUGHT = 8000
"""Characters of a thought that are kept."""
_LONGEST = 50_000
"""Characters of a call's arguments; the longest query among Wikidata's own examples has 7,000."""
_DEEPEST = 20
_NEEDS_TOOLS = (
    "kbnav needs a chat model that can call tools, served by an endpoint that passes them on "
    "(for llama.cpp's server the option --jinja, for vLLM --enable-auto-tool-choice)."
)
_DATA = "data.md"
"""What is said of results, after every agent's own prompt."""
_BY_TEXT = "text-"
"""What the id of a call begins with that was read from a reply's words."""
_FENCED = re.compile(r"```(?:sparql)?\s*\n(.*?)```", re.DOTALL | re.IGNORECASE)


class ChatPolicy:
    """Asks a LangChain chat model that can call tools for the next action (SPINACH, section 4.2)."""

    def __init__(
        self,
        model: BaseChatModel,
        toolbox: Toolbox,
        prompt: str | Path,
        budget: Budget,
        *,
        notice: str = "notice.md",
        about: Callable[[str], Mapping[str, object]] | None = None,
        **values: object,
    ) -> None:
        """``prompt`` names the system prompt's file, ``spinach/policy.md`` or a Path; ``values`` are for it.

        ``notice`` is the file of the hint on what was dropped and what is left; ``about`` gives more values for the
        prompt, which depend on the question. Raises UsageError where the model cannot call tools.
        """
        try:
            self._model = (
                model.bind_tools([_thought_once(schema) for schema in toolbox.schemas])
                if budget.holds("parallel")
                else model.bind_tools(toolbox.schemas, parallel_tool_calls=False)
            )
        except NotImplementedError as error:
            raise UsageError(f"{type(model).__name__} cannot call tools. {_NEEDS_TOOLS}") from error
        self._toolbox = toolbox
        known = {
            "tools": toolbox.names,
            "steps": budget.steps,
            "partial": False,
            "date": "",
            "parallel": budget.holds("parallel"),
        }
        data = render(_DATA)  # loads Jinja, before the clock of ``budget.seconds`` starts

        @lru_cache(_PROMPTS)
        def system(question: str) -> str:
            return f"{render(prompt, **{**known, **(about(question) if about else {}), **values})}\n\n{data}"

        self._system = system
        self._budget = budget
        self._notice_file = notice

    def __call__(self, state: State, context: Context) -> Reply:  # noqa: ARG002 - part of the protocol
        """One model call; again with less of the path where that is too long. Raises as ``invoke``, PromptTooLong."""
        last = all_steps(state)[-_SILENT:]
        if len(last) == _SILENT and all(step.call.tool == NO_TOOL for step in last):
            said = f"The model's last {_SILENT} replies called no tool."
            called = any(step.call.tool != NO_TOOL for step in all_steps(state))
            return Reply(note=said) if called else Reply(refusal=f"{said} {_NEEDS_TOOLS}")
        early = self._budget.holds("free_finish") and all(step.dropped == "premature finish" for step in last)
        if len(last) == _SILENT and early:
            return Reply(note=f"The model's last {_SILENT} replies finished too early.")
        with reply_purpose("step"):
            reply = self._invoke(state)
        refusal = _refusal(reply)
        if refusal:
            return Reply(usage=usage_of(reply), refusal=refusal)
        turn = next_turn(state)
        calls = [_unless_quoted(call, state) for call in parse_calls(reply, turn, self._toolbox)]
        return Reply(self._as_calls(state, calls), usage_of(reply))

    def _as_calls(self, state: State, calls: Sequence[Call]) -> Sequence[Call]:
        """The calls; a reply in words alone, where it was asked for a call before or has no action left, is a finish.

        It must have a result to be about, and a finish that takes a sentence.
        """
        words = calls[0].arguments.get("text", "") if calls and calls[0].tool == NO_TOOL else ""
        if not words or not last_with_rows(state["path"]) or not self._toolbox.takes(FINISH, "answer"):
            return calls
        last = all_steps(state)[-1]
        if last.call.tool != NO_TOOL and turns_left(state, self._budget) > 0:
            hint = (
                "If your words are the answer, call finish with them as `answer`; said again alone they count as that."
            )
            return [replace(calls[0], problem=f"{calls[0].problem} {hint}")]
        return [_call(self._toolbox, calls[0].turn, 0, "", calls[0].id, FINISH, {"answer": words})]

    def _invoke(self, state: State) -> AIMessage:
        *wider, narrowest = _WIDTHS
        for width in wider:
            try:
                return invoke(self._model, self.messages(state, width=width))
            except PromptTooLong:
                if all(len(step.observation) <= narrowest for step in state["path"]) and not state["history"]:
                    raise
        return invoke(self._model, self.messages(state, width=narrowest))

    def messages(self, state: State, *, width: int | None = None) -> list[BaseMessage]:
        """What a model sees: earlier questions, this one, the path (cut to ``width``), and what was dropped."""
        asked = [*(turn.question for turn in state["history"][-EARLIER:]), state["question"]]
        messages: list[BaseMessage] = [SystemMessage(self._system("\n".join(asked)))]
        offered = self._toolbox.names
        for turn in state["history"]:
            messages += _earlier(turn, offered, min(_EARLIER_WIDTH, width or _EARLIER_WIDTH))
        messages.append(HumanMessage(state["question"]))
        path = state["path"][-_PUBLISHED:] if self._budget.published else state["path"]
        messages += path_messages(path, width=width, offered=offered)
        notice = self._notice(state)
        if not notice:
            return _joined(messages)
        last = messages[-1]
        if isinstance(last, ToolMessage) and not self._dropped(state):
            told = ToolMessage(f"{last.text}\n\n{notice}", tool_call_id=last.tool_call_id)
            return [*messages[:-1], told]
        return _joined([*messages, HumanMessage(notice)])

    def _dropped(self, state: State) -> dict[str, list[Step]]:
        """What was dropped lately, by the reason, each action once."""
        since = len(all_steps(state)) - _RECENT
        recent = [step for step in state["discarded"] if step.number > since and self._budget.holds("hint")]
        # That finish came too early is said at once and no more: later it would read as a reply to what came since.
        done = max((step.number for step in state["path"]), default=0)
        recent = [step for step in recent if step.dropped != "premature finish" or step.number > done]
        turn = next_turn(state) - 1
        recent = [step for step in recent if step.dropped not in UNCOUNTED]
        recent += [step for step in state["discarded"] if step.dropped in UNCOUNTED and step.call.turn == turn]
        different = {(step.call.key, step.dropped): step for step in recent}
        found: dict[str, list[Step]] = {}
        for step in different.values():
            found.setdefault(step.dropped, []).append(step)
        return found

    def _notice(self, state: State) -> str:
        """What was dropped lately, so that it is not done again at temperature 0, and what is left of the budget."""
        dropped = self._dropped(state)
        left = turns_left(state, self._budget)
        own = (*self._toolbox.names, NO_TOOL)  # what the agent's program did before is not the model's to count
        told = self._budget.holds("told") and any(step.call.tool in own for step in all_steps(state))
        if not dropped and not told:
            return ""
        programmed = {step.call.turn for step in state["path"] if step.call.tool not in own and not step.call.problem}
        last, was = last_with_rows(state["path"]), last_with_rows(state["discarded"])
        return render(
            self._notice_file,
            dropped=defaultdict(list, dropped),
            arguments=lambda call: json.dumps(call.arguments, ensure_ascii=False),
            used=turns_used(state) - len(programmed) if told else None,
            steps=self._budget.steps - len(programmed),
            unit="turns" if self._budget.holds("parallel") else "actions",
            spent=actions_used(state),
            actions=self._budget.actions,
            left=left if self._budget.holds("told") and left <= _WARN_LEFT else None,
            last=last.result if last else None,
            about=described(last) if last else "",
            was=was.result if was else None,
        )


def parse_calls(reply: AIMessage, turn: int, toolbox: Toolbox) -> list[Call]:
    """The calls of a reply; those that cannot be run are marked, and a reply without any is one such call."""
    text = _shortened(reply.text.strip())
    asked = [(call["id"] or "", call["name"], call["args"]) for call in reply.tool_calls]
    cut_off = " Your reply was cut off because it was too long: write less." if is_cut_off(reply) else ""
    given = (str(args["thought"]) for _, _, args in asked if isinstance(args.get("thought"), str))
    text = text or _shortened(next(given, ""))  # one thought in a turn is enough
    calls = [_call(toolbox, turn, number, text, *parts) for number, parts in enumerate(asked)]
    for bad in reply.invalid_tool_calls:
        name = bad["name"] or NO_TOOL
        problem = f"The arguments of {name} are not a readable JSON object. Call the tool again with one.{cut_off}"
        arguments = {"unreadable": (bad["args"] or "")[:2000]}
        calls.append(Call(name, arguments, text, bad["id"] or f"bad-{turn}-{len(calls)}", turn, problem))
    if calls:
        return calls
    fenced = _FENCED.search(text)
    if fenced and QUERY in toolbox.names:  # what a weak model does in place of a call
        return [Call(QUERY, {"query": fenced[1].strip()}, text[: fenced.start()].strip(), f"{_BY_TEXT}{turn}", turn)]
    problem = (
        f"No tool was called. Act by calling one of: {', '.join(toolbox.names)}. "
        f"If the result of the last query answers the question, call finish.{cut_off}"
    )
    return [Call(NO_TOOL, {"text": "" if cut_off else text}, text, f"none-{turn}", turn, problem)]


def _call(toolbox: Toolbox, turn: int, number: int, text: str, call_id: str, name: str, arguments: Any) -> Call:
    call_id = call_id or f"call-{turn}-{number}"
    given = dict(arguments) if isinstance(arguments, dict) else {}
    odd = _out_of_bounds(given)
    if odd:
        return Call(name, {"unreadable": _start(given)}, text, call_id, turn, f"{name} was not called: {odd}")
    if isinstance(given.get("thought"), str):
        given["thought"] = _shortened(given["thought"])
    # Some models put the thought into the message instead; none is turned away for the lack of one.
    given["thought"] = given.get("thought") or text
    try:
        thought, values = toolbox.validate(name, given)
    except BadArguments as error:
        thought = str(given.pop("thought", ""))
        return Call(name, given, thought, call_id, turn, str(error))
    return Call(name, values, thought, call_id, turn)


def _out_of_bounds(arguments: Mapping[str, Any]) -> str:
    """What is wrong with arguments that are too deep to be saved, or too long to mean anything."""
    todo: list[tuple[Any, int]] = [(value, 1) for name, value in arguments.items() if name != "thought"]
    length = 0
    while todo:
        value, depth = todo.pop()
        if depth > _DEEPEST:
            return f"its arguments are nested more than {_DEEPEST} deep."
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        todo += [(one, depth + 1) for one in inner]
        length += len(value) if isinstance(value, (str, dict, list)) else 1
        if length > _LONGEST:
            return f"its arguments are longer than {_LONGEST} characters."
    return ""


def _start(arguments: Mapping[str, Any]) -> str:
    names = ", ".join(
        name if not isinstance(value, str) else f"{name}: {value[:500]}" for name, value in list(arguments.items())[:4]
    )
    return names[:2000]


def _shortened(text: str) -> str:
    return text if len(text) <= _THOUGHT else f"{text[:_THOUGHT]}… (cut)"


def _thought_once(schema: dict[str, Any]) -> dict[str, Any]:
    """A tool's schema in which the thought may be left out, as calls beside the first of a turn may."""
    function = schema["function"]
    parameters = function["parameters"]
    thought = parameters["properties"].get("thought")
    if thought is None:
        return schema
    needed = [name for name in parameters.get("required", ()) if name != "thought"]
    told = {**thought, "description": f"{thought['description']} Once a turn."}
    properties = {**parameters["properties"], "thought": told}
    return {
        **schema,
        "function": {**function, "parameters": {**parameters, "properties": properties, "required": needed}},
    }


def _refusal(reply: AIMessage) -> str:
    refusal = reply.additional_kwargs.get("refusal")
    if refusal:
        return str(refusal)
    if reply.response_metadata.get("finish_reason") == "content_filter":
        return "the endpoint's content filter stopped the reply"
    return ""


def path_messages(
    path: Sequence[Step], *, width: int | None = None, offered: Collection[str] = ()
) -> Iterator[BaseMessage]:
    """The path as a model's own messages and the tools' replies (cut to ``width``), calls of one turn together.

    What the agent's program did with a tool that is not among those ``offered`` is told as text: strict endpoints
    refuse a call of a tool that was not declared.
    """
    turns: dict[int, list[Step]] = {}
    for step in path:
        turns.setdefault(step.call.turn, []).append(step)
    for steps in turns.values():
        own = [step for step in steps if offered and not step.call.problem and step.call.tool not in offered]
        for step in own:
            yield HumanMessage(as_data(_cut(step.observation, width)))
        called = [step for step in steps if step.call.tool != NO_TOOL and step not in own]
        if called:
            said = [step for step in called[1:] if step.call.thought == called[0].call.thought]
            yield AIMessage(
                "",
                tool_calls=[
                    {
                        "name": step.call.tool,
                        "args": {**({} if step in said else {"thought": step.call.thought}), **step.call.arguments},
                        "id": step.call.id,
                    }
                    for step in called
                ],
            )
            for step in called:
                seen = _cut(step.observation, width)
                yield ToolMessage(seen if step.call.problem else as_data(seen), tool_call_id=step.call.id)
        for step in steps:
            if step.call.tool == NO_TOOL:
                yield AIMessage(step.call.thought or step.call.arguments.get("unreadable") or "(empty)")
                yield HumanMessage(_cut(step.observation, width))


def _joined(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Messages with those of the user that follow each other put together: some chat templates refuse two in a row."""
    joined: list[BaseMessage] = []
    for message in messages:
        if joined and isinstance(message, HumanMessage) and isinstance(joined[-1], HumanMessage):
            joined[-1] = HumanMessage(f"{joined[-1].text}\n\n{message.text}")
        else:
            joined.append(message)
    return joined


def _earlier(turn: Turn, offered: Collection[str], width: int) -> list[BaseMessage]:
    outcome = turn.outcome
    answer = outcome.text or outcome.note or outcome.status
    return [HumanMessage(turn.question), *path_messages(turn.steps, width=width, offered=offered), AIMessage(answer)]


def _unless_quoted(call: Call, state: State) -> Call:
    """The call, unless it is a query in a reply's words that a result has brought: nobody has asked for that one."""
    if call.tool != QUERY or not call.id.startswith(_BY_TEXT):
        return call
    query = " ".join(str(call.arguments.get("query", "")).split())
    shown = (step.observation for step in all_steps(state) if not step.call.problem)
    if not any(query in " ".join(text.split()) for text in shown):
        return call
    problem = f"No tool was called: the query in your words stands in a result. To run it, call {QUERY} with it."
    return Call(NO_TOOL, {"text": ""}, call.thought, call.id, call.turn, problem)


def _cut(text: str, width: int | None) -> str:
    if width is None or len(text) <= width:
        return text
    return f"{text[:width]}… ({len(text) - width} more characters are not shown again)"


_KEY = "demonstrations"
_WORDS = re.compile(r"\w+")

About = Callable[[str], Mapping[str, object]]
"""Values of a prompt that depend on the question, which stands behind the last earlier ones, one a line."""


class Demonstration(Strict):
    """One example; steps are links or sentences, and the answer has nodes as results show them, ``name (id)``."""

    model_config = ConfigDict(str_strip_whitespace=True)

    question: str = Field(min_length=1)
    steps: tuple[str, ...] = Field(min_length=1)
    answer: str = Field(min_length=1)
    id: str = ""
    """The question's id in the dataset that it is from."""

    @field_validator("answer", mode="before")
    @classmethod
    def _joined(cls, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value


@dataclass
class Demonstrations:
    """Those of a pool that are none of the questions asked."""

    pool: Sequence[Demonstration] = ()

    def of(self, question: str) -> list[Demonstration]:
        """Those that a prompt for this question has."""
        asked = {_normalised(one) for one in (question, *question.split("\n"))}
        return [one for one in self.pool if _normalised(one.question) not in asked]

    def leave_out(self, questions: Iterable[tuple[str, str]]) -> None:
        """Raises UsageError where one of the questions (id, text) that are to be evaluated is a demonstration."""
        asked = list(questions)
        ids, texts = {name for name, _ in asked if name}, {_normalised(text) for _, text in asked}
        found = [one for one in self.pool if one.id in ids or _normalised(one.question) in texts]
        if found:
            raise UsageError(
                f"{len(found)} of the {len(self.pool)} demonstrations are among the questions to be evaluated, such as "
                f"{found[0].question!r}; take others"
            )

    def about(self, then: About | None = None) -> About:
        """The demonstrations as values of a prompt, beside others."""
        return lambda question: {**(then(question) if then else {}), _KEY: self.of(question)}

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of all, saved with every run as those of prompts are; empty where there are none."""
        text = "\n".join(one.model_dump_json() for one in self.pool)
        return {_KEY: hashlib.sha256(text.encode()).hexdigest()} if self.pool else {}


def read_demonstrations(file: str) -> Demonstrations:
    """A JSON list, or the ``demonstrations`` of a JSON or TOML file; none without a file. Raises UsageError."""
    if not file:
        return Demonstrations()
    listed = BeforeValidator(lambda found: found.get(_KEY, ()) if isinstance(found, dict) else found)
    return Demonstrations(read_toml(Path(file), Annotated[tuple[Demonstration, ...], listed]))


def _normalised(text: str) -> str:
    return " ".join(_WORDS.findall(text.casefold()))
