"""Options of one system: a small frozen model each, set by name on the command line and saved with every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from kbnav.errors import UsageError

INNER = "stages"
"""The option of a system made of others that holds their options, by name."""


class Options(BaseModel):
    """What the options of every system share: texts become numbers and truth values, commas make lists."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _split(cls, value: Any, info: Any) -> Any:
        annotation = cls.model_fields[info.field_name].annotation
        if isinstance(value, str) and getattr(annotation, "__origin__", None) is tuple:
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value


O = TypeVar("O", bound=Options)  # noqa: E741


def parse_set(pairs: Sequence[str]) -> dict[str, Any]:
    """``name=value`` pairs as a mapping; ``bm25.relations=true`` is the option of a system within the system.

    Raises UsageError for what is no pair.
    """
    given: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not name or not equals:
            raise UsageError(f"--set takes name=value, not {pair!r}")
        system, dot, inner = name.rpartition(".")
        if dot:
            given.setdefault(INNER, {}).setdefault(system, {})[inner] = value
        else:
            given[name] = value
    return given


def read_options(kind: type[O], given: Mapping[str, Any], system: str) -> O:
    """The options of a system. Raises UsageError for an unknown one, naming those there are, and for a wrong value."""
    unknown = [name for name in given if name not in kind.model_fields]
    if unknown:
        known = ", ".join(kind.model_fields) or "none"
        raise UsageError(f"{system} has no option {unknown[0]!r}; there are: {known}")
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"{system}: {'.'.join(str(part) for part in first['loc'])}: {first['msg'].removeprefix('Value error, ')}"
        ) from error
