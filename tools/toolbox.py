"""The tools of an agent: their schemas, made from the functions; the check of what a model asks for; the call."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

from pydantic import BaseModel, ValidationError, create_model

from kbnav.answers.question import in_kb, kb_of
from kbnav.errors import BadArguments, TellModel, UsageError
from kbnav.knowledge.base import Capability, Joint, KnowledgeBase, is_mirror, said_from
from kbnav.runs.trajectory import QUERY, Step, Usage
from kbnav.settings.plugins import did_you_mean, name_of, named, points
from kbnav.settings.systems import KBKind, kb_kind
from kbnav.tools import endpoint
from kbnav.tools.context import Context, Observation, Shown
from kbnav.tools.endpoint import shapes_for
from kbnav.tools.wikidata import (
    execute_query,
    finish,
    get_entry,
    get_property_examples,
    search_entities,
    search_neighbors,
    show_rows,
    vector_query,
)

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

SHOW_ROWS = show_rows.__name__
ToolFunction = Callable[..., Observation | str]
"""A tool; where it returns text, that is the observation."""
GROUP = "kbnav.tools"
"""The group of entry points by which other packages add tools."""
_NOT_GIVEN = ("self", "context")
"""Parameters that are not the model's to give."""

WIKIDATA_TOOLS: tuple[ToolFunction, ...] = (
    search_entities,
    get_entry,
    get_property_examples,
    execute_query,
    show_rows,
    search_neighbors,
    vector_query,
    finish,
)


ENDPOINT_TOOLS: tuple[ToolFunction, ...] = (
    endpoint.search_entities,
    endpoint.get_entry,
    endpoint.get_property_examples,
    endpoint.execute_query,
    show_rows,
    endpoint.search_neighbors,
    vector_query,
    finish,
)


@dataclass(frozen=True)
class Tool:
    """A function a model may call; its first parameter is the run's Context, the others are the model's to give."""

    function: ToolFunction

    @property
    def arguments(self) -> type[BaseModel]:
        """What the model gives, as the function's signature says: enough to check it, and no import of LangChain."""
        return _arguments_of(_plain(self.function))

    @property
    def described(self) -> type[BaseModel]:
        """The same with the words of the docstring. Raises ValueError where that leaves an argument out."""
        return _described(_plain(self.function))

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def schema(self) -> dict[str, Any]:
        """What the model is told, in OpenAI's form."""
        from langchain_core.utils.function_calling import convert_to_openai_tool

        schema = convert_to_openai_tool(self.described)
        function = schema["function"]
        function["description"] = _unwrapped(function["description"])
        for parameter in function["parameters"]["properties"].values():
            parameter["description"] = _unwrapped(parameter["description"])
        return schema

    @property
    def lookup(self) -> dict[str, Any]:
        """What a program of somebody else's is told: name, description, and parameters, the thought optional."""
        function = self.schema["function"]
        parameters = function["parameters"]
        needed = [name for name in parameters.get("required", []) if name != "thought"]
        return {**function, "parameters": {**parameters, "required": needed}}


