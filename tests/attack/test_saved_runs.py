"""Saved runs that somebody has changed, through every door that reads one: one clear error, or harmless."""

import io
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from rich.console import Console

from kbnav.apps.console import answer_json, print_run, print_runs, run_line
from kbnav.apps.sharing import shared_page
from kbnav.errors import DataError, KbnavError, UsageError
from kbnav.evaluation.records import GOLD, INFO, QUESTIONS, read_saved_run
from kbnav.models.scripted import replay_model
from kbnav.runs.trajectory import Run, citation, load_run, parse_run, save_run, to_json
from kbnav.sessions.evidence import run_evidence
from tests.apps.web.parts import Server, Visit, web_settings
from tests.attack.rows import STEERING, Asked, attack_rows, documents, tampered, whole_run
from tests.attack.test_files import no_more_memory
from tests.evaluation.parts import saved_folder, table

__all__ = ["no_more_memory"]
GOLDS, ANSWERS = {"one": table("Q1")}, {"one": table("Q1")}
PAGE = "https://query.wikidata.org/#"


def told(run: Run) -> Iterator[str]:
    """All that is said of a run, a door at a time; what is for the terminal comes first."""
    yield citation(run, PAGE)
    for show in (lambda console: print_run(console, run, PAGE), lambda console: print_runs(console, [run])):
        shown = Console(file=io.StringIO(), width=80)
        show(shown)
        text = shown.file.getvalue()
        assert not set(STEERING) & set("\x1b\x07\u202e") & set(text), "it moves the terminal's cursor"
        yield text
    yield answer_json(run, PAGE) + to_json(run) + json.dumps(run_line(run))
    replay_model(run)
    page = shared_page([(run, None)], PAGE)
    assert not re.search(r"<script>alert|<img|href=\"(?!https?://|#)", page)
    yield page


def try_doors(texts: Iterator[tuple[Any, Any, bytes]]) -> int:
    """How many of the documents are runs still; raises what is no error of kbnav's."""
    read = 0
    for place, value, text in texts:
        try:
            run = parse_run(text, "the run")
        except DataError:
            continue
        read += 1
        try:
            for _ in told(run):
                pass
        except KbnavError:
            pass
        except Exception as error:
            raise AssertionError(f"{place} is {str(value)[:60]!r}") from error
    return read


def test_a_run_with_all_that_a_run_has_comes_through_every_door():
    for document in documents():
        assert try_doors(iter([("", "", json.dumps(document).encode())])) == 1


def test_fields_that_were_changed_are_refused_or_do_no_harm():
    some = (one for document in documents() for one in tampered(document, 397))
    assert try_doors(some) >= 3


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_field_with_every_hostile_value():
    first, *others = documents()
    assert try_doors(tampered(first)) > 500
    for document in others:  # which differ in what their knowledge base says of itself
        assert try_doors(one for one in tampered(document) if one[0][0] == "kb") > 20


@pytest.mark.slow
def test_what_makes_a_changed_answer_true_is_looked_up_or_refused(mini_kb):
    document = next(documents())
    outcome = document["outcome"]
    for place, _, text in tampered(outcome, 3):
        try:
            run = parse_run(json.dumps({**document, "outcome": json.loads(text)}).encode(), "the run")
        except DataError:
            continue
        try:
            run_evidence(mini_kb, run)
        except Exception as error:
            raise AssertionError(place) from error


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("id", "../../outside", "id: String should match"),
        ("kb", {"kind": "skb", "nodes": "many"}, "kb: .*nodes is not of the type int"),
        ("kb", {"query_page": "javascript:alert(1)//"}, "query_page is no address of a page"),
        ("kb", {"kbs": {"a": []}}, "what is no knowledge base"),
        ("seconds", float("inf"), "seconds: .*finite"),
        ("settings", "text", "settings: "),
        ("path", [{"number": 1}], r"path\.0\.call: "),
    ],
)
def test_a_field_that_is_no_runs_is_named(tmp_path, field, value, message):
    (tmp_path / "a.json").write_text(json.dumps({**next(documents()), field: value}))
    with pytest.raises(DataError, match=message):
        load_run(tmp_path / "a.json")


@pytest.mark.usefixtures("no_more_memory")
@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"id": ' * 5_000 + b"1" + b"}" * 5_000, b'"\xff"'])
def test_a_file_that_is_no_run_is_one_error_for_every_command(tmp_path, content, kbnav):
    path = tmp_path / "kbnav-home" / "runs" / "run-a.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    for command in (
        ["show", "last"], ["show", "--json", "run-a"], ["runs"], ["export", "last", str(tmp_path / "a.html")],
        ["ask", "--model", f"replay:{path}", "--kb", "mini", "Who?"],
    ):  # fmt: skip
        code, out, error = kbnav(*command)
        assert (code, out.strip()) == (0 if command == ["runs"] else 2, ""), command
        assert "run-a.json is not a saved run" in "".join(error.split("\n")).replace("  ", " ")
        assert "Traceback" not in error


@pytest.mark.slow
@pytest.mark.usefixtures("no_more_memory")
def test_a_file_larger_than_any_run_and_what_is_no_file_are_refused_at_once(tmp_path):
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(20 << 30)
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    for name, message in {"large": "larger than 256 MiB", "pipe": "is no file", "folder": "Is a directory"}.items():
        with pytest.raises(UsageError, match=message):
            load_run(tmp_path / f"{name}.json")
    (tmp_path / "large.json").unlink()


def test_one_bad_file_does_not_hide_the_others(tmp_path, kbnav):
    runs = tmp_path / "kbnav-home" / "runs"
    save_run(whole_run(), runs)
    (runs / "run-bad.json").write_text("{}")
    (runs / "run-gone.json").symlink_to(tmp_path / "nowhere")
    code, out, error = kbnav("runs")
    assert code == 0
    assert "Which elements?" in out
    assert "run-bad.json is not a saved run" in error


def test_lines_of_an_evaluation_that_were_changed_are_named(tmp_path):
    for name, line, message in (
        (QUESTIONS, b'{"id": "q", "run": ' + b"[" * 3000 + b"]" * 3000 + b"}\n", "record 2: "),
        (QUESTIONS, b"[" * 100_000 + b"\n", "record 2: "),
        (QUESTIONS, b'{"id": ["q"], "run": {}}\n', "record 2: id"),
        (GOLD, b'{"id": "q", "question": 7, "source": "query"}\n', "record 3: "),
        (INFO, b"[" * 100_000, "run.json: "),
    ):
        folder = saved_folder(tmp_path / f"{len(list(tmp_path.iterdir()))}", GOLDS, ANSWERS)
        whole = folder / name
        whole.write_bytes(line if name == INFO else whole.read_bytes() + line)
        with pytest.raises(DataError, match=message):
            read_saved_run(folder)


@pytest.mark.slow
@pytest.mark.usefixtures("no_more_memory")
def test_a_line_of_an_evaluation_that_fills_the_memory_is_refused(tmp_path):
    folder = saved_folder(tmp_path / "run", GOLDS, ANSWERS)
    with (folder / QUESTIONS).open("ab") as file:
        file.truncate(20 << 30)
    with pytest.raises(DataError, match="line 2 is longer than 256 MiB"):
        read_saved_run(folder)
    (folder / QUESTIONS).unlink()


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
