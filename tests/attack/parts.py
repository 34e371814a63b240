"""A service that says that it is no Wikibase, and then never answers again."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.knowledge.wikidata.serving import Answer, Asked, Served, serving

HEAVY = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
POLONIUM = "Who discovered polonium?"


@contextmanager
def hangs() -> Iterator[Served]:
    over = threading.Event()

    def answer(asked: Asked) -> Answer:
        if "siteinfo" not in asked.params.values():
            over.wait(60)
        return Answer({"query": {"general": {}}})

    with serving(answer) as served:
        yield served
        over.set()
