"""Every operation that the REST API describes, with hostile sizes in each of its parameters and fields."""

import json
import time
from collections.abc import Iterator
from itertools import product
from threading import Thread
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from requests import ConnectionError as HungUp

from tests.apps.web.parts import Visit, served_process
from tests.attack.test_downloads import kilobytes

LONGEST_ADDRESS = 60_000
POLONIUM = "Which elements were discovered by Marie Curie?"
MIB = 1 << 20
SECONDS, REPLY, MEMORY = 15, 12 * MIB, 500_000
"""The most for one request, in seconds and bytes, and for all together beside what the server took, in kilobytes."""


def texts() -> dict[str, Any]:
    """Values of a field, by what is hostile in them; each fits into a body of 2 MB."""
    query = "SELECT * WHERE "
    return {
        "braces": query + "{" * 10_000 + "}" * 10_000,
        "braces never closed": query + "{" * 500_000,
        "brackets": query + "{ ?a ?b " + "[ ?c " * 50_000 + "]" * 50_000 + " }",
        "parentheses": query + "{ FILTER" + "(" * 50_000 + "1" + ")" * 50_000 + " }",
        "a long path": query + "{ ?a " + "/".join(["<x:y>"] * 50_000) + " ?b }",
        "unions": query + "{ " + " UNION ".join(["{ ?a ?b ?c }"] * 30_000) + " }",
        "one word": "x" * MIB,
        "words": "who is " * 150_000,
        "lines": "\n" * MIB,
        "emoji": "👩‍👩‍👧" * 20_000,
        "digits": "9" * MIB,
    }


def values() -> dict[str, Any]:
    return {
        **texts(),
        "a number": 10**300,
        "less than none": -(10**18),
        "a list": ["x" * 100] * 15_000,
        "numbers": [1e308] * 100_000,
        "a deep list": json.loads("[" * 500 + "]" * 500),
        "an object": {str(number): "x" * 50 for number in range(20_000)},
    }


def fields(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """The properties of a body, with what is a reference in them followed."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    found = dict(schema.get("properties", {}))
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        found |= fields(one, schemas)
    return found


def sample(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Something small that fits."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return sample(schema[several][0], schemas)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type")
    if kind == "object":
        return {name: sample(schema["properties"][name], schemas) for name in schema.get("required", ())}
    return {"array": [], "integer": 1, "number": 1.0, "boolean": False}.get(kind, "x")


def requests(described: dict[str, Any], ids: dict[str, str]) -> Iterator[tuple[str, str, dict[str, str], Any]]:
    """Method, path, query and body: of each operation with each value in each place in turn."""
    schemas = described["components"]["schemas"]
    for path, methods in sorted(described["paths"].items()):
        for method, told in methods.items():
            parameters = [one for one in told.get("parameters", ()) if one["in"] == "query"]
            named = [one["name"] for one in told.get("parameters", ()) if one["in"] == "path"]
            at = path.format(**ids)
            query = {one["name"]: str(sample(one["schema"], schemas)) for one in parameters if one.get("required")}
            content = told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            body = sample(content, schemas) if content else None
            for value in texts().values():
                for one, length in product(parameters, (200, 2_000, 50_000)):
                    yield method, at, {**query, one["name"]: value[:length]}, body
                for one in named if method == "get" else ():
                    yield method, path.format(**{**ids, one: quote(value[:2_000], safe="")}), query, body
            if content:
                yield method, at, query, [body] * 10_000
                for name, value in product(fields(content, schemas), values().values()):
                    yield method, at, query, {**body, name: value}
                    yield method, at, query, {**body, name: [{"role": "user", "content": value}]}


@pytest.mark.slow
def test_no_operation_takes_long_or_much_or_says_much(fresh_home):
    with served_process(fresh_home, "--kb", "mini") as (url, process):
        assert process.stdout
        Thread(target=process.stdout.read, daemon=True).start()  # a log that nobody reads would stop the server
        visit = Visit(url)
        session = visit.session()
        run = visit.answered(session, POLONIUM)["id"]
        rows = {"query": "SELECT * { ?a ?b ?c } LIMIT 20000", "kb": "mini"}
        ids = {
            "run_id": run, "session_id": session, "kb": "mini", "entity_id": "Q979", "name": "x", "form": "json",
            "result_id": visit("POST", "/api/queries", rows).json()["result"]["id"],
            "share_id": visit("POST", f"/api/runs/{run}/share").json()["share"],
        }  # fmt: skip
        idle = kilobytes(process.pid, "VmRSS")
        seen = set[str]()
        for method, path, query, body in requests(visit("GET", "/openapi.json").json(), ids):
            began = time.monotonic()
            try:
                told = visit(method.upper(), path, body, params=query)
            except HungUp:  # an address longer than is read is answered, and hung up on, while it is sent
                assert len(urlencode(query)) > LONGEST_ADDRESS
                continue
            what = (method, path[:200], [(name, str(value)[:50]) for name, value in query.items()], str(body)[:200])
            assert told.status_code < 500, (told.text[:300], what)
            assert time.monotonic() - began < SECONDS, what
            assert len(told.content) < REPLY, what
            seen.add(path)
        assert len(seen) > 30
        assert kilobytes(process.pid, "VmHWM") - idle < MEMORY
