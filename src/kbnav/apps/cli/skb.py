"""``kbnav skb``: build local knowledge bases from files, describe, check, copy and update them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.filesize import decimal

from kbnav import encoders
from kbnav.answers.language import plural
from kbnav.apps.cli.options import BaseUrl, Json, Many, Place, Workers, argument, flag, option
from kbnav.apps.cli.terminal import StageProgress, emit, print_json
from kbnav.apps.console import printable
from kbnav.encoders import Encoder
from kbnav.errors import DataError, ServiceError, UnknownId, UsageError
from kbnav.knowledge.skb.importers.files import Duplicates, Format, origins
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.schema import Dropped, Losses, Meta, is_lance, read_meta
from kbnav.settings.model import load_settings
from kbnav.tools.context import Shown
from kbnav.tools.show import entry_text

if TYPE_CHECKING:
    from kbnav.knowledge.skb.importers.tables import Recipe
    from kbnav.knowledge.skb.maintenance import Info

NO_ENCODER = "none"
_LONGEST_LIST, _EXAMPLE, _CASES = 40, 60, 3
"""Kinds of edges that ``info`` lists, characters of a field's example, cases of what was left out or changes."""

Nodes = Annotated[
    Many,
    option(
        "--nodes",
        "TABLE",
        "Table of nodes: a file (.csv, .jsonl, .parquet …), one of a file (shop.xlsx#products), or of "
        "postgresql://user@host/database#table; repeatable.",
    ),
]
Edges = Annotated[Many, option("--edges", "TABLE", "Table of edges, as for nodes; repeatable.")]
Tables = Annotated[Path | None, option("--tables", "FILE", "TOML file that says which columns of tables are what.")]
Repeated = Annotated[
    Duplicates, typer.Option(help="Rows of one id: the first or last is taken, all are made one, or the build stops.")
]
BadLines = Annotated[
    Literal["stop", "skip"],
    flag(
        "--bad",
        "What a line that cannot be read does: stop ends the command; skip writes it, with the reason, into "
        "shop.skb.bad.jsonl, or shop.skb.bad-1.jsonl for the first update, and goes on.",
    ),
]
_PLACE = "Folder of the SKB, or its address such as s3://bucket/name"
AnySkb = Annotated[str, argument("SKB", f"{_PLACE}; demo for the bundled one.")]


def build(
    sources: Annotated[list[Path] | None, argument("SOURCE", "Files (RDF, graphs), else their folder.")] = None,
    out: Annotated[str, option("--out", "PLACE", "Folder of the SKB; an old one is replaced at the end.")] = "",
    source_format: Annotated[Format, flag("--from", "What it is built from.")] = Format.records,
    nodes: Nodes = None,
    edges: Edges = None,
    tables: Tables = None,
    types: Annotated[Many, option("--type", "NAME", "Only nodes of this type, and their edges; repeatable.")] = None,
    duplicates: Repeated = Duplicates.first,
    bad: BadLines = "stop",
    encoder: Annotated[
        str,
        option(
            "--encoder",
            "ENCODER",
            "What embeds the texts: minilm, lsa, openai:<model> (at --base-url), "
            "sentence-transformers:<model>, trained:<folder> or none; default: minilm where it is installed, else lsa.",
        ),
    ] = "",
    no_text: Annotated[bool, flag("--no-text", "Do not index names and texts.")] = False,
    sparql: Annotated[bool, typer.Option(help="Make the RDF view that SPARQL queries run on.")] = True,
    relations: Annotated[bool, flag("--relations", "Index documents with relations too, for kbnav retrieve.")] = False,
    base_url: BaseUrl = None,
    on: Annotated[Place, flag("--on", "Where texts are embedded: here, or on a Ray cluster (RAY_ADDRESS).")] = "here",
    workers: Workers = None,
    gpus: Annotated[float, option("--gpus", "N", "With --on ray, GPUs of each worker that embeds.", min=0)] = 0.0,
    language: Annotated[
        str, option("--language", "CODE", "Of texts in RDF, or of papers of ogbn-mag (any: all); default: en.")
    ] = "",
    label_property: Annotated[Many, option("--label-property", "IRI", "Property of names in RDF; repeatable.")] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only show columns, values, and what would be left out.")] = False,
    as_json: Json = False,
) -> None:
    """Build an SKB. After a kill, give the same command again to continue.

    For example: kbnav skb build --nodes people.csv --edges knows.csv --out people.skb
    """
    from kbnav.knowledge.skb.build import Options
    from kbnav.knowledge.skb.build import build as build_skb
    from kbnav.knowledge.skb.importers.tables import Recipe, bad_lines_file

    console = Console(stderr=True)
    if label_property and source_format is not Format.rdf:
        raise UsageError("--label-property goes with --from rdf only")
    if language and source_format not in (Format.rdf, Format.ogbn_mag):
        raise UsageError("--language goes with --from rdf and --from ogbn-mag only")
    recipe = Recipe(
        format=source_format,
        sources=tuple(sources or ()),
        nodes=origins(nodes),
        edges=origins(edges),
        tables=tables,
        language=language or "en",
        labels=tuple(label_property or ()),
        types=tuple(types or ()),
        duplicates=duplicates,
        bad=bad_lines_file(Path(out or "OUT")) if bad == "skip" else None,
    )
    if dry_run:
        _print_preview(recipe, console, as_json)
        return
    if not out:
        raise UsageError("say with --out where the SKB is to be")
    if on == "here" and (workers or gpus):
        raise UsageError("--workers and --gpus are of a cluster: give --on ray with them")
    if is_lance(out):
        raise UsageError(f"{out} is a place of tables: build in a folder, then kbnav skb copy FOLDER --out {out}")
    chosen = _encoder(encoder, console, base_url)
    options = Options(
        text=not no_text, vectors=encoder != NO_ENCODER, encoder=chosen, sparql=sparql, relations=relations
    )
    kept = recipe.moved(Path(), Path(out)).model_dump(mode="json", exclude_defaults=True)
    cluster = _cluster(workers, gpus, base_url) if on == "ray" else nullcontext()
    with cluster as joined, _resumable(console), StageProgress(console) as progress:
        options = options._replace(workers=joined)
        meta = build_skb(recipe.source(), Path(out), options, recipe=kept, progress=progress)
    _print_made(console, meta)
    _print_built(out, meta, as_json)


