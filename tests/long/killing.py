"""Work of kbnav's in a process that is killed at random moments, and begun again, until it was killed often enough.

``python -m tests.long.killing KIND KILLS SEED FOLDER [MORE…]`` prints JSON: how often it was killed, and how often the
work came to its end. Each process is forked from this one, which has the modules loaded and does nothing else.
"""

import importlib
import json
import os
import pickle
import random
import signal
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
LOADED = (
    "kbnav.agents.spinach", "kbnav.apps.web.routes", "kbnav.apps.web.server", "kbnav.apps.cli",
    "kbnav.evaluation.runner", "kbnav.knowledge.http", "kbnav.knowledge.skb.build",
    "kbnav.knowledge.skb.store",
    "kbnav.knowledge.wikidata.mirror.build", "kbnav.knowledge.wikidata.mirror.server",
    "kbnav.sessions.session", "requests", "rich.console", "uvicorn",
)  # fmt: skip
"""What takes long to import and is not to be killed again and again while it does."""
NAMES = "modules.json"
LONGER = 1.25
"""Moments are drawn from the time that the work mostly took from its beginning to its end, and a quarter more.

The first time alone may be one that the machine did much else in: most moments drawn from it would come after the end.
"""


class Lost(AssertionError):
    """What was said to be kept is not there, or there twice."""


class Kind(Protocol):
    """A kind of work. Whatever looks at what is left is run in a process of its own too, as ``alone`` does."""

    def begin(self, folder: Path) -> None:
        """Make ready, in an empty folder, what the work needs."""
        ...

    def work(self) -> None:
        """The work, in a process that may be killed: from where it stands to its end."""
        ...

    def beside(self) -> None:
        """What goes on beside it, in a process that is not killed, and ends with it. Raises Lost."""
        ...

    def look(self, said: str) -> None:
        """Raise Lost where something is missing after a kill or an end; ``said`` is what the work printed."""
        ...

    def whole(self) -> None:
        """Raise Lost where the work that came to its end is not as if it had never been killed."""
        ...


def kill_often(kind: Kind, kills: int, chance: random.Random, folder: Path) -> tuple[int, int]:
    """Kill until it was done ``kills`` times; how often, and how often the work came to its end."""
    done = ended = number = 0
    seconds: list[float] = []
    while done < kills or not ended:
        (place := folder / str(number)).mkdir(parents=True)
        kind.begin(place)
        before = done
        while True:
            out = place / "said.txt"
            delay = chance.uniform(0, statistics.median(seconds) * LONGER) if seconds and done < kills else None
            began = time.monotonic()
            killed = not run(kind, out, delay)
            if not killed and done == before:
                seconds.append(time.monotonic() - began)
            alone(lambda said: kind.look(said), out.read_text(errors="replace"))
            done += killed
            if not killed:
                break
        alone(kind.whole)
        ended += 1
        number += 1
    return done, ended


def load_as(kind: Kind, folder: Path) -> None:
    """Load what else the work loads, which is done once for that: kills are for kbnav, not for Python's imports."""
    folder.mkdir(parents=True)
    kind.begin(folder)
    work = kind.work
    kind.work = lambda: naming(work, folder / NAMES)  # type: ignore[method-assign]
    run(kind, folder / "said.txt", None)
    for module in json.loads((folder / NAMES).read_text()):
        with suppress(ImportError):  # made up by a library for its own use
            importlib.import_module(module)


def naming(work: Callable[[], None], names: Path) -> None:
    """Do the work, and write now and then which modules are loaded: a server is ended by a signal, and says no more."""

    def write() -> None:
        while True:
            (part := names.with_suffix(".part")).write_text(json.dumps(sorted(sys.modules)))
            part.replace(names)
            time.sleep(0.1)

    threading.Thread(target=write, daemon=True).start()
    work()


def run(kind: Kind, out: Path, delay: float | None) -> bool:
    """Whether the work came to its end before it was killed. Raises RuntimeError where it failed by itself."""
    out.write_text("")
    (over := out.with_name("over")).unlink(missing_ok=True)
    other = fork(kind.beside, beside := out.with_name("beside.txt"))
    child = fork(kind.work, out)
    until = None if delay is None else time.monotonic() + delay
    status = None
    while status is None:
        time.sleep(0.002)
        if os.waitid(os.P_PID, other, os.WEXITED | os.WNOHANG | os.WNOWAIT) and beside.stat().st_size:
            break
        if until is not None and time.monotonic() > until:
            break
        ended, code = os.waitpid(child, os.WNOHANG)
        status = code if ended else None
    if status is None:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    over.touch()
    if os.waitpid(other, 0)[1]:
        raise Lost(beside.read_text(errors="replace"))
    if status not in (0, signal.SIGKILL, signal.SIGTERM):  # a server's end
        raise RuntimeError(f"it ended with status {status}: {out.read_text(errors='replace')[-2000:]}")
    return status != signal.SIGKILL


def fork(work: Callable[[], object], out: Path) -> int:
    """A process that does the work and prints into a file; its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for standard in (1, 2):
            os.dup2(handle, standard)
        work()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - whatever it is, it is told
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def alone(call: Callable[..., T], *given: Any) -> T:
    """What a call gives, made in a process of its own: threads and open stores would not survive the next fork."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(2, 1)
        try:
            result: tuple[bool, Any] = (True, call(*given))
        except SystemExit as end:
            result = (not end.code, f"it ended with code {end.code}")
        except BaseException:  # noqa: BLE001 - raised again where it is waited for
            result = (False, traceback.format_exc())
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(pickle.dumps(result))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    well, value = pickle.loads(told)
    if not well:
        raise Lost(value)
    return value  # type: ignore[no-any-return]


def command(arguments: Sequence[str], typed: str = "") -> Callable[[], None]:
    """A command of kbnav's, as work."""

    def work() -> None:
        from kbnav.apps.cli import main

        reader, writer = os.pipe()
        os.write(writer, typed.encode())
        os.close(writer)
        os.dup2(reader, 0)
        sys.stdin = os.fdopen(0)
        sys.stdout = os.fdopen(1, "w", buffering=1)
        sys.argv = ["kbnav", *arguments]
        main()

    return work


def main(name: str, kills: int, seed: int, folder: Path) -> None:
    """Kill one kind of work."""
    from tests.long.kinds import KINDS

    for module in LOADED:
        importlib.import_module(module)
    load_as(KINDS[name](), folder / "first")
    done, ended = kill_often(KINDS[name](), kills, random.Random(f"{name} {seed}"), folder)
    print(json.dumps({"kills": done, "ended": ended}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
