"""Every setting by its full name, with its value and where that comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource

from kbnav.settings.model import SETTINGS_FILE, Settings, setting_names
from kbnav.settings.plugins import did_you_mean

PREFIX = "KBNAV_"
_ELSEWHERE = {"KBNAV_TEST_DATA"}
"""Variables that are read by the tests and benchmarks alone."""


class Explained(NamedTuple):
    """A setting; ``value`` is plain JSON data, secrets masked, and ``source`` a variable, the file, or ``default``."""

    name: str
    value: Any
    source: str


def variable_of(name: str) -> str:
    """The environment's variable of a setting."""
    return PREFIX + name.replace(".", "__").upper()


def explained(settings: Settings) -> list[Explained]:
    """Every setting of ``settings``, as they were read without further arguments."""
    values = settings.public()
    from_environment, from_file = EnvSettingsSource(Settings)(), TomlConfigSettingsSource(Settings)()
    found = []
    for name in setting_names():
        source = "default"
        if _has(from_environment, name):
            source = _variable_used(name)
        elif _has(from_file, name):
            source = SETTINGS_FILE
        found.append(Explained(name, _get(values, name), source))
    return found


def misspelled_variables() -> list[str]:
    """A line for each ``KBNAV_…`` variable that is no setting but is much like one."""
    known = {variable_of(name) for name in setting_names()}
    groups = {variable_of(name) for name in Settings.model_fields}
    lines = []
    for name in sorted(os.environ):
        base = name.upper()
        if base.startswith(PREFIX) and base not in known | groups | _ELSEWHERE and not _inside(base, known):
            guess = did_you_mean(base, known)
            if guess:
                lines.append(f"{name} is no setting{guess}")
    return lines


def _inside(variable: str, known: set[str]) -> bool:
    """Whether it is an entry of a setting that is a table, as ``KBNAV_PRICES__GPT4__PROMPT``."""
    parts = variable.split("__")
    return any("__".join(parts[:count]) in known for count in range(1, len(parts)))


def _variable_used(name: str) -> str:
    used = [one for one in (variable_of(name), "OPENAI_API_KEY") if one in {key.upper() for key in os.environ}]
    group = variable_of(name.partition(".")[0])
    return used[0] if used else group


def _has(values: Mapping[str, Any], name: str) -> bool:
    first, _, rest = name.partition(".")
    inner = values.get(first)
    if inner is None:
        return False
    return not rest or (isinstance(inner, Mapping) and _has(inner, rest))


def _get(values: Mapping[str, Any], name: str) -> Any:
    first, _, rest = name.partition(".")
    return _get(values[first], rest) if rest else values[first]
