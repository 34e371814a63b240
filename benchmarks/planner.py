"""How well the planner's scorer finds the relations of STaRK's questions, beside the most frequent ones.

The questions' plans (``mor_plan``) were written by another system's planner; they are taken as given. A plan is a set
of relation paths, and is found where the whole set is: the order of its paths does not count. STaRK's SKBs are not
there, so the schema is what the training split's plans have, and no node is matched. Questions without a plan are left
out, and counted. Embeddings are minilm's; with ``--cache`` they are kept in a folder, for they take most of the time.

    python -m benchmarks.planner [--data ../shared/data] [--cache FOLDER] [--split test] [--ablate]
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kbnav import encoders
from kbnav.encoders import Encoder, Vectors
from kbnav.evaluation.datasets import load_dataset
from kbnav.planning.paths import TEXT_PATH, Hop, RelationPath
from kbnav.planning.ranker import Candidates, Questions, Scorer, path_parts, path_vectors

Plan = frozenset[RelationPath]
FIRST = 3
OFTEN = 3
"""Times that a set must have been seen to be learned as such; of rarer ones only what they share with others is."""


@dataclass(frozen=True)
class Split:
    """The questions of a split that have a plan."""

    questions: Questions
    plans: Sequence[Plan]
    without: int


def main() -> None:
    """Print a row for each SKB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--cache", type=Path, help="folder that keeps embeddings")
    parser.add_argument("--split", choices=("val", "test"), default="test")
    parser.add_argument("--kb", nargs="*", default=["amazon", "mag", "prime"])
    parser.add_argument("--ablate", action="store_true", help="also without words, and without embeddings")
    arguments = parser.parse_args()
    encoder = encoders.load("minilm")
    print("| SKB | questions, no plan | sets | most frequent: first, of three | ranker: first, of three | training |")
    print("|---|---|---|---|---|---|")
    for kb in arguments.kb:
        train, asked = (
            read(kb, split, arguments.data / "benchmarks", encoder, arguments.cache)
            for split in ("train", arguments.split)
        )
        report(kb, train, asked, encoder)
        if arguments.ablate:
            report(f"{kb}, words only", blind(train), blind(asked), encoder)
            report(f"{kb}, embeddings only", wordless(train), wordless(asked), encoder)


def report(kb: str, train: Split, asked: Split, encoder: Encoder) -> None:
    """Train on one split, ask of the other, print a row."""
    counts = Counter(train.plans)
    sets = sorted(counts, key=lambda plan: (-counts[plan], sorted(plan)))
    named = [parts(plan, whole=counts[plan] >= OFTEN) for plan in sets]
    candidates = Candidates(named, vectors(sets, encoder, train))
    places = {plan: place for place, plan in enumerate(sets)}
    target = np.zeros((len(train.plans), len(sets)), np.float32)
    target[np.arange(len(train.plans)), [places[plan] for plan in train.plans]] = 1.0
    start = time.perf_counter()
    scorer = Scorer.fit(train.questions, candidates, target)
    took = time.perf_counter() - start
    ranked = np.argsort(-scorer.scores(asked.questions, candidates), axis=1)[:, :FIRST]
    gold = np.array([places.get(plan, -1) for plan in asked.plans])
    unseen = (gold < 0).mean()
    print(
        f"| {kb} | {len(gold):,}, {asked.without:,} | {len(sets):,}, {unseen:.1%} of the questions have another |"
        f" {(gold == 0).mean():.3f}, {np.isin(gold, range(FIRST)).mean():.3f} |"
        f" {(ranked[:, 0] == gold).mean():.3f}, {(ranked == gold[:, None]).any(axis=1).mean():.3f} | {took:.0f} s |",
        flush=True,
    )


def read(kb: str, split: str, folder: Path, encoder: Encoder, cache: Path | None) -> Split:
    """A split's questions with their embeddings and plans."""
    dataset = load_dataset(f"stark-{kb}-{split}", folder)
    texts = [question.text() for question in dataset.questions]
    found = embedded(texts, encoder, cache)
    plans = [plan_of(question.meta.get("mor_plan") or {}) for question in dataset.questions]
    kept = [place for place, plan in enumerate(plans) if plan]
    return Split(Questions([texts[n] for n in kept], found[kept]), [plans[n] for n in kept], len(plans) - len(kept))


def embedded(texts: Sequence[str], encoder: Encoder, cache: Path | None) -> Vectors:
    """Vectors of the texts, kept by the encoder's name and the texts' hash."""
    if cache is None:
        return encoder.encode(texts)
    cache.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    path = cache / f"{encoder.name}-{digest}.npy"
    if not path.exists():
        np.save(path, encoder.encode(texts))
    kept: Vectors = np.load(path)
    return kept


def plan_of(record: Mapping[str, Any]) -> Plan:
    """The paths of a plan, each from what the question names to the answer; none where the record has no plan.

    Prime's are lists of a type, a relation, a type and so on. The others' are types with arrows, those behind the
    answer pointing back to it: ``author -> paper <- field_of_study`` is two paths.
    """
    written = record.get("Metapath") or ""
    if isinstance(written, list):
        if any(len(path) % 2 == 0 for path in written):  # a path that ends in a relation
            return frozenset()
        return frozenset(typed_path(path[::2], path[1::2]) for path in written)
    head, *behind = (part.strip() for part in written.split("<-"))
    if not head:
        return frozenset()
    way = [kind.strip() for kind in head.split("->")]
    # One plan in 400 goes on from a node behind the answer; where it goes to is left out.
    back = [part.split("->")[0].strip() for part in reversed(behind)]
    ways = [way, [*back, way[-1]]] if back else [way]
    return frozenset(typed_path(kinds, ["to"] * (len(kinds) - 1)) for kinds in ways if len(kinds) > 1 or not back)


def typed_path(types: Sequence[str], relations: Sequence[str]) -> RelationPath:
    """A path of some types; of one type alone it is ``text``."""
    return RelationPath(tuple(map(Hop, relations)), tuple(types)) if len(types) > 1 else TEXT_PATH


def parts(plan: Plan, *, whole: bool) -> frozenset[str]:
    """What plans share: their paths and those paths' parts, and the number of paths; ``whole``: and the set itself."""
    every = frozenset().union(*map(path_parts, plan)) | {f"paths {len(plan)}"}
    return every | {"set " + " & ".join(sorted(map(str, plan)))} if whole else every


def vectors(plans: Sequence[Plan], encoder: Encoder, like: Split) -> Vectors:
    """The mean of the paths' embeddings, of the width the questions have."""
    paths = sorted(frozenset().union(*plans))
    width = like.questions.vectors.shape[1]
    if not width:
        return np.zeros((len(plans), 0), np.float32)
    known = dict(zip(paths, path_vectors(paths, encoder), strict=True))
    return np.array([np.mean([known[path] for path in plan], axis=0) for plan in plans], np.float32)


def blind(split: Split) -> Split:
    """Without embeddings."""
    return replace(split, questions=replace(split.questions, vectors=split.questions.vectors[:, :0]))


def wordless(split: Split) -> Split:
    """Without words."""
    return replace(split, questions=replace(split.questions, texts=[""] * len(split.plans)))


if __name__ == "__main__":
    main()
