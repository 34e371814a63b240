"""What several machines share in PostgreSQL: answers, replies of models, and one bucket of requests."""

import subprocess
import sys
import time

import pytest

from kbnav.apps.secrets import secrets_of
from kbnav.errors import UsageError
from kbnav.knowledge.http_store import HttpCache, Throttle
from kbnav.models.calls import Replies
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import Settings
from tests.apps.web.parts import until
from tests.clock import Clock

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
