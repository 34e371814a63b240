"""How the planner ``seq2seq`` is trained: the loss, its descent, what is held out, checkpoints. Needs ``train``."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kbnav.errors import DataError, UsageError
from kbnav.planning.base import Hop
from kbnav.planning.path_text import path_text
from kbnav.planning.schema import RelationPath
from kbnav.prompts import render

if TYPE_CHECKING:
    from kbnav.planning.training import Example

CHECKPOINT = "checkpoint.pt"
"""Beside what is trained until it is: what a training that was stopped goes on from."""
NEW_RATE, LORA_RATE = 1e-3, 2e-4
DType = Literal["auto", "float32", "bfloat16", "float16"]
_LEAST = 0.02
"""Paths with a smaller share of a label are left out of training: there are many, and they take as long as others."""
_IGNORED = -100  # what torch's cross entropy leaves out


@dataclass(frozen=True)
class Schedule:
    """How the model is trained.

    ``rate`` 0 is 1e-3 for a new model and 2e-4 for LoRA, whose ``rank`` is given. A step takes ``batch`` times
    ``accumulation`` pairs of question and path. ``checkpointing`` saves memory and takes time. ``validation`` is the
    share of questions held out, whose loss is reported. ``steps`` ends the training early; 0: never.
    """

    epochs: int = 10
    rate: float = 0.0
    rank: int = 8
    batch: int = 16
    accumulation: int = 1
    checkpointing: bool = False
    device: str = "auto"
    dtype: DType = "auto"
    validation: float = 0.0
    steps: int = 0
    beams: int = 3
    seed: int = 0


class Epoch(NamedTuple):
    """What came of an epoch: losses are means over pairs, weighed by their shares; ``validation`` None without any."""

    number: int
    steps: int
    loss: float
    validation: float | None


Listener = Callable[[Epoch], None]
Pair = tuple[list[int], list[int], float]
"""The tokens of a prompt, those of a path, and the share of the path in the question's label."""


def prompt_ids(tokenizer: Any, question: str, starts: Collection[str]) -> list[int]:
    """The tokens of a prompt, in the base's chat template where it has one."""
    text = render("planner/train.md", question=question, types=sorted(starts))
    if getattr(tokenizer, "chat_template", None):
        asked = [{"role": "user", "content": text.strip()}]
        whole: str = tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
        chat: list[int] = tokenizer(whole, add_special_tokens=False)["input_ids"]
        return chat
    ids: list[int] = tokenizer(text)["input_ids"]
    return [token for token in ids if token != tokenizer.eos_token_id]


def path_ids(tokenizer: Any, hops: Sequence[Hop]) -> list[int]:
    """The tokens of a path, with that which ends a text."""
    ids: list[int] = tokenizer(path_text(hops), add_special_tokens=False)["input_ids"]
    return [*ids, tokenizer.eos_token_id]


def learnt(label: Mapping[RelationPath, float]) -> dict[RelationPath, float]:
    """The paths of a label that are trained on, with their shares, at most 50: those of a share of 2 % or more.

    Where no path has that, as among many that count the same, the best 50, whose shares are made to sum to 1.
    """
    large = {path: share for path, share in label.items() if share >= _LEAST}
    if large:
        return large
    best = sorted(label.items(), key=lambda pair: -pair[1])[: round(1 / _LEAST)]
    total = sum(share for _, share in best)
    return {path: share / total for path, share in best}


def pairs_of(tokenizer: Any, examples: Sequence[Example]) -> list[Pair]:
    """What is learned from examples, question by question."""
    return [
        (prompt_ids(tokenizer, one.question, one.starts), path_ids(tokenizer, path.hops), share)
        for one in examples
        for path, share in learnt(one.label).items()
    ]


