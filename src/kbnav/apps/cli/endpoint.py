"""``kbnav endpoint``: an index of an endpoint's names on this machine."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from kbnav.apps.cli.arguments import JsonOption, load
from kbnav.apps.cli.help import Commands
from kbnav.apps.cli.terminal import print_json

app = Commands("Index the names of a SPARQL endpoint.")


def index(
    endpoint: Annotated[
        str, typer.Argument(metavar="URL", help="Address of the SPARQL endpoint, or its name in kbnav.toml.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of the index.")],
    encoder: Annotated[
        str,
        typer.Option(
            "--encoder", metavar="ENCODER", help="What embeds the texts, as for kbnav skb build; none: no vectors."
        ),
    ] = "",
    language: Annotated[
        str, typer.Option("--language", metavar="CODE", help="Language of the names that are shown.")
    ] = "en",
    pause: Annotated[float, typer.Option("--pause", metavar="SECONDS", min=0.0, help="Wait between two pages.")] = 1.0,
    page: Annotated[
        int, typer.Option("--page", metavar="NUMBER", min=20, max=10_000, help="Things that one query asks of.")
    ] = 500,
    as_json: JsonOption = False,
) -> None:
    """Page an endpoint's labels once into an index of names, texts and vectors; killed, it goes on where it was."""
    from rich.console import Console

    from kbnav import encoders
    from kbnav.knowledge.endpoint.search import PAGES, Paging, build, collect
    from kbnav.knowledge.open import open_endpoint
    from kbnav.settings.model import SparqlSource

    console = Console(stderr=True)
    settings = load()
    source = settings.sparql.get(endpoint) or SparqlSource(url=endpoint)

    def tell(paging: Paging) -> None:
        console.print(f"{paging.things:,} things, up to {paging.last}", style="dim", highlight=False, markup=False)

    def say(line: str) -> None:
        console.print(line, style="dim", highlight=False)

    chosen = None if encoder in ("none", "lsa") else encoders.load(encoder) if encoder else encoders.default(say)
    with closing(open_endpoint(settings, endpoint, source)) as kb:
        select, start = kb.paging(language=language, page=page)
        records = collect(select, out / PAGES, start, pause=pause, tell=tell)
    things = build(records, out, encoder=chosen, vectors=encoder != "none")
    if as_json:
        print_json({"out": str(out), "url": source.url, "things": things})
        return
    print(f"{out}: the names of {things:,} things")
    print(f'Set it in kbnav.toml, so that searches use it:\n\n[sparql.NAME]\nurl = "{source.url}"\nindex = "{out}"')


app.add(index)
