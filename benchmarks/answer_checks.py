"""What the checks by rule flag of the 387 published SPINACH runs on QALD-10: wrong answers, and right ones.

    python -m benchmarks.answer_checks [--data ../shared/data] [--list]

No model and no network: each published answer (GPT-4o, live Wikidata) is checked as kbnav checks its own, by question,
final query and table. An answer is right where its published F1 is 1. The rules were made on one half of the questions
(by a hash of their text) and never looked at the other, which is printed apart.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.replay_spinach_runs import recorded_runs, table_of

from kbnav.agents.common.checks import check_answer
from kbnav.runs.trajectory import Doubt

HALVES = ("made on", "held out", "all")


@dataclass(frozen=True)
class Judged:
    """A published answer with what the checks say of it; ``own`` is what the run says itself, before any rule."""

    question: str
    right: bool
    doubts: tuple[Doubt, ...]
    own: str = ""
    held_out: bool = False

    @property
    def flagged(self) -> bool:
        """Whether anything speaks against it."""
        return bool(self.doubts or self.own)


def judged(data: Path) -> list[Judged]:
    """The published answers, each checked."""
    with gzip.open(data / "spinach-qald10-runs" / "predictions.json.gz") as file:
        predictions = json.load(file)
    runs = {run["question"]: run for run in recorded_runs(data)}
    return [_judged(one, runs[one["question"]]) for one in predictions]


def _judged(prediction: Mapping[str, Any], run: Mapping[str, Any]) -> Judged:
    question, answer = prediction["question"], prediction["predicted_answer_tuple"]
    labels = {entity: label for label, entity in ((run.get("final_sparql") or {}).get("label_to_id_map") or {}).items()}
    table = table_of(answer if answer is not None else [], labels)
    finished = run["actions"][-1]["action_name"] == "stop"
    own = "no rows" if not len(table) else "" if finished else "not finished"
    doubts = () if own == "no rows" else check_answer(question, "en", prediction["predicted_sparql"] or "", table)
    return Judged(question, prediction["f1"] > 0.9999, doubts, own, held_out(question))


def held_out(question: str) -> bool:
    """Whether a question is of the half on which no rule was made."""
    return bool(int(hashlib.sha256(question.encode()).hexdigest(), 16) % 2)


def print_table(every: Sequence[Judged]) -> None:
    """The counts by half, then what each kind of doubt flags."""
    halves = [[one for one in every if not one.held_out], [one for one in every if one.held_out], every]
    print(f"{'':24}" + "".join(f"{name:>22}" for name in HALVES))
    for name, counts in (("wrong answers flagged", False), ("right ones flagged", True)):
        cells = []
        for half in halves:
            these = [one for one in half if one.right is counts]
            flagged = sum(one.flagged for one in these)
            cells.append(f"{flagged} of {len(these)} ({flagged / len(these):.1%})")
        print(f"{name:24}" + "".join(f"{cell:>22}" for cell in cells))
    print(f"\n{'':24}{'wrong':>8}{'right':>8}")
    kinds: Counter[str] = Counter()
    for one in every:
        for kind in {*([one.own] if one.own else []), *(doubt.kind for doubt in one.doubts)}:
            kinds[kind] += 1
    for kind, _ in kinds.most_common():
        having = [one for one in every if kind == one.own or kind in {doubt.kind for doubt in one.doubts}]
        wrong = sum(not one.right for one in having)
        print(f"{kind:24}{wrong:>8}{len(having) - wrong:>8}")


def main() -> None:
    """Print the counts; with ``--list`` also each right answer that is flagged."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--list", action="store_true", help="each flagged answer of the half that rules were made on")
    given = parser.parse_args()
    every = judged(given.data)
    print_table(every)
    for one in every if given.list else ():
        if one.flagged and not one.held_out:
            print(
                f"{'right' if one.right else 'wrong'}  {one.question}  {one.own} {' '.join(d.text for d in one.doubts)}"
            )


if __name__ == "__main__":
    main()
