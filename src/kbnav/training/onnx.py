"""Trained models as onnxruntime reads them, their weights as bytes. Needs the extra ``train``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from kbnav.retrieval.cross_model import ONNX


def export(model: Any, folder: Path, *, int8: bool = True) -> Path:
    """Write ``model.onnx`` of a sequence classifier of transformers; with ``int8`` its weights are quantized.

    Its inputs are ``input_ids``, ``attention_mask`` and, where the model has them, ``types``, each [texts, tokens].
    """
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    names = ["input_ids", "attention_mask"]
    if getattr(model.config, "type_vocab_size", 0) > 1:
        names.append("types")

    class Logits(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any, types: Any = None) -> Any:
            more = {} if types is None else {"token_type_ids": types}
            return self.model(input_ids=input_ids, attention_mask=attention_mask, **more).logits

    model = model.eval().cpu()
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
