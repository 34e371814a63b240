"""What the writer is told before a step, and its program, read and checked before anything of it runs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from kbnav.programs.program import BadProgram, Problem, Program
from kbnav.programs.steps import Action, History
from kbnav.programs.trials import TrainingQuery
from kbnav.programs.writer import EXAMPLES, Brief, Draft, Rejected, Writer
from kbnav.runs.trace import Trace

REWRITES = 2
"""Times within a step that the writer is given back a source that is wrong before it runs."""
REPAIRS = 3
"""In a row; then the best program is gone on with."""


def written(
    brief: Brief, writer: Writer, check: Callable[[Program], Sequence[Problem]], checks: str, trace: Trace
) -> tuple[Draft, Program | None, tuple[Rejected, ...]]:
    """The writer's draft, its program, and what was rejected before it; no program: that was rejected too.

    What can be known before a run costs no step: the writer is told of it and writes again, ``REWRITES`` times at most
    and not where it gives the same source. ``checks`` says what ``check`` looks at.
    """
    while True:
        draft = writer.write(brief, trace)
        try:
            program = Program.read(draft.source)
            program.with_defaults(draft.parameters)
            problems = check(program)
        except BadProgram as error:
            program, said = None, f"check of the source, before running: {error}"
        else:
            if not problems:
                return draft, program, brief.rejected
            said = f"{checks}, before running: {BadProgram(problems)}"
        known = [one.source for one in brief.rejected]
        brief = replace(brief, rejected=(*brief.rejected, Rejected(draft.source, said)))
        if draft.source in known or len(brief.rejected) > REWRITES:
            return draft, None, brief.rejected


def next_action(history: History, patience: int) -> Action:
    """What the writer is asked for next."""
    if history.last is None:
        return "write"
    tried = [step.action for step in history.steps[-REPAIRS:]]
    if history.last.broken and tried != ["repair"] * REPAIRS:
        return "repair"
    return "anew" if history.without_gain >= patience else "improve"


def asked_types(queries: Sequence[TrainingQuery], kind: Callable[[str], str]) -> list[tuple[str, float]]:
    """The types of the nodes that queries ask for, with the share of the queries of each, largest first.

    A query asks for the type of most of its answers; none is told where ``kind`` knows no types.
    """
    counts = Counter(_asked_type(query, kind) for query in queries)
    return [(name, count / len(queries)) for name, count in sorted(counts.items(), key=lambda one: -one[1]) if name]


def examples(
    queries: Sequence[TrainingQuery], kind: Callable[[str], str], seed: str, *, most: int = EXAMPLES
) -> list[TrainingQuery]:
    """So many queries at random, in their order: of every type that is asked for one at least, else by their shares."""
    by_type: dict[str, list[int]] = {}
    for place, query in enumerate(queries):
        by_type.setdefault(_asked_type(query, kind), []).append(place)
    wanted = dict.fromkeys(sorted(by_type, key=lambda name: -len(by_type[name]))[:most], 1)
    for _ in range(min(most, len(queries)) - len(wanted)):
        left = [name for name in wanted if wanted[name] < len(by_type[name])]
        wanted[max(left, key=lambda name: len(by_type[name]) / len(queries) * most - wanted[name])] += 1
    chance = random.Random(seed)
    places = sorted(place for name, count in wanted.items() for place in chance.sample(by_type[name], count))
    return [queries[place] for place in places]


def _asked_type(query: TrainingQuery, kind: Callable[[str], str]) -> str:
    return Counter(map(kind, query.answers)).most_common(1)[0][0] if query.answers else ""
