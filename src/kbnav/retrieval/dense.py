"""``dense``: the dense retriever of STaRK (section 3.1), whose encoders ``kbnav train dense`` trained for an SKB."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from kbnav.encoders import Encoder
from kbnav.encoders.trained import Trained
from kbnav.encoders.trained_card import check_schema, read_card, refuse_seen
from kbnav.errors import UsageError
from kbnav.knowledge.skb import vectors
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.schema import Progress, no_progress
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.vectors import VectorIndex
from kbnav.retrieval import late
from kbnav.retrieval.common import RetrievalOptions
from kbnav.retrieval.vss import VSS
from kbnav.runs.journal import write_whole
from kbnav.settings.model import Settings

VECTORS = "vectors"
"""Folder of an SKB's vectors, beside the model that made them."""
_OF = "of.json"
_PART = "vectors.part"


class DenseOptions(RetrievalOptions):
    """Options of ``dense``."""

    trained: str = ""
    """The folder that ``kbnav train dense`` wrote."""


class Dense(VSS):
    """The cosine of the query's embedding with each document's, by encoders of their own."""

    name = "dense"

    def __init__(self, kb: SkbKB, folder: Path, options: DenseOptions) -> None:
        """Raises UsageError where the folder holds nothing that was trained for the SKB, or no vectors of it."""
        encoder = Trained.load(folder)
        self._folder, self._card = folder, encoder.card
        check_schema(folder, encoder.card, kb.skb.meta.name, kb.skb.meta.schema_sha256)
        super().__init__(kb, options, (vectors_of(folder, kb.skb, encoder), encoder.card.relations))

    def refuse_seen(self, questions: Iterable[tuple[str, str]]) -> None:
        """See ``TrainedRetriever``."""
        refuse_seen(self._folder, "it", (*self._card.training, *self._card.validation), questions)


def vectors_of(folder: Path, skb: SKB, encoder: Encoder) -> VectorIndex:
    """The vectors of an SKB beside the model. Raises UsageError where there are none, or of another build of it."""
    of = folder / VECTORS / _OF
    if not of.is_file() or json.loads(of.read_bytes())["data"] != skb.meta.data:
        why = "are of another build of it" if of.is_file() else "are missing"
        raise UsageError(
            f"{folder}: the vectors of {skb.meta.name} {why}: kbnav train embed {folder} --kb {skb.place} makes them"
        )
    return vectors.open(folder / VECTORS, encoder)


def embed(folder: Path, skb: SKB, progress: Progress = no_progress) -> None:
    """Make the vectors of an SKB beside the model; those of texts that did not change are taken over.

    What was cut off goes on. Raises UsageError where the SKB has another schema than that trained for.
    """
    if read_card(folder, "dense", "late").kind == "late":
        late.embed(folder, skb, progress)
        return
    encoder = Trained.load(folder)
    card = encoder.card
    check_schema(folder, card, skb.meta.name, skb.meta.schema_sha256)
    part, done = folder / _PART, folder / VECTORS
    part.mkdir(exist_ok=True)
    vectors.build(
        lambda: indexed_texts(skb, relations=card.relations),
        part,
        type_start=skb.meta.type_start,
        encoder=encoder,
        previous=done if done.is_dir() else None,
        progress=progress,
    )
    write_whole(part / _OF, json.dumps({"skb": skb.meta.name, "data": skb.meta.data}))
    shutil.rmtree(done, ignore_errors=True)
    part.rename(done)


def build_dense(kb: SkbKB, settings: Settings, options: DenseOptions) -> Dense | late.Late:  # noqa: ARG001
    """See ``Dense`` and ``late``; no setting concerns them. Raises UsageError where nothing trained is named."""
    if not options.trained:
        raise UsageError("dense needs encoders: kbnav train dense makes them, --set trained=FOLDER names their folder")
    folder = Path(options.trained)
    if read_card(folder, "dense", "late").kind == "late":
        return late.Late(kb, folder, options)
    return Dense(kb, folder, options)
