"""The planner ``seq2seq``: a causal language model that writes relation paths (PASemiQA, section 4.1.2).

Needs the extra ``train``. A pretrained model, given by name, folder or GGUF file, is fine-tuned with LoRA (Hu et al.,
2022); without one a small GPT-2 with a tokenizer of its own is made and trained from nothing. Paths are decoded by beam
search held to those that the schema has.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from kbnav.encoders.trained import MODEL, Card, check_files, check_schema, digests, read_card
from kbnav.errors import UsageError
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import (
    BETWEEN,
    CLOSE,
    OPEN,
    TEXT,
    Hop,
    PathSchema,
    Plan,
    RelationPath,
    checked,
    parse_paths,
    path_text,
)
from kbnav.planning.training import Example, PlannerOptions
from kbnav.prompts import render
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import Trace
from kbnav.settings.plugins import require

_END, _PAD = "<END>", "<PAD>"
_VOCABULARY = 4_096
_LAYERS, _HEADS, _WIDTH, _POSITIONS = 2, 4, 128, 512
_LORA_DROPOUT = 0.05
_GGUF = ".gguf"


def new_model(examples: Sequence[Example]) -> tuple[Any, Any]:
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


def with_lora(base: str, rank: int, dtype: str = "float32") -> tuple[Any, Any]:
    """A pretrained model with LoRA (Hu et al., 2022); of the embeddings the marks' are trained. Raises UsageError."""
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    model, tokenizer = pretrained(base, dtype)
    new = add_marks(model, tokenizer)
    first, last = model.get_input_embeddings(), model.get_output_embeddings()
    ends = [first] if last is None or last.weight is first.weight else [first, last]
    names = {module: str(name).rpartition(".")[2] for name, module in model.named_modules()}
    rows = {names[layer]: new for layer in ends} if new else None
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=_LORA_DROPOUT,
        target_modules="all-linear",
        fan_in_fan_out=any(isinstance(layer, Conv1D) for layer in names),
        trainable_token_indices=rows,
    )
    return get_peft_model(model, config), tokenizer


def add_marks(model: Any, tokenizer: Any) -> list[int]:
    """Make the marks of paths special tokens with embeddings; ids of the new ones (PASemiQA, 4.1.2)."""
    before = set(tokenizer.get_vocab())
    marks = [OPEN, BETWEEN, CLOSE]
    tokenizer.add_tokens(marks, special_tokens=True)
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(len(tokenizer))
    return [tokenizer.convert_tokens_to_ids(mark) for mark in marks if mark not in before]


def pretrained(name: str, dtype: str = "float32") -> tuple[Any, Any]:
    """A causal model and its tokenizer by name, folder or GGUF file. Raises UsageError where they cannot be had."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = Path(name)
    given = {"gguf_file": path.name} if path.suffix == _GGUF else {}
    source = str(path.parent) if given else name
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **given)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, **given)
    except (OSError, ValueError, ImportError) as error:
        raise UsageError(f"no causal language model {name!r}: {str(error).splitlines()[0]}") from error
    if tokenizer.eos_token_id is None:
        raise UsageError(f"the tokenizer of {name!r} has no token for the end of a text")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def trained(folder: Path, base: str, dtype: str = "float32") -> tuple[Any, Any]:
    """What was trained, in evaluation mode. Raises UsageError where the base cannot be had."""
    if not base:
        model, tokenizer = pretrained(str(folder / MODEL), dtype)
    else:
        from peft import PeftModel
        from transformers import AutoTokenizer

        plain, _ = pretrained(base, dtype)
        tokenizer = AutoTokenizer.from_pretrained(str(folder / MODEL))
        if len(tokenizer) > plain.get_input_embeddings().weight.shape[0]:
            plain.resize_token_embeddings(len(tokenizer))
        model = PeftModel.from_pretrained(plain, str(folder / MODEL))
    return model.eval(), tokenizer


def device_of(name: str) -> str:
    """``auto``: a GPU if there is one. Raises UsageError for one that is not there."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"no device {name!r}: {str(error).splitlines()[0]}") from error
    return name


