"""Retrievers on the page and in its APIs: a ranking for an answer, the steps that led to it, the limits of all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import openai
import pytest

from kbnav.apps.web.service import systems_for
from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.retrieval.base import build_retriever
from kbnav.settings.model import Settings
from tests.apps.web.parts import Server, Visit, web_settings
from tests.programs.parts import FAILS, LAST, frozen_programs

SOCKET = True
"""The server of this module is behind one, for a client of another library."""

if TYPE_CHECKING:
    pass

QUERY = "love letter"


def test_those_that_fit_a_knowledge_base_are_offered_after_its_agents(demo_kb, mini_kb, visit):
    names = [entry.name for entry in systems_for(demo_kb, ())]
    kinds = [entry.kind for entry in systems_for(demo_kb, ())]
    assert kinds == sorted(kinds)
    assert {"bm25", "vss", "graph-rank"} <= set(names)
    assert "agent-retriever" not in names  # it needs programs, which --set trained names
    assert "retriever" not in [entry.kind for entry in systems_for(mini_kb, ())]
    assert [entry.name for entry in systems_for(demo_kb, ("bm25", "skb"))] == ["bm25", "skb"]
    with pytest.raises(UsageError, match="none of the systems bm25 answers"):
        systems_for(mini_kb, ("bm25",))
    kbs = {one["key"]: one for one in visit("GET", "/api/options").json()["kbs"]}
    assert kbs["demo"]["systems"] == [entry.name for entry in systems_for(demo_kb, ()) if entry.runs_with("offline")]


def test_a_ranking_comes_with_its_steps_in_a_session_and_without(visit, web_home):
    answer = visit("POST", "/api/ask", {"question": QUERY, "kb": "demo", "system": "graph-rank"}).json()
    assert (answer["status"], answer["result"]["ranking"], answer["actions"]) == ("answered", True, 3)
    assert answer["text"].startswith("The Brown Eye; ")
    rows = visit("GET", f"/api/results/{answer['result']['id']}/rows").json()["rows"]
    assert rows[0][1]["text"] == "The Brown Eye"
    saved = json.loads((web_home / "runs" / f"{answer['run']}.json").read_text())
    assert saved["settings"]["options"]["sharpness"] == 4.0

    session = visit.session(kb="demo", system="graph-rank")
    visit.answered(session, "a violin")
    run = visit.answered(session, QUERY)
    assert run["status"] == "done"
    told = [(event["kind"], event["call"], event.get("tool")) for event in run["events"][1:-1]]
    assert told == [
        *(("call", 1, "link"), ("step", 1, None), ("call", 2, "follow")),
        *(("step", 2, None), ("call", 3, "describe"), ("step", 3, None)),
    ]
    assert "The Brown Eye" in run["events"][-2]["observation"]
    assert run["answer"]["text"] == answer["text"]  # what was asked before changes nothing


def test_chat_front_ends_and_the_challenge_get_what_a_ranking_has(server, fresh_home):
    asked = [{"role": "user", "content": QUERY}]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        said = client.chat.completions.create(model="demo/bm25/offline", messages=asked).choices[0].message.content
        assert said.startswith("The Brown Eye")
        assert "| The Brown Eye |" in said
        stream = client.chat.completions.create(model="demo/bm25/offline", messages=asked, stream=True)
        thought = "".join(getattr(one.choices[0].delta, "reasoning_content", None) or "" for one in stream)
        assert "bm25" in thought
    with Server(web_settings(fresh_home, "demo", web_systems=("bm25",)), socket=True) as one:
        answer = Visit(one.url)("GET", f"/?question={QUERY}&dataset=demo")
        assert (answer.status_code, "no query answers this question" in answer.text) == (422, True)


def test_frozen_programs_answer_on_the_server_and_one_that_fails_says_so(demo_kb, fresh_home):
    """The program of birds turns the first stage's ranking round; that of apples fails, so that it stands."""
    folder = fresh_home / "programs"
    settings = Settings(kb="demo", home=fresh_home)
    assert isinstance(demo_kb, SkbKB)
    frozen_programs(demo_kb, folder, FAILS, LAST)
    chosen = {"web_systems": ("agent-retriever",), "options": {"trained": str(folder)}}
    with Server(web_settings(fresh_home, "demo", **chosen), socket=True) as server:
        visit = Visit(server.url)
        assert visit("GET", "/api/options").json()["kbs"][0]["systems"] == ["agent-retriever"]
        first = build_retriever("graph-rank", demo_kb, settings, {})
        for query, group in (("red apples", "g1"), ("blue birds", "g2")):
            ended = visit.answered(visit.session(), query)
            assert ended["status"] == "done"
            expected = [demo_kb.skb.name(demo_kb.skb.number(node)) for node in first.retrieve(query, 200).ids]
            expected = expected if group == "g1" else expected[::-1]
            rows = visit("GET", f"/api/results/{ended['answer']['result']['id']}/rows").json()["rows"]
            assert [row[1]["text"] for row in rows] == expected[: len(rows)]
            told = "\n".join(str(event.get("observation", "")) for event in ended["events"])
            assert f"{group}: {query}" in told
            assert ("first stage's ranking stands" in told) == (group == "g1")
