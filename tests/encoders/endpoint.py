"""An OpenAI-compatible endpoint of embeddings on the loopback address."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Reply = tuple[int, Any]
"""A status and what is sent: bytes, or what becomes JSON."""


class Server:
    """Answers POST /embeddings by a function and keeps what it was asked."""

    def __init__(self, answer: Callable[[dict[str, Any], int], Reply]) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.append(body)
                server.keys.append(self.headers["Authorization"])
                status, reply = answer(body, len(server.asked))
                content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("retry-after-ms", "1")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def embeddings(body: dict[str, Any], _: int = 0) -> Reply:
    """[length of the text, 1], in reverse order, as endpoints may."""
    data = [{"object": "embedding", "index": i, "embedding": [len(t), 1]} for i, t in enumerate(body["input"])]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return 200, {"object": "list", "data": data[::-1], "model": body["model"], "usage": usage}
