"""What several machines share in PostgreSQL: answers, replies of models, and one bucket of requests."""

import json
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import Connection, connect

from kbnav.apps.secrets import secrets_of
from kbnav.errors import UsageError
from kbnav.knowledge.http_store import HttpCache, Throttle
from kbnav.knowledge.open import open_kb
from kbnav.models.calls import Replies, open_calls
from kbnav.runs.trajectory import Trace, Usage
from kbnav.settings.model import Settings
from tests.apps.web.parts import Server, Visit, web_settings
from tests.attack.rows import DEEP, Asked, attack_rows, bomb
from tests.attack.test_files import no_more_memory
from tests.clock import Clock
from tests.ending import until
from tests.models.stub import Canned, ModelStub, completion

WORKER = """
import sys, time
from kbnav.knowledge.http_store import Rules, Throttle
throttle = Throttle(sys.argv[1])
for _ in range(4):
    with throttle.slot("wikidata", Rules(requests=5)):
        print(time.time(), flush=True)
"""


def test_an_answer_that_one_machine_got_is_there_for_another_until_it_is_too_old(database):
    clock = Clock()
    one, two = (HttpCache(database, age=60, clock=clock) for _ in range(2))
    one.put("key", "text/plain", b"body")
    assert two.get("key") == ("text/plain", b"body")
    two.put("key", "text/csv", b"newer")
    assert one.get("key") == ("text/csv", b"newer")
    clock.now += 61
    assert one.get("key") is None


def test_replies_are_shared_and_what_is_stored_first_stays(database):
    one, two = Replies(database), Replies(database)
    one.put("key", "prompt", "first", Usage(5, 3, 0, 1))
    two.put("key", "prompt", "second", Usage())
    assert one.get("key", "prompt") == two.get("key", "prompt") == ("first", Usage(5, 3, 0, 1))


def test_processes_of_one_organisation_draw_on_one_bucket(database):
    """Eight requests of two processes, five of which are allowed in a minute: the other three wait."""
    kept = Throttle(database)._tables

    def begun() -> int:
        with kept.transaction() as run:
            return int(run("SELECT count(*) FROM request")[0][0])

    command = [sys.executable, "-c", WORKER, database]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        until(lambda: begun() == 5)
        time.sleep(1.0)  # time enough for another, were it allowed
        assert begun() == 5
    finally:
        for process in processes:
            process.kill()
        said = [process.communicate()[0] for process in processes]
    assert len("".join(said).splitlines()) == 5


def test_a_database_that_is_away_is_one_clear_line_without_its_password(tmp_path):
    url = "postgresql://kbnav:nevertobeleft-password@127.0.0.1:1/kbnav"
    settings = Settings(home=tmp_path, database=url)
    with pytest.raises(UsageError, match="cannot reach the database") as raised:
        HttpCache(settings.shared_path("http-cache.sqlite"), age=60)
    assert "nevertobeleft-password" not in str(raised.value)
    assert secrets_of(settings).hidden(f"at {url}") == "at [hidden]"
    assert "nevertobeleft-password" not in str(settings.public())


__all__ = ["no_more_memory"]
KEY = "sk-shared-key-nevertobeleft"
GLUE = "'; DROP TABLE answer; DROP TABLE blob; --"
USAGE = Usage(5, 3, 0, 1)


@contextmanager
def admin(database: str) -> Iterator[Connection[Any]]:
    """Somebody else who may write there."""
    with connect(database, autocommit=True) as connection:
        connection.execute("SET search_path TO kbnav_shared, public")
        yield connection


