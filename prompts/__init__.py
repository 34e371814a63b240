"""Prompt files, one folder an agent, and the one function that renders them."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
RESULT = "result"
"""The usual mark of data."""
_INCLUDED = re.compile(r'\{%-? *(?:include|extends) "([^"]+)"')


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        autoescape=False,  # the output is a prompt, not a page
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["data"] = lambda text, mark=RESULT: f"{as_data(text.strip(), mark)}\n"
    return environment


def as_data(text: str, mark: str = RESULT) -> str:
    """What a knowledge base says, between marks that nothing in it can forge; ``data.md`` tells a model what they mean.

    In a prompt file: ``{% filter data %}`` and what is to stand between, and ``{% include "data.md" %}``.
    """
    lines = f"{_bounds(mark).sub('&lt;', text)}\n" if text else ""
    return f"<{mark}>\n{lines}</{mark}>"


@cache
def _bounds(mark: str) -> re.Pattern[str]:
    return re.compile(rf"<(?=[\s\u200b-\u200f\u2060/]*{mark})", re.IGNORECASE)


def render(name: str | Path, **values: Any) -> str:
    """The prompt ``name`` (a path below this folder, or a ``Path``), filled in. Raises jinja2.UndefinedError."""
    environment = _environment()
    own = name.read_text(encoding="utf-8") if isinstance(name, Path) else None
    template = environment.get_template(name) if own is None else environment.from_string(own)
    text: str = template.render(**values)
    return text.strip()


def prompt_hashes(*folders: str) -> dict[str, str]:
    """SHA-256 of the prompt files of folders (``.``: shared ones), or of a file, and of what they include."""
    places = [FOLDER / one for one in folders]
    paths = [path for one in places for path in ([one] if one.is_file() else one.glob("*.md"))]
    files = {path: path.read_bytes() for path in paths}
    for name in [name for content in files.values() for name in _INCLUDED.findall(content.decode())]:
        files.setdefault(FOLDER / name, (FOLDER / name).read_bytes())
    names = {path: path.relative_to(FOLDER) if path.is_relative_to(FOLDER) else path for path in files}
    return {names[path].as_posix(): hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
