"""Speed, size and quality of an SKB's text index and name index.

    python -m benchmarks.skb_text [--data ../shared/data] [--large]

Quality is measured on WordNet (data/wn18rr): nodes are synsets with their name and definition, questions are example
sentences, which the nodes do not have, and the right answer is the synset the sentence illustrates. Speed is measured
on texts drawn at random from WordNet's words by their frequency: 129,000 documents, and with --large 1.9 million names
as well, part of the form "Given N. Surname" and part titles. bm25s is asked the same where it is installed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import tempfile
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from benchmarks._timing import built, seconds, show, status

from kbnav.knowledge.skb import text
from kbnav.knowledge.skb.schema import NodeText

EXAMPLE = re.compile(r'"([^"]+)"')


def main() -> None:
    """Run all parts and print one line a figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder that holds wn18rr")
    parser.add_argument("--large", action="store_true", help="also 1.9 million names")
    arguments = parser.parse_args()
    with gzip.open(arguments.data / "wn18rr" / "nodes.jsonl.gz", "rt", encoding="utf-8") as file:
        synsets = [json.loads(line) for line in file]
    with tempfile.TemporaryDirectory() as folder:
        quality(synsets, Path(folder))
    words = Words(synsets)
    with tempfile.TemporaryDirectory() as folder:
        documents = [NodeText(n, of_type(n, 129_000), words.title(4), (), words.title(60)) for n in range(129_000)]
        text_speed("129,000 documents of 64 words", documents, words, Path(folder))
    if arguments.large:
        titles = list(words.names(1_900_000))
        with tempfile.TemporaryDirectory() as folder:
            text_speed("1.9 million names", titles, words, Path(folder))
        with tempfile.TemporaryDirectory() as folder:
            name_speed(titles, words, Path(folder))


def quality(synsets: Sequence[dict[str, str]], folder: Path) -> None:
    """Recall and MRR of BM25 for example sentences."""
    nodes = [NodeText(n, 0, row["name"], (), EXAMPLE.sub("", row["description"])) for n, row in enumerate(synsets)]
    text.build(nodes, folder, type_start=[0, len(nodes)])
    index = text.open(folder, [0, len(nodes)])
    asked = [(n, found[0]) for n, row in enumerate(synsets) if (found := EXAMPLE.findall(row["description"]))]
    chosen = np.random.default_rng(0).choice(len(asked), 2000, replace=False)
    ranks = [
        next((place for place, (n, _) in enumerate(index.search(asked[i][1]), start=1) if n == asked[i][0]), 0)
        for i in chosen
    ]
    recall, mrr = np.mean([rank > 0 for rank in ranks]), np.mean([1 / rank if rank else 0 for rank in ranks])
    print(f"BM25, 2,000 example sentences to 40,943 synsets: recall@20 {recall:.3f}, MRR {mrr:.3f}")


