"""Every retrieval system, and the SKB agent, on synthesized questions: Hit@1, Hit@5, Recall@20, MRR, seconds, calls.

    python -m benchmarks.retrieval_tables FOLDER --out RUNS [--kb wordnet] [--on documents] [--system bm25] [--limit 50]
        [--trained TRAINED] [--together]

``FOLDER`` is what ``benchmarks.question_sets`` made: ``<name>.skb``, ``questions/<name>.jsonl`` and, where it was
told to put them in other words too, ``questions/<name>-reworded.jsonl``: then every score is given for both. The run
of a system on an SKB is a folder of ``kbnav eval run`` below ``RUNS``: it goes on where it was, and is scored,
compared, shown as any other. What a system searches is one of ``TABLES``; what the SKB lacks for it is named and left
out. What was trained for a knowledge base is below ``TRAINED``: a folder ``<name>-<system>`` for each of
``LEARNED``, that of ``plan-fuse`` called ``<name>`` alone; a table more says how they were trained. ``--together``
makes one table of all scores of a knowledge base, without seconds and calls.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from kbnav.encoders.trained import MODEL, read_card
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import load_file
from kbnav.evaluation.datasets.records import Dataset
from kbnav.evaluation.evaluate import PARTS, EvaluationPlan, evaluate, score_folder
from kbnav.evaluation.records import read_saved_run
from kbnav.settings.model import Settings, load_settings
from kbnav.settings.systems import parse_set

METRICS = ("hit@1", "hit@5", "recall@20", "mrr")
AGENT = "skb"
FUSED = "plan-fuse"
LEARNED = (FUSED, "dense", "qagnn")
"""The systems that are trained."""
EXPANSIONS = ("prf", "hyde", "rar", "agr", "kar", *(f"kar-without-{part}" for part in sorted(PARTS)))


def _searching(*, relations: bool) -> dict[str, list[str]]:
    """All systems on documents with relations or without; what expands a query or ranks again does so over vectors."""
    vss = f"vss.relations={relations}"
    alone = {name: [f"relations={relations}"] for name in ("bm25", "vss", "multi-vss")}
    return {**alone, **{name: [vss] for name in ("rerank", *EXPANSIONS)}}


TABLES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "documents": _searching(relations=False),
    "relations": _searching(relations=True),
    "words": {
        "rerank": ["first=bm25", "bm25.relations=True"],
        **{name: ["base=bm25", "bm25.relations=True"] for name in EXPANSIONS},
    },
    "all": {"graph-rank": [], AGENT: [], **{name: [] for name in LEARNED}},
}
SEARCHED: Mapping[str, str] = {
    "documents": "documents",
    "relations": "with relations",
    "words": "with relations, by words",
    "all": "whatever there is",
}
"""The tables as a reader is told of them."""
"""Systems with their options, by what they search: documents, documents with relations, the latter by words alone, or
whatever the SKB has."""


@dataclass(frozen=True)
class Row:
    """What one system scored on one SKB; ``reworded`` is the same on the questions in other words, if there are any."""

    system: str
    model: str
    questions: int
    failed: int
    scores: Mapping[str, float]
    seconds: float
    calls: float
    reworded: Row | None = None

    def told(self, metric: str) -> str:
        """A score in percent, and that on the questions in other words."""
        both = [row.scores[metric] for row in (self, self.reworded) if row is not None]
        return " / ".join(f"{100 * score:.1f}" for score in both)

    @property
    def named(self) -> str:
        """The system, and how many questions it failed on, if any."""
        return f"`{self.system}`" + (f" ({self.failed} of {self.questions} failed)" if self.failed else "")

    @property
    def asked(self) -> str:
        """The model that is asked, if any."""
        return "–" if self.model == "none" else self.model

    @property
    def gap(self) -> str:
        """How much of its MRR a system loses by the other words."""
        return f"{100 * (self.scores['mrr'] - self.reworded.scores['mrr']):.1f}" if self.reworded else "–"


def opened(folder: Path, kb: str, table: str, name: str, trained: Path | None) -> tuple[str, Settings]:
    """The system of a row, and the settings it runs with. Raises UsageError where nothing was trained for it."""
    system, dash, part = name.partition("-without-")
    options = {**parse_set(TABLES[table][name])[0], **({"without": (part,)} if dash else {})}
    if name in LEARNED:
        options["trained"] = str(trained_folder(trained, kb, name))
    return system, load_settings(kb=str(folder / f"{kb}.skb"), model="offline", language="en", options=options)


def run_one(folder: Path, kb: str, table: str, name: str, out: Path, chosen: argparse.Namespace) -> Row:
    """Run, or go on with, one system on one SKB, and score it. Raises UsageError where it lacks what it needs."""
    system, settings = opened(folder, kb, table, name, chosen.trained)
    plan = EvaluationPlan(system, _questions(folder, kb), settings, limit=chosen.limit, jobs=chosen.jobs)
    row = _run(plan, out / kb / table / name, name)
    if not (folder / "questions" / f"{kb}-reworded.jsonl").is_file():
        return row
    again = replace(plan, dataset=_questions(folder, f"{kb}-reworded"))
    return replace(row, reworded=_run(again, out / f"{kb}-reworded" / table / name, name))


def trained_folder(trained: Path | None, kb: str, row: str) -> Path:
    """Where what a row needs is. Raises UsageError where nothing is."""
    found = (trained or Path()) / (kb if row == FUSED else f"{kb}-{row}")
    if trained is None or not found.is_dir():
        raise UsageError(f"nothing was trained for it: there is no {found}" if trained else "--trained names no folder")
    return found


def _questions(folder: Path, name: str) -> Dataset:
    return load_file("jsonl", folder / "questions" / f"{name}.jsonl", name=name)


def _run(plan: EvaluationPlan, where: Path, name: str) -> Row:
    evaluate(plan, where)
    saved, scores = read_saved_run(where), score_folder(where)
    runs = [record.run for record in saved.records.values()]
    return Row(
        name,
        saved.info.model,
        len(runs),
        sum(bool(record.error) for record in saved.records.values()),
        scores.attempted.values,
        fmean(run.seconds for run in runs),
        fmean(run.usage.calls for run in runs),
    )


def rows(folder: Path, kb: str, table: str, systems: Sequence[str], chosen: argparse.Namespace) -> Iterator[Row]:
    """One row a system; those that cannot run are named on standard error."""
    for system in systems:
        try:
            yield run_one(folder, kb, table, system, chosen.out, chosen)
        except UsageError as error:
            print(f"{kb}, {table}, {system}: {error}", file=sys.stderr)


def markdown(found: Sequence[Row]) -> str:
    """The rows as a table: scores in percent, on the schema's words and behind the stroke in others; the gap in MRR."""
    lines = ["| system | model | Hit@1 | Hit@5 | Recall@20 | MRR | gap | s a question | calls |"]
    lines.append("|---|---|" + "---:|" * 7)
    for row in found:
        values = " | ".join(row.told(metric) for metric in METRICS)
        lines.append(f"| {row.named} | {row.asked} | {values} | {row.gap} | {row.seconds:.2f} | {row.calls:.1f} |")
    return "\n".join(lines)


