"""The language models of the planner ``seq2seq``: made, read, given LoRA, written. Needs the extra ``train``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbnav.encoders.trained import digests
from kbnav.errors import UsageError
from kbnav.planning.path_text import BETWEEN, CLOSE, OPEN, path_text
from kbnav.planning.saved import write_description
from kbnav.prompts import render
from kbnav.settings.plugins import missing

if TYPE_CHECKING:
    from kbnav.planning.training import Example

MODEL = "model"
"""Folder of what was trained, beside the description."""
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


def with_lora(base: str, rank: int, dtype: str = "float32", *, checkpointing: bool = False) -> tuple[Any, Any]:
    """A pretrained model that has the marks of paths as tokens, with LoRA of this rank on it (Hu et al., 2022).

    Of the embeddings only those of the new tokens are trained. Raises UsageError where ``base`` cannot be had.
    """
    from peft import LoraConfig, get_peft_model

    model, tokenizer = pretrained(base, dtype)
    new = add_marks(model, tokenizer)
    rows = {_name_of(model, layer): new for layer in _ends(model)} if new else None
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=_LORA_DROPOUT,
        target_modules="all-linear",
        trainable_token_indices=rows,
    )
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.config.use_cache = False
    return get_peft_model(model, config), tokenizer


def add_marks(model: Any, tokenizer: Any) -> list[int]:
    """Make ``<PATH>``, ``<SEP>`` and ``</PATH>`` special tokens, and the model's embeddings as many as the tokens.

    Gives back the ids of those that are new (PASemiQA, section 4.1.2).
    """
    before = set(tokenizer.get_vocab())
    marks = [OPEN, BETWEEN, CLOSE]
    tokenizer.add_tokens(marks, special_tokens=True)
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(len(tokenizer))
    return [tokenizer.convert_tokens_to_ids(mark) for mark in marks if mark not in before]


def _ends(model: Any) -> list[Any]:
    """The layers with a row for each token: the output's is another where the two are not tied."""
    first, last = model.get_input_embeddings(), model.get_output_embeddings()
    tied = last is None or last.weight is first.weight
    return [first] if tied else [first, last]


def _name_of(model: Any, layer: Any) -> str:
    return next(str(name) for name, module in model.named_modules() if module is layer).rpartition(".")[2]


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
    """What ``save`` wrote, in evaluation mode. Raises UsageError where the base cannot be had."""
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


def save(out: Path, description: dict[str, Any], model: Any, tokenizer: Any) -> None:
    """Write a planner: of a base only what LoRA and the new tokens add."""
    out.mkdir(parents=True, exist_ok=True)
    given = {"save_embedding_layers": False} if description["base"] else {}
    model.save_pretrained(str(out / MODEL), **given)
    tokenizer.save_pretrained(str(out / MODEL))
    write_description(out, {**description, "files": digests(out / MODEL)})


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


def require() -> None:
    """Raise UsageError where the extra is not installed."""
    absent = [name for name in ("torch", "transformers", "peft") if find_spec(name) is None]
    if absent:
        raise missing("the planner seq2seq", *absent, extra="train")
