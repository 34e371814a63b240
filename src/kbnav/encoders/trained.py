"""What a training leaves: a folder with a model and its ``card.json``, and the models as they are run.

The card says what was learned from what, and for which SKB. It is written last, so a folder without one holds a
training that is not over. Where onnxruntime is installed, models are run by it, and torch is not needed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from kbnav.encoders.base import Vectors, normalised
from kbnav.encoders.minilm import OnnxTexts
from kbnav.errors import DataError, UsageError
from kbnav.runs.journal import read_document, write_whole
from kbnav.settings.model import Strict
from kbnav.settings.plugins import needs

CARD = "card.json"
MODEL = "model"
"""The folder beside the card that holds what was trained."""
FORMAT = 1
ModelKind = Literal["dense", "qagnn", "fuse", "ranker", "seq2seq"]


TOKENIZER = "tokenizer.json"
EXPORTED, SIDES = "exported.json", ("query", "document")
"""Beside a model that onnxruntime reads too: what it reads and, of two encoders, which one is which."""


class Question(Strict):
    """A question of a training: its id, and its text's digest, by which it is known under another id."""

    id: str
    text: str


class Card(Strict):
    """``card.json``; planners have what they are bound to and how they were trained, and the rest is empty."""

    format: int = FORMAT
    kind: ModelKind
    skb: str
    schema_sha256: str
    """Of the types and relations of the SKB: what the folder is bound to."""
    relations: bool = False
    """Whether the documents it learned from have their relations at their ends."""
    base: str
    """The model that the training began with, as it was named; of a ``ranker`` the encoder."""
    base_sha256: str = ""
    settings: dict[str, Any]
    data: Mapping[str, str] = {}
    """SHA-256 of the questions' files, by the names of their datasets."""
    training: tuple[Question, ...] = ()
    validation: tuple[Question, ...] = ()
    epochs: float = 0
    """That were trained, of which the best is kept."""
    best_epoch: float = 0
    pool: int = 0
    """Documents among which the validation questions' answers were looked for."""
    before: Mapping[str, float] = {}
    """Scores on the validation questions before any training."""
    after: Mapping[str, float] = {}
    seconds: float = 0
    """Of the training, without the preparation of its data and the vectors of the SKB."""
    device: str = "cpu"
    versions: Mapping[str, str] = {}
    files: dict[str, str]
    """SHA-256 of each file of the model."""

    @property
    def seen(self) -> tuple[Question, ...]:
        """The questions that were learned from or chosen by."""
        return (*self.training, *self.validation)

    def write(self, folder: Path) -> None:
        """Write it, as the last of its folder. Raises UsageError."""
        write_whole(folder / CARD, self.model_dump_json(indent=1) + "\n")

    @property
    def digest(self) -> str:
        """Names the model: another one has another."""
        return hashlib.sha256("".join(f"{name} {sha}\n" for name, sha in self.files.items()).encode()).hexdigest()[:12]


def read_card(folder: Path, *kinds: ModelKind) -> Card:
    """The card of a trained folder, of one of these kinds where some are named. Raises UsageError, DataError."""
    begun = "its training is not over, and the same command continues it" if folder.is_dir() else "no such folder"
    missing = f"{folder} holds nothing trained: {begun} (there is no {CARD})"
    card: Card = read_document(folder / CARD, Card, missing, FORMAT)
    if kinds and card.kind not in kinds:
        raise UsageError(f"{folder} was trained as {card.kind}, not as {' or '.join(kinds)}")
    return card


def check_schema(folder: Path, card: Card, skb: str, schema_sha256: str) -> None:
    """Raise UsageError where a folder was trained for another schema than that of the SKB of this name."""
    if card.schema_sha256 != schema_sha256:
        raise UsageError(f"{folder}: trained for the schema of {card.skb}; that of {skb} is another")


def check_files(folder: Path, expected: Mapping[str, str]) -> None:
    """Raise DataError where the files in a folder are not those that were written."""
    if digests(folder) != expected:
        raise DataError(f"{folder}: its files are not those that were written")


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of all files below a folder, by their paths in it. Raises DataError where there is none."""
    if not folder.is_dir():
        raise DataError(f"{folder} is missing")
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            found[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def question_digests(questions: Iterable[tuple[str, str]]) -> tuple[Question, ...]:
    """Questions, by id and text, as they are kept."""
    return tuple(Question(id=name, text=text_digest(text)) for name, text in questions)


def refuse_seen(folder: Path, what: str, seen: Sequence[Question], questions: Iterable[tuple[str, str]]) -> None:
    """Raise UsageError where one of the questions, by id and text, is among those seen while ``what`` was trained."""
    known = {one.text for one in seen}
    found = [name for name, text in questions if text_digest(text) in known]
    if found:
        raise UsageError(
            f"{folder}: {len(found)} of the questions were used to train or choose {what}, as "
            f"{found[0]!r}; evaluate on others"
        )


def text_digest(text: str) -> str:
    """Of a question's words, whatever its case, spaces and punctuation."""
    words = "".join(char if char.isalnum() else " " for char in text.casefold()).split()
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]


class Trained:
    """The encoders that ``kbnav train dense`` trained: one for questions and one for documents, or one for both."""

    def __init__(self, folder: Path, card: Card) -> None:
        """Use ``load``. Raises DataError where the files cannot be read."""
        self.card = card
        self.name = f"trained:{folder.resolve()}@{card.digest}"
        exported = json.loads((folder / MODEL / EXPORTED).read_bytes())
        tokenizer, longest = folder / MODEL / TOKENIZER, exported["longest"]
        sides = [OnnxTexts(folder / MODEL / f"{side}.onnx", tokenizer, longest) for side in SIDES[: exported["sides"]]]
        self._query, self._document = sides[0], sides[-1]

    @classmethod
    def load(cls, folder: Path, digest: str = "") -> Trained:
        """Read a trained folder; with ``digest`` it must be of the model named so.

        Raises UsageError where nothing is trained there, it is another model or onnxruntime is missing,
        DataError where its files are not those that were written.
        """
        card = read_card(folder, "dense")
        if digest and card.digest != digest:
            raise UsageError(f"{folder} holds the model {card.digest}, not {digest} that the vectors are of")
        check_files(folder / MODEL, card.files)
        with needs("vectors", f"the encoder trained in {folder}"):
            return cls(folder, card)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of documents, shape [len(texts), d]."""
        return normalised(self._document.run(list(texts)))

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, shape [len(texts), d]."""
        return normalised(self._query.run(list(texts)))
