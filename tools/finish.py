"""finish: the answer is there, or cannot be had."""

from __future__ import annotations

from kbnav.errors import BadArguments
from kbnav.tools.observation import Context, Observation


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
    if result and not no_answer:
        with_rows = [number for number, step in context.ran.items() if step.rows]
        if result not in with_rows:
            known = f"Results with rows: {', '.join(map(str, with_rows))}." if with_rows else "No result has rows."
            raise BadArguments(f"There is no result {result} with rows. {known}")
        return Observation(f"Finished: result {result} is the answer.")
    return Observation("Finished.")