def dtype_of(name: str, device: str) -> str:
    """``auto``: bfloat16 on a GPU, float32 elsewhere."""
    return ("bfloat16" if device.startswith("cuda") else "float32") if name == "auto" else name


_required = partial(require, "the planner seq2seq", "torch", "transformers", "peft", extra="train")
CHECKPOINTS = "training"
"""Folder beside what is trained until it is: what a training that was stopped goes on from."""
_IDENTITY = "identity"
"""In a checkpoint that was written to its end: what is trained, and on what."""
BEAMS = 3
NEW_RATE, LORA_RATE = 1e-3, 2e-4
DType = Literal["auto", "float32", "bfloat16", "float16"]
_LEAST = 0.02
"""Paths with a smaller share of a label are left out of training: there are many, and they take as long as others."""
_IGNORED = -100  # what torch's cross entropy leaves out


class Seq2SeqOptions(PlannerOptions):
    """How a language model is trained to plan."""

    base: str = ""
    """A causal model of the Hugging Face hub, a folder or a .gguf file; empty: a small new one."""
    epochs: int = Field(default=10, ge=1)
    rate: float = Field(default=0.0, ge=0)
    """0: 2e-4 for LoRA, 1e-3 for a new model."""
    rank: int = Field(default=8, ge=1)
    """Of LoRA."""
    batch: int = Field(default=16, ge=1)
    """Pairs of question and path in memory at once."""
    accumulation: int = Field(default=1, ge=1)
    """Batches of a step."""
    device: str = "auto"
    """auto: a GPU if there is one."""
    dtype: DType = "auto"
    """auto: bfloat16 on a GPU, else float32."""
    beams: int = Field(default=BEAMS, ge=1)
    """Paths of a plan."""


class Epoch(NamedTuple):
    """What came of an epoch; ``loss`` is the mean over pairs, weighed by their shares."""

    number: int
    steps: int
    loss: float


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
    """The paths of a label that are trained on: shares of 2 % or more, else the best 50, made to sum to 1."""
    large = {path: share for path, share in label.items() if share >= _LEAST}
    if large:
        return large
    best = sorted(label.items(), key=lambda pair: -pair[1])[: round(1 / _LEAST)]
    total = sum(share for _, share in best)
    return {path: share / total for path, share in best}


def descend(
    model: Any, padding: int, pairs: Sequence[Pair], options: Seq2SeqOptions, out: Path, listener: Listener
) -> list[Epoch]:
    """Lower the KL divergence: the paths' negative log-likelihood, weighed by the label (PASemiQA, equation 5).

    After every epoch a checkpoint is written into ``out``; where one is there already, the training goes on from it,
    to the same weights. Raises UsageError where it is one of another training.
    """
    from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    fixed = options.model_dump(mode="json", exclude={"device", "beams"})
    identity = hashlib.sha256(json.dumps([fixed, pairs]).encode()).hexdigest()
    whole = list((out / CHECKPOINTS).glob(f"checkpoint-*/{_IDENTITY}"))
    if any(path.read_text() != identity for path in whole):
        raise UsageError(f"{out} holds a training with other questions or options; choose another folder")
    last = max((path.parent for path in whole), key=lambda path: int(path.name.rpartition("-")[2]), default=None)

    class Weighed(Trainer):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
            return loss(model, padding, inputs["pairs"])

        def floating_point_ops(self, inputs: Any) -> int:  # noqa: ARG002
            return 0  # nobody asks, and it cannot tell from pairs

    class Epochs(TrainerCallback):  # type: ignore[misc]
        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            write_whole(Path(args.output_dir) / f"checkpoint-{state.global_step}" / _IDENTITY, identity)
            listener(_epochs(state.log_history)[-1])

    arguments = TrainingArguments(
        output_dir=str(out / CHECKPOINTS),
        num_train_epochs=options.epochs,
        learning_rate=options.rate or (LORA_RATE if options.base else NEW_RATE),
        weight_decay=0.01,
        per_device_train_batch_size=options.batch,
        gradient_accumulation_steps=options.accumulation,
        save_strategy="epoch",
        logging_strategy="epoch",
        save_total_limit=1,
        seed=options.seed,
        use_cpu=device_of(options.device) == "cpu",
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to="none",
    )
    trainer = Weighed(model, arguments, lambda some: {"pairs": some}, list(pairs), callbacks=[Epochs()])
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    return _epochs(trainer.state.log_history)


