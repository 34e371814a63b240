"""No recording holds a credential, and every one belongs to a test."""

import re
from pathlib import Path

import pytest
import yaml
from benchmarks.replay_spinach_runs import count, recorded_runs

from tests.conftest import RECORDED_AT, ROOT, SECRET_HEADERS, scrub

CASSETTES = sorted((ROOT / "cassettes").rglob("*.yaml"))


def test_scrubbing_drops_secret_headers_in_any_case_and_nothing_else():
    headers = {"AUTHORIZATION": "Bearer x", "Set-cookie": "a=1", "cookie": "b", "X-Api-Key": "k", "Accept": "*/*"}
    scrub(headers)
    assert headers == {"Accept": "*/*"}


def test_no_cassette_holds_a_credential():
    assert CASSETTES
    for path in CASSETTES:
        text = path.read_text(encoding="utf-8")
        for interaction in yaml.load(text, Loader=yaml.CSafeLoader)["interactions"]:
            for side in ("request", "response"):
                names = {name.casefold() for name in interaction[side]["headers"]}
                assert not names & SECRET_HEADERS, path.name
        assert not re.search(r"Bearer \S|\bsk-[A-Za-z0-9]{16}|lgpassword=[^&\s]", text), path.name


def test_no_cassette_holds_the_time_it_was_made_at():
    for path in CASSETTES:
        text = path.read_text(encoding="utf-8")
        dates = re.findall(r"^ *date:\n *- (.*)$", text, re.IGNORECASE | re.MULTILINE)
        assert set(dates) <= {RECORDED_AT}, path.name  # some were written by hand, without


def test_every_cassette_belongs_to_a_test():
    modules = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
    for path in CASSETTES:
        module = modules.get(path.parent.name)
        assert isinstance(module, Path), path.parent.name
        assert f"def {path.stem.partition('[')[0]}(" in module.read_text(encoding="utf-8"), path.stem


@pytest.mark.slow
def test_every_published_run_ends_and_repeats_and_early_stops_are_rolled_back(shared_data, tmp_path):
    counts = count(recorded_runs(shared_data), tmp_path)
    assert counts["recorded runs"] == counts["runs that ended"] == 387
    assert counts["actions that repeat an earlier one to the letter"] == 67
    assert counts["  of these too, one of the four before"] == 35
    assert counts["  of these, rolled back"] == counts["recordings with a repeat"] == 42
    assert counts["  of these, dropped and rolled back"] == counts["stops without rows in the recordings"] == 11
    assert counts["recordings that stop with rows and hold no repeat"] == 325
    assert counts["  of these, the final query is the recorded one"] == 325
