"""Saved runs: written whole, read back the same, refused where they are something else."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbnav.answers.tables import AnswerTable, Ranking, Term
from kbnav.errors import DataError, UsageError
from kbnav.runs.trajectory import Call, Outcome, Run, Step, Turn, find_run, load_run, save_run

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TERMS = st.builds(Term, st.sampled_from(["uri", "literal", "bnode"]), TEXT, st.none() | TEXT, st.none() | TEXT)
TABLES = st.builds(
    lambda rows: AnswerTable(("a", "b"), tuple(rows), labels={"Q1": "one"}),
    st.lists(st.tuples(TERMS | st.none(), TERMS | st.none()), max_size=3),
)
CALLS = st.builds(
    Call,
    TEXT,
    st.dictionaries(TEXT, TEXT | st.integers() | st.lists(TEXT, max_size=2), max_size=2),
    TEXT,
    TEXT,
    st.integers(1, 9),
)
STEPS = st.builds(Step, st.integers(1, 30), CALLS, TEXT, st.booleans(), st.none() | st.integers(0, 9))
OUTCOMES = st.builds(
    Outcome,
    st.sampled_from(["answered", "best effort", "no answer"]),
    st.sampled_from(["finish", "step budget"]),
    TEXT,
    st.none() | TABLES,
    st.none()
    | st.builds(lambda nodes: Ranking.from_scores(nodes), st.lists(st.tuples(TEXT, st.floats(0, 1)), max_size=2)),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(st.lists(STEPS, max_size=4), OUTCOMES)
def test_a_saved_run_is_read_back_the_same(tmp_path, steps, outcome):
    run = Run("run-1", "?", "spinach", "m", "en", tuple(steps), (), outcome, history=(Turn("before", (), outcome),))
    assert load_run(save_run(run, tmp_path)) == run
    assert [path.name for path in tmp_path.iterdir()] == ["run-1.json"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"id": "run-1", "path": 3}', "not json", '{"id": "x'])
def test_something_else_is_refused_with_its_name(tmp_path, text):
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(DataError, match=r"odd\.json is not a saved run"):
        load_run(tmp_path / "odd.json")


def test_a_run_is_found_by_path_id_start_or_as_the_last(tmp_path):
    for name in ("run-a1", "run-a2", "run-b"):
        save_run(Run(name, "?", "s", "m", "en", (), (), Outcome("no answer", "finish")), tmp_path)
    assert find_run(str(tmp_path / "run-b.json"), tmp_path).stem == "run-b"
    assert find_run("run-b", tmp_path).stem == "run-b"
    assert find_run("run-a1", tmp_path).stem == "run-a1"
    assert find_run("last", tmp_path).stem == "run-b"
    with pytest.raises(UsageError, match="2 saved runs match 'run-a'"):
        find_run("run-a", tmp_path)
    with pytest.raises(UsageError, match="no saved runs match 'run-c'"):
        find_run("run-c", tmp_path)
