"""--system and --set on the command line: what runs, what is refused with one line, and the sweep."""

import json

import pytest

from tests.apps.parts import Cli

QUESTION = "Which ship built by Marit Skarrow was painted yellow?"


@pytest.fixture
def kbnav(capfd, monkeypatch, tmp_path, demo_home):
    """Run a command as a person would; gives exit code, output and error output."""
    monkeypatch.setenv("KBNAV_HOME", str(demo_home))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    return Cli(monkeypatch, capfd)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kb", "demo", "--system", "tog"], "the system tog needs a model: name one with --model"),
        (["--kb", "demo", "--system", "gog", "--model", "replay:run.json"], "the system gog needs a model"),
        (["--kb", "demo", "--system", "pasemiqa", "--set", "width=3"], "pasemiqa has no option 'width'; there are: "),
        (["--kb", "demo", "--system", "pasemiqa", "--set", "k=none"], "pasemiqa: k: Input should be a valid integer"),
        (["--kb", "demo", "--set", "bm25.depth=3"], "skb is not made of other systems, so no option of it begins"),
        (["--kb", "mini", "--system", "rog"], "the system rog needs an SKB"),
    ],
)
def test_what_cannot_be_is_refused_with_one_line(kbnav, arguments, message):
    code, _, error = kbnav("ask", "--quiet", *arguments, "Which ship?")
    assert code == 2
    assert len(error.splitlines()) == 1
    assert message in error


def test_agents_that_name_their_answer_are_scored_by_macro_f1_too(kbnav, tmp_path):
    # Keeper is named for both questions. Of the first it is the gold answer: F1 1; that of the second are others: 0.
    asked = [("1", ["ship:keeper"]), ("2", ["ship:heron", "ship:gannet"])]
    lines = [json.dumps({"id": name, "question": QUESTION, "nodes": nodes}) for name, nodes in asked]
    (tmp_path / "q.jsonl").write_text("\n".join(lines) + "\n")
    out = kbnav.out("eval", "run", "--system", "pasemiqa", "q.jsonl", "--kb", "demo", "--out", "r")
    assert "f1         50.00" in out
    code, out, _ = kbnav("eval", "run", "--system", "bm25", "q.jsonl", "--kb", "demo", "--out", "b")
    assert "mrr" in out
    assert "f1 " not in out
    out = kbnav.out("eval", "compare", "r", "b")
    assert "mrr" in out
