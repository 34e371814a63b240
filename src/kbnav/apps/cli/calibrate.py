"""``kbnav eval calibrate``: how sure answers are, held against how often they are right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbnav.apps.cli.arguments import JsonOption
from kbnav.apps.cli.scores import RunArgument
from kbnav.apps.cli.terminal import print_json


def calibrate(
    folder: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="File for the calibration (setting checks.calibration)."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="PNG file for the picture; needs kbnav[plot].")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Learn from a run with gold answers how often an answer is right: by doubts, actions, attempts that agree.

    The table and the errors are of answers that the calibration held against them had not seen (five folds).
    """
    from dataclasses import asdict

    from kbnav.agents.common.confidence import write_calibration
    from kbnav.evaluation.calibration import calibrate as learn
    from kbnav.evaluation.calibration import write_reliability
    from kbnav.evaluation.records import read_saved_run

    found = learn(read_saved_run(folder))
    if out:
        write_calibration(found.calibration, out)
    if plot:
        write_reliability(found.bins, plot)
    if as_json:
        print_json({**asdict(found), "bins": [bin_._asdict() for bin_ in found.bins]})
        return
    count = found.calibration.count
    print(f"{found.calibration.source}: {count} answers, {found.right} right ({found.right / count:.1%})")
    print(f"{'confidence':16}{'answers':>8}{'mean':>8}{'right':>8}")
    for one in found.bins:
        print(f"{one.low:.1f} to {one.high:.1f}      {one.size:>8}{one.confidence:>8.2f}{one.right:>8.2f}")
    print(f"expected calibration error: {found.error:.3f}, of the share that agrees as it is {found.raw_error:.3f}")
