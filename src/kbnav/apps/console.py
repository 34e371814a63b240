"""What a person reads in a terminal: steps as they happen, answers with their evidence, saved runs."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from kbnav.agents.common.state import UNCOUNTED
from kbnav.answers.language import plural
from kbnav.answers.question import kb_of
from kbnav.answers.relevance import relevance
from kbnav.answers.tables import Absence, AnswerTable, Cell, Ranking, Term, node_term
from kbnav.apps.texts import Texts
from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.base import is_mirror
from kbnav.knowledge.several import said_from
from kbnav.knowledge.sparql.verbalization import comment_labels, verbalize_answer
from kbnav.knowledge.sparql.vocabulary import label_from_iri
from kbnav.models.cancellation import ON_REQUEST
from kbnav.runs.trajectory import FINISH, Call, Doubt, Outcome, Run, Step, Understood, query_link, state_for
from kbnav.settings.model import OFFLINE
from kbnav.tools.several import ALL
from kbnav.tools.show import cell_text, cut, readable_text
from kbnav.tools.wikidata import show_rows

if TYPE_CHECKING:
    from kbnav.knowledge.evidence import Evidence, Link, Provenance


LONGEST_OBSERVATION = 20_000
"""Characters of an observation that a program, or the page, is sent."""
ROWS = 20
"""Rows of an answer printed in a terminal; ``--csv`` and ``--json`` give all."""
EXAMPLES: Mapping[str, Sequence[str]] = {
    "mini": (
        "Which elements were discovered by Marie Curie?",
        "Who discovered polonium?",
        "What is the atomic number of tungsten?",
        "Which element has the symbol Se?",
        "Where was Marie Curie born?",
    ),
    "demo": (
        "Which instrument made by somebody from Little Mew has a love letter hidden in it?",
        "Which person was born in Little Mew?",
    ),
}
"""Questions that the bundled knowledge bases can answer; those of the mirror, Wikidata too."""
_TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_UNRESTRICTED: Mapping[str, str] = MappingProxyType({"kind": "any", "direction": "both"})
"""What the tools' arguments are where a model gives none; to a reader they say nothing."""
_OBSERVED = 12
_QUERY = "query"


def printable(text: str) -> str:
    """The text without what moves the cursor or turns the reading direction around; line breaks and tabs stay."""
    return "".join(
        char for char in text if char in "\n\t" or not (unicodedata.category(char) == "Cc" or char in _TURNING)
    )


def call_lines(call: Call, before: Call | None = None) -> RenderableType:
    """A thought, unless the call ``before`` in its turn came of the same, and the action it led to."""
    parts: list[RenderableType] = []
    if call.thought and not (before and (before.thought, before.turn) == (call.thought, call.turn)):
        parts.append(Text(f"· {printable(call.thought)}", style="italic"))
    arguments = dict(call.arguments)
    query = arguments.pop(_QUERY, None) if call.tool == "execute_query" else None
    parts.append(Text.assemble(("→ ", "bold cyan"), (printable(call.tool), "bold"), f" {short_arguments(arguments)}"))
    if query:
        parts.append(query_lines(str(query)))
    return Group(*parts)


def query_lines(query: str) -> Text:
    """A query in colours for white and dark terminals, its line breaks as they are, names in the terminal's own."""
    from pygments.token import Comment, Keyword, Name, String
    from rich.syntax import ANSISyntaxTheme

    colours = {Keyword: Style(bold=True), String: Style(color="green"), Name.Tag: Style(color="magenta")}
    theme = ANSISyntaxTheme({**colours, Comment: Style(dim=True)})
    shown = Syntax("", "sparql", theme=theme, background_color="default").highlight(printable(query).rstrip())
    shown.rstrip()
    shown.no_wrap, shown.overflow = True, "ignore"
    return shown


def observation_lines(step: Step, limit: int = _OBSERVED) -> RenderableType:
    """What came back, cut to a few lines."""
    lines = printable(step.observation).splitlines()
    if len(lines) > limit:
        lines = [*lines[: limit - 1], f"… {len(lines) - limit + 1} more lines"]
    return Padding(Text("\n".join(lines), style="dim" if step.ok else "yellow"), (0, 0, 0, 2), expand=False)


