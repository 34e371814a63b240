"""Secrets of the environment, echoed by a model's endpoint at every turn: nothing that is left behind holds them."""

import base64
import gzip
import re
import sqlite3
import zipfile
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
from tests.marked import MARK, forms, marked_files
from tests.models.stub import ModelStub, completion, failure

__all__ = ["mediawiki", "people"]
ROOT = Path(__file__).resolve().parents[2]
SECRETS = {
    "OPENAI_API_KEY": "sk-echoed-key-nevertobeleft",
    "KBNAV_BOT__PASSWORD": "bot-password-nevertobeleft",
    "KBNAV_WEB__TOKENS": '{"ann": "a-token-of-ann-nevertobeleft"}',
}
FORMS = [form.decode() for form in forms(MARK)]
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


def leaks(*folders: Path) -> list[str]:
    return [str(path) for folder in folders for path in marked_files(folder, [MARK, *SECRETS.values()])]


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
            *kbnav("eval", "run", *of, "mini.jsonl", "--limit", "2", "--out", "out")[1:],
        ]
        assert sent_to(stub) == SECRETS["OPENAI_API_KEY"]  # it was there to be echoed
    assert len(list(left.glob("home/runs/*.json"))) >= 3
    assert (left / "out" / "questions.jsonl").stat().st_size > 100
    assert (left / "home" / "sessions.sqlite").is_file()
    assert not [form for form in FORMS for text in said if form in text]
    assert "[hidden]" in "".join(said)
    assert leaks(left) == []


@pytest.mark.slow
def test_a_server_leaves_no_secret_in_its_files_its_log_or_its_answers(left):
    home = left / "home"
    with Echo([]) as stub:
        arguments = ["--kb", "mini", "--model", "stub", "--base-url", stub.base_url]
        with served_process(home, *arguments) as (url, process):
            visit = Visit(url, {"Authorization": "Bearer a-token-of-ann-nevertobeleft"})
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
    settings = f'[bot]\napi = "{scene.wiki.api}"\nuser = "{BOT}@test"\n'
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


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_a_secret_is_found_however_it_is_left(tmp_path, before):
    secret = MARK[::-1]  # one that is left on purpose
    said = f"{before}{secret}: it is".encode()
    (tmp_path / "plain.txt").write_bytes(said)
    (tmp_path / "base64.txt").write_bytes(base64.b64encode(said))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(said))
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside.json", said * 9)
    with sqlite3.connect(tmp_path / "a.sqlite") as database:
        database.execute("CREATE TABLE kept (body BLOB)")
        database.execute("INSERT INTO kept VALUES (?)", (zlib.compress(said),))
    database.close()
    (tmp_path / "nothing.txt").write_bytes(secret[:9].encode() + base64.b64encode(secret[9:].encode()))
    found = {path.name for path in marked_files(tmp_path, [secret])}
    assert found == {"plain.txt", "base64.txt", "a.json.gz", "a.zip", "a.sqlite"}


def test_every_key_of_a_test_has_the_mark():
    keys = re.compile(r"""["'{](sk-[\w-]{6,}|[ab]-token-of-[a-z]+-[\w-]+|lgpassword=\w+)""")
    for path in (ROOT / "tests").rglob("*.py"):
        unmarked = [key for key in keys.findall(path.read_text()) if MARK not in key]
        assert not unmarked, f"{path}: {unmarked}"
