"""Questions that the slice of Wikidata can answer: those of some data sets, and a part drawn for what notes change.

    python -m benchmarks.slice_notes --mirror MIRROR --notes NOTES.toml --out FOLDER [--data ../shared/data] [--seed 1]

Writes two data sets for ``kbnav eval run``; a question is in them only where its gold query has rows on the slice.
``drawn.jsonl`` has 16 questions whose gold query names a property or thing that a note is about, in turn one of each
note, and 8 of QALD-10, WikiWebQuestions dev and SPINACH dev that name none. Each can be asked by name there (the items
of its query have labels), and the slice gives the published answer wherever the list of answerable questions has
compared it. The order in which they are tried is drawn by ``--seed``. Few questions of those three meet a note, so that
the 16 are of the training questions of QALD-7, QALD-9-plus and WikiWebQuestions too. ``answerable.jsonl`` has all of
the three.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from benchmarks.offline_slice import BENCHMARKS, answerable

from kbnav.errors import KbnavError
from kbnav.evaluation.datasets import load_dataset
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.sparql.diagnose import says_nothing
from kbnav.knowledge.sparql.prefixes import entity_ids
from kbnav.settings.model import load_settings
from kbnav.tools.notes import Notes, read_notes

EVALUATED = {**BENCHMARKS, "SPINACH dev": "spinach-dev"}
TRAINING = {
    "QALD-7 train": "qald-7-train",
    "QALD-9-plus train": "qald-9-plus-train",
    "WikiWebQuestions train": "wikiwebquestions-train",
}
NOTED, OTHERS = 16, 8
Record = Mapping[str, Any]


def questions(data: Path, sets: Mapping[str, str]) -> Iterator[Record]:
    """The questions that the slice's list has as answerable there."""
    lists = answerable(data)
    for listed_as, name in sets.items():
        known = {str(one["id"]): one for one in lists[listed_as]}
        for question in load_dataset(name, data / "benchmarks").questions:
            if listed := known.get(question.id):
                compared = listed["recall"] is not None
                yield {
                    "id": f"{name}-{question.id}",
                    "question": question.text(),
                    "sparql": question.query,
                    "askable": bool(listed["linkable"] and (listed["exact"] or not compared)),
                }


def with_rows(kb: KnowledgeBase, some: Iterable[Record]) -> Iterator[Record]:
    """Those whose gold query has rows."""
    for one in some:
        try:
            nothing = says_nothing(one["sparql"], kb.execute_query(one["sparql"]))
        except KbnavError:
            continue
        if not nothing:
            yield one


def drawn(kb: KnowledgeBase, data: Path, notes: Notes, seed: int) -> list[Record]:
    """The part that notes concern, then the part that they do not."""
    about = [note.about for note in notes.notes if not note.off]
    pick = random.Random(seed)
    noted: dict[str, list[Record]] = defaultdict(list)
    others = []
    for one in questions(data, EVALUATED | TRAINING):
        if one["askable"]:
            named = set(entity_ids(one["sparql"]))
            concern = next((note for note in about if note in named), "")
            (noted[concern] if concern else others).append(one)
    others = [one for one in others if one["id"].startswith(tuple(EVALUATED.values()))]
    for group in (*noted.values(), others):
        pick.shuffle(group)
    turns = (one for one in chain.from_iterable(zip_longest(*noted.values())) if one)
    return [*islice(with_rows(kb, turns), NOTED), *islice(with_rows(kb, others), OTHERS)]


def write(path: Path, some: Iterable[Record]) -> None:
    """As JSON lines, and how many they are."""
    lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in some]
    path.write_text("".join(lines), encoding="utf-8")
    print(f"{path}: {len(lines)} questions", flush=True)


def main() -> None:
    """Write the two data sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--mirror", type=Path, required=True, help="folder of a mirror of the slice")
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    settings = load_settings(kb=str(chosen.mirror), model="offline", language="en", home=chosen.out / "home")
    with open_kb(settings) as kb:
        write(chosen.out / "drawn.jsonl", drawn(kb, chosen.data, read_notes([chosen.notes]), chosen.seed))
        write(chosen.out / "answerable.jsonl", with_rows(kb, questions(chosen.data, EVALUATED)))


if __name__ == "__main__":
    main()
