"""``kbnav eval sweep``: every value's own numbers, options of one value, repeats, and costs on a warm cache."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from kbnav.evaluation.records import read_records
from tests.apps.parts import Cli
from tests.models.stub import Canned, ModelStub, completion

QUESTION = "Which ship built by Marit Skarrow was painted yellow?"
QUESTIONS = [("1", QUESTION, ["ship:keeper"]), ("2", "What did Marit Skarrow build?", ["ship:little-auk"])]


@pytest.fixture
def kbnav(capfd, monkeypatch, tmp_path, demo_home):
    """Run a command as a person would, where two questions are; gives exit code, output and error output."""
    monkeypatch.setenv("KBNAV_HOME", str(demo_home))
    monkeypatch.chdir(tmp_path)
    rows = [{"id": name, "question": text, "nodes": nodes} for name, text, nodes in QUESTIONS]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    return Cli(monkeypatch, capfd)


def rows_of(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["value"]: row for row in json.loads((folder / "sweep.json").read_text())}


def test_every_value_has_its_own_numbers_and_its_own_options(kbnav, tmp_path):
    given = ("eval", "sweep", "q.jsonl", "--system", "bm25", "--kb", "demo", "--out", "sweep")
    code, out, error = kbnav(*given, "--vary", "candidates=ship,instrument+name_weight=2.0", "--repeat", "2")
    assert (code, error.count("Traceback")) == (0, 0)
    found = rows_of(tmp_path / "sweep")
    assert list(found) == ["ship", "instrument+name_weight=2.0"]
    for value, row in found.items():
        runs = [tmp_path / "sweep" / f"candidates={value}{number}" for number in ("", ".2")]
        scores = [json.loads((one / "scores.json").read_text())["all"]["values"]["hit@1"] for one in runs]
        seconds = [fmean(one.run.seconds for one in read_records(folder).values()) for folder in runs]
        assert float(row["hit@1"]) == pytest.approx(fmean(scores))
        assert float(row["seconds"]) == pytest.approx(fmean(seconds))
        assert float(row["seconds_sd"]) == pytest.approx(stdev(seconds))
        assert (row["runs"], row["questions"], row["cost"]) == (2, 2, None)
    assert [float(row["hit@1"]) for row in found.values()] == [0.5, 0.0]  # so that one's are not the other's
    options = json.loads((tmp_path / "sweep" / "candidates=instrument+name_weight=2.0" / "run.json").read_text())
    assert options["settings"]["options"]["name_weight"] == 2.0
    last = out.strip().splitlines()[-2:]
    for printed, (value, row) in zip(last, found.items(), strict=True):
        assert printed.startswith(f"| candidates={value} |")
        assert f"| {100 * float(row['hit@1']):.2f} ±" in printed


class Planning(ModelStub):
    """Plans, answers and words, by what it is asked."""

    def reply(self, asked: dict[str, Any]) -> Canned:
        text = asked["messages"][-1]["content"]
        if "You plan how to answer" in text:
            return completion("<PATH>^built by</PATH>\n<PATH>built by</PATH>")
        return completion("- Keeper (ship:keeper)" if "from what a graph shows" in text else "The Keeper.")


def test_a_value_costs_the_same_on_a_warm_cache(kbnav, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    (tmp_path / "kbnav.toml").write_text("[prices.stub]\nprompt = 10000.0\ncompletion = 50000.0\n")
    vary = ("--vary", "paths=1,2")
    with Planning([]) as stub:
        model = ("--model", "stub", "--base-url", stub.base_url)
        given = ("eval", "sweep", "q.jsonl", "--limit", "1", "--system", "rog", "--kb", "demo", *model, *vary)
        out = kbnav.out(*given, "--out", "cold")
        asked = len(stub.requests)
        out = kbnav.out(*given, "--out", "warm")
        assert len(stub.requests) - asked < asked  # the cache was warm
    cold, warm = rows_of(tmp_path / "cold"), rows_of(tmp_path / "warm")
    for value in ("1", "2"):
        # a plan, an answer and its wording: 100 tokens in at a cent each and 20 out at five, three times
        assert (float(cold[value]["calls"]), float(cold[value]["cost"])) == (3.0, pytest.approx(6.0))
        assert [cold[value][name] for name in ("calls", "tokens", "cost", "f1")] == [
            warm[value][name] for name in ("calls", "tokens", "cost", "f1")
        ]
    assert (cold["1"]["calls_replayed"], cold["2"]["calls_replayed"] > 0) == (0, True)
    assert "Replayed calls" in out
    _, out, _ = kbnav("eval", "report", "cold/paths=2", "warm/paths=2", "--json")
    first, second = json.loads(out)["runs"]
    assert [first[name] for name in ("cost", "tokens")] == [second[name] for name in ("cost", "tokens")]
    assert first["cost"] == pytest.approx(6.0)
