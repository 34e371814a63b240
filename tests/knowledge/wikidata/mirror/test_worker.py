"""The pool of query processes: turns, what stops a query, and how much it may give."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbnav.knowledge.serving import MirrorServer
from kbnav.knowledge.wikidata.mirror.mirror import TRIPLES
from kbnav.knowledge.wikidata.mirror.pool import QueryError, QueryLimits, QueryPool
from tests.ending import until

HEAVY = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
LARGE = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } LIMIT 1000000"
HUNGRY = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } ORDER BY ?c ?f ?i"
QUICK = "ASK { ?a ?b ?c }"


@pytest.fixture
def one(mini: Path) -> Iterator[QueryPool]:
    """A pool that runs one query at a time, for which others wait a fifth of a second."""
    pool = QueryPool(mini / TRIPLES, QueryLimits(30, 1 << 30, 1), patience=0.2)
    yield pool
    pool.close()


def failing(pool: QueryPool, query: str, **options) -> QueryError:
    with pytest.raises(QueryError) as caught:
        pool.query(query, **options)
    return caught.value


def test_a_query_that_waits_too_long_for_its_turn_is_told_that_it_is_busy_and_not_that_it_took_too_long(one):
    gone = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        heavy = threads.submit(failing, one, HEAVY, gone=gone.is_set)
        until(lambda: one._busy)
        error = failing(one, QUICK)
        assert (error.reason, str(error)) == (
            "busy",
            "it is too busy: the query waited 0.2 s for its turn, 0 before it",
        )
        gone.set()
        assert heavy.result().reason == "stopped"
    assert one.query(QUICK).body == b'{"head":{},"boolean":true}'


def test_waiting_for_a_turn_is_not_counted_as_the_querys_time(mini):
    pool = QueryPool(mini / TRIPLES, QueryLimits(1.0, 1 << 30, 1), patience=20)
    with ThreadPoolExecutor(4) as threads:
        heavy = [threads.submit(failing, pool, HEAVY) for _ in range(2)]
        time.sleep(0.1)
        quick = [threads.submit(pool.query, QUICK) for _ in range(2)]
        assert [one.result().reason for one in heavy] == ["timeout", "timeout"]
        assert all(b"true" in one.result().body for one in quick)
    pool.close()


@pytest.mark.parametrize("form", ["json", "csv", "xml", "tsv"])
def test_a_result_is_stopped_while_it_is_written(one, form):
    began = time.monotonic()
    error = failing(one, LARGE, form=form, most_bytes=1 << 20)
    assert error.reason == "size"
    assert "add a LIMIT" in str(error)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("limit", [64, 192, 256])
def test_running_out_of_memory_is_told_as_that_however_it_shows(mini, limit):
    pool = QueryPool(mini / TRIPLES, QueryLimits(60, limit << 20, 1))
    assert failing(pool, HUNGRY).reason == "memory"
    pool.close()


def test_a_child_that_ended_itself_after_its_time_is_told_as_that(one):
    with ThreadPoolExecutor(1) as threads:
        heavy = threads.submit(failing, one, HEAVY)
        until(lambda: one._busy)
        (child,) = one._busy
        os.kill(child._process.pid, signal.SIGALRM)
        assert heavy.result().reason == "timeout"


def test_triples_are_stopped_too_and_whole_ones_are_a_table(one):
    every = "CONSTRUCT { ?a ?b ?c } { ?a ?b ?c }"
    with pytest.raises(QueryError, match="larger than 0 MiB"):
        one.query(every, most_bytes=20_000)
    table = one.query(f"{every} LIMIT 2").table()
    assert (table.columns, len(table)) == (("subject", "predicate", "object"), 2)


def test_a_client_that_hangs_up_stops_its_query(mini):
    with MirrorServer(mini, limits=QueryLimits(workers=1)) as server:
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as connection:
            query = HEAVY.replace(" ", "%20").replace("?", "%3F")
            connection.sendall(f"GET /sparql?query={query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            until(lambda: server.mirror.pool._busy)
        until(lambda: not server.mirror.pool._busy, seconds=30)


def test_a_child_that_ended_while_it_waited_costs_no_query(one):
    one.query(QUICK)
    (child,) = one._idle
    os.kill(child._process.pid, signal.SIGKILL)
    child._process.wait()
    assert one.query(QUICK).body == b'{"head":{},"boolean":true}'
