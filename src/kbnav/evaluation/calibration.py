"""How sure a system's answers are, held against how often they are right in an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kbnav.agents.common.confidence import (
    BINS,
    FOLDS,
    GIVEN,
    Bin,
    Calibration,
    calibration_error,
    fit,
    held_out,
    reliability,
    seen_of,
)
from kbnav.errors import UsageError
from kbnav.evaluation.records import SavedRun
from kbnav.evaluation.report.plots import COLORS, save_figure
from kbnav.evaluation.scoring import main_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RIGHT = 0.9999


@dataclass(frozen=True)
class Calibrated:
    """A calibration with how good it is.

    ``bins`` and ``error`` are of confidences that were fitted without the answers they are held against; ``raw_error``
    is that of the share of attempts that agree, taken as it is.
    """

    calibration: Calibration
    right: int
    bins: tuple[Bin, ...]
    error: float
    raw_error: float


def calibrate(saved: SavedRun) -> Calibrated:
    """Fit on the answers of a run, each of which is right where its main metric is 1.

    Raises UsageError where there are too few, or all are right or wrong.
    """
    _, values = main_values(saved)
    seen, right, samples = [], [], 1
    for name, value in values.items():
        record = saved.records.get(name)
        if record is None or record.run.outcome.status not in GIVEN:
            continue
        confidence = record.run.outcome.confidence
        samples = max(samples, confidence.samples if confidence else 1)
        seen.append(seen_of(record.run, confidence.agreeing / confidence.samples if confidence else 1.0))
        right.append(value >= _RIGHT)
    if len(seen) < 2 * FOLDS:
        raise UsageError(f"a calibration needs {2 * FOLDS} answers with a gold answer; the run has {len(seen)}")
    info = saved.info
    source = f"{info.system} with {info.model} on {info.dataset}"
    found = fit(seen, right, source, f"{datetime.now(UTC):%Y-%m-%d}", samples)
    confidences = held_out(seen, right, samples)
    raw = [one.agreement for one in seen]
    errors = calibration_error(confidences, right), calibration_error(raw, right)
    return Calibrated(found, sum(right), tuple(reliability(confidences, right)), *errors)


def write_reliability(bins: Sequence[Bin], path: Path) -> Path:
    """The reliability diagram as a PNG file. Raises UsageError without matplotlib, or where it cannot be written."""

    def draw(axes: Sequence[Axes]) -> None:
        (one,) = axes
        one.plot([0, 1], [0, 1], color=COLORS[-1], linestyle="--", label="perfectly calibrated")
        places = [bin_.low + 0.5 / BINS for bin_ in bins]
        one.bar(places, [bin_.right for bin_ in bins], 0.9 / BINS, color=COLORS[0], label="share right")
        for place, bin_ in zip(places, bins, strict=True):
            one.annotate(f"{bin_.size}", (place, bin_.right), ha="center", va="bottom", fontsize=8)
        one.set(xlabel="confidence", ylabel="share of the answers that is right", xlim=(0, 1), ylim=(0, 1.05))
        one.legend(frameon=False, loc="upper left")

    return save_figure(path, 1, draw)
