"""How fast a study of many questions runs without a model, and what its runs cost to go on with, score and compare.

    python -m benchmarks.studies [FOLDER] [--questions 10000] [--fewer 2000]

The questions are made by rule of the bundled mirror, each with its gold query; there are fewer than are asked, so that
they come again and again. Each row is a command of kbnav in a process of its own. Two processes take half of the
questions each; Ray, where the extra is installed, has two workers. The second run, to compare with, is the first with
every third answer gone. The runs stay in FOLDER, where it is given; from one that has them only the rest is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import chain, cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._varied import TEMPLATES

from kbnav.knowledge.open import open_kb
from kbnav.settings.model import Settings

LABELLED = 'SELECT DISTINCT ?s ?label {{ ?s wdt:{} ?o ; rdfs:label ?label FILTER(LANG(?label) = "en") }} ORDER BY ?s'
KBNAV = (sys.executable, "-c", "from kbnav.apps.cli import main; main()")
ASK = ("--kb", "mini", "--system", "spinach", "--model", "offline")


def questions() -> list[dict[str, str]]:
    """Every question that the templates make of the mirror, with its gold query."""
    found = []
    with open_kb(Settings(kb="mini")) as kb:
        for of, template in TEMPLATES.items():
            for record in kb.execute_query(LABELLED.format(of)).records():
                entity = str(record["s"]).rpartition("/")[2]
                query = f"SELECT ?x {{ wd:{entity} wdt:{of} ?x }}"
                found.append({"question": template.format(record["label"]), "sparql": query})
    return found


def write(path: Path, count: int) -> int:
    """Write so many questions; returns how many are different."""
    some = questions()
    lines = ({"id": f"q{number:06}", **one} for number, one in enumerate(islice(cycle(some), count)))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return min(count, len(some))


def timed(*commands: Sequence[object]) -> tuple[float, float, float]:
    """Run kbnav's commands side by side: seconds, seconds of processors, and the most memory of one of them in MiB."""
    begin, cpu, most = time.perf_counter(), 0.0, 0.0
    running = [
        subprocess.Popen([*KBNAV, *map(str, one)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for one in commands
    ]
    for process in running:
        said = process.stderr.read() if process.stderr else ""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{process.args}: {said[-2000:]}")
        cpu, most = cpu + used.ru_utime + used.ru_stime, max(most, used.ru_maxrss / 1024)
    return time.perf_counter() - begin, cpu, most


def asked(folder: Path, count: int, fewer: int) -> Iterator[str]:
    """The rows of asking them: all by one process, and ``fewer`` in each way."""
    file, gold, ids = (
        folder / "questions.jsonl",
        folder / "gold" / "questions.jsonl",
        [f"q{n:06}" for n in range(fewer)],
    )
    distinct = write(file, count)
    took = timed(("eval", "freeze", file, "--kb", "mini", "--out", gold.parent))
    yield f"| gold answers of {count:,} questions, {distinct:,} of them different | {_said(took, count)} |"
    command = ("eval", "run", file, *ASK, "--gold", gold)
    some, few = (*command, "--limit", fewer), f"{fewer:,} by"
    took = timed((*some, "--out", folder / "alone"))
    yield f"| {few} one process | {_said(took, fewer)} |"
    took = timed((*some, "--jobs", 2, "--out", folder / "jobs"))
    yield f"| {few} one process, `--jobs 2` | {_said(took, fewer)} |"
    halves = []
    for half in range(2):
        only = folder / f"half-{half}.txt"
        only.write_text("\n".join(ids[half::2]))
        halves.append((*command, "--only", only, "--out", folder / f"half-{half}"))
    took = timed(*halves)
    yield f"| {few} two processes, `--only` half each | {_said(took, fewer)} |"
    if find_spec("ray"):
        took = timed((*some, "--on", "ray", "--workers", 2, "--jobs", 4, "--out", folder / "ray"))
        yield f"| {few} Ray, two workers, whose processors' seconds are not counted | {_said(took, fewer)} |"
    took = timed((*command, "--out", folder / "one"))
    yield f"| {count:,} by one process, scores printed | {_said(took, count)} |"


def scored(folder: Path) -> Iterator[str]:
    """The rows of what is done with a run that lacks its last question, with one, and two."""
    one, two, cut = folder / "one", folder / "two", folder / "resumed"
    for copy in (two, cut):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(one, copy)
    whole = (one / "questions.jsonl").read_bytes()
    (cut / "questions.jsonl").write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])
    gold = folder / "gold" / "questions.jsonl"
    took = timed(("eval", "run", folder / "questions.jsonl", *ASK, "--gold", gold, "--out", cut))
    yield f"| go on where the last question is left; the journal has {len(whole) / 2**20:.1f} MiB | {_said(took)} |"
    lines = [*map(json.loads, whole.splitlines())]
    for line in lines[::3]:
        line["run"]["outcome"]["table"] = None
    (two / "questions.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    page = folder / "report.html"
    for said, command in {
        "`eval score`": ("score", one),
        "`eval compare`": ("compare", one, two),
        "`eval report` of two": ("report", one, two),
        "`eval report --html` of two": ("report", one, two, "--html", page),
    }.items():
        yield f"| {said} | {_said(timed(('eval', *command)))} |"


def _said(took: tuple[float, float, float], count: int = 0) -> str:
    seconds, cpu, most = took
    rate = f"{count / seconds:,.0f}" if count else ""
    return f"{seconds:,.1f} | {cpu:,.1f} | {most:,.0f} | {rate}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--fewer", type=int, default=2_000, help="in each way but the first")
    options = parser.parse_args()
    print("| | seconds | of processors | MiB at most | questions/s |\n|---|---|---|---|---|")
    with TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        done = (folder / "one").exists()
        for row in chain(() if done else asked(folder, options.questions, options.fewer), scored(folder)):
            print(row, flush=True)


if __name__ == "__main__":
    main()
