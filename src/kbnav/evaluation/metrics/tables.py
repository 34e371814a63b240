"""Metrics of answer tables: SPINACH's row-major F1, and those of the TEXT2SPARQL challenge.

The row-major F1 (SPINACH, section 5.1) matches rows exactly, at any size: rows are grouped into kinds with a count
each, kinds that share no cell are solved apart, and what is left is a small assignment problem a component.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbnav.answers.tables import XSD_STRING, AnswerTable
from kbnav.settings.plugins import needs

Binding = Mapping[str, Mapping[str, str]]
Answer = AnswerTable | Sequence[Binding] | bool | None
"""An answer: a table, SPARQL JSON bindings, the boolean of an ASK query, or None where there is no prediction."""
_IGNORED = ("Label", "Description")
_Row = tuple[int, ...]
"""The cells of a row as rising numbers. A cell that a row has twice has two numbers, the same in every row."""
_Pairs = Counter[tuple[int, int]]
"""Pairs of a matching, counted by common cells and size of the gold row."""
_EDGE_LIMIT = 50_000_000
"""Pairs of rows with a common cell that are matched row by row; beyond, kinds of rows are."""


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
    truth, gold_truth = _boolean(predicted), _boolean(gold)
    sizes = [0 if one is None else 1 if isinstance(one, bool) else len(one) for one in (predicted, gold)]
    pairs: _Pairs = Counter()
    if predicted is None or truth is not None or gold_truth is not None:
        pairs[1, 1] = int(predicted is not None and truth == gold_truth)
    elif not any(sizes):
        return RowMajor(1.0, 1.0, 0.0, 0.0, 0.0, 0, 0, 0)
    else:
        pairs = _matched(_bindings(predicted), _bindings(gold))
    tp = float(sum(Fraction(count * common, size) for (common, size), count in pairs.items()))
    full = sum(count for (common, size), count in pairs.items() if common == size)
    matched, (rows, gold_rows) = pairs.total(), sizes
    fp, fn = rows - matched, gold_rows - tp
    exact = full == gold_rows == rows and gold_rows > 0
    f1 = 1.0 if exact else 2 * tp / (2 * tp + fp + fn) if tp else 0.0
    return RowMajor(f1, float(exact), tp, float(fp), fn, matched, rows, gold_rows)


def _boolean(answer: Answer) -> bool | None:
    truth = answer.boolean if isinstance(answer, AnswerTable) else answer
    return truth if isinstance(truth, bool) else None


def _bindings(answer: Answer) -> Sequence[Binding]:
    """The rows of a table as SPARQL JSON bindings; none for a boolean or for no answer."""
    if isinstance(answer, AnswerTable):
        return answer.bindings()
    return () if answer is None or isinstance(answer, bool) else answer


def _cell_key(cell: Mapping[str, str]) -> tuple[str, ...]:
    """What makes two cells equal: RDF 1.1 reads ``xsd:string`` as a plain literal and language tags without case."""
    kind = "literal" if cell["type"] == "typed-literal" else cell["type"]
    datatype = cell.get("datatype") or ""
    return (kind, cell["value"], "" if datatype == XSD_STRING else datatype, (cell.get("xml:lang") or "").lower())


def _distinct(cells: Iterable[Mapping[str, str]]) -> list[tuple[str, ...]]:
    """The cells of one row; a cell that comes again is told apart by how many of its equals came before it."""
    keys = [_cell_key(cell) for cell in cells]
    if len(set(keys)) == len(keys):
        return keys
    seen: Counter[tuple[str, ...]] = Counter()
    for place, key in enumerate(keys):
        if seen[key]:
            keys[place] = (*key, str(seen[key]))
        seen[key] += 1
    return keys


class _Gold(NamedTuple):
    """Gold rows with the same cells; ``size`` counts all cells of the row, also those left out because none match."""

    cells: _Row
    size: int


class _Problem(NamedTuple):
    predicted: Counter[_Row]
    gold: Counter[_Gold]


def _matched(predicted: Sequence[Binding], gold: Sequence[Binding]) -> _Pairs:
    """The matching of maximum total recall, and among those the one of fewest pairs; a pair needs a common cell."""
    numbers: dict[tuple[str, ...], int] = {}
    problem = _Problem(Counter(), Counter())
    for row in gold:
        keys = _distinct(cell for name, cell in row.items() if not name.endswith(_IGNORED))
        if keys:
            cells = tuple(sorted(numbers.setdefault(key, len(numbers)) for key in keys))
            problem.gold[_Gold(cells, len(cells))] += 1
    for row in predicted:
        if found := [numbers[key] for key in _distinct(row.values()) if key in numbers]:
            problem.predicted[tuple(sorted(found))] += 1
    return _best_pairs(problem)


def _best_pairs(problem: _Problem) -> _Pairs:
    found: _Pairs = Counter()
    work = [problem]
    while work:
        for component in _components(_drop_lone_cells(work.pop())):
            equal, rest = _take_equal(component)
            if equal:
                found.update(equal)
                work.append(rest)
            else:
                found.update(_solve(component))
    return found


def _drop_lone_cells(problem: _Problem) -> _Problem:
    """Leave out cells that only one side has, and rows that are left with none; more rows become of one kind."""
    in_predicted = {cell for row in problem.predicted for cell in row}
    lone = in_predicted ^ {cell for kind in problem.gold for cell in kind.cells}
    rest = _without(lone, problem)
    del rest.predicted[()]
    return _Problem(rest.predicted, Counter({kind: count for kind, count in rest.gold.items() if kind.cells}))


def _without(cells: set[int], problem: _Problem) -> _Problem:
    rest = _Problem(Counter(), Counter())
    for row, count in problem.predicted.items():
        rest.predicted[tuple(cell for cell in row if cell not in cells)] += count
    for (row, size), count in problem.gold.items():
        rest.gold[_Gold(tuple(cell for cell in row if cell not in cells), size)] += count
    return rest


def _components(problem: _Problem) -> list[_Problem]:
    """Split kinds into groups that share no cell. Done by hand, for most scores need no SciPy, which loads slowly."""
    parent: dict[int, int] = {}

    def root(cell: int) -> int:
        while (above := parent.setdefault(cell, cell)) != cell:
            parent[cell] = parent[above]
            cell = above
        return cell

    for row in [*problem.predicted, *(kind.cells for kind in problem.gold)]:
        first = root(row[0])
        for cell in row[1:]:
            parent[root(cell)] = first
    groups: defaultdict[int, _Problem] = defaultdict(lambda: _Problem(Counter(), Counter()))
    for row, count in problem.predicted.items():
        groups[root(row[0])].predicted[row] = count
    for kind, count in problem.gold.items():
        groups[root(kind.cells[0])].gold[kind] = count
    return list(groups.values())


def _take_equal(problem: _Problem) -> tuple[_Pairs, _Problem]:
    """Match predicted and gold rows that have the same cells left, among the gold rows of the smallest size.

    No matching is better without such pairs. Let p and g have the same c cells, and let p be matched with h, g with q.
    Counting cells, |q∩g| + |g∩h| <= c + |q∩h|, and since h is no smaller than g, pairing p with g and q with h
    gives no less recall; at equal recall it has no more pairs.
    """
    smallest = min(kind.size for kind in problem.gold)
    found: _Pairs = Counter()
    predicted, gold = problem.predicted.copy(), problem.gold.copy()
    for kind in problem.gold:
        count = min(gold[kind], predicted.get(kind.cells, 0)) if kind.size == smallest else 0
        if count:
            found[len(kind.cells), kind.size] += count
            predicted[kind.cells] -= count
            gold[kind] -= count
    return found, _Problem(+predicted, +gold)


def _solve(problem: _Problem) -> _Pairs:
    rows, kinds = list(problem.predicted), list(problem.gold)
    # No kind has more pairs than the smaller side has rows.
    most = min(problem.predicted.total(), problem.gold.total())
    supply = [min(count, most) for count in problem.predicted.values()]
    demand = [min(count, most) for count in problem.gold.values()]
    shared = set(rows[0]).intersection(*rows, *(kind.cells for kind in kinds))
    if shared and (sum(supply) >= sum(demand) or len({kind.size for kind in kinds}) == 1):
        return _solve_without(shared, problem)
    # The weight of a pair is a whole number times its common cells, less one: the ones of a whole matching never add up
    # to the smallest difference in recall, so that recall comes first and few pairs second.
    multiple, pairs = math.lcm(*(kind.size for kind in kinds)), min(sum(supply), sum(demand))
    steps = np.array([float(multiple // kind.size * (pairs + 1)) for kind in kinds])
    common = _common_cells(rows, kinds)
    edges = common.astype(bool).astype(float) @ np.array(demand) @ np.array(supply)
    flow = _assignment if edges <= _EDGE_LIMIT else _linear_program
    found: _Pairs = Counter()
    for cells, j, count in flow(common, steps, supply, demand):
        found[cells, kinds[j].size] += count
    return found


def _solve_without(shared: set[int], problem: _Problem) -> _Pairs:
    """Leave out the cells that every row has, and add them again to every pair.

    Every two rows may be paired, so all rows of the smaller side are, whatever the other cells say; which gold rows
    are left over makes no difference to the shared cells, because there are none or all are of one size.
    """
    found = _best_pairs(_without(shared, problem))
    unmatched: Counter[int] = Counter()
    for kind, count in problem.gold.items():
        unmatched[kind.size] += count
    result: _Pairs = Counter()
    for (common, size), count in found.items():
        result[common + len(shared), size] += count
        unmatched[size] -= count
    rest = min(problem.predicted.total(), problem.gold.total()) - found.total()
    for size, count in unmatched.items():
        result[len(shared), size] += min(count, rest)
    return result


def _common_cells(rows: Sequence[_Row], kinds: Sequence[_Gold]) -> Any:
    """How many cells each predicted kind and gold kind have in common, as a sparse array [predicted, gold]."""
    csr_array = _scipy("sparse").csr_array
    width = 1 + max(max(row) for row in [*rows, *(kind.cells for kind in kinds)])

    def incidence(sets: Sequence[_Row]) -> Any:
        columns = np.array([cell for row in sets for cell in row])
        return csr_array((np.ones(len(columns)), columns, np.cumsum([0, *map(len, sets)])), shape=(len(sets), width))

    return (incidence(rows) @ incidence([kind.cells for kind in kinds]).T).tocsr()


def _assignment(
    common: Any, steps: NDArray[np.float64], supply: Sequence[int], demand: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """A bipartite matching with a vertex for each row; yields (common cells, gold kind, pairs)."""
    of_column = np.repeat(np.arange(len(demand)), demand)
    expanded = common[np.repeat(np.arange(len(supply)), supply)][:, of_column]
    costs = 1 - expanded.data * steps[of_column[expanded.indices]]
    sparse = _scipy("sparse")
    # The solver takes costs above 0 only and assigns every row: each has a place of its own to stay unassigned at 0.
    lift = 1 - costs.min()
    lifted = sparse.csr_array((costs + lift, expanded.indices, expanded.indptr), shape=expanded.shape)
    places = sparse.hstack([lifted, sparse.eye_array(expanded.shape[0]) * lift], format="csr")
    rows, columns = _scipy("sparse.csgraph").min_weight_full_bipartite_matching(places)
    assigned = columns < expanded.shape[1]
    rows, columns = rows[assigned], columns[assigned]
    pairs = zip(expanded[rows, columns].astype(int).tolist(), of_column[columns].tolist(), strict=True)
    for (cells, j), count in Counter(pairs).items():
        if cells:
            yield cells, j, count


def _linear_program(
    common: Any, steps: NDArray[np.float64], supply: Sequence[int], demand: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """The same as a linear program over pairs of kinds, whose basic solutions are whole numbers."""
    pairs = common.tocoo()
    i, j = pairs.coords
    edges = np.arange(len(i))
    entries = (np.ones(2 * len(i)), (np.concatenate([i, len(supply) + j]), np.concatenate([edges, edges])))
    limits = _scipy("sparse").csr_array(entries)
    solution = _scipy("optimize").linprog(
        1 - pairs.data * steps[j], A_ub=limits, b_ub=[*supply, *demand], method="highs-ds"
    )
    flow = np.rint(solution.x)
    for edge in np.flatnonzero(flow):
        yield int(pairs.data[edge]), int(j[edge]), int(flow[edge])


def _scipy(module: str) -> Any:
    """A part of SciPy, imported where tables are partly right: most scores do without, and it takes long.

    Raises UsageError where it is not installed.
    """
    with needs("eval", "the score of a table that is partly right"):
        return importlib.import_module(f"scipy.{module}")


@dataclass(frozen=True)
class Text2Sparql:
    """Means where gold is not empty; ``f1_ndcg``: nDCG for F1 where order counts."""

    precision: float
    recall: float
    f1: float
    f1_ndcg: float


def text2sparql_scores(answers: Iterable[tuple[Answer, Answer, bool]]) -> Text2Sparql:
    """The scores of the TEXT2SPARQL challenge of (predicted, gold, whether the order counts); all 0 without any.

    As its client works them out (text2sparql-client, 2025): answers are sets of values over all columns, as text,
    without rows, types and languages. A gold ``true`` is found by any boolean; to a gold ``false`` nothing is right.
    Questions whose gold answer has no rows do not count. nDCG is of the values as trec_eval orders equals, from the
    last by the alphabet to the first: the client gives all of them the same weight.
    """

    def values(answer: Answer) -> frozenset[str]:
        cells = (cell["value"] for row in _bindings(answer) for cell in row.values())
        return frozenset(cells if _boolean(answer) is None else ["true"])

    scores = []
    for predicted, gold, ordered in answers:
        if not values(gold):
            continue
        found, relevant = values(predicted), frozenset() if _boolean(gold) is False else values(gold)
        common = len(found & relevant)
        f1 = 2 * common / (len(found) + len(relevant)) if common else 0.0
        places = [rank for rank, one in enumerate(sorted(found, reverse=True), 1) if one in relevant]
        gains, best = (
            sum(1 / math.log2(rank + 1) for rank in ranks) for ranks in (places, range(1, len(relevant) + 1))
        )
        ndcg = gains / best if common else 0.0
        scores.append((common / max(1, len(found)), common / max(1, len(relevant)), f1, ndcg if ordered else f1))
    return Text2Sparql(*map(fmean, zip(*scores or [(0.0,) * 4], strict=True)))
