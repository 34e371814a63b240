"""A writer that gives programs from a list, and a bench where a program is one line that says how it ranks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbnav.encoders.trained import question_digests
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.planning.training import LabelledQuestion
from kbnav.programs.groups import Centroids
from kbnav.programs.program import Failure, Outcome, Program
from kbnav.programs.retriever import Description, GroupRecord, freeze
from kbnav.programs.sandbox import bound_to
from kbnav.programs.steps import TrialRunner
from kbnav.programs.train import ProgramsOptions, TrainingContext
from kbnav.programs.writer import Brief, ModelWriter
from kbnav.runs.trajectory import Trace

FAILS = "def score(query, candidates):\n    return {candidates[0]: 1 / 0}\n"
LAST = "def score(query, candidates):\n    return {node: place for place, node in enumerate(candidates)}\n"
"""Turns the candidates round."""
SEEN = "a question that was learned from"
KINDS = ("red apples", "blue birds")


def frozen_programs(kb: SkbKB, folder: Path, *sources: str) -> None:
    """Write a folder of frozen programs, a group for each source, whose queries are of ``KINDS``; "" for no program."""
    kinds = KINDS[: max(1, len(sources))]
    centroids = Centroids.of([[kind, f"all {kind}", kind] for kind in kinds])
    records = [
        GroupRecord(
            id=f"g{number}",
            pattern=kind,
            training=("t",),
            validation=("v",),
            **({"program": f"g{number}.py", "sha256": Program.read(source).sha256} if source else {}),  # type: ignore[arg-type]
        )
        for number, (kind, source) in enumerate(zip(kinds, sources, strict=True), 1)
    ]
    about = Description(
        skb=kb.name,
        bound=bound_to(kb),
        training=question_digests([("t", SEEN)]),
        validation=question_digests([("v", "another")]),
        words=centroids.words,
        centroids=centroids.vectors,
        groups=tuple(records),
    )
    freeze(folder, about, {f"g{n}": Program.read(source) for n, source in enumerate(sources, 1) if source})


NODES = [f"n{number}" for number in range(30)]


def query(number: int, *, split: str = "t") -> LabelledQuestion:
    """A query whose answer is the tenth candidate but for every fourth, where it is the first."""
    answer = NODES[0 if number % 4 == 0 else 9]
    return LabelledQuestion(f"{split} query {number} of things", (answer,), id=f"{split}{number}")


def queries(count: int, split: str = "t") -> list[LabelledQuestion]:
    return [query(number, split=split) for number in range(count)]


def program(way: str) -> str:
    """A program that the bench below understands."""
    return f"def score(query, candidates):\n    return {way!r}\n"


def good(query: str, nodes: Sequence[str]) -> dict[str, float]:
    """The tenth first, then the others as they are."""
    return {NODES[9]: 100.0, **{node: float(-place) for place, node in enumerate(nodes) if node != NODES[9]}}


def bad(query: str, nodes: Sequence[str]) -> dict[str, float]:
    """The last first."""
    return {node: float(place) for place, node in reversed(list(enumerate(nodes)))}


def middling(query: str, nodes: Sequence[str]) -> dict[str, float]:
    """The tenth second."""
    return {**good(query, nodes), NODES[0]: 200.0}


def aside(query: str, nodes: Sequence[str]) -> dict[str, float]:
    """The second first, the tenth second, the first third."""
    return {**good(query, nodes), NODES[1]: 300.0, NODES[9]: 200.0, NODES[0]: 100.0}


def lifted(query: str, nodes: Sequence[str]) -> dict[str, float]:
    """The tenth behind the sixth, the others as they are."""
    return {node: -5.5 if node == NODES[9] else float(-place) for place, node in enumerate(nodes)}


def perfect(query: str, nodes: Sequence[str]) -> dict[str, float]:
    right = NODES[0] if int(query.split()[2]) % 4 == 0 else NODES[9]
    return {right: 1.0, **{node: -1.0 - place for place, node in enumerate(nodes) if node != right}}


WAYS = (good, bad, middling, aside, lifted, perfect)


class Runner:
    """Runs such programs; counts the runs."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, program: Program, query: str, candidates: Sequence[str]) -> Outcome:
        self.runs += 1
        for rank in WAYS:
            if repr(rank.__name__) in program.source:
                found = rank(query, candidates)
                return Outcome(dict(sorted(found.items(), key=lambda pair: -pair[1])))
        return Outcome(error=Failure("ZeroDivisionError: division by zero", 2), debug="I got here")


@dataclass
class ScriptedWriter(ModelWriter):
    """Gives the program of the step's number, the last one ever after; ``mended`` where one was given back."""

    sources: Sequence[str]
    says: str = "Look at the relations."
    mended: Sequence[str] = ()
    briefs: list[Brief] = field(default_factory=list)
    """Of each step, without those with which a program was given back."""
    given_back: list[Brief] = field(default_factory=list)

    def write(self, brief: Brief, trace: Trace) -> str:
        (self.given_back if brief.rejected else self.briefs).append(brief)
        if brief.rejected and self.mended:
            return self.mended[len(brief.rejected) - 1]
        return self.sources[min(brief.number, len(self.sources)) - 1]

    def reflect(self, *told: Any) -> str:
        return self.says


def workshop(writer: ScriptedWriter, runner: Runner | None = None, **more: Any) -> TrainingContext:
    """With the thirty nodes as candidates of every query."""
    return TrainingContext(
        TrialRunner(lambda query: NODES, runner or Runner()),
        writer,
        label=lambda node: f"Node {node[1:]}",
        named=lambda text: [],
        document=lambda node: f"Text of {node}",
        **{"check": lambda program: (), **more},
    )


def plan(**more: Any) -> ProgramsOptions:
    """Short trainings, with other options where they are given."""
    return ProgramsOptions(**{"steps": 4, "batch": 8, **more})
