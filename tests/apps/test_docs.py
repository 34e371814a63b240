"""What pages say of commands within a sentence holds: the commands are there, and so are their options."""

import re
import shlex
from typing import Any

import pytest
import typer

from kbnav.apps.cli import app
from tests.conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GROUP: Any = typer.main.get_command(app)


def named(text: str) -> list[str]:
    """The commands of kbnav in a page's text, without its blocks."""
    sentences = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`(kbnav [a-z][^`]*)`", sentences)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_in_sentences_have_the_options_that_stand_behind_them(page):
    for line in named(page.read_text(encoding="utf-8")):
        words, command = shlex.split(line.replace("…", ""))[1:], GROUP
        while words and (found := getattr(command, "commands", {}).get(words[0])):
            command, words = found, words[1:]
        assert command is not GROUP, line
        options = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
        given = {word.partition("=")[0].rstrip(",") for word in words if word.startswith("--")}
        assert given <= options, line
