"""How long a question takes each retrieval system on one SKB (STaRK, Table 9).

    python -m benchmarks.latency FOLDER --kb debian [--on all] [--questions 20] [--trained TRAINED]

``FOLDER`` and ``TRAINED`` are as in ``benchmarks.retrieval_tables``, and so are the rows. A question is asked of all
systems in turn before the next one is asked, so that what else the machine does weighs on all alike; one question more
warms up. Without a model's time: a stand-in answers at once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benchmarks.retrieval_tables import AGENT, SEARCHED, TABLES, opened

from kbnav.errors import UsageError
from kbnav.evaluation.datasets import load_file
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import Retriever, build_retriever

K = 100
"""Nodes that are asked for."""


def systems(
    folder: Path, kb: SkbKB, name: str, tables: Sequence[str], trained: Path | None
) -> dict[tuple[str, str], Retriever]:
    """The systems that can run, by their table and row; others are named on standard error."""
    found: dict[tuple[str, str], Retriever] = {}
    for table in tables:
        for row in TABLES[table]:
            if row == AGENT or "-without-" in row:
                continue
            try:
                system, settings = opened(folder, name, table, row, trained)
                found[table, row] = build_retriever(system, kb, settings)
            except UsageError as error:
                print(f"{table}, {row}: {error}", file=sys.stderr)
    return found


def main() -> None:
    """Print a table, the quickest first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kb", required=True)
    parser.add_argument("--on", action="append", choices=TABLES, help="repeatable; default: all")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--trained", type=Path)
    chosen = parser.parse_args()
    dataset = load_file("jsonl", chosen.folder / "questions" / f"{chosen.kb}.jsonl")
    asked = [one.text() for one in dataset.questions[: chosen.questions + 1]]
    with SKB.open(chosen.folder / f"{chosen.kb}.skb") as skb:
        built = systems(chosen.folder, SkbKB(skb), chosen.kb, chosen.on or list(TABLES), chosen.trained)
        wall = np.zeros((len(built), len(asked)))
        cpu = np.zeros_like(wall)
        for number, question in enumerate(asked):
            for place, system in enumerate(built.values()):
                own = question + " " * place  # the SKB keeps vectors of texts that it has met: nobody finds another's
                begun = time.perf_counter(), time.process_time()
                system.retrieve(own, K)
                wall[place, number], cpu[place, number] = time.perf_counter() - begun[0], time.process_time() - begun[1]
    print(f"\n{chosen.kb}, {len(asked) - 1} questions\n\n| system | searches | ms | 10 % under | processor ms |")
    print("|---|---|---:|---:|---:|")
    middle, low = (1e3 * np.percentile(wall[:, 1:], share, axis=1) for share in (50, 10))
    busy = 1e3 * np.median(cpu[:, 1:], axis=1)
    names = list(built)
    for place in np.argsort(busy, kind="stable"):
        table, row = names[place]
        print(f"| `{row}` | {SEARCHED[table]} | {middle[place]:.1f} | {low[place]:.1f} | {busy[place]:.1f} |")


if __name__ == "__main__":
    main()
