"""How sure an answer is: do several attempts agree, what speaks against it; and withholding one that is not sure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from kbnav.agents.verification.calibration import Seen, read_calibration
from kbnav.answers.tables import Term
from kbnav.runs.trajectory import Attempt, Outcome, Run, Usage, side_by_side
from kbnav.runs.warnings import Confidence
from kbnav.settings.model import Checks

GIVEN = ("answered", "best effort")


def agreed(attempts: Sequence[Attempt]) -> tuple[Attempt, int]:
    """The first of the attempts whose answer most of them give, with what all cost; and how many give it.

    An attempt that found nothing agrees with others that did not; among as many, an answer goes before none.
    """
    keys = [answer_key(one.run.outcome) for one in attempts]
    best = max(range(len(keys)), key=lambda place: (keys.count(keys[place]), keys[place] is not None, -place))
    run = _with_costs_of(attempts[best].run, [one.run for one in attempts])
    return Attempt(run, attempts[best].failure), keys.count(keys[best])


def fails(attempt: Attempt) -> bool:
    """Whether a stronger model is to be asked: no answer, an unfinished search, or anything that speaks against it."""
    outcome = attempt.run.outcome
    return attempt.failure is None and (outcome.status != "answered" or bool(outcome.doubts))


def escalated(first: Attempt, second: Attempt) -> Attempt:
    """The stronger model's attempt, or the first where that has an answer and the other none; with what both cost."""
    better = second.run.outcome.status in GIVEN or first.run.outcome.status not in GIVEN
    chosen = second if better else first
    why = " ".join(doubt.text for doubt in first.run.outcome.doubts) or "It did not finish with an answer."
    note = f"{first.run.model} was asked first, and then {second.run.model}: {why}"
    run = _with_costs_of(chosen.run, [first.run, second.run])
    return Attempt(replace(run, outcome=run.outcome.noted(note)), chosen.failure)


def _with_costs_of(run: Run, runs: Sequence[Run]) -> Run:
    """A run with what several took together; dollars of those whose price is known."""
    costs = [one.cost for one in runs if one.cost is not None]
    return replace(
        run,
        usage=sum((one.usage for one in runs), Usage()),
        replayed=side_by_side(one.replayed for one in runs),
        cost=sum(costs) if costs else None,
        requests=_added(runs),
        seconds=round(sum(one.seconds for one in runs), 3),
    )


def answer_key(outcome: Outcome) -> Hashable:
    """The same for two answers that say the same: what the first column has, in any order; None for no answer."""
    if outcome.status not in GIVEN:
        return None
    if outcome.ranking is not None:
        return frozenset(node.id for node in outcome.ranking.chosen)
    if outcome.table is None:
        return None
    if outcome.table.boolean is not None:
        return outcome.table.boolean
    return frozenset(_plain(row[0]) for row in outcome.table.rows if row)


def seen_of(run: Run, agreement: float = 1.0) -> Seen:
    """What a calibration reads of a run."""
    return Seen(len(run.outcome.doubts), run.outcome.status == "answered", len(run.steps), agreement)


def weighed(attempt: Attempt, checks: Checks, agreeing: int = 1, samples: int = 1) -> Attempt:
    """The attempt with its confidence, where that is wanted; its answer is withheld where it is not sure enough."""
    run = attempt.run
    wanted = samples > 1 or checks.min_confidence > 0 or checks.calibration is not None
    if not wanted or run.outcome.status not in GIVEN:
        return attempt
    known = read_calibration(checks.calibration)
    value = known.confidence(seen_of(run, agreeing / samples))
    confidence = Confidence(round(value, 3), agreeing, samples, f"{known.count} answers of {known.source}")
    outcome = replace(run.outcome, confidence=confidence)
    if value < checks.min_confidence:
        outcome = _withheld(outcome, checks.min_confidence)
    return attempt._replace(run=replace(run, outcome=outcome))


def _withheld(outcome: Outcome, wanted: float) -> Outcome:
    """No answer, with what was required and what stood against it; the query stays, so that a reader can run it."""
    value = outcome.confidence.value if outcome.confidence else 0.0
    said = [f"An answer was found and is withheld: its confidence is {value:.2f}, and {wanted:g} is required."]
    said += ["The search did not finish."] if outcome.status != "answered" else []
    said += [doubt.text for doubt in outcome.doubts]
    kept = replace(outcome, status="no answer", text="", table=None, ranking=None, doubts=())
    return kept.noted(" ".join(said))


def _added(runs: Sequence[Run]) -> dict[str, int]:
    names = dict.fromkeys(name for run in runs for name in run.requests)
    return {name: sum(run.requests.get(name, 0) for run in runs) for name in names}


def _plain(cell: Term | None) -> object:
    return cell.plain() if cell is not None else None
