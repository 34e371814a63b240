"""Questions and answers as a file: Markdown or a page to read, JSON for programs, CSV of one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from kbnav.answers.tables import markdown_table
from kbnav.apps.console import answer_record, labelled_query, printable, spent_words
from kbnav.apps.sharing import SharedAnswer, shared_page
from kbnav.errors import UsageError
from kbnav.knowledge.evidence import Provenance
from kbnav.knowledge.sparql.presentation import page_for, query_link
from kbnav.knowledge.sparql.verbalization import verbalize_answer
from kbnav.runs.trajectory import Run
from kbnav.tools.show import cell_text

FORMS = (".html", ".md", ".json", ".csv")


def write_transcript(
    runs: Sequence[Run],
    path: Path,
    query_page: str,
    evidence: Callable[[Run], Provenance | None] = lambda run: None,  # noqa: ARG005
) -> None:
    """Write the runs in the format that the file's name ends in; ``evidence`` looks up what makes the rows true.

    Raises UsageError.
    """
    if path.suffix == ".html":
        text = shared_page([SharedAnswer(run, evidence(run)) for run in runs], query_page)
        content = text.encode("utf-8", "replace")
    elif path.suffix in FORMS:
        content = _written(runs, path.suffix, query_page).encode("utf-8", "surrogatepass")
    else:
        raise UsageError(f"{path}: the name must end in one of {' '.join(FORMS)}")
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _written(runs: Sequence[Run], form: str, query_page: str) -> str:
    if form == ".json":
        return json.dumps([answer_record(run, query_page) for run in runs], ensure_ascii=False, indent=1) + "\n"
    if form == ".csv":
        return _csv(runs[-1])
    return "\n".join(_markdown(run, query_page) for run in runs)


def _csv(run: Run) -> str:
    found = run.outcome.table or run.outcome.ranking
    if found is None:
        raise UsageError("the last answer has no table")
    return found.to_csv()


def _markdown(run: Run, query_page: str) -> str:
    outcome = run.outcome
    parts = [f"## {printable(run.question)}", printable(outcome.text or outcome.note or outcome.status)]
    if outcome.table is not None and outcome.table.columns:
        rows = [[printable(cell_text(cell, outcome.table, 200)) for cell in row] for row in outcome.table.rows]
        parts.append(markdown_table(list(outcome.table.columns), rows).rstrip())
    if words := verbalize_answer(outcome.query, outcome.table, run.language):
        parts.append(f"```text\n{printable(words.text())}\n```")
    if outcome.query:
        parts.append(f"```sparql\n{labelled_query(run)}\n```")
        if page := page_for(run.kb, query_page, run.outcome.query):
            parts.append(f"<{query_link(outcome.query, page)}>")
    parts.append(f"{spent_words(run)}; {run.system} with {run.model}; kbnav show {run.id}")
    return "\n\n".join(parts) + "\n"
