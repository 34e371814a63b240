"""The server in this process, its clients, and a model that says what its conversation calls for."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import requests
import uvicorn
from starlette.types import ASGIApp

from kbnav.apps.web.server import Deadlines, make_app
from kbnav.apps.web.service import PAUSE
from kbnav.apps.web.store import Status, StoredRun
from kbnav.settings.model import Settings, Web
from tests.ending import joined, until
from tests.models.stub import Canned, ModelStub, completion

MARIE = "Which elements were discovered by Marie Curie?"
LETTER = "Which instrument made by somebody from Little Mew has a love letter hidden in it?"
CURIE = "SELECT ?element WHERE { ?element wdt:P61 wd:Q7186 }"


def stored_run(
    name: str, session: str = "", status: Status = "queued", made: float = 1.0, worker: str = "w"
) -> StoredRun:
    """A question of alice to SPINACH, as a worker writes it down."""
    return StoredRun(
        name, session, "alice", "mini", "spinach", "m", MARIE, status, worker, made, False, None, made, None
    )  # fmt: skip


class Served:
    """An application, served in a thread of this process."""

    def __init__(self, app: ASGIApp, http: type[Deadlines] = Deadlines) -> None:
        self.app: Any = app
        options: dict[str, Any] = {"timeout_graceful_shutdown": 1, "server_header": False, "proxy_headers": False}
        self._server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", http=http, ws="none", **options))
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self._server.started or not self._thread.is_alive())
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *error: object) -> None:
        self._server.should_exit = True
        joined(self._thread)


class Server(Served):
    """The chat page."""

    def __init__(self, settings: Settings, *, http: type[Deadlines] = Deadlines, pause: float = PAUSE) -> None:
        super().__init__(make_app(settings, pause=pause), http)


def web_settings(home: Path, *kbs: str, **options: Any) -> Settings:
    """Settings of a server; those of the group are given with ``web_`` in front."""
    web = {name.removeprefix("web_"): value for name, value in options.items() if name.startswith("web_")}
    others = {name: value for name, value in options.items() if not name.startswith("web_")}
    return Settings(home=home, web=Web(kbs=kbs or ("mini",), **web), **{"language": "en", **others})


class Visit:
    """A browser's or a program's calls, with a cookie of its own."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url = url
        self.http = requests.Session()
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

    def __exit__(self, *error: object) -> None:
        self.go_on.set()
        super().__exit__(*error)

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