def _print_preview(recipe: Recipe, console: Console, as_json: bool) -> None:
    from kbnav.knowledge.skb.importers.tables import TableSource
    from kbnav.knowledge.skb.maintenance import preview

    source = recipe.model_copy(update={"types": ()}).source()
    found = {str(file): columns for file, columns in source.described()} if isinstance(source, TableSource) else {}
    for file, columns in found.items() if not as_json else ():
        lines = (f"  {name}: {kind}: {' | '.join(map(str, some))}" for name, (kind, some) in columns.items())
        print(file, *lines, sep="\n")
    dropped: dict[str, Any] = {}
    try:
        with StageProgress(console) as progress:
            meta = preview(recipe, progress=progress)
        dropped = {reason: one.model_dump() for reason, one in meta.dropped.items()}
        _print_made(console, meta)
    finally:
        if as_json:
            print_json({"columns": found, "dropped": dropped})


def copy(
    skb: AnySkb,
    out: Annotated[
        str, option("--out", "PLACE", "Folder for tables, or an address (s3://bucket/name); or a file .ttl, .ttl.gz.")
    ],
    ann: Annotated[bool, flag("--ann", "Index the vectors in tables of LanceDB for approximate search.")] = False,
    as_json: Json = False,
) -> None:
    """Copy a built SKB into tables of LanceDB (extra lance), or into RDF for a SPARQL engine.

    RDF has its nodes with names and short fields, and its edges. An older copy is replaced when the new is whole.

    For example: kbnav skb copy people.skb --out people.ttl
    """
    from kbnav.knowledge.open import open_skb
    from kbnav.knowledge.skb.lance import refuse_other, write
    from kbnav.knowledge.skb.rdf import export_rdf

    as_rdf = out.endswith((".ttl", ".ttl.gz"))
    if not as_rdf:
        refuse_other(out)
    with open_skb(_place(skb), _home()) as opened, StageProgress(Console(stderr=True)) as progress:
        if as_rdf:
            size, meta = export_rdf(opened, Path(out), progress=progress), opened.meta
        else:
            meta = write(opened, out, approximate=ann, progress=progress).meta
    if as_rdf:
        line = f"{out}: {_size(meta.nodes, meta.edges)}, {size:,} bytes"
        emit(as_json, {"out": out, "nodes": meta.nodes, "edges": meta.edges, "bytes": size}, line)
    else:
        _print_built(out, meta, as_json)


