"""Validation MRR over the steps of a training (Agent Retriever, Figure 3), as CSV and as a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbnav.journal import write_whole
from kbnav.programs.frozen import read_frozen
from kbnav.programs.steps import curve
from kbnav.programs.train import read_groups, read_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ("group", "step", "mrr", "best")
Row = tuple[str, int, float | None, float]
"""Group, step, MRR of its program on all validation queries where it ran on them, and that of the best so far."""


def rows(folder: Path) -> list[Row]:
    """Of every group of a training; step 0 is the first stage. Raises UsageError, DataError."""
    first = {one.id: one.first["mrr"] for one in read_frozen(folder).about.groups}
    return [
        (group.id, *point)
        for group in read_groups(folder).groups
        for point in curve(read_steps(folder, group), first[group.id])
    ]


def write_curve(folder: Path, path: Path) -> None:
    """As CSV. Raises UsageError, DataError."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([group, step, "" if mrr is None else mrr, best] for group, step, mrr, best in rows(folder))
    write_whole(path, out.getvalue())


def write_curve_plot(folder: Path, out: Path) -> Path:
    """``validation-mrr.png``. Raises UsageError without matplotlib, and as ``rows``."""
    from kbnav.evaluation.report.plots import COLORS, save_figure

    found = rows(folder)

    def draw(axes: Sequence[Axes]) -> None:
        for place, group in enumerate(dict.fromkeys(row[0] for row in found)):
            own = [row for row in found if row[0] == group]
            color = COLORS[place % len(COLORS)]
            axes[0].step([row[1] for row in own], [row[3] for row in own], where="post", color=color, label=group)
            tried = [(row[1], row[2]) for row in own if row[2] is not None]
            axes[0].plot([step for step, _ in tried], [mrr for _, mrr in tried], "o", color=color, markersize=3)
        axes[0].set_xlabel("step")
        axes[0].set_ylabel("validation MRR")
        axes[0].legend(frameon=False)

    return save_figure(out / "validation-mrr.png", 1, draw)
