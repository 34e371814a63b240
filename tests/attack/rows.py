"""Rows of the page's database that somebody else has changed, and every door of the page that shows them."""

import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import requests

from kbnav.runs.trajectory import to_json
from tests.apps.web.parts import Visit
from tests.attack.parts import POLONIUM
from tests.attack.saved import MARKUP, whole_run

Execute = Callable[[str, Sequence[object]], object]
DEEP = "[" * 20_000 + "]" * 20_000


def bomb() -> bytes:
    """300 MiB of blanks, packed."""
    packing = zlib.compressobj(1)
    return b"".join([*(packing.compress(b" " * (1 << 20)) for _ in range(300)), packing.flush()])


def saved_documents() -> list[bytes]:
    """What a saved run is not as a row, and one with markup."""
    whole = to_json(whole_run())
    marked = whole.replace("Which elements?", json.dumps(MARKUP)[1:-1])
    packed = [zlib.compress(text.encode()) for text in (DEEP, "{}", marked)]
    return [b"", b"{}", zlib.compress(whole.encode())[:-20], bomb(), *packed]


TEXTS = (
    "",
    "no JSON",
    "7",
    "null",
    '"text"',
    "[1]",
    "[[[1, 2, 3, 4]]]",
    '{"run": [1], "result": 7, "text": {"a": 1}, "doubts": 3}',
    '{"kind": "end"}',
    DEEP,
)
"""JSON of other types than were written."""


class Asked:
    """A question that was answered and is shared, and all addresses that show something of it."""

    def __init__(self, visit: Visit) -> None:
        self.visit, self.session = visit, visit.session()
        run = visit.answered(self.session, POLONIUM)
        self.run, self.saved, self.result = run["id"], run["answer"]["run"], run["answer"]["result"]["id"]
        share = visit("POST", f"/api/runs/{self.run}/share").json()["share"]
        runs = [f"/api/results/{self.run}/{what}" for what in ("evidence?row=0", "dates")]
        runs.append(f"/api/runs/{self.run}/events")
        forms = [f"/api/sessions/{self.session}/{form}" for form in ("json", "html")]
        self.files = [f"/api/results/{self.result}/{form}" for form in ("csv", "json", "tsv", "nt", "xlsx")]
        self.files.append(f"/api/shared/{share}/csv")
        shared = [f"/api/shared/{share}{what}" for what in ("", "/evidence?row=0", "/rows")]
        whole = ["/api/sessions", f"/api/sessions/{self.session}", f"/api/runs/{self.run}", "/ready"]
        pages = [f"/s/{self.session}", f"/share/{share}"]
        self.doors = [*whole, *runs, *forms, *self.files, f"/api/results/{self.result}/rows", *shared, *pages]

    def look(self) -> dict[str, int]:
        """Each address with its status; raises where the server broke down, or told how it is made."""
        found = {}
        for door in self.doors:
            try:
                told = self.visit("GET", door)
            except requests.RequestException as error:
                if door not in self.files:  # a file breaks off, so that nobody takes a part of it for the whole
                    raise AssertionError(f"{door}: {error}") from error
                continue
            found[door] = told.status_code
            assert told.status_code != 500, (door, told.text[:300])
            assert "Traceback" not in told.text, door
            assert MARKUP not in told.text or "html" not in told.headers["content-type"], door
        return found


def change(execute: Execute, table: str, column: str, key: tuple[str, str], value: object) -> None:
    """Put something else into a row."""
    execute(f"UPDATE {table} SET {column} = ? WHERE {key[0]} = ?", (value, key[1]))


def attack_rows(asked: Asked, execute: Execute, value_of: Callable[[str], Any]) -> None:
    """Change what the page keeps of a question, a column at a time, and look at every address each time.

    ``value_of`` reads a single value; rows are put back before the next.
    """
    columns = [
        ("web_saved", "document", ("id", asked.saved), saved_documents()),
        ("web_runs", "answer", ("id", asked.run), list(TEXTS)),
        ("web_events", "data", ("run", asked.run), list(TEXTS)),
        ("web_results", "document", ("id", asked.result), list(TEXTS)),
        ("web_parts", "data", ("result", asked.result), list(TEXTS)),
    ]
    for table, column, key, values in columns:
        rows = value_of(f"SELECT count(*) FROM {table} WHERE {key[0]} = '{key[1]}'")
        before = value_of(f"SELECT {column} FROM {table} WHERE {key[0]} = '{key[1]}' LIMIT 1") if rows else None
        for value in values if rows else ():
            change(execute, table, column, key, value)
            asked.look()
        if rows:
            change(execute, table, column, key, before)
