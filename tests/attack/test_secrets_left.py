"""Secrets of the environment, echoed by a model's endpoint at every turn: nothing that is left behind holds them."""

from __future__ import annotations

import base64
import gzip
import os
import re
import sqlite3
import zlib
from pathlib import Path

import pytest

from tests.apps.bot.conftest import mediawiki, people
from tests.apps.bot.mediawiki import BOT, BOT_PASSWORD
from tests.apps.bot.parts import TALK, Scene
from tests.apps.parts import Cli
from tests.apps.web.conftest import linked_home
from tests.apps.web.parts import Visit, served_process, until
from tests.evaluation.parts import mini_dataset
from tests.models.stub import ModelStub, completion, failure

__all__ = ["mediawiki", "people"]
ROOT = Path(__file__).resolve().parents[2]
SECRETS = {
    "OPENAI_API_KEY": "sk-echoed-key-0123456789abcdef",
    "KBNAV_BOT__PASSWORD": "bot-password-0123456789abcdef",
    "KBNAV_WEB__TOKENS": '{"ann": "a-token-of-ann-0123456789abcdef"}',
}
FORMS = [
    form
    for secret in (*(one for one in SECRETS.values() if "{" not in one), "a-token-of-ann-0123456789abcdef")
    for form in (secret, base64.b64encode(secret.encode()).decode(), base64.b64encode(f":{secret}".encode()).decode())
]
QUESTION = "Which elements were discovered by Marie Curie?"


class Echo(ModelStub):
    """Repeats the key it was sent: in words, in arguments of calls, in errors."""

    def reply(self, asked):
        key = sent_to(self)
        replies = [
            completion(f"Your key is {key}", [("search_entities", {"thought": key, "query": f"Marie Curie {key}"})]),
            completion(
                None, [("execute_query", {"thought": key, "query": f"SELECT ?e {{ ?e wdt:P61 wd:Q7186 }} # {key}"})]
            ),
            completion(None, [("finish", {"thought": key, "answer": f"Polonium, says {key}."})]),
            failure(400, f"no such key: {key}"),
        ]
        return replies[(len(self.requests) - 1) % len(replies)]


def sent_to(stub: ModelStub) -> str:
    """The key of the last request."""
    headers = {name.lower(): value for name, value in stub.headers[-1].items()}
    return headers.get("authorization", "").removeprefix("Bearer ")


def contents(path: Path) -> bytes:
    """A file's bytes, those that are packed unpacked as well."""
    body = path.read_bytes()
    if path.suffix == ".gz":
        return body + gzip.decompress(body)
    if body.startswith(b"SQLite format 3"):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                for row in database.execute(f'SELECT * FROM "{table}"'):
                    for cell in row:
                        raw = cell.encode() if isinstance(cell, str) else cell if isinstance(cell, bytes) else b""
                        body += raw
                        try:
                            body += zlib.decompress(raw)
                        except zlib.error:
                            continue
    return body


def leaks(*folders: Path) -> list[str]:
    found = []
    for folder in folders:
        for path in (one for one in folder.rglob("*") if one.is_file() and not one.is_symlink()):
            body = contents(path)
            found += [f"{path}: {form[:12]}" for form in FORMS if form.encode() in body]
    return found


@pytest.fixture
def left(mini_home, mini_kb, tmp_path, monkeypatch) -> Path:
    """A home, and a working folder, with secrets in the environment."""
    home = tmp_path / "home"
    home.mkdir()
    linked_home(home, mini_home)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KBNAV_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_ask_chat_and_eval_leave_no_secret_in_files_or_on_the_terminal(left, monkeypatch, capsys):
    kbnav = Cli(monkeypatch, capsys)
    mini_dataset(left / "mini.jsonl")
    with Echo([]) as stub:
        of = ["--kb", "mini", "--model", "stub", "--base-url", stub.base_url]
        said = [
            *kbnav("ask", *of, QUESTION)[1:],
            *kbnav("ask", "--json", *of, QUESTION)[1:],
            *kbnav("chat", *of, typed=f"{QUESTION}\nAnd who else?\n")[1:],
            *kbnav("eval", "run", *of, "--dataset", "mini.jsonl", "--limit", "2", "--out", "out")[1:],
        ]
        assert sent_to(stub) == SECRETS["OPENAI_API_KEY"]  # it was there to be echoed
    assert len(list(left.glob("home/runs/*.json"))) >= 3
    assert (left / "out" / "questions.jsonl").stat().st_size > 100
    assert (left / "home" / "sessions.sqlite").is_file()
    assert not [form for form in FORMS for text in said if form in text]
    assert "[hidden]" in "".join(said)
    assert leaks(left) == []


def test_no_cassette_holds_a_key(left):
    keys = re.compile(rb"(sk-[A-Za-z0-9_-]{16,}|Bearer [A-Za-z0-9._-]{8,}|lgpassword=[^&\s]+)")
    for path in (ROOT / "cassettes").rglob("*.yaml"):
        assert not keys.search(path.read_bytes()), path
    assert leaks(ROOT / "cassettes") == []
    assert os.environ["OPENAI_API_KEY"] == SECRETS["OPENAI_API_KEY"]


@pytest.mark.slow
def test_a_server_leaves_no_secret_in_its_files_its_log_or_its_answers(left):
    home = left / "home"
    with Echo([]) as stub:
        arguments = ["--kb", "mini", "--model", "stub", "--base-url", stub.base_url]
        with served_process(home, *arguments) as (url, process):
            visit = Visit(url, {"Authorization": "Bearer a-token-of-ann-0123456789abcdef"})
            session = visit.session()
            run = visit.ask(session, QUESTION)
            until(lambda: visit("GET", f"/api/runs/{run['id']}").json()["status"] in ("done", "failed", "stopped"))
            said = visit("GET", f"/api/runs/{run['id']}").text + visit("GET", f"/api/sessions/{session}").text
            process.terminate()
            assert process.stdout
            log = process.stdout.read()
    assert stub.requests
    assert list(home.glob("runs/*.json"))
    assert not [form for form in FORMS if form in said + log]
    assert leaks(left) == []


@pytest.mark.slow
def test_a_bot_leaves_no_secret_in_its_files_its_output_or_its_replies(
    left, mediawiki, people, tmp_path, monkeypatch, capsys
):
    people["Admin"].write(f"User talk:{BOT}", "Lead.\n")
    scene = Scene(mediawiki, people, tmp_path)
    monkeypatch.setenv("KBNAV_BOT__PASSWORD", BOT_PASSWORD)
    settings = f'[bot]\napi = "{scene.wiki.api}"\nuser = "{BOT}@test"\npause = 0\nmentions = false\n'
    (left / "kbnav.toml").write_text(settings)
    scene.ann.ask(TALK, "Curie", QUESTION)
    with Echo([]) as stub:
        command = ["bot", "run", "--once", "--edit", "--model", "stub", "--base-url", stub.base_url]
        _, out, error = Cli(monkeypatch, capsys)(*command)
    assert stub.requests
    secret = SECRETS["OPENAI_API_KEY"]
    assert all(one not in out + error + scene.ann.text(TALK) for one in (secret, BOT_PASSWORD))
    assert leaks(left) == []
    scene.close()
    assert all(BOT_PASSWORD.encode() not in contents(path) for path in (left / "home").rglob("*.json"))
