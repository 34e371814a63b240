"""An evaluation of four questions, and the workers that it is given to."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from kbnav.evaluation.datasets import find_dataset
from kbnav.evaluation.evaluate import EvaluationPlan
from kbnav.settings.model import Settings
from tests.apps.web.parts import MARIE

QUESTIONS = [
    (MARIE, "SELECT ?e { ?e wdt:P61 wd:Q7186 }"),
    ("Who discovered polonium?", "SELECT ?e { wd:Q979 wdt:P61 ?e }"),
    ("Who discovered radium?", "SELECT ?e { wd:Q1128 wdt:P61 ?e }"),
    ("When was Marie Curie born?", "SELECT ?e { wd:Q7186 wdt:P569 ?e }"),
]


def write_questions(folder: Path) -> Path:
    """The questions with gold queries, as one's own file."""
    file = folder / "questions.jsonl"
    lines = [{"id": f"q{number}", "question": text, "sparql": query} for number, (text, query) in enumerate(QUESTIONS)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def plan(dataset: Path, settings: Settings, **more: Any) -> EvaluationPlan:
    """What is asked of the usual agent."""
    return EvaluationPlan("spinach", find_dataset(str(dataset)), settings, **more)


def processes(named: str) -> list[int]:
    """The processes of a title; a worker's names what it does."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            title = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if title.startswith(named):
            found.append(int(process.name))
    return found


def kill_one_of_two(named: str) -> None:
    """Kill a worker, as the kernel does that lacks memory."""
    first, _ = processes(named)
    os.kill(first, signal.SIGKILL)
