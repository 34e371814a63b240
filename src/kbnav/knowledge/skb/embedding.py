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

import numpy as np
import numpy.typing as npt

from kbnav.encoders import Encoder, Vectors
from kbnav.encoders.lsa import FILE as LSA_FILE
from kbnav.encoders.lsa import LSA
from kbnav.knowledge.skb import ann, quantized, vectors
from kbnav.knowledge.skb.schema import NodeText, Progress, no_progress
from kbnav.knowledge.skb.vectors import FORMAT, HASHES, META, VECTORS, Hashes, mapped, mapped_hashes

_WINDOW = 512  # nodes encoded before they are written: what a build that is killed loses


def build(
    nodes: Callable[[], Iterable[NodeText]],
    folder: Path,
    *,
    type_start: Sequence[int],
    encoder: Encoder | None = None,
    previous: Path | None = None,
    progress: Progress = no_progress,
) -> None:
    """Encode every node into ``folder``, which is empty or holds a build that was cut off.

    ``nodes`` begins anew at each call. Vectors in ``folder`` and in ``previous``, the vector index that is being
    replaced, are used again for equal texts where they come from the same encoder. Without an encoder lsa is used: the
    one of either folder, or a new one, fitted on the nodes.
    """
    count = type_start[-1]
    if encoder is None:
        encoder = _lsa(nodes, folder, previous, progress)
    store = _Store.resume(folder, encoder.name, count)
    old = _Reused.of(previous, encoder.name)
    done = 0
    progress("vectors", done, count)
    for window in _windows(nodes()):
        store.fill(window, encoder, old)
        done += len(window)
        progress("vectors", done, count)
    store.finish()


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
            if (meta["encoder"], meta["nodes"], meta["format"]) == (encoder_name, count, FORMAT):
                store._vectors = mapped(folder / VECTORS, (count, meta["dimensions"]), "r+")
                store._hashes = mapped_hashes(folder / HASHES, count, "r+")
        except (OSError, EOFError, ValueError, KeyError, TypeError):
            return cls(folder, encoder_name, count)
        return store

    def fill(self, window: Sequence[NodeText], encoder: Encoder, old: _Reused) -> None:
        """Put the vectors of some nodes in place; the hashes are written last, so that they never promise too much."""
        texts = [node.document for node in window]
        hashes = np.array([_hash(text) for text in texts], dtype="S16")
        numbers = np.array([node.number for node in window])
        if self._hashes is not None:
            missing = np.flatnonzero(self._hashes[numbers] != hashes)
        else:
            missing = np.arange(len(window))
        if not len(missing):
            return
        made = old.encode([texts[place] for place in missing], hashes[missing], encoder)
        if self._vectors is None or self._hashes is None:
            self._vectors, self._hashes = self._create(made.shape[1])
        self._vectors[numbers[missing]] = made
        _flush(self._vectors)
        self._hashes[numbers[missing]] = hashes[missing]
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


class _Reused:
    """Vectors that exist already, by the hash of their text."""

    def __init__(self, vectors: Vectors, hashes: Hashes) -> None:
        self._vectors = vectors
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    @classmethod
    def of(cls, folder: Path | None, encoder_name: str) -> _Reused:
        """Those of a finished index of the same encoder; none where there is no such index."""
        if folder is not None and (folder / META).is_file():
            index = vectors.open(folder)
            if index.encoder_name == encoder_name:
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


def _windows(nodes: Iterable[NodeText]) -> Iterator[list[NodeText]]:
    iterator = iter(nodes)
    while window := list(islice(iterator, _WINDOW)):
        yield window


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _flush(array: npt.NDArray[np.generic]) -> None:
    if isinstance(array, np.memmap):
        array.flush()
