"""Results and sessions as files. A result is written a part of its rows at a time, and never whole in memory."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from kbnav.answers.tables import AnswerTable, Cell
from kbnav.apps.web.results import PART, Result, Row, number, text_of
from kbnav.errors import UsageError
from kbnav.knowledge.sparql.remarks import Measure, Measures
from kbnav.runs.trajectory import Outcome

T = TypeVar("T")
Form = Literal["csv", "tsv", "json", "xlsx", "nt"]
Known = Callable[[Sequence[Row], bool], tuple[Mapping[str, str], Measures]]
"""Labels of entities in some rows that the result itself lacks, and, where wanted, the units of their amounts."""
MEDIA: Mapping[Form, str] = {
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
    "json": "application/json",
    "nt": "application/n-triples",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
SessionForm = Literal["json", "html", "wiki"]
SESSION_MEDIA: Mapping[SessionForm, str] = {
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "wiki": "text/plain; charset=utf-8",
}
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|\d{4,}-\d\d-\d\dT[\d:.]+Z?)|\d{4,}-\d\d-\d\d")
_TSV = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r", '"': '\\"', "\\": "\\\\"})
_GRAPH = ("subject", "predicate", "object")
_BAD_IRI = re.compile(r"[\x00-\x20<>\"{}|^`\\\\]")
_BAD_LABEL = re.compile(r"[^0-9A-Za-z]")
_UNTOLD = Measure("?")
_SHEET_ROWS = 1_048_576
_BYTES = 1 << 16


def download(result: Result, form: Form, *, exact: bool = False, known: Known = lambda *_: ({}, {})) -> Iterator[bytes]:
    """A whole result, a piece at a time.

    CSV and Excel have in a column of its own an entity's id beside its label, and an amount's unit, ``?`` where it was
    not found. Spreadsheets run cells that begin as a formula does. So CSV and TSV put an apostrophe before such a text,
    but no number or date; ``exact`` leaves it, and gives CSV with IRIs, as SPARQL 1.1 has it. A ranking's columns are
    those of its records. Raises UsageError for N-Triples of what is no graph.
    """
    if form == "nt" and result.columns != _GRAPH:
        raise UsageError("only a graph, as of CONSTRUCT or DESCRIBE, can be written as RDF")
    if form == "xlsx":
        return _sheet(result, known)
    write = {"csv": _csv_texts(_values(result), exact), "tsv": _tsv(result, exact), "json": _json(result)}
    texts = write.get(form, _triples(result))
    if form == "csv" and not exact and result.ranking is None:
        # Spreadsheets know UTF-8 by the mark in front.
        texts = chain(["\ufeff"], _csv_texts(_labelled(result, known, text_of), exact=False))
    return (text.encode("utf-8", "replace") for text in texts)


def answer_csv(outcome: Outcome, fields: Sequence[Mapping[str, Any]] = ()) -> str:
    """The whole table or ranking, with ``fields`` of its nodes, as such CSV, with labels; else the answer in words."""
    if (table := outcome.table) is not None and table.boolean is not None:
        return table.to_csv()
    rows: Iterable[Sequence[Any]] = [["answer"], [outcome.text]] if outcome.text else []
    if table is not None:
        rows = _labelled(Result.of(table), lambda *_: ({}, {}), text_of, len(table))
    elif outcome.ranking:
        rows = outcome.ranking.lines(fields)
    return "".join(_csv_texts(rows, exact=False))


def attachment(title: str, ending: str) -> str:
    """The header ``Content-Disposition`` of a file that is called after a title, as RFC 6266 has it."""
    words = " ".join(re.sub(r"[^\w .,'()-]", " ", title).split())[:100].strip(" .") or "kbnav"
    ascii_words = words.encode("ascii", "ignore").decode().strip() or "kbnav"
    header = f'attachment; filename="{ascii_words}.{ending}"'
    return header if ascii_words == words else f"{header}; filename*=UTF-8''{quote(words, safe='')}.{ending}"


def unformulated(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _csv_texts(rows: Iterable[Sequence[Any]], exact: bool) -> Iterator[str]:
    tidy = str if exact else unformulated
    for some in _batches(rows):
        out = io.StringIO()
        csv.writer(out).writerows([tidy(str(value)) for value in row] for row in some)
        yield out.getvalue()


def _labelled(
    result: Result, known: Known, value: Callable[[Cell, AnswerTable], str | float], first: int = PART
) -> Iterator[Sequence[str | float]]:
    """The names of the columns, and the rows: a label with its id, an amount with its unit, if the ``first`` do."""
    some, kinds = [*result.rows(0, first)], dict.fromkeys(range(len(result.columns)), "")
    begun = known(some[:PART], True)
    kinds |= {place: "unit" for (_, place), one in begun[1].items() if one.unit}
    kinds |= {place: "id" for row in some for place, cell in enumerate(row) if result.head.entity(cell)}
    names = zip(result.columns, kinds.values(), strict=True)
    yield [text for name, kind in names for text in ((name, f"{name} {kind}") if kind else (name,))]
    for batch, rows in enumerate(_batches(result.rows())):
        more, measured = known(rows, "unit" in kinds.values()) if batch else begun
        head = replace(result.head, labels={**result.head.labels, **more})
        for row in rows:
            line: list[str | float] = []
            for place, cell in enumerate(row):
                line.append(value(cell, head))
                if kinds[place] == "unit":
                    line.append("" if cell is None else measured.get((row, place), _UNTOLD).unit)
                elif kinds[place]:
                    line.append(head.entity(cell) or "")
            yield line


def _tsv(result: Result, exact: bool) -> Iterator[str]:
    """SPARQL 1.1 TSV: terms as Turtle writes them; of a ranking, plain texts."""
    tidy = str if exact else unformulated
    if result.ranking is not None:
        for row in _values(result):
            yield "\t".join(tidy(re.sub(r"[\t\r\n]", " ", value)) for value in row) + "\n"
        return
    yield "\t".join(f"?{name}" for name in result.columns) + "\n"
    for cells in result.rows():
        yield "\t".join(one.value if one and number(one) is not None else _term(one, tidy) for one in cells) + "\n"


def _json(result: Result) -> Iterator[str]:
    """SPARQL 1.1 JSON results; of a ranking its records."""
    if result.ranking is not None:
        yield json.dumps(result.ranking.records(), ensure_ascii=False, indent=1)
        return
    head = json.dumps({"vars": list(result.columns)}, ensure_ascii=False)
    yield f'{{"head": {head}, "results": {{"bindings": ['
    between = "\n"
    for rows in _batches(result.rows()):
        bindings = result.table(rows).bindings()
        yield between + ",\n".join(json.dumps(binding, ensure_ascii=False) for binding in bindings)
        between = ",\n"
    yield "\n]}}\n"


def _triples(result: Result) -> Iterator[str]:
    for row in result.rows():
        if all(cell is not None for cell in row):
            yield " ".join(map(_term, row)) + " .\n"


def _term(cell: Cell, tidy: Callable[[str], str] = str) -> str:
    """A term of N-Triples; nothing for an unbound one."""
    if cell is None:
        return ""
    if cell.type == "uri":
        return f"<{_iri(cell.value)}>"
    if cell.type == "bnode":
        return f"_:b{_BAD_LABEL.sub('x', cell.value)}"
    tag = f"@{cell.language}" if cell.language else f"^^<{_iri(cell.datatype)}>" if cell.datatype else ""
    return f'"{tidy(cell.value).translate(_TSV)}"{tag}'


def _iri(text: str) -> str:
    return _BAD_IRI.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _sheet(result: Result, known: Known) -> Iterator[bytes]:
    """An Excel file; texts are never formulas there, and a label stands for an entity, its id beside it."""
    import xlsxwriter

    def value(cell: Cell, head: AnswerTable) -> str | float:
        known = number(cell)
        return text_of(cell, head) if known is None else known

    with tempfile.TemporaryFile(prefix="kbnav-") as file:
        options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
        with xlsxwriter.Workbook(file, options) as book:
            sheet = book.add_worksheet("kbnav")
            for line, row in enumerate(islice(_labelled(result, known, value), _SHEET_ROWS)):
                for column, one in enumerate(row):
                    if isinstance(one, float):
                        sheet.write_number(line, column, one)
                    elif one:
                        sheet.write_string(line, column, one[:32_767])
        file.seek(0)
        while piece := file.read(_BYTES):
            yield piece


def _values(result: Result) -> Iterator[Sequence[str]]:
    """Names and then values as CSV has them."""
    if result.ranking is None:
        yield result.columns
        yield from (["" if cell is None else cell.value for cell in row] for row in result.rows())
        return
    yield from ([str(value) for value in row] for row in result.ranking.lines())


def _batches(rows: Iterable[T]) -> Iterator[list[T]]:
    left = iter(rows)
    while batch := list(islice(left, PART)):
        yield batch
