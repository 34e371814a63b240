"""What speaks against an answer, as data: found by rule or said by a model, and told in words beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal

Kind = Literal[
    "truth",
    "count",
    "zero",
    "year",
    "time",
    "thing",
    "choice",
    "one",
    "order",
    "number",
    "exception",
    "now",
    "listed",
    "repeats",
    "limit",
    "units",
    "critic",
]
"""``critic``: a model's own words; every other is found by a rule of its name (``kbnav.agents.common.checks``)."""

DOUBTS: Mapping[Kind, str] = MappingProxyType(
    {
        "truth": "The question can be answered by yes or no, and the query lists things.",
        "count": "The question asks how many, and the result is not one number.",
        "zero": "Nothing was counted, which a query that asks for the wrong thing gives too.",
        "year": "The question asks for a year, and the result has whole dates.",
        "time": "The question asks for a time, and the result has neither a date nor a year.",
        "thing": "The question asks for a person, a place or a thing, and the result names none.",
        "choice": "The question asks which of several it is, and the result has {about} of them.",
        "one": "The question asks for one only (“{about}”), and the result has more.",
        "order": "The question says “{about}”, and the query neither sorts nor takes a largest or smallest value.",
        "number": "In the question, and in no condition of the query: {about}.",
        "exception": "The question leaves something out (“{about}”), and the query excludes nothing.",
        "now": "The question says “{about}”, and the query does not look at what has ended.",
        "listed": "The query itself names the things that it could find: {about} of them.",
        "repeats": "Rows that repeat another: {about}.",
        "limit": "The query ends after {about} rows, and has as many: there may be more.",
        "units": "Amounts in different units are compared as plain numbers: {about}.",
        "critic": "The model's own check: {about}",
    }
)
"""Each kind in words; ``{about}`` is what the doubt is about."""


@dataclass(frozen=True)
class Confidence:
    """How likely an answer is to be right.

    ``value`` is from 0 to 1; ``agreeing`` of ``samples`` attempts gave this answer. ``calibrated`` says on what it was
    calibrated; empty: it is the share that agrees, and no more.
    """

    value: float
    agreeing: int = 1
    samples: int = 1
    calibrated: str = ""

    @property
    def text(self) -> str:
        """As an English sentence."""
        agree = f"{self.agreeing} of {self.samples} attempts agree" if self.samples > 1 else ""
        how = f"calibrated on {self.calibrated}" if self.calibrated else "not calibrated"
        return f"Confidence {self.value:.2f} ({', '.join(filter(None, (agree, how)))})."

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "text": self.text}


@dataclass(frozen=True)
class Doubt:
    """One reason to doubt an answer; ``about`` is the word, the number or the text that it is about."""

    kind: Kind
    about: str = ""

    @property
    def text(self) -> str:
        """The doubt as an English sentence."""
        return DOUBTS[self.kind].format(about=self.about)

    def to_document(self) -> dict[str, str]:
        """As JSON."""
        return {"kind": self.kind, "about": self.about, "text": self.text}