def drop_line(step: Step) -> Text:
    """That a step was taken off the path, and why."""
    return Text(
        f"↶ {printable(step.call.tool)} {short_arguments(step.call.arguments)} ({step.dropped})", style="magenta"
    )


def short_arguments(arguments: Mapping[str, Any]) -> str:
    """A call's arguments on one line, without those that restrict nothing."""
    told = {name: value for name, value in arguments.items() if value and _UNRESTRICTED.get(name) != value}
    said = [name.replace("_", " ") if value is True else _value_text(value) for name, value in told.items()]
    return cut(printable(", ".join(filter(None, said))), 100)


def _value_text(value: Any) -> str:
    """A value as text; of a list or an object all that is not empty, with commas between."""
    if isinstance(value, Mapping):
        return _value_text([*value.values()])
    if isinstance(value, list):
        return ", ".join(filter(None, (_value_text(one) for one in value if one not in ("", None, False))))
    return str(value)


def labelled_query(run: Run) -> str:
    """The final query with the labels of its ids as comments; one that cannot be read is as it is."""
    table = run.outcome.result
    try:
        return comment_labels(run.outcome.query, table.labels if table else {})
    except QuerySyntaxError:
        return run.outcome.query


def print_answer(console: Console, run: Run, query_page: str) -> None:
    """The answer, the result table, the final query with labels, and a link that opens it, on one line."""
    console.print(_answer_lines(run), crop=False)
    if link := query_link(run.outcome.query, run.kb, query_page):
        console.print(Text(link, style="underline"), soft_wrap=True)
        if is_mirror(state_for(run.kb, run.outcome.query)):
            console.print(Texts(run.language)("query.live"), style="dim")


def _reading_lines(run: Run, texts: Texts) -> Iterator[str]:
    """How the question was read, where no query says so; what of it was not used; what can be asked instead."""
    outcome = run.outcome
    read, none = outcome.understood or Understood(), outcome.status == "no answer"
    numbers = [one.about.split(", ") for one in outcome.doubts if one.kind == "number"]
    unused = [word for word in dict.fromkeys(chain(read.unused, *numbers)) if word not in outcome.note]
    if read.text and not outcome.query:
        yield texts("read.as", text=read.text)
    if unused:
        words = ", ".join(texts("read.word", word=word) for word in unused)
        yield texts("read.unread" if none else "read.unused", words=words)
    known = EXAMPLES.get(str(run.settings.get("kb")), ()) if none and run.model == OFFLINE else ()
    nearest = sorted(known, key=lambda one: -relevance(run.question, [one])[0])[:3]
    if instead := read.instead or nearest:
        yield "\n  ".join((texts("read.instead"), *instead))


def _doubt_line(doubt: Doubt, texts: Texts) -> str:
    """What speaks against the answer, or where it holds; in English where the language has no words for it."""
    if doubt.kind == "copy":
        return texts("copy.part", kb="Wikidata")
    key = f"doubt.{doubt.sentence}"
    return texts(key, **doubt.values) if key in texts.book else doubt.text


def _answer_lines(run: Run) -> RenderableType:
    outcome, texts = run.outcome, Texts(run.language)
    why = outcome.note or outcome.stop == "finish"  # why there is none
    none = "" if outcome.text else texts("answer.no_answer") if why else outcome.nothing
    head = {
        "answered": ("", ""),
        "best effort": (texts("answer.best_effort"), "bold yellow"),
        "no answer": (none, "bold red"),
        "refused": (texts("answer.refused"), "bold red"),
        "failed": ("" if outcome.note == ON_REQUEST else texts("answer.failed"), "bold red"),
    }[outcome.status]
    told = [Text(_doubt_line(doubt, texts), "yellow") for doubt in outcome.doubts if doubt.kind == "copy"]
    told += [Text(*head), Text(printable(outcome.text), "bold")]
    parts: list[RenderableType] = [Text(" ").join(filter(None, told))]
    if note := note_text(run, source=False):  # the line of what was asked says it
        parts.append(Text(printable(note), style="yellow"))
    if outcome.absence:
        parts.append(Text(printable(absence_text(outcome.absence, run.language)), style="yellow"))
    parts += [Text(printable(line), style="dim") for line in _reading_lines(run, texts)]
    doubts = [_doubt_line(doubt, texts) for doubt in outcome.doubts if doubt.kind not in ("number", "copy")]
    parts += [Text(f"! {printable(line)}", style="yellow") for line in doubts]
    if outcome.error:
        parts.append(Text(printable(outcome.error), style="dim"))
    if outcome.table is not None and outcome.table.boolean is not None:
        parts.append(Text(texts("cell.yes" if outcome.table.boolean else "cell.no"), style="bold"))
    elif outcome.table is not None and outcome.ranking is None:
        parts.append(table_lines(outcome.table, texts))
    if outcome.ranking is not None and outcome.ranking.nodes:
        parts.append(ranking_lines(outcome.ranking, texts))
    if words := verbalize_answer(outcome.query, outcome.result, run.language):
        parts.append(Text(printable(words.text())))
    if outcome.query:
        parts.append(query_lines(labelled_query(run)))
    return Group(*parts)


