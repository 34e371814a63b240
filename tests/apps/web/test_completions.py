"""The OpenAI-compatible API, through OpenAI's own client."""

from collections.abc import Iterator

import openai
import pytest

from tests.apps.web.parts import MARIE, Explorer, Server, until, web_settings


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
        Server(web_settings(fresh_home, **model.options()), socket=True) as server,
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
        Server(web_settings(fresh_home, **model.options()), socket=True) as server,
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
        Server(web_settings(fresh_home, **model.options()), socket=True) as server,
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
        ({"tools": [{"type": "function"}]}, 400, "tools"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format"),
    ],
)
def test_what_is_not_served_is_refused_by_name_in_openais_form(client, asked, status, said):
    with pytest.raises(openai.APIStatusError, match=said) as raised:
        client.chat.completions.create(**{"model": "mini", "messages": [{"role": "user", "content": "?"}], **asked})
    assert raised.value.status_code == status
