"""Prompt files, one folder an agent, and the one function that renders them."""

from __future__ import annotations

import hashlib
import re
from functools import cache, lru_cache
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
    """The prompt ``name`` (as in ``spinach/policy.md``, or a ``Path``) with its variables filled in.

    Raises jinja2.UndefinedError where the file uses a variable that is not given.
    """
    environment = _environment()
    own = name.read_text(encoding="utf-8") if isinstance(name, Path) else None
    template = environment.get_template(name) if own is None else environment.from_string(own)
    text: str = template.render(**values)
    return text.strip()


def prompt_hashes(*folders: str) -> dict[str, str]:
    """SHA-256 of every prompt file of these folders, and of what those include; ``.`` has those that all agents share.

    Saved with a run.
    """
    files = {file for one in folders for file in (FOLDER / one).glob("*.md")}
    files |= {FOLDER / name for file in files for name in _content(file)[1]}
    return {
        (path.relative_to(FOLDER) if path.is_relative_to(FOLDER) else path).as_posix(): _content(path)[0]
        for path in sorted(files)
    }


def _content(path: Path) -> tuple[str, frozenset[str]]:
    """The SHA-256 of a prompt file, and the names of those that it includes; read again only where it has changed."""
    now = path.stat()
    return _read(path, now.st_mtime_ns, now.st_size)


@lru_cache(256)
def _read(path: Path, changed: int, size: int) -> tuple[str, frozenset[str]]:  # noqa: ARG001 - the file as it was then
    data = path.read_bytes()
    return hashlib.sha256(data).hexdigest(), frozenset(_INCLUDED.findall(data.decode()))
