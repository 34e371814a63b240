"""Runs saved whole, in a database that several servers share."""

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.web.store import DAY, Store, StoredRun, open_sqlite
from kbnav.runs.trajectory import Outcome, Run


def record(name: str) -> Run:
    table = AnswerTable(("x",), ((Term("literal", "an odd\x00 text é"),),))
    return Run(name, "Who?", "spinach", "m", "en", (), (), Outcome("answered", "finish", table=table))


def test_what_one_server_saves_another_reads(tmp_path):
    with open_sqlite(tmp_path / "web.sqlite") as database:
        one, two = Store(database), Store(database)
        one.set_up()
        one.save("run-1", record("first"))
        one.save("run-1", record("first"))  # as by a worker that takes it over
        assert two.saved("first") == record("first")
        two.delete_traces("run-1", "")
        assert one.saved("first") is None


@pytest.mark.parametrize("way", ["with its session", "after a day", "gone when it ends"])
def test_a_saved_run_is_forgotten_with_its_question_even_if_no_answer_names_it(tmp_path, way):
    with open_sqlite(tmp_path / "web.sqlite") as database:
        store = Store(database)
        store.set_up()
        session = store.add_session("alice", "mini", "spinach", "m")
        of = "" if way == "after a day" else session.id
        run = StoredRun(
            "run-1", of, "alice", "mini", "spinach", "m", "?", "running", "w", 0.0, False, None, 1.0, None
        )  # fmt: skip
        store.add_run(run, at_once=1, a_day=1)
        for number in (1, 2):  # that of a server that died before it told the answer, and the next one's
            store.save("run-1", record(f"record-{number}"))
        store.end("run-1", "w", "done", {"text": "", "run": "record-2"})
        store.save("another", record("anothers"))
        if way == "with its session":
            store.delete_session(session)
        elif way == "after a day":
            store.delete_old(DAY)
        else:
            store.delete_traces("run-1", "record-2")
        assert [store.saved(f"record-{number}") for number in (1, 2)] == [None, None]
        assert store.saved("anothers") is not None
