"""``kbnav completion``: the script by which a shell completes commands, options and names."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

PROGRAM = "kbnav"
VARIABLE = "_KBNAV_COMPLETE"


class Shell(StrEnum):
    """Shells that can be taught."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print the script that completes kbnav's commands, options and names in a shell.

    For bash and zsh put eval "$(kbnav completion bash)", or zsh, at the end of ~/.bashrc or ~/.zshrc; for fish, kbnav
    completion fish | source in ~/.config/fish/config.fish.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))


def get_ready() -> None:
    """Where a shell asks for completions, teach typer to answer."""
    if VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()


def kbs(incomplete: str) -> list[str]:
    """Names of knowledge bases, and folders."""
    from pathlib import Path

    named = [name for name in ("mini", "demo", "wikidata") if name.startswith(incomplete)]
    folder = Path(incomplete).parent if incomplete and not incomplete.endswith("/") else Path(incomplete or ".")
    try:
        inside = [str(one) for one in folder.iterdir() if one.is_dir() and not one.name.startswith(".")]
    except OSError:
        inside = []
    return named + [path for path in sorted(inside) if path.startswith(incomplete)]


def system_names(incomplete: str) -> list[str]:
    """Names of systems."""
    from kbnav.settings.systems import systems

    return [entry.name for entry in systems() if entry.name.startswith(incomplete)]


def datasets(incomplete: str) -> list[str]:
    """Names of datasets, and files of questions."""
    from pathlib import Path

    from kbnav.evaluation.datasets import NAMES

    files = [str(path) for path in sorted(Path().glob("*.jsonl"))]
    return [name for name in (*NAMES, *files) if name.startswith(incomplete)]


def saved(incomplete: str) -> list[str]:
    """Ids of saved runs, the newest first."""
    from kbnav.runs.trajectory import saved_runs
    from kbnav.settings.model import load_settings

    ids = [path.stem for path in reversed(saved_runs(load_settings().home / "runs"))]
    return [name for name in ("last", *ids) if name.startswith(incomplete)][:20]
