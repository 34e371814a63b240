"""``kbnav skb``: build local knowledge bases from files, describe, check and update them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli.arguments import JsonOption
from kbnav.apps.cli.building import Progress
from kbnav.apps.cli.help import Commands
from kbnav.apps.cli.sources import Columns, Format, source_of
from kbnav.apps.cli.terminal import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb.build import Options
    from kbnav.knowledge.skb.maintenance import Info
    from kbnav.knowledge.skb.schema import Meta

app = Commands("Build and look after local knowledge bases: graphs whose nodes have documents.")
NO_ENCODER = "none"
_TUPLES = 40
"""Kinds of edges that ``info`` lists."""


NodesOption = Annotated[
    list[Path] | None,
    typer.Option("--nodes", metavar="FILE", help="Node records: .jsonl, .csv, .tsv, .parquet, also .gz; repeatable."),
]
EdgesOption = Annotated[
    list[Path] | None, typer.Option("--edges", metavar="FILE", help="Edge records, as for nodes; repeatable.")
]
SkbArgument = Annotated[Path, typer.Argument(metavar="SKB", help="Folder of the SKB.")]
AnySkbArgument = Annotated[Path, typer.Argument(metavar="SKB", help="Folder of the SKB, or demo for the bundled one.")]
UrlOption = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="OpenAI-compatible endpoint of an encoder openai:<model>."),
]


def build(
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder of the SKB; an old one is replaced when the new is whole."
        ),
    ],
    sources: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SOURCE", help="With --from rdf the files, else the folder that they are in."),
    ] = None,
    source_format: Annotated[Format, typer.Option("--from", help="What it is built from.")] = Format.records,
    nodes: NodesOption = None,
    edges: EdgesOption = None,
    tables: Annotated[
        Path | None,
        typer.Option("--tables", metavar="FILE", help="TOML file that says which columns of tables are what."),
    ] = None,
    id_column: Annotated[
        str, typer.Option("--id", metavar="COLUMN", help="Column of the nodes' ids; default: id.")
    ] = "",
    name_column: Annotated[
        str, typer.Option("--name", metavar="COLUMN", help="Column of the nodes' names; default: name.")
    ] = "",
    node_type: Annotated[str, typer.Option("--type", metavar="TYPE", help="Type of all nodes of --nodes.")] = "",
    type_column: Annotated[
        str, typer.Option("--type-column", metavar="COLUMN", help="Column of the nodes' types; default: type or kind.")
    ] = "",
    edge: Annotated[
        list[str] | None,
        typer.Option(
            "--edge",
            metavar="COLUMN[:RELATION[:TYPE]]",
            help="Column that leads to a node made of its value or, where TYPE is that of --type, to the row with that "
            "id; repeatable.",
        ),
    ] = None,
    text_columns: Annotated[
        str,
        typer.Option(
            "--text", metavar="COLUMN,…", help="Columns that are the document; default: all that are nothing else."
        ),
    ] = "",
    split: Annotated[
        str, typer.Option("--split", metavar="TEXT", help="What stands between several values in a cell of --edge.")
    ] = "",
    name: Annotated[
        str, typer.Option("--skb-name", metavar="NAME", help="Name of the SKB; default: that of the folder.")
    ] = "",
    encoder: Annotated[
        str,
        typer.Option(
            "--encoder",
            metavar="ENCODER",
            help="What embeds the texts: minilm, lsa, openai:<model>, sentence-transformers:<model>, "
            "trained:<folder> or none; "
            "default: minilm where it is installed, else lsa.",
        ),
    ] = "",
    no_text: Annotated[bool, typer.Option("--no-text", help="Do not index names and texts.")] = False,
    sparql: Annotated[bool, typer.Option(help="Make the RDF view that SPARQL queries run on.")] = True,
    relations: Annotated[
        bool, typer.Option("--relations", help="Index documents with their relations too, for kbnav retrieve.")
    ] = False,
    ann: Annotated[bool, typer.Option("--ann", help="Index the vectors for approximate search (extra ann).")] = False,
    base_url: UrlOption = None,
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            metavar="CODE",
            help="With --from rdf, the language of the names and texts to keep; with ogbn-mag that of the papers, any "
            "for all; default: en.",
        ),
    ] = None,
    label_property: Annotated[
        list[str] | None,
        typer.Option("--label-property", metavar="IRI", help="With --from rdf, a property of names; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Build an SKB. Killed, it goes on where it was when it is called again."""
    from kbnav.knowledge.skb.build import Options, unfinished
    from kbnav.knowledge.skb.build import build as build_skb

    console = _console()
    columns = Columns(id_column, name_column, node_type, type_column, tuple(edge or ()), text_columns, split)
    source = source_of(
        source_format, sources or [], nodes or [], edges or [], columns, tables, language, label_property or []
    )
    chosen = _encoder(encoder, console, base_url)
    options = Options(
        text=not no_text, vectors=encoder != NO_ENCODER, encoder=chosen, sparql=sparql, relations=relations, ann=ann
    )
    if unfinished(source, out, options):
        console.print("an unfinished build of this input is here: what it did is not done again", style="dim")
    with _can_go_on(console), Progress(console) as progress:
        meta = build_skb(source, out, options, name=name, progress=progress)
    _print_losses(console, meta)
    _print_built(out, meta, as_json)


