"""What an answer on the page costs a processor, beside the server of another checkout, by rounds of 20 that take turns.

    python -m benchmarks.serve_rounds OTHER [--rounds 8] [--varied]

``OTHER`` is the folder of a checkout with its own ``.venv``. Each server is asked as its own page asks
(``benchmarks/_readers.py`` there): six questions again and again, or with ``--varied`` each question once. Told are
the medians of milliseconds of processors an answer, the server's queries apart, and the median of the pairs' ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

from benchmarks._varied import varied
from benchmarks.serve_load import answers

HERE = Path(__file__).parent.parent
EACH = 20


class Tree:
    """The server of a checkout, and its readers."""

    def __init__(self, folder: Path, home: str, opened: ExitStack) -> None:
        command = [folder / ".venv/bin/python", "-m", "kbnav", "serve", "--kb", "mini", "--port", "0"]
        environment = {"KBNAV_HOME": home, "KBNAV_LANGUAGE": "en", "PYTHONPATH": str(folder / "src")}
        options = {"text": True, "cwd": home, "env": {**os.environ, **environment, "PYTHONUNBUFFERED": "1"}}
        self.process = subprocess.Popen(
            [*map(str, command), "--set", "web.questions_per_day=1000000"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **options,  # type: ignore[call-overload]
        )
        opened.callback(self.process.wait)
        opened.callback(self.process.kill)
        told = []
        for line in self.process.stdout:
            told.append(line)
            if found := re.search(r"http://[^/\s]+", line):
                break
        else:
            raise AssertionError(f"the server of {folder} does not start: {''.join(told)}")
        self.url = found[0]
        threading.Thread(target=list, args=(self.process.stdout,), daemon=True).start()
        self.readers = _module(folder / "benchmarks" / "_readers.py")
        self.taken: list[float] = []

    def cpu(self) -> float:
        """Seconds of processors that its threads have had, those that have ended too."""
        return time.clock_gettime(~self.process.pid << 3 | 2)  # clock_getcpuclockid(3) of Linux

    async def round(self, number: int, asked: list[tuple[str, str]]) -> None:
        """Ask some questions, one after another."""
        told = self.readers.Told()
        reader = self.readers.Reader(self.url, "", number, {}, told, {"ask": 1.0})
        await reader._do("open")
        began = self.cpu()
        for pair in asked:
            reader._answers = dict([pair])
            await reader._do("ask")
        self.taken.append(1e3 * (self.cpu() - began) / len(asked))
        if told.lost:
            raise AssertionError(f"lost: {told.lost}")


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"readers_{len(str(path))}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def rounds(trees: list[Tree], asked: list[tuple[str, str]], many: int) -> None:
    """A round that does not count, and then as many as are wanted, each tree first in every second."""
    for number in range(many + 1):
        some = [asked[place % len(asked)] for place in range(number * EACH, (number + 1) * EACH)]
        for tree in trees if number % 2 else reversed(trees):
            await tree.round(number, some)


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--varied", action="store_true")
    given = parser.parse_args()
    questions = varied() if given.varied else {}
    with ExitStack() as opened:
        homes = [opened.enter_context(tempfile.TemporaryDirectory()) for _ in range(2)]
        trees = [Tree(folder.resolve(), home, opened) for folder, home in zip((given.other, HERE), homes, strict=True)]
        known = {question: answer for tree in trees for question, answer in answers(tree.url).items()}
        asyncio.run(rounds(trees, list((questions or known).items()), given.rounds))
        other, own = (tree.taken[1:] for tree in trees)
        ratio = statistics.median(mine / its for mine, its in zip(own, other, strict=True))
        print(f"ms an answer: {statistics.median(other):.1f} there, {statistics.median(own):.1f} here; ", end="")
        print(f"a pair's ratio {ratio:.2f}, of {given.rounds} rounds")


if __name__ == "__main__":
    main()
