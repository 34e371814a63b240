"""How many threads NumPy's products of matrices take.

The threads of OpenBLAS, which NumPy's wheels bring, wait for one another in a busy loop. Where other programs want the
cores too, two of them make a product take many times longer than one does. NumPy has no function to set their number.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np  # noqa: F401 - brings the library that is looked for


class Blas(NamedTuple):
    """OpenBLAS's own functions."""

    threads: Callable[[], int]
    set_threads: Callable[[int], object]


@cache
def openblas() -> Blas | None:
    """That of this process; None where NumPy computes with another library."""
    library = ctypes.CDLL(sys.modules["numpy._core._multiarray_umath"].__file__)  # those it is linked to are searched
    for name in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads"):
        if hasattr(library, name.format("set")):
            return Blas(getattr(library, name.format("get")), getattr(library, name.format("set")))
    return None


class OneThread:
    """Products are computed on the thread that asks for them, in the whole process, while any thread is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside, self._before = 0, 1

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Where NumPy computes without OpenBLAS, nothing is changed."""
        blas = openblas()
        if blas is None:
            yield
            return
        with self._lock:
            if not self._inside:
                self._before = blas.threads()
                blas.set_threads(1)
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    blas.set_threads(self._before)


one_thread = OneThread()
