"""Readers of a page behind a balancer, who come again where a server is gone."""

import time
from typing import Any

import requests

from tests.apps.web.parts import Visit


def followed(visit: Visit, run: str, tries: int = 400) -> list[dict[str, Any]]:
    """The events of a run as a browser hears them: it comes again, with the last number, where it was hung up on."""
    heard: list[dict[str, Any]] = []
    for _ in range(tries):
        try:
            for event in visit.events(run, heard[-1]["id"] if heard else 0):
                if event["kind"] not in ("draft", "waiting"):  # which have no number
                    heard.append(event)
            if heard and heard[-1]["kind"] == "end":
                return heard
        except (requests.RequestException, AssertionError):
            pass
        time.sleep(0.1)
    raise AssertionError(f"it never ended: {[event['kind'] for event in heard]}")


def put(visit: Visit, question: str, tries: int = 100) -> dict[str, Any]:
    """A question put in line; whoever was refused for want of a server asks again."""
    for _ in range(tries):
        try:
            return visit.ask(visit.session(), question)
        except (requests.RequestException, AssertionError, KeyError, ValueError):
            time.sleep(0.1)
    raise AssertionError("no server took the question")
