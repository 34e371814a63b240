"""Building the vector index of an SKB: every node's text through an encoder, into the files that ``vectors`` opens.

Beside each vector stands a hash of the text it was made from: a build that was cut off goes on where it was, and an
update encodes only the texts that changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kbnav.encoders import Encoder, Vectors, same
from kbnav.encoders.lsa import FILE as LSA_FILE
from kbnav.encoders.lsa import LSA
from kbnav.knowledge.skb import ann, quantized, vectors
from kbnav.knowledge.skb.schema import NodeText, Progress, no_progress
from kbnav.knowledge.skb.vectors import FORMAT, HASHES, META, VECTORS, Hashes, mapped, mapped_hashes

WINDOW = 512
"""Nodes encoded before they are written: what a build that is killed loses."""


class Window(NamedTuple):
    """Nodes that are encoded together."""

    nodes: range
    written: Hashes | None
    """Of the texts whose vectors are written already, [nodes]; None where none are."""


class Made(NamedTuple):
    """What came of a window: the vectors that it lacked."""

    nodes: int
    """How many the window has."""
    numbers: npt.NDArray[np.int64]
    """Of the nodes whose vectors were made, [m]."""
    hashes: Hashes
    """Of their texts, [m]."""
    vectors: Vectors
    """[m, d]."""


Elsewhere = Callable[[Encoder, Iterable[Window]], Iterator[Made]]
"""Encodes windows as ``encode`` does, wherever it does so, and gives what came of them in any order."""


def build(
    nodes: Callable[[], Iterable[NodeText]],
    folder: Path,
    *,
    type_start: Sequence[int],
    encoder: Encoder | None = None,
    previous: Path | None = None,
    progress: Progress = no_progress,
    elsewhere: Elsewhere | None = None,
) -> None:
    """Encode every node into ``folder``, which is empty or holds a build that was cut off.

    ``nodes`` begins anew at each call. Vectors in ``folder`` and in ``previous``, the vector index that is being
    replaced, are used again for equal texts where they come from the same encoder. Without an encoder lsa is used: the
    one of either folder, or a new one, fitted on the nodes. What encodes them ``elsewhere`` finds their texts itself.
    """
    count = type_start[-1]
    if encoder is None:
        encoder = _lsa(nodes, folder, previous, progress)
    store = _Store.resume(folder, encoder.name, count)
    made: Iterator[Made]
    if elsewhere is None:
        old = Reused.of(previous, encoder.name)
        windows = iter(nodes())
        made = (encode(list(islice(windows, WINDOW)), one, encoder, old) for one in store.windows())
    else:
        made = elsewhere(encoder, store.windows())
    done = 0
    progress("vectors", done, count)
    for one in made:
        store.put(one)
        done += one.nodes
        progress("vectors", done, count)
    store.finish()


def encode(nodes: Sequence[NodeText], window: Window, encoder: Encoder, old: Reused) -> Made:
    """The vectors of a window's ``nodes`` that are not written, those of texts that are known among the ``old``."""
    hashes = np.array([_hash(node.document) for node in nodes], dtype="S16")
    missing = np.arange(len(nodes)) if window.written is None else np.flatnonzero(window.written != hashes)
    made = np.zeros((0, 0), np.float32)
    if len(missing):
        made = old.encode([nodes[place].document for place in missing.tolist()], hashes[missing], encoder)
    return Made(len(nodes), missing + window.nodes.start, hashes[missing], made)


def build_approximate(folder: Path, out: Path, *, progress: Progress = no_progress) -> None:
    """Write the approximate index of the finished index in ``folder`` into ``out``, which must be empty.

    Raises UsageError without faiss.
    """
    index = vectors.open(folder)
    ann.build(index.vectors, index.content, out, progress=progress)


