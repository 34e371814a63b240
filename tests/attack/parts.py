"""A service that says that it is no Wikibase, and then never answers again."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

HEAVY = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
POLONIUM = "Who discovered polonium?"


class Hanging:
    """Its address is ``url``; ``key`` is what the page calls it."""

    def __init__(self) -> None:
        over = self._over = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if "siteinfo" in self.path:
                    body = json.dumps({"query": {"general": {}}}).encode()
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                    return
                over.wait(60)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                return

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))

    def __enter__(self) -> Hanging:
        self._thread.start()
        self.key = f"127.0.0.1:{self._http.server_address[1]}"
        self.url = f"http://{self.key}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
