"""The spans of a question."""

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.apps.web.parts import MARIE, Explorer, Server, Visit, web_settings
from tests.models.stub import Canned


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans that end meanwhile."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


def test_a_question_is_a_trace_with_its_calls_in_it(fresh_home, spans):
    with Explorer() as model, Server(web_settings(fresh_home, **model.options())) as server:
        visit = Visit(server.url)
        visit.answered(visit.session(), MARIE)
    ended = spans.get_finished_spans()
    (root,) = [span for span in ended if span.name == "invoke_agent spinach"]
    assert root.attributes
    assert root.attributes["gen_ai.request.model"] == "stub"
    inside = [span for span in ended if span is not root]
    tools = {f"execute_tool {name}" for name in ("search_entities", "execute_query", "finish")}
    assert {span.name for span in inside} == {"chat stub", *tools}
    assert all(_is_in(span, root) for span in inside)
    chat = next(span for span in inside if span.name == "chat stub")
    assert chat.attributes
    assert int(str(chat.attributes["gen_ai.usage.input_tokens"])) > 0
    assert "Marie" not in "".join(span.to_json() for span in ended), "what was asked stays out of traces"


def test_a_failure_marks_its_span_and_tells_no_message(fresh_home, spans):
    class Broken(Explorer):
        def reply(self, asked: object) -> Canned:
            return Canned(b'{"error": {"message": "key sk-1234 is wrong"}}', 401)

    with Broken() as model, Server(web_settings(fresh_home, **model.options())) as server:
        visit = Visit(server.url)
        assert visit.answered(visit.session(), MARIE)["status"] == "failed"
    (chat,) = [span for span in spans.get_finished_spans() if span.name == "chat stub"]
    (root,) = [span for span in spans.get_finished_spans() if span.name.startswith("invoke_agent")]
    assert chat.attributes
    assert root.attributes
    assert chat.attributes["error.type"] == "OpenAIAuthenticationError"
    assert root.attributes["error.type"] == "CredentialsError"
    assert not chat.status.is_ok
    assert "sk-1234" not in chat.to_json()


def _is_in(span: ReadableSpan, root: ReadableSpan) -> bool:
    return bool(span.parent and root.context and span.parent.span_id == root.context.span_id)
