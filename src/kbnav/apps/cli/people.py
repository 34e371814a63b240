"""``kbnav eval collect``, ``judge`` and ``dataset pairs``: questions that people write, and what people think."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli.arguments import DataOption, JsonOption, load
from kbnav.apps.cli.terminal import print_json
from kbnav.apps.cli.viewing import HostOption, PortOption, at, run_side

if TYPE_CHECKING:
    from kbnav.evaluation.human_evaluation import Rating

SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="What is drawn for each person is drawn with it.")]


def collect(
    out: Annotated[
        Path, typer.Argument(metavar="FILE", help="A .jsonl that questions are added to, as in shop-human.jsonl.")
    ],
    kb: Annotated[str, typer.Option("--kb", metavar="SKB", help="The folder of an SKB, or demo.")] = "demo",
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only nodes of this type are drawn; repeatable.")
    ] = None,
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, max=100, help="Nodes drawn at a time.")] = 10,
    seed: SeedOption = 0,
    host: HostOption = None,
    port: PortOption = None,
) -> None:
    """Serve a page on which people write questions of nodes drawn for them (STaRK, section 2.6, appendix D)."""
    from kbnav.apps.web.routes.evaluation import collect_router
    from kbnav.apps.web.routes.explore import explorer_of
    from kbnav.apps.web.routes.explore import router as explore
    from kbnav.apps.web.server import small_app
    from kbnav.apps.web.service import open_service
    from kbnav.errors import UsageError
    from kbnav.evaluation.human_evaluation import open_collection
    from kbnav.settings.systems import kb_kind

    settings = at(load(kb=kb, model="offline"), host, port)
    settings = settings.model_copy(update={"web": settings.web.model_copy(update={"kbs": (kb,), "models": ()})})
    with open_service(settings) as service:
        (served,) = service.kbs.values()
        if kb_kind(served.kb) != "skb":
            raise UsageError(f"{kb} is no SKB: questions are collected on nodes with documents")
        with open_collection(out, explorer_of(served), types or (), seed) as collection:
            make = partial(small_app, settings, [collect_router, explore], service, collection=collection, count=count)
            run_side(settings, make, f"Questions for {out}")


def judge(
    datasets: Annotated[
        list[str] | None, typer.Argument(metavar="[DATASET]", help="Names, FORMAT:FILE, or one's own .jsonl files.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A .jsonl that ratings are added to.")] = Path(
        "ratings.jsonl"
    ),
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, max=100, help="Questions in each sample.")] = 10,
    seed: SeedOption = 0,
    only_rates: Annotated[
        bool, typer.Option("--rates", help="Serve nothing, and print the rates of what was judged so far.")
    ] = False,
    data: DataOption = None,
    host: HostOption = None,
    port: PortOption = None,
    as_json: JsonOption = False,
) -> None:
    """Serve a page on which people rate questions on five points, and print the rates (STaRK, Table 5).

    With --json they are printed as JSON once the page is over.
    """
    from kbnav.apps.web.routes.evaluation import judge_router
    from kbnav.apps.web.server import small_app
    from kbnav.errors import UsageError
    from kbnav.evaluation.evaluate import find_dataset
    from kbnav.evaluation.human_evaluation import open_judging, read_ratings

    if not only_rates:
        if not datasets:
            raise UsageError("name a dataset whose questions are to be judged, or print the rates by --rates")
        settings = at(load(data=data), host, port)
        found = [find_dataset(name, settings.data) for name in datasets]
        with open_judging(out, found, count, seed) as judging:
            make = partial(small_app, settings, [judge_router], judging=judging)
            run_side(settings, make, f"Ratings for {out}", err=as_json)
    _print_rates(read_ratings(out), as_json)


def _print_rates(ratings: list[Rating], as_json: bool) -> None:
    from kbnav.evaluation.human_evaluation import rating_rates, ratings_markdown

    rows = rating_rates(ratings)
    if as_json:
        print_json(
            [{**asdict(row), "rates": {name: rate._asdict() for name, rate in row.rates.items()}} for row in rows]
        )
    elif rows:
        print(ratings_markdown(rows), end="")
    else:
        print("nothing was judged yet")


def pairs(
    human: Annotated[str, typer.Argument(metavar="HUMAN", help="Questions that people wrote: a dataset as for stats.")],
    made: Annotated[str, typer.Argument(metavar="MADE", help="Questions that were made: a dataset as for stats.")],
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, max=50, help="Pairs of each kind.")] = 1,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put questions of people beside made ones that are like them, and say which words are whose (STaRK, Table 6)."""
    from kbnav.evaluation.evaluate import find_dataset
    from kbnav.evaluation.human_evaluation import compare_questions, pairs_markdown

    folder = load(data=data).data
    found = compare_questions(find_dataset(human, folder), find_dataset(made, folder), count)
    if as_json:
        print_json(asdict(found))
    else:
        print(pairs_markdown(found), end="")