@pytest.mark.usefixtures("no_more_memory")
def test_an_answer_that_cannot_be_unpacked_is_as_if_it_were_not_there(database):
    cache = HttpCache(database, age=1e9)
    cache.put("key", "text/plain", b"body")
    with admin(database) as other:
        whole = other.execute("SELECT body FROM answer").fetchone()[0]
        for body in (b"", b"plain", bytes(whole)[:-4], bomb(), b"\0" * (80 << 20)):
            other.execute("UPDATE answer SET body = %s", [body])
            assert cache.get("key") is None
        cache.put("key", "text/plain", b"body")
        assert cache.get("key") == ("text/plain", b"body")
        other.execute("UPDATE answer SET size = 9e18::bigint, stored = 'Infinity'")
        assert cache.get("key") is None, "dated ahead"
        other.execute("ALTER TABLE answer ALTER body TYPE text USING 'text'")
        assert cache.get("key") is None
        cache.put("key", "text/plain", b"body")  # told in the log, and no more
        other.execute("DROP TABLE answer")
        assert cache.get("key") is None


def reply(**changes: Any) -> bytes:
    usage = {"prompt": 5, "completion": 3, "cached": 0, "calls": 1}
    kept = {"prompt": "prompt", "reply": "first", "usage": usage, **changes}
    return zlib.compress(json.dumps(kept).encode())


@pytest.mark.usefixtures("no_more_memory")
def test_a_reply_that_is_none_or_anothers_is_asked_for_again(database):
    replies = Replies(database)
    replies.put("key", "prompt", "first", USAGE)
    replies.put("other", "another prompt", "an evil reply", USAGE)
    spoilt = [
        b"", b"plain", bomb(), zlib.compress(DEEP.encode()), zlib.compress(b"[]"), reply(reply=7), reply(reply=None),
        reply(usage=[1]), reply(usage={"prompt": "many"}), reply(prompt="another"),
    ]  # fmt: skip
    with admin(database) as other:
        for body in spoilt:
            other.execute("UPDATE blob SET body = %s WHERE key = 'key'", [body])
            assert replies.get("key", "prompt") is None
        replies.put("key", "prompt", "first", USAGE)
        assert replies.get("key", "prompt") == ("first", USAGE), "what was spoilt is replaced"
        other.execute("UPDATE blob SET body = (SELECT body FROM blob WHERE key = 'other') WHERE key = 'key'")
        assert replies.get("key", "prompt") is None, "the reply to another prompt"


def test_keys_and_texts_are_values_and_never_statements(database):
    cache, replies = HttpCache(database, age=1e9), Replies(database)
    for key in (GLUE, "%s", "?", "$1", "\\", "''", "a\nb", "é" * 300):
        cache.put(key, key, key.encode())
        replies.put(key, key, key, USAGE)
        assert cache.get(key) == (key, key.encode())
        assert replies.get(key, key) == (key, USAGE)
    assert cache.get("") is None


class Echo(ModelStub):
    """Says its key."""

    def reply(self, asked: dict[str, Any]) -> Canned:
        return completion(f"Your key is {self.headers[-1]['authorization']}")


def test_no_key_is_in_what_is_shared(database, mini_home):
    with Echo([]) as stub:
        options = {"home": mini_home, "kb": "mini", "model": "stub", "base_url": stub.base_url, "api_key": KEY}
        settings = Settings(**options, database=database)
        said = open_calls(settings).ask("Who?", Trace(), purpose="test")
        assert stub.requests
        assert KEY not in said
    with open_kb(settings) as kb:
        kb.search_entities("Marie Curie")
    with admin(database) as other:
        tables = other.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'kbnav_shared'").fetchall()
        assert ("blob",) in tables
        for (table,) in tables:
            for row in other.execute(f"SELECT * FROM {table}").fetchall():
                for cell in row:
                    raw = bytes(cell) if isinstance(cell, bytes) else str(cell).encode()
                    plain = zlib.decompress(raw) if table == "blob" and isinstance(cell, bytes) else raw
                    assert KEY.encode() not in raw + plain


def test_rows_of_any_content_break_no_address_of_the_page(fresh_home, database):
    settings = web_settings(fresh_home, "mini")
    shared = settings.model_copy(update={"database": Settings(database=database).database})
    with Server(shared) as server, connect(database, autocommit=True) as other:
        asked = Asked(Visit(server.url))
        attack_rows(
            asked,
            lambda statement, values: other.execute(statement.replace("?", "%s"), values),
            lambda statement: other.execute(statement).fetchone()[0],
        )
        assert asked.look()["/api/sessions"] == 200
