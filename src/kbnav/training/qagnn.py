"""Training ``qagnn``: a graph network over the candidates' subgraphs, by a ranking loss on the training split.

The course is transformers' trainer: checkpoints, precision, several processes and the early end are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from kbnav.encoders.trained import Card
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
from kbnav.training.data import Listed, Split, means, read_lists
from kbnav.training.dense import weights_sha256
from kbnav.training.task import Task, TrainingOptions, Work, find_machine

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
    found = work.prepared(args, partial(_prepare, split, candidates, task.progress))
    builder = Builder(kb.skb, index, most=options.nodes)
    lists = read_lists(found["validation"], split.validation)
    learned = _telling(found["training"], split)
    built = lru_cache(_BUILT)(lambda one: builder.build(one.example.text, CandidateList(list(one.nodes), one.features)))
    make = partial(_collate, built=built, index=index, relations=len(kb.skb.meta.relations))
    ended = work.run(_trainer(network, args, learned, lists, make, options.batch))
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


def _prepare(split: Split, candidates: Candidates, progress: Progress) -> dict[str, Any]:
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


def _trainer(network: Any, args: Any, learned: Sequence[Listed], lists: Sequence[Listed], make: Any, batch: int) -> Any:
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
