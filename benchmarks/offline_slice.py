"""The offline policy over HTTP against a mirror of the slice: how many of its answerable questions it answers.

    python -m benchmarks.offline_slice --mirror MIRROR [--data ../shared/data] [--only "QALD-10"] [--limit N]
        [--kept FILE]

Without ``--mirror`` one is built first. A question's gold answer is what its gold query gives on the slice; scores are
row-major F1 and exact match. ``linkable`` counts the questions whose items all have a label on the slice, ``exact``
those for which the slice gives the live answer. With ``--kept``, what is there of an earlier run is not asked again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from kbnav.agents.common.agent import Agent
from kbnav.agents.spinach import build_spinach
from kbnav.errors import KbnavError, StopRun
from kbnav.evaluation.datasets import load_dataset
from kbnav.evaluation.datasets.records import Question
from kbnav.evaluation.metrics.tables import row_major
from kbnav.knowledge.open import open_kb
from kbnav.sessions.session import ask
from kbnav.settings.model import load_settings

BENCHMARKS = {"QALD-10": "qald-10", "WikiWebQuestions dev": "wikiwebquestions-dev"}
"""Names in the slice's list of answerable questions, and of the datasets."""


@dataclass(frozen=True)
class Result:
    """One question: its scores, and what they took; ``groups`` are the rows of the table that it counts in."""

    groups: tuple[str, ...]
    f1: float
    em: float
    status: str
    seconds: float
    actions: int


def answerable(data: Path) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The questions whose gold query has rows on the slice, by benchmark."""
    with gzip.open(data / "wikidata-slice" / "answerable.json.gz") as file:
        return json.load(file)  # type: ignore[no-any-return]


def answer(agent: Agent, question: Question, groups: tuple[str, ...]) -> Result | None:
    """Ask one question and score it; None where its gold query does not run on this mirror."""
    try:
        gold = agent.kb.execute_query(question.query)
    except KbnavError:
        return None
    try:
        run = ask(agent, question.text())
    except StopRun:
        return Result(groups, 0.0, 0.0, "failed", 0.0, 0)
    score = row_major(run.outcome.table, gold)
    return Result(groups, score.f1, score.em, run.outcome.status, run.seconds, len(run.steps))


def results(agent: Agent, data: Path, benchmark: str, limit: int | None, kept: Path | None) -> Iterator[Result]:
    """The answerable questions of one benchmark, one after another, those first that are kept."""
    known = {}
    if kept and kept.is_file():
        lines = [json.loads(line) for line in kept.read_text().splitlines()]
        known = {id_: found for asked, id_, found in lines if asked == benchmark}
    questions = {
        question.id: question for question in load_dataset(BENCHMARKS[benchmark], data / "benchmarks").questions
    }
    for listed in answerable(data)[benchmark][:limit]:
        id_ = str(listed["id"])
        if id_ not in known:
            groups = ("all", *(name for name in ("linkable", "exact") if listed.get(name)))
            result = answer(agent, questions[id_], groups)
            known[id_] = asdict(result) if result else None
            if kept:
                with kept.open("a") as file:
                    file.write(json.dumps([benchmark, id_, known[id_]]) + "\n")
        if known[id_]:
            yield Result(**known[id_])


@contextmanager
def opened(mirror: Path | None, data: Path) -> Iterator[Agent]:
    """The agent on a mirror of the slice, built in a temporary folder where none is given."""
    with tempfile.TemporaryDirectory() as work:
        if mirror is None:
            from kbnav.knowledge.wikidata.mirror.build import build_mirror

            mirror = Path(work) / "slice"
            build_mirror(sorted((data / "wikidata-slice").glob("*.nt.gz")), mirror)
        settings = load_settings(kb=str(mirror), model="offline", language="en", home=Path(work) / "home")
        with open_kb(settings) as kb:
            yield build_spinach(kb, settings)


def line(benchmark: str, group: str, found: Sequence[Result]) -> str:
    """One row of the table."""
    return (
        f"{benchmark:22} {group:9} {len(found):9} {sum(one.em == 1 for one in found):9} "
        f"{100 * fmean(one.em for one in found):6.1f} {100 * fmean(one.f1 for one in found):6.1f} "
        f"{sum(one.status == 'no answer' for one in found):9} {sum(one.status == 'failed' for one in found):7} "
        f"{fmean(one.seconds for one in found):8.2f} {fmean(one.actions for one in found):8.1f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--mirror", type=Path, help="folder of a mirror of the slice")
    parser.add_argument("--only", choices=BENCHMARKS, help="one of the benchmarks")
    parser.add_argument("--kept", type=Path, help="file of results, in which an earlier run is gone on with")
    parser.add_argument("--limit", type=int, help="only the first questions of each benchmark")
    chosen = parser.parse_args()
    print(
        f"{'benchmark':22} {'group':9} {'questions':>9} {'answered':>9} {'EM %':>6} {'F1 %':>6} "
        f"{'no answer':>9} {'failed':>7} {'seconds':>8} {'actions':>8}"
    )
    with opened(chosen.mirror, chosen.data) as agent:
        for benchmark in [chosen.only] if chosen.only else BENCHMARKS:
            found = list(results(agent, chosen.data, benchmark, chosen.limit, chosen.kept))
            for group in ("all", "linkable", "exact"):
                members = [one for one in found if group in one.groups]
                if members:
                    print(line(benchmark, group, members), flush=True)


if __name__ == "__main__":
    main()
