"""How long a person waits: for ``import kbnav``, ``kbnav --help``, and an answer of ``kbnav ask`` without a model.

    python -m benchmarks.startup [--runs 10]

Beside them, in the same run: an empty Python, and the import of LangGraph, which an answer without a model needs not.
Processor time is that of the process and its children; the clock is longer where a machine is shared.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

CLI = [sys.executable, "-c", "from kbnav.apps.cli import main; main()"]
QUESTION = "Which elements were discovered by Marie Curie?"
WAYS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import kbnav": [sys.executable, "-c", "import kbnav"],
    "import langgraph.graph": [sys.executable, "-c", "import langgraph.graph"],
    "kbnav --help": [*CLI, "--help"],
    "kbnav ask (mini, offline), to its end": [*CLI, "ask", QUESTION],
}


def whole(command: list[str], home: str) -> tuple[float, float]:
    """Seconds until a command ends: by the clock, and of processors."""
    environment = {**os.environ, "KBNAV_HOME": home}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print medians; the first run of each, which fills caches and unpacks the mirror, is left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as home:
        for number in range(runs + 1):
            for name, command in WAYS.items():
                measured = whole(command, home)
                if number:
                    times[name].append(measured)
    print(f"{'':40}   clock  processors")
    for name, found in times.items():
        clock, processors = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"{name:40} {clock:5.2f} s     {processors:5.2f} s")


if __name__ == "__main__":
    main()
