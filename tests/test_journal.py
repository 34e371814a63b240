"""Append-only files: what a kill can do to them, and what it cannot."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbnav.errors import DataError, UsageError
from kbnav.evaluation.records import GoldAnswer
from kbnav.runs.journal import open_journal, read_journal, write_whole

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ANSWERS = st.lists(st.builds(GoldAnswer, id=TEXT, question=TEXT, source=st.just("stored")), min_size=1, max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(answers=ANSWERS, data=st.data())
def test_a_file_cut_at_any_byte_keeps_its_whole_lines_and_goes_on_from_there(tmp_path, answers, data):
    path = tmp_path / "journal.jsonl"
    path.unlink(missing_ok=True)
    ends = [0]
    with open_journal(path) as journal:
        for answer in answers:
            journal.append(answer)
            ends.append(path.stat().st_size)
    cut = data.draw(st.integers(0, ends[-1]))
    path.write_bytes(path.read_bytes()[:cut])
    whole = answers[: max(number for number, end in enumerate(ends) if end <= cut)]
    assert read_journal(path, GoldAnswer) == whole
    with open_journal(path) as journal:
        journal.append(answers[0])
    assert read_journal(path, GoldAnswer) == [*whole, answers[0]]


def test_a_last_line_of_zeros_as_a_power_cut_leaves_it_is_dropped(tmp_path):
    path = tmp_path / "journal.jsonl"
    with open_journal(path) as journal:
        journal.append(GoldAnswer("a", "A?", "stored"))
    with path.open("ab") as file:
        file.write(b"\0" * 100 + b"\n")
    assert [answer.id for answer in read_journal(path, GoldAnswer)] == ["a"]


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "journal.jsonl"
    with open_journal(path) as journal:
        for name in "abc":
            journal.append(GoldAnswer(name, "?", "stored"))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + '{"id": 7}\n' + lines[2])
    with pytest.raises(DataError, match=r"journal.jsonl: record 2: id"):
        read_journal(path, GoldAnswer)


def test_a_file_is_written_by_one_at_a_time(tmp_path):
    with open_journal(tmp_path / "a.jsonl"), pytest.raises(UsageError, match="being written by another run"):  # noqa: SIM117
        with open_journal(tmp_path / "a.jsonl"):
            pass


def test_folders_that_cannot_be_written_are_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_whole(tmp_path / "file" / "a.json", "")
    with pytest.raises(UsageError, match="cannot be written"), open_journal(tmp_path / "file" / "a.jsonl"):
        pass
