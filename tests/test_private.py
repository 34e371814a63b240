"""What is kept of questions and answers is its owner's alone, and holds no secrets."""

import json
from contextlib import closing

import pytest

from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.secrets import secrets_of
from kbnav.apps.web.store import open_sqlite
from kbnav.knowledge.http_store import HttpCache, Throttle
from kbnav.models.calls import Blobs
from kbnav.runs.trajectory import Outcome, Run, save_run
from kbnav.sessions.session import sqlite_sessions
from kbnav.settings.model import Settings


def test_all_files_under_home_are_their_owners_alone(tmp_path):
    home = tmp_path / "state" / "kbnav"
    HttpCache(home / "http.sqlite", age=60)
    Throttle(home / "limits.sqlite")
    Blobs(home / "replies.sqlite", "replies")
    ledger = Ledger(home / "bot.sqlite", alone=True)
    with sqlite_sessions(home) as saver, open_sqlite(home / "web.sqlite"), closing(ledger):
        saver.setup()  # type: ignore[attr-defined]
        outcome = Outcome("answered", "finish")
        save_run(Run("run-1", "Who?", "spinach", "offline", "en", (), (), outcome), home / "runs")
        found = sorted(home.rglob("*"))
        assert {path.name for path in found} >= {"http.sqlite", "sessions.sqlite", "web.sqlite", "bot.sqlite", "runs"}
        assert {oct(path.stat().st_mode & 0o777) for path in (home, *found)} == {"0o600", "0o700"}
        assert all(path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600) for path in (home, *found))


def test_a_password_in_an_address_is_in_no_copy_of_the_settings():
    settings = Settings(
        base_url="https://me:a-password@models.example/v1", kb="https://you:another-1@kb.example/sparql"
    )
    told = json.dumps(settings.public())
    assert "a-password" not in told
    assert "another-1" not in told
    assert "https://models.example/v1" in told


@pytest.mark.parametrize("text", ["a-password", "bWU6YS1wYXNzd29yZA==", "me:a-password", "key of the endpoint"])
def test_what_addresses_and_keys_hold_is_hidden(text):
    settings = Settings(base_url="https://me:a-password@models.example/v1", api_key="key of the endpoint")  # type: ignore[arg-type]
    assert secrets_of(settings).hidden(f"<{text}>") == "<[hidden]>"
