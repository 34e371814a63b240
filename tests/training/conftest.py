"""The shop again, and a base that knows nothing, made here."""

from pathlib import Path

import pytest

from tests.trained.conftest import hall, shop, shop_folder, shop_split
from tests.trained.shop import ASKED, DOCUMENT, QUESTION, THEMES

__all__ = ["base", "hall", "one_thread", "shop", "shop_folder", "shop_split"]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Models as small as these are no faster with more, and much slower where other work is on the machine."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer with random weights, and a tokenizer of the shop's words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("base")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    plain = sorted({word for text in ASKED for word in text.lower().replace("?", " ?").replace(".", " .").split()})
    others = ["item", "coins", "name", *map(str, range(THEMES))]
    words = dict.fromkeys([*special, *plain, *others, *DOCUMENT, *QUESTION])
    vocabulary = {word: number for number, word in enumerate(words)}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=marks
    )
    named = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    PreTrainedTokenizerFast(tokenizer_object=raw, model_max_length=64, **named).save_pretrained(str(folder))
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **sizes)).save_pretrained(str(folder))
    return folder
