"""Prompt files, one folder an agent, and the one function that renders them."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        autoescape=False,  # the output is a prompt, not a page
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(name: str | Path, **values: Any) -> str:
    """The prompt ``name`` (as in ``spinach/policy.md``, or a ``Path``) with its variables filled in.

    Raises jinja2.UndefinedError where the file uses a variable that is not given.
    """
    environment = _environment()
    own = name.read_text(encoding="utf-8") if isinstance(name, Path) else None
    template = environment.get_template(name) if own is None else environment.from_string(own)
    text: str = template.render(**values)
    return text.strip()


def prompt_hashes(*folders: str) -> dict[str, str]:
    """SHA-256 of every prompt file of these folders, saved with a run; ``.`` has those that all agents share."""
    return {
        (path.relative_to(FOLDER) if path.is_relative_to(FOLDER) else path).as_posix(): hashlib.sha256(
            path.read_bytes()
        ).hexdigest()
        for path in sorted(file for one in folders for file in (FOLDER / one).glob("*.md"))
    }
