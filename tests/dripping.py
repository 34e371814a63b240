"""Servers that answer byte by byte, or no more."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def dripping(first: bytes, hung_up: threading.Event | None = None) -> Iterator[str]:
    """An endpoint that sends ``first`` and then one byte every 50 ms, until its client has ``hung_up``."""
    over = threading.Event()

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            with connection:
                connection.sendall(first)
                while not over.wait(0.05):
                    connection.sendall(b" ")
        if hung_up and not over.is_set():
            hung_up.set()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()


@contextmanager
def silent(answers: int = 0) -> Iterator[tuple[str, threading.Event, threading.Event]]:
    """An endpoint that takes one connection, and answers so many requests and then none.

    The events: it was asked what it does not answer, and the client hung up.
    """
    asked, hung_up = threading.Event(), threading.Event()

    def listen(server: socket.socket, left: int = answers) -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            with connection:
                while connection.recv(65536):
                    if left:
                        left -= 1
                        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                    else:
                        asked.set()
        hung_up.set()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=listen, args=(server,), daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/", asked, hung_up
