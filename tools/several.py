"""The tools on several knowledge bases: each look-up says of which, and a query may take up the rows of another's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from inspect import Parameter, signature
from typing import Any, Literal, get_args, get_type_hints

from kbnav.answers.question import in_kb, kb_of
from kbnav.answers.tables import AnswerTable, Cell
from kbnav.errors import BadArguments, TellModel
from kbnav.knowledge.base import Capability, is_mirror
from kbnav.knowledge.several import SeveralKB, said_from
from kbnav.knowledge.sparql.tokens import AGGREGATES, edited, tokenize
from kbnav.knowledge.sparql.vocabulary import written
from kbnav.runs.trajectory import QUERY, Step, Usage
from kbnav.settings.systems import KBKind, kb_kind
from kbnav.tools.context import Context, Observation, Shown, Thought
from kbnav.tools.endpoint import shapes_for
from kbnav.tools.show import table_text
from kbnav.tools.toolbox import ENDPOINT_TOOLS, WIKIDATA_TOOLS, ToolFunction
from kbnav.tools.wikidata import described, finish, show_rows

_BATCH = 500
"""Rows that go into one query."""
_MOST = 10_000
"""Rows that a query takes up at most."""
_OF_ALL_ROWS = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "ASK", *AGGREGATES)
"""What a query in batches cannot have, because each batch would have its own."""
ALL = "all"
_QUERIED = "Which knowledge base runs the query."
_LOOKED_UP = (
    "The knowledge base to ask; left out, all are asked, each after its own name. "
    "Ids mean something only in the one that showed them."
)


def tools_of(kind: KBKind) -> tuple[ToolFunction, ...]:
    """The tools on a knowledge base of a kind."""
    return ENDPOINT_TOOLS if kind == "sparql" else WIKIDATA_TOOLS


def several_tools(kb: SeveralKB) -> tuple[ToolFunction, ...]:
    """The tools on several, worded for endpoints where one of them is none of Wikidata's kind."""
    plain = all(kb_kind(one) == "wikibase" for one in kb.parts.values())
    tools = WIKIDATA_TOOLS if plain else ENDPOINT_TOOLS
    names = tuple(kb.parts)
    asked = [one if one in (show_rows, finish) else _with_kb(one, names) for one in tools]
    return (*asked[:-1], join_results, asked[-1])


@cache
def _with_kb(tool: ToolFunction, names: tuple[str, ...]) -> ToolFunction:
    """A tool with one more argument, ``kb``: one of the names, or for anything but a query all of them."""
    queried, own, hints = tool.__name__ == QUERY, signature(tool), get_type_hints(tool, include_extras=True)
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
    kb = context.kb.part(name) if isinstance(context.kb, SeveralKB) else context.kb
    tables = {text: table for query, table in context.tables.items() for of, text in [kb_of(query)] if of == name}
    results = {
        number: alone(step, name) for number, step in context.results.items() if step.call.arguments.get("kb") == name
    }
    return replace(context, kb=kb, tables=tables, results=results)


def alone(step: Step, name: str) -> Step:
    """A step as it would be if no other knowledge base were asked."""
    arguments = {key: value for key, value in step.call.arguments.items() if key != "kb"}
    seen = step.observation.removeprefix(_heading(name))
    return replace(step, call=replace(step.call, arguments=arguments), observation=seen)


def _heading(name: str) -> str:
    return f"From {name}:\n"


def about_several(kb: SeveralKB, question: str, language: str, shown: Shown) -> Mapping[str, object]:
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


def join_results(context: Context, thought: Thought, query: str, result: int, kb: str) -> Observation:
    """Run a query in one knowledge base for the rows of an earlier result, which may be another's.

    Each column of that result is a variable in the query and has its values; select those that the answer needs. Where
    ids differ, join by a name or an identifier that both have.

    Args:
        query: A SELECT query that uses columns of the result as variables, without VALUES for them.
        result: Its number.
        kb: The knowledge base that runs the query.
    """
    step = context.results.get(result)
    if step is None or not step.rows:
        raise BadArguments(f"There is no result {result} with rows.")
    table, origin = context.tables.get(step.query), kb_of(step.query)[0]
    if table is None:  # the run was killed and goes on
        table = context.tables[step.query] = context.kb.execute_query(step.query, language=context.language)
    tokens = tokenize(query)
    used = [name for name in table.columns if any(one.text in (f"?{name}", f"${name}") for one in tokens)]
    opening = next((one for one in tokens if one.text == "{"), None)
    if not used or opening is None:
        raise BadArguments(
            f"The query uses no column of result {result}: {', '.join(f'?{one}' for one in table.columns)}."
        )
    rows = [row for row in table.projected(used).rows if "UNDEF" not in map(written, row)]
    whole = [one.text.upper() for one in tokens if one.is_word(*_OF_ALL_ROWS)]
    if len(rows) > (_BATCH if whole else _MOST):
        why = f" by a query with {whole[0]}" if whole else ""
        raise BadArguments(f"Result {result} has {len(rows)} rows, too many to be taken up{why}: narrow it first.")
    if not rows:
        raise BadArguments(f"No row of result {result} has a value in {', '.join(used)}.")

    def of(some: Sequence[Sequence[Cell]]) -> str:
        values = " ".join(f"({' '.join(map(written, row))})" for row in some)
        block = f" VALUES ({' '.join(f'?{name}' for name in used)}) {{ {values} }}"
        return edited(query, {(opening.end, opening.end): block})

    ran = in_kb(of(rows), kb)
    taken = f"{', '.join(f'?{name}' for name in used)} are of result {result}, from {origin}"
    note = f"{taken} ({described(step)}); the rest is from {kb}."

    def told(found: AnswerTable) -> AnswerTable:
        named = {found.entity(cell): table.label(cell) for row in rows for cell in row}
        known = {entity: label for entity, label in named.items() if entity and label}
        return replace(found, labels={**known, **found.labels}, note=note)

    if len(rows) <= _BATCH:
        seen = _ask(replace(context, seen=f"{context.seen}\n{ran}"), kb, QUERY, thought, {"query": kb_of(ran)[1]})
        if ran in context.tables:
            context.tables[ran] = told(context.tables[ran])
        return replace(seen, text=f"{_heading(kb)}{note}\n{seen.text}", ran=ran)
    part = context.kb.part(kb) if isinstance(context.kb, SeveralKB) else context.kb
    batches = [rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH)]
    tables = [part.execute_query(of(batch), language=context.language) for batch in batches]
    merged = [row for one in tables for row in one.rows]
    if any(one.is_word("DISTINCT", "REDUCED") for one in tokens):
        merged = list(dict.fromkeys(merged))
    labels = {entity: label for one in tables for entity, label in one.labels.items()}
    cut = next((one.cut for one in tables if one.cut), "")
    found = context.tables[ran] = told(replace(tables[0], rows=tuple(merged), labels=labels, cut=cut))
    text = table_text(found, context.shown, name=f"Result {context.number}")
    return Observation(f"{_heading(kb)}{note}\n{text}", rows=len(merged), ran=ran)
