"""The line at which questions are typed: with history on a terminal, plain from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kbnav.runs.journal import private_file

_KEPT = 1000
"""Lines of history that are kept."""
_BOLD, _PLAIN = "\001\x1b[1m\002", "\001\x1b[0m\002"
"""Marked, so that the line editor knows that they have no width."""


class Prompt:
    """Reads lines. On a terminal the arrow keys bring back those of earlier sessions, and Tab completes commands."""

    def __init__(self, home: Path, commands: Sequence[str]) -> None:
        """The history is kept in ``<home>/chat-history``; ``commands`` are completed."""
        self._file = home / "chat-history"
        self._commands = commands
        self._editor = _line_editor() if sys.stdin.isatty() and sys.stdout.isatty() else None

    def __enter__(self) -> Self:
        if self._editor:
            self._editor.clear_history()
            with suppress(OSError):  # one that cannot be read is none
                self._editor.read_history_file(self._file)
            self._editor.set_completer_delims("")
            self._editor.set_completer(self._complete)
            libedit = "libedit" in (self._editor.__doc__ or "")
            self._editor.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._editor:
            self._editor.set_history_length(_KEPT)
            try:
                private_file(self._file)
                self._editor.write_history_file(self._file)
            except OSError as error:
                print(f"kbnav: {self._file}: what was typed is not kept: {error.strerror}", file=sys.stderr)

    def read(self) -> str:
        """What is typed, empty at the end."""
        try:
            return input(f"{_BOLD}?{_PLAIN} " if self._editor else "? ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return ""

    def _complete(self, start: str, number: int) -> str | None:
        found = [command for command in self._commands if start.startswith("/") and command.startswith(start)]
        return found[number] if number < len(found) else None


def _line_editor() -> Any:
    try:
        import readline
    except ImportError:  # Windows
        return None
    return readline
