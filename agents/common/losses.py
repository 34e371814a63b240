"""Look-ups that were not answered in time: each is tried once more, and what stays open is said with the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kbnav.runs.trajectory import Call, Outcome, Step

AGAIN = "This was not answered in time; trying it once more before saying that there is no answer."
_NOT_RUN = ("repeat", "premature finish", "not alone", "over budget")


def settled(steps: Iterable[Step]) -> list[Step]:
    """The steps without those that were not answered, and not yet tried again."""
    taken = list(steps)
    waiting = {call.key for call in to_try_again(taken)}
    return [step for step in taken if step.call.key not in waiting]


def to_try_again(steps: Sequence[Step]) -> list[Call]:
    """The calls that were not answered, and made only once."""
    tries = Counter(step.call.key for step in steps if step.dropped not in _NOT_RUN)
    return [step.call for step in steps if step.lost and tries[step.call.key] == 1]


def unanswered(steps: Sequence[Step]) -> list[Step]:
    """The last step of each call that was never answered."""
    answered = {step.call.key for step in steps if not step.lost and step.dropped not in _NOT_RUN}
    return list({step.call.key: step for step in steps if step.lost and step.call.key not in answered}.values())


def told(outcome: Outcome, steps: Sequence[Step]) -> Outcome:
    """The outcome with a note on what was never answered; a run that found nothing has then failed to find out."""
    open_ones = unanswered(steps)
    if not open_ones or outcome.status == "refused":
        return outcome
    many = f"{len(open_ones)} look-ups were" if len(open_ones) > 1 else "A look-up was"
    why = (open_ones[-1].observation.splitlines() or [""])[0]
    if outcome.status == "no answer":
        note = f"No answer was found, and it cannot be said that there is none: {many} not answered ({why})."
        return replace(outcome, status="failed", note=" ".join(filter(None, (note, outcome.note))))
    note = f"{many} not answered, so that something may be missing ({why})."
    return replace(outcome, note=" ".join(filter(None, (outcome.note, note))))
