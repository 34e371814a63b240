"""Training the dense retriever: two encoders by contrast with hard negatives (STaRK, section 3.1).

The trainer, the loss and the scores are sentence-transformers'. The loss is the multiple-negatives ranking loss, a
softmax over the cosines of a question with the documents of its batch (Henderson et al., 2017), with gradient caching
(Gao et al., 2021), so that the batch is what was asked for whatever fits into memory at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.schema import Progress, no_progress
from kbnav.planning.seq2seq_model import device_of, dtype_of
from kbnav.settings import Settings
from kbnav.trained import Card
from kbnav.training.batches import Row, answer_free
from kbnav.training.course import Ended, Listener, Schedule, arguments, quiet, require, run
from kbnav.training.data import Documents, Split, draw_pool
from kbnav.training.folder import Workshop, identity, versions
from kbnav.training.models import base_folder, bi_encoder, mini_batch, there_and_back, weights_sha256
from kbnav.training.negatives import Miner, positives
from kbnav.training.validation import validation

_PACKAGES = ("sentence-transformers", "torch", "transformers")
_CHARACTERS = 16
"""Of a document for each token that is read; what is behind them is not even cut into tokens."""
_HARD = 20
"""Of what is found for a validation question before any training, so many are in the pool."""


@dataclass(frozen=True)
class DenseOptions:
    """What is trained on what.

    ``two`` encoders are trained, or one for questions and documents. ``negatives`` are the sources of hard negatives
    with their numbers. Of a question at most ``positives`` answers are learned from. ``longest`` tokens of a text are
    read. The validation looks for answers among ``pool`` documents (0: all). ``relations``: documents with relations.
    """

    base: str = "roberta-base"
    two: bool = True
    negatives: tuple[tuple[str, int], ...] = (("vss", 20),)
    positives: int = 5
    longest: int = 256
    relations: bool = False
    pool: int = 2000


def train_dense(
    kb: SkbKB,
    split: Split,
    out: Path,
    options: DenseOptions,
    schedule: Schedule,
    settings: Settings,
    *,
    listener: Listener | None = None,
    progress: Progress = no_progress,
) -> Card | None:
    """Train into the folder ``out``, which has a card when it is over; a training that was killed goes on there.

    Of several processes the first one writes and gives back the card, the others None.

    Raises UsageError where nothing can be learned, the base, the extra or the device is missing, or memory does not
    suffice; before anything is written where that can be known.
    """
    require("training the dense retriever")
    quiet()
    documents = Documents(kb.skb, relations=options.relations)
    base_folder(options.base)
    device = device_of(schedule.device)
    dtype = dtype_of(schedule.dtype, device)
    miner = Miner(kb, documents, settings, dict(options.negatives), schedule.seed)
    model = bi_encoder(options.base, device, two=options.two, longest=options.longest)
    base_sha256 = weights_sha256(model)
    workshop = Workshop(out, _identity(kb, split, options, schedule, dtype, base_sha256))
    args = _arguments(workshop, options, schedule, device, dtype, miner.count)
    with args.main_process_first(desc="the training's data"):
        if args.should_save:
            workshop.begin()
        found = workshop.prepared(partial(_prepare, kb, split, options, schedule, miner, progress))
    texts = _Texts(documents, options.longest)
    trainer = _trainer(model, args, found, split, texts, schedule, device)
    ended = run(trainer, out, schedule, listener, progress)
    if not args.should_save:
        return None
    files = workshop.put(lambda part: trainer.model.save_pretrained(str(part), create_model_card=False))
    card = _card(kb, split, options, schedule, len(found["pool"]), ended).model_copy(
        update={"base_sha256": base_sha256, "files": files, "device": f"{device}, {dtype}"}
    )
    workshop.finish(card)
    return card


def _identity(kb: SkbKB, split: Split, options: DenseOptions, schedule: Schedule, dtype: str, base_sha256: str) -> str:
    seen = [[one.model_dump() for one in part] for part in split.seen]
    fixed = {"options": asdict(options), "schedule": schedule.fixed, "dtype": dtype, "base": base_sha256}
    return identity(fixed, {"seen": seen, "skb": kb.skb.meta.data})


def _prepare(
    kb: SkbKB, split: Split, options: DenseOptions, schedule: Schedule, miner: Miner, progress: Progress
) -> dict[str, Any]:
    """The rows, each the place of a question and its nodes, the answer first; and the validation's documents."""
    rows = []
    for place, one in enumerate(split.training):
        progress("negatives", place, len(split.training))
        negatives = miner.negatives(one)
        rows += [(place, [node, *negatives]) for node in positives(one, options.positives, schedule.seed)]
    progress("negatives", len(split.training), len(split.training))
    hard = {one.id: miner.hard(one, _HARD) for one in split.validation}
    return {"rows": rows, "pool": draw_pool(split, hard, kb.skb.meta.nodes, options.pool, schedule.seed)}


