"""OpenAI's API for chat front ends, and retrievers among what may be asked."""

import json
from collections.abc import Iterator

import openai
import pytest

from kbnav.apps.web.service import systems_for
from kbnav.errors import UsageError
from kbnav.retrieval.base import build_retriever
from kbnav.settings.model import Settings
from tests.apps.web.parts import MARIE, Explorer, Server, Visit, web_settings
from tests.ending import until
from tests.programs.parts import FAILS, LAST, frozen_programs


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    """OpenAI's client of the server with the offline policy."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as one:
        yield one


def test_every_choice_is_a_model(client):
    names = [model.id for model in client.models.list()]
    assert {"mini/spinach/offline", "demo/skb/offline", "demo/pasemiqa/offline"} <= set(names)


def test_a_system_that_needs_a_model_is_not_offered_without_one(client, fresh_home):
    assert not {"mini/tog/offline", "demo/gog/offline", "demo/rog/offline"} & {one.id for one in client.models.list()}
    with pytest.raises(openai.NotFoundError, match="tog"):
        client.chat.completions.create(model="mini/tog/offline", messages=[{"role": "user", "content": "?"}])
    with (
        Explorer() as model,
        Server(web_settings(fresh_home, **model.options())) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as other,
    ):
        assert any(one.id.startswith("mini/tog/") for one in other.models.list())


def test_a_conversation_is_answered_with_rows_and_the_query(client):
    said = client.chat.completions.create(
        model="mini/spinach/offline", messages=[{"role": "user", "content": "Who discovered polonium?"}]
    )
    text = said.choices[0].message.content
    assert text.startswith("Marie Curie, Pierre Curie\n")
    assert "| Pierre Curie |" in text
    query = text.partition("```sparql\n")[2]
    assert query.startswith("# Q979: polonium\n")
    assert "\nSELECT DISTINCT ?answer WHERE { wd:Q979 wdt:P61 ?answer . }" in query
    assert "(<https://query.wikidata.org/#SELECT" in text
    assert said.choices[0].finish_reason == "stop"


def test_what_was_said_before_is_known(fresh_home):
    with (
        Explorer() as model,
        Server(web_settings(fresh_home, **model.options())) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
    ):
        said = client.chat.completions.create(
            model="mini",
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Who was Marie Curie?"},
                {"role": "assistant", "content": "A physicist and chemist."},
                {"role": "user", "content": [{"type": "text", "text": MARIE}]},
            ],
        )
        asked = [
            message["content"] for message in model.requests[0]["messages"] if message["role"] in ("user", "assistant")
        ]
        assert asked == ["Who was Marie Curie?", "A physicist and chemist.", MARIE]
        whole = [one for one in model.requests if not one.get("stream")]  # the endpoint refuses to stream
        assert said.usage.prompt_tokens == 100 * len(whole)


def test_a_follow_up_points_back_to_what_was_answered_here(client):
    asked, more, born = "Who discovered radium?", "When was she born?", "1867-11-07"
    conversation = [{"role": "user", "content": asked}]
    for question in (more, "Where was she born?"):
        said = client.chat.completions.create(model="mini", messages=conversation).choices[0].message.content
        conversation += [{"role": "assistant", "content": said}, {"role": "user", "content": question}]
    assert born in conversation[-2]["content"]
    first = client.responses.create(model="mini", input=asked)
    assert first.output_text.startswith("Marie Curie, Pierre Curie\n")
    events = list(client.responses.create(model="mini", input=more, previous_response_id=first.id, stream=True))
    assert events[-1].type == "response.completed"
    assert born in events[-1].response.output_text
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == events[-1].response.output_text
    assert [event.sequence_number for event in events] == list(range(1, len(events) + 1))


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"previous_response_id": "resp-nothing"}, 404),
        ({"tools": [{"type": "web_search"}]}, 400),
        ({"text": {"format": {"type": "json_object"}}}, 400),
        ({"input": [{"role": "assistant", "content": "Hello"}]}, 400),
    ],
)
def test_responses_refuse_what_they_do_not_serve(client, asked, status):
    with pytest.raises(openai.APIStatusError) as raised:
        client.responses.create(**{"model": "mini", "input": "Who discovered polonium?", **asked})
    assert raised.value.status_code == status


def test_a_stream_tells_the_steps_as_reasoning_and_then_the_answer(client):
    chunks = list(
        client.chat.completions.create(
            model="mini/spinach/offline",
            messages=[{"role": "user", "content": "Who discovered polonium?"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    told = [delta.model_extra["reasoning_content"] for delta in deltas if "reasoning_content" in delta.model_extra]
    assert "→ search_entities discovered polonium" in told[0]
    content = "".join(delta.content or "" for delta in deltas)
    assert content.startswith("Marie Curie, Pierre Curie\n")
    assert chunks[-1].usage.total_tokens == 0  # the offline policy asks no model


def test_a_stream_that_is_closed_stops_the_run(fresh_home):
    with (
        Explorer(held=1) as model,
        Server(web_settings(fresh_home, **model.options())) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
    ):
        stream = client.chat.completions.create(
            model="mini", messages=[{"role": "user", "content": MARIE}], stream=True
        )
        assert model.waiting.wait(60)
        stream.close()
        until(lambda: not server.app.state.parts.store.workers())
        model.go_on.set()


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"model": "gpt-4o"}, 404, "GET /v1/models"),
        ({"messages": [{"role": "assistant", "content": "hello"}]}, 400, "last message"),
        ({"messages": [{"role": "user", "content": "x" * 20_000}]}, 422, "20,000 characters"),
        ({"messages": []}, 422, "messages"),
        ({"n": 2}, 400, "n"),
        ({"stream_options": {"include_usage": "maybe"}}, 422, "include_usage"),
        ({"tools": [{"type": "function"}]}, 400, "tools"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format"),
    ],
)
def test_what_is_not_served_is_refused_by_name_in_openais_form(client, asked, status, said):
    with pytest.raises(openai.APIStatusError, match=said) as raised:
        client.chat.completions.create(**{"model": "mini", "messages": [{"role": "user", "content": "?"}], **asked})
    assert raised.value.status_code == status


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
    assert answer["text"].startswith("The Brown Eye, ")
    rows = visit("GET", f"/api/results/{answer['result']['id']}/rows").json()["rows"]
    assert rows[0][1]["text"] == "The Brown Eye"
    saved = json.loads((web_home / "runs" / f"{answer['run']}.json").read_text())
    assert saved["settings"]["options"]["query_weight"] == 0.5

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
    with Server(web_settings(fresh_home, "demo", web_systems=("bm25",))) as one:
        answer = Visit(one.url)("GET", f"/?question={QUERY}&dataset=demo")
        assert (answer.status_code, "no query answers this question" in answer.text) == (422, True)


def test_frozen_programs_answer_on_the_server_and_one_that_fails_says_so(demo_kb, fresh_home):
    """The program of birds turns the first stage's ranking round; that of apples fails, so that it stands."""
    folder = fresh_home / "programs"
    settings = Settings(kb="demo", home=fresh_home)
    frozen_programs(demo_kb, folder, FAILS, LAST)
    chosen = {"web_systems": ("agent-retriever",), "options": {"trained": str(folder)}}
    with Server(web_settings(fresh_home, "demo", **chosen)) as server:
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
