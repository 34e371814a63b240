"""A session as a document to keep: Markdown or a page to read, a notebook to go on from, a crate for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from kbnav.apps.sharing.crate import Told
from kbnav.apps.sharing.written import SharedForm, written
from kbnav.apps.web.saved import Saved
from kbnav.apps.web.store import Session, StoredRun

Form = Literal["json", "md", "ipynb", "html", "jsonld", "zip"]
MEDIA: Mapping[Form, str] = {
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "ipynb": "application/x-ipynb+json",
    "html": "text/html; charset=utf-8",
    "jsonld": "application/ld+json",
    "zip": "application/zip",
}
Kept = tuple[StoredRun, str]
"""A run, and the query as its reader left it; empty where there is none."""


def markdown(session: Session, runs: Sequence[Kept]) -> str:
    """Questions, answers and queries, oldest first."""
    told = (_told(run, query) for run, query in runs)
    return "\n\n".join([f"# {_line(session.title)}", _head(session), *told]) + "\n"


def notebook(session: Session, runs: Sequence[Kept]) -> str:
    """The same as a Jupyter notebook (format 4.5), whose cells run the queries again with kbnav."""
    opened = f"import kbnav\n\nkb = kbnav.open({session.kb!r})"
    cells = [_cell("markdown", f"# {_line(session.title)}\n\n{_head(session)}"), _cell("code", opened)]
    for run, query in runs:
        cells.append(_cell("markdown", f"## {_line(run.question)}\n\n{_answer(run)}"))
        if query:
            cells.append(_cell("code", f"table = kb.query({_quoted(query)})\ntable.records()"))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    language = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    document = {"nbformat": 4, "nbformat_minor": 5, "metadata": language, "cells": cells}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def shared(
    saved: Saved, runs: Sequence[StoredRun], form: SharedForm, query_page: str, hide: Callable[[str], str]
) -> bytes | None:
    """The saved runs as one page, as JSON-LD, or as a crate with both; None where none is kept any more."""
    found = (saved.find(run.answer["run"]) for run in runs if run.answer and run.answer.get("run"))
    told = [Told(record) for record in found if record]
    return written(told, form, query_page, hide) if told else None


def _head(session: Session) -> str:
    made = datetime.fromtimestamp(session.made, UTC).strftime("%Y-%m-%d %H:%M")
    return f"{session.kb} · {session.system} · {session.model} · {made} UTC"


def _told(run: StoredRun, query: str) -> str:
    told = f"## {_line(run.question)}\n\n{_answer(run)}"
    fence = "```" + "`" * max((len(ticks) for ticks in _ticks(query)), default=0)
    return f"{told}\n\n{fence}sparql\n{query}\n{fence}" if query else told


def _ticks(text: str) -> Iterator[str]:
    """Runs of three back ticks and more, less the three: what would end a block of code."""
    return (piece[3:] for piece in "".join(one if one == "`" else " " for one in text).split() if len(piece) >= 3)


def _answer(run: StoredRun) -> str:
    answer = run.answer or {}
    said = [str(answer.get(part) or "") for part in ("text", "note")]
    return "\n\n".join(part for part in said if part) or f"({run.status})"


def _line(text: str) -> str:
    return " ".join(text.split())


def _quoted(query: str) -> str:
    """A query as a Python string, over several lines where it has some."""
    plain = "\n" in query and '"""' not in query and "\\" not in query and not query.endswith('"')
    return f'"""\n{query}\n"""' if plain else repr(query)


def _cell(kind: str, source: str) -> dict[str, Any]:
    code: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True), **code}
