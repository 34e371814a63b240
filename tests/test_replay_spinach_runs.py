"""All 387 published SPINACH runs go through the state machine with their recorded observations."""

import pytest
from benchmarks.cost import spent
from benchmarks.replay_spinach_runs import count, recorded_runs


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


class Words:
    """Counts words, so that a test needs no encoding to be fetched."""

    def encode(self, text: str, **_: object) -> list[str]:
        return text.split()


def test_what_a_question_costs_grows_with_each_call_that_sends_the_path_again(shared_data, tmp_path):
    short, long = sorted(recorded_runs(shared_data)[:40], key=lambda one: len(one["actions"]))[::39]
    few = spent(Words(), short, tmp_path)
    calls, prompt, completion = few.calls, few.prompt, few.completion
    assert calls == len(short["actions"]) + 1  # and one for the answer
    thoughts = sum(len(action["thought"].split()) for action in short["actions"])
    assert completion > thoughts
    more = spent(Words(), long, tmp_path)
    assert more.prompt / more.calls > prompt / calls > 300
    assert 0.4 < more.cached / more.prompt < 1  # most of what a call sends it shares with the one before