def info(skb: AnySkbArgument, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say what an SKB holds: types, relations, indexes, sizes, and what its build left out."""
    from kbnav.knowledge.skb.maintenance import info as describe

    found = describe(_folder(skb))
    if as_json:
        print(json.dumps(found.record(), ensure_ascii=False, indent=1))
    else:
        _print_info(found)


def check(skb: AnySkbArgument, as_json: JsonOption = False) -> None:
    """Read every file of an SKB and compare it with its checksum."""
    from kbnav.errors import DataError
    from kbnav.knowledge.skb.maintenance import check as find_faults

    with Progress(_console()) as progress:
        faults = find_faults(_folder(skb), progress=progress)
    if as_json:
        print_json({"skb": str(skb), "whole": not faults, "faults": [*faults]})
        raise typer.Exit(2 if faults else 0)
    if faults:
        raise DataError("\n".join([f"{skb} is damaged; build it again, or take it from a copy:", *faults]))
    print(f"{skb} is whole")


def export(
    skb: AnySkbArgument,
    rdf: Annotated[
        Path, typer.Option("--rdf", metavar="FILE", help="Turtle to write: .ttl, or .ttl.gz.", show_default=False)
    ],
    as_json: JsonOption = False,
) -> None:
    """Write an SKB as RDF, for a SPARQL engine: its nodes with names and short fields, and its edges."""
    from kbnav.knowledge.skb.export import export_rdf
    from kbnav.knowledge.skb.store import SKB

    with SKB.open(_folder(skb)) as opened, Progress(_console()) as progress:
        written = export_rdf(opened, rdf, progress=progress)
    if as_json:
        print_json({"out": str(rdf), **written._asdict()})
    else:
        print(f"{rdf}: {written.nodes:,} nodes, {written.edges:,} edges, {written.bytes:,} bytes")


def update(
    skb: SkbArgument,
    nodes: NodesOption = None,
    edges: EdgesOption = None,
    ann: Annotated[
        bool | None, typer.Option(help="Index the vectors for approximate search, or leave it; default: as it is.")
    ] = None,
    base_url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add, replace or delete ("deleted": true) nodes and edges, by id; or add an index, or mend old ones."""
    from kbnav.knowledge.skb.importers.tables import TableSource
    from kbnav.knowledge.skb.maintenance import update as update_skb

    console = _console()
    only_index = not (nodes or edges) and (ann is not None or _outdated(skb))
    source = TableSource([], []) if only_index else source_of(Format.records, [], nodes or [], edges or [])
    options = _built_with(skb, base_url)
    with _can_go_on(console), Progress(console) as progress:
        meta = update_skb(skb, source, options if ann is None else options._replace(ann=ann), progress=progress)
    _print_losses(console, meta)
    _print_built(skb, meta, as_json)


@contextmanager
def _can_go_on(console: Console) -> Iterator[None]:
    """Say that nothing is lost where a build stops for no fault of its input."""
    from kbnav.errors import ServiceError

    try:
        yield
    except (KeyboardInterrupt, ServiceError):
        console.print("stopped; the same command goes on where it was", style="yellow")
        raise


def _folder(skb: Path) -> Path:
    """The folder of an SKB that is named as for ``kbnav ask --kb``."""
    from kbnav.knowledge.bundled import bundled_skb
    from kbnav.settings import load_settings

    return bundled_skb(load_settings().home) if str(skb) == "demo" and not skb.exists() else skb


def _encoder(name: str, console: Console, base_url: str | None) -> Encoder | None:
    """The encoder of a name; None for lsa, which is fitted on the texts, and for none."""
    from kbnav import encoders
    from kbnav.settings import load_settings

    if not name:
        return encoders.default(lambda line: console.print(line, style="dim", highlight=False, markup=False))
    if name in ("lsa", NO_ENCODER):
        return None
    settings = load_settings(base_url=base_url)
    return encoders.load(name, base_url=settings.base_url, api_key=settings.api_key.get_secret_value())


def _built_with(folder: Path, base_url: str | None) -> Options:
    """The options that an SKB was built with."""
    from kbnav.knowledge.skb.build import Options
    from kbnav.knowledge.skb.schema import read_meta

    meta = read_meta(folder)
    return Options(
        text=any(name.startswith("text/") for name in meta.files),
        vectors=bool(meta.encoder),
        encoder=_encoder(meta.encoder or NO_ENCODER, _console(), base_url),
        sparql=meta.sparql,
        relations=any(name.startswith("relational-") for name in meta.files),
        ann=_has_ann(meta),
    )


def _outdated(folder: Path) -> bool:
    """Whether a folder is an SKB whose indexes are to be built anew."""
    from kbnav.knowledge.skb.schema import META, read_meta

    return (folder / META).is_file() and read_meta(folder).outdated


def _has_ann(meta: Meta) -> bool:
    return any(name.split("/")[0].endswith("-ann") for name in meta.files)


def _print_losses(console: Console, meta: Meta) -> None:
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


def _print_built(folder: Path, meta: Meta, as_json: bool) -> None:
    if as_json:
        dropped = {reason: one.count for reason, one in meta.dropped.items()}
        print_json({"out": str(folder), "nodes": meta.nodes, "edges": meta.edges, "left_out": dropped})
    else:
        print(f"{folder}: {_size(meta)}")


def _size(meta: Meta) -> str:
    counts = ((meta.nodes, "node"), (meta.edges, "edge"))
    return ", ".join(f"{count:,} {what}{'s' if count != 1 else ''}" for count, what in counts)


def _print_info(found: Info) -> None:
    from rich.filesize import decimal

    from kbnav.apps.console import printable

    meta = found.meta
    approximate = ", approximate search" if _has_ann(meta) else ""
    lines = [
        f"{meta.name}: {_size(meta)}, from {meta.source}",
        f"vectors: {meta.encoder or 'none'}{approximate}; SPARQL: {'yes' if meta.sparql else 'no'}",
        f"indexed: {'documents as STaRK renders them' if meta.indexed != 'plain' else 'names and all fields'}",
        *([found.outdated] if found.outdated else []),
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
    lines += ["", "files", *(f"  {part}: {decimal(size)}" for part, size in sorted(found.bytes.items()))]
    if meta.dropped:
        lines += ["", "left out or changed by the build", *(f"  {line}" for line in _losses(meta))]
    print(printable("\n".join(lines)))


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True)


app.add(build)
app.add(info)
app.add(check)
app.add(export)
app.add(update)
