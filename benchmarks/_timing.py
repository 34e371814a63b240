"""What the benchmarks of SKBs share: timing a call over many inputs, and the memory of this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def milliseconds(call: Callable[[Any], object], items: Sequence[Any]) -> tuple[list[float], list[float]]:
    """What a call takes over the items by the clock and of processors, after one call that warms up."""
    call(items[0])
    took, cpu = [], []
    for item in items:
        begin = time.process_time()
        took.append(1e3 * seconds(lambda item=item: call(item)))
        cpu.append(1e3 * (time.process_time() - begin))
    return took, cpu


def show(what: str, call: Callable[[Any], object], items: Sequence[Any]) -> None:
    """Print how long a call takes, in milliseconds over the items, after one call that warms up.

    The quickest tenth, and the processor time of all threads, tell more where the machine is busy with other work too.
    """
    took, cpu = milliseconds(call, items)
    low, middle, high = np.percentile(took, [10, 50, 95])
    times = f"median {middle:.2f} ms, 10 % under {low:.2f} ms, 95 % under {high:.2f} ms"
    print(f"  {what}: {times}; CPU {np.median(cpu):.2f} ms", flush=True)


def built(what: str, build: Callable[[], object], folder: Path) -> None:
    """Time a build, and print what disk it took and the process's most memory up to then."""
    cpu = time.process_time()
    wall = seconds(build)
    cpu = time.process_time() - cpu
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20
    print(
        f"  build of {what}: {wall:.0f} s, {cpu:.0f} s of CPU; {size:.0f} MiB; peak {status('VmHWM'):.0f} MiB",
        flush=True,
    )


def status(field: str) -> float:
    """A memory figure of this process in MiB, as Linux reports it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    return float("nan")
