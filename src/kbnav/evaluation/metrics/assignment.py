"""Exact maximum-recall matching of predicted rows to gold rows, at any size.

Rows are grouped into kinds with a count each; kinds that share no cell are solved apart. What is left is a small
transportation problem a component.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Row = tuple[int, ...]
"""The cells of a row as rising numbers. A cell that a row has twice has two numbers, the same in every row."""

EDGE_LIMIT = 50_000_000
"""Pairs of rows with a common cell that are matched row by row; beyond, kinds of rows are."""

DENSE_SHARE = 0.1
"""Share of pairs with a common cell above which a dense assignment is the faster one."""


class GoldKind(NamedTuple):
    """Gold rows with the same cells; ``size`` counts all cells of the row, also those left out because none match."""

    cells: Row
    size: int


@dataclass(frozen=True)
class Matching:
    """A matching's total recall, its number of pairs, and how many of them have recall 1."""

    recall: float
    rows: int
    full: int


class _Problem(NamedTuple):
    """Rows to match, as kinds with their counts."""

    predicted: Counter[Row]
    gold: Counter[GoldKind]


_Pairs = Counter[tuple[int, int]]
"""Pairs of a matching, counted by common cells and size of the gold row."""


def best_matching(predicted: Counter[Row], gold: Counter[GoldKind]) -> Matching:
    """The matching of maximum total recall, and among those the one of fewest pairs; a pair needs a common cell."""
    found = _pairs(_Problem(predicted, gold))
    recall = math.fsum(count * common / size for (common, size), count in found.items())
    full = sum(count for (common, size), count in found.items() if common == size)
    return Matching(recall, found.total(), full)


def _pairs(problem: _Problem) -> _Pairs:
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
        rest.gold[GoldKind(tuple(cell for cell in row if cell not in cells), size)] += count
    return rest


def _components(problem: _Problem) -> list[_Problem]:
    """Split kinds into groups that share no cell."""
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
    """The best matching of one component."""
    rows, kinds = list(problem.predicted), list(problem.gold)
    # No kind has more pairs than the smaller side has rows.
    most = min(problem.predicted.total(), problem.gold.total())
    supply = [min(count, most) for count in problem.predicted.values()]
    demand = [min(count, most) for count in problem.gold.values()]
    if len(rows) == 1 or len(kinds) == 1:
        return _fill(rows, kinds, supply, demand)
    shared = set(rows[0]).intersection(*rows, *(kind.cells for kind in kinds))
    if shared and (sum(supply) >= sum(demand) or len({kind.size for kind in kinds}) == 1):
        return _solve_without(shared, problem)
    common = _common_cells(rows, kinds)
    edges = common.astype(bool).astype(float) @ np.array(demand) @ np.array(supply)
    flow = _matching if edges <= EDGE_LIMIT else _program
    found: _Pairs = Counter()
    for cells, j, count in flow(common, kinds, supply, demand):
        found[cells, kinds[j].size] += count
    return found


def _solve_without(shared: set[int], problem: _Problem) -> _Pairs:
    """Leave out the cells that every row has, and add them again to every pair.

    Every two rows may be paired, so all rows of the smaller side are, whatever the other cells say; which gold rows
    are left over makes no difference to the shared cells, because there are none or all are of one size.
    """
    found = _pairs(_without(shared, problem))
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


def _fill(rows: Sequence[Row], kinds: Sequence[GoldKind], supply: list[int], demand: list[int]) -> _Pairs:
    """With one kind on a side, take the pairs by falling recall."""
    pairs = [
        (len(set(row) & set(kind.cells)), kind.size, i, j) for i, row in enumerate(rows) for j, kind in enumerate(kinds)
    ]
    found: _Pairs = Counter()
    for common, size, i, j in sorted(pairs, key=lambda pair: -pair[0] / pair[1]):
        count = min(supply[i], demand[j])
        found[common, size] += count
        supply[i] -= count
        demand[j] -= count
    return +found


