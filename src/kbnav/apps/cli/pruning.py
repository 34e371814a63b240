"""``kbnav skb prune``: versions that nobody needs any more."""

from __future__ import annotations

from typing import Annotated

import typer

from kbnav.apps.cli.arguments import JsonOption
from kbnav.apps.cli.terminal import print_json


def prune(
    skb: Annotated[
        str, typer.Argument(metavar="SKB", help="Folder of the tables, or an address such as s3://bucket/name.")
    ],
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", min=1, help="How many versions stay, the last among them.")
    ] = 2,
    as_json: JsonOption = False,
) -> None:
    """Delete old versions of an SKB on LanceDB, for ever. Who has one open can no longer read it."""
    from kbnav.knowledge.skb.lance.build import prune as delete_old

    done = delete_old(skb, keep)
    if as_json:
        print_json({"skb": skb, **done._asdict()})
        return
    told = {what: ", ".join(map(str, numbers)) or "none" for what, numbers in done._asdict().items()}
    print(f"{skb}: deleted {told['deleted']}; versions that are there: {told['kept']}")