def starts(count: int) -> list[int]:
    """Three types, the one in the middle of 3 % of the nodes."""
    return [0, count // 2, count // 2 + count // 33, count]


def of_type(number: int, count: int) -> int:
    """The type of a node."""
    return bisect_right(starts(count), number) - 1


class Words:
    """Texts of WordNet's words, drawn by their frequency."""

    def __init__(self, synsets: Sequence[dict[str, str]]) -> None:
        counts = Counter(word for row in synsets for word in re.findall(r"[a-z]+", row["description"]))
        self._words = np.array(list(counts))
        self._shares = np.cumsum(list(counts.values())) / counts.total()
        self.random = np.random.default_rng(1)

    def title(self, length: int) -> str:
        """So many words."""
        return " ".join(self._words[np.searchsorted(self._shares, self.random.random(length))])

    def names(self, count: int) -> Iterator[NodeText]:
        """The first 58 % persons, as among STaRK-MAG's nodes, then titles of 5 to 15 words."""
        people = int(0.58 * count)
        given = [self._syllables(n) for n in self.random.integers(2, 4, 5_000)]
        family = [self._syllables(n) for n in self.random.integers(2, 5, 60_000)]
        for number in range(people):
            a, b, c = (int(self.random.integers(limit)) for limit in (len(given), 26, len(family)))
            yield NodeText(number, of_type(number, count), f"{given[a]} {chr(65 + b)}. {family[c]}", (), "")
        for number in range(people, count):
            yield NodeText(number, of_type(number, count), self.title(int(self.random.integers(5, 16))), (), "")

    def _syllables(self, count: int) -> str:
        letters = (
            self.random.choice(list("bcdfghklmnprstvw")) + self.random.choice(list("aeiou")) for _ in range(count)
        )
        return "".join(letters).capitalize()

    def misspelt(self, name: str) -> str:
        """The name with a vowel in place of one letter; one time in a few that is the letter itself."""
        place = int(self.random.integers(len(name)))
        return name[:place] + "aeiou"[int(self.random.integers(5))] + name[place + 1 :]


def text_speed(what: str, nodes: Sequence[NodeText], words: Words, folder: Path) -> None:
    """Build, size, open and search of the BM25 index."""
    print(f"BM25, {what}:")
    built("text", lambda: text.build(nodes, folder, type_start=starts(len(nodes))), folder)
    start = time.perf_counter()
    index = text.open(folder, starts(len(nodes)))
    print(f"  open {1e3 * (time.perf_counter() - start):.1f} ms")
    queries = [words.title(8) for _ in range(100)]
    _, first, end, _ = starts(len(nodes))
    among = words.random.choice(len(nodes), 1000, replace=False).tolist()
    show("top 20 for 8 words", lambda query: index.search(query), queries)
    show("the same in a type of 3 %", lambda query: index.search(query, ranges=[(first, end)]), queries)
    show("the same in a range of 3 %", lambda query: index.search(query, ranges=[(first + 1, end + 1)]), queries)
    show("the same among 1,000 nodes", lambda query: index.search(query, among=among), queries)
    if find_spec("bm25s") is not None:
        peer(nodes, queries)


def peer(nodes: Sequence[NodeText], queries: Sequence[str]) -> None:
    """The same texts and questions by bm25s, which holds a score for each word of each document in memory."""
    import bm25s

    def words(texts: Sequence[str]) -> list[list[str]]:
        return [text.lower().split() for text in texts]

    index = bm25s.BM25()
    took = seconds(lambda: index.index(words([f"{node.name} {node.text}" for node in nodes]), show_progress=False))
    print(f"  peer: bm25s, without stems: build {took:.0f} s; peak {status('VmHWM'):.0f} MiB")
    show("peer: bm25s", lambda query: index.retrieve(words([query]), k=20, show_progress=False), queries)


def name_speed(nodes: Sequence[NodeText], words: Words, folder: Path) -> None:
    """Build, size, open and search of the name index, and how many misspelt names lead to their node."""
    print(f"names, {len(nodes):,}:")
    built("names", lambda: text.build_names(nodes, folder, type_start=[0, len(nodes)]), folder)
    start = time.perf_counter()
    index = text.open_names(folder)
    print(f"  open {1e3 * (time.perf_counter() - start):.1f} ms")
    for what, first, end in (("person", 0, int(0.58 * len(nodes))), ("title", int(0.58 * len(nodes)), len(nodes))):
        chosen = [nodes[n] for n in words.random.integers(first, end, 200)]
        show(f"{what}, exact or normalised", lambda node: index.search(node.name, edits=0), chosen)
        show(f"{what}, one letter wrong", lambda node: index.search(words.misspelt(node.name)), chosen)
        found = sum(
            any(match.number == node.number for match in index.search(words.misspelt(node.name), limit=100_000))
            for node in chosen
        )
        print(f"  {what}, one letter wrong: {found} of {len(chosen)} found")


if __name__ == "__main__":
    main()
