"""The planner ``seq2seq``: a causal language model that writes relation paths (PASemiQA, section 4.1.2).

Needs the extra ``train``. A pretrained model, given by name or folder, is fine-tuned with LoRA (Hu et al., 2022);
without one a small GPT-2 with a tokenizer of its own is made and trained from nothing. Paths are decoded by beam search
held to those that the schema has.
"""

from __future__ import annotations

import hashlib
import sys
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbnav.errors import DataError, UsageError
from kbnav.extras import missing
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.base import TEXT, Hop, Plan
from kbnav.planning.mending import checked
from kbnav.planning.path_text import BETWEEN, CLOSE, OPEN, parse_paths, path_text
from kbnav.planning.saved import describe, fits, read_description, write_description
from kbnav.planning.schema import PathSchema, RelationPath
from kbnav.prompts import render

if TYPE_CHECKING:
    from kbnav.knowledge.skb.matching import Variant
    from kbnav.planning.training import Example
    from kbnav.trace import Trace

BEAMS = 3
LONGEST = 2
"""Hops of the paths that can be written."""
_MODEL = "model"
_END, _PAD = "<END>", "<PAD>"
_VOCABULARY = 4_096
_LAYERS, _HEADS, _WIDTH, _POSITIONS = 2, 4, 128, 512
_BATCH = 16
_LEAST = 0.02
"""Paths with a smaller share of a label are left out of training: there are many, and they take as long as others."""
_LORA_RANK, _LORA_ALPHA, _LORA_DROPOUT = 8, 16, 0.05
_IGNORED = -100  # what torch's cross entropy leaves out

Hops = tuple[Hop, ...]


@dataclass(frozen=True)
class Schedule:
    """How the model is trained; the rates are for a new model and for LoRA."""

    epochs: int = 10
    rate: float = 1e-3
    lora_rate: float = 2e-4
    seed: int = 0


