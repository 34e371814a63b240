"""The planner ``seq2seq``: a causal language model that writes relation paths (PASemiQA, section 4.1.2).

Needs the extra ``train``. A pretrained model, given by name, folder or GGUF file, is fine-tuned with LoRA (Hu et al.,
2022); without one a small GPT-2 with a tokenizer of its own is made and trained from nothing. Paths are decoded by beam
search held to those that the schema has.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbnav.encoders.trained import check_files
from kbnav.errors import UsageError
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.base import TEXT, Hop, Plan
from kbnav.planning.mending import checked
from kbnav.planning.path_text import parse_paths
from kbnav.planning.saved import describe, fits, read_description
from kbnav.planning.schema import PathSchema
from kbnav.planning.seq2seq_model import (
    MODEL,
    device_of,
    dtype_of,
    new_model,
    require,
    save,
    trained,
    with_lora,
)
from kbnav.planning.seq2seq_training import (
    CHECKPOINT,
    LORA_RATE,
    NEW_RATE,
    Listener,
    Schedule,
    descend,
    held_out,
    pairs_of,
    path_ids,
    prompt_ids,
)

if TYPE_CHECKING:
    from kbnav.knowledge.skb.matching import Variant
    from kbnav.planning.training import Example
    from kbnav.runs.trace import Trace

BEAMS = 3
LONGEST = 2
"""Hops of the paths that can be written."""

Hops = tuple[Hop, ...]


class Seq2Seq:
    """The planner. Use ``train`` or ``load``."""

    name = "seq2seq"

    def __init__(self, skb: SKB, model: Any, tokenizer: Any, notes: Sequence[str] = (), beams: int = BEAMS) -> None:
        """``model`` is a causal model of transformers, in evaluation mode, ``tokenizer`` its own."""
        self._beams = beams
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
        listener: Listener | None = None,
    ) -> tuple[Seq2Seq, int]:
        """Train on the examples' distributions, and write the planner into ``out``.

        Gives back the planner, and how many questions lost their end, being longer than the model can read.
        ``base`` names a model of the hub, a folder or a GGUF file, which LoRA is put on; empty: a small new model. A
        training that was stopped goes on where it was. Raises UsageError without examples, without the extra ``train``,
        or where ``base`` or the device cannot be had.
        """
        require()
        import torch

        if not examples:
            raise UsageError("no questions to train the planner on")
        schedule = schedule or Schedule()
        device = device_of(schedule.device)
        dtype = dtype_of(schedule.dtype, device) if base else "float32"
        torch.manual_seed(schedule.seed)
        if base:
            model, tokenizer = with_lora(base, schedule.rank, dtype, checkpointing=schedule.checkpointing)
        else:
            model, tokenizer = new_model(examples)
        model.to(device)
        room = _room(model, tokenizer, PathSchema.of(skb), examples)
        read = [_read(tokenizer, one.question, one.starts, room) for one in examples]
        cut = sum(len(kept) < len(one.question) for kept, one in zip(read, examples, strict=True))
        shown = [replace(one, question=kept) for kept, one in zip(read, examples, strict=True)]
        pairs, apart = (pairs_of(tokenizer, part) for part in held_out(shown, schedule.validation, schedule.seed))
        rate = schedule.rate or (LORA_RATE if base else NEW_RATE)
        history = descend(model, tokenizer.pad_token_id, pairs, apart, schedule, rate, out, listener)
        model.eval()
        learned = {"dtype": dtype, "beams": schedule.beams, "losses": [one._asdict() for one in history]}
        save(out, describe(cls.name, skb, matching, base=base, **learned), model, tokenizer)
        (out / CHECKPOINT).unlink(missing_ok=True)
        return cls(skb, model, tokenizer, beams=schedule.beams), cut

    @classmethod
    def load(cls, folder: Path, skb: SKB, notes: Sequence[str] = (), device: str = "auto") -> Seq2Seq:
        """Read what ``train`` wrote; ``notes`` are those of every plan.

        Raises UsageError where it is for another schema or its base or the device cannot be had.
        """
        found = read_description(folder, cls.name)
        fits(folder, found, skb)
        require()
        check_files(folder / MODEL, found.get("files", {}))
        device = device_of(device)
        dtype = found.get("dtype", "float32") if device != "cpu" else "float32"
        model, tokenizer = trained(folder, found["base"], dtype)
        return cls(skb, model.to(device), tokenizer, notes, found.get("beams", BEAMS))

    def plan(self, question: str, nodes: Sequence[str], trace: Trace | None = None) -> Plan:  # noqa: ARG002
        """The best paths, one a beam, by the probabilities of their tokens; only ``text`` where no node was matched.

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
        asked = torch.tensor([prompt_ids(self._tokenizer, question, starts)], device=self._model.device)
        length, ended = asked.shape[1], [self._tokenizer.eos_token_id]
        with torch.no_grad():
            written = self._model.generate(
                input_ids=asked,
                attention_mask=torch.ones_like(asked),
                num_beams=min(self._beams, paths),
                num_return_sequences=min(self._beams, paths),
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
            ids = path_ids(self._tokenizer, hops)
            for place, token in enumerate(ids):
                following.setdefault(tuple(ids[:place]), set()).add(token)
            following.setdefault(tuple(ids), set()).add(self._tokenizer.eos_token_id)
        return {beginning: sorted(tokens) for beginning, tokens in following.items()}, len(possible)


def _room(model: Any, tokenizer: Any, schema: PathSchema, examples: Sequence[Example] = ()) -> int:
    """Tokens that a prompt may have, so that any path of the schema and of the examples' labels fits behind it."""
    paths = {path.hops for path in (*schema.paths(LONGEST), *chain.from_iterable(one.label for one in examples))}
    positions = getattr(model.config, "max_position_embeddings", None) or sys.maxsize
    return int(positions) - max(len(path_ids(tokenizer, hops)) for hops in paths)


def _read(tokenizer: Any, question: str, starts: Collection[str], room: int) -> str:
    """As much of a question, from its beginning, as a prompt of so many tokens has room for.

    Raises UsageError where not even a prompt without a question fits.
    """
    if len(prompt_ids(tokenizer, question, starts)) <= room:
        return question
    sizes = range(len(question))
    fitting = bisect_right(sizes, room, key=lambda size: len(prompt_ids(tokenizer, question[:size], starts)))
    if not fitting:
        raise UsageError("the model of the planner seq2seq reads too few tokens for the types and paths of this SKB")
    return question[: fitting - 1]
