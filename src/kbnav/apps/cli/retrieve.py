"""``kbnav retrieve``: rank the nodes of an SKB for one query."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from kbnav.answers.tables import Ranking
from kbnav.apps.cli.options import BaseUrl, Given, Json, Kb, Model, argument, flag, load, open_skb, option
from kbnav.apps.cli.terminal import print_json
from kbnav.apps.console import printable
from kbnav.runs.trajectory import Run

if TYPE_CHECKING:
    from kbnav.knowledge.skb.store import SKB

_WIDTH = 160
"""Characters of a document that are printed."""


def retrieve(
    query: Annotated[str, argument("QUERY", "Words, or a question.")],
    system: Annotated[str, option("--system", "SYSTEM", "bm25, vss, graph-rank … (see kbnav systems).")] = "bm25",
    kb: Kb = None,
    k: Annotated[int, option("--k", "N", "How many nodes.", min=1)] = 10,
    given: Given = None,
    model: Model = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
    as_csv: Annotated[bool, flag("--csv", "Print CSV.")] = False,
) -> None:
    """Rank the nodes of an SKB for a query; the run is saved, and kbnav show prints what was done on the way.

    For example: kbnav retrieve --kb demo --set candidates=ship "spruce from a wreck"
    """
    from kbnav.models.scripted import NAME as STANDIN
    from kbnav.retrieval.base import retrieved
    from kbnav.sessions.session import saved

    if as_json and as_csv:
        raise typer.BadParameter("give --json or --csv, not both")
    settings = load(given, system, kb=kb, model=model, base_url=base_url)
    with open_skb(settings, f"the system {system}") as skb:
        found = retrieved(system, skb, settings, query, k=k)
        run = found.run
        if run.model == STANDIN:
            print("rules stood in for the language model; --model names one", file=sys.stderr)
        failed = [f"{step.call.tool}: {step.observation.partition(chr(10))[0]}" for step in run.steps if not step.ok]
        for line in dict.fromkeys(failed):
            print(line, file=sys.stderr)
        run = saved(found, settings)
        if run.outcome.error:  # that it could not be saved; the ranking is printed all the same
            print(f"kbnav: {run.outcome.error}", file=sys.stderr)
        _print(run, skb.skb, as_json, as_csv)
    raise typer.Exit(0 if run.outcome.ranking else 1)


def _print(run: Run, skb: SKB, as_json: bool, as_csv: bool) -> None:
    ranking = run.outcome.ranking or Ranking()
    if as_csv:
        sys.stdout.write(ranking.to_csv())
        return
    if as_json:
        nodes = [{**record, "document": _line(skb, record["id"])} for record in ranking.records()]
        tokens = {"prompt": run.usage.prompt, "completion": run.usage.completion}
        about = {"run": run.id, "query": run.question, "system": run.system, "model": run.model}
        print_json({**about, "ranking": nodes, "tokens": tokens, "seconds": run.seconds})
        return
    console = Console()
    for record in ranking.records():
        head = f"{record['rank']:>3}. {record['name']} ({record['type']}, {record['id']}) {record['score']:.4f}"
        console.print(Text(printable(head), style="bold"))
        console.print(Text("     " + printable(_line(skb, record["id"])), style="dim"), soft_wrap=False)
    if not len(ranking):
        said = run.steps[0].observation if len(run.steps) == 1 else "nothing found"
        console.print(Text(printable(said)))
    console.print(f"every step: kbnav show {run.id}", style="dim", highlight=False)


def _line(skb: SKB, node_id: str) -> str:
    """The beginning of a node's document, without its name and type but in STaRK's rendering."""
    from kbnav.knowledge.skb.rendering import indexed_text

    node = skb.number(node_id)
    text = skb.nodes.text(node) if skb.meta.style == "plain" else indexed_text(skb, node)
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
