"""An answer as wikitext. Nothing that a model, a knowledge base or a person wrote can act in it: it is all escaped.

Pure functions; the tests read what they give back through MediaWiki's own parser.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import islice
from urllib.parse import quote

from kbnav.answers.tables import AnswerTable, Cell
from kbnav.apps.console import absence_text, answer_table, closing_lines, note_text, row_lines
from kbnav.apps.texts import Texts
from kbnav.knowledge.base import is_mirror
from kbnav.knowledge.evidence import Provenance
from kbnav.knowledge.sparql.vocabulary import WIKIDATA, entity_page
from kbnav.runs.trajectory import Run, page_for
from kbnav.settings.model import Settings
from kbnav.tools.show import readable_text

ROWS = 10
"""Rows of a result that a reply shows."""
_HARMLESS = " .,?()%+$"
_CELL = 200
_COLUMNS = 10
_STEPS = 30
_ENTITY = re.compile(r"[QPL][1-9]\d*(-[FS]\d+)?")
_MAGIC = re.compile(r"R(?=FC)|P(?=MID)|I(?=SBN)|S(?=KRIVENAKAT)")
"""The first letters of ``RFC``, ``PMID`` and ``ISBN``, which MediaWiki makes links of where a number follows, and of
its only behaviour switch without an underscore, in Serbo-Croatian."""


def escape(text: str, *, lines: bool = False) -> str:
    """Text that means nothing but itself to MediaWiki, on one line unless ``lines``.

    All ASCII but letters, digits, blanks and a few marks that mean nothing anywhere becomes numeric entities, and so
    does every character that is a form of such a mark: then there are no links, templates, tags, signatures, behaviour
    switches, list marks, or addresses. Control and direction characters are dropped.
    """
    kept = "".join(char for char in text if char == "\n" or not _invisible(char) or char.isspace())
    if lines:
        return "\n".join(_escape_line(line.rstrip()) for line in kept.split("\n"))
    return _escape_line(" ".join(kept.split()))


def _invisible(char: str) -> bool:
    """Controls, private and unassigned characters, lone surrogates, and marks that turn the reading direction."""
    category = unicodedata.category(char)
    return category in ("Cc", "Cs", "Co", "Cn") or char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def _escape_line(line: str) -> str:
    safe = "".join(f"&#{ord(char)};" if _is_mark(char) else char for char in line.replace("\t", "    "))
    return _MAGIC.sub(lambda found: f"&#{ord(found[0])};", safe)


def _is_mark(char: str) -> bool:
    """Whether a character is one that MediaWiki may read as markup, or a form of one.

    In Japanese, MediaWiki takes full-width underscores and number signs for marks; and as it saves a text, it makes the
    Greek question mark a semicolon (NFC).
    """
    plain = unicodedata.normalize("NFKC", char)
    return any(one.isascii() and not (one.isalnum() or one in _HARMLESS) for one in plain)


def reply_text(
    run: Run,
    settings: Settings,
    *,
    marker: str = "",
    language: str = "",
    evidence: Provenance | None = None,
    alone: bool = False,
) -> str:
    """The wikitext of a reply: answer, table, query, the statements behind its rows, how it was found, signature.

    Each is one line, so that it can be indented, as DiscussionTools does line by line.

    Args:
        run: what is told.
        settings: ``bot.entity_link`` is how entities are linked, ``endpoints.query_page`` where the query can be run.
        marker: a comment by which the bot knows its own reply again, or none; holds no ``--``.
        language: of the words around the answer; empty: the run's.
        evidence: what makes the rows true, told as footnotes.
        alone: below no question: it is the heading, a copy is told to be a part, and Wikidata's template Q links.
    """
    outcome, texts = run.outcome, Texts(language or run.language)
    notes = _footnotes(evidence, run)
    single = "<sup>1</sup>" if notes and outcome.table is not None and outcome.table.boolean is not None else ""
    parts = [f"== {escape(run.question)} =="] if alone else []
    parts += [f"{f'<!-- {marker} -->' if marker else ''}{_headline(run, texts)}{single}"]
    if note := note_text(run):
        parts.append(f"<small>{escape(note)}</small>")
    if outcome.absence and outcome.status != "failed":
        parts.append(f"<small>{escape(absence_text(outcome.absence, run.language))}</small>")
    parts += [f"<small>{escape(doubt.text)}</small>" for doubt in outcome.doubts]
    if alone and is_mirror(run.kb):
        parts.append(f"<small>{escape(texts('origin.part', kb='Wikidata'))}</small>")
    if outcome.table is not None and outcome.table.boolean is None and outcome.table.rows:
        parts += _table(outcome.table, settings.bot.entity_link, texts, len(notes), alone)
    elif outcome.ranking is not None and outcome.ranking.nodes:
        ranked = outcome.ranking.nodes[:ROWS]
        rows = [[escape(text[:_CELL]) for text in (node.label, node.id, node.kind)] for node in ranked]
        columns = (texts("rows.name"), "id", texts("rows.type"))
        parts += _grid(columns, rows, len(outcome.ranking), texts, len(notes))
    if outcome.query:
        page = page_for(run.kb, settings.endpoints.query_page, outcome.query)
        link = f" ([{_address(outcome.query, page)} {texts('bot.run_it')}])" if page else ""
        parts.append(f"{texts('bot.query')}{link}:")
        parts.append(f"<pre>{escape(outcome.query, lines=True)}</pre>".replace("\n", "&#10;"))
    if notes:
        parts.append(_folded(texts("bot.statements"), notes, closing_lines(evidence, run.language) if evidence else ()))
    if run.path:
        parts.append(_how(run, texts))
    parts.append("~~~~")
    return "\n".join(parts) + "\n"


def _address(query: str, page: str) -> str:
    """The query's link; tildes would sign, and underscores switch the page's behaviour, in addresses too."""
    link = quote(query, safe="").replace("~", "%7E").replace("_", "%5F")
    return page + _MAGIC.sub(lambda found: f"%{ord(found[0]):X}", link)


def _headline(run: Run, texts: Texts) -> str:
    text = escape(run.outcome.text)
    heads = {
        "answered": text or texts("bot.see_table"),
        "best effort": texts("bot.best_so_far", text=text),
        "refused": texts("bot.refused"),
        "failed": texts("bot.failed"),
    }
    return heads.get(run.outcome.status) or text or texts("bot.none_found")


def _footnotes(evidence: Provenance | None, run: Run) -> list[str]:
    """For each row that is shown, its statements as wikitext; nothing where none were found at all."""
    if evidence is None or evidence.failed or not (any(evidence.rows) or evidence.absent):
        return []
    rows = row_lines(evidence, answer_table(run.outcome), run.language)
    return ["<br />".join(escape(line) for line in lines) or "–" for lines in islice(rows, ROWS)]


def _table(table: AnswerTable, entity_link: str, texts: Texts, notes: int, template: bool) -> list[str]:
    def shown(cell: Cell) -> str:
        name = table.entity(cell) or ""
        if cell is not None and template and cell.value.startswith(WIKIDATA) and _ENTITY.fullmatch(name):
            return f"{{{{Q|{name.removeprefix('Q')}}}}}"
        if entity_link and _ENTITY.fullmatch(name):
            label = table.labels.get(name, "")
            return entity_link.replace("{id}", entity_page(name)) + (f" {escape(label[:_CELL])}" if label else "")
        return escape(readable_text(cell, table, _CELL))

    rows = [[shown(cell) for cell in row[:_COLUMNS]] for row in table.rows[:ROWS]]
    return _grid(table.columns[:_COLUMNS], rows, len(table.rows), texts, notes)


def _grid(columns: Sequence[str], rows: Sequence[list[str]], total: int, texts: Texts, notes: int) -> list[str]:
    """A table whose cells are wikitext already, with marks of footnotes, and how many rows it leaves out."""
    lines = ["".join(f"<th>{escape(column)}</th>" for column in columns)]
    for number, (*others, last) in enumerate(rows, 1):
        mark = f"<sup>{number}</sup>" if number <= notes else ""
        lines.append("".join(f"<td>{cell}</td>" for cell in (*others, last + mark)))
    parts = ['<table class="wikitable">' + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"]
    return parts + [f"''{texts('bot.rows', total=total, shown=len(rows))}''"] * (total > len(rows))


def _how(run: Run, texts: Texts) -> str:
    """The steps, folded away."""
    steps = [f"{escape(step.call.thought[:_CELL])} ({escape(step.call.tool)})" for step in run.path[:_STEPS]]
    if len(run.path) > _STEPS:
        steps.append(texts("bot.more_steps", count=len(run.path) - _STEPS))
    return _folded(texts("bot.how_found", system=escape(run.system), model=escape(run.model)), steps)


def _folded(head: str, items: Sequence[str], after: Iterable[str] = ()) -> str:
    """A list below a head, folded away."""
    listed = "".join(f"<li>{item}</li>" for item in items)
    said = "".join(f"<p>{escape(line)}</p>" for line in after)
    inside = f'<div class="mw-collapsible-content"><ol>{listed}</ol>{said}</div>'
    return f'<div class="mw-collapsible mw-collapsed">{head}{inside}</div>'


def edit_summary(section: str, task_page: str, language: str = "en") -> str:
    """The summary of a reply's edit: the section, what was done, and the page that describes the task."""
    heading = re.sub(r"[\[\]{}|<>*/]+", " ", section)
    heading = " ".join(heading.split())[:80]
    task = re.sub(r"[\[\]{}|<>*\n]+", "", task_page)
    done = Texts(language)("bot.summary", task=f"[[{task}]]")
    return f"/* {heading} */ {done}" if heading else done
