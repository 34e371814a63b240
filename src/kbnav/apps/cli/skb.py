"""``kbnav skb``: build local knowledge bases from files, describe, check and update them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli.arguments import JsonOption
from kbnav.apps.cli.building import Builders, Progress
from kbnav.apps.cli.help import Commands
from kbnav.apps.cli.pruning import prune
from kbnav.apps.cli.skb_told import print_built, print_info, print_losses
from kbnav.apps.cli.sources import Columns, Format, source_of
from kbnav.apps.cli.terminal import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb.build import Options
    from kbnav.knowledge.skb.schema import Meta, Source
    from kbnav.knowledge.skb.store import Store

app = Commands("Build and look after local knowledge bases: graphs whose nodes have documents.")
NO_ENCODER = "none"
_UNFINISHED = "an unfinished build of this input is here: what it did is not done again"


NodesOption = Annotated[
    list[Path] | None,
    typer.Option("--nodes", metavar="FILE", help="Node records: .jsonl, .csv, .tsv, .parquet, also .gz; repeatable."),
]
EdgesOption = Annotated[
    list[Path] | None, typer.Option("--edges", metavar="FILE", help="Edge records, as for nodes; repeatable.")
]
_PLACE = "Folder of the SKB, or its address such as s3://bucket/name"
SkbArgument = Annotated[str, typer.Argument(metavar="SKB", help=f"{_PLACE}.")]
AnySkbArgument = Annotated[str, typer.Argument(metavar="SKB", help=f"{_PLACE}; demo for the bundled one.")]
VersionOption = Annotated[
    int | None,
    typer.Option("--version", metavar="NUMBER", min=1, help="Version of an SKB on LanceDB; default: the last."),
]
AnnOption = Annotated[
    bool, typer.Option("--ann", help="Index the vectors for approximate search (extra ann; on LanceDB its own).")
]


class Kind(StrEnum):
    """What an SKB is kept in."""

    files = "files"
    lance = "lance"


UrlOption = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="OpenAI-compatible endpoint of an encoder openai:<model>."),
]


def build(
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="PLACE",
            help="Folder of the SKB, or with --store lance an address such as s3://bucket/name; an old one is replaced "
            "when the new is whole.",
        ),
    ],
    by: Builders,
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
    ann: AnnOption = False,
    store: Annotated[
        Kind, typer.Option("--store", help="What it is kept in: files, or tables of LanceDB (extra lance).")
    ] = Kind.files,
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
    from kbnav.knowledge.skb.build import Options

    console = _console()
    columns = Columns(id_column, name_column, node_type, type_column, tuple(edge or ()), text_columns, split)
    source = source_of(
        source_format, sources or [], nodes or [], edges or [], columns, tables, language, label_property or []
    )
    chosen = _encoder(encoder, console, base_url)
    options = Options(
        text=not no_text, vectors=encoder != NO_ENCODER, encoder=chosen, sparql=sparql, relations=relations, ann=ann
    )
    made = _build_tables if store is Kind.lance else _build_files
    with by.join(options, base_url) as options:
        meta = made(source, out, options, name, console)
    print_losses(console, meta)
    print_built(out, meta, as_json)


def _build_files(source: Source, out: str, options: Options, name: str, console: Console) -> Meta:
    from kbnav.errors import UsageError
    from kbnav.knowledge.skb.build import build, unfinished
    from kbnav.knowledge.skb.store import is_tables

    if is_tables(out):
        raise UsageError(f"{out} is a place of tables: build with --store lance, or choose a folder")
    if unfinished(source, Path(out), options):
        console.print(_UNFINISHED, style="dim")
    with _can_go_on(console), Progress(console) as progress:
        return build(source, Path(out), options, name=name, progress=progress)


def _build_tables(source: Source, out: str, options: Options, name: str, console: Console) -> Meta:
    from kbnav.knowledge.skb.build import unfinished
    from kbnav.knowledge.skb.lance.build import build, work_of

    home = _home()
    work = work_of(source, out, options, home)
    if (work / "meta.json").exists() or unfinished(source, work, options._replace(ann=False)):
        console.print(_UNFINISHED, style="dim")
    with _can_go_on(console), Progress(console) as progress:
        return build(source, out, options, home=home, name=name, progress=progress).meta


def copy(
    skb: AnySkbArgument,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="PLACE",
            help="Folder for the tables, or an address such as s3://bucket/name.",
            show_default=False,
        ),
    ],
    ann: AnnOption = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a built SKB into tables of LanceDB (extra lance). Killed, it goes on where it was when called again."""
    from kbnav.knowledge.skb.lance.build import refuse_other, write
    from kbnav.knowledge.skb.store import SKB

    console = _console()
    refuse_other(out)
    with SKB(_opened(skb)) as opened, _can_go_on(console), Progress(console) as progress:
        written = write(opened, out, approximate=ann, progress=progress)
    print_built(out, written.meta, as_json)


