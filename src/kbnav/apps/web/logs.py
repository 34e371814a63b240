"""The server's log: lines for people, or JSON objects for programs, one a line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

LOGGER = "kbnav.web"


class AsJson(logging.Formatter):
    """A record as JSON: time, level, logger, message, what is known of a request, and the trace that it belongs to."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said: dict[str, Any] = {"time": time, "level": record.levelname, "logger": record.name}
        said |= {"message": record.getMessage(), **getattr(record, "request", {}), **_trace()}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False)


def _trace() -> dict[str, str]:
    """The ids of the span that is open, as OpenTelemetry writes them; nothing where there is none."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    context = trace.get_current_span().get_span_context() if trace else None
    if context is None or not context.is_valid:
        return {}
    return {"trace_id": trace.format_trace_id(context.trace_id), "span_id": trace.format_span_id(context.span_id)}


def start_logging(form: Literal["text", "json"]) -> None:
    """Log to standard error, requests included."""
    handler = logging.StreamHandler()
    handler.setFormatter(AsJson() if form == "json" else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger(LOGGER).setLevel(logging.INFO)
