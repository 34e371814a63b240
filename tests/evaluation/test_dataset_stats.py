"""Statistics of datasets: the figures of the papers, and small ones worked out by hand."""

import json
import math
import sys
from dataclasses import replace

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.apps.cli import main
from kbnav.errors import UsageError
from kbnav.evaluation.dataset_stats import (
    DatasetStatistics,
    dataset_statistics,
    statistics_markdown,
    word_statistics,
    write_histograms,
)
from kbnav.evaluation.datasets import Dataset, load_dataset, load_file


def loaded(shared_data, *names: str) -> list[Dataset]:
    return [load_dataset(name, shared_data / "benchmarks") for name in names]


def own(tmp_path, *lines: str) -> Dataset:
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return load_file("jsonl", path)


def row(statistics: DatasetStatistics) -> tuple[float, ...]:
    """SPINACH's Table 1."""
    q = statistics.queries
    means = (q.clauses, q.projections, q.relations, q.subjects, q.predicates, q.objects, q.literals)
    return tuple(round(mean, 2) for mean in means)


def test_statistics_of_a_small_set(tmp_path):
    statistics = dataset_statistics(
        own(
            tmp_path,
            '{"id": 1, "question": "who is Who", "answers": true, "sparql": "ASK { wd:Q1 wdt:P31 wd:Q5 }"}',
            '{"id": 2, "question": "who  is", "nodes": [1, 2, 3],'
            ' "sparql": "SELECT ?a ?aLabel { ?a wdt:P31 wd:Q5 ; wdt:P1 2 . OPTIONAL { ?a wdt:P31 ?c } }"}',
            '{"id": 3, "question": "where", "sparql": "no query"}',
            '{"id": 4, "question": "here"}',
        )
    )
    # who 2, is 2, Who, where, here: H = 2 * 2/7 * lg(7/2) + 3 * 1/7 * lg 7
    assert statistics.words.entropy == pytest.approx(4 / 7 * math.log2(3.5) + 3 / 7 * math.log2(7))
    assert (statistics.words.words, statistics.words.distinct, statistics.words.type_token_ratio) == (7, 5, 5 / 7)
    assert (statistics.question_words.mean, statistics.question_words.maximum) == (1.75, 3)
    assert (statistics.answers.count, statistics.answers.mean, statistics.answers.p95) == (2, 2.0, 3)
    assert statistics.queries.unparsed == ("3",)
    assert row(statistics) == (3.5, 1.0, 2.0, 1.0, 1.5, 1.5, 0.5)
    assert (statistics.queries.unique_patterns, statistics.queries.unique_properties) == (2, 2)


def test_projections_are_those_of_the_query_and_of_the_first_row_as_the_authors_count(tmp_path):
    query = "SELECT ?a ?aLabel ?b { ?a wdt:P31 ?b }"
    tom, reed = Term("literal", "Tom"), Term("literal", "Reed")
    tables = [AnswerTable(("a", "aLabel", "b"), ((tom, reed, None), (tom, reed, tom))), AnswerTable(boolean=True), None]
    dataset = own(tmp_path, *(json.dumps({"id": n, "question": "Q?", "sparql": query}) for n in range(3)))
    questions = [replace(one, answers=table) for one, table in zip(dataset.questions, tables, strict=True)]
    statistics = dataset_statistics(replace(dataset, questions=questions))
    assert (statistics.queries.projections, statistics.queries.answer_fields) == (2, 1)
    assert "| 2.00 (1.00 in answers) |" in statistics_markdown([statistics])
    assert dataset_statistics(dataset).queries.answer_fields is None


def made(number: int, start: str, hops: list[tuple[str, str]], types: list[str], text: str) -> str:
    """A made question; its two parts are counted in words."""
    path = {"start": "x", "start_name": start, "hops": hops, "types": types, "walk": []}
    meta = {"paths": [path], "text_source": text}
    return json.dumps({"id": number, "question": "Which?", "nodes": ["a"], "meta": meta})