def info(
    skb: AnySkbArgument,
    version: VersionOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what an SKB holds: types, relations, indexes, sizes, versions, and what its build left out."""
    from kbnav.knowledge.skb.maintenance import info as describe

    found = describe(_place(skb, version), _home())
    if as_json:
        print(json.dumps(found.record(), ensure_ascii=False, indent=1))
    else:
        print_info(found)


def check(skb: AnySkbArgument, version: VersionOption = None, as_json: JsonOption = False) -> None:
    """Read all of an SKB and compare it with its checksums."""
    from kbnav.errors import DataError
    from kbnav.knowledge.skb.maintenance import check as find_faults

    with Progress(_console()) as progress:
        faults = find_faults(_place(skb, version), _home(), progress=progress)
    if as_json:
        print_json({"skb": skb, "whole": not faults, "faults": [*faults]})
        raise typer.Exit(2 if faults else 0)
    if faults:
        raise DataError("\n".join([f"{skb} is damaged; build it again, or take it from a copy:", *faults]))
    print(f"{skb} is whole")


def export(
    skb: AnySkbArgument,
    rdf: Annotated[
        Path, typer.Option("--rdf", metavar="FILE", help="Turtle to write: .ttl, or .ttl.gz.", show_default=False)
    ],
    version: VersionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an SKB as RDF, for a SPARQL engine: its nodes with names and short fields, and its edges."""
    from kbnav.knowledge.skb.rdf import export_rdf
    from kbnav.knowledge.skb.store import SKB

    with SKB(_opened(skb, version)) as opened, Progress(_console()) as progress:
        written, meta = export_rdf(opened, rdf, progress=progress), opened.meta
    if as_json:
        print_json({"out": str(rdf), "nodes": meta.nodes, "edges": meta.edges, "bytes": written})
    else:
        print(f"{rdf}: {meta.nodes:,} nodes, {meta.edges:,} edges, {written:,} bytes")


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
    from kbnav.knowledge.skb.schema import read_meta
    from kbnav.knowledge.skb.store import is_tables

    console = _console()
    only_index = not (nodes or edges) and (ann is not None or _outdated(skb))
    source = TableSource([], []) if only_index else source_of(Format.records, [], nodes or [], edges or [])
    if is_tables(skb):
        meta = _update_tables(skb, source, base_url, ann, console, only_index=only_index)
    else:
        meta_now = read_meta(Path(skb))
        options = _built_with(meta_now, meta_now.approximate if ann is None else ann, base_url)
        with _can_go_on(console), Progress(console) as progress:
            meta = update_skb(Path(skb), source, options, progress=progress)
    print_losses(console, meta)
    print_built(skb, meta, as_json)


def _update_tables(
    skb: str, source: Source, base_url: str | None, ann: bool | None, console: Console, *, only_index: bool
) -> Meta:
    from kbnav.knowledge.skb.lance.build import index, update
    from kbnav.knowledge.skb.lance.tables import read_build

    build = read_build(skb)
    approximate = build.approximate if ann is None else ann
    with Progress(console) as progress:
        if only_index:
            return index(skb, approximate=approximate, progress=progress).meta
        options = _built_with(build.meta, approximate, base_url)
        return update(skb, source, options, home=_home(), progress=progress).meta


@contextmanager
def _can_go_on(console: Console) -> Iterator[None]:
    """Say that nothing is lost where a build stops for no fault of its input."""
    from kbnav.errors import ServiceError

    try:
        yield
    except (KeyboardInterrupt, ServiceError):
        console.print("stopped; the same command goes on where it was", style="yellow")
        raise


def _place(skb: str, version: int | None = None) -> str:
    """The place of an SKB that is named as for ``kbnav ask --kb``."""
    from kbnav.knowledge.open import bundled_skb

    if skb == "demo" and not Path(skb).exists():
        skb = str(bundled_skb(_home()))
    return skb if version is None else f"{skb}@{version}"


def _opened(skb: str, version: int | None = None) -> Store:
    from kbnav.knowledge.skb.store import open_store

    return open_store(_place(skb, version), _home())


def _home() -> Path:
    from kbnav.settings.model import load_settings

    return load_settings().home


def _encoder(name: str, console: Console, base_url: str | None) -> Encoder | None:
    """The encoder of a name; None for lsa, which is fitted on the texts, and for none."""
    from kbnav import encoders
    from kbnav.settings.model import load_settings

    if not name:
        return encoders.default(lambda line: console.print(line, style="dim", highlight=False, markup=False))
    if name in ("lsa", NO_ENCODER):
        return None
    settings = load_settings(base_url=base_url)
    return encoders.load(name, base_url=settings.base_url, api_key=settings.api_key.get_secret_value())


def _built_with(meta: Meta, ann: bool, base_url: str | None) -> Options:
    """The options that an SKB was built with, but for its approximate index."""
    from kbnav.knowledge.skb.build import Options

    return Options(
        text=any(name.startswith("text/") for name in meta.files),
        vectors=bool(meta.encoder),
        encoder=_encoder(meta.encoder or NO_ENCODER, _console(), base_url),
        sparql=meta.sparql,
        relations=any(name.startswith("relational-") for name in meta.files),
        ann=ann,
    )


def _outdated(skb: str) -> bool:
    """Whether a folder is an SKB whose indexes are to be built anew."""
    from kbnav.knowledge.skb.schema import META, read_meta

    folder = Path(skb)
    return (folder / META).is_file() and read_meta(folder).outdated


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True)


app.add(build)
app.add(copy)
app.add(info)
app.add(check)
app.add(export)
app.add(update)
app.add(prune)
