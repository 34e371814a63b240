"""What a person reads of an evaluation: progress while it runs, scores, comparisons."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter as Counts
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean, stdev
from typing import Any

from kbnav.evaluation.records import SavedRun
from kbnav.evaluation.runner import Progress
from kbnav.evaluation.scoring import Comparison, Means, Scores, intervals
from kbnav.runs.trajectory import Usage

_EVERY = 10.0
"""Seconds between lines where standard error is no terminal."""


@contextmanager
def stop_on_signals(told: str = "waiting for the questions under way") -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets, which says what is ``told``; a second one ends the process.

    That is safe at any moment, as a kill is, and waits for no thread that a slow service holds up.
    """
    stop = threading.Event()

    def note(number: int, frame: Any) -> None:  # noqa: ARG001 - a signal handler
        if stop.is_set():
            os._exit(128 + number)
        stop.set()
        os.write(2, f"\n{told}; once more to leave at once\n".encode())

    usual = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


class _Line:
    """One line on standard error: written over on a terminal, else written now and then and at the end."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._last = 0.0
        self._open = ""

    def show(self, text: str, *, ended: bool) -> None:
        self._open = "" if ended else text
        if self._terminal:
            print(f"\r\x1b[K{text}", end="\n" if ended else "", file=sys.stderr, flush=True)
        elif ended or time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the last text standing, where the work stopped before its end."""
        if self._open:
            self.show(self._open, ended=True)


class ProgressLine(_Line):
    """Questions done, failures, rate, cost and time left."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = False

    def __call__(self, progress: Progress) -> None:
        """Show how far the run is, and at first how much of it was done before."""
        if not self._begun and progress.resumed:
            rest = progress.total - progress.resumed
            asked = f"{rest} are left" if rest else "nothing is left to ask"
            print(
                f"going on: {progress.resumed} of {progress.total} questions were answered before, {asked}",
                file=sys.stderr,
            )
        self._begun = True
        parts = [f"{progress.done}/{progress.total} questions"]
        if progress.failed:
            parts.append(f"{progress.failed} failed")
        if progress.rate:
            parts.append(f"{progress.rate:.1f}/min")
        if progress.cost is not None:
            parts.append(f"${progress.cost:.2f}")
        left = progress.seconds_left
        if left:
            parts.append(f"{_duration(left)} left")
        self.show(", ".join(parts), ended=progress.done == progress.total)


class Counter(_Line):
    """So many of so many."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def __call__(self, done: int, total: int) -> None:
        """Show the count."""
        self.show(f"{done}/{total} {self._what}", ended=done == total)


def print_scores(name: str, run: SavedRun, scores: Scores) -> None:
    """Means with intervals in percent, how questions ended, and what it cost."""
    info = run.info
    print(
        f"{name}: {info.called} ({info.model or 'no model named'}) on {info.dataset}, {scores.all.questions} questions"
    )
    spread = intervals(scores)
    for metric in scores.metrics:
        one = spread[metric]
        print(f"  {metric:<10} {_percent(one.mean)}   95 % interval {_percent(one.low)} to {_percent(one.high)}")
    for note in scores.notes():
        print(f"  {note}")
    if scores.all.qald:
        print(f"  GERBIL     {_percent(scores.all.qald['f1'])}   QALD macro F1 {_percent(scores.all.qald['qald_f1'])}")
    if info.kb.get("kind") == "sparql" and (challenge := scores.all.text2sparql):
        names = {"precision": "P", "recall": "R", "f1": "F1", "f1_ndcg": "F1 with nDCG where order counts"}
        told = ", ".join(f"{name} {_percent(challenge[key])}" for key, name in names.items())
        print(f"  TEXT2SPARQL {told}")
    if scores.attempted.questions < scores.all.questions:
        print(f"  over the {scores.attempted.questions} attempted: {_means(scores.attempted)}")
    counts = Counts(question.status for question in scores.questions)
    print(f"  {', '.join(f'{count} {status}' for status, count in counts.most_common())}")
    errors = Counts(record.error for record in run.records.values() if record.error)
    if errors:
        print(f"  failures: {', '.join(f'{count} {error}' for error, count in errors.most_common())}")
    if scores.without_gold:
        print(f"  {len(scores.without_gold)} questions have no gold answer and are not scored")
    _print_spent(run)


def _print_spent(run: SavedRun) -> None:
    runs = [record.run for record in run.records.values()]
    usage = sum((one.whole_usage for one in runs), Usage())
    costs = [one.whole_cost for one in runs if one.whole_cost is not None]
    seconds = [one.whole_seconds for one in runs]
    parts = [f"{sum(seconds):.0f} s of questions"]
    if len(seconds) > 1:
        parts[0] += f" ({fmean(seconds):.2f} ± {stdev(seconds):.2f} each)"
    if usage.calls:
        parts.append(f"{usage.calls} model calls, {usage.prompt:,} + {usage.completion:,} tokens")
    if costs:
        parts.append(f"${sum(costs):.2f}")
    if replayed := sum(one.replayed.calls for one in runs):
        parts.append(f"{replayed} of the calls replayed from kept replies, counted as when they were made")
    print(f"  {', '.join(parts)}")


def print_comparison(a: str, b: str, comparison: Comparison) -> None:
    """Both means, the difference with its interval, p, and what difference such a set can show; in percent."""
    print(f"{b} against {a}, {comparison.questions} questions of both")
    if comparison.only_a or comparison.only_b:
        print(f"  left out: {comparison.only_a} only in {a}, {comparison.only_b} only in {b}")
    for one in comparison.metrics:
        difference = one.test.difference
        print(
            f"  {one.metric:<10} {_percent(one.a.mean)} → {_percent(one.b.mean)}   "
            f"{100 * difference.mean:+.2f} ({100 * difference.low:+.2f} to {100 * difference.high:+.2f}), "
            f"p = {one.test.p:.4f}"
            + (f"; detectable: {_percent(one.detectable)}" if one.detectable is not None else "")
        )


def _means(means: Means) -> str:
    return ", ".join(f"{name} {_percent(value)}" for name, value in means.values.items())


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