def table_lines(table: AnswerTable, texts: Texts | None = None) -> RenderableType:
    """The first rows of a table, labels with their ids, and how many there are; in English without ``texts``."""

    def named(cell: Cell) -> str:
        label = table.label(cell)
        return f"{cut(label, 200)} ({table.entity(cell)})" if label else readable_text(cell, table, 200)

    rows = [[named(cell) for cell in row] for row in table.rows[:ROWS]]
    texts, count = texts or Texts("en"), len(table.rows)
    total = texts("rows.some", first=1, last=ROWS, total=count) if count > ROWS else texts("rows.all", n=count)
    return Group(_grid(dict(zip(table.columns, table.columns, strict=True)), rows), Text(total, style="dim"))


def _grid(heads: Mapping[str, str], rows: Iterable[Sequence[str]]) -> Table:
    grid = Table(show_header=True, header_style="bold")
    for column, head in heads.items():
        number = column in ("rank", "score")
        grid.add_column(Text(printable(head)), overflow="fold", justify="right" if number else "left")
    for row in rows:
        grid.add_row(*(Text(printable(cell)) for cell in row))
    return grid


_HEADS = {
    "rank": "rows.rank", "name": "rows.name", "id": "rows.id", "type": "rows.type", "score": "rows.score",
    "basis": "rows.basis",
}  # fmt: skip
_BASIS: Mapping[str, str] = MappingProxyType({"": "knowledge base", "generated": "the model's own word"})


def ranking_lines(ranking: Ranking, texts: Texts) -> RenderableType:
    """The first nodes that were chosen; why they are there, where that is a model's word for any."""
    chosen = [record for record in ranking.records() if record["basis"] != "seen"]
    said = {"score": ranking.scored, "basis": any(record["basis"] for record in chosen)}
    shown = [record | {"basis": _BASIS[record["basis"]]} for record in chosen[:ROWS]]
    columns = [name for name in next(iter(shown), _HEADS) if said.get(name, True)]
    rows = [["" if one[column] is None else str(one[column]) for column in columns] for one in shown]
    heads = {column: texts(_HEADS[column]) if column in _HEADS else column for column in columns}
    lines: list[RenderableType] = [_grid(heads, rows)]
    if len(chosen) > ROWS:
        lines.append(Text(texts("rows.some", first=1, last=ROWS, total=len(chosen)), style="dim"))
    if len(ranking) > len(chosen):
        more = plural(len(ranking) - len(chosen), "more node")
        lines.append(Text(f"{more} seen on the way: --csv and --json have them", style="dim"))
    return Group(*lines)


def print_run(console: Console, run: Run, query_page: str) -> None:
    """A saved run: what was asked, every step (those taken back marked), and the answer."""
    for lines in _run_lines(run):
        console.print(lines, crop=False)
    print_answer(console, run, query_page)


def print_runs(console: Console, runs: Iterable[Run]) -> None:
    """A line for each saved run; cut to the width of a terminal."""
    for run in runs:
        by = "rules" if run.model == OFFLINE else run.system
        told = printable(f"{run.id}  {by:8} {run.outcome.status:11} ")
        line = Text.assemble((told, "dim"), printable(run.question))
        console.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=not console.is_terminal)


