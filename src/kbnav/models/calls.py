"""Prompts to a model outside any policy: replies kept on disk, calls side by side, input cut to the model's window."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from langchain_core.language_models import BaseChatModel
from pydantic import TypeAdapter

from kbnav.errors import FATAL, Stopped, StopRun, UsageError
from kbnav.models.chat import invoke, open_chat_model, usage_of
from kbnav.runs.database import best_effort, open_tables
from kbnav.runs.journal import unpacked
from kbnav.runs.trajectory import Observed, Trace, Usage
from kbnav.settings.model import OFFLINE, REPLAY, Settings

_TABLES = ("CREATE TABLE IF NOT EXISTS blob (key TEXT PRIMARY KEY, body BYTEA NOT NULL)",)
_AT_ONCE = 500  # keys of one query, below what SQLite allows


class Blobs:
    """A SQLite file or PostgreSQL database, safe for threads and processes. What is stored first under a key stays."""

    def __init__(self, place: Path | str, holds: str) -> None:
        """In a file, or the database of a URL; ``holds`` says what, in the message of a failure. Raises UsageError."""
        self._warned: list[str] = []
        self._tables = open_tables(place, holds, _TABLES)

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The bytes of those keys that are there."""
        found: dict[str, bytes] = {}
        with self._tables.transaction() as run:
            for first in range(0, len(keys), _AT_ONCE):
                some = keys[first : first + _AT_ONCE]
                marks = ",".join("?" * len(some))
                found.update(run(f"SELECT key, body FROM blob WHERE key IN ({marks})", some))
        return found

    def put(self, bodies: Mapping[str, bytes], *, replace: bool = False) -> None:
        """Store bytes under keys that have none yet, or ``replace`` them; that it fails is logged once."""
        then = "UPDATE SET body = excluded.body" if replace else "NOTHING"
        with best_effort(self._warned), self._tables.transaction() as run:
            for key, body in bodies.items():
                run(f"INSERT INTO blob VALUES (?, ?) ON CONFLICT (key) DO {then}", (key, body))


FILE = "model-replies.sqlite"
BYTES_PER_TOKEN = 3
"""A token is taken to be so many bytes of UTF-8. English has four to five, so that the estimate is on the safe side."""
REPLY = 4096
"""Tokens of the window, though never more than a quarter of it, that are left to the reply."""
_MARK = "\n[… {} characters left out …]\n"
_FORMAT = 1
_LARGEST = 64 * 1024 * 1024
"""Bytes of a prompt with its reply: far more than any window holds."""


class Replies:
    """Replies by what was asked; a reply that is stored first is given ever after."""

    def __init__(self, place: Path | str) -> None:
        """In a file, or the PostgreSQL database of a URL. Raises UsageError where they cannot be kept there."""
        self._blobs = Blobs(place, "the replies of models")
        self._spoilt: set[str] = set()

    def get(self, key: str, prompt: str) -> tuple[str, Usage] | None:
        """The reply and its cost when it was made; one that is damaged or another prompt's is as if not there."""
        body = self._blobs.get([key]).get(key)
        if body is None:
            return None
        try:
            found = json.loads(unpacked(body, _LARGEST) or b"")
            if found["prompt"] == prompt and isinstance(found["reply"], str):
                usage = TypeAdapter(Usage).validate_python(found["usage"])
                return found["reply"], usage
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, AttributeError):
            pass
        self._spoilt.add(key)
        return None

    def put(self, key: str, prompt: str, reply: str, usage: Usage) -> None:
        """Keep a reply, with its prompt, by which it is known again."""
        record = {"prompt": prompt, "reply": reply, "usage": asdict(usage)}
        self._blobs.put({key: zlib.compress(json.dumps(record).encode())}, replace=key in self._spoilt)
        self._spoilt.discard(key)


class _Answer(NamedTuple):
    """What came of one prompt; ``reply`` is the failure where the call failed, ``seconds`` are those of the call."""

    reply: str | StopRun
    usage: Usage
    seconds: float
    replayed: bool
    key: str
    left_out: int
    temperature: float | None
    sample: int


class Ask(Protocol):
    """``ModelCalls.ask``, or what stands in for it."""

    def __call__(
        self, prompt: str, trace: Trace, *, purpose: str, temperature: float | None = None, sample: int = 0
    ) -> str:
        """See there."""


