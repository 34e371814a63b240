"""Speed and memory of the metrics, beside the dense row matching they replace.

Run as ``python -m benchmarks.metrics`` (needs the ``eval`` extra). Prints one Markdown table.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from scipy.optimize import linear_sum_assignment

from kbnav.evaluation.metrics.ranking import ranking_scores, ranks_in_lists
from kbnav.evaluation.metrics.statistics import paired_test
from kbnav.evaluation.metrics.tables import row_major

ROWS = 5_000
RUNS = 3


def answer(seed: int, rows: int, *values: int) -> list[dict[str, dict[str, str]]]:
    """A table whose columns have that many different values, drawn evenly."""
    random = np.random.default_rng(seed)
    columns = [random.integers(0, count, rows) for count in values]
    return [
        {f"c{k}": {"type": "uri", "value": f"{k}/{column[i]}"} for k, column in enumerate(columns)} for i in range(rows)
    ]


def dense_pairs(predicted: list, gold: list) -> float:
    """Recall by a matrix filled pair by pair; returns the total."""
    recall = np.empty((len(predicted), len(gold)))
    for i, p in enumerate(predicted):
        for j, g in enumerate(gold):
            cells = Counter(tuple(sorted(cell.items())) for cell in g.values())
            recall[i, j] = (cells & Counter(tuple(sorted(c.items())) for c in p.values())).total() / len(g)
    return float(recall[linear_sum_assignment(recall, maximize=True)].sum())


def seconds(work: Callable[[], object], runs: int = RUNS) -> float:
    """Processor seconds, the best of some runs."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def report(what: str, spent: float) -> None:
    """One row of the table."""
    print(f"| {what} | {spent:.2f} |")


def time_row_major() -> None:
    """The row-major F1 on tables that are hard in different ways."""
    gold = answer(0, ROWS, 10**9, 200, 50, 3)
    wrong = answer(1, ROWS, 10**9, 200, 50, 3)
    half = [
        {**row, "c1": other["c1"]} if i % 2 else row for i, (row, other) in enumerate(zip(gold, wrong, strict=True))
    ]
    cases = {
        "the same rows": (gold[::-1], gold),
        "half of them with one wrong cell": (half[::-1], gold),
        "nothing right but the small columns": (wrong, gold),
    }
    for values in [(5000, 50, 1), (5000, 5000, 50), (3000, 3000), (50, 50, 50), (500, 500, 2), (20, 20, 20)]:
        name = f"random columns of {', '.join(map(str, values))} values"
        cases[name] = (answer(1, ROWS, *values), answer(2, ROWS, *values))
    for name, (predicted, expected) in cases.items():
        report(f"row-major, {ROWS:,} × {ROWS:,}: {name}", seconds(lambda p=predicted, g=expected: row_major(p, g)))
    row = answer(0, 1, 5, 5)
    report("row-major, 200,000 identical rows", seconds(lambda: row_major(row * 200_000, row * 200_000)))
    few = answer(1, 300, 5000, 50, 1), answer(2, 300, 5000, 50, 1)
    pairs = seconds(lambda: dense_pairs(*few), 1)
    report("dense, 300 × 300, pair by pair", pairs)
    report(f"the same at {ROWS:,} × {ROWS:,}, extrapolated from the pairs", pairs * (ROWS / 300) ** 2)


def main() -> None:
    """Measure and print everything."""
    row_major(answer(0, 3, 2, 2), answer(1, 3, 2, 2))  # imports are not what is measured
    print("| what | processor seconds |\n|---|---|")
    time_row_major()
    random = np.random.default_rng(0)
    names = [str(number) for number in range(129_375)]
    lists = [[names[place] for place in random.permutation(len(names))[:100]] for _ in range(1000)]
    answers = [[names[place] for place in random.choice(len(names), 20, replace=False)] for _ in range(1000)]
    for mode, candidates in (("standard", ()), ("stark-compat", names)):
        spent = seconds(lambda every=candidates: ranking_scores(ranks_in_lists(lists, answers, every)), 1)
        report(f"ranking, 1,000 lists of 100 of 129,375 candidates, 20 answers each, {mode}", spent)
    a, b = random.random(394), random.random(394)
    report("paired test with its interval, 394 questions, 10,000 resamples each", seconds(lambda: paired_test(a, b)))
    print(f"\nPeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB.")


if __name__ == "__main__":
    main()
