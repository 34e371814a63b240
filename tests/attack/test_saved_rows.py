"""What the page keeps of a question, changed by somebody else: each address says so, and the server goes on."""

import sqlite3
from contextlib import closing

import pytest

from tests.apps.web.parts import Server, Visit, web_settings
from tests.attack.rows import Asked, attack_rows


@pytest.mark.slow
def test_rows_of_any_content_break_no_address_of_the_page(fresh_home):
    with Server(web_settings(fresh_home, "mini")) as server:
        asked = Asked(Visit(server.url))
        with closing(sqlite3.connect(fresh_home / "web.sqlite", isolation_level=None, timeout=30)) as database:
            attack_rows(
                asked,
                lambda statement, values: database.execute(statement, values),
                lambda statement: database.execute(statement).fetchone()[0],
            )
        assert asked.look()["/api/sessions"] == 200


@pytest.mark.slow
def test_a_saved_file_of_any_content_breaks_no_address_of_the_page(fresh_home):
    with Server(web_settings(fresh_home, "mini")) as server:
        asked = Asked(Visit(server.url))
        (path,) = (fresh_home / "runs").glob("*.json")
        for content in (b"", b"{}", b"[" * 100_000, b"\xff", b'{"id": 7}'):
            path.write_bytes(content)
            assert set(asked.look().values()) <= {200, 404, 422}
        path.unlink()
        asked.look()
