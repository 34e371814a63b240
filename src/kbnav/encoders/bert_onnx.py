"""The layers of a BERT as a graph of ONNX, made from its weights and run by onnxruntime, in 32 bits or in 8.

The graph is made anew whenever the encoder is loaded, which takes a quarter of a second: no file of it can be missing
or stale. In 8 bits, weights are rounded by column, and what goes into a product is rounded text by text when it is met
(``DynamicQuantizeMatMul`` of onnxruntime).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from kbnav.encoders.base import Vectors
from kbnav.encoders.bert_numpy import EPSILON

_OPERATORS, _FORMAT, _OWN = 20, 9, "com.microsoft"
"""The versions of the operators and of the file that the graph needs, and where onnxruntime's own operators are."""


def installed() -> bool:
    """Whether what this module needs is there."""
    return all(find_spec(package) is not None for package in ("onnx", "onnxruntime"))


class OnnxLayers:
    """See ``Layers`` of ``kbnav.encoders.minilm``. A call takes one thread."""

    def __init__(self, weights: Mapping[str, Vectors], layers: int, heads: int, *, int8: bool = False) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        graph = _Graph(int8).bert(weights, layers, heads)
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def __call__(self, hidden: Vectors, mask: Vectors) -> Vectors:
        """See ``Layers``."""
        found: Vectors = self._session.run(None, {"hidden": hidden, "mask": mask.astype(np.int32)})[0]
        return found


class _Graph:
    """Operations as they are added; each method gives the name of its result."""

    def __init__(self, int8: bool) -> None:
        self._int8 = int8
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def bert(self, weights: Mapping[str, Vectors], layers: int, heads: int) -> bytes:
        """The whole, from the sum of the embeddings to the last layer."""
        from onnx import TensorProto, helper

        hidden = self._norm("hidden", weights, "embeddings.LayerNorm")
        for number in range(layers):
            hidden = self._layer(hidden, weights, f"encoder.layer.{number}.", heads)
        width = len(weights["embeddings.LayerNorm.weight"])
        graph = helper.make_graph(
            self._nodes,
            "bert",
            [
                helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["texts", "tokens", width]),
                helper.make_tensor_value_info("mask", TensorProto.INT32, ["texts", "tokens"]),
            ],
            [helper.make_tensor_value_info(hidden, TensorProto.FLOAT, ["texts", "tokens", width])],
            self._constants,
        )
        versions = [helper.make_opsetid("", _OPERATORS), helper.make_opsetid(_OWN, 1)]
        made: bytes = helper.make_model(graph, opset_imports=versions, ir_version=_FORMAT).SerializeToString()
        return made

    def _layer(self, hidden: str, weights: Mapping[str, Vectors], layer: str, heads: int) -> str:
        parts = [self._linear(hidden, weights, f"{layer}attention.self.{one}") for one in ("query", "key", "value")]
        mixed = self._add("MultiHeadAttention", [*parts, "", "mask"], f"{layer}mixed", domain=_OWN, num_heads=heads)
        attended = self._linear(mixed, weights, f"{layer}attention.output.dense")
        attended = self._add("Add", [attended, hidden], f"{layer}attended")
        attended = self._norm(attended, weights, f"{layer}attention.output.LayerNorm")
        wide = self._add("Gelu", [self._linear(attended, weights, f"{layer}intermediate.dense")], f"{layer}wide")
        narrow = self._add("Add", [self._linear(wide, weights, f"{layer}output.dense"), attended], f"{layer}narrow")
        return self._norm(narrow, weights, f"{layer}output.LayerNorm")

    def _linear(self, x: str, weights: Mapping[str, Vectors], name: str) -> str:
        columns = weights[f"{name}.weight"].T
        bias = self._constant(f"{name}.bias", weights[f"{name}.bias"])
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

    def _norm(self, x: str, weights: Mapping[str, Vectors], name: str) -> str:
        given = [self._constant(f"{name}.{part}", weights[f"{name}.{part}"]) for part in ("weight", "bias")]
        return self._add("LayerNormalization", [x, *given], name, epsilon=EPSILON, axis=-1)

    def _constant(self, name: str, values: npt.NDArray[Any]) -> str:
        from onnx import numpy_helper

        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _add(self, operator: str, given: list[str], result: str, **options: Any) -> str:
        from onnx import helper

        self._nodes.append(helper.make_node(operator, given, [result], **options))
        return result
