"""Logins that were taken back before they were over."""

from __future__ import annotations

import time
from functools import lru_cache

from kbnav.apps.web.database import Database

LOGIN = 31 * 24 * 3600.0
"""Seconds after which no browser keeps a login any more."""
AT_HAND = 1_000
SECONDS = 10.0
"""For which it is not looked again whether a login was taken back by another worker."""
SCHEMA = ("CREATE TABLE IF NOT EXISTS web_logouts (login TEXT PRIMARY KEY, made DOUBLE PRECISION NOT NULL)",)


class Logouts:
    """Known to every worker; those of this process are at hand."""

    def __init__(self, database: Database) -> None:
        self._run = database.run
        self._has = lru_cache(AT_HAND)(self._look)

    def add(self, key: str) -> None:
        """Keep one."""
        self._run("INSERT INTO web_logouts (login, made) VALUES (?, ?) ON CONFLICT DO NOTHING", (key, time.time()))
        self._run("DELETE FROM web_logouts WHERE made < ?", (time.time() - LOGIN,))
        self._has.cache_clear()

    def has(self, key: str) -> bool:
        """Whether a login was taken back; by another worker, known here after ``SECONDS``."""
        return self._has(key, int(time.monotonic() // SECONDS))

    def _look(self, key: str, when: int) -> bool:  # noqa: ARG002 - a later look is not answered from memory
        return bool(self._run("SELECT login FROM web_logouts WHERE login = ?", (key,)))
