"""``kbnav mirror`` and ``kbnav sparql``: copies of Wikidata, queries, RDF files as an endpoint, an endpoint's names."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from kbnav.apps.cli.options import Json, Kb, Many, argument, flag, load, option
from kbnav.apps.cli.terminal import emit, print_json
from kbnav.errors import KbnavError


def build_mirror(
    sources: Annotated[list[Path], argument("FILE", "RDF (.nt, .ttl) or JSON dumps, also .gz, .bz2.")],
    out: Annotated[Path, option("--out", "FOLDER", "Folder of the mirror; an old one is replaced at the end.")],
    concept_base: Annotated[
        str, option("--concept-base", "IRI", "What IRIs of entities begin with; default: as the RDF has it.")
    ] = "",
    keep: Annotated[
        Many, option("--keep", "LINK", "Only items linked so: P31=Q5, by class P31/P279*=Q5; repeatable: any link.")
    ] = None,
    without: Annotated[
        Many, option("--without", "WHAT", "Leave out external-ids, scholarly-articles or items linked so; repeatable.")
    ] = None,
    language: Annotated[Many, option("--language", "CODE", "Only names and descriptions in it; repeatable.")] = None,
    as_json: Json = False,
) -> None:
    """Build a mirror from RDF or a dump of entity JSON, as in kbnav mirror build slice.nt --out slice.

    After a kill, give the same command again to continue.
    """
    from kbnav.knowledge.wikidata.mirror.build import build_mirror
    from kbnav.knowledge.wikidata.mirror.chosen import parse_chosen

    console = Console(stderr=True)

    def say(state: Any) -> None:
        console.print(str(state), highlight=False)

    chosen = parse_chosen(keep or (), without or (), language or ())
    info = build_mirror(sources, out, concept_base=concept_base, chosen=chosen, progress=say)
    line = f"{out}: {info.triples:,} triples, {info.entities:,} entities, {info.names:,} names"
    emit(as_json, info.model_dump(mode="json"), line)


def mirror_info(
    folder: Annotated[Path, argument("MIRROR", "Folder of the mirror, or mini for the bundled one.")],
    as_json: Json = False,
) -> None:
    """Print what a mirror holds, what it was built from, and when.

    For example: kbnav mirror info mini
    """
    from kbnav.knowledge.open import bundled_mirror
    from kbnav.knowledge.wikidata.mirror.mirror import read_info

    place = bundled_mirror(load().home) if str(folder) == "mini" and not folder.exists() else folder
    found = read_info(place)
    if as_json:
        print_json({"folder": str(place), **found.model_dump(mode="json")})
        return
    print(f"{place}, built {found.built:%Y-%m-%d %H:%M} UTC")
    print(f"{found.triples:,} triples, {found.entities:,} entities, {found.names:,} names")
    for source in found.sources:
        print(f"  {source.name}: {source.triples:,} triples, {source.bytes:,} bytes, sha256 {source.sha256[:16]}…")


def serve(
    files: Annotated[
        list[Path], argument("FILE", "RDF: .ttl .nt .nq .trig .rdf .owl .xml .jsonld, also .gz; or a mirror's folder.")
    ],
    host: Annotated[str, option("--host", "ADDRESS", "Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("--port", "PORT", "0 picks a free one.")] = 7879,
    name: Annotated[Many, option("--name", "NAME", "Name by which clients may reach it; repeatable.")] = None,
    timeout: Annotated[float, option("--timeout", "SECONDS", "Time that a query may take.")] = 60.0,
    memory: Annotated[int, option("--memory", "MIB", "Memory that a query may take.")] = 2048,
) -> None:
    """Serve RDF files over the SPARQL protocol, read-only, or a mirror over Wikidata's own HTTP interfaces.

    Queries see all named graphs of the files and the default graph as one; GRAPH sees them apart. For example:
    kbnav sparql serve data.ttl --port 9000
    """
    from kbnav.knowledge.serving import MirrorServer, RdfServer
    from kbnav.knowledge.wikidata.mirror.pool import QueryLimits

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends as Ctrl-C does, and leaves no files behind
    limits = QueryLimits(timeout, memory << 20)
    server: MirrorServer | RdfServer
    if len(files) == 1 and files[0].is_dir():
        server = MirrorServer(files[0], host, port, limits, name or ())
        holds = f"{files[0]} ({server.info.triples:,} triples)"
    else:
        server = RdfServer(files, host, port, limits, name or ())
        union = f" in {server.graphs:,} named graphs, seen as one with the default graph" if server.graphs else ""
        holds = f"{server.statements:,} statements{union}"
    with server, suppress(KeyboardInterrupt):
        print(f"{holds} at {server.url}; Ctrl-C ends it", flush=True)
        threading.Event().wait()


def query(
    text: Annotated[str, argument("QUERY", "A query that only reads; - reads it from standard input.")],
    kb: Kb = None,
    as_json: Json = False,
    as_csv: Annotated[bool, flag("--csv", "Print the whole table as CSV.")] = False,
) -> None:
    """Print what a SPARQL query finds and, to standard error, what it asks in words and why it finds nothing.

    With --json or --csv only what it finds is printed.
    For example: kbnav sparql query --kb demo "SELECT ?name { ?x a type:place ; rdfs:label ?name }"
    """
    from kbnav.apps.console import absence_text, printable, table_lines
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.evidence import explained

    query = sys.stdin.read() if text == "-" else text
    with open_kb(load(kb=kb)) as opened:
        table = opened.execute_query(query)
        if as_json:
            print_json(table.records() if table.boolean is None else table.boolean)
        elif as_csv:
            sys.stdout.write(table.to_csv())
        else:
            Console().print(table_lines(table) if table.boolean is None else str(table.boolean))
            with suppress(KbnavError):  # the rows are there; only words for them are missing
                _, words, nothing, doubts = explained(opened, query, table)
                told = (words.text() if words else "", absence_text(nothing) if nothing else "", *map(str, doubts))
                print(printable("".join(f"{one}\n" for one in told if one)), end="", file=sys.stderr)


def index(
    endpoint: Annotated[str, argument("URL", "Address of the SPARQL endpoint, or its name in kbnav.toml.")],
    out: Annotated[Path, option("--out", "FILE", "File of the index; replaced when whole.")],
    as_json: Json = False,
) -> None:
    """Index an endpoint's names, so that misspelled ones are found too; after a kill the same command continues.

    For example: kbnav sparql index https://example.org/sparql --out names
    """
    from kbnav.knowledge.open import open_endpoint

    console, settings = Console(stderr=True), load()
    name, source = settings.source_of(endpoint)

    def report(names: int, last: str) -> None:
        console.print(f"{names:,} names, up to {last}", style="dim", highlight=False, markup=False)

    # An index that is not there yet is no hindrance to making it.
    with closing(open_endpoint(settings, endpoint, source.model_copy(update={"index": ""}))) as kb:
        names = kb.index_names(out, report)
    lines = f"{out}: {names:,} names"
    if not source.index or Path(source.index).resolve() != out.resolve():
        table = source.model_copy(update={"index": str(out)}).as_toml(name)
        lines += f"\nPut this into kbnav.toml, and give --kb {name}:\n\n{table}"
    lines += "\nA running kbnav serve uses it after a restart."
    emit(as_json, {"out": str(out), "url": source.url, "names": names}, lines)
