"""What ``kbnav skb`` prints of an SKB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbnav.apps.cli.terminal import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from kbnav.knowledge.skb.maintenance import Info
    from kbnav.knowledge.skb.schema import Meta

_TUPLES = 40
"""Kinds of edges that ``info`` lists."""


def print_losses(console: Console, meta: Meta) -> None:
    """What a build left out, as warnings."""
    from kbnav.apps.console import printable

    for line in _losses(meta):
        console.print(printable(line), style="yellow", highlight=False, markup=False)


def _losses(meta: Meta) -> list[str]:
    """What a build left out: each reason with its count and first cases."""
    lines = []
    for reason, dropped in meta.dropped.items():
        cases = [*dropped.examples, "…"] if dropped.count > len(dropped.examples) else dropped.examples
        lines.append(f"{reason}: {dropped.count:,}" + (f" ({', '.join(cases)})" if dropped.examples else ""))
    return lines


def print_built(place: str, meta: Meta, as_json: bool) -> None:
    """What a build made."""
    if as_json:
        dropped = {reason: one.count for reason, one in meta.dropped.items()}
        print_json({"out": place, "nodes": meta.nodes, "edges": meta.edges, "left_out": dropped})
    else:
        print(f"{place}: {size_of(meta)}")


def size_of(meta: Meta) -> str:
    """Nodes and edges, counted."""
    return _counts(meta.nodes, meta.edges)


def _counts(nodes: int, edges: int) -> str:
    counts = ((nodes, "node"), (edges, "edge"))
    return ", ".join(f"{count:,} {what}{'s' if count != 1 else ''}" for count, what in counts)


def print_info(found: Info) -> None:
    """What ``kbnav skb info`` says."""
    from rich.filesize import decimal

    from kbnav.apps.console import printable

    meta = found.meta
    approximate = ", approximate search" if found.approximate else ""
    lines = [
        f"{meta.name}: {size_of(meta)}, from {meta.source}",
        f"vectors: {meta.encoder or 'none'}{approximate}; SPARQL: {'yes' if meta.sparql else 'no'}",
        f"indexed: {'documents as STaRK renders them' if meta.indexed != 'plain' else 'names and all fields'}",
        *([found.outdated] if found.outdated else []),
        *(f"version {one.number}, of {one.written}: {_counts(one.nodes, one.edges)}" for one in found.versions),
        f"words of the documents: {'not counted' if meta.tokens is None else f'{meta.tokens:,}'}",
        f"edges of a node on the average: {meta.average_degree:.1f}",
        f"nodes without an edge: {found.isolated:,}",
        f"the most edges of a node: {found.largest_degree:,} ({found.largest_degree_node})",
        "",
        "node types",
        *(f"  {kind.name}: {kind.count:,}" for kind in meta.types),
        "",
        "relations",
    ]
    tuples = sorted(meta.tuples, key=lambda one: -one.count)
    lines += [f"  {one.source} -- {one.relation} --> {one.target}: {one.count:,}" for one in tuples[:_TUPLES]]
    if len(tuples) > _TUPLES:
        lines.append(f"  and {len(tuples) - _TUPLES} more")
    lines += [
        "",
        "tables" if found.versions else "files",
        *(f"  {part}: {decimal(size)}" for part, size in sorted(found.bytes.items())),
    ]
    if meta.dropped:
        lines += ["", "left out or changed by the build", *(f"  {line}" for line in _losses(meta))]
    print(printable("\n".join(lines)))
