"""How sure a system's answers are, held against how often they are right in an evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from kbnav.agents.common.confidence import (
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
from kbnav.evaluation.scoring import main_values

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
