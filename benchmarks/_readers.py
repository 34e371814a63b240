"""Many readers of the page in one light process, the load of ``serve_load.py``: each does something, then thinks.

    python -m benchmarks._readers ADDRESS HANGING READERS THINK [ask]

``HANGING`` is the key of a knowledge base that never answers, ``THINK`` the mean seconds between two things that a
reader does; ``ask``: all that they do is ask. The first line of the input has questions and their answers as JSON.
Reads until the input ends, and then prints as JSON what was done, what was lost, and what it took.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from urllib.parse import urlsplit

HEAVY = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
MIX: dict[str, float] = {"browse": 60, "ask": 25, "download": 10, "heavy": 2, "hanging": 3}
"""What a reader does next, of a hundred times."""
TOLD = {"heavy": {200, 422, 429, 503, 504}, "hanging": {429, 502, 503, 504}}
"""Answers that are as they should be where 200 is not the only one: stopped at a limit, too busy, out of service."""
LONGEST_SILENCE = 20.0
"""Seconds after which a reader who waits must have been told a place in the line."""
PATIENCE = 300.0
"""Seconds after which a reader gives up, which counts as lost."""


class Browser:
    """One reader's connection, kept for what one thing needs, and its cookie."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._host, self._port = str(address.hostname), address.port
        self._cookie = ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and body. Raises OSError, EOFError."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        sent = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nContent-Length: {len(sent)}\r\n"
        kind = "Content-Type: application/json\r\n" if sent else ""
        writer.write(f"{head}{kind}{self._cookie}\r\n".encode() + sent)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        if "set-cookie" in headers:
            self._cookie = f"Cookie: {headers['set-cookie'].partition(';')[0]}\r\n"
        if headers.get("transfer-encoding") == "chunked":
            return int(lines[0].split()[1]), await _chunks(reader)
        return int(lines[0].split()[1]), await reader.readexactly(int(headers.get("content-length", 0)))

    def leave(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int(await reader.readline(), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(parts)


class Reader:
    """Opens the page, and then does one thing after another."""

    def __init__(
        self, url: str, hanging: str, number: int, answers: dict[str, str], told: Told, mix: dict[str, float]
    ) -> None:
        self._mix = mix
        self._browser, self._hanging, self._answers, self._told = Browser(url), hanging, answers, told
        self._chance = random.Random(number)
        self._result = ""

    async def read(self, think: float) -> None:
        """Until cancelled; thinking times are exponential, and the first is up to the mean."""
        await asyncio.sleep(self._chance.uniform(0, think))
        await self._do("open")
        while True:
            await asyncio.sleep(self._chance.expovariate(1) * think)
            (what,) = self._chance.choices(list(self._mix), list(self._mix.values()))
            await self._do("ask" if what == "download" and not self._result else what)

    async def _do(self, what: str) -> None:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE):
                status = await getattr(self, f"_{what}")()
            if status not in TOLD.get(what, {200}):
                raise ValueError(status)
            self._told.well(what, status, time.perf_counter() - began)
        except (OSError, EOFError, ValueError, TimeoutError, KeyError) as error:
            self._told.lost[f"{what}: {error!r}"] += 1
        finally:
            self._browser.leave()

    async def _open(self) -> int:
        for path in ("/", "/api/sessions"):
            status, _ = await self._browser.send("GET", path)
        return status

    async def _browse(self) -> int:
        path = self._chance.choice(["/", "/api/options", "/entry/mini/Q979", "/entry/mini/Q7186", "/api/sessions"])
        return (await self._browser.send("GET", path))[0]

    async def _ask(self) -> int:
        """As the page does: a session by its question, and its events as they happen, the last with the first rows."""
        question, answer = self._chance.choice(list(self._answers.items()))
        status, told = await self._browser.send("POST", "/api/sessions", {"kb": "mini", "question": question})
        if status != 201:
            raise ValueError(f"{status} {told[:80]!r}")
        run = json.loads(told)["runs"][0]["id"]
        began = time.perf_counter()
        status, events = await self._browser.send("GET", f"/api/runs/{run}/events")
        if time.perf_counter() - began > LONGEST_SILENCE and b'"kind": "waiting", "before":' not in events:
            raise ValueError("never told how many come before")
        end = json.loads(events.rpartition(b"data: ")[2])
        if end["answer"]["text"] != answer:
            raise ValueError(f"another answer to {question}")
        self._result = run
        return status if end["rows"] else (await self._browser.send("GET", f"/api/results/{run}/rows"))[0]

    async def _download(self) -> int:
        return (await self._browser.send("GET", f"/api/results/{self._result}/csv"))[0]

    async def _heavy(self) -> int:
        return (await self._browser.send("POST", "/api/queries", {"query": HEAVY, "kb": "mini"}))[0]

    async def _hanging(self) -> int:
        return (await self._browser.send("GET", f"/entry/{self._hanging}/Q{self._chance.randrange(1, 999)}"))[0]


class Told:
    """What all of them did."""

    def __init__(self) -> None:
        self.done, self.lost, self.seconds = Counter[str](), Counter[str](), dict[str, list[float]]()

    def well(self, what: str, status: int, seconds: float) -> None:
        """Something was done as it should be."""
        self.done[what if status == 200 else f"{what} ({status})"] += 1
        self.seconds.setdefault(what, []).append(seconds)


async def main() -> None:
    """Read until the input ends."""
    url, hanging, many, think, *only = sys.argv[1:]
    mix = dict.fromkeys(only, 1.0) or MIX
    answers = json.loads(sys.stdin.readline())
    told, began, cpu = Told(), time.perf_counter(), time.process_time()
    readers = [
        asyncio.create_task(Reader(url, hanging, number, answers, told, mix).read(float(think)))
        for number in range(int(many))
    ]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    slow = {what: sorted(seconds)[int(0.95 * len(seconds))] for what, seconds in told.seconds.items()}
    report = {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "done": dict(sorted(told.done.items())),
        "lost": dict(told.lost),
        "p95": slow,
    }
    for reader in readers:
        reader.cancel()
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
