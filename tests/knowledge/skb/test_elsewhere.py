"""Texts encoded by others than the process that builds: here, by what a worker of a cluster is sent."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kbnav.encoders import Encoder, Vectors
from kbnav.errors import KbnavError, ServiceError, UsageError
from kbnav.knowledge.skb.build import Options, Texts, build
from kbnav.knowledge.skb.on_ray import Encoding
from kbnav.knowledge.skb.schema import RELATIONAL_VECTORS, VECTORS
from kbnav.knowledge.skb.vectors import WINDOW, Made, Window
from tests.knowledge.skb.sources import small
from tests.knowledge.skb.test_vectors import Letters

NODES = 3 * WINDOW - 10


class Backwards:
    """Workers whose results come last first; of ``only`` so many windows, then they are gone."""

    def __init__(self, only: int = 99) -> None:
        self.only = only
        self.encoders: list[Letters] = []

    def encoded(
        self, texts: Texts, encoder: Encoder, windows: Iterable[Window], *, folder: Path, previous: Path | None
    ) -> Iterator[Made]:
        self.encoders.append(Letters())
        encoding = Encoding(texts, lambda: self.encoders[-1], previous)
        rows = [{"item": pickle.dumps(window)} for window in windows]
        for number, row in enumerate(reversed(rows)):
            if number == self.only:
                raise ServiceError("the cluster is gone")
            yield result(encoding(row))


def result(row: dict[str, bytes]) -> Any:
    item = pickle.loads(row["item"])
    if isinstance(item, KbnavError):
        raise item
    return item


def options(workers: Backwards | None) -> Options:
    return Options(sparql=False, relations=True, encoder=Letters(), workers=workers)


def vectors(skb: Path) -> dict[str, bytes]:
    files = [*skb.glob(f"data-*/{VECTORS}/*"), *skb.glob(f"data-*/{RELATIONAL_VECTORS}/*")]
    return {f"{file.parent.name}/{file.name}": file.read_bytes() for file in files}


def test_what_others_encode_in_any_order_is_the_same_byte_for_byte(tmp_path):
    source = small(tmp_path, NODES)
    build(source, tmp_path / "here.skb", options(None))
    workers = Backwards()
    build(source, tmp_path / "there.skb", options(workers))
    assert vectors(tmp_path / "there.skb") == vectors(tmp_path / "here.skb")
    assert len(vectors(tmp_path / "here.skb")) == 6
    assert [len(encoder.seen) for encoder in workers.encoders] == [NODES, NODES]


def test_a_build_whose_workers_are_gone_goes_on_with_what_they_did(tmp_path):
    source = small(tmp_path, NODES)
    with pytest.raises(ServiceError, match="gone"):
        build(source, tmp_path / "there.skb", options(Backwards(only=2)))
    workers = Backwards()
    build(source, tmp_path / "there.skb", options(workers))
    build(source, tmp_path / "here.skb", options(None))
    assert vectors(tmp_path / "there.skb") == vectors(tmp_path / "here.skb")
    assert [len(encoder.seen) for encoder in workers.encoders] == [WINDOW, NODES], "the last two windows were there"


class Forgetful(Letters):
    def encode(self, texts: Sequence[str]) -> Vectors:
        raise MemoryError


def worker(texts: Texts, load: Callable[[], Encoder] = Letters) -> Callable[[], Any]:
    window = pickle.dumps(Window(range(5), None))
    return lambda: result(Encoding(texts, load, None)({"item": window}))


def test_a_worker_without_memory_or_without_the_folder_says_so_in_a_line(tmp_path: Path):
    meta = build(small(tmp_path), tmp_path / "s.skb", Options(text=False, vectors=False, sparql=False))
    texts = Texts(tmp_path / "s.skb", meta, relations=False)
    assert worker(texts)().nodes == 5
    with pytest.raises(ServiceError, match=r"too little memory: use fewer workers$"):
        worker(texts, Forgetful)()
    with pytest.raises(ServiceError, match=r"does not see .*gone\.skb: build in a folder that all of them share$"):
        worker(Texts(tmp_path / "gone.skb", meta, relations=False))()
    with pytest.raises(UsageError, match="there are minilm"):
        worker(texts, lambda: no_encoder())()


def no_encoder() -> Encoder:
    from kbnav.encoders import load

    return load("no such one")
