"""``planner.json``: what a trained planner was trained for, and how its questions' nodes were matched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kbnav.encoders import Encoder
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.names import Variant
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.schema import PathSchema

DESCRIPTION = "planner.json"
FORMAT = 1


def describe(planner: str, skb: SKB, matching: Variant, **more: Any) -> dict[str, Any]:
    """What ``planner.json`` says of any planner, and more."""
    return {
        "planner": planner,
        "format": FORMAT,
        "skb": skb.meta.name,
        "schema": PathSchema.of(skb).sha256,
        "matching": matching,
        **more,
    }


def write_description(folder: Path, description: dict[str, Any]) -> None:
    """Write ``planner.json``."""
    (folder / DESCRIPTION).write_text(json.dumps(description, ensure_ascii=False), encoding="utf-8")


def read_description(folder: Path, planner: str = "") -> dict[str, Any]:
    """``planner.json`` of a trained planner, of this kind where one is named. Raises UsageError, DataError."""
    path = folder / DESCRIPTION
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"{folder} has no trained planner: no {DESCRIPTION}") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise DataError(f"{path}: not the description of a planner")
    if found["format"] > FORMAT:
        raise DataError(f"{path}: format {found['format']} is newer than {FORMAT}, the newest this version reads")
    if planner and found.get("planner") != planner:
        raise UsageError(f"{folder} holds a planner {found.get('planner')}, not {planner}")
    return found


def fits(folder: Path, description: dict[str, Any], skb: SKB, encoder: Encoder | None = None) -> None:
    """Raises UsageError where a planner was trained for another schema or with another encoder, with both names."""
    if description.get("schema") != PathSchema.of(skb).sha256:
        raise UsageError(
            f"{folder}: trained for the schema of {description.get('skb')}; that of {skb.meta.name} is another"
        )
    if encoder is not None and description.get("encoder") != encoder.name:
        raise UsageError(
            f"{folder}: trained with the encoder {description.get('encoder')}; {skb.meta.name} has {encoder.name}"
        )


def matched_otherwise(trained: str, matching: str) -> str:
    """What must be said where a planner meets nodes matched in another way than those it learned from; else nothing.

    A planner trained by name alone has met no node on a question that names none, and there learned ``text``; given
    nodes found by meaning, it has never learned that ``text`` may be right.
    """
    if not trained or trained == matching:
        return ""
    return f"The planner was trained with matching={trained}, and these nodes are matched by {matching}."
