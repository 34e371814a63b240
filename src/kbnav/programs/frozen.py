"""Programs as they are kept when a training is over: a folder that loads only where nothing differs.

``programs.json`` says what the programs were trained for and on; each group's program is a file beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from kbnav.encoders.trained import Question, refuse_seen
from kbnav.errors import DataError, UsageError
from kbnav.programs.groups import Centroids
from kbnav.programs.program import BadProgram, Parameter, Program
from kbnav.runs.journal import write_whole

DESCRIPTION = "programs.json"
PROGRAMS = "programs"
FORMAT = 1


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GroupRecord(_Strict):
    """A group in ``programs.json``. Without a program the first stage answers: nothing was better."""

    id: str
    pattern: str
    training: tuple[str, ...]
    validation: tuple[str, ...]
    program: str = ""
    """The file's name below ``programs/``."""
    sha256: str = ""
    parameters: dict[str, bool | int | float | str] = {}
    step: int = 0
    scores: dict[str, float] = {}
    """This program's means over the group's validation queries that were raced on."""
    first: dict[str, float] = {}
    """The first stage's over the same queries."""
    queries: int = 0
    p: float | None = None
    """Of the paired test between the two by MRR."""


class Description(_Strict):
    """``programs.json``."""

    format: int = FORMAT
    skb: str
    bound: dict[str, Any]
    """What must be the same where the programs are used, by name: the API, the schema, the encoder, the first stage."""
    prompts: dict[str, str] = {}
    models: dict[str, str] = {}
    seed: int = 0
    without: tuple[str, ...] = ()
    training: tuple[Question, ...]
    validation: tuple[Question, ...]
    oracle: float = 0.0
    """The share of the validation answers that are among the first stage's candidates."""
    words: tuple[str, ...] = ()
    centroids: tuple[tuple[float, ...], ...] = ()
    groups: tuple[GroupRecord, ...]
    sha256: str = ""
    """Of all the rest."""

    @property
    def weights(self) -> Sequence[float]:
        """Of the first stage's systems; empty where all count the same."""
        stage = self.bound.get("first stage") or {}
        return list((stage.get("options") or {}).get("weights") or ())

    def digest(self) -> str:
        """What ``sha256`` must be."""
        rest = self.model_dump(mode="json", exclude={"sha256"})
        return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class FrozenGroup:
    """A group ready to answer."""

    record: GroupRecord
    program: Program | None

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """Those that differ from the program's own."""
        return self.record.parameters


@dataclass(frozen=True)
class Frozen:
    """What a folder holds."""

    folder: Path
    about: Description
    groups: tuple[FrozenGroup, ...] = field(default=())

    @property
    def centroids(self) -> Centroids:
        """For routing without a model."""
        return Centroids(self.about.words, self.about.centroids)

    def refuse_seen(self, questions: Iterable[tuple[str, str]]) -> None:
        """Raise UsageError where one of the questions, by id and text, was used in training or validation."""
        seen = (*self.about.training, *self.about.validation)
        refuse_seen(self.folder, "its programs", seen, questions)


def freeze(folder: Path, about: Description, programs: Mapping[str, Program]) -> None:
    """Write the programs, by group, then ``programs.json``; the same input gives the same bytes. Raises UsageError."""
    for record in about.groups:
        if record.program:
            write_whole(folder / PROGRAMS / record.program, programs[record.id].source)
    about = about.model_copy(update={"sha256": about.digest()})
    text = json.dumps(about.model_dump(mode="json"), ensure_ascii=False, indent=1)
    write_whole(folder / DESCRIPTION, text + "\n")


def read_frozen(folder: Path) -> Frozen:
    """What a folder holds, each program checked against its digest. Raises UsageError, DataError."""
    path = folder / DESCRIPTION
    try:
        about = Description.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            f"{folder} has no frozen programs: no {DESCRIPTION}; kbnav programs train makes one"
        ) from error
    except (OSError, ValidationError) as error:
        said = error.errors()[0] if isinstance(error, ValidationError) else None
        where = f"{'.'.join(map(str, said['loc']))}: {said['msg']}" if said else str(error)
        raise DataError(f"{path}: {where}") from error
    if about.format > FORMAT:
        raise DataError(f"{path}: format {about.format} is newer than {FORMAT}, the newest this version reads")
    if about.sha256 != about.digest():
        raise DataError(f"{path}: its checksum does not match; the file was changed or damaged")
    return Frozen(folder, about, tuple(FrozenGroup(one, _program(folder, one)) for one in about.groups))


def check_bound(frozen: Frozen, now: Mapping[str, Any]) -> None:
    """Raise UsageError where what the programs are bound to is not what is there now, naming all that differs."""
    then = frozen.about.bound
    changed = [name for name in sorted(then.keys() | now.keys()) if then.get(name) != _plain(now.get(name))]
    if changed:
        told = "; ".join(f"{name}: {_short(then.get(name))}, now {_short(now.get(name))}" for name in changed)
        raise UsageError(f"{frozen.folder}: its programs were made for something else ({told}); train them anew")


def check_prompts(frozen: Frozen, now: Mapping[str, str]) -> None:
    """Raise UsageError where a prompt that answers depend on has changed since the training."""
    changed = [name for name in sorted(now) if frozen.about.prompts.get(name, now[name]) != now[name]]
    if changed:
        raise UsageError(f"{frozen.folder}: the prompt {changed[0]} is another than in training; train anew")


def _program(folder: Path, record: GroupRecord) -> Program | None:
    if not record.program:
        return None
    path = folder / PROGRAMS / record.program
    if Path(record.program).name != record.program:
        raise DataError(f"{folder / DESCRIPTION}: {record.program!r} is no file's name")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(source).hexdigest() != record.sha256:
        raise DataError(f"{path}: its checksum does not match; the program was changed or damaged")
    try:
        program = Program.read(source.decode())
        program.with_defaults(record.parameters)
    except (BadProgram, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a program: {error}") from error
    return program


def _plain(value: Any) -> Any:
    """As JSON gives it back."""
    return json.loads(json.dumps(value))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"
