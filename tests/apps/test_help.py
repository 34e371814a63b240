"""What the help of every command says, in which shape, and that pages name commands and options that are there."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from kbnav.apps.cli import app
from tests.conftest import ROOT


def commands(found: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name in getattr(found, "commands", {}):
        inner = found.commands[name]
        yield from commands(inner, f"{path} {name}") if hasattr(inner, "commands") else [(f"{path} {name}", inner)]


GROUP: Any = typer.main.get_command(app)
COMMANDS = dict(commands(GROUP, "kbnav"))
SILENT = ("kbnav serve", "kbnav mcp", "kbnav sparql serve", "kbnav eval collect", "kbnav chat", "kbnav bot preview")
"""Those that serve, that are spoken to, or whose print is wikitext."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@cache
def said(path: str, option: str = "-h") -> str:
    result = CliRunner().invoke(app, [*path.split()[1:], option], prog_name="kbnav")
    assert result.exit_code == 0, result.output
    return result.output


def options_of(command: Any) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("path", COMMANDS)
def test_help_is_in_plain_words_with_an_example_of_the_commands_own_options(path):
    text = said(path)
    assert text == said(path, "--help")
    options = re.findall(r"^  (?:-\w, )?(--[a-z-]+)(?: [^a-z ].*?)?  +(\S.*)$", text, re.MULTILINE)
    assert all(words for _, words in options)
    text = " ".join(COMMANDS[path].help.split())
    example = re.search(rf"{re.escape(path)} ?([^.]|\.\w)*", text.split("xample", 1)[-1] if "xample" in text else text)
    assert example, text
    given = {word for word in shlex.split(example[0].split(": ")[0]) if word.startswith("--")}
    assert given <= options_of(COMMANDS[path])


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in SILENT])
def test_what_prints_can_print_json(path):
    assert "--json" in said(path)


def test_the_package_is_a_program():
    told = subprocess.run([sys.executable, "-m", "kbnav", "-h"], capture_output=True, text=True, check=True).stdout
    assert told.split() == said("kbnav").split()


def sentences(text: str) -> list[str]:
    text = re.sub(r"(?ms)^\s*```.*?^\s*```|^\s*\|.*?$|^#.*?$", "", text)
    text = re.sub(r"`[^`]*`", "code", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text))
    blocks = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", text)
    return [one for block in blocks for one in re.split(r"(?<=[.!?:;])[\s)]+", " ".join(block.split()))]


def test_no_sentence_of_help_readme_and_tutorials_is_longer_than_thirty_words():
    texts = [page.read_text(encoding="utf-8") for page in PAGES if page.name.startswith(("README", "tutorial-"))]
    for command in COMMANDS.values():
        texts += [command.help, *(getattr(parameter, "help", None) or "" for parameter in command.params)]
    assert [one for text in texts for one in sentences(text) if len(one.split()) > 30] == []


def named(text: str) -> list[str]:
    """The commands of kbnav in a page's text, without its blocks."""
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`(kbnav [a-z][^`]*)`", outside)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_in_sentences_have_the_options_that_stand_behind_them(page):
    for line in named(page.read_text(encoding="utf-8")):
        words, command = shlex.split(line.replace("…", ""))[1:], GROUP
        while words and (found := getattr(command, "commands", {}).get(words[0])):
            command, words = found, words[1:]
        assert command is not GROUP, line
        given = {word.partition("=")[0].rstrip(",") for word in words if word.startswith("--")}
        assert given <= options_of(command) | {"--help"}, line
