"""The row-major F1 and exact match of SPINACH, section 5.1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kbnav.answers.tables import XSD_STRING, AnswerTable
from kbnav.evaluation.metrics.assignment import GoldKind, Matching, Row, best_matching

Binding = Mapping[str, Mapping[str, str]]
Answer = AnswerTable | Sequence[Binding] | bool | None
"""An answer: a table, SPARQL JSON bindings, the boolean of an ASK query, or None where there is no prediction."""

_IGNORED = ("Label", "Description")


@dataclass(frozen=True)
class RowMajor:
    """Scores of one question, with the counts they come from.

    ``tp`` is the sum of the recalls of the matched gold rows, ``fn`` what is missing from it to the number of gold
    rows, ``fp`` the number of predicted rows without a match. A boolean counts as one row.
    """

    f1: float
    em: float
    tp: float
    fp: float
    fn: float
    matched: int
    predicted_rows: int
    gold_rows: int


def row_major(predicted: Answer, gold: Answer) -> RowMajor:
    """F1 and EM of a predicted against a gold answer, rows matched one to one by maximum total recall.

    The recall of a pair of rows is the share of the gold row's cells that the predicted row has, under whatever column
    names; further predicted cells are free. Cells are equal in type, value, datatype and language. Gold columns that
    end in Label or Description are ignored, so a gold row of nothing else cannot be matched. A pair without recall is
    no match. Where several matchings have the maximum recall, the one of fewest rows counts: the score is then the
    same for any order of the rows, and the lowest that the definition allows.

    No prediction scores 0, whatever the gold; two tables without rows score 1. EM is 1 where F1 is 1, else 0.
    """
    if predicted is None:
        return _scores(Matching(0.0, 0, 0), 0, _size(gold))
    predicted_boolean, gold_boolean = _boolean(predicted), _boolean(gold)
    if predicted_boolean is not None or gold_boolean is not None:
        same = int(predicted_boolean == gold_boolean)
        return _scores(Matching(float(same), same, same), _size(predicted), _size(gold))
    predicted_rows, gold_rows = bindings(predicted), bindings(gold)
    matching = match_rows(predicted_rows, gold_rows, ignored=_IGNORED)
    if not predicted_rows and not gold_rows:
        return RowMajor(1.0, 1.0, 0.0, 0.0, 0.0, 0, 0, 0)
    return _scores(matching, len(predicted_rows), len(gold_rows))


def match_rows(predicted: Sequence[Binding], gold: Sequence[Binding], *, ignored: tuple[str, ...] = ()) -> Matching:
    """Match rows by maximum total recall; gold columns whose names end in one of ``ignored`` do not count."""
    numbers: dict[tuple[str, ...], int] = {}
    kinds: Counter[GoldKind] = Counter()
    for row in gold:
        names = [name for name in row if not (ignored and name.endswith(ignored))]
        cells = [numbers.setdefault(key, len(numbers)) for key in _distinct(row[name] for name in names)]
        if cells:
            kinds[GoldKind(tuple(sorted(cells)), len(cells))] += 1
    useful: Counter[Row] = Counter()
    for row in predicted:
        found = [numbers[key] for key in _distinct(row.values()) if key in numbers]
        if found:
            useful[tuple(sorted(found))] += 1
    return best_matching(useful, kinds)


def bindings(answer: Answer) -> Sequence[Binding]:
    """The rows of a table as SPARQL JSON bindings; none for a boolean or for no answer."""
    if isinstance(answer, AnswerTable):
        return answer.bindings()
    return () if answer is None or isinstance(answer, bool) else answer


def cell_key(cell: Mapping[str, str]) -> tuple[str, ...]:
    """What makes two cells equal: RDF 1.1 reads ``xsd:string`` as a plain literal and language tags without case."""
    kind = "literal" if cell["type"] == "typed-literal" else cell["type"]
    datatype = cell.get("datatype") or ""
    return (kind, cell["value"], "" if datatype == XSD_STRING else datatype, (cell.get("xml:lang") or "").lower())


def _distinct(cells: Iterable[Mapping[str, str]]) -> list[tuple[str, ...]]:
    """The cells of one row; a cell that comes again is told apart by how many of its equals came before it."""
    keys = [cell_key(cell) for cell in cells]
    if len(set(keys)) == len(keys):
        return keys
    seen: Counter[tuple[str, ...]] = Counter()
    for place, key in enumerate(keys):
        if seen[key]:
            keys[place] = (*key, str(seen[key]))
        seen[key] += 1
    return keys


def _boolean(answer: Answer) -> bool | None:
    if isinstance(answer, AnswerTable):
        return answer.boolean
    return answer if isinstance(answer, bool) else None


def _size(answer: Answer) -> int:
    return 0 if answer is None else 1 if isinstance(answer, bool) else len(answer)


def _scores(matching: Matching, predicted_rows: int, gold_rows: int) -> RowMajor:
    tp, matched = matching.recall, matching.rows
    fp, fn = predicted_rows - matched, gold_rows - tp
    exact = matching.full == gold_rows == predicted_rows and gold_rows > 0
    f1 = 1.0 if exact else 2 * tp / (2 * tp + fp + fn) if tp else 0.0
    return RowMajor(f1, float(exact), tp, float(fp), fn, matched, predicted_rows, gold_rows)
