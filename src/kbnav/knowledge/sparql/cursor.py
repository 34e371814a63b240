"""A place among a query's tokens that moves on: what the readers of queries stand on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from kbnav.knowledge.sparql.tokens import Token


class Cursor(ABC):
    """The tokens of a query, and in ``_at`` the one that comes next."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @abstractmethod
    def _ended(self) -> Exception:
        """What is raised where the query ends and more is expected."""

    def _next(self) -> Token:
        if self._at >= len(self._tokens):
            raise self._ended()
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next()
        self._at += 1
        return token

    def _is(self, *texts: str) -> bool:
        """Whether a word or symbol among ``texts`` comes next."""
        if self._at >= len(self._tokens):
            return False
        token = self._tokens[self._at]
        return token.kind in ("word", "symbol") and token.text.upper() in texts

    def _accept(self, *texts: str) -> bool:
        """Move on where one of ``texts`` comes next, and say whether it did."""
        accepted = self._is(*texts)
        self._at += accepted
        return accepted
