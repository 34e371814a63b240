"""Training the reranker ``cross``: a cross-encoder of few layers, and a head over its score and the features.

The trainer and the losses are sentence-transformers': LambdaLoss on what answers and what does not (Wang et al., 2018),
or, where there is a teacher, ListNet on the teacher's scores (Cao et al., 2007). The head, a weight a column, is fitted
on the validation questions, which the cross-encoder did not learn from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kbnav.encoders.trained import MODEL, Card, check_schema, read_card
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.retrieval.cross import SYSTEMS, Candidates, CrossScorer, Head, Scores, document_text
from kbnav.training.data import Listed, Split, means, plain_trainer, read_lists
from kbnav.training.models import base_folder, cross_encoder, export, weights_sha256
from kbnav.training.task import CardFacts, Task, Work

_PACKAGES = ("sentence-transformers", "torch", "transformers")
_RIDGE = 0.01


@dataclass(frozen=True)
class CrossOptions:
    """What is trained on what.

    Of ``base`` the model keeps ``layers`` (0: all). It reads ``longest`` tokens of question and document. Of a question
    it learns ``listed`` nodes, its answers first among them (at most ``positives``); ``depth`` nodes are ranked again.
    ``teacher`` is the folder of a larger one, whose scores are learned.
    """

    base: str = "roberta-base"
    layers: int = 2
    longest: int = 96
    systems: tuple[str, ...] = SYSTEMS
    depth: int = 100
    listed: int = 20
    positives: int = 4
    teacher: str = ""


def train_cross(task: Task, options: CrossOptions) -> Card | None:
    """Train as ``Task`` says."""
    machine = task.machine("the cross-encoder", "onnx", "onnxruntime")
    base_folder(options.base)
    kb, teacher = task.kb, _teacher(task.kb, options)
    candidates = Candidates.open(kb, task.settings, options.systems, options.depth, {})
    model = cross_encoder(
        options.base, machine[0], layers=options.layers, longest=options.longest, seed=task.schedule.seed
    )
    base_sha256 = weights_sha256(model)
    work = Work(task, options, machine, base_sha256, {"teacher": teacher.digest if teacher else ""})
    args = work.arguments(_arguments())
    found = work.prepared(args, partial(_prepare, task, options, candidates))
    texts = partial(document_text, kb.skb, longest=options.longest)
    at_once = task.schedule.mini_batch
    lists = read_lists(found["validation"], task.split.validation)
    rows = _rows(found["learned"], task.split, texts)
    ended = work.run(trainer := _trainer(model, args, rows, lists, texts, at_once, taught=bool(teacher)))
    if ended is None:
        return None
    scores = [_scored(trainer.model, one, texts, at_once) for one in lists]
    head = fit_head(scores, lists)
    after = means(lists, [head(given, one.features) for given, one in zip(scores, lists, strict=True)])
    told = CardFacts("cross", options.base, base_sha256, True, options.depth, _PACKAGES, after=after)
    return work.finish(ended, partial(_save, trainer.model, head), told)


def _teacher(kb: SkbKB, options: CrossOptions) -> Card | None:
    """The card of the teacher. Raises UsageError where it was trained for another schema."""
    if not options.teacher:
        return None
    card = read_card(Path(options.teacher), "cross")
    check_schema(Path(options.teacher), card, kb.skb.meta.name, kb.skb.meta.schema_sha256)
    return card


def _prepare(task: Task, options: CrossOptions, candidates: Candidates) -> dict[str, Any]:
    """The lists that are learned from, and the candidates of the validation questions, as plain data."""
    kb, split, teacher, progress = task.kb, task.split, options.teacher, task.progress
    learned = []
    scorer = CrossScorer(Path(teacher) / MODEL, _longest(teacher)) if teacher else None
    for place, one in enumerate(split.training):
        progress("candidates", place, len(split.training))
        right = one.answers[: options.positives]
        wrong = [node for node in candidates.find(one.text).nodes if node not in one.answers]
        nodes = [*right, *wrong][: max(options.listed, len(right) + 1)]
        labels = [1.0] * len(right) + [0.0] * (len(nodes) - len(right))
        if scorer:
            texts = [document_text(kb.skb, node, _longest(teacher)) for node in nodes]
            labels = scorer.score(one.text, texts).tolist()
        if wrong:
            learned.append({"question": place, "nodes": nodes, "labels": labels})
    progress("candidates", len(split.training), len(split.training))
    if not learned:
        raise UsageError("there is nothing to learn from: the systems list no node that is no answer")
    found = [candidates.find(one.text) for one in split.validation]
    validation = [{"nodes": one.nodes, "features": one.features.tolist()} for one in found]
    return {"learned": learned, "validation": validation}


def _longest(folder: str) -> int:
    return int(read_card(Path(folder)).settings["longest"])


def _arguments() -> Any:
    from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments

    return CrossEncoderTrainingArguments


def _rows(learned: Sequence[Mapping[str, Any]], split: Split, texts: Callable[[int], str]) -> dict[str, list[Any]]:
    """The columns of what is learned from: questions, each with its documents and what these are worth."""
    return {
        "question": [split.training[one["question"]].text for one in learned],
        "documents": [[texts(node) for node in one["nodes"]] for one in learned],
        "labels": [one["labels"] for one in learned],
    }


def _trainer(
    model: Any,
    args: Any,
    rows: Mapping[str, list[Any]],
    lists: Sequence[Listed],
    texts: Callable[[int], str],
    at_once: int,
    *,
    taught: bool,
) -> Any:
    from datasets import Dataset
    from sentence_transformers.base.evaluation import BaseEvaluator
    from sentence_transformers.cross_encoder import CrossEncoderTrainer
    from sentence_transformers.cross_encoder.losses import LambdaLoss, ListNetLoss

    class Validation(BaseEvaluator):  # type: ignore[misc]
        def __call__(self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1) -> Any:  # noqa: ARG002
            return means(lists, [_scored(model, one, texts, at_once) for one in lists])

    loss = (ListNetLoss if taught else LambdaLoss)(model, mini_batch_size=at_once)
    return plain_trainer(CrossEncoderTrainer)(
        model=model, args=args, train_dataset=Dataset.from_dict(rows), loss=loss, evaluator=Validation()
    )


def _scored(model: Any, listed: Listed, texts: Any, at_once: int) -> Scores:
    """The model's scores of a question's candidates."""
    import torch

    pairs = [(listed.example.text, texts(node)) for node in listed.nodes]
    if not pairs:
        return np.zeros(0, np.float32)
    found = model.predict(pairs, batch_size=at_once, show_progress_bar=False, activation_fn=torch.nn.Identity())
    return np.asarray(found, np.float32)


def fit_head(scores: Sequence[Scores], lists: Sequence[Listed]) -> Head:
    """The weights under which the answers are likeliest among their candidates: a softmax over each question's list.

    The weights of a column of no difference are 0. Where no list has an answer, the cross-encoder's score alone counts.
    """
    from scipy.optimize import minimize

    rows = [np.column_stack([s, one.features]) for s, one in zip(scores, lists, strict=True) if one.right.any()]
    rights = [one.right for one in lists if one.right.any()]
    width = 1 + lists[0].features.shape[1]
    if not rows:
        return Head([0.0] * width, [1.0] * width, [1.0] + [0.0] * (width - 1))
    stacked = np.concatenate(rows).astype(np.float64)
    mean, scale = stacked.mean(axis=0), stacked.std(axis=0)
    scale[scale == 0] = 1.0
    scaled = [(one - mean) / scale for one in rows]

    def loss(weights: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        total, slope = _RIDGE * float(weights @ weights), 2 * _RIDGE * weights
        for one, right in zip(scaled, rights, strict=True):
            logits = one @ weights
            shares = np.exp(logits - logits.max())
            shares /= shares.sum()
            own = shares[right].sum()
            total -= float(np.log(own)) / len(scaled)
            slope = slope + (shares @ one - (shares[right] / own) @ one[right]) / len(scaled)
        return total, slope

    best = minimize(loss, np.zeros(width), jac=True, method="L-BFGS-B")
    return Head(mean.tolist(), scale.tolist(), best.x.tolist())


def _save(model: Any, head: Head, folder: Path) -> None:
    model.save_pretrained(str(folder), create_model_card=False)
    head.save(folder)
    export(model, folder)