class ModelCalls:
    """A chat model that is given prompts and gives texts. Calls are made from several threads at once."""

    def __init__(
        self,
        model: BaseChatModel,
        name: str,
        *,
        base_url: str = "",
        replies: Replies | None = None,
        window: int = 128_000,
        jobs: int = 8,
        temperature: float | None = 0.0,
    ) -> None:
        """``model`` answers with this ``temperature`` unless it is told another; where that is None, it never is.

        ``replies`` are given again to what was asked before, by model, ``base_url``, temperature, prompt and sample;
        those that are empty or did not come to their end are not kept.
        ``window`` is in tokens. At most ``jobs`` calls are under way at once, whoever asks.
        """
        self.name = name
        self._model, self._base_url, self._replies = model, base_url, replies
        self._room = (window - min(REPLY, window // 4)) * BYTES_PER_TOKEN
        self._jobs, self._temperature = jobs, temperature
        self._free = threading.BoundedSemaphore(jobs)

    def ask(
        self,
        prompt: str,
        trace: Trace,
        *,
        purpose: str,
        temperature: float | None = None,
        sample: int = 0,
        needed: bool = True,
    ) -> str:
        """The model's reply to one prompt, which becomes a step of the trace; ``purpose`` says what for.

        ``sample`` tells several replies to one prompt apart. A prompt longer than the window loses its middle, where
        documents stand, and the step says how much. Raises as ``kbnav.models.chat.invoke`` does; where the reply is not
        ``needed``, a failure that leaves other calls a chance is recorded and counts as an empty reply.
        """
        answer = self._answer(prompt, temperature, sample)
        self._record([answer], trace, purpose)
        if not isinstance(answer.reply, StopRun):
            return answer.reply
        if needed or isinstance(answer.reply, (*FATAL, Stopped)):
            raise answer.reply
        return ""

    def ask_many(
        self,
        prompts: Sequence[str],
        trace: Trace,
        *,
        purpose: str,
        temperature: float | None = None,
        samples: Sequence[int] = (),
    ) -> list[str | StopRun]:
        """The replies to several prompts, side by side, in their order; a call that failed leaves its error there.

        ``samples`` has a number for each prompt; without it all are 0. Raises the first error where every call failed,
        and any error after which no call can go well: a key that is refused, a client that is banned.
        """
        numbers = list(samples) or [0] * len(prompts)
        if not prompts:
            return []
        pool = ThreadPoolExecutor(min(self._jobs, len(prompts)), thread_name_prefix="kbnav-model")
        try:
            jobs = [
                pool.submit(copy_context().run, self._answer, prompt, temperature, sample)
                for prompt, sample in zip(prompts, numbers, strict=True)
            ]
            if any(isinstance(job.result().reply, FATAL) for job in jobs):
                pool.shutdown(cancel_futures=True)
        finally:  # also where a person interrupts: what is not yet asked never is
            pool.shutdown(wait=False, cancel_futures=True)
        answers = [job.result() for job in jobs if not job.cancelled()]
        self._record(answers, trace, purpose)
        failures = [answer.reply for answer in answers if isinstance(answer.reply, StopRun)]
        hopeless = [error for error in failures if isinstance(error, FATAL)]
        if hopeless or len(failures) == len(answers):
            raise (hopeless or failures)[0]
        return [answer.reply for answer in answers]

    def _answer(self, prompt: str, temperature: float | None, sample: int) -> _Answer:
        if temperature is None or self._temperature is None:
            temperature = self._temperature
        sent, left_out = _cut(prompt, self._room)
        parts = [_FORMAT, self.name, self._base_url, temperature, sample, sent]
        key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        about = (key, left_out, temperature, sample)
        if self._replies and (known := self._replies.get(key, sent)):
            reply, usage = known
            return _Answer(reply, usage, 0.0, True, *about)
        model = self._model if temperature == self._temperature else self._model.bind(temperature=temperature)
        with self._free:
            began = time.perf_counter()
            try:
                message = invoke(model, sent)
            except StopRun as error:
                return _Answer(error, Usage(), round(time.perf_counter() - began, 4), False, *about)
            seconds = round(time.perf_counter() - began, 4)
        reply, usage = str(message.text), usage_of(message)
        whole = reply.strip() and message.response_metadata.get("finish_reason", "stop") in ("stop", None)
        if self._replies and whole:
            self._replies.put(key, sent, reply, usage)
        return _Answer(reply, usage, seconds, False, *about)

    def _record(self, answers: Sequence[_Answer], trace: Trace, purpose: str) -> None:
        for answer in answers:
            details: dict[str, Any] = {"purpose": purpose, "reply_key": answer.key[:16]}
            details |= {"temperature": answer.temperature} if answer.temperature else {}
            details |= {"sample": answer.sample} if answer.sample else {}
            details |= {"kept_from_before": True} if answer.replayed else {}
            if answer.left_out:
                details["cut"] = f"{answer.left_out} characters did not fit the model's window and were left out"
            seen = Observed(str(answer.reply), ok=not isinstance(answer.reply, StopRun))
            trace.spend(replace(answer.usage, kept=answer.usage.calls) if answer.replayed else answer.usage)
            trace.record("model", seen, answer.seconds, **details)


def open_calls(settings: Settings, kept: Replies | None = None) -> ModelCalls:
    """The model of the settings; for ``offline`` a stand-in with rules in its place, whose replies are not kept.

    Replies are kept in ``kept``; without it where the settings say so, under ``home``.

    Raises CredentialsError where OpenAI's own endpoint is meant and no key is set, UsageError for a saved run in place
    of a model, and where replies cannot be kept.
    """
    window, jobs = settings.model_window, settings.model_jobs
    if settings.model.startswith(REPLAY):
        raise UsageError("replay: repeats the runs of agents; a retrieval system repeats its replies of its own accord")
    if settings.model == OFFLINE:
        from kbnav.models.scripted import NAME, StandIn

        return ModelCalls(StandIn(), NAME, window=window, jobs=jobs)
    settings.check_key()
    replies = kept or (Replies(settings.shared_path(FILE)) if settings.cache_age > 0 else None)
    model = open_chat_model(settings, sampling=False)
    return ModelCalls(
        model,
        settings.model,
        base_url=settings.base_url,
        replies=replies,
        window=window,
        jobs=jobs,
        temperature=settings.other_temperature,
    )


def _cut(prompt: str, room: int) -> tuple[str, int]:
    """The prompt in at most ``room`` bytes of UTF-8, its middle left out, and how many characters that is."""
    size = len(prompt.encode("utf-8", "replace"))
    if size <= room:
        return prompt, 0
    half = (room - len(_MARK.encode()) - 10) // 2  # 10: digits of the number of characters
    data = prompt.encode("utf-8", "replace")
    head, tail = data[:half].decode("utf-8", "ignore"), data[-half:].decode("utf-8", "ignore")
    left_out = len(prompt) - len(head) - len(tail)
    return head + _MARK.format(left_out) + tail, left_out
