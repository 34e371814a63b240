"""Questions that the slice of Wikidata can answer, and of them a part that notes concern and a part that they do not.

    python -m benchmarks.slice_notes --mirror MIRROR --notes NOTES.toml --out FOLDER [--data ../shared/data] [--seed 1]

Writes two data sets for ``kbnav eval run``. ``answerable.jsonl`` has every question of QALD-10, WikiWebQuestions dev
and SPINACH dev whose gold query has rows on the slice. ``drawn.jsonl`` has 16 whose gold query names a property or
thing that a note is about, and 8 that name none, drawn at random with ``--seed`` from those that can be asked by name
there: each item of the query has a label, and the slice gives the published answer where one is published (SPINACH dev
has none).
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.offline_slice import BENCHMARKS, answerable

from kbnav.errors import KbnavError
from kbnav.evaluation.datasets import Question, load_dataset
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.sparql.diagnose import says_nothing
from kbnav.knowledge.sparql.prefixes import entity_ids
from kbnav.notes import Notes, read_notes
from kbnav.settings import load_settings

SETS = {**BENCHMARKS, "SPINACH dev": "spinach-dev"}
UNPUBLISHED = frozenset({"spinach-dev"})
"""Data sets without published answers."""
NOTED, OTHERS = 16, 8


def asked(kb: KnowledgeBase, data: Path) -> Iterator[dict[str, Any]]:
    """The questions whose gold query has rows on ``kb``, each with what the slice's list says of it."""
    lists = answerable(data)
    for listed_as, name in SETS.items():
        known = {str(one["id"]): one for one in lists[listed_as]}
        for question in load_dataset(name, data / "benchmarks").questions:
            if question.id in known and _has_rows(kb, question):
                yield _record(name, question, known[question.id])


def _has_rows(kb: KnowledgeBase, question: Question) -> bool:
    try:
        return not says_nothing(question.query, kb.execute_query(question.query))
    except KbnavError:
        return False


def _record(name: str, question: Question, listed: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": f"{name}-{question.id}",
        "question": question.text(),
        "sparql": question.query,
        "askable": bool(listed["linkable"] and (listed["exact"] or name in UNPUBLISHED)),
    }


def drawn(questions: Sequence[Mapping[str, Any]], notes: Notes, seed: int) -> list[Mapping[str, Any]]:
    """The part that notes concern and the part that they do not, in the order of the whole."""
    about = {note.about for note in notes.notes if not note.off}
    askable = [one for one in questions if one["askable"]]
    noted = [one for one in askable if about & set(entity_ids(one["sparql"]))]
    others = [one for one in askable if one not in noted]
    pick = random.Random(seed)
    chosen = [*pick.sample(noted, min(NOTED, len(noted))), *pick.sample(others, min(OTHERS, len(others)))]
    return [one for one in questions if one in chosen]


def main() -> None:
    """Write the two data sets, and say how many questions each has."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--mirror", type=Path, required=True, help="folder of a mirror of the slice")
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    with open_kb(load_settings(kb=str(chosen.mirror), model="offline", language="en", home=chosen.out / "home")) as kb:
        questions = list(asked(kb, chosen.data))
    notes = read_notes([chosen.notes])
    for name, part in (("answerable", questions), ("drawn", drawn(questions, notes, chosen.seed))):
        text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in part)
        (chosen.out / f"{name}.jsonl").write_text(text, encoding="utf-8")
        about = {note.about for note in notes.notes if not note.off}
        noted = sum(bool(about & set(entity_ids(one["sparql"]))) for one in part)
        askable = sum(one["askable"] for one in part)
        print(f"{name}: {len(part)} questions, {askable} can be asked by name, notes concern {noted}")


if __name__ == "__main__":
    main()
