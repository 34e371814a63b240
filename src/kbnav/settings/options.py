"""Options of one system: a small frozen model each, set by name on the command line and saved with every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from kbnav.errors import UsageError
from kbnav.settings.plugins import did_you_mean

FromGold = Literal["", "entities", "results"]
GIVEN: Mapping[FromGold, str] = MappingProxyType(
    {"entities": "the gold query's entities", "results": "entities of the gold answer"}
)
"""What of a gold answer a system can be given, in words."""
INNER = "stages"
"""The option of a system made of others that holds their options, by name."""


class Options(BaseModel):
    """What the options of every system share: texts become numbers and truth values, commas make lists."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _split(cls, value: Any, info: Any) -> Any:
        annotation = cls.model_fields[info.field_name].annotation
        if isinstance(value, str) and getattr(annotation, "__origin__", None) is tuple:
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @property
    def from_gold(self) -> FromGold:
        """What the system is given of each question's gold answer, which only an evaluation has; empty: nothing."""
        return ""


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
        if unknown[0] == INNER:
            inner = next(iter(given[INNER]), "")
            raise UsageError(f"{system} is not made of other systems, so no option of it begins with '{inner}.'")
        meant = did_you_mean(unknown[0], kind.model_fields)
        known = ", ".join(kind.model_fields) or "none"
        raise UsageError(f"{system} has no option {unknown[0]!r}; there are: {known}{meant}")
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{part}" if not place else f".{part}" for place, part in enumerate(first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{system}: {where}: {said}" if where else f"{system} {said}") from error


def describe_options(kind: type[Options]) -> list[dict[str, Any]]:
    """Each option as plain data: its ``name``, ``type`` in words, ``default`` as ``--set`` takes it, and ``about``."""
    schema = kind.model_json_schema()
    defaults = kind().model_dump(mode="json")
    return [
        {
            "name": name,
            "type": _type_in_words(field),
            "default": defaults[name],
            "about": " ".join(field.get("description", "").replace("``", "").split()),
        }
        for name, field in schema.get("properties", {}).items()
    ]


def _type_in_words(field: Mapping[str, Any]) -> str:
    """The type of an option from its JSON schema, as in ``a number from 1 to 50``."""
    several = [_type_in_words(one) for one in field.get("anyOf", []) if one.get("type") != "null"]
    if several:
        return " or ".join(several)
    if "enum" in field:
        return "one of " + ", ".join(map(str, field["enum"]))
    kind = field.get("type", "")
    if kind == "array":
        return f"several, with commas: {_type_in_words(field.get('items', {}))}"
    words = {
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "object": "NAME.OPTION=VALUE",
    }
    low, high, above = field.get("minimum"), field.get("maximum"), field.get("exclusiveMinimum")
    if low is not None and high is not None:
        return f"{words[kind]} from {low} to {high}"
    bound = f", at least {low}" if low is not None else f", above {above}" if above is not None else ""
    return words.get(kind, "text") + bound
