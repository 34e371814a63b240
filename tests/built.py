"""SKBs that tests read, kept between runs by the hash of the code and the input that made them."""

import fcntl
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def kept(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None], *inputs: Path) -> Path:
    """The folder that ``make`` fills, made once for all runs as long as the code and the ``inputs`` are the same.

    Processes that run side by side wait for the one that makes it. What is read must not be written to.
    """
    folder = ROOT / ".pytest_cache" / "skbs"
    folder.mkdir(parents=True, exist_ok=True)
    package = ROOT / "src" / "kbnav"
    code = [path for part in ("knowledge/skb", "encoders") for path in (package / part).rglob("*.py")]
    digest = hashlib.sha256()
    for path in (*sorted(code), Path(make.__code__.co_filename), *inputs):
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    out = folder / f"{name}-{digest.hexdigest()[:16]}"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.is_dir():
            for old in folder.glob(f"{name}-*"):
                shutil.rmtree(old)
            making = factory.mktemp(name)
            make(making)
            shutil.rmtree(folder / f".{out.name}", ignore_errors=True)  # of a process that was killed
            shutil.move(making, folder / f".{out.name}")
            (folder / f".{out.name}").rename(out)
    return out
