"""``kbnav eval collect`` and ``judge``: questions that people write, and what they think of questions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from kbnav.apps.cli.options import Host, Json, Port, Seed, argument, flag, load, option
from kbnav.apps.cli.serve import at
from kbnav.apps.cli.terminal import emit
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import find_dataset
from kbnav.settings.model import Settings
from kbnav.settings.systems import kb_kind


def collect(
    out: Annotated[Path, argument("FILE", "A .jsonl that questions are added to, as in shop-human.jsonl.")],
    kb: Annotated[str, option("--kb", "SKB", "The folder of an SKB, or demo.")] = "demo",
    types: Annotated[
        list[str] | None, option("--type", "TYPE", "Only nodes of this type are drawn; repeatable.")
    ] = None,
    count: Annotated[int, option("--count", "N", "Nodes drawn at a time.", min=1, max=100)] = 10,
    seed: Seed = 0,
    host: Host = None,
    port: Port = None,
) -> None:
    """Serve a page on which people write questions about nodes drawn for them (STaRK, section 2.6, appendix D).

    For example: kbnav eval collect written --kb demo --count 20
    """
    from kbnav.apps.web.routes.evaluation import collect_router
    from kbnav.apps.web.routes.explore import explorer_of
    from kbnav.apps.web.routes.explore import router as explore
    from kbnav.apps.web.server import small_app
    from kbnav.apps.web.service import open_service
    from kbnav.evaluation.human_evaluation import open_collection

    settings = at(load(kb=kb, model="offline"), host, port, kbs=(kb,), models=())
    with open_service(settings) as service:
        (served,) = service.kbs.values()
        if kb_kind(served.kb) != "skb":
            raise UsageError(f"{kb} is no SKB: questions are collected on nodes with documents")
        with open_collection(out, explorer_of(served), types or (), seed) as collection:
            make = partial(small_app, settings, [collect_router, explore], service, collection=collection, count=count)
            _serve(settings, make, f"Questions for {out}")


def judge(
    datasets: Annotated[
        list[str] | None, argument("[DATASET]", "Names, FORMAT:FILE, or your own .jsonl files.")
    ] = None,
    out: Annotated[Path, option("--out", "FILE", "A .jsonl that ratings are added to.")] = Path("ratings.jsonl"),
    count: Annotated[int, option("--count", "N", "Questions in each sample.", min=1, max=100)] = 10,
    seed: Seed = 0,
    only_rates: Annotated[
        bool, flag("--rates", "Serve nothing, and print the rates of what was judged so far.")
    ] = False,
    host: Host = None,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Serve a page on which people rate questions on five points, then print the rates (STaRK, Table 5).

    For example: kbnav eval judge made.jsonl written.jsonl --out rated
    """
    from kbnav.apps.web.routes.evaluation import judge_router
    from kbnav.apps.web.server import small_app
    from kbnav.evaluation.human_evaluation import open_judging, rating_rates, ratings_markdown, read_ratings

    if not only_rates:
        if not datasets:
            raise UsageError("name a dataset whose questions are to be judged, or print the rates by --rates")
        settings = at(load(), host, port)
        found = [find_dataset(name) for name in datasets]
        with open_judging(out, found, count, seed) as judging:
            make = partial(small_app, settings, [judge_router], judging=judging)
            _serve(settings, make, f"Ratings for {out}", err=as_json)
    rows = rating_rates(read_ratings(out))
    records = [{**asdict(row), "rates": {name: rate._asdict() for name, rate in row.rates.items()}} for row in rows]
    emit(as_json, records, ratings_markdown(rows).rstrip("\n") if rows else "nothing was judged yet")


def _serve(settings: Settings, make: Callable[[], Any], what: str, *, err: bool = False) -> None:
    """Serve a few pages until interrupted, and print where, on standard error if ``err``. Raises StopRun."""
    from kbnav.apps.web.auth import checked
    from kbnav.apps.web.server import run_app

    def ready(address: str) -> None:
        print(f"{what} at {address}; Ctrl-C ends it", flush=True, file=sys.stderr if err else sys.stdout)

    run_app(make, checked(settings), ready=ready)
