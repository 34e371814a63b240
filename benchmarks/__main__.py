"""Run every benchmark in turn: ``python -m benchmarks``. Those that need the real data say so where it is absent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    """The number of benchmarks that failed."""
    failed = 0
    for script in sorted(HERE.glob("[!_]*.py")):
        print(f"== benchmarks/{script.name}", flush=True)
        failed += subprocess.run([sys.executable, "-m", f"benchmarks.{script.stem}"], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