def held_out(examples: Sequence[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """The examples to learn from, and those to validate on, one at least where a share is asked for.

    Raises UsageError where nothing is left to learn from.
    """
    count = max(1, round(share * len(examples))) if share else 0
    if count >= len(examples):
        raise UsageError(f"{len(examples)} questions are too few to hold {share:.0%} of them out")
    out = set(Random(seed).sample(range(len(examples)), count))
    parts: tuple[list[Example], list[Example]] = [], []
    for place, one in enumerate(examples):
        parts[place in out].append(one)
    return parts


def descend(
    model: Any,
    padding: int,
    pairs: Sequence[Pair],
    validation: Sequence[Pair],
    schedule: Schedule,
    rate: float,
    out: Path,
    listener: Listener | None = None,
) -> list[Epoch]:
    """Lower the KL divergence: the paths' negative log-likelihood, weighed by the label (PASemiQA, equation 5).

    After every epoch a checkpoint is written into ``out``; where one is there already, the training goes on from it,
    to the same weights. Raises UsageError where it is one of another training.
    """
    import torch

    weights = {name: one for name, one in model.named_parameters() if one.requires_grad}
    optimizer = torch.optim.AdamW(weights.values(), lr=rate)
    group = schedule.batch * schedule.accumulation
    planned = schedule.epochs * -(-len(pairs) // group)
    total = min(planned, schedule.steps) if schedule.steps else planned
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=total)
    saved = _Checkpoint(out / CHECKPOINT, _identity(pairs, validation, schedule))
    history = saved.read(weights, optimizer, falling)
    steps = history[-1].steps if history else 0
    for number in range(len(history) + 1, schedule.epochs + 1):
        if steps >= total:
            break
        torch.manual_seed(schedule.seed + number)  # of dropout too: what goes on goes the same way
        order = torch.randperm(len(pairs)).tolist()
        model.train()
        spent = 0.0
        groups = [order[first : first + group] for first in range(0, len(order), group)][: total - steps]
        for rows in groups:
            spent += _step(model, padding, [pairs[row] for row in rows], schedule.batch)
            torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
            optimizer.step()
            falling.step()
            optimizer.zero_grad()
        steps += len(groups)
        found = mean_loss(model, padding, validation, schedule.batch) if validation else None
        history.append(Epoch(number, steps, spent / len(groups), found))
        saved.write(weights, optimizer, falling, history)
        if listener:
            listener(history[-1])
    return history


def _step(model: Any, padding: int, pairs: Sequence[Pair], batch: int) -> float:
    """Gradients of one step, gathered over batches as if it were one; gives back its loss."""
    total, spent = sum(share for _, _, share in pairs), 0.0
    for first in range(0, len(pairs), batch):
        some = pairs[first : first + batch]
        part = loss(model, padding, some) * (sum(share for _, _, share in some) / total)
        part.backward()
        spent += float(part.detach())
    return spent


def mean_loss(model: Any, padding: int, pairs: Sequence[Pair], batch: int) -> float:
    """The loss over all pairs, without learning from them."""
    import torch

    model.eval()
    total = sum(share for _, _, share in pairs)
    with torch.no_grad():
        parts = [pairs[first : first + batch] for first in range(0, len(pairs), batch)]
        return sum(float(loss(model, padding, some)) * sum(share for _, _, share in some) / total for some in parts)


def loss(model: Any, padding: int, pairs: Sequence[Pair]) -> Any:
    """The weighted negative log-likelihood of paths behind their prompts, summed over tokens, as a tensor."""
    import torch

    width = max(len(prompt) + len(path) for prompt, path, _ in pairs)
    device = getattr(model, "device", "cpu")
    ids = torch.full((len(pairs), width), padding)
    wanted = torch.full((len(pairs), width), _IGNORED)
    mask = torch.zeros((len(pairs), width), dtype=torch.long)
    for row, (prompt, path, _) in enumerate(pairs):
        end = len(prompt) + len(path)
        ids[row, :end] = torch.tensor([*prompt, *path])
        wanted[row, len(prompt) : end] = torch.tensor(path)
        mask[row, :end] = 1
    logits = model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits[:, :-1].float()
    lost = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), wanted[:, 1:].to(device), ignore_index=_IGNORED, reduction="none"
    )
    shares = torch.tensor([share for _, _, share in pairs], device=device)
    return (lost.sum(dim=1) * shares).sum() / shares.sum()


@dataclass(frozen=True)
class _Checkpoint:
    """What is learned so far, bound to what it is learned from and how."""

    path: Path
    identity: str

    def read(self, weights: Mapping[str, Any], optimizer: Any, falling: Any) -> list[Epoch]:
        """Take over what is there; the epochs that are done."""
        import torch

        if not self.path.exists():
            return []
        try:
            found = torch.load(self.path, weights_only=True, map_location="cpu")
            same = found["identity"] == self.identity
        except (OSError, RuntimeError, KeyError, EOFError, ValueError) as error:
            raise DataError(f"{self.path}: not a checkpoint; remove it to begin anew: {error}") from error
        if not same:
            raise UsageError(f"{self.path} is of a training with other questions or options; choose another folder")
        with torch.no_grad():
            for name, one in weights.items():
                one.copy_(found["weights"][name])
        optimizer.load_state_dict(found["optimizer"])
        falling.load_state_dict(found["falling"])
        return [Epoch(*one) for one in found["history"]]

    def write(self, weights: Mapping[str, Any], optimizer: Any, falling: Any, history: Sequence[Epoch]) -> None:
        """Keep it, such that a kill leaves the old one or the new one."""
        import torch

        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        learned = {name: one.detach().cpu() for name, one in weights.items()}
        state = {"optimizer": optimizer.state_dict(), "falling": falling.state_dict()}
        done = {"identity": self.identity, "history": [tuple(one) for one in history]}
        torch.save({"weights": learned, **state, **done}, part)
        part.replace(self.path)


def _identity(pairs: Sequence[Pair], validation: Sequence[Pair], schedule: Schedule) -> str:
    fixed = {name: value for name, value in asdict(schedule).items() if name not in ("device", "beams")}
    return hashlib.sha256(json.dumps([fixed, pairs, validation]).encode()).hexdigest()
