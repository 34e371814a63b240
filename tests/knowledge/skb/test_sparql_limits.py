"""What a query to an SKB may take."""

from __future__ import annotations

import pytest

from kbnav.errors import QueryRefused
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rdf import SparqlStore


def test_a_result_that_grows_too_large_is_stopped_in_the_child(demo_kb: SkbKB):
    store = SparqlStore(demo_kb.skb, timeout=30, memory_limit=1 << 30, size=1, most_bytes=1 << 20)
    with pytest.raises(QueryRefused, match="the result is larger than 1 MiB: add a LIMIT, or count"):
        store.query("SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } LIMIT 1000000")
    assert len(store.query("SELECT * { ?a ?b ?c } LIMIT 3")) == 3
    store.close()
