"""``kbnav mirror``: build, describe and serve a local stand-in for Wikidata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kbnav.apps.cli.arguments import JsonOption, load
from kbnav.apps.cli.help import Commands

app = Commands("Build and serve a local stand-in for Wikidata.")


def build(
    sources: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="RDF (.nt, .ttl) or entity JSON (.json, .ndjson), also .gz.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder of the mirror; an old one is replaced when the new one is whole."
        ),
    ],
    concept_base: Annotated[
        str,
        typer.Option(
            "--concept-base",
            metavar="IRI",
            help="What the IRIs of entities begin with, for another Wikibase; unless given, as the RDF has it.",
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Build a mirror from RDF or entity documents."""
    from rich.console import Console

    from kbnav.knowledge.wikidata.mirror.build import build_mirror

    console = Console(stderr=True)

    def say(state: str) -> None:
        console.print(str(state), highlight=False)

    info = build_mirror(sources, out, concept_base=concept_base, progress=say)
    if as_json:
        print(info.model_dump_json(indent=1))
        return
    print(f"{out}: {info.triples:,} triples, {info.entities:,} entities, {info.names:,} names")


def info(
    folder: Annotated[
        Path, typer.Argument(metavar="MIRROR", help="Folder of the mirror, or mini for the bundled one.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Say what a mirror holds, what it was built from, and when."""
    from kbnav.knowledge.open import bundled_mirror
    from kbnav.knowledge.wikidata.mirror.store import read_info

    place = bundled_mirror(load().home) if str(folder) == "mini" and not folder.exists() else folder
    found = read_info(place)
    if as_json:
        print(json.dumps({"folder": str(place), **found.model_dump(mode="json")}, ensure_ascii=False, indent=1))
        return
    print(f"{place}, built {found.built:%Y-%m-%d %H:%M} UTC")
    print(f"{found.triples:,} triples, {found.entities:,} entities, {found.names:,} names")
    for source in found.sources:
        print(f"  {source.name}: {source.triples:,} triples, {source.bytes:,} bytes, sha256 {source.sha256[:16]}…")


def serve(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the mirror.")],
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", help="0 picks a free one.")] = 7878,
    name: Annotated[
        list[str] | None, typer.Option("--name", metavar="NAME", help="Name by which clients may reach it.")
    ] = None,
) -> None:
    """Serve a mirror over Wikidata's own HTTP interfaces until it is interrupted."""
    from kbnav.knowledge.wikidata.mirror.server import MirrorServer
    from kbnav.knowledge.wikidata.mirror.server import serve as serve_mirror

    def ready(server: MirrorServer) -> None:
        print(f"{folder} ({server.info.triples:,} triples) at {server.url}; Ctrl-C ends it", flush=True)

    serve_mirror(folder, host, port, ready=ready, names=name or ())


app.add(build)
app.add(info)
app.add(serve)
