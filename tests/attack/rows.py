"""Saved runs and rows of the page's database that somebody has changed, and every door of the page that shows them."""

import copy
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

import requests

from kbnav.answers.tables import Absence, AnswerTable, Ranked, Ranking, Term
from kbnav.runs.trajectory import Call, Doubt, Fact, Outcome, Run, Step, Turn, Understood, Usage, to_json
from tests.apps.web.parts import Visit
from tests.attack.parts import POLONIUM

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


QUERY = "SELECT ?element WHERE { ?element wdt:P61 wd:Q7186 }"
ENTITY = "http://www.wikidata.org/entity/"
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>"
STEERING = "\x1b]0;owned\x07\x1b[2J\u202e"
PATH = "../../../../tmp/kbnav-was-here"
Place = tuple[str | int, ...]


def deep(levels: int) -> Any:
    """Lists in lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


HOSTILE: tuple[Any, ...] = (
    None, True, 0, -1, 10**30, 1e308, "", MARKUP, STEERING, PATH, "[/x][link=http://evil]", "\u0000", "\ud800",
    "x" * 20_000, [], {}, [{}], {"built": [1], "sparql": 7, "kbs": [], "": {"query_page": {}}}, deep(120),
)  # fmt: skip
"""What is put into a field, whatever its type is."""


def whole_run() -> Run:
    """A run that has all that a run may have."""
    table = AnswerTable(
        ("element",),
        ((Term("uri", ENTITY + "Q979"),), (Term("literal", "radium", None, "en"),), (None,)),
        labels={"Q979": "polonium", "P61": "discoverer"},
        concept_base=ENTITY,
    )
    nodes = Ranked("n1", 0.5, "Radium", "element"), Ranked("n2", 0.25, "Polonium", "element", basis="generated")
    steps = (
        Step(1, Call("search_entities", {"query": "Curie", "kind": "item"}, "who?", "a", 1), "Q7186", nodes=("n1",)),
        Step(
            2, Call("execute_query", {"query": QUERY, "kb": "mini"}, "ask", "b", 2), "2 rows", rows=2, seconds=0.5,
            facts=(Fact("n1", "r", "n2", "a", "r", "b", generated=True),), result=1,
        ),
    )  # fmt: skip
    outcome = Outcome(
        "answered", "finish", QUERY, table, Ranking(nodes), "Polonium.", "a note", "an error",
        Understood("Curie → discovered", ("which",), ("What did she find?",)),
        (Doubt("number", "Curie"),), Absence("not stated", "none", "?x", "?y"),
    )  # fmt: skip
    usage = Usage(10, 5, 2, 1, 1)
    state = {"kind": "wikidata", "mirror": {"built": "2026-01-01T00:00:00", "concept_base": ENTITY}}
    state |= {"endpoints": {"sparql": "http://127.0.0.1:1/sparql", "api": "http://127.0.0.1:1/api"}, "kbs": {}}
    return Run(
        "run-20260101-000000-0123456789ab", "Which elements?", "spinach", "offline", "en", steps[1:], steps[:1],
        outcome, usage, 0.01, {"sparql": 2}, 1.5, "2026-01-01T00:00:00+00:00",
        (Turn("Who was she?", steps[:1], outcome),), {**state, "name": "a", "nodes": 7, "edges": 9, "url": "http://a"},
        {"kb": "mini", "home": "/home"}, {"kbnav": "1.0"}, {"a": "b"},
    )  # fmt: skip


def tampered(document: Any, every: int = 1, values: Sequence[Any] = HOSTILE) -> Iterator[tuple[Place, Any, bytes]]:
    """For each field of a document, and each hostile value: where, what, and the document as it then is.

    Of all these, the first of ``every`` so many.
    """
    for place, value in islice(product(places(document), values), 0, None, every):
        changed = copy.deepcopy(document)
        holder = changed
        for part in place[:-1]:
            holder = holder[part]
        holder[place[-1]] = value
        yield place, value, json.dumps(changed).encode()


def places(document: Any) -> Iterator[Place]:
    """Every field, those that hold others included."""
    inside = (
        document.items() if isinstance(document, Mapping) else enumerate(document) if isinstance(document, list) else ()
    )
    for name, value in inside:
        yield (name,)
        yield from ((name, *rest) for rest in places(value))


def documents(kinds: tuple[str, ...] = ("wikidata", "skb", "several")) -> Iterator[Any]:
    """The run as JSON, of a knowledge base of each kind; of an SKB with a ranking alone."""
    for kind in kinds:
        plain = json.loads(to_json(whole_run()))
        plain["kb"]["kind"] = kind
        if kind == "skb":
            plain["outcome"]["table"] = None
        if kind != "wikidata":
            del plain["kb"]["mirror"]
        yield plain
