"""Plans followed by rule, on question sets: ``python -m benchmarks.walkers KBS QUESTIONS --out RUNS``.

KBS has ``NAME.skb`` and, where they were trained, the ranker ``NAME.planner`` and the planner ``NAME.seq2seq``, which
runs where torch is; QUESTIONS has ``NAME.jsonl``. The offline policy runs with each planner and each way to match
nodes. A run that was stopped is resumed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kbnav.evaluation.evaluate import EvaluationPlan, evaluate, find_dataset, score_folder
from kbnav.evaluation.records import read_saved_run
from kbnav.knowledge.skb.schema import read_meta
from kbnav.settings.model import Settings

METRICS = ("hit@1", "hit@5", "recall@20", "mrr", "f1")


@dataclass(frozen=True)
class Entrant:
    """A line of the table: a system with its options, by the offline policy."""

    label: str
    system: str
    options: Mapping[str, Any]


def entrants(folder: Path, vectors: bool) -> Iterator[Entrant]:
    """Each planner and way to match nodes that this SKB allows."""
    ranker, seq2seq = folder.with_suffix(".planner"), folder.with_suffix(".seq2seq")
    trained = {"planner": "ranker", "trained": str(ranker)}
    written = {"planner": "seq2seq", "trained": str(seq2seq)}
    writes = seq2seq.exists() and find_spec("torch") is not None
    yield Entrant("offline, skb", "skb", {})
    if ranker.exists():
        for matching in ("exact", *(("embedding", "hybrid") if vectors else ())):
            yield Entrant(f"offline, ranker, {matching}", "pasemiqa", {**trained, "matching": matching})
    if writes:
        yield Entrant("offline, seq2seq", "pasemiqa", written)


def row(entrant: Entrant, folder: Path, questions: Path, out: Path, limit: int) -> str:
    """Run, or go on with, one entrant on one SKB; its line of the table."""
    settings = Settings(kb=str(folder), model="offline", language="en", options=dict(entrant.options))
    plan = EvaluationPlan(entrant.system, find_dataset(str(questions)), settings, limit=limit)
    run = out / entrant.label.replace(", ", "-").replace(" ", "-")
    evaluate(plan, run)
    scores, records = score_folder(run), list(read_saved_run(run).records.values())
    failed = sum(bool(record.error) for record in records)
    cells = [f"{100 * scores.all.values[name]:.1f}" if name in scores.all.values else "–" for name in METRICS]
    seconds = sum(record.run.seconds for record in records) / len(records)
    calls = sum(record.run.usage.calls for record in records) / len(records)
    name = entrant.label + (f" ({failed} failed)" if failed else "")
    return f"| {name} | {' | '.join(cells)} | {seconds:.2f} | {calls:.1f} |"


def main() -> None:
    """Run all, and print a table for each SKB."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kbs", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=[], help="names of SKBs")
    parser.add_argument("--lines", nargs="*", default=[], help="words that a line's name must have one of")
    given = parser.parse_args()
    for folder in sorted(given.kbs.glob("*.skb")):
        name = folder.stem
        if given.only and name not in given.only:
            continue
        print(f"\n{name}, {given.limit} questions\n")
        print(f"| | {' | '.join(METRICS)} | s | calls |\n|{'---|' * (len(METRICS) + 3)}")
        for entrant in entrants(folder, bool(read_meta(folder).encoder)):
            if not given.lines or any(word in entrant.label for word in given.lines):
                questions = given.questions / f"{name}.jsonl"
                print(row(entrant, folder, questions, given.out / name, given.limit), flush=True)


if __name__ == "__main__":
    main()