def _epochs(history: Sequence[Mapping[str, Any]]) -> list[Epoch]:
    return [Epoch(round(one["epoch"]), one["step"], one["loss"]) for one in history if "loss" in one]


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
        cls, skb: SKB, examples: Sequence[Example], out: Path, options: Seq2SeqOptions, listener: Listener
    ) -> tuple[Seq2Seq, int]:
        """Train on the examples' distributions, and write the planner into ``out``.

        Gives back the planner, and how many questions lost their end, being longer than the model can read. A training
        that was stopped goes on where it was. Raises UsageError without examples, without the extra ``train``, or where
        the base or the device cannot be had.
        """
        _required()
        import torch

        if not examples:
            raise UsageError("no questions to train the planner on")
        device = device_of(options.device)
        dtype = dtype_of(options.dtype, device) if options.base else "float32"
        torch.manual_seed(options.seed)
        if options.base:
            model, tokenizer = with_lora(options.base, options.rank, dtype)
        else:
            model, tokenizer = new_model(examples)
        model.to(device)
        room = _room(model, tokenizer, PathSchema.of(skb), examples)
        read = [_read(tokenizer, one.question, one.starts, room) for one in examples]
        cut = sum(len(kept) < len(one.question) for kept, one in zip(read, examples, strict=True))
        shown = [replace(one, question=kept) for kept, one in zip(read, examples, strict=True)]
        pairs = [
            (prompt_ids(tokenizer, one.question, one.starts), path_ids(tokenizer, path.hops), share)
            for one in shown
            for path, share in learnt(one.label).items()
        ]
        history = descend(model, tokenizer.pad_token_id, pairs, options, out, listener)
        model.eval()
        out.mkdir(parents=True, exist_ok=True)
        given = {"save_embedding_layers": False} if options.base else {}  # of a base only what LoRA and new tokens add
        model.save_pretrained(str(out / MODEL), **given)
        tokenizer.save_pretrained(str(out / MODEL))
        losses = [one._asdict() for one in history]
        Card(
            kind="seq2seq",
            skb=skb.meta.name,
            schema_sha256=skb.meta.schema_sha256,
            base=options.base,
            settings={"matching": options.matching, "dtype": dtype, "beams": options.beams, "losses": losses},
            files=digests(out / MODEL),
        ).write(out)
        shutil.rmtree(out / CHECKPOINTS)
        return cls(skb, model, tokenizer, beams=options.beams), cut

    @classmethod
    def load(cls, folder: Path, skb: SKB, notes: Sequence[str] = (), device: str = "auto") -> Seq2Seq:
        """Read what ``train`` wrote; ``notes`` go with every plan. Raises UsageError where it cannot be used."""
        card = read_card(folder, "seq2seq")
        check_schema(folder, card, skb.meta.name, skb.meta.schema_sha256)
        _required()
        check_files(folder / MODEL, card.files)
        device = device_of(device)
        dtype = card.settings["dtype"] if device != "cpu" else "float32"
        model, tokenizer = trained(folder, card.base, dtype)
        return cls(skb, model.to(device), tokenizer, notes, card.settings["beams"])

    def plan(self, question: str, nodes: Sequence[str], trace: Trace | None = None) -> Plan:  # noqa: ARG002
        """The best paths, one a beam; only ``text`` without a node. A note says where a question was cut."""
        starts = frozenset(self._skb.type(self._skb.number(node)) for node in nodes)
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
        """The best paths from nodes of some types, by the model's probabilities; the question must fit whole."""
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
    """As much of a question as a prompt of so many tokens has room for. Raises UsageError where that is nothing."""
    if len(prompt_ids(tokenizer, question, starts)) <= room:
        return question
    sizes = range(len(question))
    fitting = bisect_right(sizes, room, key=lambda size: len(prompt_ids(tokenizer, question[:size], starts)))
    if not fitting:
        raise UsageError("the model of the planner seq2seq reads too few tokens for the types and paths of this SKB")
    return question[: fitting - 1]
