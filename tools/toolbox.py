"""The tools of an agent: their schemas, made from the functions; the check of what a model asks for; the call."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, Signature, iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import BaseModel, ValidationError, create_model

from kbnav.answers.tables import AnswerTable
from kbnav.errors import BadArguments, KbnavError, TellModel, UsageError
from kbnav.knowledge.base import Capability, KnowledgeBase
from kbnav.runs.trajectory import QUERY
from kbnav.settings.plugins import did_you_mean, name_of, named, points
from kbnav.tools import endpoint
from kbnav.tools.context import Context, Observation
from kbnav.tools.show import table_text
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
ToolFunction = Callable[..., Any]
"""A tool; where it returns no Observation, its text is one. Rows of a tool of one's own are a numbered result."""
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
ENDPOINT_TOOLS: tuple[ToolFunction, ...] = (endpoint.search_entities, endpoint.get_entry, *WIKIDATA_TOOLS[2:])


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
        self._own: frozenset[str] = frozenset()

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

        ``more`` are tools of others (``own_tool``); a name of these functions adds nothing. ``also`` are capabilities
        that the knowledge base lacks and the functions make up for.
        """
        names = [function.__name__ for function in functions]
        unknown = [name for name in without if name not in names]
        if unknown:
            raise UsageError(f"no tool {', '.join(unknown)} to leave out; the tools are: {', '.join(names)}")
        kept = [function for function in functions if function.__name__ not in without]
        added = [own_tool(one, names) for one in more if one not in names]
        toolbox = cls([*kept[:-1], *added, *kept[-1:]], kb.capabilities | also)
        toolbox._own = frozenset(one.__name__ for one in added)
        return toolbox

    def less(self, *names: str) -> Toolbox:
        """The same tools without those named, where they are among them."""
        return self.only([name for name in self._tools if name not in names])

    def only(self, names: Collection[str]) -> Toolbox:
        """Of these tools, those named."""
        fewer = Toolbox((), frozenset())
        fewer._tools = {name: tool for name, tool in self._tools.items() if name in names}
        fewer._hidden, fewer._own = self._hidden, self._own
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

    def owns(self, name: str) -> bool:
        """Whether a tool is none that kbnav comes with."""
        return name in self._own

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
        except Exception as error:
            if name not in self._own or isinstance(error, KbnavError):
                raise
            return Observation(f"{name} failed: {type(error).__name__}: {error}", ok=False)
        if name in self._own and (table := _as_table(seen)):
            ran = f"# {name} {json.dumps(arguments, ensure_ascii=False, default=str)}"
            context.tables[ran] = table
            text = table_text(table, context.shown, name=f"Result {context.number}" if context.number else "")
            return Observation(text, rows=len(table), result=context.number, ran=ran)
        return seen if isinstance(seen, Observation) else Observation(str(seen))


def _as_table(seen: object) -> AnswerTable | None:
    """Rows that a tool gave, at least one: a table, or a list of dictionaries; None of anything else."""
    if isinstance(seen, list) and seen and all(isinstance(one, Mapping) for one in seen):
        return AnswerTable.from_records(seen)
    return seen if isinstance(seen, AnswerTable) and len(seen) else None


def own_tool(given: Any, others: Sequence[str]) -> ToolFunction:
    """A tool that kbnav does not come with.

    ``given`` is ``module:function``, the name that an installed package gives it, a function, or a LangChain tool.
    ``others`` are the names of the system's, for the error. Raises UsageError where there is none, or where it is no
    function that a model can be told of.
    """
    name = given if isinstance(given, str) else name_of(given)
    try:
        found = named(given, GROUP) if isinstance(given, str) else given
        found = _of_langchain(found) if hasattr(found, "args_schema") else found
    except KeyError:
        known = [*others, *(point.name for point in points(GROUP))]
        there = f"there are: {', '.join(known)}; module:function is one's own"
        raise UsageError(f"no tool {name!r}{did_you_mean(name, known)}; {there}") from None
    try:
        if list(signature(found).parameters)[:2] != ["context", "thought"]:
            raise UsageError(f"{name} cannot be a tool: its parameters must begin with context and thought")
        if iscoroutinefunction(found):
            raise UsageError(
                f"{name} cannot be a tool: it is asynchronous; make it a LangChain tool, or call asyncio.run"
            )
        typed = ("context", *getattr(_plain(found), "__annotations__", {}))
        if bare := [one for one in signature(found).parameters if one not in typed]:
            raise TypeError(f"no type is given of {', '.join(bare)}")
        _described(_plain(found))
        _arguments_of(_plain(found))
    except (TypeError, ValueError, NameError) as error:
        need = "it needs a docstring with a line under Args:, and a type, for each parameter but context"
        raise UsageError(f"{name} cannot be a tool; {need}: {error}") from error
    return found


def _of_langchain(tool: BaseTool) -> ToolFunction:
    """A LangChain tool as ours; where it raises ToolException, the model is told so."""
    from langchain_core.tools import ToolException

    def called(context: Context, thought: str, **arguments: Any) -> Any:
        try:
            return tool.invoke(arguments) if has_sync else asyncio.run(tool.ainvoke(arguments))
        except ToolException as error:
            raise TellModel(str(error)) from error

    has_sync = getattr(tool, "func", tool) is not None
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