def test_answers_splits_and_the_two_parts_of_made_questions_are_counted_as_in_stark(tmp_path):
    sizes = [1, 2, 20, 21, 30, 31, 31, 100]
    lines = [json.dumps({"id": n, "question": "Q?", "nodes": list(range(size))}) for n, size in enumerate(sizes)]
    several = dataset_statistics(own(tmp_path, *lines)).several
    assert (several.questions, several.share, several.over_20, several.over_30) == (7, 7 / 8, 5 / 8, 3 / 8)
    # "Ann Reed", "learned from", "person" against "a loud storm"; then 3 words against 1
    pairs = own(
        tmp_path,
        made(1, "Ann Reed", [("learned_from", "in")], ["person", "person"], "a loud storm"),
        made(2, "Rome", [("in", "out")], ["city", "land"], "green"),
        '{"id": 3, "question": "Q?", "nodes": ["a"]}',
    )
    statistics = dataset_statistics(pairs, replace(pairs, name="one", questions=pairs.questions[:1]))
    assert statistics.splits == {"own": 3 / 4, "one": 1 / 4}
    composition = dataset_statistics(pairs).composition
    assert (composition.questions, composition.ratio) == (2, pytest.approx((5 / 3 + 3) / 2))
    assert composition.share == pytest.approx((5 / 8 + 3 / 4) / 2)
    assert "| own | 0 | 0.0% | 0.0% | 0.0% | – | 2.33 (69% relational) |" in statistics_markdown(
        [dataset_statistics(pairs)]
    )


def test_words_of_any_text_are_compared_at_one_length():
    words = ["the", "cat", "the", "dog", "the", "cat", "a", "bird"]
    whole, first = word_statistics("t", words), word_statistics("t", words, 4)
    assert (whole.words, whole.distinct, whole.type_token_ratio) == (8, 5, 5 / 8)
    assert (first.words, first.distinct, first.entropy) == (4, 3, pytest.approx(1.5))
    with pytest.raises(UsageError, match="t has 8 words, not 9"):
        word_statistics("t", words, 9)


def test_histograms_count_every_question_once(tmp_path):
    records = [{"id": n, "question": "a b" if n else "a b c", "nodes": ["x"] * (n + 1)} for n in range(3)]
    dataset = own(tmp_path, *map(json.dumps, records), '{"id": 9, "question": "d e"}')
    files = write_histograms({"own": dataset.questions}, tmp_path / "out")
    assert files[0].read_text() == "dataset,words,questions\nown,2,3\nown,3,1\n"
    assert files[1].read_text() == "dataset,answers,questions\nown,1,1\nown,2,1\nown,3,1\n"


@pytest.mark.parametrize(("kb", "published"), [("amazon", 10.39), ("mag", 10.25), ("prime", 9.63)])
def test_stark_has_the_published_entropy_over_all_its_splits(shared_data, kb, published):
    statistics = dataset_statistics(
        *loaded(shared_data, *(f"stark-{kb}-{split}" for split in ("train", "val", "test")))
    )
    assert round(statistics.words.entropy, 2) == published
    several, share = {"amazon": (7082, 0.22), "mag": (6872, 0.0), "prime": (4188, 0.0)}[kb]
    assert (statistics.several.questions, round(statistics.several.over_30, 2)) == (several, share)  # Table 3, 2.5
    splits = {"amazon": (0.65, 0.17, 0.18), "mag": (0.60, 0.20, 0.20), "prime": (0.55, 0.20, 0.25)}[kb]
    assert tuple(round(part, 2) for part in statistics.splits.values()) == splits
    assert statistics.words.type_token_ratio < 0.12  # the paper's are 0.179, 0.180 and 0.143


def test_spinach_is_counted_from_a_real_parse(shared_data):
    statistics = dataset_statistics(*loaded(shared_data, "spinach-dev"))
    assert statistics.queries.unparsed == ()
    assert statistics.queries.unique_patterns == statistics.queries.queries == 155
    assert row(statistics)[1] == 2.5  # Table 1's figure
    assert row(statistics) == (7.92, 2.5, 4.64, 1.86, 3.76, 4.96, 0.61)


def test_words_of_a_file_and_of_a_set_from_the_command_line(tmp_path, monkeypatch, capsys):
    own(tmp_path, '{"id": 1, "question": "a b a"}')
    (tmp_path / "page.txt").write_text("a b\nc d")
    names = [str(tmp_path / "own.jsonl"), str(tmp_path / "page.txt")]
    monkeypatch.setattr(sys, "argv", ["kbnav", "eval", "dataset", "stats", *names, "--of", "words", "--tokens", "3"])
    with pytest.raises(SystemExit) as ended:
        main()
    lines = capsys.readouterr().out.splitlines()
    assert not ended.value.code
    assert [line.split(" | ", 1)[1] for line in lines[2:]] == ["3 | 2 | 0.92 | 0.667 |", "3 | 3 | 1.58 | 1.000 |"]
