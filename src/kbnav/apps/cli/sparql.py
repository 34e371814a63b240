"""``kbnav sparql``: RDF files as a SPARQL endpoint on this machine."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from kbnav.apps.cli.help import Commands

app = Commands("Serve RDF files as a SPARQL endpoint.")


def serve(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="RDF: .ttl .nt .nq .trig .rdf .owl .xml .jsonld, also .gz.")
    ],
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="PORT", help="0 picks a free one.")] = 7879,
    name: Annotated[
        list[str] | None, typer.Option("--name", metavar="NAME", help="Name by which clients may reach it.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="Time that a query may take.")] = 60.0,
    memory: Annotated[int, typer.Option("--memory", metavar="MIB", help="Memory that a query may take.")] = 2048,
) -> None:
    """Serve RDF files over the SPARQL protocol, read-only, until it is interrupted.

    Queries see all named graphs of the files and the default graph as one; GRAPH sees them apart.
    """
    from kbnav.knowledge.serving import RdfServer

    limits = {"query_timeout": timeout, "memory_limit": memory << 20}
    with RdfServer(files, host, port, names=name or (), **limits) as server:  # type: ignore[arg-type]
        graphs = server.loaded.graphs
        union = f" in {graphs:,} named graphs, seen as one with the default graph" if graphs else ""
        print(f"{server.loaded.statements:,} statements{union} at {server.url}; Ctrl-C ends it", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


app.add(serve)
