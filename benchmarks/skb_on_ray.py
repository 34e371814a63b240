"""Documents a second that workers of Ray render and embed, one and two of them in one run, beside one process alone.

    python -m benchmarks.skb_on_ray [--data ../shared/data/hetionet] [--documents 640] [--encoder minilm] [--rounds 2]

Needs the extra ray. The first documents of Hetionet are rendered with their relations and embedded, by this process on
one thread, by one worker and by two; each worker has one thread. What is timed begins with the first vectors that come
back, and is of the others, so that neither Ray's start nor the loading of weights is in it. The rounds take turns, and
the quickest of each counts.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from kbnav import encoders
from kbnav.encoders import Encoder
from kbnav.knowledge.ray_cluster import OnRay, on_ray
from kbnav.knowledge.skb.build import Options, Texts, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.vectors import Made, Reused, Window, encode

WINDOW = 64
"""Documents that are sent at once; a build sends more, which would need more of them to even out."""
SHARED = Path(__file__).parent.parent.parent / "shared" / "data" / "hetionet"


def alone(texts: Texts, encoder: Encoder, windows: Iterable[Window]) -> Iterator[Made]:
    """What a worker does, without any."""
    with texts.opened() as skb:
        old = Reused.of(None, encoder.name)
        for window in windows:
            yield encode(list(indexed_texts(skb, relations=True, among=window.nodes)), window, encoder, old)


def rate(made: Iterator[Made], skip: int) -> float:
    """Documents a second, of those behind the first ``skip`` windows."""
    for _ in range(skip):
        next(made)
    begin, done = time.perf_counter(), 0
    for one in made:
        done += one.nodes
    return done / (time.perf_counter() - begin)


def ways(texts: Texts, encoder: Encoder, windows: list[Window], ray: OnRay) -> dict[str, Callable[[], float]]:
    """Each way to embed, by its name."""

    def by(workers: int) -> float:
        some = OnRay(ray.ray, workers, ray.share, 0.0, ray.load)
        return rate(some.encoded(texts, encoder, windows, folder=Path(), previous=None), workers)

    return {
        "this process": lambda: rate(alone(texts, encoder, windows), 1),
        "1 worker": lambda: by(1),
        "2 workers": lambda: by(2),
    }


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--documents", type=int, default=640)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    if find_spec("ray") is None or not chosen.data.is_dir():
        sys.exit(print("nothing is measured: it needs the extra ray, and Hetionet's files"))
    os.environ.setdefault("RAY_worker_niceness", "0")  # as eager as the process beside them
    source = TableSource([chosen.data / "nodes.jsonl.gz"], [chosen.data / "edges.tsv.gz"])
    encoder = encoders.load(chosen.encoder, threads=1)
    with tempfile.TemporaryDirectory() as work, on_ray(workers=2) as ray:
        meta = build(source, Path(work) / "h.skb", Options(text=False, vectors=False, sparql=False))
        texts = Texts(Path(work) / "h.skb", meta, relations=True)
        starts = range(0, min(chosen.documents, meta.nodes), WINDOW)
        windows = [Window(range(first, min(first + WINDOW, chosen.documents)), None) for first in starts]
        best: dict[str, float] = {}
        for _ in range(chosen.rounds):
            for name, way in ways(texts, encoder, windows, ray).items():
                best[name] = max(best.get(name, 0.0), way())
    for name, found in best.items():
        print(f"{name}: {found:.1f} documents a second, {found / best['1 worker']:.2f} of one worker's")


if __name__ == "__main__":
    main()
