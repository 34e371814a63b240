"""A request of a run that is stopped is hung up on, of whichever service it is, over a new connection or a kept one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kbnav.errors import Stopped
from kbnav.knowledge.http import HttpClient
from kbnav.knowledge.replies import Request
from kbnav.models.cancellation import Cancellation
from kbnav.settings.model import Settings


class Quiet:
    """A service that answers so many requests, and then none; it knows when it was asked that, and when hung up on."""

    def __init__(self, answers: int) -> None:
        self.asked, self.hung_up = threading.Event(), threading.Event()
        self._left = answers
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}/"

    def listen(self) -> None:
        """Serve one connection to its end."""
        connection, _ = self._server.accept()
        with connection:
            while connection.recv(65536):
                if self._left:
                    self._left -= 1
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                else:
                    self.asked.set()
        self.hung_up.set()

    @contextmanager
    def served(self) -> Iterator[Quiet]:
        thread = threading.Thread(target=self.listen, daemon=True)
        thread.start()
        with self._server:
            yield self
        thread.join(10)


@pytest.mark.parametrize(("service", "answers"), [("api", 0), ("api", 2), ("vector", 0), ("sparql", 0)])
def test_a_request_is_hung_up_on_when_its_run_is_stopped(service, answers):
    with Quiet(answers).served() as quiet:
        client = HttpClient(Settings(), cache=None, throttle=None, urls=[quiet.url])
        request = Request(service, quiet.url, {"query": "ASK {}"})  # type: ignore[arg-type]
        for _ in range(answers):
            assert client.fetch(request, lambda reply: reply.status) == 200
        cancellation = Cancellation()
        ended: list[BaseException] = []

        def ask() -> None:
            try:
                cancellation.run_here(lambda: client.fetch(request, lambda reply: reply.status))
            except Stopped as error:
                ended.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert quiet.asked.wait(20)
        cancellation.stop()
        assert quiet.hung_up.wait(10)
        thread.join(10)
        assert [type(error) for error in ended] == [Stopped]
        client.close()


def test_a_connection_that_was_given_back_is_not_hung_up_on():
    with Quiet(2).served() as quiet:
        client = HttpClient(Settings(), cache=None, throttle=None, urls=[quiet.url])
        request = Request("api", quiet.url, {})
        cancellation = Cancellation()
        assert cancellation.run_here(lambda: client.fetch(request, lambda reply: reply.status)) == 200
        cancellation.stop()
        assert client.fetch(request, lambda reply: reply.status) == 200
        client.close()
