"""Build an SKB of the size of STaRK's Amazon from raw files, and say how long it takes and how much memory.

    python -m benchmarks.skb_amazon [FOLDER] [--share 1] [--encoder none] [--keep]

The files are made up, in the published formats of reviews, metadata, questions and answers: with --share 1 they give
1.0M nodes and 9.4M edges, and 592M words that are indexed (STaRK, Table 2); without it a hundredth of that. Words are
drawn from 100,000 so that the commonest come as often as in English. Then 1,000 products get another description by an
update. The build's own temporary files go to TMPDIR, as
those of any program. Without FOLDER, or without --keep, all is deleted at the end.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks._timing import status

from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.amazon import AmazonSource
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.maintenance import update
from kbnav.knowledge.skb.store import SKB

SEED = 7
PRODUCTS, BRANDS, CATEGORIES, COLOURS = 957_192, 76_000, 1_500, 800
BOUGHT, VIEWED, IN_CATEGORY, COLOURED = 1.74, 4.8, 1.57, 0.73
"""Of a product, on the average; with its brand 9.4M edges."""
REVIEWS, REVIEW_WORDS, OTHER_WORDS = 9, 58, 50
VOCABULARY = 100_000
POOL = 5_000_000
CHANGED = 1_000
"""Nodes of an update."""
NAME = "Sports_and_Outdoors"


class Words:
    """Texts of made-up words, of which rank r is drawn in proportion to 1/r: pieces of one long text, from anywhere."""

    def __init__(self, seed: int) -> None:
        syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
        places = np.arange(VOCABULARY)
        parts = zip(places % 70, places // 70 % 70, places // 4900, strict=True)
        words = np.array([syllables[a] + syllables[b] + (syllables[c] if c else "") for a, b, c in parts], dtype=object)
        ranks = (VOCABULARY ** np.random.default_rng(seed).random(POOL)).astype(np.int64) - 1
        self._pool: list[str] = words[ranks].tolist()
        self._random = random.Random(seed)

    def text(self, count: int) -> str:
        """So many words."""
        begin = int(self._random.random() * (POOL - count))
        return " ".join(self._pool[begin : begin + count])


def make(folder: Path, share: float) -> None:
    """Write the three files."""
    folder.mkdir(parents=True, exist_ok=True)
    products, draw = round(PRODUCTS * share), np.random.default_rng(SEED)
    _write(folder / f"meta_{NAME}.json.gz", _metadata(products, share, draw), json.dumps)
    _write(folder / f"{NAME}.json.gz", _reviews(products, share, draw), json.dumps)
    _write(folder / f"qa_{NAME}.json.gz", _questions(products, draw), repr)


def _metadata(products: int, share: float, draw: np.random.Generator) -> Iterator[dict[str, Any]]:
    words = Words(1)
    counts = {link: draw.poisson(mean, products) for link, mean in (("also_buy", BOUGHT), ("also_view", VIEWED))}
    for number in range(products):
        links = {
            link: _asins((draw.random(count[number]) ** 2 * products).astype(int)) for link, count in counts.items()
        }
        kinds = draw.integers(0, max(1, round(CATEGORIES * share)), draw.poisson(IN_CATEGORY))
        yield {
            "asin": _asin(number), "title": words.text(8),
            "brand": f"brand {int(draw.random() ** 2 * BRANDS * share)}",
            "category": [f"category {kind}" for kind in kinds.tolist()], "description": [words.text(OTHER_WORDS)],
            "feature": [words.text(6), words.text(6)], "rank": f"{number} in Sports",
            "details": {"\n Product Dimensions: \n": "1 x 2 x 3 inches ; 4 pounds"}, "image": [], **links,
        }  # fmt: skip


def _reviews(products: int, share: float, draw: np.random.Generator) -> Iterator[dict[str, Any]]:
    """In an order that is not the products', as a build must not count on it."""
    words = Words(2)
    order = np.repeat(np.arange(products), REVIEWS)
    order = order.reshape(-1, REVIEWS).T.ravel()
    colours = max(1, round(COLOURS * share))
    for place, number in enumerate(order.tolist()):
        coloured = place < products and draw.random() < COLOURED
        style = {"Color:": f" colour {draw.integers(0, colours)}"} if coloured else {"Size:": " One Size"}
        yield {
            "overall": 5.0, "vote": "2", "verified": True, "reviewTime": "06 3, 2015", "reviewerID": f"A{place:012d}",
            "asin": _asin(number), "style": style, "reviewerName": words.text(2),
            "reviewText": words.text(REVIEW_WORDS - 8), "summary": words.text(4), "unixReviewTime": 1433289600,
        }  # fmt: skip


