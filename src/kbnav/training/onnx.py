"""Trained models as onnxruntime reads them, their weights as bytes. Needs the extra ``train``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from kbnav.retrieval.cross_model import ONNX


def export(encoder: Any, folder: Path, *, int8: bool = True) -> Path:
    """Write ``model.onnx`` of a ``CrossEncoder``; with ``int8`` its weights are quantized.

    Its inputs are ``input_ids``, ``attention_mask`` and, where its tokenizer gives them, ``types``: which of the two
    texts a token is of. Each is [texts, tokens].
    """
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    names = ["input_ids", "attention_mask"]
    if "token_type_ids" in encoder.tokenizer.model_input_names:
        names.append("types")
    model = encoder.model.eval().cpu()

    class Logits(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any, types: Any = None) -> Any:
            more = {} if types is None else {"token_type_ids": types}
            return self.model(input_ids=input_ids, attention_mask=attention_mask, **more).logits

    plain, path = folder / "float32.onnx", folder / ONNX
    example = torch.ones((2, 8), dtype=torch.long)
    axes = {name: {0: "texts", 1: "tokens"} for name in names} | {"scores": {0: "texts"}}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Logits(),
            tuple(example for _ in names),
            str(plain),
            input_names=names,
            output_names=["scores"],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
    if int8:
        quantize_dynamic(str(plain), str(path), weight_type=QuantType.QInt8)
        plain.unlink()
    else:
        plain.rename(path)
    return path
