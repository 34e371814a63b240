"""What a model is writing for a run at this moment: told to whoever follows it here, and never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbnav.apps.secrets import Secrets
from kbnav.models.transport import Draft
from kbnav.runs.trajectory import FINISH

EVERY = 0.08
"""Seconds between two drafts that a follower is told."""
LONGEST = 8_000
"""Characters of a draft that are told."""


class Writing:
    """The reply to one run's latest request, as far as it has come."""

    def __init__(self, tell: Callable[[], None], hide: Secrets) -> None:
        """``tell``, which is called from any thread, says that there is more."""
        self._tell, self._hide = tell, hide
        self._draft: Draft | None = None
        self.version = 0
        """Grows with each piece."""
        self.stored = 0
        """How many events were stored."""

    def hear(self, draft: Draft) -> None:
        """Take what has come; a ``kbnav.models.transport.Listener``."""
        self._draft = draft
        self.version += 1
        self._tell()

    def over(self) -> None:
        """An event was stored: what was written is a part of it, or is over."""
        self._draft = None
        self.stored += 1

    @property
    def data(self) -> dict[str, Any] | None:
        """The draft as the page shows it: the thought and tool of the next step, or the answer; None where none is."""
        draft = self._draft
        if draft is None:
            return None
        given = _begun(draft.arguments)
        answer = draft.text if draft.purpose == "answer" else given.get("answer", "") if draft.tool == FINISH else ""
        thought = "" if draft.purpose == "answer" else draft.text or given.get("thought", "")
        shown = {"thought": str(thought)[:LONGEST], "tool": draft.tool, "answer": str(answer)[:LONGEST]}
        return self._hide.hidden_in({"kind": "draft", **shown})


def _begun(arguments: str) -> dict[str, Any]:
    """What can be read of arguments that are being written."""
    from langchain_core.utils.json import parse_partial_json

    try:
        found = parse_partial_json(arguments) if arguments else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
