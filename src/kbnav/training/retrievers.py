"""Training the retrievers of STaRK's section 3.1: ``dense``, two encoders by contrast, and ``qagnn``, a graph network.

The trainers are those of sentence-transformers and transformers: checkpoints, precision, several processes and the
early end are their own. The loss of ``dense`` is the multiple-negatives ranking loss, a softmax over the likeness of a
question with the documents of its batch (Henderson et al., 2017), with gradient caching (Gao et al., 2021), so that the
batch is what was asked for whatever fits into memory at once. Likeness is the cosine of two vectors. ``qagnn`` learns
from the candidates' subgraphs, by a ranking loss.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from kbnav.encoders.minilm import find_files
from kbnav.encoders.trained import EXPORTED, SIDES, TOKENIZER, Card
from kbnav.errors import UsageError
from kbnav.knowledge.skb.schema import Progress
from kbnav.knowledge.skb.vectors import VectorSearch
from kbnav.retrieval.base import build_retriever
from kbnav.retrieval.documents import document_vectors
from kbnav.retrieval.qagnn import (
    MOST_NODES,
    PER_SYSTEM,
    SYSTEMS,
    WEIGHTS,
    Builder,
    CandidateList,
    Candidates,
    Floats,
    Subgraph,
    tensors,
    together,
)
from kbnav.training.data import (
    Documents,
    Listed,
    Miner,
    Row,
    Split,
    answer_free,
    draw_pool,
    means,
    positives,
    read_lists,
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
    found = work.prepared(args, partial(_mined, task, options, miner))
    texts = _Texts(documents, options.longest)
    ended = work.run(trainer := _contrasting(model, args, found, split, texts, options.mini_batch))
    if ended is None:
        return None

    def save(part: Path) -> None:
        trainer.model.save_pretrained(str(part), create_model_card=False)
        export_encoders(trainer.model, part)

    facts = {"kind": "dense", "base": options.base, "base_sha256": base_sha256, "pool": len(found["pool"])}
    return work.finish(ended, save, _PACKAGES, {}, relations=relations, **facts)


def _mined(task: Task, options: DenseOptions, miner: Miner) -> dict[str, Any]:
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


def _contrasting(
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


_BUILT = 20_000
"""Subgraphs that are kept from one epoch to the next, of some 30 kB each."""


class QAGNNOptions(TrainingOptions):
    """How a graph network is trained."""

    systems: tuple[str, ...] = SYSTEMS
    """The systems whose nodes it ranks again."""
    depth: int = Field(default=50, ge=1)
    """Candidates in a subgraph."""
    nodes: int = Field(default=MOST_NODES, ge=1)
    """Nodes of a subgraph, at most."""
    width: int = Field(default=128, ge=1)
    layers: int = Field(default=3, ge=1)


def train_qagnn(task: Task, options: QAGNNOptions) -> Card | None:
    """Train as ``Task`` says."""
    machine = find_machine(options, "the graph network")
    from transformers import TrainingArguments

    kb, split, relations = task.kb, task.split, bool(options.relations)
    index, _ = document_vectors(kb, relations=relations)
    systems = [build_retriever(name, kb, task.settings, {}) for name in options.systems]
    candidates = Candidates(kb.skb, systems, options.depth)
    network, sizes = _network(task, options, index.dimensions)
    drawn = weights_sha256(network)
    work = Work(task, options, machine, drawn, {"encoder": index.encoder_name})
    args = work.arguments(TrainingArguments, remove_unused_columns=False)
    found = work.prepared(args, partial(_listed, split, candidates, task.progress))
    builder = Builder(kb.skb, index, most=options.nodes)
    lists = read_lists(found["validation"], split.validation)
    learned = _telling(found["training"], split)
    built = lru_cache(_BUILT)(lambda one: builder.build(one.example.text, CandidateList(list(one.nodes), one.features)))
    make = partial(_collate, built=built, index=index, relations=len(kb.skb.meta.relations))
    ended = work.run(_ranking(network, args, learned, lists, make, options.batch))
    if ended is None:
        return None
    kept = {"sizes": sizes._asdict(), "encoder": index.encoder_name}
    facts = {"kind": "qagnn", "base": "", "base_sha256": drawn, "relations": relations, "pool": options.depth}
    return work.finish(ended, partial(_save, network), ("torch", "transformers"), kept, **facts)


def _network(task: Task, options: QAGNNOptions, vectors: int) -> tuple[Any, Any]:
    import torch

    from kbnav.retrieval.qagnn_model import Network, Sizes

    meta, features = task.kb.skb.meta, PER_SYSTEM * len(options.systems)
    sizes = Sizes(vectors, len(meta.types), len(meta.relations), features, options.width, options.layers)
    torch.manual_seed(options.seed)
    return Network(sizes), sizes


def _save(network: Any, folder: Path) -> None:
    from safetensors.torch import save_file

    weights = {name: values.detach().cpu().contiguous() for name, values in network.state_dict().items()}
    save_file(weights, folder / WEIGHTS)


def _listed(split: Split, candidates: Candidates, progress: Progress) -> dict[str, Any]:
    total = len(split.training) + len(split.validation)
    found: dict[str, list[dict[str, Any]]] = {"training": [], "validation": []}
    done = 0
    for part, examples in (("training", split.training), ("validation", split.validation)):
        for one in examples:
            progress("candidates", done, total)
            listed = candidates.find(one.text)
            found[part].append({"nodes": listed.nodes, "features": listed.features.tolist()})
            done += 1
    progress("candidates", total, total)
    if not _telling(found["training"], split):
        raise UsageError("there is nothing to learn from: no answer of a training question is among its candidates")
    return found


def _telling(plain: Sequence[Mapping[str, Any]], split: Split) -> list[Listed]:
    """The training questions of whose candidates some are answers, and some are not."""
    return [one for one in read_lists(plain, split.training) if one.right.any() and not one.right.all()]


def _collate(
    lists: Sequence[Listed], *, built: Callable[[Listed], Subgraph], index: VectorSearch, relations: int
) -> dict[str, Any]:
    """A batch of the network's: subgraphs, which candidates answer, and where each question's candidates begin."""
    import torch

    right = np.concatenate([one.right for one in lists])
    starts = np.cumsum([0, *(len(one.nodes) for one in lists)])
    more = {"labels": torch.from_numpy(right), "starts": torch.from_numpy(starts)}
    return tensors(together([built(one) for one in lists], index, relations)) | more


def _ranking(network: Any, args: Any, learned: Sequence[Listed], lists: Sequence[Listed], make: Any, batch: int) -> Any:
    from transformers import Trainer

    class Graphs(Trainer):  # type: ignore[misc]
        """Its evaluation ranks the candidates of the validation questions."""

        def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
            scores = _scored(network, [one for one in lists if one.nodes], make, batch, self.args.device)
            given = iter(scores)
            every = [next(given) if one.nodes else np.zeros(0, np.float32) for one in lists]
            found = {f"eval_{name}": value for name, value in means(lists, every).items()}
            self.log(found)
            self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, found)
            return found

    return Graphs(model=network, args=args, train_dataset=list(learned), eval_dataset=list(lists), data_collator=make)


def _scored(network: Any, lists: Sequence[Listed], make: Any, batch: int, device: Any) -> list[Floats]:
    import torch

    found: list[Floats] = []
    was, _ = network.training, network.eval()
    with torch.no_grad():
        for first in range(0, len(lists), batch):
            some = lists[first : first + batch]
            given: Mapping[str, Any] = {name: values.to(device) for name, values in make(some).items()}
            scores = network(**{**given, "labels": None})["scores"].cpu().numpy()
            found += np.split(scores, np.cumsum([len(one.nodes) for one in some])[:-1])
    network.train(was)
    return found
