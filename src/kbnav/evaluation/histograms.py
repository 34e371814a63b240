"""Lengths of questions and numbers of answers as histograms, in CSV files and a chart (STaRK, Figure 4)."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from kbnav.errors import UsageError
from kbnav.evaluation.dataset_stats import answer_sizes
from kbnav.evaluation.datasets import Question
from kbnav.runs.journal import write_whole

WORDS, ANSWERS, CHART = "question-words.csv", "answers.csv", "lengths.png"
Histogram = Mapping[int, int]
"""How many questions have each length."""


def histograms(questions: Sequence[Question], language: str = "en") -> tuple[Histogram, Histogram]:
    """Questions by their number of words, and by their number of stored answers."""
    words = Counter(len(question.text(language).split()) for question in questions)
    return words, Counter(answer_sizes(questions))


def write_histograms(groups: Mapping[str, Sequence[Question]], folder: Path, language: str = "en") -> list[Path]:
    """Write both histograms of named groups of questions, and a chart of them where matplotlib is installed.

    Raises UsageError where the folder cannot be written.
    """
    found = {name: histograms(questions, language) for name, questions in groups.items()}
    try:
        for place, (file, what) in enumerate(((WORDS, "words"), (ANSWERS, "answers"))):
            write_whole(folder / file, _csv(what, {name: both[place] for name, both in found.items()}))
        made = [folder / WORDS, folder / ANSWERS]
        return [*made, _chart(found, folder / CHART)] if find_spec("matplotlib") else made
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error


def _csv(what: str, found: Mapping[str, Histogram]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("dataset", what, "questions"))
    writer.writerows((name, length, counts[length]) for name, counts in found.items() for length in sorted(counts))
    return out.getvalue()


def _chart(found: Mapping[str, tuple[Histogram, Histogram]], path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.8, 4.0), layout="constrained")
    for place, (axes, label) in enumerate(zip(figure.subplots(1, 2), ("words of a question", "answers"), strict=True)):
        for name, both in found.items():
            lengths, total = sorted(both[place]), sum(both[place].values())
            shares = [100 * both[place][length] / total for length in lengths]
            axes.step(lengths, shares, where="mid", label=name.replace("$", r"\$"))
        axes.set(xlabel=label, ylabel="questions, %")
        axes.spines[["top", "right"]].set_visible(False)
    axes.legend()
    figure.savefig(path, metadata={"Software": None})
    return path
