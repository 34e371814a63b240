"""The server in this process or behind a socket, its clients, and a model that says what its conversation calls for."""

import asyncio
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace, TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import requests
import uvicorn
from fastapi import FastAPI
from requests.cookies import extract_cookies_to_jar
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers, stream_decode_response_unicode

from kbnav.apps.web.server import Deadlines, make_app
from kbnav.apps.web.service import PAUSE
from kbnav.apps.web.store import Status, StoredRun
from kbnav.settings.model import Settings, Web
from tests.ending import joined, until
from tests.models.stub import Canned, ModelStub, completion

MARIE = "Which elements were discovered by Marie Curie?"
CURIE = "SELECT ?element WHERE { ?element wdt:P61 wd:Q7186 }"


def stored_run(
    name: str, session: str = "", status: Status = "queued", made: float = 1.0, worker: str = "w"
) -> StoredRun:
    """A question of alice to SPINACH, as a worker writes it down."""
    return StoredRun(
        name, session, "alice", "mini", "spinach", "m", MARIE, status, worker, made, False, None, made, None
    )  # fmt: skip


class Reply(requests.Response):
    """A reply of an application in this process, read while it comes; closing it hangs up."""

    def __init__(self, messages: SimpleQueue[Any], hang_up: Callable[[], None]) -> None:
        super().__init__()
        self._messages, self._hang_up = messages, hang_up

    def iter_content(self, chunk_size: int | None = 1, decode_unicode: bool = False) -> Iterator[Any]:
        def chunks() -> Iterator[bytes]:
            while (message := self._messages.get(timeout=200)) is not None:
                yield message["body"]

        if self._content_consumed:
            return iter([self._content])
        return iter(stream_decode_response_unicode(chunks(), self)) if decode_unicode else chunks()

    def close(self) -> None:
        self._hang_up()


