"""Every command of the command line has the same shape; the commands are read from the application itself."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from kbnav.apps.cli import app


def commands(group: Any, *path: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield (*path, name)


GROUP: Any = typer.main.get_command(app)
COMMANDS = list(commands(GROUP))


@cache
def said(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments], prog_name="kbnav")
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_in_plain_words(command):
    text = said(*command, "-h")
    assert text == said(*command, "--help")
    options = re.findall(r"^  (?:-\w, )?(--[a-z-]+)(?: [^a-z ].*?)?  +(\S.*)$", text, re.MULTILINE)
    assert all(words for _, words in options)


SERVERS = {("serve",), ("mcp",), ("sparql", "serve"), ("eval", "collect")}
SPOKEN_TO = {("chat",)}


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - SERVERS - SPOKEN_TO), ids=" ".join)
def test_what_prints_can_print_json(command):
    assert "--json" in said(*command, "-h")


def test_the_package_is_a_program():
    told = subprocess.run([sys.executable, "-m", "kbnav", "-h"], capture_output=True, text=True, check=True).stdout
    assert told.split() == said("-h").split()
