"""Make the four SKBs and their question sets that docs/synthesis.md speaks of.

    python -m benchmarks.question_sets OUT [--data ../shared/data] [--debian DEB] [--wordnet WN]
        [--encoder lsa] [--relations] [--reworded] [--kb wn18rr]

``DEB`` and ``WN`` are what ``examples/debian_packages.py`` and ``examples/wordnet.py`` wrote. The two are cut to a part
that can be embedded in minutes on a few cores; what a folder's ``source.json`` says it was made of stands in the report
of the questions. Hetionet and WN18RR are taken whole. What is there already is kept; a
build that was killed goes on.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from kbnav import encoders
from kbnav.evaluation.synthesis.sampling import SplitSizes, synthesize
from kbnav.evaluation.synthesis.templates import write_questions, write_splits
from kbnav.evaluation.synthesis.wording import Rewording, Wording, load_words, reworded
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.schema import LSA
from kbnav.knowledge.skb.store import SKB

NODES, EDGES, SOURCE = "nodes.jsonl.gz", "edges.tsv.gz", "source.json"
SECTIONS = frozenset(
    [
        "comm",
        "database",
        "editors",
        "education",
        "games",
        "graphics",
        "mail",
        "net",
        "news",
        "shells",
        "sound",
        "text",
        "vcs",
        "video",
        "web",
    ]
)
"""Sections of Debian with programs that people use."""
USERS = 5
"""Packages of other sections are kept where so many packages of these need them."""
ROOTS = ("artifact", "person", "food")
"""Nouns of WordNet below which all are kept; of each name the one with the most below it."""
TOPICS = frozenset(["has topic", "in region", "in usage", "attribute"])

Node = Mapping[str, Any]
Edge = tuple[str, str, str]


def debian_part(nodes: Sequence[Node], edges: Sequence[Edge]) -> set[str]:
    """The ids to keep: packages of ``SECTIONS``, those that many of them need, and what any of these belongs to."""
    packages = {node["id"] for node in nodes if node["type"] == "package"}
    kept = {source for source, relation, target in edges if relation == "in section" and target[8:] in SECTIONS}
    needs = ("depends on", "recommends", "suggests")
    others = packages - kept
    users = Counter(target for source, relation, target in edges if source in kept and relation in needs)
    kept |= {name for name, count in users.items() if count >= USERS and name in others}
    return kept | {target for source, _, target in edges if source in kept and target not in packages}


def wordnet_part(nodes: Sequence[Node], edges: Sequence[Edge]) -> set[str]:
    """The ids to keep: nouns below ``ROOTS``, all verbs, their topics and regions, and whatever these are kinds of."""
    below: dict[str, list[str]] = defaultdict(list)
    above: dict[str, list[str]] = defaultdict(list)
    for source, relation, target in edges:
        if relation == "hypernym":
            below[target].append(source)
            above[source].append(target)
    named = [[node["id"] for node in nodes if (node["type"], node["name"]) == ("noun", root)] for root in ROOTS]
    kept = set().union(*(max((_closure([one], below) for one in ids), key=len) for ids in named))
    kept |= {node["id"] for node in nodes if node["type"] == "verb"}
    kept |= {target for source, relation, target in edges if source in kept and relation in TOPICS}
    return _closure(kept, above)


def _closure(starts: Iterable[str], step: Mapping[str, Iterable[str]]) -> set[str]:
    seen = set(starts)
    waiting = list(seen)
    while waiting:
        found = [node for node in step.get(waiting.pop(), ()) if node not in seen]
        seen.update(found)
        waiting += found
    return seen


def cut(source: Path, out: Path, part: Callable[[Sequence[Node], Sequence[Edge]], Collection[str]]) -> Path:
    """Write the records of a part of what is in ``source`` to ``out``, unless they are there."""
    if (out / EDGES).is_file():
        return out
    out.mkdir(parents=True, exist_ok=True)
    if (source / SOURCE).is_file():
        shutil.copy(source / SOURCE, out)
    with gzip.open(source / NODES, "rt", encoding="utf-8") as file:
        nodes = [json.loads(line) for line in file]
    with gzip.open(source / EDGES, "rt", encoding="utf-8") as file:
        head, *lines = file
    edges = [(fields[0], fields[1], fields[2]) for fields in (line.rstrip("\n").split("\t") for line in lines)]
    ids = {node["id"] for node in nodes}.intersection(part(nodes, edges))
    with gzip.open(out / NODES, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(node, ensure_ascii=False) + "\n" for node in nodes if node["id"] in ids)
    with gzip.open(out / EDGES, "wt", encoding="utf-8") as file:
        kept = ("\t".join(edge) + "\n" for edge in edges if edge[0] in ids and edge[2] in ids)
        file.writelines([head, *kept])
    return out


def sources(chosen: argparse.Namespace) -> dict[str, Path]:
    """The folder of records of each SKB that there is input for."""
    found = {name: chosen.data / name for name in ("hetionet", "wn18rr") if (chosen.data / name).is_dir()}
    if chosen.debian:
        found["debian"] = cut(chosen.debian, chosen.out / "records" / "debian", debian_part)
    if chosen.wordnet:
        found["wordnet"] = cut(chosen.wordnet, chosen.out / "records" / "wordnet", wordnet_part)
    return found


def main() -> None:
    """Build, and make questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--debian", type=Path)
    parser.add_argument("--wordnet", type=Path)
    parser.add_argument("--encoder", default="minilm", help="none: no vectors; lsa: fitted on the texts")
    parser.add_argument("--relations", action="store_true", help="index documents with their relations as well")
    parser.add_argument("--reworded", action="store_true", help="every question in other words as well")
    parser.add_argument("--kb", action="append", help="repeatable; default: all that there is input for")
    chosen = parser.parse_args()
    vectors = chosen.encoder != "none"
    encoder = encoders.load(chosen.encoder) if vectors and chosen.encoder != LSA else None
    options = Options(vectors=vectors, encoder=encoder, relations=chosen.relations)
    for name, folder in sources(chosen).items():
        if chosen.kb and name not in chosen.kb:
            continue
        skb_folder = chosen.out / f"{name}.skb"
        if not (skb_folder / "meta.json").is_file():
            build(TableSource([folder / NODES], [folder / EDGES]), skb_folder, options)
        with SKB.open(skb_folder) as skb:
            wording = load_words(Wording, name).model_copy(
                update={"without_text": False}
            )  # every question has both parts
            questions, report = synthesize(skb, SplitSizes(test=200, train=400, val=100), wording)
            if (folder / SOURCE).is_file():
                report.made_of = json.loads((folder / SOURCE).read_bytes())
            out = chosen.out / "questions" / f"{name}.jsonl"
            write_questions(out, questions, report)
            if chosen.reworded:
                found = reworded(skb, questions, load_words(Wording, name), load_words(Rewording, name))
                print(f"{name}: {len(found)} of {len(questions)} questions in other words")
                write_splits(out.with_name(f"{name}-reworded.jsonl"), found)
            chance = fmean(len(one.answers) / one.candidates for one in questions if one.split == "test")
            print(
                f"{name}: {skb.meta.nodes:,} nodes, {skb.meta.edges:,} edges, {report.sampled} sampled, {report.kept}"
            )
            print(f"  of the nodes that a test question's relations lead to, {chance:.0%} are answers")


if __name__ == "__main__":
    main()