def run_line(run: Run) -> dict[str, Any]:
    """What such a line says, for programs."""
    outcome = run.outcome
    about = {"run": run.id, "started": run.started, "system": run.system, "model": run.model}
    return {**about, "question": run.question, "status": outcome.status, "answer": outcome.text}


def asked_words(run: Run, texts: Texts) -> str:
    """What was asked; of several which one answered, for rows of which others, and which were not asked."""
    answering = kb_of(run.outcome.query)[0]
    if not answering:
        return texts("cli.asked", kb=run.settings.get("kb"))
    from kbnav.sessions.evidence import taken_up  # one alone took up no rows of others

    sources = [answering, *(str(step.call.arguments["kb"]) for step in taken_up(run))]
    calls = [step.call for step in run.steps if step.call.tool not in (FINISH, show_rows.__name__)]
    asked = {str(call.arguments.get("kb", ALL)) for call in calls}
    left = [name for name in run.kb.get("kbs", ()) if asked.isdisjoint((name, ALL))]
    others = "; " + texts("cli.not_asked", kbs=", ".join(left)) if left else ""
    return texts("cli.from", kb=", ".join(dict.fromkeys(sources))) + others


def spent_words(run: Run, texts: Texts) -> str:
    """What a run took: steps, time, and where a model was asked its calls, tokens and cost."""
    usage, off = run.usage, off_path(run)
    parts = [texts("run.steps", n=len(run.path))]
    parts += [texts("run.taken_back_count", n=off["taken back"])] if off["taken back"] else []
    parts += [texts("run.not_run", n=off["not run"])] if off["not run"] else []
    parts.append(texts("run.seconds", n=f"{run.seconds:.1f}"))
    if asked := sum(run.requests.values()):
        parts.append(texts("cli.requests", n=asked))
    if usage.calls:
        parts.append(texts("cli.calls", n=usage.calls))
        cached = f" {texts('cli.cached', n=usage.cached)}" if usage.cached else ""
        parts.append(f"{usage.prompt:,}{cached} + {texts('run.tokens', n=usage.completion)}")
        parts.append(f"${run.cost:.4f}" if run.cost is not None else texts("cli.unpriced"))
        if usage.kept:
            parts.append(texts("cli.kept", n=usage.kept))
    return ", ".join(parts)


def off_path(run: Run) -> dict[str, int]:
    """How many steps were taken back, and how many calls were never run and cost no action."""
    not_run = sum(step.dropped in UNCOUNTED for step in run.discarded)
    return {"taken back": len(run.discarded) - not_run, "not run": not_run}


def _run_lines(run: Run) -> Iterable[RenderableType]:
    by = f"{run.system} with {run.model}" if run.model != OFFLINE else "rules without a language model"
    head = f"{by} on {run.settings.get('kb', '')}, {run.started}\n{spent_words(run, Texts(run.language))}"
    yield Panel(Text(f"{printable(run.question)}\n{printable(head)}"), title=run.id)
    for turn in run.history:
        yield Text(f"earlier: {printable(turn.question)} → {printable(turn.outcome.text)}", style="dim")
    for before, step in zip((None, *run.steps), run.steps, strict=False):
        yield Text(f"{step.number}.", style="bold")
        yield call_lines(step.call, before.call if before else None)
        if step.observation:
            yield observation_lines(step, 60)
        if step.dropped:
            yield drop_line(step)


def run_record(run: Run) -> dict[str, Any]:
    """What every program is told of a run, beside the answer itself: how it ended, its query, and what it cost."""
    outcome = run.outcome
    words = verbalize_answer(outcome.query, outcome.result, run.language)
    return {
        "run": run.id,
        "language": run.language,
        "status": outcome.status,
        "stop": outcome.stop,
        "note": note_text(run),
        **({"understood": asdict(outcome.understood)} if outcome.understood else {}),
        "absence": asdict(outcome.absence) if outcome.absence else None,
        "doubts": [doubt.to_document() for doubt in outcome.doubts],
        "error": outcome.error,
        "query": outcome.query,
        "query_labelled": labelled_query(run),
        "query_words": words.to_document() if words else None,
        "actions": len(run.steps),
        **{how.replace(" ", "_"): count for how, count in off_path(run).items()},
        "tokens": {"prompt": run.usage.prompt, "cached": run.usage.cached, "completion": run.usage.completion},
        "cost": run.cost,
        "seconds": run.seconds,
        "requests": dict(run.requests),
        "repeated": run.repeated,
    }


