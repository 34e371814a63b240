"""Gold answers: stored, frozen from a knowledge base, and taken again."""

import json
from pathlib import Path

import pytest

from kbnav.errors import ServiceError, UsageError
from kbnav.evaluation.datasets import Dataset, load_file
from kbnav.evaluation.gold import collect_gold, gold_file, take_gold
from kbnav.evaluation.records import GoldAnswer, read_gold
from tests.agents.parts import NumbersKB


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    lines = [
        {"id": "two", "question": "Two?", "sparql": "SELECT 2"},
        {"id": "none", "question": "None?", "sparql": "SELECT 0"},
        {"id": "wrong", "question": "Wrong?", "sparql": "SELECT broken"},
        {"id": "stored", "question": "Stored?", "sparql": "SELECT 3", "answers": True},
        {"id": "nodes", "question": "Nodes?", "nodes": [1, 2]},
        {"id": "nothing", "question": "Nothing?"},
    ]
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return load_file("jsonl", path)


def collect(dataset: Dataset, kb: NumbersKB, path: Path, stored: bool = True, **options):
    return collect_gold(dataset, dataset.questions, kb, path, stored=stored, **options)  # type: ignore[arg-type]


def summary(answer: GoldAnswer) -> tuple[object, ...]:
    return answer.source, answer.known, answer.has_rows


def test_stored_answers_come_first_and_queries_are_run_where_there_are_none(dataset, tmp_path):
    kb = NumbersKB()
    answers = collect(dataset, kb, tmp_path / "gold.jsonl")
    assert {name: summary(answer) for name, answer in answers.items()} == {
        "two": ("query", True, True),
        "none": ("query", True, False),
        "wrong": ("query", False, False),
        "stored": ("stored", True, True),
        "nodes": ("stored", True, True),
        "nothing": ("none", False, False),
    }
    assert sorted(kb.ran) == ["SELECT 0", "SELECT 2", "SELECT broken"]
    assert answers["wrong"].error == "QuerySyntaxError: line 1, column 8: expected a variable"
    assert answers["two"].recorded[:2] == "20"
    assert answers["stored"].recorded == ""
    head, read = read_gold(tmp_path / "gold.jsonl")
    assert (head.dataset_sha256, head.kb) == (dataset.sha256, {"kb": "numbers"})
    assert read == dict(answers)


def test_a_frozen_file_runs_every_query_once_and_goes_on_where_it_was(dataset, tmp_path):
    path, kb = tmp_path / "gold.jsonl", NumbersKB()
    collect(dataset, kb, path, stored=False)
    assert "SELECT 3" in kb.ran
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b'"id":"two"') + 20])
    answers = collect(dataset, kb, path, stored=False)
    assert kb.ran.count("SELECT 2") == 2
    assert kb.ran.count("SELECT 0") <= 2
    assert len(answers) == 6
    assert len(read_gold(path)[1]) == 6


def test_failed_queries_are_run_again_on_request_only(dataset, tmp_path):
    kb = NumbersKB()
    for retry in (False, False, True):
        collect(dataset, kb, tmp_path / "gold.jsonl", retry_failed=retry)
    assert (kb.ran.count("SELECT broken"), kb.ran.count("SELECT 2")) == (2, 1)


def test_gold_answers_of_something_else_are_refused(dataset, tmp_path):
    path = tmp_path / "gold" / "own.jsonl"
    collect(dataset, NumbersKB(), path)
    other_file = tmp_path / "other.jsonl"
    other_file.write_text('{"id": "two", "question": "Two?", "sparql": "SELECT 2"}')
    other = load_file("jsonl", other_file)
    with pytest.raises(UsageError, match="of another dataset"):
        collect(other, NumbersKB(), path)
    with pytest.raises(UsageError, match="gold answers of another own"):
        take_gold(other, other.questions, path)

    class Elsewhere(NumbersKB):
        def state(self):
            return {"kb": "elsewhere"}

    with pytest.raises(UsageError, match="of another knowledge base"):
        collect(dataset, Elsewhere(), path)


def test_frozen_answers_are_taken_by_question_and_none_may_lack(dataset, tmp_path):
    folder = tmp_path / "gold"
    collect_gold(dataset, dataset.questions[:2], NumbersKB(), folder / "own.jsonl", stored=False)  # type: ignore[arg-type]
    path = gold_file(folder, "own")
    _, answers = take_gold(dataset, dataset.questions[:1], path)
    assert list(answers) == ["two"]
    with pytest.raises(UsageError, match="no gold answer of 4 questions, the first is wrong"):
        take_gold(dataset, dataset.questions, path)


def test_an_endpoint_that_stays_down_ends_it(tmp_path):
    path = tmp_path / "down.jsonl"
    lines = [{"id": str(number), "question": "?", "sparql": "SELECT down"} for number in range(15)]
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ServiceError, match="10 failures in a row"):
        collect(load_file("jsonl", path), NumbersKB(), tmp_path / "gold.jsonl")


def test_an_answer_without_a_query_is_kept_where_queries_are_run_anew(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"id": "one", "question": "One?", "answers": True}))
    one = load_file("jsonl", path)
    assert summary(collect(one, NumbersKB(), tmp_path / "gold.jsonl", stored=False)["one"]) == ("stored", True, True)