def all_together(found: Mapping[str, Sequence[Row]]) -> str:
    """The rows of all tables as one: scores as in ``markdown``, and what is searched."""
    lines = ["| system | searches | model | Hit@1 | Hit@5 | Recall@20 | MRR | gap |", "|---|---|---|" + "---:|" * 5]
    for table, some in found.items():
        for row in some:
            values = " | ".join(row.told(metric) for metric in METRICS)
            lines.append(f"| {row.named} | {SEARCHED[table]} | {row.asked} | {values} | {row.gap} |")
    return "\n".join(lines)


def trainings(trained: Path, kb: str) -> str:
    """How what is there was trained, as a table: scores in percent are of the validation questions."""
    lines = ["| system | base | questions | epochs | seconds | MB | validation MRR before, after |"]
    lines.append("|---|---|---:|---:|---:|---:|---|")
    for row in LEARNED:
        try:
            folder = trained_folder(trained, kb, row)
            card = read_card(folder)
        except UsageError:
            continue
        size = sum(path.stat().st_size for path in (folder / MODEL).rglob("*") if path.is_file()) / 1e6
        scores = ", ".join(f"{100 * one['mrr']:.1f}" for one in (card.before, card.after))
        layers = card.settings.get("layers")
        base = f"{card.base}, {layers} layers" if layers and card.base else card.base or "–"
        course = f"{len(card.training)} | {card.epochs:g} | {card.seconds:,.0f}"
        lines.append(f"| `{row}` | {base} | {course} | {size:.1f} | {scores} |")
    return "\n".join(lines)


def main() -> None:
    """Print a table for each SKB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kb", action="append", help="default: every SKB that has questions")
    parser.add_argument("--on", action="append", choices=TABLES, help="repeatable; default: all")
    parser.add_argument("--system", action="append", help="repeatable; default: all")
    parser.add_argument("--limit", type=int, help="only the first so many questions")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--trained", type=Path, help="what kbnav train wrote: folders of knowledge bases")
    parser.add_argument("--together", action="store_true", help="one table of all scores of a knowledge base")
    chosen = parser.parse_args()
    known = [path.stem for path in sorted(chosen.folder.glob("*.skb"))]
    for kb in chosen.kb or [name for name in known if (chosen.folder / "questions" / f"{name}.jsonl").is_file()]:
        if chosen.trained:
            print(f"\n{kb}, trained\n\n{trainings(chosen.trained, kb)}", flush=True)
        done: dict[str, list[Row]] = {}
        for table in chosen.on or TABLES:
            systems = [name for name in TABLES[table] if not chosen.system or name in chosen.system]
            done[table] = list(rows(chosen.folder, kb, table, systems, chosen))
            if done[table] and not chosen.together:
                print(f"\n{kb}, {table}: {done[table][0].questions} questions\n\n{markdown(done[table])}", flush=True)
        if chosen.together:
            print(f"\n{kb}\n\n{all_together(done)}", flush=True)


if __name__ == "__main__":
    main()
