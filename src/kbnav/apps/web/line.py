"""Who waits for one kind of work, who comes next, and how many are before."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from itertools import count

from kbnav.errors import LimitReached

LONGEST = 1_000
"""Places in a line, all users together."""


@dataclass(frozen=True, eq=False)
class Place:
    """A place in a line: whose it is, on which knowledge base it works, and when it was taken."""

    owner: str
    kb: str
    number: int


class Line:
    """So much at once, and of that so much of one user and on one knowledge base; threads may share it.

    Of those that may begin, whoever has least at work comes first, and among equals who came first. So a user who asks
    for much waits behind one who asks for little, and a knowledge base that hangs holds up none of the others.
    """

    def __init__(self, size: int, *, of_owner: int, of_kb: int, most_of_owner: int = LONGEST) -> None:
        """``size`` at once, ``of_owner`` of one user, ``of_kb`` on one knowledge base; each 1 or more.

        One user may have ``most_of_owner`` places, at work or waiting.
        """
        self._size, self._of_owner, self._of_kb = size, of_owner, of_kb
        self._most = most_of_owner
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._waiting: list[Place] = []
        self._at_work: set[Place] = set()

    def join(self, owner: str, kb: str = "") -> Place:
        """A place at the end of the line. Raises LimitReached."""
        with self._lock:
            if sum(one.owner == owner for one in (*self._waiting, *self._at_work)) >= self._most:
                raise LimitReached(f"{self._most} of yours are under way; wait for one")
            if len(self._waiting) >= LONGEST:
                raise LimitReached("too many are waiting; try again in a moment")
            place = Place(owner, kb, next(self._numbers))
            self._waiting.append(place)
            return place

    def begin(self) -> Place | None:
        """The place that begins now; None where nobody waits, or may."""
        with self._lock:
            if len(self._at_work) >= self._size:
                return None
            owners, kbs = self._counts()
            for place in self._order(owners):
                if owners[place.owner] < self._of_owner and kbs[place.kb] < self._of_kb:
                    self._waiting.remove(place)
                    self._at_work.add(place)
                    return place
            return None

    def leave(self, place: Place) -> None:
        """Somebody is done, or waits no longer."""
        with self._lock:
            self._at_work.discard(place)
            if place in self._waiting:
                self._waiting.remove(place)

    @property
    def lengths(self) -> tuple[int, int]:
        """How many wait, and how many are at work."""
        with self._lock:
            return len(self._waiting), len(self._at_work)

    def before(self, place: Place) -> int:
        """How many of those that wait come first; 0 for who is at work."""
        with self._lock:
            order = self._order(self._counts()[0])
            return order.index(place) if place in order else 0

    def _counts(self) -> tuple[Counter[str], Counter[str]]:
        return Counter(one.owner for one in self._at_work), Counter(one.kb for one in self._at_work)

    def _order(self, owners: Counter[str]) -> list[Place]:
        """Those that wait, in turns by user."""
        ahead, ranked = Counter(owners), []
        for place in self._waiting:
            ranked.append((ahead[place.owner], place.number, place))
            ahead[place.owner] += 1
        return [place for _, _, place in sorted(ranked, key=lambda one: one[:2])]
