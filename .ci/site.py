"""A hook of the site: reference pages made from the code; links that lead out of the guide become plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
_LIVE = re.compile(r"^(```\w+) live$", re.MULTILINE)
_PYTHON = """# Python

[The tutorial](python.md) shows these at work.

::: kbnav
"""
_SAVED = {
    "evaluation.datasets.records": ["Question"],
    "runs.trajectory": ["Run", "Step", "Call", "Usage", "Outcome", "Understood", "Doubt"],
    "evaluation.records": ["RunInfo", "QuestionRecord", "GoldInfo", "GoldAnswer"],
}
_FIELDS = """::: kbnav.{}.{}
    options: {{merge_init_into_class: true, separate_signature: true, line_length: 80, members: false}}
"""
_FORMATS = """# Formats of saved files

A question of a benchmark, a saved run (one JSON object with these fields), and the folder of an evaluation. The folder
of an SKB is on [a page of its own](skb-format.md).

{classes}"""


def on_files(files: Any, config: Any, **_: Any) -> None:
    """Add what is made from the code: commands with their options, public names, formats of files."""
    commands = Path("build/commands.md").read_text(encoding="utf-8")
    commands = re.sub(r"\x08\n(Begin with:)\n((?:  .*\n)+)", r"\1\n\n```text\n\2```\n", commands)
    first_lines = re.findall(r"^#+ `kbnav .*`\n\n(.+)", commands, re.MULTILINE)
    commands = re.sub(
        r"^(\* `\w+`: )(.+)\.\.\.$",
        lambda cut: cut[1] + next(line for line in first_lines if line.startswith(cut[2])),
        commands,
        flags=re.MULTILINE,
    )
    classes = "\n".join(_FIELDS.format(module, name) for module, names in _SAVED.items() for name in names)
    formats = _FORMATS.format(classes=classes)
    for name, text in (("commands.md", commands), ("python-api.md", _PYTHON), ("formats.md", formats)):
        files.append(File.generated(config, name, content=text))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page's text as the site shows it."""
    return _LIVE.sub(r"\1", _OUTSIDE.sub(r"\1", markdown))
