"""Training the reranker ``cross``: a cross-encoder of few layers, and a head over its score and the features.

The trainer and the losses are sentence-transformers': LambdaLoss on what answers and what does not (Wang et al., 2018),
or, where there is a teacher, ListNet on the teacher's scores (Cao et al., 2007). The head, a weight a column, is fitted
on the validation questions, which the cross-encoder did not learn from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.schema import Progress, no_progress
from kbnav.planning.seq2seq_model import device_of, dtype_of
from kbnav.retrieval.cross import shown
from kbnav.retrieval.cross_candidates import SYSTEMS, Candidates
from kbnav.retrieval.cross_model import Head, Scores, open_scorer
from kbnav.settings import Settings
from kbnav.trained import Card, check_schema, read_card
from kbnav.training.batches import plain_trainer
from kbnav.training.candidates import Listed, means, read_lists
from kbnav.training.course import Ended, Listener, Schedule, arguments, quiet, require, run
from kbnav.training.data import Split
from kbnav.training.folder import Workshop, identity, versions
from kbnav.training.models import base_folder, cross_encoder, mini_batch, there_and_back, weights_sha256
from kbnav.training.onnx import export

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


def train_cross(
    kb: SkbKB,
    split: Split,
    out: Path,
    options: CrossOptions,
    schedule: Schedule,
    settings: Settings,
    *,
    listener: Listener | None = None,
    progress: Progress = no_progress,
) -> Card | None:
    """Train into the folder ``out``; see ``train_dense``, whose rules hold here too."""
    require("training the cross-encoder", "onnx", "onnxruntime")
    quiet()
    base_folder(options.base)
    device = device_of(schedule.device)
    dtype = dtype_of(schedule.dtype, device)
    teacher = _teacher(kb, options)
    candidates = Candidates.open(kb, settings, options.systems, options.depth, {})
    model = cross_encoder(options.base, device, layers=options.layers, longest=options.longest, seed=schedule.seed)
    base_sha256 = weights_sha256(model)
    workshop = Workshop(out, _identity(kb, split, options, schedule, dtype, base_sha256, teacher))
    args = _arguments(workshop, schedule, device, dtype)
    with args.main_process_first(desc="the training's data"):
        if args.should_save:
            workshop.begin()
        prepare = partial(_prepare, kb, split, options, candidates, options.teacher, progress)
        found = workshop.prepared(prepare)
    texts = partial(shown, kb.skb, longest=options.longest)
    longest = max((texts(node) for one in found["learned"][:100] for node in one["nodes"]), key=len)
    at_once = mini_batch(
        device, schedule.mini_batch, there_and_back(model, (split.training[0].text, longest), "scores")
    )
    lists = read_lists(found["validation"], split.validation)
    trainer = _trainer(model, args, found, split, texts, lists, at_once, teacher=bool(teacher))
    ended = run(trainer, out, schedule, listener, progress)
    if not args.should_save:
        return None
    scores = [_scored(trainer.model, one, texts, at_once) for one in lists]
    head = fit_head(scores, lists)
    after = means(lists, [head(given, one.features) for given, one in zip(scores, lists, strict=True)])
    files = workshop.put(partial(_save, trainer.model, head))
    card = _card(kb, split, options, schedule, ended, after)
    card = card.model_copy(update={"base_sha256": base_sha256, "files": files, "device": f"{device}, {dtype}"})
    workshop.finish(card)
    return card


def _teacher(kb: SkbKB, options: CrossOptions) -> Card | None:
    """The card of the teacher. Raises UsageError where it was trained for another schema."""
    if not options.teacher:
        return None
    card = read_card(Path(options.teacher), "cross")
    check_schema(Path(options.teacher), card, kb.skb.meta.name, kb.skb.meta.schema_sha256)
    return card


def _identity(
    kb: SkbKB, split: Split, options: CrossOptions, schedule: Schedule, dtype: str, base: str, teacher: Card | None
) -> str:
    seen = [[one.model_dump() for one in part] for part in split.seen]
    fixed = {"options": asdict(options), "schedule": schedule.fixed, "dtype": dtype, "base": base}
    return identity(fixed, {"seen": seen, "skb": kb.skb.meta.data, "teacher": teacher.digest if teacher else ""})


def _prepare(
    kb: SkbKB, split: Split, options: CrossOptions, candidates: Candidates, teacher: str, progress: Progress
) -> dict[str, Any]:
    """The lists that are learned from, and the candidates of the validation questions, as plain data."""
    learned = []
    scorer = open_scorer(Path(teacher), _longest(teacher)) if teacher else None
    for place, one in enumerate(split.training):
        progress("candidates", place, len(split.training))
        right = one.answers[: options.positives]
        wrong = [node for node in candidates.find(one.text).nodes if node not in one.answers]
        nodes = [*right, *wrong][: max(options.listed, len(right) + 1)]
        labels = [1.0] * len(right) + [0.0] * (len(nodes) - len(right))
        if scorer:
            texts = [shown(kb.skb, node, _longest(teacher)) for node in nodes]
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


def _arguments(workshop: Workshop, schedule: Schedule, device: str, dtype: str) -> Any:
    from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments

    return arguments(CrossEncoderTrainingArguments, workshop.work, schedule, device, dtype)


def _trainer(
    model: Any,
    args: Any,
    found: Mapping[str, Any],
    split: Split,
    texts: Any,
    lists: Sequence[Listed],
    at_once: int,
    *,
    teacher: bool,
) -> Any:
    from datasets import Dataset
    from sentence_transformers.base.evaluation import BaseEvaluator
    from sentence_transformers.cross_encoder import CrossEncoderTrainer
    from sentence_transformers.cross_encoder.losses import LambdaLoss, ListNetLoss

    class Validation(BaseEvaluator):  # type: ignore[misc]
        def __call__(self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1) -> Any:  # noqa: ARG002
            return means(lists, [_scored(model, one, texts, at_once) for one in lists])

    learned = found["learned"]
    rows = {
        "question": [split.training[one["question"]].text for one in learned],
        "documents": [[texts(node) for node in one["nodes"]] for one in learned],
        "labels": [one["labels"] for one in learned],
    }
    loss = (ListNetLoss if teacher else LambdaLoss)(model, mini_batch_size=at_once)
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


def _card(
    kb: SkbKB,
    split: Split,
    options: CrossOptions,
    schedule: Schedule,
    ended: Ended,
    after: Mapping[str, float],
) -> Card:
    training, apart = split.seen
    return Card(
        kind="cross",
        skb=kb.skb.meta.name,
        schema_sha256=kb.skb.meta.schema_sha256,
        relations=True,
        base=options.base,
        base_sha256="",
        settings={**asdict(options), **asdict(schedule)},
        data=dict(split.datasets),
        training=training,
        validation=apart,
        epochs=ended.points[-1].epoch,
        best_epoch=ended.best.epoch,
        pool=options.depth,
        before=dict(ended.points[0].scores),
        after=dict(after),
        seconds=ended.seconds,
        device="",
        versions=versions(*_PACKAGES),
        files={},
    )
