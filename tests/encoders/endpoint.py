"""An OpenAI-compatible endpoint of embeddings on the loopback address."""

from collections.abc import Callable
from typing import Any

from tests.models.stub import Canned, ModelStub

Reply = tuple[int, Any]
"""A status and what is sent: bytes, or what becomes JSON."""


class Server(ModelStub):
    """Answers by a function of the request and its number."""

    def __init__(self, answer: Callable[[dict[str, Any], int], Reply]) -> None:
        super().__init__([])
        self._says = answer

    def reply(self, asked: dict[str, Any]) -> Canned:
        status, said = self._says(asked, len(self.requests))
        return Canned(said, status, headers={"retry-after-ms": "1"})


def embeddings(body: dict[str, Any], _: int = 0) -> Reply:
    """[length of the text, 1], in reverse order, as endpoints may."""
    data = [{"object": "embedding", "index": i, "embedding": [len(t), 1]} for i, t in enumerate(body["input"])]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return 200, {"object": "list", "data": data[::-1], "model": body["model"], "usage": usage}
