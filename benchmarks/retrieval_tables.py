"""Every retrieval system, and the SKB agent, on synthesized questions: Hit@1, Hit@5, Recall@20, MRR, seconds, calls.

    python -m benchmarks.retrieval_tables FOLDER --out RUNS [--kb wordnet --kb debian] [--system bm25] [--limit 50]

``FOLDER`` is what ``benchmarks.question_sets`` made: ``<name>.skb`` and ``questions/<name>.jsonl``. The run of a system
on an SKB is a folder of ``kbnav eval run`` below ``RUNS``: it goes on where it was, and is scored, compared, shown as
any other. Where an SKB has no vectors, what searches by them is left out, and what expands a query or ranks again does
so on top of BM25.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from kbnav.errors import UsageError
from kbnav.evaluation.ablate import PARTS
from kbnav.evaluation.datasets import load_file
from kbnav.evaluation.evaluate import Plan, evaluate, score_folder
from kbnav.evaluation.records import read_saved_run
from kbnav.knowledge.skb.schema import read_meta
from kbnav.retrieval.registry import RETRIEVERS
from kbnav.settings import load_settings

METRICS = ("hit@1", "hit@5", "recall@20", "mrr")
AGENT = "skb"
SYSTEMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bm25": ("bm25", {"relations": False}),
    "bm25-relations": ("bm25", {"relations": True}),
    "vss": ("vss", {"relations": False}),
    "vss-relations": ("vss", {"relations": True}),
    **{name: (name, {}) for name in (*RETRIEVERS, AGENT) if name not in ("bm25", "vss")},
    **{f"kar-without-{part}": ("kar", {"without": (part,)}) for part in sorted(PARTS)},
}
"""What is compared, by the name in the table: a system with its options; on documents alone, or with relations."""
ON_BM25: Mapping[str, Mapping[str, Any]] = {
    "rerank": {"first": "bm25"},
    **{name: {"base": "bm25"} for name in ("prf", "hyde", "rar", "agr", "kar")},
}
"""Options, where there are no vectors, of systems that search by them unless told otherwise."""


@dataclass(frozen=True)
class Row:
    """What one system scored on one SKB."""

    system: str
    model: str
    questions: int
    failed: int
    scores: Mapping[str, float]
    seconds: float
    calls: float


def run_one(folder: Path, kb: str, name: str, out: Path, *, limit: int | None, jobs: int) -> Row:
    """Run, or go on with, one system on one SKB, and score it. Raises UsageError where it lacks what it needs."""
    system, options = SYSTEMS[name]
    if not read_meta(folder / f"{kb}.skb").encoder:
        options = {**options, **ON_BM25.get(system, {})}
    settings = load_settings(kb=str(folder / f"{kb}.skb"), model="offline", language="en", options=dict(options))
    dataset = load_file("jsonl", folder / "questions" / f"{kb}.jsonl", name=kb)
    where = out / kb / name
    evaluate(Plan(system, dataset, settings, limit=limit, jobs=jobs), where)
    saved, scores = read_saved_run(where), score_folder(where)
    runs = [record.run for record in saved.records.values()]
    return Row(
        name,
        saved.info.model,
        len(runs),
        sum(bool(record.error) for record in saved.records.values()),
        scores.attempted.values,
        fmean(run.seconds for run in runs),
        fmean(run.usage.calls + run.replayed.calls for run in runs),
    )


def rows(folder: Path, kb: str, systems: Sequence[str], out: Path, *, limit: int | None, jobs: int) -> Iterator[Row]:
    """One row a system; those that cannot run are named on standard error."""
    for system in systems:
        try:
            yield run_one(folder, kb, system, out, limit=limit, jobs=jobs)
        except UsageError as error:
            print(f"{kb}, {system}: {error}", file=sys.stderr)


def markdown(found: Sequence[Row]) -> str:
    """The rows as a table; scores in percent."""
    lines = ["| system | model | Hit@1 | Hit@5 | Recall@20 | MRR | s a question | calls |", "|---|---|" + "---:|" * 6]
    for row in found:
        values = " | ".join(f"{100 * row.scores[metric]:.1f}" for metric in METRICS)
        note = f" ({row.failed} of {row.questions} failed)" if row.failed else ""
        model = "–" if row.model == "none" else row.model
        lines.append(f"| `{row.system}`{note} | {model} | {values} | {row.seconds:.2f} | {row.calls:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Print a table for each SKB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kb", action="append", help="default: every SKB that has questions")
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="repeatable; default: all")
    parser.add_argument("--limit", type=int, help="only the first so many questions")
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    known = [path.stem for path in sorted(chosen.folder.glob("*.skb"))]
    for kb in chosen.kb or [name for name in known if (chosen.folder / "questions" / f"{name}.jsonl").is_file()]:
        systems = chosen.system or list(SYSTEMS)
        found = list(rows(chosen.folder, kb, systems, chosen.out, limit=chosen.limit, jobs=chosen.jobs))
        vectors = read_meta(chosen.folder / f"{kb}.skb").encoder or "no vectors"
        asked = max((row.questions for row in found), default=0)
        print(f"\n{kb}: {asked} questions, {vectors}\n\n{markdown(found)}", flush=True)


if __name__ == "__main__":
    main()
