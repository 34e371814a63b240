"""Results between the database, which keeps their rows in parts, and the routes, which read a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from kbnav.apps.web.results import Kept, Result, kept, order
from kbnav.apps.web.store import Store, StoredResult

AT_HAND = 16
"""Results of which the head, or an order of the rows, is not read or worked out again."""


def keep(store: Store, head: StoredResult, result: Result, most: int) -> int:
    """Keep a result; how many of its rows were, where an owner's results may take ``most`` bytes."""
    rows = len(result.table.rows) if result.ranking is None else 0
    return store.add_result(head, result.parts(), rows=rows, most=most)


class Results:
    """Reads what is kept; threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._order = lru_cache(AT_HAND)(self._sort)

    def find(self, result_id: str) -> tuple[StoredResult, Kept] | None:
        """A result whose rows are read when they are asked for; None where there is none."""
        head = self._store.result(result_id)
        if head is None:
            return None
        parts, last = self._store.parts(result_id)
        return head, kept(head.document, parts, partial(self._store.part, result_id), last)

    def order(self, result_id: str, column: str, descending: bool) -> Sequence[int]:
        """The numbers of a result's rows, sorted by a column. Raises KeyError where the result is gone."""
        return self._order(result_id, column, descending)

    def _sort(self, result_id: str, column: str, descending: bool) -> Sequence[int]:
        found = self.find(result_id)
        if found is None:
            raise KeyError(result_id)
        return order(found[1], column, descending)