def info(
    skb: AnySkb,
    check: Annotated[bool, flag("--check", "Read all of it, and compare it with its checksums.")] = False,
    node: Annotated[str, option("--node", "ID", "Print one node, by id or name: its document and edges.")] = "",
    as_json: Json = False,
) -> None:
    """Print what an SKB holds: types and their fields, relations, indexes, sizes, and what its build left out.

    For example: kbnav skb info demo
    """
    from kbnav.knowledge.skb.maintenance import check as find_faults
    from kbnav.knowledge.skb.maintenance import info as describe

    if node:
        _print_node(skb, node, as_json)
        return
    if not check:
        found = describe(_place(skb), _home())
        print_json(found.record()) if as_json else _print_info(found)
        return
    with StageProgress(Console(stderr=True)) as progress:
        faults = find_faults(_place(skb), _home(), progress=progress)
    if as_json:
        print_json({"skb": skb, "whole": not faults, "faults": [*faults]})
        raise typer.Exit(2 if faults else 0)
    if faults:
        raise DataError("\n".join([f"{skb} is damaged; build it again, or take it from a copy:", *faults]))
    print(f"{skb} is whole")


def _print_node(skb: str, node: str, as_json: bool) -> None:
    from kbnav.knowledge.open import open_skb

    with closing(SkbKB(open_skb(_place(skb), _home()))) as kb:
        if kb.skb.names and kb.skb.nodes.ids.find(node) < 0:
            same = kb.skb.names.search(node, limit=_CASES, edits=0)
            near = [kb.skb.id(one.number) for one in same or kb.skb.names.search(node, limit=_CASES)]
            if len(same) != 1:
                told = ", ".join(f"{name} ({one})" for one, name in kb.labels(near).items()) or "none"
                raise UnknownId(f"no one node is called {node!r}; the nearest by name: {told}")
            node = near[0]
        number = kb.skb.number(node)
        value = {"id": node, "type": kb.skb.type(number), "name": kb.skb.name(number), **kb.skb.documents[number]}
        entry = kb.get_entry(node)
        emit(as_json, value, printable(entry_text(entry, entry, Shown())))


