"""Writes programs where there is no model: a few templates, what the runs before taught, and a search over PARAMETERS.

It goes through the same sandbox, batches, races and freezing as a model's programs, and learns from the same feedback:
the truth of the training queries beside what a program told by ``debug``. It understands nothing.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from kbnav.programs.program import Parameter, Program
from kbnav.programs.steps import Step, Trial
from kbnav.programs.writer import Advice, Brief, Contrast, ContrastText, Draft
from kbnav.runs.trace import Trace

NAME = "standin"
TEMPLATES = ("texts", "links")
_FACTORS = (0.0, 0.3, 3.0, 0.6, 1.6)
"""What a parameter is multiplied with; 0 becomes 0.5."""
_MARK = "{{ learned }}"
_CALLED = (
    *("texts_of", "names_of", "relations_of", "find_by_name", "token_recall"),
    *("search", "bm25", "similarity"),
)
"""Functions of the API that templates call."""
_COMMON = 0.2
"""The share of queries that have a word which says nothing of a single one."""


@dataclass
class Learned:
    """Counts over training queries: which paths of relations led to right and wrong nodes, beside which words."""

    right: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By path, how often each word stood in the query; under the empty word, how many queries."""
    wrong: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    words: Counter[str] = field(default_factory=Counter)
    queries: int = 0

    def add(self, told: Mapping[str, Any]) -> None:
        """Count what one step taught, as ``record`` wrote it."""
        for mine, other in ((self.right, told["right"]), (self.wrong, told["wrong"])):
            for path, counts in other.items():
                mine[path].update(counts)
        self.words.update(told["words"])
        self.queries += told["queries"]

    def record(self) -> str:
        """As JSON, the same for the same counts."""
        return json.dumps(
            {
                "right": {path: dict(sorted(self.right[path].items())) for path in sorted(self.right)},
                "wrong": {path: dict(sorted(self.wrong[path].items())) for path in sorted(self.wrong)},
                "words": dict(sorted(self.words.items())),
                "queries": self.queries,
            }
        )

    def literal(self) -> str:
        """As a program has it: only words and paths that are more than chance."""
        often = {word for word, count in self.words.items() if count >= max(3, 0.02 * self.queries)}

        def kept(paths: Mapping[str, Counter[str]]) -> dict[str, dict[str, int]]:
            return {
                path: {word: paths[path][word] for word in sorted(paths[path]) if not word or word in often}
                for path in sorted(paths)
                if path in self.right
            }

        common = [word for word, count in sorted(self.words.items()) if count >= max(5, _COMMON * self.queries)]
        words = {word: self.words[word] for word in sorted(often)}
        return "\n".join(
            [
                f"RIGHT: dict[str, dict[str, int]] = {json.dumps(kept(self.right))}",
                f"WRONG: dict[str, dict[str, int]] = {json.dumps(kept(self.wrong))}",
                f"WORDS: dict[str, int] = {json.dumps(words)}",
                f"COMMON: list[str] = {json.dumps(common)}",
                f"QUERIES = {self.queries}",
            ]
        )


class StandInWriter:
    """See the module."""

    def __init__(self, functions: Collection[str]) -> None:
        """``functions`` are the names of those that the API offers; a template that needs others is left out."""
        self._sources = {name: source for name in TEMPLATES if _fits(source := _template(name), functions)}

    @property
    def name(self) -> str:
        """See ``Writer``."""
        return NAME

    @property
    def prompts(self) -> Mapping[str, str]:
        """None: no model is asked."""
        return MappingProxyType({})

    def write(self, brief: Brief, trace: Trace) -> Draft:  # noqa: ARG002 - as the protocol has it
        """Each template once, those that learn twice; then the program best in validation with one parameter changed.

        That need not be one that was accepted: a small sure gain would else keep it from what may gain much more.
        """
        learned = self._learned(brief)
        first = [Draft(source.replace(_MARK, Learned().literal())) for source in self._sources.values()]
        again = [
            Draft(source.replace(_MARK, learned.literal())) for source in self._sources.values() if _MARK in source
        ]
        opening = [*first, *again]
        if brief.number <= len(opening):
            return opening[brief.number - 1]
        best = next(iter(brief.history.leaders(1)), None) or _leader(brief)
        if best is None:
            return opening[brief.number % len(opening)]
        if brief.number % 4 == 0 and "QUERIES = " in best.source:  # what was learned since
            for source in self._sources.values():
                fresh = source.replace(_MARK, learned.literal())
                if _MARK in source and fresh != best.source:
                    return Draft(fresh, best.parameters)
        return self._changed(best, brief)

    def reflect(self, brief: Brief, draft: Draft, contrast: Contrast, shown: ContrastText, trace: Trace) -> Advice:  # noqa: ARG002
        """What the debug output of a batch says of the paths that led to right and to wrong nodes."""
        learned = Learned()
        seen = {name for step in brief.history.steps if step.notes for name in step.batch}
        for trial in shown.trials:
            if trial.query.id not in seen:
                _count(trial, learned)
        return Advice(notes=learned.record()) if learned.queries else Advice()

    def _learned(self, brief: Brief) -> Learned:
        learned = Learned()
        for step in brief.history.steps:
            if step.notes:
                learned.add(json.loads(step.notes))
        return learned

    def _changed(self, best: Step, brief: Brief) -> Draft:
        """The first change in the order of a seed that was not tried yet; two parameters at once where all were."""
        values = Program.read(best.source).with_defaults(best.parameters)
        tried = [dict(step.parameters) for step in brief.history.steps if step.source == best.source]
        order = list(_moves(values))
        random.Random(f"{brief.pattern}:{best.number}").shuffle(order)
        for name, value in order:
            changed = {**best.parameters, name: value}
            if changed not in tried:
                return Draft(best.source, changed)
        pair = random.Random(f"{brief.pattern}:{brief.number}").sample(order, min(2, len(order)))
        return Draft(best.source, {**best.parameters, **dict(pair)})


def _leader(brief: Brief) -> Step | None:
    """While none was run on all validation queries: the program that did best on its batch beside the first stage."""
    ran = [step for step in brief.history.steps if step.metrics]
    return max(ran, key=lambda step: (step.metrics["mrr"] - (step.best_on_batch or 0.0), -step.number), default=None)


def _moves(values: Mapping[str, Parameter]) -> Iterator[tuple[str, Parameter]]:
    for name, value in values.items():
        if isinstance(value, bool):
            yield name, not value
        elif isinstance(value, int | float):
            for factor in _FACTORS:
                changed = round(float(value) * factor, 4) if value else 0.5
                if changed != value:
                    yield name, changed


def _count(trial: Trial, learned: Learned) -> None:
    """Read ``words:`` and the lines of nodes with their paths out of a trial's debug output."""
    lines = trial.debug.splitlines()
    words = next((line.removeprefix("words: ").split() for line in lines if line.startswith("words: ")), None)
    if words is None:
        return
    learned.queries += 1
    learned.words.update(words)
    paths: dict[bool, set[str]] = {True: set(), False: set()}
    for line in lines:
        node, tab, path = line.partition("\t")
        if tab and path:
            paths[node in trial.query.answers].add(path)
    for path in paths[True]:
        learned.right[path].update(["", *words])
    for path in paths[False] - paths[True]:
        learned.wrong[path].update([""])


def _fits(source: str, functions: Collection[str]) -> bool:
    """Whether an API has every function that a template calls."""
    return all(name in functions for name in _CALLED if f"{name}(" in source)


def _template(name: str) -> str:
    return (files("kbnav.programs") / "templates" / f"{name}.txt").read_text(encoding="utf-8")
