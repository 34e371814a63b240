"""Prompt files, one folder an agent, and the one function that renders them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

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

    One of them may be a file itself. Saved with a run. A file is read again only where it has changed.
    """
    files = {path: _content(entry) for one in folders for path, entry in _files(FOLDER / one)}
    included = {str(FOLDER / name) for content in files.values() for name in content.includes} - files.keys()
    files |= {path: _content(path) for path in included}
    return {content.name: content.sha256 for _, content in sorted(files.items())}


def _files(place: Path) -> Iterator[tuple[str, os.PathLike[str]]]:
    try:
        entries = list(os.scandir(place))
    except NotADirectoryError:
        yield str(place), place
        return
    yield from ((entry.path, entry) for entry in entries if entry.name.endswith(".md"))


class _Content(NamedTuple):
    name: str
    sha256: str
    includes: frozenset[str]


def _content(path: os.PathLike[str] | str) -> _Content:
    now = os.stat(path)  # noqa: PTH116 - a Path takes longer to make
    return _read(os.fspath(path), now.st_mtime_ns, now.st_size)


@lru_cache(512)
def _read(path: str, changed: int, size: int) -> _Content:  # noqa: ARG001 - as the file was then
    file, data = Path(path), Path(path).read_bytes()
    name = file.relative_to(FOLDER) if file.is_relative_to(FOLDER) else file
    return _Content(name.as_posix(), hashlib.sha256(data).hexdigest(), frozenset(_INCLUDED.findall(data.decode())))