class InProcess(requests.adapters.BaseAdapter):
    """Sends requests to an application in this process, whose loop runs in a thread."""

    def __init__(self, app: FastAPI, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._app, self._loop = app, loop

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:  # type: ignore[override]
        url = urlsplit(request.url or "")
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        headers = {"host": url.netloc, **{name.lower(): value for name, value in request.headers.items()}}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method,
            "scheme": "http", "path": unquote(url.path), "raw_path": url.path.encode(),
            "query_string": url.query.encode(), "root_path": "", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1),
            "headers": [(name.encode(), str(value).encode("latin-1")) for name, value in headers.items()],
        }  # fmt: skip
        messages: SimpleQueue[Any] = SimpleQueue()
        gone, sent = asyncio.Event(), iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Any:
            if (message := next(sent, None)) is None:
                await gone.wait()
            return message or {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            messages.put(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                messages.put(None)

        def over(future: Any) -> None:
            _ = future.cancelled() or future.exception()
            messages.put(None)

        def hang_up() -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(gone.set)

        asyncio.run_coroutine_threadsafe(self._app(scope, receive, send), self._loop).add_done_callback(over)
        start = messages.get(timeout=200)
        if start is None:
            raise requests.ConnectionError("the application broke off", request=request)
        reply = Reply(messages, hang_up)
        reply.status_code, reply.request, reply.url = start["status"], request, request.url or ""
        fields = http.client.HTTPMessage()
        for name, value in start["headers"]:
            fields[name.decode()] = value.decode("latin-1")
        reply.headers = CaseInsensitiveDict(fields.items())
        reply.encoding = get_encoding_from_headers(reply.headers)
        reply.raw = SimpleNamespace(_original_response=SimpleNamespace(msg=fields))
        extract_cookies_to_jar(reply.cookies, request, reply.raw)
        return reply

    def close(self) -> None:
        """Nothing is open."""


BROWSED = threading.Event()
"""Set for a test with a browser: its servers are behind sockets."""
PORTS = count(2)
IN_PROCESS: dict[str, InProcess] = {}
"""Applications that run in this process, by addresses of their own."""


def browse(url: str) -> requests.Session:
    """A session of a client, for a real server or one in this process."""
    session = requests.Session()
    if adapter := IN_PROCESS.get(url):
        session.mount(url, adapter)
    return session


class Served:
    """An application, served in a thread of this process: called as it is, or behind a ``socket``."""

    def __init__(self, app: FastAPI, http: type[Deadlines] = Deadlines, *, socket: bool = False) -> None:
        self.app = app
        self._uvicorn: uvicorn.Server | None = None
        if socket or BROWSED.is_set():
            options: dict[str, Any] = {"timeout_graceful_shutdown": 1, "server_header": False, "ws": "none"}
            self._uvicorn = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", http=http, **options))
        self._started, self._thread = threading.Event(), threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        if self._uvicorn:
            self._uvicorn.run()
            return

        async def live() -> None:
            self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
            async with self.app.router.lifespan_context(self.app):
                self._started.set()
                await self._over.wait()

        asyncio.run(live())

    def __enter__(self) -> Self:
        self._thread.start()
        if self._uvicorn:
            until(lambda: self._uvicorn and self._uvicorn.started)
            self.url = f"http://127.0.0.1:{self._uvicorn.servers[0].sockets[0].getsockname()[1]}"
        else:
            assert self._started.wait(60)
            self.url = f"http://127.0.0.1:{next(PORTS)}"
            IN_PROCESS[self.url] = InProcess(self.app, self._loop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._uvicorn:
            self._uvicorn.should_exit = True
        else:
            IN_PROCESS.pop(self.url)
            self._loop.call_soon_threadsafe(self._over.set)
        joined(self._thread)


class Server(Served):
    """The chat page."""

    def __init__(
        self, settings: Settings, *, http: type[Deadlines] = Deadlines, pause: float = PAUSE, socket: bool = False
    ) -> None:
        super().__init__(make_app(settings, pause=pause), http, socket=socket or http is not Deadlines)


def web_settings(home: Path, *kbs: str, **options: Any) -> Settings:
    """Settings of a server; those of the group are given with ``web_`` in front."""
    web = {name.removeprefix("web_"): value for name, value in options.items() if name.startswith("web_")}
    others = {name: value for name, value in options.items() if not name.startswith("web_")}
    return Settings(home=home, web=Web(kbs=kbs or ("mini",), **web), **{"language": "en", **others})


class Visit:
    """A browser's or a program's calls, with a cookie of its own."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url = url
        self.http = browse(url)
        self.http.headers.update(headers or {})
        self.http.get(f"{url}/", timeout=200)  # the cookie; workers may still be starting

    def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> requests.Response:
        return self.http.request(method, self.url + path, json=body, **{"timeout": 60, **options})

    def session(self, **choice: str) -> str:
        """The id of a new session."""
        return str(self("POST", "/api/sessions", choice).json()["id"])

    def ask(self, session: str, question: str) -> dict[str, Any]:
        """Put a question in line; the run."""
        response = self("POST", f"/api/sessions/{session}/questions", {"question": question})
        assert response.status_code == 202, response.text
        run: dict[str, Any] = response.json()
        return run

    def answered(self, session: str, question: str) -> dict[str, Any]:
        """Ask, and wait for the end; the run."""
        return self.ended(self.ask(session, question)["id"])

    def ended(self, run_id: str) -> dict[str, Any]:
        """The run once it has ended."""
        for event in self.events(run_id):
            if event["kind"] == "end":
                break
        run: dict[str, Any] = self("GET", f"/api/runs/{run_id}").json()
        return run

    def events(self, run_id: str, after: int = 0, **options: Any) -> Iterator[dict[str, Any]]:
        """Events of a run as they are streamed."""
        path = f"{self.url}/api/runs/{run_id}/events?after={after}"
        with self.http.get(path, stream=True, timeout=60, **options) as response:
            assert response.status_code == 200, response.text
            number = 0
            for line in response.iter_lines(decode_unicode=True):
                if line.startswith("id: "):
                    number = int(line[4:])
                if line.startswith("data: "):
                    yield {"id": number, **json.loads(line[6:])}


class Explorer(ModelStub):
    """Searches, asks ``query``, finishes and writes, whoever asks and however many at once.

    ``held`` replies wait until ``go_on`` is set; which replies is told by how many calls their conversation has.
    ``holding`` counts them.
    """

    def __init__(self, query: str = CURIE, said: str = "Polonium and radium.", held: int | None = None) -> None:
        super().__init__([])
        self._query, self._said, self._held = query, said, held
        self.waiting, self.go_on = threading.Event(), threading.Event()
        self.holding = threading.Semaphore(0)

    def reply(self, asked: dict[str, Any]) -> Canned:
        if "tools" not in asked:
            return completion(self._said)
        last = max(place for place, said in enumerate(asked["messages"]) if said["role"] == "user")
        done = sum(len(said.get("tool_calls") or ()) for said in asked["messages"][last:])
        if done == self._held:
            self.waiting.set()
            self.holding.release()
            self.go_on.wait(250)
        steps = [
            ("search_entities", {"thought": "Who is she?", "query": "Marie Curie"}),
            ("execute_query", {"thought": "Ask for what she found.", "query": self._query}),
            ("finish", {"thought": "Done."}),
        ]
        return completion(None, [steps[min(done, 2)]])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.go_on.set()
        super().__exit__(kind, error, trace)

    def options(self) -> dict[str, Any]:
        """Settings that lead here."""
        return {"model": "stub", "base_url": self.base_url}


@contextmanager
def served_process(
    home: Path, *arguments: str, command: str = "serve", environment: Mapping[str, str] | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """``kbnav serve`` as a process of its own, or another server; its address. What is left of it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from kbnav.apps.cli import main; main()", *command.split(), "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=home,
        env={**os.environ, "KBNAV_HOME": str(home), "PYTHONUNBUFFERED": "1", **(environment or {})},
        start_new_session=True,
    )
    try:
        lines: list[str] = []
        for line in process.stdout or ():
            lines.append(line)
            if found := re.search(r"http://[^/\s]+", line):
                yield found[0], process
                break
        else:
            raise AssertionError("".join(lines))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()
