"""A session of ``requests`` whose kept connections are hung up with the run. Imported where used: it takes a while."""

from __future__ import annotations

from functools import cache
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter

from kbnav.knowledge.service.hanging_up import current_line


def session(user_agent: str) -> requests.Session:
    """One that says who asks."""
    made = requests.Session()
    made.headers.update({"User-Agent": user_agent})
    for scheme in ("http://", "https://"):
        made.mount(scheme, _Adapter())
    return made


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *given: Any, **named: Any) -> None:
        """The pools of connections to each host."""
        super().init_poolmanager(*given, **named)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *given: Any, **named: Any) -> Any:
        """Those by way of a proxy."""
        manager = super().proxy_manager_for(*given, **named)
        manager.pool_classes_by_scheme = _POOLS
        return manager


class _Plain(urllib3.HTTPConnectionPool):
    @property
    def ConnectionCls(self) -> Any:  # type: ignore[override]
        """What a connection is made with."""
        return _known(urllib3.HTTPConnectionPool.ConnectionCls)


class _Secure(urllib3.HTTPSConnectionPool):
    @property
    def ConnectionCls(self) -> Any:  # type: ignore[override]
        """What a connection is made with."""
        return _known(urllib3.HTTPSConnectionPool.ConnectionCls)


_POOLS = {"http": _Plain, "https": _Secure}


@cache
def _known(base: Any) -> Any:
    """The same connections, of which the line of the request at hand knows."""

    class Connection(base):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            self._tell()

        def getresponse(self, *given: Any, **named: Any) -> Any:
            self._tell()  # one that was kept was made for another request
            return super().getresponse(*given, **named)

        def _tell(self) -> None:
            line = current_line()
            if line is not None and self.sock is not None:
                line.add(self.sock)

    return Connection
