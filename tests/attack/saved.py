"""A saved run with something in every field, and copies of it in which one field was tampered with."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from kbnav.answers.tables import Absence, AnswerTable, Ranked, Ranking, Term
from kbnav.runs.trajectory import Call, Doubt, Fact, Outcome, Run, Step, Turn, Understood, Usage, to_json

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