def update(
    skb: Annotated[Path, argument("SKB", "Folder of the SKB.")],
    nodes: Nodes = None,
    edges: Edges = None,
    tables: Tables = None,
    bad: BadLines = "stop",
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would change.")] = False,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Add, replace or delete ("deleted": true) nodes and edges, by id; with no files, read those of the build again.

    For example: kbnav skb update people.skb --dry-run
    """
    from kbnav.knowledge.skb import maintenance
    from kbnav.knowledge.skb.build import Options
    from kbnav.knowledge.skb.importers.tables import Recipe, bad_lines_file

    console, meta, skip, changes = Console(stderr=True), read_meta(skb), bad == "skip", Losses()
    records = None
    if nodes or edges or tables:
        records = Recipe(
            nodes=origins(nodes),
            edges=origins(edges),
            tables=tables,
            duplicates=Duplicates(meta.recipe.get("duplicates", "first")),
            bad=bad_lines_file(skb, 1 + len(meta.recipe.get("updates", ()))) if skip else None,
        )
    if dry_run:
        with StageProgress(console) as progress:
            found = maintenance.difference(skb, records, skip=skip, progress=progress)
        value = {reason: one.model_dump() for reason, one in found.items()}
        emit(as_json, value, "\n".join(_counted(found)) or "nothing changes")
        return
    options = Options(
        text=any(name.startswith("text/") for name in meta.files),
        vectors=bool(meta.encoder),
        encoder=_encoder(meta.encoder or NO_ENCODER, console, base_url),
        sparql=meta.sparql,
        relations=any(name.startswith("relational-") for name in meta.files),
    )
    with _resumable(console), StageProgress(console) as progress:
        updated = maintenance.update(skb, records, options, skip=skip, changes=changes, progress=progress)
    left_out = updated.dropped_since(meta) if records else updated.dropped
    updated = updated.model_copy(update={"dropped": {**left_out, **changes.dropped}})
    _print_made(console, updated)
    _print_built(str(skb), updated, as_json)


def _cluster(workers: int | None, gpus: float, base_url: str | None) -> AbstractContextManager[Any]:
    """The workers of a build on a Ray cluster. Raises as ``on_ray``."""
    from kbnav.knowledge.ray_cluster import on_ray

    settings = load_settings(base_url=base_url)
    return on_ray(workers, gpus, base_url=settings.base_url, api_key=settings.api_key.get_secret_value())


@contextmanager
def _resumable(console: Console) -> Iterator[None]:
    """Print that nothing is lost where a build stops for no fault of its input."""
    try:
        yield
    except (KeyboardInterrupt, ServiceError):
        console.print("stopped; the same command continues it", style="yellow")
        raise


def _place(skb: str) -> str:
    """The place of an SKB that is named as for ``kbnav ask --kb``."""
    from kbnav.knowledge.open import bundled_skb

    if skb == "demo" and not Path(skb).exists():
        skb = str(bundled_skb(_home()))
    return skb


def _home() -> Path:
    return load_settings().home


def _encoder(name: str, console: Console, base_url: str | None) -> Encoder | None:
    """The encoder of a name; None for lsa, which is fitted on the texts, and for none."""
    if not name:
        return encoders.default(lambda line: console.print(line, style="dim", highlight=False, markup=False))
    if name in ("lsa", NO_ENCODER):
        return None
    settings = load_settings(base_url=base_url)
    return encoders.load(name, base_url=settings.base_url, api_key=settings.api_key.get_secret_value())


def _print_made(console: Console, meta: Meta) -> None:
    types = ", ".join(f"{kind.name} {kind.count:,}" for kind in meta.types)
    console.print(printable(types), style="dim", highlight=False, markup=False, soft_wrap=True)
    for line in _counted(meta.dropped):
        console.print(printable(line), style="yellow", highlight=False, markup=False, soft_wrap=True)


def _counted(cases_by_reason: Mapping[str, Dropped]) -> Iterator[str]:
    """Each reason with its count and first cases."""
    for reason, dropped in cases_by_reason.items():
        cases = [*dropped.examples[:_CASES], *(["…"] if dropped.count > _CASES else [])]
        yield f"{reason}: {dropped.count:,}" + (f" ({', '.join(cases)})" if dropped.examples else "")


def _print_built(place: str, meta: Meta, as_json: bool) -> None:
    dropped = {reason: one.count for reason, one in meta.dropped.items()}
    value = {"out": place, "nodes": meta.nodes, "edges": meta.edges, "left_out": dropped}
    emit(as_json, value, f"{place}: {_size(meta.nodes, meta.edges)}")


def _size(nodes: int, edges: int) -> str:
    return f"{plural(nodes, 'node')}, {plural(edges, 'edge')}"


def _print_info(found: Info) -> None:
    from kbnav.knowledge.skb.rdf import local_name

    def told(name: str, value: str) -> str:
        local = local_name(name.replace(" ", "_"))
        written = f" (field:{local})" if meta.sparql and local != name else ""
        return f"    {name}: {shorten(value, _EXAMPLE, placeholder='…')}{written}"

    meta = found.meta
    fields = {kind: [told(*item) for item in values.items()] for kind, values in found.fields.items()}
    approximate = ", approximate search" if found.approximate else ""
    tuples = sorted(meta.tuples, key=lambda one: -one.count)
    published = [f"relations as in STaRK's Table 2: {found.published_relations:,}"]
    more = [f"  and {len(tuples) - _LONGEST_LIST} more"] if len(tuples) > _LONGEST_LIST else []
    dropped = ["", "left out or changed by builds and updates", *(f"  {one}" for one in _counted(meta.dropped))]
    lines = [
        f"{meta.name}: {_size(meta.nodes, meta.edges)}, from {meta.source}",
        f"vectors: {meta.encoder or 'none'}{approximate}; SPARQL: {'yes' if meta.sparql else 'no'}",
        f"indexed: {'documents as STaRK renders them' if meta.indexed != 'plain' else 'names and all fields'}",
        f"words of the documents: {'not counted' if meta.tokens is None else f'{meta.tokens:,}'}",
        f"mean edges of a node: {meta.average_degree:.1f}",
        *(published if found.published_relations != meta.edges else []),
        f"nodes without an edge: {found.isolated:,}",
        f"the most edges of a node: {found.largest_degree:,} ({found.largest_degree_node})",
        "",
        "node types",
        *(line for kind in meta.types for line in (f"  {kind.name}: {kind.count:,}", *fields.get(kind.name, ()))),
        "",
        "relations",
        *(f"  {one.source} -- {one.relation} --> {one.target}: {one.count:,}" for one in tuples[:_LONGEST_LIST]),
        *more,
        "",
        "stored",
        *(f"  {part}: {decimal(size)}" for part, size in sorted(found.bytes.items())),
        *(dropped if meta.dropped else []),
    ]
    print(printable("\n".join(lines)))
