"""The tools of an agent on several knowledge bases: those of each kind, with an argument that names the one meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from inspect import Parameter, signature
from typing import Any, Literal, get_args, get_type_hints

from kbnav.answers.question import in_kb, kb_of
from kbnav.errors import TellModel
from kbnav.knowledge.base import Capability, Joint, is_mirror, said_from
from kbnav.runs.trajectory import FINISH, QUERY, Step, Usage
from kbnav.settings.systems import KBKind, kb_kind
from kbnav.tools.endpoint import shapes_for
from kbnav.tools.observation import Context, Observation, Shown
from kbnav.tools.show_rows import show_rows
from kbnav.tools.toolbox import ENDPOINT_TOOLS, WIKIDATA_TOOLS, ToolFunction

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
    return _tools(tuple(kb.parts), "wikibase" if plain else "sparql")


@cache
def _tools(names: tuple[str, ...], kind: KBKind) -> tuple[ToolFunction, ...]:
    kept = (show_rows.__name__, FINISH)
    return tuple(tool if tool.__name__ in kept else _with_kb(tool, names) for tool in tools_of(kind))


def _with_kb(tool: ToolFunction, names: tuple[str, ...]) -> ToolFunction:
    """A tool with one more argument, ``kb``: one of the names, or for anything but a query all of them."""
    queried, own, hints = tool.__name__ == QUERY, signature(tool), get_type_hints(tool)
    kinds: Any = Literal[names if queried else (ALL, *names)]
    default = Parameter.empty if queried else ALL

    def asked(context: Context, thought: str, **given: Any) -> Observation:
        kb = str(given.pop("kb"))
        chosen = names if kb == ALL else (kb,)
        return _joined({name: _ask(context, name, tool.__name__, thought, given) for name in chosen})

    chosen = Parameter("kb", Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kinds)
    typed = [one.replace(annotation=hints[one.name]) for one in own.parameters.values()]
    asked.__name__ = asked.__qualname__ = tool.__name__
    asked.__doc__ = f"{(tool.__doc__ or '').rstrip()}\n        kb: {_QUERIED if queried else _LOOKED_UP}\n    "
    asked.__annotations__ = {**hints, "kb": kinds}
    asked.__signature__ = own.replace(parameters=[*typed, chosen])  # type: ignore[attr-defined]
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


def _joined(seen: Mapping[str, Observation]) -> Observation:
    """What was seen, each under its name; of several, those that could not say anything are left out."""
    said = {name: one for name, one in seen.items() if one.ok} or seen
    text = "\n\n".join(_heading(name) + one.text for name, one in said.items())
    if len(seen) == 1:
        return replace(next(iter(seen.values())), text=text)
    usage = sum((one.usage for one in seen.values()), Usage())
    return Observation(text, ok=any(one.ok for one in seen.values()), usage=usage)


def about_several(kb: Joint, question: str, language: str, shown: Shown) -> Mapping[str, object]:
    """What a prompt says of each: its kind, prefixes and classes, and which others its queries may reach."""
    return {"kbs": [_about(kb, name, question, language, shown) for name in kb.parts]}


def _about(kb: Joint, name: str, question: str, language: str, shown: Shown) -> Mapping[str, object]:
    one, others = kb.parts[name], [other for other in kb.parts if other != name]
    shapes = shapes_for(one, question, language, shown) if shown.profiles else ""
    state = one.state()  # which knows prefixes only now
    return {
        "name": name,
        "kind": kb_kind(one),
        "partial": is_mirror(state),
        "prefixes": state.get("prefixes", {}),
        "shapes": shapes,
        "reached": {other: kb.address(other) for other in others if not kb.unreachable(name, other)},
        "unreached": {other: why for other in others if (why := kb.unreachable(name, other))},
    }
