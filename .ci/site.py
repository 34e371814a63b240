"""A hook of the site: reference pages made from the code; links that lead out of the guide become plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
_PYTHON = """# Python

[The tutorial](python.md) shows these at work.

::: kbnav
"""


def on_files(files: Any, config: Any, **_: Any) -> None:
    """Add what is made from the code: every command with its options, and the public names of the package."""
    commands = Path("build/commands.md").read_text(encoding="utf-8")
    commands = re.sub(r"\x08\n(Begin with:)\n((?:  .*\n)+)", r"\1\n\n```text\n\2```\n", commands)
    for name, text in (("commands.md", commands), ("python-api.md", _PYTHON)):
        files.append(File.generated(config, name, content=text))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page's text as the site shows it."""
    return _OUTSIDE.sub(r"\1", markdown)
