"""A chat model that words the questions, as in STaRK's third step (section 2.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbnav.errors import FATAL, StopRun
from kbnav.evaluation.synthesis.phrases import is_literal
from kbnav.evaluation.synthesis.records import Synthesized
from kbnav.models.calls import ModelCalls
from kbnav.prompts import render
from kbnav.runs.trace import Trace

PROMPT = "synthesis/question.md"


def model_worder(
    calls: ModelCalls, names_of: Callable[[Synthesized], Sequence[str]]
) -> Callable[[Synthesized, Sequence[str]], str | None]:
    """What puts a question in a model's words; None, and the rules' wording stays, where the reply is of no use.

    A reply is of use if it is one line that has the names of all start nodes and, besides, none of ``names_of`` the
    question's answers. A call that fails is such a reply, but a key that is refused ends everything.
    """

    def word(question: Synthesized, clauses: Sequence[str]) -> str | None:
        starts = list(dict.fromkeys(path.start_name for path in question.paths))
        kind = question.answer_type.lower()
        prompt = render(PROMPT, kind=kind, clauses=list(clauses), text=question.text, names=starts)
        try:
            reply = calls.ask(prompt, Trace(), purpose="word a question").strip()
        except StopRun as error:
            if isinstance(error, FATAL):
                raise
            return None
        told = reply and "\n" not in reply and all(name in reply for name in starts)
        return reply if told and not any(is_literal(name, reply) for name in names_of(question)) else None

    return word
