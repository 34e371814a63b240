"""The layers of a BERT in NumPy: what runs ``minilm`` where onnxruntime is not installed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kbnav.encoders.base import Vectors

EPSILON = 1e-12
"""Of the normalisation of layers."""


class NumpyLayers:
    """See ``Layers`` of ``kbnav.encoders.minilm``."""

    def __init__(self, weights: Mapping[str, Vectors], layers: int, heads: int) -> None:
        self._norm = weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"]
        self._layers = [_Layer(weights, number, heads) for number in range(layers)]

    def __call__(self, hidden: Vectors, mask: Vectors) -> Vectors:
        """See ``Layers``."""
        hidden = _layer_norm(hidden, *self._norm)
        blocked = np.float32(-1e9) * (1.0 - mask)[:, None, None, :]
        for layer in self._layers:
            hidden = layer(hidden, blocked)
        return hidden


class _Layer:
    """One transformer layer: attention and a feed-forward part, each added to its input and normalised."""

    def __init__(self, weights: Mapping[str, Vectors], number: int, heads: int) -> None:
        def part(name: str) -> tuple[Vectors, Vectors]:
            prefix = f"encoder.layer.{number}.{name}"
            return weights[f"{prefix}.weight"], weights[f"{prefix}.bias"]

        self._heads = heads
        projections = [part(f"attention.self.{name}") for name in ("query", "key", "value")]
        self._qkv = np.concatenate([w for w, _ in projections]).T.copy(), np.concatenate([b for _, b in projections])
        self._mix = _transposed(part("attention.output.dense"))
        self._mix_norm = part("attention.output.LayerNorm")
        self._widen = _transposed(part("intermediate.dense"))
        self._narrow = _transposed(part("output.dense"))
        self._norm = part("output.LayerNorm")

    def __call__(self, hidden: Vectors, blocked: Vectors) -> Vectors:
        """``hidden`` is [texts, tokens, width]; ``blocked``, [texts, 1, 1, tokens], is very negative on padding."""
        texts, tokens, width = hidden.shape
        flat = hidden.reshape(-1, width)
        qkv = (flat @ self._qkv[0] + self._qkv[1]).reshape(texts, tokens, 3, self._heads, width // self._heads)
        query, value = np.ascontiguousarray(qkv[:, :, ::2].transpose(2, 0, 3, 1, 4))
        key = np.ascontiguousarray(qkv[:, :, 1].transpose(0, 2, 3, 1))  # [texts, heads, 32, tokens]
        query *= np.float32((width // self._heads) ** -0.5)
        scores = np.matmul(query, key)
        scores += blocked
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed = np.matmul(scores, value).transpose(0, 2, 1, 3).reshape(-1, width)
        attended = _layer_norm(mixed @ self._mix[0] + self._mix[1] + flat, *self._mix_norm)
        wide = _gelu(attended @ self._widen[0] + self._widen[1])
        out = _layer_norm(wide @ self._narrow[0] + self._narrow[1] + attended, *self._norm)
        return out.reshape(texts, tokens, width)


def _layer_norm(x: Vectors, weight: Vectors, bias: Vectors) -> Vectors:
    centred: Vectors = x - x.mean(axis=-1, keepdims=True)
    variance = np.einsum("...i,...i->...", centred, centred)[..., None] / np.float32(x.shape[-1])
    centred /= np.sqrt(variance + np.float32(EPSILON))
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
