"""What commands that ask share: the answer printed, Ctrl-C taken, an error said."""

from __future__ import annotations

import errno
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from kbnav.agents.common.agent import Agent
    from kbnav.knowledge.evidence import Provenance
    from kbnav.models.cancellation import Brake
    from kbnav.runs.trajectory import Run
    from kbnav.settings.model import Settings

DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
"""Errors of a disk: no bug, and mended by who runs the program."""


def print_outcome(
    run: Run, settings: Settings, as_json: bool, as_csv: bool, evidence: Provenance | None = None
) -> None:
    """Print the answer, for people or for programs; with what makes it true where that was looked up."""
    from kbnav.apps.console import answer_json, print_answer, printable, spent_words
    from kbnav.apps.evidence import answer_table, evidence_data, evidence_lines

    page = settings.endpoints.query_page
    saved = (settings.home / "runs" / f"{run.id}.json").is_file()
    table = answer_table(run.outcome)
    if as_json:
        print(answer_json(run, page, **({"evidence": evidence_data(evidence, table)} if evidence else {})))
    elif as_csv:
        if run.outcome.table is not None:
            sys.stdout.write(run.outcome.table.to_csv())
        elif run.outcome.ranking is not None:
            sys.stdout.write(run.outcome.ranking.to_csv())
        if not saved:
            print(f"kbnav: {printable(run.outcome.error)}", file=sys.stderr)
    else:
        from rich.console import Console

        console = Console()
        console.rule()
        print_answer(console, run, page)
        for line in evidence_lines(evidence, table) if evidence else ():
            console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
        steps = f"every step: kbnav show {run.id}" if saved else "not saved"
        console.print(f"{spent_words(run)}; {steps}", style="dim", highlight=False, soft_wrap=True)


def print_json(value: object) -> None:
    """Plain data, for programs."""
    import json

    print(json.dumps(value, ensure_ascii=False, indent=1))


def from_csv(text: str) -> list[dict[str, str]]:
    """The rows of a table that is written as CSV, by column."""
    import csv
    import io

    return list(csv.DictReader(io.StringIO(text)))


@contextmanager
def ended_by_ctrl_c() -> Iterator[Brake]:
    """A brake that Ctrl-C pulls, so that the run ends in good order and is saved; a second Ctrl-C ends the program."""
    from kbnav.models.cancellation import Brake

    brake = Brake()

    def end(number: int, frame: object) -> None:  # noqa: ARG001 - a signal handler
        signal.signal(signal.SIGINT, usual)
        # A thread of its own, because the code that was interrupted may hold the brake's lock.
        threading.Thread(target=brake.stop, args=("Interrupted; the run so far is saved: kbnav show last",)).start()

    usual = signal.signal(signal.SIGINT, end)
    try:
        yield brake
    finally:
        signal.signal(signal.SIGINT, usual)


def say_baseline(console: Console, agent: Agent) -> None:
    """Say that the answer comes without a language model, where it does."""
    from kbnav.settings.model import OFFLINE

    if agent.model == OFFLINE:
        console.print("offline policy: no language model, a baseline; --model names a better one", style="dim")


class _Retries(logging.Handler):
    """Says that a call of a model is made again, which its client keeps to itself."""

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith("Retrying request"):
            seconds = next((part for part in reversed(_args(record)) if isinstance(part, float)), 0.0)
            print(f"the model's endpoint did not answer well; trying again in {seconds:.0f} s", file=sys.stderr)


def _args(record: logging.LogRecord) -> Sequence[object]:
    return record.args if isinstance(record.args, tuple) else ()


def tell_of_retries() -> None:
    """Let people see why it takes long."""
    client = logging.getLogger("openai._base_client")
    if not any(isinstance(one, _Retries) for one in client.handlers):
        client.addHandler(_Retries())
        client.setLevel(logging.INFO)


def say_error(error: Exception) -> None:
    """One line, or a few, on standard error."""
    from kbnav.apps.console import printable

    print(f"kbnav: {printable(str(error))}", file=sys.stderr)