def _questions(products: int, draw: np.random.Generator) -> Iterator[dict[str, Any]]:
    words = Words(3)
    for number in draw.integers(0, products, products // 4).tolist():
        yield {
            "questionType": "yes/no", "asin": _asin(number), "answerTime": "Jun 27, 2014", "unixTime": 1403852400,
            "question": words.text(12), "answerType": "Y", "answer": words.text(20),
        }  # fmt: skip


def _asin(number: int) -> str:
    return f"B{number:09d}"


def _asins(numbers: Any) -> list[str]:
    return [_asin(number) for number in numbers.tolist()]


def _write(path: Path, lines: Iterator[dict[str, Any]], said: Callable[[dict[str, Any]], str]) -> None:
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
        file.writelines(f"{said(line)}\n" for line in lines)


class Stages:
    """What each stage of a build took, as its progress says; some of them take turns."""

    def __init__(self) -> None:
        self._stage, self._begin = "", time.perf_counter()
        self._took: dict[str, float] = {}
        self._peak: dict[str, float] = {}

    def __call__(self, stage: str, *_: int) -> None:
        """Take down the stage that ended, with the most memory so far."""
        if stage != self._stage:
            now = time.perf_counter()
            if self._stage:
                self._took[self._stage] = self._took.get(self._stage, 0) + now - self._begin
                self._peak[self._stage] = status("VmHWM")
            self._stage, self._begin = stage, now

    def told(self) -> str:
        """A line for each stage."""
        return "\n".join(
            f"  {name}: {took:,.0f} s, peak by its end {self._peak[name]:,.0f} MiB" for name, took in self._took.items()
        )


def main() -> None:
    """Make the files, build, and print; delete them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--share", type=float, default=0.01, help="of Amazon's size")
    parser.add_argument("--encoder", choices=["none", "lsa"], default="none")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory() as temporary:
        measure(options.folder or Path(temporary), options.share, vectors=options.encoder != "none")
    if options.folder and not options.keep:
        for part in ("raw", "amazon.skb"):
            shutil.rmtree(options.folder / part)


def measure(folder: Path, share: float, *, vectors: bool) -> None:
    """Make the files, where they are not there, and build from them."""
    raw, out = folder / "raw", folder / "amazon.skb"
    begin = time.perf_counter()
    if not raw.exists():
        make(raw, share)
    took, size = time.perf_counter() - begin, sum(path.stat().st_size for path in raw.iterdir()) / 2**30
    print(f"files made: {took:,.0f} s, {size:.2f} GiB; memory {status('VmHWM'):,.0f} MiB", flush=True)
    begin, cpu, stages = time.perf_counter(), time.process_time(), Stages()
    meta = build(AmazonSource(raw), out, Options(vectors=vectors), progress=stages)
    stages("", 0, 0)
    print(stages.told())
    took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    disk = sum(file.bytes for file in meta.files.values()) / 2**30
    print(f"built: {meta.nodes:,} nodes, {meta.edges:,} edges, {meta.tokens or 0:,} words")
    print(f"{took:,.0f} s by the clock, {cpu:,.0f} s of CPU, peak {status('VmHWM'):,.0f} MiB, {disk:.2f} GiB on disk")
    change(out, folder / "changed.jsonl", Options(vectors=vectors))


def change(out: Path, file: Path, options: Options) -> None:
    """Update some products, spread over all, with their documents but for another description."""
    words = Words(4)
    with SKB.open(out) as skb, file.open("w") as lines:
        first, end = skb.type_range("product")
        for node in range(first, end, max(1, (end - first) // CHANGED)):
            fields = {**skb.documents[node], "description": [words.text(OTHER_WORDS)]}
            lines.write(json.dumps({"id": skb.id(node), "name": skb.name(node), **fields}) + "\n")
    begin, cpu, stages = time.perf_counter(), time.process_time(), Stages()
    update(out, TableSource([file]), options, progress=stages)
    stages("", 0, 0)
    took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print(f"updated {CHANGED:,} nodes: {took:,.1f} s by the clock, {cpu:,.1f} s of CPU")
    print(stages.told())
    file.unlink()


if __name__ == "__main__":
    main()
