"""What a run of a program costs in the sandbox, beside a plain call in one process; and the attacks on it.

    python -m benchmarks.programs [--attacks]

Measured in turns within one run, so that what else the machine does falls on all alike: a run from nothing (a program
that ranks two candidates), a call of the API (the run of a program that makes 1,000, over 1,000), the type check, and
what loops and sorts cost. ``--attacks`` runs the hostile programs of tests/programs as well, and says how long each
went on as a share of its limit.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from kbnav.knowledge.open import open_kb
from kbnav.programs.api import Api, ApiLimits
from kbnav.programs.program import BadProgram, Program
from kbnav.programs.sandbox import Sandbox, SandboxLimits
from kbnav.settings.model import Settings

CANDIDATES = ("place:averhythe", "place:ropewalk-lane")
RANKED = "    return {node: place for place, node in enumerate(candidates)}\n"
EMPTY = "def score(query, candidates):\n" + RANKED
CALLS = "def score(query, candidates):\n    for i in range(1000): intersect([])\n" + RANKED
WORK = "def score(query, candidates):\n    x = 0\n    for i in range(200000): x += i % 7\n" + RANKED
SECONDS = 0.25
"""The limit of a hostile program."""


def main() -> None:
    """Print a table, and the attacks' ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--attacks", action="store_true")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        open_kb(Settings(kb="demo", home=Path(home))) as kb,
        ExitStack() as stack,
    ):
        api = Api(kb, limits=ApiLimits(calls=2_000))
        sandbox = stack.enter_context(Sandbox())
        for what, source, per in (("a run", EMPTY, 1), ("a call of the API", CALLS, 1_000), ("200k steps", WORK, 1)):
            _table(what, Program.read(source), per, sandbox, api)
        print("the type check of a program")
        for number in range(3):
            program = Program.read(f"# {number}\n{CALLS}")
            print(f"  {_seconds(lambda p=program: sandbox.check(p, api)) * 1e3:.1f} ms")
        if chosen.attacks:
            hostile = Api(kb, limits=ApiLimits(calls=100))
            with Sandbox(SandboxLimits(seconds=SECONDS, memory=64 << 20, output=100_000)) as limited:
                _attack(limited, hostile)


def _table(what: str, program: Program, per: int, sandbox: Sandbox, api: Api) -> None:
    """Medians of turns, each with every way once."""
    ways: dict[str, Callable[[], object]] = {
        "a function of this process": _plain(program, api),
        "the sandbox": lambda: sandbox.run(program, "q", CANDIDATES, api),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(21):
        for name, call in ways.items():
            took[name].append(_seconds(call) / per)
    print(what)
    least = np.median(took["a function of this process"])
    for name, all_of_it in took.items():
        middle = np.median(all_of_it)
        print(f"  {name}: median {middle * 1e3:.4f} ms, {middle / least:.0f} times the plain one")


def _plain(program: Program, api: Api) -> Callable[[], object]:
    """The same work by functions of this process, which no model wrote."""
    calls = api.open("q")

    def empty() -> object:
        return {node: place for place, node in enumerate(CANDIDATES)}

    def called() -> object:
        calls.counts.clear()
        for _ in range(1_000):
            calls.call("intersect", ([],))
        return empty()

    def worked() -> object:
        x = 0
        for i in range(200_000):
            x += i % 7
        return empty()

    return {EMPTY: empty, CALLS: called, WORK: worked}[program.source]


def _attack(sandbox: Sandbox, api: Api) -> None:
    from tests.programs.attacks import ATTACKS

    shares: list[tuple[float, str]] = []
    for attack in [one for group in ATTACKS.values() for one in group]:
        try:
            program = Program.read(attack.source)
        except BadProgram:
            shares.append((0.0, attack.name))
            continue
        outcome = sandbox.run(program, "/etc/passwd", CANDIDATES, api)
        shares.append((outcome.seconds / SECONDS, attack.name))
    shares.sort(reverse=True)
    print(f"{len(shares)} hostile programs, {sum(share > 2 for share, _ in shares)} over twice the limit")
    print("  longest, as shares of the limit: " + ", ".join(f"{name} {share:.2f}" for share, name in shares[:5]))


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
