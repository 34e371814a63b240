"""What a question brings: text, rows, query, steps; a data frame, and a view for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from kbnav.answers.tables import Absence
from kbnav.knowledge.evidence import Provenance
from kbnav.knowledge.sparql.presentation import page_for, query_link
from kbnav.knowledge.sparql.verbalization import verbalize_answer
from kbnav.runs.trajectory import Run, Status, Step, Turn
from kbnav.runs.warnings import Confidence, Doubt
from kbnav.sessions.citation import citation
from kbnav.settings.plugins import needs

if TYPE_CHECKING:
    import pandas

_ROWS = 20
"""Rows in a notebook's view."""


@dataclass(frozen=True)
class Answer:
    """The answer to one question, and how it was found; ``run`` is the whole record, as it is saved."""

    run: Run
    query_page: str = ""
    """Where a person can open the query."""
    look: Callable[[Run], Provenance] | None = field(default=None, repr=False, compare=False)
    """Looks up what makes the rows true; ``evidence`` calls it."""

    @property
    def text(self) -> str:
        """The answer in words; empty where there is none."""
        return self.run.outcome.text

    @property
    def status(self) -> Status:
        """``answered``, ``best effort`` (out of budget), ``no answer`` or ``refused``."""
        return self.run.outcome.status

    @property
    def note(self) -> str:
        """What a reader must know of the answer, such as why there is none."""
        return self.run.outcome.note

    @property
    def absence(self) -> Absence | None:
        """Where the answer is no, 0 or empty, which kind of nothing that is; else None."""
        return self.run.outcome.absence

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What speaks against the answer, found by rule; each has a ``kind`` and a ``text``."""
        return self.run.outcome.doubts

    @property
    def confidence(self) -> Confidence | None:
        """How likely the answer is right, where that was asked for (``samples``, ``checks.min_confidence``)."""
        return self.run.outcome.confidence

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The whole result as plain Python values: a query's rows by its variables, or the ranked nodes of an SKB.

        An entity is its id, and its name is beside it: ``{"who": "Q7186", "whoLabel": "Marie Curie"}``.
        """
        outcome = self.run.outcome
        if outcome.table is not None:
            return outcome.table.records()
        return outcome.ranking.records() if outcome.ranking is not None else []

    @property
    def query(self) -> str:
        """The SPARQL query whose result the answer is; empty where there is none."""
        return self.run.outcome.query

    @property
    def query_words(self) -> str:
        """What the query asks, in plain words (English, German or French); empty where there is none."""
        outcome = self.run.outcome
        words = verbalize_answer(outcome.query, outcome.table, self.run.language)
        return words.text() if words else ""

    @property
    def link(self) -> str:
        """A page on which the query can be opened and run; empty where there is none."""
        page = page_for(self.run.kb, self.query_page, self.run.outcome.query)
        return query_link(self.query, page) if self.query and page else ""

    @cached_property
    def evidence(self) -> Provenance:
        """The statements that make the first 20 rows true, looked up when it is first read, by at most two queries.

        A knowledge base that was opened for this answer alone is opened again. As ``KB.evidence``, which takes others
        than the first rows.
        """
        return self.look(self.run) if self.look else Provenance()

    @property
    def citation(self) -> str:
        """How to cite it: question, knowledge base and its state, system, versions, date, query and run."""
        return citation(self.run, self.query_page)

    @property
    def steps(self) -> Sequence[Step]:
        """Every thought, action and observation; those taken back have ``dropped`` set."""
        return self.run.steps

    @property
    def history(self) -> tuple[Turn, ...]:
        """The questions that a follow-up to this answer knows of, this one last."""
        return (*self.run.history, Turn.of(self.run.question, self.run.path, self.run.outcome))

    def to_dataframe(self) -> pandas.DataFrame:
        """The rows as a pandas data frame. Raises UsageError without pandas."""
        with needs("pandas", "a data frame"):
            import pandas
        rows = self.rows
        table = self.run.outcome.table
        return pandas.DataFrame(rows, columns=None if rows or table is None else list(table.columns))

    def __str__(self) -> str:
        return self.text or self.note or self.status

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        said = f"<p><b>{escape(str(self))}</b></p>"
        note = f"<p>{escape(self.note)}</p>" if self.note and self.text else ""
        if self.absence:
            note += f"<p>{escape(self.absence.kind)}: {escape(self.absence.text)}</p>"
        return said + note + self._rows_html() + self._query_html() + self._steps_html()

    def _rows_html(self) -> str:
        rows = self.rows
        if not rows:
            return ""
        head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{'' if cell is None else escape(str(cell))}</td>" for cell in row.values()) + "</tr>"
            for row in rows[:_ROWS]
        )
        more = f"<p>{len(rows) - _ROWS:,} more rows</p>" if len(rows) > _ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _query_html(self) -> str:
        if not self.query:
            return ""
        link = f'<p><a href="{escape(self.link)}" target="_blank">open the query</a></p>' if self.link else ""
        return f"<details><summary>query</summary><pre>{escape(self.query)}</pre>{link}</details>"

    def _steps_html(self) -> str:
        lines = "".join(
            f"<li>{'<s>' if step.dropped else ''}{escape(step.call.thought)} <code>{escape(step.call.tool)}</code>"
            f"{'</s>' if step.dropped else ''}<pre>{escape(step.observation)}</pre></li>"
            for step in self.steps
        )
        return f"<details><summary>{len(self.steps)} steps</summary><ol>{lines}</ol></details>"