def _steps(kinds: Sequence[GoldKind], supply: Sequence[int], demand: Sequence[int]) -> NDArray[np.float64]:
    """The weight of one common cell with each gold kind, a whole number.

    A pair's weight is this times its common cells, less one: the ones of a whole matching never add up to the smallest
    difference in recall, so that recall comes first and few pairs second.
    """
    sizes = [kind.size for kind in kinds]
    multiple, pairs = math.lcm(*sizes), min(sum(supply), sum(demand))
    return np.array([float(multiple // size * (pairs + 1)) for size in sizes])


def _common_cells(rows: Sequence[Row], kinds: Sequence[GoldKind]) -> Any:
    """How many cells each predicted kind and gold kind have in common, as a sparse array [predicted, gold]."""
    csr_array = _scipy("sparse").csr_array
    width = 1 + max(max(row) for row in [*rows, *(kind.cells for kind in kinds)])

    def incidence(sets: Sequence[Row]) -> Any:
        columns = np.array([cell for row in sets for cell in row])
        return csr_array((np.ones(len(columns)), columns, np.cumsum([0, *map(len, sets)])), shape=(len(sets), width))

    return (incidence(rows) @ incidence([kind.cells for kind in kinds]).T).tocsr()


def _matching(
    common: Any, kinds: Sequence[GoldKind], supply: Sequence[int], demand: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """A bipartite matching with a vertex for each row; yields (common cells, gold kind, pairs)."""
    of_column = np.repeat(np.arange(len(kinds)), demand)
    expanded = common[np.repeat(np.arange(len(supply)), supply)][:, of_column]
    weights = expanded.data * _steps(kinds, supply, demand)[of_column[expanded.indices]] - 1
    costs = _scipy("sparse").csr_array((-weights, expanded.indices, expanded.indptr), shape=expanded.shape)
    if expanded.nnz > DENSE_SHARE * math.prod(expanded.shape):
        rows, columns = _scipy("optimize").linear_sum_assignment(costs.toarray())
    else:
        rows, columns = _sparse_assignment(costs)
    pairs = zip(expanded[rows, columns].astype(int).tolist(), of_column[columns].tolist(), strict=True)
    for (cells, j), count in Counter(pairs).items():
        if cells:
            yield cells, j, count


def _sparse_assignment(costs: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The assignment of least cost, all costs below 0; each row has a place of its own to stay unassigned at cost 0."""
    sparse = _scipy("sparse")
    lift = 1 - costs.data.min()  # the solver takes costs above 0 only, and every row is assigned once
    lifted = sparse.csr_array((costs.data + lift, costs.indices, costs.indptr), shape=costs.shape)
    places = sparse.hstack([lifted, sparse.eye_array(costs.shape[0]) * lift], format="csr")
    rows, columns = _scipy("sparse.csgraph").min_weight_full_bipartite_matching(places)
    assigned = columns < costs.shape[1]
    return rows[assigned], columns[assigned]


def _program(
    common: Any, kinds: Sequence[GoldKind], supply: Sequence[int], demand: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """The same as a linear program over pairs of kinds, whose basic solutions are whole numbers."""
    pairs = common.tocoo()
    i, j = pairs.coords
    edges = np.arange(len(i))
    entries = (np.ones(2 * len(i)), (np.concatenate([i, len(supply) + j]), np.concatenate([edges, edges])))
    weights = pairs.data * _steps(kinds, supply, demand)[j] - 1
    solution = _scipy("optimize").linprog(
        -weights, A_ub=_scipy("sparse").csr_array(entries), b_ub=[*supply, *demand], method="highs-ds"
    )
    flow = np.rint(solution.x)
    for edge in np.flatnonzero(flow):
        yield int(pairs.data[edge]), int(j[edge]), int(flow[edge])


def _scipy(module: str) -> Any:
    """A part of SciPy, imported where tables are partly right: most scores do without, and it takes long."""
    return importlib.import_module(f"scipy.{module}")
