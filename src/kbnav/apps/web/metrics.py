"""What a server counts for Prometheus, all its worker processes together; needs the extra ``metrics``.

Only names, numbers and kinds are counted, and of names only those that the operator has set: no user, no question.
"""

from __future__ import annotations

import hmac
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kbnav.apps.web.store import StoredRun
from kbnav.errors import UsageError
from kbnav.runs.trajectory import Run
from kbnav.settings.model import Web
from kbnav.settings.plugins import needs

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable by which the library knows the folder that worker processes share."""
SHORTEST = 16
"""Characters of a token."""
SECONDS = (0.25, 0.5, 1, 2, 5, 10, 20, 40, 80, 160, 320, 640)
"""Borders between classes of questions, by how long they took."""
QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""The same of requests."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """Counts nothing; ``Counted`` does."""

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """An answered request; ``route`` is its pattern, and ``-`` where there is none."""

    def question(self, run: StoredRun, status: str, seconds: float, record: Run | None) -> None:
        """A question that has ended; ``record`` is there unless it failed before it began."""

    def queue(self, waiting: int, at_work: int) -> None:
        """How many questions wait in this process, and how many are being answered."""

    def text(self, kbs: Mapping[str, bool]) -> bytes:  # noqa: ARG002
        """All, in Prometheus' text format; ``kbs`` says which knowledge bases are in service."""
        return b""


class Counted(Metrics):
    """By prometheus_client; threads share it, and processes the folder that ``SHARED`` names."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = CollectorRegistry()
        run = ("kb", "system", "model")
        total: dict[str, Any] = {"registry": self._registry}
        summed: dict[str, Any] = {"multiprocess_mode": "livesum", **total}
        recent: dict[str, Any] = {"multiprocess_mode": "mostrecent", **total}
        self._questions = Counter("kbnav_questions", "Questions that have ended.", (*run, "status"), **total)
        self._seconds = Histogram(
            "kbnav_question_seconds", "From the question to its end, waiting included.", run, buckets=SECONDS, **total
        )
        self._tokens = Counter("kbnav_model_tokens", "Tokens of models.", ("model", "kind"), **total)
        self._calls = Counter("kbnav_model_calls", "Calls of models.", ("model",), **total)
        self._dollars = Counter("kbnav_model_dollars", "US dollars, of models with a known price.", ("model",), **total)
        self._requests = Counter("kbnav_http_requests", "Requests answered.", ("method", "route", "status"), **total)
        self._latency = Histogram(
            "kbnav_http_request_seconds", "From a request to the end of its reply.", ("route",), buckets=QUICK, **total
        )
        self._waiting = Gauge("kbnav_questions_waiting", "Questions in line.", **summed)
        self._at_work = Gauge("kbnav_questions_at_work", "Questions that are being answered.", **summed)
        self._kbs = Gauge("kbnav_kb_in_service", "Whether a knowledge base answers.", ("kb",), **recent)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def question(self, run: StoredRun, status: str, seconds: float, record: Run | None) -> None:
        """Count one, with its tokens and dollars."""
        labels = (run.kb, run.system, run.model)
        self._questions.labels(*labels, status).inc()
        self._seconds.labels(*labels).observe(seconds)
        if record is None:
            return
        used = record.usage
        for kind, count in (("prompt", used.prompt), ("cached", used.cached), ("completion", used.completion)):
            self._tokens.labels(run.model, kind).inc(count)
        self._calls.labels(run.model).inc(used.calls)
        if record.cost is not None:
            self._dollars.labels(run.model).inc(record.cost)

    def queue(self, waiting: int, at_work: int) -> None:
        """Set both."""
        self._waiting.set(waiting)
        self._at_work.set(at_work)

    def text(self, kbs: Mapping[str, bool]) -> bytes:
        """All, of every process."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        for kb, in_service in kbs.items():
            self._kbs.labels(kb).set(in_service)
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        _forget_dead()
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


def open_metrics(web: Web) -> Metrics:
    """What counts, where a token is set for whoever reads it. Raises UsageError."""
    token = web.metrics_token.get_secret_value()
    if not token:
        return Metrics()
    if len(token) < SHORTEST:
        raise UsageError(f"web.metrics_token is shorter than {SHORTEST} characters")
    with needs("metrics", "web.metrics_token"):
        return Counted()


def may_read(web: Web, authorization: str) -> bool:
    """Whether a request's ``Authorization`` has the token of whoever reads the metrics."""
    kind, _, given = authorization.partition(" ")
    token = web.metrics_token.get_secret_value()
    return bool(token) and kind.casefold() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


@contextmanager
def shared_by_processes(web: Web) -> Iterator[None]:
    """Around the start of worker processes: the folder in which they count is theirs alone, and gone with them."""
    if not web.metrics_token.get_secret_value():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="kbnav-metrics-", ignore_cleanup_errors=True) as folder:
        os.environ[SHARED] = folder
        try:
            yield
        finally:
            del os.environ[SHARED]


def _forget_dead() -> None:
    """Drop the gauges of processes that are gone; what they counted stays."""
    from prometheus_client.multiprocess import mark_process_dead

    for file in Path(os.environ[SHARED]).glob("gauge_live*_*.db"):
        number = int(file.stem.rpartition("_")[2])
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            mark_process_dead(number)  # type: ignore[no-untyped-call]
        except OSError:
            continue