def call_data(call: Call) -> dict[str, Any]:
    """A thought and the action that it led to."""
    return {"thought": call.thought, "tool": call.tool, "arguments": dict(call.arguments)}


def step_data(step: Step) -> dict[str, Any]:
    """What came back."""
    text = step.observation
    if len(text) > LONGEST_OBSERVATION:
        text = text[:LONGEST_OBSERVATION] + "…"
    return {"number": step.number, "observation": text, "ok": step.ok, "rows": step.rows, "seconds": step.seconds}


def answer_record(run: Run, query_page: str) -> dict[str, Any]:
    """The answer for programs: the run's record with question, text, link, the whole table or ranking, and labels."""
    outcome = run.outcome
    return {
        "question": run.question,
        "history": [{"question": one.question, "answer": one.outcome.text} for one in run.history],
        "answer": outcome.text,
        **run_record(run),
        "link": query_link(run.outcome.query, run.kb, query_page),
        "table": outcome.table.to_sparql_json() if outcome.table is not None else None,
        "labels": dict(outcome.table.labels) if outcome.table is not None else {},
        "ranking": outcome.ranking.records() if outcome.ranking is not None else None,
    }


def answer_json(run: Run, query_page: str, evidence: Provenance | None = None) -> str:
    """That record as text, with the evidence behind it where that was looked up."""
    more = {"evidence": evidence_data(evidence, answer_table(run.outcome))} if evidence else {}
    return json.dumps({**answer_record(run, query_page), **more}, ensure_ascii=False, indent=1)


_WIDTH = 120
_MOST_PER_ROW = 10
_MOST_OTHERS = 3
_RANKS = {"preferred": "statement.preferred", "deprecated": "statement.deprecated"}


def note_text(run: Run, *, source: bool = True) -> str:
    """What a reader must know of the answer; first, unless told apart, which of several knowledge bases it is from."""
    name, note = kb_of(run.outcome.query)[0], run.outcome.note
    rest = note.removeprefix(said_from(name, "")).strip() if name else note
    told = Texts(run.language)("answer.from", kb=name) if source and rest != note else ""
    return f"{told} {rest}".strip()


def absence_text(absence: Absence, language: str = "en") -> str:
    """The kind in a sentence, why that is, and what has matches in place of the part that has none."""
    kind = Texts(language)(f"absent.{absence.kind.replace(' ', '_')}")
    instead = f"({absence.instead})" if absence.instead and absence.instead not in absence.text else ""
    return " ".join(filter(None, (kind, absence.text, instead)))


def answer_table(outcome: Outcome) -> AnswerTable:
    """The rows that evidence is told of: a query's result, or the nodes of a ranking by their names."""
    if outcome.table is not None:
        return outcome.table
    nodes = outcome.ranking.nodes if outcome.ranking is not None else ()
    rows = tuple((node_term(node.id),) for node in nodes)
    found, named = outcome.result or AnswerTable(("node",), rows), {node.id: node.label for node in nodes}
    return replace(found, labels={**found.labels, **named})


def evidence_lines(found: Provenance, table: AnswerTable, language: str = "en") -> Iterator[str]:
    """Provenance as plain text: below each row its statements, with rank, qualifiers and references."""
    texts = Texts(language)
    if found.failed:
        yield texts("evidence.failed", why=found.failed)
        return
    for number, (row, told) in enumerate(zip_longest(table.rows, row_lines(found, table, language)), 1):
        if told is None:
            break
        head = " · ".join(readable_text(cell, table, _WIDTH) for cell in row or () if cell is not None)
        yield f"{number}. {head or texts('statement.answer')}"
        yield from (f"   {line}" for line in told)
    yield from closing_lines(found, language)


