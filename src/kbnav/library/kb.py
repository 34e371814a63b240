"""An open knowledge base, to look things up in and to ask questions of."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kbnav.answers.language import question_language
from kbnav.answers.tables import AnswerTable
from kbnav.errors import UsageError
from kbnav.knowledge.base import Direction, Entity, Entry, KnowledgeBase, Neighborhood
from kbnav.knowledge.evidence import MOST_ROWS, Provenance
from kbnav.knowledge.open import open_kb
from kbnav.settings.model import SEPARATOR, Settings, load_settings

if TYPE_CHECKING:
    from kbnav.library.asking import Answer


class KB:
    """An open knowledge base; ``kbnav.open`` makes one.

    It is closed by ``close``, at the end of a ``with`` block, or when nothing refers to it any more. Threads may share
    it. ``base`` is what stands behind it, ``settings`` are those that it was opened with.
    """

    def __init__(self, base: KnowledgeBase, settings: Settings, stack: ExitStack | None = None) -> None:
        """``stack`` closes the base."""
        self._base = base
        self.settings = settings
        self._end = weakref.finalize(self, (stack or ExitStack()).close)

    @property
    def name(self) -> str:
        """What it was opened as, such as ``mini``."""
        return self.settings.kb

    @property
    def base(self) -> KnowledgeBase:
        """What stands behind it, with all that tools use. Raises UsageError where it is closed."""
        if not self._end.alive:
            raise UsageError(f"the knowledge base {self.name} is closed")
        return self._base

    def search(self, text: str, *, limit: int = 8, language: str | None = None) -> list[Entity]:
        """What is called so: at most ``limit`` items or nodes, then half as many properties; best first.

        ``language`` is a code such as ``de``; None: that of the text.
        """
        found = self.base.search_entities(text, language=self._language(language, text), limit=limit)
        return [*found.entities, *found.properties]

    def entry(self, entity_id: str, *, language: str | None = None) -> Entry:
        """Everything known of one entity: its statements, and its document where it has one. Raises UnknownId."""
        return self.base.get_entry(entity_id, language=self._language(language))

    def neighbors(
        self, entity_id: str, *, relation: str | None = None, direction: Direction = "both", limit: int = 20
    ) -> Neighborhood:
        """Links of an entity, in both directions unless told otherwise. Raises UnknownId."""
        return self.base.search_neighbors(
            entity_id, relation=relation, direction=direction, limit=limit, language=self._language(None)
        )

    def query(self, sparql: str, *, language: str | None = None) -> AnswerTable:
        """The result of a SPARQL query that only reads; ``.records()`` gives its rows as plain Python values.

        Raises QuerySyntaxError, QueryRefused and QueryTimeout of ``kbnav.errors``.
        """
        return self.base.execute_query(sparql, language=self._language(language))

    def evidence(self, answer: Answer, rows: Sequence[int] = range(MOST_ROWS)) -> Provenance:
        """The statements that make rows of an answer true, with ranks, qualifiers and references; at most two queries.

        Of a ranking of an SKB's nodes: the edges that lead to them, and a sentence of each one's document. It is empty
        where the answer has neither. A service that does not answer ends nothing: ``failed`` says why.
        """
        from kbnav.sessions.evidence import run_evidence

        return run_evidence(self.base, answer.run, rows) or Provenance()

    def close(self) -> None:
        """Close it; a second time does nothing."""
        self._end()

    def _language(self, given: str | None, text: str = "") -> str:
        chosen = given or self.settings.language
        return question_language(text) if chosen == "auto" else chosen

    def __enter__(self) -> KB:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<KB {self.name}>"


def open(
    kb: str | os.PathLike[str] | None = None,
    *more: str | os.PathLike[str],
    contact: str | None = None,
    settings: Settings | None = None,
) -> KB:
    """Open a knowledge base, or several that are asked together.

    Args:
        kb: ``mini`` or ``demo`` (bundled), ``wikidata`` (live), the folder of an SKB or a mirror, or a URL; None: that
            of the settings.
        more: further ones, asked together with the first: what is found says whose it is, and a query begins with a
            line ``# kb: NAME``.
        contact: an e-mail address or page of yours, which live Wikidata asks for.
        settings: all settings, in place of those from the environment and ``kbnav.toml``.

    Raises:
        UsageError: there is no such knowledge base.
        CredentialsError: live use without a contact.
    """
    names = [os.fspath(one) for one in (kb, *more) if one]
    told: dict[str, Any] = {"kb": SEPARATOR.join(names) or None, "contact": contact}
    given = {name: value for name, value in told.items() if value is not None}
    used = settings.model_copy(update=given) if settings else load_settings(**given)
    stack = ExitStack()
    return KB(stack.enter_context(open_kb(used)), used, stack)