class Seq2Seq:
    """The planner. Use ``train`` or ``load``."""

    name = "seq2seq"

    def __init__(self, skb: SKB, model: Any, tokenizer: Any, notes: Sequence[str] = ()) -> None:
        """``model`` is a causal model of transformers, in evaluation mode, ``tokenizer`` its own."""
        self._skb, self._model, self._tokenizer, self._notes = skb, model, tokenizer, tuple(notes)
        self._schema = PathSchema.of(skb)
        self._trie = lru_cache(maxsize=64)(self._build_trie)

    @classmethod
    def train(
        cls,
        skb: SKB,
        examples: Sequence[Example],
        out: Path,
        *,
        base: str = "",
        schedule: Schedule | None = None,
        matching: Variant = "hybrid",
    ) -> tuple[Seq2Seq, int]:
        """Train on the examples' distributions, and write the planner into ``out``.

        Gives back the planner, and how many questions lost their end, being longer than the model can read.
        ``base`` names a model of the hub or a folder, which LoRA is put on; empty: a small new model. Raises UsageError
        without examples, without the extra ``train``, or where ``base`` cannot be had.
        """
        _require()
        import torch

        if not examples:
            raise UsageError("no questions to train the planner on")
        chosen = schedule or Schedule()
        torch.manual_seed(chosen.seed)
        model, tokenizer = _with_lora(base) if base else _new(examples)
        room = _room(model, tokenizer, PathSchema.of(skb), examples)
        read = [_read(tokenizer, one.question, one.starts, room) for one in examples]
        cut = sum(len(kept) < len(one.question) for kept, one in zip(read, examples, strict=True))
        shown = [replace(one, question=kept) for kept, one in zip(read, examples, strict=True)]
        _descend(model, tokenizer, shown, chosen, chosen.lora_rate if base else chosen.rate)
        model.eval()
        _save(out, describe(cls.name, skb, matching, base=base), model, tokenizer)
        return cls(skb, model, tokenizer), cut

    @classmethod
    def load(cls, folder: Path, skb: SKB, notes: Sequence[str] = ()) -> Seq2Seq:
        """Read what ``train`` wrote; ``notes`` are those of every plan.

        Raises UsageError where it is for another schema or its base cannot be had.
        """
        found = read_description(folder, cls.name)
        fits(folder, found, skb)
        _require()
        if found.get("files") != _digests(folder / _MODEL):
            raise DataError(f"{folder / _MODEL}: its files are not those that were written")
        model, tokenizer = _pretrained(found["base"] or str(folder / _MODEL))
        if found["base"]:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, str(folder / _MODEL))
        model.eval()
        return cls(skb, model, tokenizer, notes)

    def plan(self, question: str, nodes: Sequence[str], trace: Trace | None = None) -> Plan:  # noqa: ARG002
        """The ``BEAMS`` best paths, by the probabilities of their tokens; only ``text`` where no node was matched.

        A question that is longer than the model can read loses its end, which a note says.
        """
        starts = frozenset(self._skb.type_name(self._skb.number(node)) for node in nodes)
        kept = _read(self._tokenizer, question, starts, self._most)
        plan = checked(self.beams(kept, starts), self._schema, starts)
        plan = replace(plan, notes=(*self._notes, *plan.notes))
        if len(kept) == len(question):
            return plan
        note = f"The planner read the first {len(kept):,} of the question's {len(question):,} characters."
        return replace(plan, notes=(*plan.notes, note))

    @cached_property
    def _most(self) -> int:
        return _room(self._model, self._tokenizer, self._schema)

    def beams(self, question: str, starts: frozenset[str]) -> list[tuple[Hops, float]]:
        """The best paths from nodes of some types with the model's probabilities, not made to sum to 1.

        The question must be one that the model can read whole.
        """
        import torch

        trie, paths = self._trie(starts)
        if paths == 1:
            return [(TEXT, 1.0)]
        asked = torch.tensor([_prompt(self._tokenizer, question, starts)])
        length, ended = asked.shape[1], [self._tokenizer.eos_token_id]
        with torch.no_grad():
            written = self._model.generate(
                input_ids=asked,
                attention_mask=torch.ones_like(asked),
                num_beams=min(BEAMS, paths),
                num_return_sequences=min(BEAMS, paths),
                max_new_tokens=max(map(len, trie)) + 1,
                length_penalty=0.0,  # scores are then sums of logarithms
                do_sample=False,
                # A beam that has ended is asked on, for as long as the others go.
                prefix_allowed_tokens_fn=lambda _, ids: trie.get(tuple(ids[length:].tolist()), ended),
                pad_token_id=self._tokenizer.pad_token_id,
                eos_token_id=self._tokenizer.eos_token_id,
                return_dict_in_generate=True,
                output_scores=True,
            )
        scores = written.sequences_scores.tolist()
        texts = self._tokenizer.batch_decode(written.sequences[:, length:], skip_special_tokens=False)
        found = [(parse_paths(text), score) for text, score in zip(texts, scores, strict=True)]
        return [(path[0], float(torch.tensor(score).exp())) for path, score in found if path]

    def _build_trie(self, starts: frozenset[str]) -> tuple[Mapping[tuple[int, ...], list[int]], int]:
        """After each beginning of a path's tokens those that may follow, and the number of paths."""
        every = self._schema.paths(LONGEST)
        possible = {path.hops for path in every if not path.hops or path.start in starts}
        following: dict[tuple[int, ...], set[int]] = {}
        for hops in possible:
            ids = _path_ids(self._tokenizer, hops)
            for place, token in enumerate(ids):
                following.setdefault(tuple(ids[:place]), set()).add(token)
            following.setdefault(tuple(ids), set()).add(self._tokenizer.eos_token_id)
        return {beginning: sorted(tokens) for beginning, tokens in following.items()}, len(possible)


def _prompt(tokenizer: Any, question: str, starts: Collection[str]) -> list[int]:
    text = render("planner/train.md", question=question, types=sorted(starts))
    ids: list[int] = tokenizer(text)["input_ids"]
    return [token for token in ids if token != tokenizer.eos_token_id]


def _room(model: Any, tokenizer: Any, schema: PathSchema, examples: Sequence[Example] = ()) -> int:
    """Tokens that a prompt may have, so that any path of the schema and of the examples' labels fits behind it."""
    paths = {path.hops for path in (*schema.paths(LONGEST), *chain.from_iterable(one.label for one in examples))}
    positions = getattr(model.config, "max_position_embeddings", None) or sys.maxsize
    return int(positions) - max(len(_path_ids(tokenizer, hops)) for hops in paths)


def _read(tokenizer: Any, question: str, starts: Collection[str], room: int) -> str:
    """As much of a question, from its beginning, as a prompt of so many tokens has room for.

    Raises UsageError where not even a prompt without a question fits.
    """
    if len(_prompt(tokenizer, question, starts)) <= room:
        return question
    sizes = range(len(question))
    fitting = bisect_right(sizes, room, key=lambda size: len(_prompt(tokenizer, question[:size], starts)))
    if not fitting:
        raise UsageError("the model of the planner seq2seq reads too few tokens for the types and paths of this SKB")
    return question[: fitting - 1]