def row_lines(found: Provenance, table: AnswerTable, language: str = "en") -> Iterator[list[str]]:
    """For each row its statements, a line each; of many the first."""
    texts, telling = Texts(language), _Telling(found, table, language)
    for told in found.rows:
        lines = [telling.line(one) for one in told[:_MOST_PER_ROW]]
        if len(told) > _MOST_PER_ROW:
            lines.append(texts("statement.more", count=len(told) - _MOST_PER_ROW))
        yield lines or ([] if found.absent else [texts("statement.nothing")])


def closing_lines(found: Provenance, language: str = "en") -> Iterator[str]:
    """What is told of all rows: what was looked for and is not there, and what was not looked at."""
    texts = Texts(language)
    yield from (texts("evidence.absent", condition=condition) for condition in found.absent)
    if found.cut:
        yield texts("evidence.cut")
    yield from (texts("evidence.untold", part=part) for part in found.untold)


def evidence_data(
    found: Provenance, table: AnswerTable, language: str = "en", *, cell: Callable[[Term], Any] = Term.python_value,
    named: Callable[[str], Any] = str,
) -> dict[str, Any]:  # fmt: skip
    """Provenance as JSON: for each row its statements, each also as a ``text``.

    ``cell`` gives what stands for a value, and ``named`` for a property.
    """
    telling = _Telling(found, table, language)

    def pair(link: Link) -> dict[str, Any]:
        return {"property": named(link.property), "value": cell(link.value), "text": telling.pair(link)}

    def record(one: Evidence) -> dict[str, Any]:
        return {
            "text": telling.line(one),
            "subject": cell(one.subject),
            "property": named(one.property),
            "value": cell(one.value),
            "statement": one.statement,
            "rank": one.rank,
            "qualifiers": [pair(link) for link in one.qualifiers],
            "references": [[pair(link) for link in links] for links in one.references],
            "others": [cell(other) for other in one.others],
            "lower": [cell(other) for other in one.lower],
            "higher": [cell(other) for other in one.higher],
            "chain": one.chain,
            "source": one.source,
        }

    return {
        "rows": [[record(one) for one in told] for told in found.rows],
        "absent": list(found.absent),
        "cut": found.cut,
        "untold": list(found.untold),
        "failed": found.failed,
        "copy": found.copy,
    }


def property_name(name: str, table: AnswerTable) -> str:
    """The label of a property that is told by its id or IRI, else the words of its IRI, else its id."""
    known = table.labels.get(name) or table.label(Term("uri", name))
    return known or (label_from_iri(name) if "/" in name or ":" in name else name)


class _Telling:
    """The labels that its ids and IRIs are told by."""

    def __init__(self, found: Provenance, table: AnswerTable, language: str) -> None:
        self._copy = found.copy
        self._texts = Texts(language)
        self._table = AnswerTable(labels=found.labels, prefixes=table.prefixes, concept_base=table.concept_base)

    def line(self, one: Evidence) -> str:
        texts = self._texts
        if one.source == "document":
            return texts("statement.document", subject=self._value(one.subject), text=one.value.value)
        told = f"{self._value(one.subject)} — {property_name(one.property, self._table)} — {self._value(one.value)}"
        if one.chain or one.source == "generated":
            return f"{told}; {texts('statement.chain' if one.chain else 'evidence.generated')}"
        return "; ".join((told, *self._more(one)))

    def _more(self, one: Evidence) -> Iterator[str]:
        texts = self._texts
        if one.rank in _RANKS:
            yield texts(_RANKS[one.rank])
        yield from map(self.pair, one.qualifiers)
        beside = {"statement.higher": one.higher, "statement.beside": one.others, "statement.lower": one.lower}
        for key, others in beside.items():
            if others:
                values = ", ".join(map(self._value, others[:_MOST_OTHERS]))
                more = len(others) > _MOST_OTHERS
                yield texts(key, values=texts("statement.others", values=values) if more else values)
        sources = (", ".join(map(self.pair, links)) for links in one.references)
        told = [texts("statement.reference", links=source) for source in sources if source]
        if told or one.statement:
            yield " | ".join(told) or texts("statement.no_copied" if self._copy else "statement.no_reference")

    def pair(self, link: Link) -> str:
        return f"{property_name(link.property, self._table)}: {self._value(link.value)}"

    def _value(self, term: Term) -> str:
        return cell_text(term, self._table, _WIDTH).removesuffix("T00:00:00Z")
