"""Training the dense retriever by contrast with hard negatives: two encoders (STaRK, section 3.1).

The trainers, the losses and the scores are sentence-transformers'. The loss is the multiple-negatives ranking loss, a
softmax over the likeness of a question with the documents of its batch (Henderson et al., 2017), with gradient caching
(Gao et al., 2021), so that the batch is what was asked for whatever fits into memory at once. Likeness is the cosine of
two vectors.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from kbnav.encoders.minilm import find_files
from kbnav.encoders.trained import EXPORTED, SIDES, TOKENIZER, Card
from kbnav.errors import UsageError
from kbnav.training.data import (
    Documents,
    Miner,
    Row,
    Split,
    answer_free,
    draw_pool,
    positives,
    read_sources,
    validation,
)
from kbnav.training.task import Task, TrainingOptions, Work, find_machine

_PACKAGES = ("sentence-transformers", "torch", "transformers")
_CHARACTERS = 16
"""Of a document for each token that is read; what is behind them is not even cut into tokens."""
_HARD = 20
"""Of what is found for a validation question before any training, so many are in the pool."""


class DenseOptions(TrainingOptions):
    """How a dense retriever is trained."""

    base: str = "roberta-base"
    """What the training begins with: a name on the Hugging Face hub, a folder, or minilm."""
    two: bool = True
    """Two encoders, or one for questions and documents."""
    negatives: tuple[str, ...] = ("vss=20",)
    """Sources of hard negatives with their numbers, as in vss=15,bm25=5."""
    positives: int = Field(default=5, ge=1)
    """Answers of a question that are learned from, at most; drawn at random."""
    longest: int = Field(default=256, ge=1)
    """Tokens of a text that are read."""
    pool: int = Field(default=2000, ge=0)
    """Documents among which validation looks for answers; 0: all."""

    @field_validator("negatives")
    @classmethod
    def _sources(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        read_sources(given)
        return given


def train_dense(task: Task, options: DenseOptions) -> Card | None:
    """Train as ``Task`` says."""
    machine = find_machine(options, "the dense retriever", "onnx", "onnxruntime")
    from sentence_transformers import SentenceTransformerTrainingArguments

    kb, split, relations = task.kb, task.split, bool(options.relations)
    documents = Documents(kb.skb, relations=relations)
    base_folder(options.base)
    miner = Miner(kb, documents, task.settings, read_sources(options.negatives), options.seed)
    model = bi_encoder(options.base, machine[0], two=options.two, longest=options.longest)
    base_sha256 = weights_sha256(model)
    work = Work(task, options, machine, base_sha256)
    question, *others = _columns(miner.count)
    routes = {question: "query", **dict.fromkeys(others, "document")} if options.two else {}
    args = work.arguments(SentenceTransformerTrainingArguments, router_mapping=routes)
    found = work.prepared(args, partial(_prepare, task, options, miner))
    texts = _Texts(documents, options.longest)
    ended = work.run(trainer := _trainer(model, args, found, split, texts, options.mini_batch))
    if ended is None:
        return None

    def save(part: Path) -> None:
        trainer.model.save_pretrained(str(part), create_model_card=False)
        export_encoders(trainer.model, part)

    facts = {"kind": "dense", "base": options.base, "base_sha256": base_sha256, "pool": len(found["pool"])}
    return work.finish(ended, save, _PACKAGES, {}, relations=relations, **facts)


def _prepare(task: Task, options: DenseOptions, miner: Miner) -> dict[str, Any]:
    rows, split, seed, progress = [], task.split, options.seed, task.progress
    for place, one in enumerate(split.training):
        progress("negatives", place, len(split.training))
        negatives = miner.negatives(one)
        rows += [(place, [node, *negatives]) for node in positives(one, options.positives, seed)]
    progress("negatives", len(split.training), len(split.training))
    hard = {one.id: miner.hard(one, _HARD) for one in split.validation}
    return {"rows": rows, "pool": draw_pool(split, hard, task.kb.skb.meta.nodes, options.pool, seed)}


class _Texts:
    """Documents as they are read, and keys that are equal where they are."""

    def __init__(self, documents: Documents, longest: int) -> None:
        self._documents, self._most = documents, longest * _CHARACTERS
        self._keys: dict[str, int] = {}

    def __call__(self, node: int) -> str:
        return self._documents.text(node)[: self._most]

    def key(self, node: int) -> int:
        return self._keys.setdefault(self(node), len(self._keys))


def _columns(negatives: int) -> list[str]:
    return ["question", "answer", *(f"negative_{number}" for number in range(1, negatives + 1))]


def _trainer(
    model: Any,
    args: Any,
    found: Mapping[str, Any],
    split: Split,
    texts: _Texts,
    at_once: int,
) -> Any:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer
    from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss

    rows = found["rows"]
    columns = _columns(len(rows[0][1]) - 1)

    def read(batch: Mapping[str, Sequence[int]]) -> dict[str, list[str]]:
        taken = [rows[number] for number in batch["row"]]
        lines = [[split.training[place].text, *map(texts, nodes)] for place, nodes in taken]
        return {name: [line[number] for line in lines] for number, name in enumerate(columns)}

    answers = (frozenset(map(texts.key, split.training[place].answers)) for place, _ in rows)
    learned = [Row(tuple(map(texts.key, nodes)), own) for (_, nodes), own in zip(rows, answers, strict=True)]
    pool = {node: texts(node) for node in found["pool"]}
    return answer_free(SentenceTransformerTrainer, learned, args.world_size)(
        model=model,
        args=args,
        train_dataset=Dataset.from_dict({"row": list(range(len(rows)))}).with_transform(read),
        loss=CachedMultipleNegativesRankingLoss(model, mini_batch_size=at_once),
        evaluator=validation(split.validation, pool, at_once),
    )


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
