"""What is one reader's is nobody else's: every route of the API's own description, with another's ids."""

import re
import socket
from typing import Any
from urllib.parse import quote

import pytest

from kbnav.apps.web.routes.completions import _markdown
from tests.apps.web.parts import Server, Visit, web_settings
from tests.attack.parts import POLONIUM

PICTURE = "![x](http://127.0.0.1:9/x.png) <img src=x onerror=alert(1)> [y](javascript:alert(1))"


def body_of(schema: dict[str, Any], spoken: dict[str, Any]) -> dict[str, Any] | None:
    """A body with every field that a route needs."""
    content = schema.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return None
    model = spoken["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
    known = {
        "question": POLONIUM,
        "query": "ASK {}",
        "model": "mini",
        "messages": [],
        "title": "A title",
    }
    return {name: known.get(name, "") for name in model.get("required", ())}


def needed(schema: dict[str, Any]) -> str:
    """The query of an address with every number that a route needs."""
    names = [one["name"] for one in schema.get("parameters", ()) if one["in"] == "query" and one.get("required")]
    return "?" + "&".join(f"{name}=0" for name in names) if names else ""


def kept(owner: Visit, session: str) -> dict[str, Any]:
    """A session as its owner reads it, without the server's clock."""
    found: dict[str, Any] = owner("GET", f"/api/sessions/{session}").json()
    return {**found, "runs": [{**run, "now": 0} for run in found["runs"]]}


def test_no_route_reads_or_changes_what_is_anothers(fresh_home):
    with Server(web_settings(fresh_home, "mini")) as server:
        owner, other = Visit(server.url), Visit(server.url)
        session = owner.session()
        run = owner.answered(session, POLONIUM)
        ids = {"session_id": session, "run_id": run["id"], "result_id": run["answer"]["result"]["id"], "form": "json"}
        ids |= {"share_id": run["id"], "name": "nobodys"}  # the id of a run is none of a share
        before = kept(owner, session)
        spoken = owner("GET", "/openapi.json").json()
        tried = []
        for path, methods in spoken["paths"].items():
            if not re.search(r"\{", path) or "{kb}" in path:
                continue  # a knowledge base is everybody's who is let in
            assert set(re.findall(r"\{(\w+)\}", path)) <= set(ids), path  # a new kind of id wants its line above
            for method, schema in methods.items():
                told = other(method.upper(), path.format(**ids) + needed(schema), body_of(schema, spoken))
                assert told.status_code == 404, (method, path, told.status_code)
                tried.append((method, path))
        assert len(tried) >= 15
        assert kept(owner, session) == before
        assert other("GET", "/api/sessions").json() == []
        assert other("GET", f"/s/{session}").status_code == 404


def test_no_answer_of_the_chat_api_holds_live_markdown():

    answer = {"text": PICTURE, "note": "", "status": "answered", "query": "", "query_labelled": "", "result": None}
    written = _markdown(answer, None)
    assert not re.search(r"(?<!\\)[\[\]<>]", written)


def test_no_reader_names_a_place_or_a_version_that_the_operator_did_not(fresh_home, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener, Server(web_settings(fresh_home, "mini", "demo")) as server:
        listener.setblocking(False)
        visit, there = Visit(server.url), f"http://127.0.0.1:{listener.getsockname()[1]}"
        places = (there, f"{there}/sparql", "s3://bucket/skb", "s3://bucket/skb@2", str(tmp_path), "demo@1", "demo@2")
        for kb in (*places, "mini + demo", f"mini + {there}", "../demo", "wikidata"):
            for path, body in (
                ("/api/ask", {"question": POLONIUM, "kb": kb}),
                ("/api/sessions", {"kb": kb}),
                ("/api/queries", {"query": "ASK {}", "kb": kb}),
                ("/v1/chat/completions", {"model": kb, "messages": [{"role": "user", "content": POLONIUM}]}),
            ):
                assert visit("POST", path, body).status_code in (404, 422), (path, kb)
            for path in ("/entry/{}/Q1", "/explore/{}", "/api/entities/{}/Q1"):
                assert visit("GET", path.format(quote(kb, safe=""))).status_code in (404, 422), (path, kb)
        with pytest.raises(BlockingIOError):  # nobody has come
            listener.accept()
