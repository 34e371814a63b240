"""Trained models as onnxruntime reads them (``kbnav.encoders.onnx_texts``). Needs the extra ``train``."""

from __future__ import annotations

import json
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

from kbnav.encoders.onnx_texts import TOKENIZER
from kbnav.encoders.trained import EXPORTED, SIDES
from kbnav.retrieval.cross_model import ONNX


def export(encoder: Any, folder: Path, *, int8: bool = True) -> Path:
    """Write ``model.onnx`` of a ``CrossEncoder``; with ``int8`` its weights are quantized."""
    import torch

    model, types = encoder.model.eval().cpu(), _has_types(encoder.tokenizer)

    class Logits(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any, types: Any = None) -> Any:
            more = {} if types is None else {"token_type_ids": types}
            return self.model(input_ids=input_ids, attention_mask=attention_mask, **more).logits

    return _export(Logits(), folder / ONNX, types=types, int8=int8)


def export_encoders(encoder: Any, folder: Path) -> None:
    """Write what encodes questions and documents of a ``SentenceTransformer``: one model each, or one for both.

    Their weights are not quantized: the vectors are those of the trained model.
    """
    import torch
    from sentence_transformers.base.modules import Router

    class Vector(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, modules: list[Any]) -> None:
            super().__init__()
            self.steps = torch.nn.ModuleList(modules)

        def forward(self, input_ids: Any, attention_mask: Any, types: Any = None) -> Any:
            features = {"input_ids": input_ids, "attention_mask": attention_mask}
            features |= {} if types is None else {"token_type_ids": types}
            for step in self.steps:
                features = step(features)
            return torch.nn.functional.normalize(features["sentence_embedding"], dim=1)

    plain = deepcopy(encoder).eval().cpu()
    first = plain[0]
    sides = [list(first.sub_modules[side]) for side in SIDES] if isinstance(first, Router) else [list(plain)]
    types = _has_types(encoder.tokenizer)
    for side, modules in zip(SIDES, sides, strict=False):
        _export(Vector(modules), folder / f"{side}.onnx", types=types, int8=False)
    (folder / EXPORTED).write_text(json.dumps({"longest": encoder.max_seq_length, "sides": len(sides)}))
    encoder.tokenizer.backend_tokenizer.save(str(folder / TOKENIZER))


def _has_types(tokenizer: Any) -> bool:
    return "token_type_ids" in tokenizer.model_input_names


def _export(model: Any, path: Path, *, types: bool, int8: bool) -> Path:
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    names = ["input_ids", "attention_mask", *(["types"] if types else [])]
    plain = path.with_suffix(".float32")
    example = torch.ones((2, 8), dtype=torch.long)
    axes = {name: {0: "texts", 1: "tokens"} for name in names} | {"found": {0: "texts"}}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            tuple(example for _ in names),
            str(plain),
            input_names=names,
            output_names=["found"],
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