class _Texts:
    """Documents as they are read, and keys that are equal where they are."""

    def __init__(self, documents: Documents, longest: int) -> None:
        self._documents, self._most = documents, longest * _CHARACTERS
        self._keys: dict[str, int] = {}

    def __call__(self, node: int) -> str:
        return self._documents.text(node)[: self._most]

    def key(self, node: int) -> int:
        return self._keys.setdefault(self(node), len(self._keys))


def _row(question: int, nodes: Sequence[int], split: Split, texts: _Texts) -> Row:
    answers = frozenset(map(texts.key, split.training[question].answers))
    return Row(tuple(map(texts.key, nodes)), answers)


def _columns(negatives: int) -> list[str]:
    """The columns of what is learned from: a question, its answer, its negatives."""
    return ["question", "answer", *(f"negative_{number}" for number in range(1, negatives + 1))]


def _arguments(
    workshop: Workshop, options: DenseOptions, schedule: Schedule, device: str, dtype: str, negatives: int
) -> Any:
    from sentence_transformers import SentenceTransformerTrainingArguments

    question, *documents = _columns(negatives)
    routes = {question: "query", **dict.fromkeys(documents, "document")} if options.two else {}
    return arguments(
        SentenceTransformerTrainingArguments, workshop.work, schedule, device, dtype, router_mapping=routes
    )


def _trainer(
    model: Any, args: Any, found: Mapping[str, Any], split: Split, texts: _Texts, schedule: Schedule, device: str
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

    longest = max((texts(node) for _, nodes in rows[:500] for node in nodes), key=len)
    at_once = mini_batch(device, schedule.mini_batch, there_and_back(model, longest, "sentence_embedding"))
    learned = [_row(place, nodes, split, texts) for place, nodes in rows]
    return answer_free(SentenceTransformerTrainer, learned, args.world_size)(
        model=model,
        args=args,
        train_dataset=Dataset.from_dict({"row": list(range(len(rows)))}).with_transform(read),
        loss=CachedMultipleNegativesRankingLoss(model, mini_batch_size=at_once),
        evaluator=validation(split.validation, {node: texts(node) for node in found["pool"]}, at_once),
    )


def _card(kb: SkbKB, split: Split, options: DenseOptions, schedule: Schedule, pool: int, ended: Ended) -> Card:
    training, apart = split.seen
    return Card(
        kind="dense",
        skb=kb.skb.meta.name,
        schema_sha256=kb.skb.meta.schema_sha256,
        relations=options.relations,
        base=options.base,
        base_sha256="",
        settings={**asdict(options), **asdict(schedule)},
        data=dict(split.datasets),
        training=training,
        validation=apart,
        epochs=ended.points[-1].epoch,
        best_epoch=ended.best.epoch,
        pool=pool,
        before=dict(ended.points[0].scores),
        after=dict(ended.best.scores),
        seconds=ended.seconds,
        device="",
        versions=versions(*_PACKAGES),
        files={},
    )
