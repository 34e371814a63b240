"""How many requests one question costs the services, and how many it may."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Protocol, Self, TypeVar, runtime_checkable


class Meter:
    """Counts the requests of one question that are really sent, those tried again among them; threads share it."""

    def __init__(self, most: int = 0) -> None:
        """``most`` requests may be sent; 0: as many as it takes."""
        self._most = most
        self._lock = threading.Lock()
        self._sent: Counter[str] = Counter()

    def count(self, service: str) -> None:
        """One more request goes to a service."""
        with self._lock:
            self._sent[service] += 1

    @property
    def sent(self) -> Mapping[str, int]:
        """Requests by service: ``api``, ``sparql``, ``vector``."""
        with self._lock:
            return dict(self._sent)

    @property
    def spent(self) -> str:
        """Why no more may be looked up, for a model; empty while there is room."""
        if not self._most or sum(self.sent.values()) < self._most:
            return ""
        return (
            f"The {self._most} requests to the knowledge base that a question may cost are used up: "
            "nothing more can be looked up. Finish with what you have."
        )


@runtime_checkable
class Metered(Protocol):
    """A knowledge base that asks services, and can tell how often for one question."""

    def metered(self, meter: Meter) -> Self:
        """The same knowledge base, its requests counted by ``meter``."""
        ...


T = TypeVar("T")


def metered(kb: T, meter: Meter) -> T:
    """The knowledge base with its requests counted, where it makes any."""
    return kb.metered(meter) if isinstance(kb, Metered) else kb