def _path_ids(tokenizer: Any, hops: Sequence[Hop]) -> list[int]:
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


def _descend(model: Any, tokenizer: Any, examples: Sequence[Example], schedule: Schedule, rate: float) -> None:
    """Lower the KL divergence: the paths' negative log-likelihood, weighed by the label (PASemiQA, equation 5)."""
    import torch

    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=rate)
    pairs = [
        (_prompt(tokenizer, one.question, one.starts), _path_ids(tokenizer, path.hops), share)
        for one in examples
        for path, share in learnt(one.label).items()
    ]
    order = torch.Generator().manual_seed(schedule.seed)
    steps = schedule.epochs * -(-len(pairs) // _BATCH)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=steps)
    model.train()
    for _ in range(schedule.epochs):
        for rows in torch.randperm(len(pairs), generator=order).split(_BATCH):
            loss = _loss(model, tokenizer.pad_token_id, [pairs[row] for row in rows.tolist()])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            falling.step()
            optimizer.zero_grad()


def _loss(model: Any, padding: int, pairs: Sequence[tuple[list[int], list[int], float]]) -> Any:
    """The weighted negative log-likelihood of paths behind their prompts, summed over tokens, as a tensor."""
    import torch

    width = max(len(prompt) + len(path) for prompt, path, _ in pairs)
    ids = torch.full((len(pairs), width), padding)
    wanted = torch.full((len(pairs), width), _IGNORED)
    mask = torch.zeros((len(pairs), width), dtype=torch.long)
    for row, (prompt, path, _) in enumerate(pairs):
        end = len(prompt) + len(path)
        ids[row, :end] = torch.tensor([*prompt, *path])
        wanted[row, len(prompt) : end] = torch.tensor(path)
        mask[row, :end] = 1
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    lost = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), wanted[:, 1:], ignore_index=_IGNORED, reduction="none"
    )
    shares = torch.tensor([share for _, _, share in pairs])
    return (lost.sum(dim=1) * shares).sum() / shares.sum()


def _new(examples: Sequence[Example]) -> tuple[Any, Any]:
    """A small GPT-2 with random weights, and a tokenizer trained on the questions and paths."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=[_PAD, _END, OPEN, BETWEEN, CLOSE],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    prompts = (render("planner/train.md", question=one.question, types=sorted(one.starts)) for one in examples)
    paths = (path_text(path.hops) for one in examples for path in one.label)
    raw.train_from_iterator(chain(prompts, paths), trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=_END, pad_token=_PAD)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=_POSITIONS,
        n_embd=_WIDTH,
        n_layer=_LAYERS,
        n_head=_HEADS,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return GPT2LMHeadModel(config), tokenizer


def _with_lora(base: str) -> tuple[Any, Any]:
    from peft import LoraConfig, get_peft_model

    model, tokenizer = _pretrained(base)
    config = LoraConfig(task_type="CAUSAL_LM", r=_LORA_RANK, lora_alpha=_LORA_ALPHA, lora_dropout=_LORA_DROPOUT)
    return get_peft_model(model, config), tokenizer


def _pretrained(name: str) -> tuple[Any, Any]:
    """A causal model and its tokenizer by name or folder, in float32. Raises UsageError where they cannot be had."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        model = AutoModelForCausalLM.from_pretrained(name, dtype="float32")
    except (OSError, ValueError) as error:
        raise UsageError(f"no causal language model {name!r}: {str(error).splitlines()[0]}") from error
    if tokenizer.eos_token_id is None:
        raise UsageError(f"the tokenizer of {name!r} has no token for the end of a text")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def _save(out: Path, description: dict[str, Any], model: Any, tokenizer: Any) -> None:
    out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(str(out / _MODEL))
    if not description["base"]:
        tokenizer.save_pretrained(str(out / _MODEL))
    write_description(out, {**description, "files": _digests(out / _MODEL)})


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of the files of a folder, by name. Raises DataError where there is none."""
    if not folder.is_dir():
        raise DataError(f"{folder} is missing")
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir()) if path.is_file()
    }


def _require() -> None:
    absent = [name for name in ("torch", "transformers", "peft") if find_spec(name) is None]
    if absent:
        raise missing("the planner seq2seq", *absent, extra="train")
