"""finish: the answer is there, or cannot be had."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kbnav.errors import BadArguments
from kbnav.runs.trajectory import Step
from kbnav.tools.context import Context, Observation
from kbnav.tools.show import cut

_PROLOGUE = re.compile(r"\s*(?:#[^\n]*\n|(?:PREFIX\s+\S+|BASE)\s+<[^>]*>)", re.IGNORECASE)
_QUERY = 100
"""Characters of a query by which its result is known."""
_MOST = 6
"""Results that are named where finish names none of them."""


def finish(context: Context, thought: str, result: int = 0, answer: str = "", no_answer: bool = False) -> Observation:
    """End the work: the result named is the answer, whole, also the rows that were not shown.

    Call it alone, once you have seen a result that answers the whole question.

    Args:
        thought: Why it answers the question, or why nothing does; what a reader should know of it.
        result: Its number; 0: the last one with rows.
        answer: The answer in one to three plain sentences, in the language of the question, from that result alone.
            Of a list that was shown whole, name all; else say how many there are.
        no_answer: True if queries have shown that the knowledge base does not hold the answer.
    """
    if not result or no_answer:
        return Observation("Finished.")
    with_rows = {number: step for number, step in sorted(context.ran.items()) if step.rows}
    if result not in with_rows:
        raise BadArguments(f"There is no result {result} with rows. {_listed(with_rows)}")
    return Observation(f"Finished: result {result} is the answer, {described(with_rows[result])}.")


def described(step: Step) -> str:
    """What a result is known by: its number of rows and the beginning of its query."""
    query = str(step.call.arguments.get("query", ""))
    while prologue := _PROLOGUE.match(query):
        query = query[prologue.end() :]
    return f"{step.rows} row{'s' if step.rows != 1 else ''} of `{cut(query, _QUERY)}`"


def _listed(with_rows: Mapping[int, Step]) -> str:
    if not with_rows:
        return "No result has rows."
    lines = [f"{number}: {described(with_rows[number])}" for number in list(with_rows)[-_MOST:]]
    return "\n".join(["Results with rows:", *lines])
