"""The folder of what ``plan-fuse`` learned: the planner, ``fuse.json``, and the card that says from what."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from kbnav import encoders
from kbnav.encoders import Encoder
from kbnav.encoders.trained import CARD, Card, Question, check_files, check_schema, digests, read_card
from kbnav.errors import DataError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.fuse.evidence import KINDS, kinds
from kbnav.planning.fuse.reading import SAID_AS, Reader, open_reader
from kbnav.planning.fuse.telling import Telling
from kbnav.planning.fuse.training import Trained
from kbnav.planning.fuse.weighing import Weights
from kbnav.planning.open import encoder_of
from kbnav.planning.ranker import Ranker
from kbnav.planning.schema import PathSchema
from kbnav.planning.scorer import Training
from kbnav.runs.journal import write_whole
from kbnav.settings.model import Settings

PLANNER, LEARNED = "planner", "fuse.json"


def encoder_for(skb: SKB, name: str = "") -> Encoder:
    """What encodes clauses: the encoder named, else minilm if it is installed, else that of the SKB's vectors.

    Raises UsageError where there is none.
    """
    if name in encoders.WITH_WEIGHTS:
        return encoders.load(name)
    found = None if name else encoders.default(lambda _: None)
    return found or encoder_of(skb)


def save(
    folder: Path,
    skb: SKB,
    found: Trained,
    encoder: Encoder,
    *,
    data: Mapping[str, str],
    training: Sequence[Question],
    validation: Sequence[Question],
    seconds: float,
) -> Card:
    """Write the folder; the card last. ``data`` has the SHA-256 of the questions' files by their datasets' names."""
    found.planner.save(folder / "model" / PLANNER, "exact")
    learned: dict[str, Any] = {
        "kinds": kinds(found.readers),
        "weights": asdict(found.weights),
        "readers": SAID_AS,
        "telling": {"shares": dict(sorted(found.telling.shares.items())), "unmet": found.telling.unmet},
    }
    for reader in found.readers:
        reader.copy_to(folder / "model" / reader.kind)
    write_whole(folder / "model" / LEARNED, json.dumps(learned, ensure_ascii=False, indent=1) + "\n")
    card = Card(
        kind="fuse",
        skb=skb.meta.name,
        schema_sha256=PathSchema.of(skb).sha256,
        relations=skb.relational_text is not None,
        base=encoder.name,
        base_sha256="",
        settings={"evidence": kinds(found.readers)},
        data=dict(data),
        training=tuple(training),
        validation=tuple(validation),
        epochs=Training().epochs,
        best_epoch=Training().epochs,
        pool=skb.meta.nodes,
        before=found.before,
        after=found.after,
        seconds=round(seconds, 1),
        device="cpu",
        versions={name: version(name) for name in ("numpy", "scipy")},
        files=digests(folder / "model"),
    )
    write_whole(folder / CARD, card.model_dump_json(indent=1) + "\n")
    return card


class Opened(NamedTuple):
    """What ``save`` wrote."""

    card: Card
    planner: Ranker
    telling: Telling
    weights: Weights
    readers: Sequence[Reader]


def load(folder: Path, kb: SkbKB, settings: Settings) -> Opened:
    """Read what ``save`` wrote. Raises UsageError for another SKB's schema, DataError where it is damaged."""
    skb, card = kb.skb, read_card(folder, "fuse")
    check_schema(folder, card, skb.meta.name, PathSchema.of(skb).sha256)
    check_files(folder / "model", card.files)
    planner = Ranker.load(folder / "model" / PLANNER, skb, encoder_for(skb, card.base))
    try:
        found: dict[str, Any] = json.loads((folder / "model" / LEARNED).read_bytes())
        known, more = found["kinds"][: len(KINDS)], found["kinds"][len(KINDS) :]
        weights = Weights(*(tuple(found["weights"][part]) for part in ("plain", "sure")))
        telling = Telling(found["telling"]["shares"], found["telling"]["unmet"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / 'model' / LEARNED}: {error!r}") from error
    if tuple(known) != KINDS or (more and found.get("readers") != SAID_AS):
        raise DataError(f"{folder}: its weights are of other evidence; train it again")
    readers = [open_reader(kb, folder / "model" / kind, settings) for kind in more]
    return Opened(card, planner, telling, weights, readers)