class Toolbox:
    """The tools offered in a run, by name."""

    def __init__(self, functions: Sequence[ToolFunction], capabilities: frozenset[Capability]) -> None:
        """Keep the functions that ``capabilities`` allow; one named after no capability (finish) is always kept."""
        missing = _CAPABILITIES - capabilities
        self._tools = {function.__name__: Tool(function) for function in functions if function.__name__ not in missing}
        if QUERY not in self._tools:
            self._tools.pop(SHOW_ROWS, None)
        self._hidden: tuple[str, ...] = ()

    @classmethod
    def for_kb(
        cls,
        kb: KnowledgeBase,
        functions: Sequence[ToolFunction] = WIKIDATA_TOOLS,
        *,
        without: Sequence[str] = (),
        more: Sequence[Any] = (),
        also: frozenset[Capability] = frozenset(),
    ) -> Toolbox:
        """The functions that work on this knowledge base, less those named. Raises UsageError for an unknown name.

        ``more`` are tools of others (``own_tool``). ``also`` are capabilities that the knowledge base lacks and
        the functions make up for.
        """
        names = [function.__name__ for function in functions]
        unknown = [name for name in without if name not in names]
        if unknown:
            raise UsageError(f"no tool {', '.join(unknown)} to leave out; the tools are: {', '.join(names)}")
        kept = [function for function in functions if function.__name__ not in without]
        added = [own_tool(one) for one in more]
        return cls([*kept[:-1], *added, *kept[-1:]], kb.capabilities | also)

    def less(self, *names: str) -> Toolbox:
        """The same tools without those named, where they are among them."""
        return self.only([name for name in self._tools if name not in names])

    def only(self, names: Collection[str]) -> Toolbox:
        """Of these tools, those named."""
        fewer = Toolbox((), frozenset())
        fewer._tools = {name: tool for name, tool in self._tools.items() if name in names}
        fewer._hidden = self._hidden
        return fewer

    def hiding(self, *arguments: str) -> Toolbox:
        """The same tools, of whose arguments a model is not told these."""
        same = self.only(self.names)
        same._hidden = arguments
        return same

    @property
    def names(self) -> list[str]:
        """Names of the tools, in the order they are offered."""
        return list(self._tools)

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """The tools in OpenAI's form."""
        schemas = [tool.schema for tool in self]
        for schema in schemas:
            for name in self._hidden:
                schema["function"]["parameters"]["properties"].pop(name, None)
        return schemas

    def takes(self, name: str, argument: str) -> bool:
        """Whether there is a tool of this name that takes such an argument."""
        return name in self._tools and argument in self._tools[name].arguments.model_fields

    def __iter__(self) -> Iterator[Tool]:
        """The tools, in the order they are offered."""
        return iter(self._tools.values())

    def validate(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The thought, and the other arguments with their defaults. Raises BadArguments with what to do instead."""
        tool = self._tools.get(name)
        if tool is None:
            raise BadArguments(f"There is no tool {name!r}. The tools are: {', '.join(self._tools)}.")
        try:
            values = tool.arguments.model_validate(dict(arguments)).model_dump()
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()
            )
            expected = ", ".join(tool.arguments.model_fields)
            raise BadArguments(f"{name} was not called: {problems}. Its arguments are: {expected}.") from error
        return values.pop("thought", ""), values

    def run(self, context: Context, name: str, thought: str, arguments: Mapping[str, Any]) -> Observation:
        """Call a tool with validated arguments; what the model can mend becomes the observation."""
        if name in _CAPABILITIES and (spent := context.meter.spent):
            return Observation(spent, ok=False)
        try:
            seen = self._tools[name].function(context, thought, **arguments)
        except TellModel as error:
            return Observation.of_error(error)
        return seen if isinstance(seen, Observation) else Observation(str(seen))


def own_tool(given: Any) -> ToolFunction:
    """A tool that kbnav does not come with.

    ``given`` is ``module:function``, the name that an installed package gives it, a function, or a LangChain tool.
    Raises UsageError where there is none, or where it is no function that a model can be told of.
    """
    name = given if isinstance(given, str) else name_of(given)
    try:
        found = named(given, GROUP) if isinstance(given, str) else given
        found = _of_langchain(found) if hasattr(found, "args_schema") else found
    except KeyError:
        known = [point.name for point in points(GROUP)]
        there = (
            f"there are: {', '.join(known)}" if known else "no installed package has one; module:function is one's own"
        )
        raise UsageError(f"no tool {name!r}{did_you_mean(name, known)}; {there}") from None
    try:
        if list(signature(found).parameters)[:2] != ["context", "thought"]:
            raise UsageError(f"{name} cannot be a tool: its parameters must begin with context and thought")
        _described(_plain(found))
        _arguments_of(_plain(found))
    except (TypeError, ValueError, NameError) as error:
        need = "it needs a docstring with a line under Args: for each parameter but context"
        raise UsageError(f"{name} cannot be a tool; {need}: {error}") from error
    return found


def _of_langchain(tool: BaseTool) -> ToolFunction:
    """A LangChain tool as ours; where it raises ToolException, the model is told so."""
    from langchain_core.tools import ToolException

    def called(context: Context, thought: str, **arguments: Any) -> str:
        try:
            return str(tool.invoke(arguments))
        except ToolException as error:
            raise TellModel(str(error)) from error

    schema: Any = tool.get_input_schema()
    fields = schema.model_fields
    needed = Parameter.empty
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("context", "thought")]
    for name, field in fields.items():
        default = needed if field.is_required() else field.get_default(call_default_factory=True)
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=field.annotation))
    told = {"thought": "Why this step comes next.", **{name: one.description or name for name, one in fields.items()}}
    called.__name__ = called.__qualname__ = tool.name
    called.__doc__ = f"{tool.description}\n\nArgs:\n" + "".join(f"    {name}: {said}\n" for name, said in told.items())
    called.__annotations__ = {"thought": str, **{name: one.annotation for name, one in fields.items()}}
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return called


_CAPABILITIES: frozenset[str] = frozenset(Capability.__args__)  # type: ignore[attr-defined]


def _unwrapped(text: str) -> str:
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)


def _plain(function: ToolFunction) -> ToolFunction:
    plain: ToolFunction = getattr(function, "__func__", function)
    return plain


@cache
def _arguments_of(function: ToolFunction) -> type[BaseModel]:
    hints = get_type_hints(function)
    given = [one for one in signature(function).parameters.values() if one.name not in _NOT_GIVEN]
    fields: dict[str, Any] = {
        one.name: (hints.get(one.name, Any), ... if one.default is one.empty else one.default) for one in given
    }
    return create_model(function.__name__, **fields)


@cache
def _described(function: ToolFunction) -> type[BaseModel]:
    from langchain_core.tools.base import create_schema_from_function

    schema = create_schema_from_function(
        function.__name__,
        function,
        filter_args=_NOT_GIVEN,
        parse_docstring=True,
        error_on_invalid_docstring=True,
    )
    if not issubclass(schema, BaseModel):
        raise TypeError(f"{function.__name__}: pydantic 1 schema")
    return schema


ALL = "all"
_QUERIED = "Which knowledge base runs the query."
_LOOKED_UP = (
    "The knowledge base to ask; left out, all are asked, each after its own name. "
    "Ids mean something only in the one that showed them."
)


def tools_of(kind: KBKind) -> tuple[ToolFunction, ...]:
    """The tools on a knowledge base of a kind."""
    return ENDPOINT_TOOLS if kind == "sparql" else WIKIDATA_TOOLS


def several_tools(kb: Joint) -> tuple[ToolFunction, ...]:
    """The tools on several, worded for endpoints where one of them is none of Wikidata's kind."""
    plain = all(kb_kind(one) == "wikibase" for one in kb.parts.values())
    tools = WIKIDATA_TOOLS if plain else ENDPOINT_TOOLS
    return tuple(one if one in (show_rows, finish) else _with_kb(one, tuple(kb.parts)) for one in tools)


@cache
def _with_kb(tool: ToolFunction, names: tuple[str, ...]) -> ToolFunction:
    """A tool with one more argument, ``kb``: one of the names, or for anything but a query all of them."""
    queried, own, hints = tool.__name__ == QUERY, signature(tool), get_type_hints(tool)
    kinds: Any = Literal[names if queried else (ALL, *names)]
    default = Parameter.empty if queried else ALL

    def asked(context: Context, thought: str, **given: Any) -> Observation:
        kb = str(given.pop("kb"))
        chosen = names if kb == ALL else (kb,)
        seen = {name: _ask(context, name, tool.__name__, thought, given) for name in chosen}
        said = {name: one for name, one in seen.items() if one.ok} or seen  # those that could say anything
        text = "\n\n".join(_heading(name) + one.text for name, one in said.items())
        if kb != ALL:
            return replace(seen[kb], text=text)
        usage = sum((one.usage for one in seen.values()), Usage())
        return Observation(text, ok=any(one.ok for one in seen.values()), usage=usage)

    last = Parameter("kb", Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kinds)
    typed = [one.replace(annotation=hints[one.name]) for one in own.parameters.values()]
    asked.__name__ = asked.__qualname__ = tool.__name__
    asked.__doc__ = f"{(tool.__doc__ or '').rstrip()}\n        kb: {_QUERIED if queried else _LOOKED_UP}\n    "
    asked.__annotations__ = {**hints, "kb": kinds}
    asked.__signature__ = own.replace(parameters=[*typed, last])  # type: ignore[attr-defined]
    return asked


def _ask(context: Context, name: str, tool: str, thought: str, given: Mapping[str, Any]) -> Observation:
    """A tool on one of them, of that one's own kind."""
    part = within(context, name)
    if tool in get_args(Capability) and tool not in part.kb.capabilities:
        return Observation(f"{name} cannot do this ({tool}).", ok=False)
    function = next(one for one in tools_of(kb_kind(part.kb)) if one.__name__ == tool)
    try:
        seen = function(part, thought, **given)
    except TellModel as error:
        seen = Observation.of_error(error)
    for query, table in part.tables.items():
        context.tables.setdefault(in_kb(query, name), replace(table, note=said_from(name, table.note)))
    return seen if isinstance(seen, Observation) else Observation(str(seen))


def within(context: Context, name: str) -> Context:
    """What a tool of one of them is given: that knowledge base, the results that are of it, the run's steps on it."""
    kb = context.kb.part(name) if isinstance(context.kb, Joint) else context.kb
    tables = {text: table for query, table in context.tables.items() for of, text in [kb_of(query)] if of == name}
    ran = {number: alone(step, name) for number, step in context.ran.items() if step.call.arguments.get("kb") == name}
    return replace(context, kb=kb, tables=tables, ran=ran)


def alone(step: Step, name: str) -> Step:
    """A step as it would be if no other knowledge base were asked."""
    arguments = {key: value for key, value in step.call.arguments.items() if key != "kb"}
    seen = step.observation.removeprefix(_heading(name))
    return replace(step, call=replace(step.call, arguments=arguments), observation=seen)


def _heading(name: str) -> str:
    return f"From {name}:\n"


def about_several(kb: Joint, question: str, language: str, shown: Shown) -> Mapping[str, object]:
    """What a prompt says of each: its kind, prefixes and classes, and which others its queries may reach."""
    told = []
    for name, one in kb.parts.items():
        others = [other for other in kb.parts if other != name]
        shapes = shapes_for(one, question, language, shown) if shown.profiles else ""
        state = one.state()  # which knows prefixes only now
        told.append(
            {
                "name": name,
                "kind": kb_kind(one),
                "partial": is_mirror(state),
                "prefixes": state.get("prefixes", {}),
                "shapes": shapes,
                "reached": {other: kb.address(other) for other in others if not kb.unreachable(name, other)},
                "unreached": {other: why for other in others if (why := kb.unreachable(name, other))},
            }
        )
    return {"kbs": told}
