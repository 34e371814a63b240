"""The folder of something trained: a place of work until it is over, then a model and its card, never half of it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kbnav.encoders.trained_card import CARD, MODEL, Card, digests
from kbnav.errors import DataError, KbnavError, UsageError
from kbnav.runs.journal import write_whole

WORK = "training"
"""What a training that is not over keeps: its data and checkpoints. It is removed at the end."""
CURVE = "validation.csv"
"""The scores on the validation questions each time they were asked."""
_IDENTITY, _PREPARED = "identity", "prepared.json"


@dataclass(frozen=True)
class Workshop:
    """The folder ``out`` while something is trained in it; ``identity`` names what is learned from what, and how."""

    out: Path
    identity: str

    @property
    def work(self) -> Path:
        """Where checkpoints go."""
        return self.out / WORK

    def begin(self) -> None:
        """Take the folder, or go on in it. Raises UsageError where it holds something else."""
        if (self.out / CARD).exists():
            raise UsageError(f"{self.out} holds something trained already; choose another folder")
        kept = self.work / _IDENTITY
        if kept.exists():
            if kept.read_text(encoding="utf-8") != self.identity:
                raise UsageError(
                    f"{self.out} holds a training with other questions or options that is not over; choose another "
                    "folder, or remove it"
                )
            return
        if self.out.exists() and (not self.out.is_dir() or any(one.name != WORK for one in self.out.iterdir())):
            raise UsageError(f"{self.out} is there already and no training of kbnav's; choose another folder")
        try:
            self.work.mkdir(parents=True, exist_ok=True)
            write_whole(kept, self.identity)
        except OSError as error:
            raise UsageError(f"{self.out}: cannot be written: {error.strerror}") from error

    def prepared(self, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What ``make`` gives, plain data, made once; where it finds fault, nothing is left. Raises DataError."""
        path = self.work / _PREPARED
        if not path.exists():
            try:
                write_whole(path, json.dumps(make()))
            except KbnavError:
                self.abandon()
                raise
        try:
            found: dict[str, Any] = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: {error}; remove {self.out} to begin anew") from error
        return found

    def abandon(self) -> None:
        """Leave nothing: what was begun cannot be trained as it was asked for."""
        shutil.rmtree(self.work, ignore_errors=True)
        (self.out / CURVE).unlink(missing_ok=True)
        with suppress(OSError):
            self.out.rmdir()

    def put(self, save: Callable[[Path], object]) -> dict[str, str]:
        """Let ``save`` write a model into a folder that then takes its place as a whole; the digests of its files."""
        part = self.work / MODEL
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        save(part)
        shutil.rmtree(self.out / MODEL, ignore_errors=True)
        part.rename(self.out / MODEL)
        return digests(self.out / MODEL)

    def finish(self, card: Card) -> None:
        """Write the card; what only the training needed goes."""
        write_whole(self.out / CARD, card.model_dump_json(indent=1) + "\n")
        with suppress(OSError):
            shutil.rmtree(self.work)


def identity(*parts: Mapping[str, Any]) -> str:
    """One name for all that a training depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def versions(*packages: str) -> dict[str, str]:
    """The versions of packages, kbnav's first."""
    return {name: version(name) for name in ("kbnav", *packages)}
