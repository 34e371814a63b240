"""Arrays in files, opened from several threads at once."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np

from kbnav.knowledge.skb.files import open_array


def test_threads_open_arrays_at_once_while_garbage_is_collected(tmp_path: Path):
    np.save(tmp_path / "a.npy", np.arange(5))
    together = Barrier(3)

    def give_way(phase: str, info: object) -> None:
        time.sleep(1e-5)

    def opened(depth: int) -> int:
        if depth:
            return opened(depth - 1)
        together.wait()
        return sum(int(open_array(tmp_path / "a.npy")[-1]) for _ in range(100))

    threshold = gc.get_threshold()
    gc.callbacks.append(give_way)
    gc.set_threshold(7)
    try:
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(opened, [0, 20, 40])) == [400] * 3
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(give_way)
