"""What the help of every command says: an example that the command takes, in sentences that are read once."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from kbnav.apps.cli import app
from tests.conftest import ROOT


def commands(found: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name in getattr(found, "commands", {}):
        inner = found.commands[name]
        yield from commands(inner, f"{path} {name}") if hasattr(inner, "commands") else [(f"{path} {name}", inner)]


COMMANDS = dict(commands(typer.main.get_command(app), "kbnav"))


@pytest.mark.parametrize("path", COMMANDS)
def test_each_commands_help_has_an_example_with_its_own_options(path):
    text = " ".join(COMMANDS[path].help.split())
    example = re.search(rf"{re.escape(path)} ?([^.]|\.\w)*", text.split("xample", 1)[-1] if "xample" in text else text)
    assert example, text
    known = {name for parameter in COMMANDS[path].params for name in (*parameter.opts, *parameter.secondary_opts)}
    given = {word for word in shlex.split(example[0].split(": ")[0]) if word.startswith("--")}
    assert given <= known


def sentences(text: str) -> list[str]:
    text = re.sub(r"(?ms)^\s*```.*?^\s*```|^\s*\|.*?$|^#.*?$", "", text)
    text = re.sub(r"`[^`]*`", "code", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text))
    blocks = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", text)
    return [one for block in blocks for one in re.split(r"(?<=[.!?:;])[\s)]+", " ".join(block.split()))]


def test_no_sentence_of_help_readme_and_tutorials_is_longer_than_thirty_words():
    texts = [path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").glob("tutorial-*.md")]]
    for command in COMMANDS.values():
        texts += [command.help, *(getattr(parameter, "help", None) or "" for parameter in command.params)]
    assert [one for text in texts for one in sentences(text) if len(one.split()) > 30] == []
