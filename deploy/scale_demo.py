"""One command that shows kbnav on more than one machine's worth of processes: ``make scale-demo``.

    python -m deploy.scale_demo [--small] [--readers 50]

It starts PostgreSQL, an S3 server and a Ray cluster of two workers, builds Hetionet's SKB onto the object store (the
bundled demo's with --small, or where the shared data is absent), serves it by two servers behind nginx, has fifty
readers ask at once, kills one server in the middle, says what was lost, and ends all that it started. It needs Debian's
postgresql and nginx-light, and the environment of ``make deploy-test``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

import requests

from tests.apps.web.parts import Visit, served_process, until
from tests.deploy.balancer import balanced, followed, put
from tests.services import Missing, postgresql, s3_server

ROOT = Path(__file__).parent.parent
SHARED = Path(os.environ.get("KBNAV_TEST_DATA", ROOT.parent / "shared")) / "data" / "hetionet"


class Chosen(NamedTuple):
    """What is built, and what is asked of it."""

    name: str
    nodes: Path
    edges: Path
    questions: Sequence[str]


class Heard(NamedTuple):
    """What one reader got."""

    status: str
    resumed: bool
    """Whether the other server went on with the question."""


def small() -> Chosen:
    """The bundled demo's SKB."""
    data = ROOT / "src" / "kbnav" / "data" / "demo"
    document = json.loads((ROOT / "tests" / "data" / "demo_questions.json").read_text(encoding="utf-8"))
    asked = [one["question"] for one in document]
    return Chosen("the bundled demo's SKB", data / "nodes.jsonl", data / "edges.tsv", asked)


def hetionet() -> Chosen:
    """Hetionet's, asked for the genes of diseases."""
    with gzip.open(SHARED / "nodes.jsonl.gz", "rt", encoding="utf-8") as file:
        nodes = [json.loads(line) for line in file]
    diseases = sorted(one["name"] for one in nodes if one.get("kind", one.get("type")) == "Disease")
    asked = [f"Which genes are associated with {name}?" for name in diseases]
    return Chosen("Hetionet's SKB", SHARED / "nodes.jsonl.gz", SHARED / "edges.tsv.gz", asked)


def say(line: str) -> None:
    """A line for whoever watches, with the seconds since the beginning."""
    print(f"{time.monotonic() - BEGUN:6.1f} s  {line}", flush=True)


def build(chosen: Chosen, place: str, home: Path, environment: Mapping[str, str]) -> None:
    """Build by two workers, and copy onto the object store. Raises CalledProcessError."""
    command = [sys.executable, "-m", "kbnav", "skb", "build", "--on", "ray", "--workers", "2"]
    command += ["--nodes", str(chosen.nodes), "--edges", str(chosen.edges), "--encoder", "lsa"]
    folder = str(home.with_name("shown.skb"))
    # What is shown should not wait for everything else on the machine, as Ray's workers do by default.
    own = {"KBNAV_HOME": str(home), "RAY_worker_niceness": "0"}
    copy = [sys.executable, "-m", "kbnav", "skb", "copy", folder, "--out", place]
    for run in ([*command, "--out", folder], copy):
        subprocess.run(run, env={**os.environ, **environment, **own}, check=True, stdout=subprocess.DEVNULL)


def read(url: str, question: str, counted: threading.Semaphore) -> Heard:
    """Ask, and hear the events to the end, as a browser does, which comes again where it is hung up on."""
    visit = Visit(url)
    events = followed(visit, put(visit, question)["id"])
    counted.release()
    answer = events[-1].get("answer") or {}
    return Heard(str(answer.get("status", "")), any(event["kind"] == "resumed" for event in events))


def serve(stack: ExitStack, home: Path, place: str, environment: Mapping[str, str]) -> tuple[str, Popen[str]]:
    """A server with a home of its own, as on a machine of its own, once it is ready."""
    home.mkdir()
    url, process = stack.enter_context(
        served_process(home, "--kb", place, "--model", "offline", environment=environment)
    )
    until(lambda: requests.get(f"{url}/ready", timeout=60).ok, seconds=240)
    return url, process


def ask_all(url: str, questions: Sequence[str], victim: Popen[str]) -> list[Heard | None]:
    """What each of so many readers hears, while a server is killed; None where a reader hears nothing."""
    counted = threading.Semaphore(0)
    with ThreadPoolExecutor(len(questions)) as readers:
        reading = [readers.submit(read, url, question, counted) for question in questions]
        for _ in range(len(questions) // 5):
            counted.acquire(timeout=240)
        victim.kill()
        say(f"killed one of the two servers, when {sum(one.done() for one in reading)} had their answers")
        heard: list[Heard | None] = []
        for one in reading:
            error = one.exception(600)
            if error is not None:
                say(f"a reader got nothing: {error}")
            heard.append(None if error else one.result())
    return heard


def show(chosen: Chosen, readers: int, folder: Path) -> int:
    """Everything; the number of readers without an answer. Raises Missing."""
    if not shutil.which("nginx"):
        raise Missing("no nginx: install Debian's package nginx-light")
    with ExitStack() as stack:
        database = stack.enter_context(postgresql())
        bucket, environment = stack.enter_context(s3_server())
        say(f"PostgreSQL at {database}, S3 at {environment['AWS_ENDPOINT']}")
        place = f"{bucket}/shown"
        say(f"building {chosen.name} at {place}, by two workers of a Ray cluster")
        build(chosen, place, folder / "builder", environment)
        say("built; starting two servers, each with a home of its own, and nginx before them")
        limits = {"KBNAV_DATABASE": database, "KBNAV_WEB__RUNS_PER_USER": str(readers)}
        homes = (folder / "one", folder / "two")
        servers = [serve(stack, home, place, {**environment, **limits}) for home in homes]
        url = stack.enter_context(balanced(folder, [address for address, _ in servers]))
        questions = list(islice(cycle(chosen.questions), readers))
        say(f"{readers} readers ask at once at {url}, as: {questions[0]}")
        heard = ask_all(url, questions, servers[0][1])
        lost = sum(one is None or one.status in ("", "failed") for one in heard)
        taken = sum(one is not None and one.resumed for one in heard)
        say(f"asked {readers}, answered {readers - lost}, lost {lost}; the other server went on with {taken}")
    say("everything that was started has ended")
    return lost


def main() -> int:
    """The exit code: 0 where nothing was lost, 1 where something was or the build failed, 2 without a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="the bundled demo's SKB, whatever data there is")
    parser.add_argument("--readers", type=int, default=50)
    given = parser.parse_args()
    chosen = small() if given.small or not SHARED.is_dir() else hetionet()
    try:
        with tempfile.TemporaryDirectory(prefix="kbnav-scale-") as folder:
            return 1 if show(chosen, given.readers, Path(folder)) else 0
    except Missing as error:
        print(error, file=sys.stderr)
        return 2
    except subprocess.CalledProcessError:  # it has said why
        return 1


BEGUN = time.monotonic()

if __name__ == "__main__":
    sys.exit(main())
