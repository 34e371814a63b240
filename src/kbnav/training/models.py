"""Bases that are trained on, by name or folder, and trained models as onnxruntime reads them (extra ``train``)."""

from __future__ import annotations

import hashlib
import json
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

from kbnav.encoders.minilm import find_files
from kbnav.encoders.trained import EXPORTED, SIDES, TOKENIZER
from kbnav.errors import UsageError

MINILM = "minilm"


def base_folder(base: str) -> str:
    """Where a base is: ``minilm`` in its package, a folder, or a name of the hub. Raises UsageError."""
    if base == MINILM:
        return str(find_files()[0].parent)
    if base.startswith((".", "/", "~")) and not Path(base).expanduser().is_dir():
        raise UsageError(f"no base {base!r}: there is no such folder")
    return base


def bi_encoder(base: str, device: str, *, two: bool, longest: int) -> Any:
    """Two encoders or one for both (STaRK, 3.1), reading ``longest`` tokens. Raises UsageError for the base."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Router

    try:
        model = SentenceTransformer(base_folder(base), device=device).float()
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        raise UsageError(f"no base {base!r}: {str(error).strip().splitlines()[0]}") from error
    positions = model.max_seq_length or longest
    if two:
        parts = list(model.children())
        router = Router.for_query_document(query_modules=parts, document_modules=deepcopy(parts))
        model = SentenceTransformer(modules=[router], device=device)
    model.max_seq_length = min(longest, positions)
    return model


def weights_sha256(model: Any) -> str:
    """Of the values of all weights, in the order of their names."""
    digest = hashlib.sha256()
    for name, values in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(values.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def export_encoders(encoder: Any, folder: Path) -> None:
    """Write what encodes questions and documents, one model each or one for both, and not quantized."""
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
    types = "token_type_ids" in encoder.tokenizer.model_input_names
    for side, modules in zip(SIDES, sides, strict=False):
        _export(Vector(modules), folder / f"{side}.onnx", types=types)
    (folder / EXPORTED).write_text(json.dumps({"longest": encoder.max_seq_length, "sides": len(sides)}))
    encoder.tokenizer.backend_tokenizer.save(str(folder / TOKENIZER))


def _export(model: Any, path: Path, *, types: bool) -> None:
    import torch

    names = ["input_ids", "attention_mask", *(["types"] if types else [])]
    example = torch.ones((2, 8), dtype=torch.long)
    axes = {name: {0: "texts", 1: "tokens"} for name in names} | {"found": {0: "texts"}}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            tuple(example for _ in names),
            str(path),
            input_names=names,
            output_names=["found"],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
