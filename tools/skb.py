"""The tools of SKB agents: those of Wikidata in the words of a graph with documents, and ``finish`` with a ranking.

What a model reads of a tool is its docstring; each gives the ids that it shows, by which the answer is checked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Annotated

import numpy as np
from pydantic import Field
from typing_extensions import TypedDict

from kbnav.answers.language import plural, singular
from kbnav.answers.relevance import relevance
from kbnav.errors import BadArguments, ServiceError, TellModel, UnknownId
from kbnav.knowledge.base import INVERSE, Direction, Edge, Entry, Statement
from kbnav.knowledge.skb.graph import Hop, NodeNumbers
from kbnav.knowledge.skb.kb import SkbKB, as_skb
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES, text_literal, written
from kbnav.tools.context import Context, Observation, Thought
from kbnav.tools.show import (
    cut,
    entity_name,
    entry_text,
    examples_text,
    neighborhood_text,
    rows_shown,
    search_text,
    value_text,
)
from kbnav.tools.walking import described, link_lines, neighborhood, once
from kbnav.tools.wikidata import nodes_of, run_query, show_rows

_MOST = 50
"""Nodes that one call may ask for."""
_DOCUMENT = 2_000
"""Characters of a document that are shown."""
_WHOLE = 12_000
"""Characters of a document that are read at once."""
_BATCH, _FEW = 10, 5
"""Nodes that a batched call shows, and links that it shows of each node, or of each of its relations."""
_RELATIONS, _LIKE = 60, 20
"""Relations of one node that are listed, and relations that a search by words shows."""
_SHORT = 300
"""Characters of a document up to which a batched call shows it whole."""


def search_entities(context: Context, thought: Thought, query: str) -> Observation:
    """Find nodes by name, also misspelled ones, and by words of their documents; and relations by name.

    Short names work best. Results are shown as "name (id): type".

    Args:
        query: A name, or a short phrase.
    """
    result = context.kb.search_entities(query, language=context.language, limit=context.shown.entities)
    kb = context.kb
    if isinstance(kb, SkbKB) and kb.shows_documents and "execute_query" in kb.capabilities and result.rung != "exact":
        result = replace(result, note=_as_value(kb, query))
    text = search_text(result, query, context.shown)
    return Observation(text, nodes=once(entity.id for entity in result.entities))


def _as_value(kb: SkbKB, query: str) -> str:
    """How many nodes have a text as the value of a field, with the pattern that finds them; empty where none has."""
    text = " ".join(query.split())
    forms = {text_literal(form) for one in (text, singular(text)) for form in (one, one.lower(), one.capitalize())}
    number = [text] if text.isascii() and text.isdecimal() else []
    field, listed = SKB_PREFIXES["field"], " ".join([*sorted(forms), *number])
    asked = f"SELECT ?field ?value (COUNT(?x) AS ?n) {{ VALUES ?value {{ {listed} }} ?x ?field ?value "
    asked += f'FILTER(STRSTARTS(STR(?field), "{field}")) }} GROUP BY ?field ?value ORDER BY DESC(?n) LIMIT 3'
    try:
        rows = kb.execute_query(asked).rows
    except (TellModel, ServiceError):  # the search has its results without it
        return ""
    told = [
        f"{plural(int(count.value), 'node')} (`?x field:{name.value.removeprefix(field)} "
        f"{value.value if value.datatype else written(value)}`)"
        for name, value, count in rows
        if name and value and count
    ]
    return f"As the value of a field: {'; '.join(told)}. execute_query lists and counts them." if told else ""


def get_entry(
    context: Context,
    thought: Thought,
    entity_id: str = "",
    entity_ids: list[str] = [],  # noqa: B006 - read only, and what the schema tells a model
) -> Observation:
    """Read one node: its document and its edges, cut to what matters for the question; or what a relation links.

    Edges that come in from other nodes are listed under ^relation. Several nodes are shown shortly, one after another.

    Args:
        entity_id: The id of the node, as results show it, or the name of a relation.
        entity_ids: Ids of several nodes to compare, at most 10, in place of entity_id.
    """
    return _each("get_entry", entity_id, entity_ids, partial(_whole_entry, context), partial(_short_entry, context))


def _whole_entry(context: Context, entity_id: str) -> Observation:
    entry = _one_way(context.kb.get_entry(entity_id, language=context.language))
    kept, usage = context.prune(entry, context.asked)
    left = len(entry.document) - _DOCUMENT
    document = f"{entry.document[:_DOCUMENT].rstrip()}… ({left:,} more characters)" if left > 0 else entry.document
    return replace(_told(context, replace(entry, document=document), kept), usage=usage)


def _short_entry(context: Context, entity_id: str) -> Observation:
    """A node in a few lines: what of its document fits the question, and some edges of each relation."""
    entry, document = _one_way(context.kb.get_entry(entity_id, language=context.language)), ""
    if len(whole := entry.document.strip()) > _SHORT:
        fitting = as_skb(context.kb, "get_entry").excerpts([entity_id], context.asked).get(entity_id, "")
        document = f"{fitting or whole[:_SHORT]} (of a document of {len(whole):,} characters)"
    by_relation: defaultdict[str, list[Statement]] = defaultdict(list)
    for one in entry.statements:
        by_relation[one.property.id].append(one)
    few = [one for edges in by_relation.values() for one in edges[:_FEW]]
    return _told(context, replace(entry, document=document or whole), replace(entry, statements=tuple(few)))


def _told(context: Context, entry: Entry, kept: Entry) -> Observation:
    own = [entry.entity.id] if entry.entity.kind != "property" else []
    text = entry_text(entry, kept, context.shown, empty="It has no edges." if own else "")
    if entry.omitted:
        text += "\nNot read: " + ", ".join(f"{count:,} more {what}" for what, count in entry.omitted.items()) + "."
    return Observation(text, nodes=once([*own, *(one.value.id for one in kept.statements)]))


def _one_way(entry: Entry) -> Entry:
    """An entry whose links that go both ways are listed as outgoing alone."""
    out = {(one.property.id, one.value.id) for one in entry.statements if one.value.id}
    kept = [
        one
        for one in entry.statements
        if (one.property.id.removeprefix(INVERSE), one.value.id) not in out or not one.property.id.startswith(INVERSE)
    ]
    return replace(entry, statements=tuple(kept))


def read_document(context: Context, thought: Thought, entity_id: str, start: int = 1) -> Observation:
    """Read the document of one node whole; other results show a sentence of it.

    Args:
        entity_id: The id of the node.
        start: The first character to see, from 1, of a document that was cut.
    """
    entry = context.kb.get_entry(entity_id, language=context.language)
    if entry.entity.kind == "property" or not entry.document.strip():
        return Observation(f"{entity_name(entry.entity)} has no document.")
    text, first = entry.document.strip(), max(0, start - 1)
    left = len(text) - first - _WHOLE
    more = f"\n… ({left:,} more characters, from start={first + _WHOLE + 1})" if left > 0 else ""
    return Observation(text[first : first + _WHOLE] + more, nodes=(entry.entity.id,))


def get_property_examples(context: Context, thought: Thought, relation: str) -> Observation:
    """See a few real edges of a relation, from every pair of node types it links.

    Use it when the name of a relation does not say what it means or which way it points.

    Args:
        relation: The name of the relation.
    """
    examples = context.kb.get_property_examples(relation, language=context.language, limit=context.shown.examples)
    ends = (end for one in examples for end in (one.subject.id, one.value.id) if end)
    return Observation(examples_text(examples, relation), nodes=once(ends))


def search_neighbors(
    context: Context,
    thought: Thought,
    entity_id: str = "",
    query: str = "",
    relation: str = "",
    direction: Direction = "both",
    entity_ids: list[str] = [],  # noqa: B006 - read only, and what the schema tells a model
) -> Observation:
    """Find what a node is linked to; neighbours whose names and documents fit the query best come first.

    Args:
        entity_id: The id of the node.
        query: Words that describe the wanted neighbour.
        relation: The name of a relation, to see only its edges.
        direction: "out" for edges that leave the node, "in" for edges that point to it, or "both".
        entity_ids: Ids of several nodes, at most 10, in place of entity_id; the best 5 edges of each are shown.
    """
    see = partial(_linked, context, query=query, relation=relation, direction=direction)
    most = context.shown.edges
    return _each(
        "search_neighbors", entity_id, entity_ids, partial(see, limit=most), partial(see, limit=min(_FEW, most))
    )


def _linked(
    context: Context, entity_id: str, *, query: str, relation: str, direction: Direction, limit: int
) -> Observation:
    found = neighborhood(context, entity_id, relation, direction, query, limit)
    if not found.edges:
        return Observation(neighborhood_text(found, context.shown))

    def line(edge: Edge) -> str:
        name, other = entity_name(edge.relation), value_text(edge.neighbor, context.shown.cell)
        told = f"-- {name} --> {other}" if edge.direction == "out" else f"<-- {name} -- {other}"
        return f"{told}: {edge.neighbor.description}" if edge.neighbor.description else told

    lines = link_lines(found.edges, line, ranked=bool(query), item="")
    count = plural(found.total, "edge")
    if found.total > len(found.edges):
        count += f", the first {len(found.edges)} shown"
    head = f"{entity_name(found.entity)}: {count}" + (", best match first." if query else ".")
    return Observation("\n".join([head, *lines]), nodes=once(edge.neighbor.id for edge in found.edges))


def find_relations(context: Context, thought: Thought, query: str = "", entity_id: str = "") -> Observation:
    """Find relations by words, or see those of one node with their number of links.

    Args:
        query: Words that the relation, or the types it links, may have.
        entity_id: The id of a node, to see which relations it has.
    """
    kb = as_skb(context.kb, "find_relations")
    if entity_id:
        return Observation("\n".join(kb.relations.of_node(entity_id, query, _RELATIONS)))
    if not query.strip():
        raise BadArguments("find_relations: give words, or the id of a node")
    lines = kb.relations.kinds_like(query, _LIKE)
    return Observation("\n".join(lines) or f'No relation has words of "{cut(query, 60)}". Try others, or a node.')


def vector_query(
    context: Context,
    thought: Thought,
    text: str,
    node_type: str = "",
    limit: int = 10,
    among: list[str] = [],  # noqa: B006 - read only, and what the schema tells a model
) -> Observation:
    """Find nodes whose documents are near to a description, in words and in meaning.

    Documents do not say what a node is linked to: leave that out of the text, and give the nodes it holds for instead.

    Args:
        text: A description of what is wanted, in a phrase or a sentence.
        node_type: The name of a node type, to see only its nodes.
        limit: How many nodes to see, at most 50.
        among: Ids of nodes, to see only these, such as those that links lead to.
    """
    kb, most = as_skb(context.kb, "vector_query"), max(1, min(limit, _MOST))
    ranking = kb.vector_query(text, kind=node_type or "item", limit=most, among=among or None)
    lines = described(kb, ranking, text)
    return Observation("\n".join(lines) or "Nothing was found.", nodes=once(ranking.ids))


def execute_query(context: Context, thought: Thought, query: str) -> Observation:
    """Run a SPARQL query (SELECT or ASK) on the graph and see its rows, or the first and the last of many, and counts.

    Prefixes need not be declared: node:<id>, type:<type>, rel:<relation as results show it>, field:<field of the
    document>, rdfs:label. In them a space is written _; in ids, types and fields other signs than letters, digits, "_",
    ":", "-" and "." are percent-encoded.

    Args:
        query: The whole SPARQL query.
    """
    seen = run_query(context, query)
    table = context.tables.get(query)
    if not seen.ok or table is None:
        return seen
    rows = rows_shown(table, context.shown)
    return replace(seen, nodes=nodes_of(rows))


def finish(context: Context, thought: str, nodes: list[str], answer: str = "", no_answer: bool = False) -> Observation:
    """End the work with the answer: the ids of nodes, best first, and what they say in words.

    Call it alone. Only nodes that a result has shown count, with their ids written as shown.

    Args:
        thought: Why these nodes answer the question; what a reader should know of it.
        nodes: The ids of all that answer it, best first, and of no others; none where only a number or a yes or no is
            asked for, or nothing answers it.
        answer: The answer in one to three plain sentences, in the language of the question: what results show, and
            which part of the question no result has shown.
        no_answer: True if results have shown that the knowledge base does not hold the answer, or that what the
            question takes for granted is not so, and `answer` says which.
    """
    return Observation("Finished.")


def _each(
    tool: str,
    entity_id: str,
    entity_ids: Sequence[str],
    whole: Callable[[str], Observation],
    shortly: Callable[[str], Observation],
) -> Observation:
    """One node whole, or several shortly; an id that there is not is said to be none, and the others are shown."""
    ids = once([entity_id, *entity_ids])
    if not 0 < len(ids) <= _BATCH:
        raise BadArguments(f"{tool}: give entity_id, or two to {_BATCH} entity_ids.")
    if len(ids) == 1:
        return whole(ids[0])
    texts, nodes, seen = list[str](), list[str](), False
    for one in ids:
        try:
            shown = shortly(one)
        except UnknownId as error:
            texts.append(str(error))
            continue
        seen = True
        texts.append(shown.text)
        nodes += shown.nodes
    return Observation("\n\n".join(dict.fromkeys(texts)), ok=seen, nodes=once(nodes))


_PATHS, _LONGEST, _NODES = 6, 4, 50
"""Paths of a call, relations of a path, nodes of a call."""
_COUNTED = 100_000
"""Nodes whose links are counted, to see those with the most first."""
_REACHED = 1_000_000
"""Nodes that one hop reaches at most."""
_SHOWN = 20
_RANKED = 500
"""Nodes whose documents are compared with the question; of more, those with the most links."""
_FIELD = 200
"""Characters of a field that are shown."""


class PathFrom(TypedDict):
    """A path of relations from any of some nodes."""

    entity_ids: Annotated[list[str], Field(description="Ids of the nodes it begins at, of which any may do.")]
    relations: Annotated[
        list[str], Field(description="Relations to follow in order, 1 to 4, with ^ before one followed backwards.")
    ]


def follow_paths(
    context: Context,
    thought: Thought,
    paths: list[PathFrom] = [],  # noqa: B006 - read only, and what the schema tells a model
    node_type: str = "",
    most_by: str = "",
    limit: int = 20,
    offset: int = 0,
) -> Observation:
    """Follow relation paths from nodes, count the different nodes that all of these paths lead to, and see them.

    For what both A by one relation and B by another lead to, give two paths; with one path it is simply followed; with
    none all nodes of a type are meant.

    Args:
        paths: Up to 6 paths.
        node_type: The name of a node type, to count and see only its nodes.
        most_by: A relation, with ^ before it to count backwards: the nodes with the most links by it come first, each
            with its number; empty to see those first that fit the question best.
        limit: How many nodes to see, at most 50.
        offset: How many of the first to pass over, to see those behind them.
    """
    kb = as_skb(context.kb, "follow_paths")
    if len(paths) > _PATHS or not (paths or node_type or len(kb.skb.type_names) == 1):
        raise BadArguments(f"follow_paths: give one to {_PATHS} paths, or a node_type to see all its nodes.")
    ends = [_ends(kb, path) for path in paths]
    common = reduce(lambda one, other: np.intersect1d(one, other, assume_unique=True), ends) if ends else None
    if node_type or not paths:
        first, last = kb.skb.type_range(node_type or kb.skb.type_names[0])
        inside = np.arange(first, last, dtype=np.int32)
        common = inside if common is None else common[(common >= first) & (common < last)]
    nodes = [] if common is None else common.tolist()
    if most_by and len(nodes) > _COUNTED:
        raise BadArguments(f"follow_paths: most_by counts links of up to {_COUNTED:,} nodes, not of {len(nodes):,}.")
    number, back = kb.relations.resolve(most_by) if most_by else (0, False)
    way: Direction = "in" if back else "out"
    counts = {node: len(kb.skb.graph.neighbors(node, number, way)) for node in nodes} if most_by else {}
    ordered = sorted(nodes, key=lambda node: -counts[node]) if most_by else _by_fit(kb, nodes, context.question)
    offset = max(0, offset)
    ids = [kb.skb.id(node) for node in ordered[offset : offset + max(1, min(limit, _NODES))]]
    about, known = kb.excerpts(ids, context.question), kb.entities(ids)
    lines = []
    for one in ids:
        links = f"{counts[kb.skb.number(one)]:,} links by {most_by}" if most_by else ""
        told = "; ".join(filter(None, [known[one].description, links, about.get(one)]))
        lines.append(f"{cut(known[one].label, 100)} ({one}): {told}".removesuffix(": "))
    if len(paths) > 1:
        lines.append("Each path by itself:")
        for path, end in zip(paths, ends, strict=True):
            lines.append(
                f"- {' or '.join(path['entity_ids'])} by {' / '.join(path['relations'])}: {plural(len(end), 'node')}"
            )
    head = f"{plural(len(nodes), 'node')}{' that all paths lead to' if len(paths) > 1 else ''}"
    if len(ids) < len(nodes):
        which = f"{offset + 1:,} to {offset + len(ids):,}" if ids else "none"
        order = f"with the most links by {most_by} first" if most_by else "those that fit the question best first"
        head += f"; {which} shown, {order}"
    return Observation("\n".join([f"{head}.", *lines]), nodes=tuple(ids))


def get_fields(context: Context, thought: Thought, entity_ids: list[str], fields: list[str]) -> Observation:
    """Read some fields of the documents of many nodes at once, one line a node.

    Args:
        entity_ids: The ids of the nodes, at most 50.
        fields: The names of the fields; where a node lacks one, it is left out.
    """
    kb = as_skb(context.kb, "get_fields")
    if not 0 < len(entity_ids) <= _NODES:
        raise BadArguments(f"get_fields: give one to {_NODES} ids.")
    wanted = {field.casefold().replace("_", " ") for field in fields}
    lines, met = list[str](), dict[str, None]()
    for one in entity_ids:
        node = kb.skb.number(one)
        document = kb.skb.documents[node]
        met |= dict.fromkeys(document)
        parts = [
            f"{key}: {cut(', '.join(map(str, value)) if isinstance(value, list) else str(value), _FIELD)}"
            for key, value in document.items()
            if key.casefold().replace("_", " ") in wanted
        ]
        lines.append(f"{cut(kb.skb.name(node), 100)} ({one}): {'; '.join(parts) or 'none of these'}")
    unknown = sorted(wanted - {key.casefold().replace("_", " ") for key in met})
    if unknown:
        lines.append(f"No field {', '.join(unknown)} here; there are: {', '.join(met) or 'none'}.")
    return Observation("\n".join(lines), nodes=tuple(dict.fromkeys(entity_ids)))


def _ends(kb: SkbKB, path: PathFrom) -> NodeNumbers:
    """The nodes at the end of a path, sorted. Raises UnknownId, and BadArguments for a path too short or too long."""
    ids, relations = path["entity_ids"], path["relations"]
    if not ids or not 0 < len(relations) <= _LONGEST:
        raise BadArguments(f"follow_paths: give each path its entity_ids, and one to {_LONGEST} relations.")
    nodes = np.array([kb.skb.number(one) for one in ids], np.int32)
    for name in relations:
        number, back = kb.relations.resolve(name)
        nodes = kb.skb.graph.expand(nodes, Hop(number, "in" if back else "out"), _REACHED)
    return np.unique(nodes)


def _by_fit(kb: SkbKB, nodes: Sequence[int], question: str) -> list[int]:
    """Nodes in the order of their fit: those whose names and documents have the question's words, then by links."""
    linked = sorted(nodes, key=lambda node: -kb.skb.graph.degree(node))
    few = linked[:_RANKED]
    if len(few) <= _SHOWN:
        return linked
    scores = relevance(question, [f"{kb.skb.name(node)} {kb.skb.nodes.text(node)[:2000]}" for node in few])
    return [few[place] for place in sorted(range(len(few)), key=lambda place: -scores[place])] + linked[_RANKED:]


SKB_TOOLS = (
    search_entities,
    get_entry,
    get_property_examples,
    search_neighbors,
    find_relations,
    follow_paths,
    get_fields,
    vector_query,
    execute_query,
    show_rows,
    finish,
)