class _Store:
    """The files of a build under way. The vectors' file is made when their length is known."""

    def __init__(self, folder: Path, encoder_name: str, count: int) -> None:
        self._folder, self._encoder_name, self._count = folder, encoder_name, count
        self._vectors: Vectors | None = None
        self._hashes: Hashes | None = None

    @classmethod
    def resume(cls, folder: Path, encoder_name: str, count: int) -> _Store:
        """Go on with what is in the folder where it fits; what does not is overwritten."""
        store = cls(folder, encoder_name, count)
        try:
            meta = json.loads((folder / META).read_bytes())
            if same(meta["encoder"], encoder_name) and (meta["nodes"], meta["format"]) == (count, FORMAT):
                store._vectors = mapped(folder / VECTORS, (count, meta["dimensions"]), "r+")
                store._hashes = mapped_hashes(folder / HASHES, count, "r+")
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            return cls(folder, encoder_name, count)
        return store

    def windows(self) -> Iterator[Window]:
        """All nodes, window by window."""
        for first in range(0, self._count, WINDOW):
            end = min(first + WINDOW, self._count)
            written = None if self._hashes is None else np.array(self._hashes[first:end])
            yield Window(range(first, end), written)

    def put(self, made: Made) -> None:
        """Put vectors in their places; the hashes are written last, so that they never promise too much."""
        if not len(made.numbers):
            return
        if self._vectors is None or self._hashes is None:
            self._vectors, self._hashes = self._create(made.vectors.shape[1])
        self._vectors[made.numbers] = made.vectors
        _flush(self._vectors)
        self._hashes[made.numbers] = made.hashes
        _flush(self._hashes)

    def finish(self) -> None:
        """Say that the index may be opened."""
        if self._vectors is None or self._hashes is None:
            self._vectors, self._hashes = self._create(0)
        content = hashlib.blake2b(self._encoder_name.encode(), digest_size=16)
        content.update(self._hashes.tobytes())
        error = quantized.build(self._vectors, self._folder) if self._vectors.size else None
        self._describe(self._vectors.shape[1], finished=True, content=content.hexdigest(), error=error)

    def _create(self, dimensions: int) -> tuple[Vectors, Hashes]:
        made = np.lib.format.open_memmap(
            self._folder / VECTORS, mode="w+", dtype=np.float32, shape=(self._count, dimensions)
        )
        hashes = np.lib.format.open_memmap(self._folder / HASHES, mode="w+", dtype="S16", shape=(self._count,))
        self._describe(dimensions, finished=False)
        return made, hashes

    def _describe(
        self, dimensions: int, *, finished: bool, content: str = "", error: quantized.Error | None = None
    ) -> None:
        document = {
            "format": FORMAT,
            "encoder": self._encoder_name,
            "nodes": self._count,
            "dimensions": dimensions,
            "finished": finished,
            "content": content,
            "quantized": error,
        }
        new = self._folder / f"{META}.new"
        new.write_text(json.dumps(document))
        new.replace(self._folder / META)


class Reused:
    """Vectors that exist already, by the hash of their text."""

    def __init__(self, vectors: Vectors, hashes: Hashes) -> None:
        self._vectors = vectors
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    @classmethod
    def of(cls, folder: Path | None, encoder_name: str) -> Reused:
        """Those of a finished index of the same encoder; none where there is no such index."""
        if folder is not None and (folder / META).is_file():
            index = vectors.open(folder)
            if same(index.encoder_name, encoder_name):
                return cls(index.vectors, np.asarray(mapped_hashes(folder / HASHES, len(index.vectors))))
        return cls(np.zeros((0, 0), dtype=np.float32), np.zeros(0, dtype="S16"))

    def encode(self, texts: Sequence[str], hashes: Hashes, encoder: Encoder) -> Vectors:
        """Vectors of the texts: those known, the others from the encoder, each different text once."""
        unique, first, places = np.unique(hashes, return_index=True, return_inverse=True)
        at = np.minimum(np.searchsorted(self._hashes, unique), max(len(self._hashes) - 1, 0))
        known = self._hashes[at] == unique if len(self._hashes) else np.zeros(len(unique), dtype=bool)
        fresh = encoder.encode([texts[place] for place in first[~known]]) if not known.all() else None
        width = self._vectors.shape[1] if fresh is None else fresh.shape[1]
        vectors = np.empty((len(unique), width), dtype=np.float32)
        if fresh is not None:
            vectors[~known] = fresh
        if known.any():
            vectors[known] = self._vectors[self._order[at[known]]]
        return np.asarray(vectors[places])


def _lsa(nodes: Callable[[], Iterable[NodeText]], folder: Path, previous: Path | None, progress: Progress) -> LSA:
    """The fitted encoder of a build, in its folder before any vector is."""
    for place in (folder, previous):
        if place is not None and (place / LSA_FILE).is_file():
            encoder = LSA.load(place)
            break
    else:
        progress("lsa", 0, 1)
        encoder = LSA.fit(node.document for node in nodes())
        progress("lsa", 1, 1)
    encoder.save(folder)
    return encoder


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _flush(array: npt.NDArray[np.generic]) -> None:
    if isinstance(array, np.memmap):
        array.flush()
