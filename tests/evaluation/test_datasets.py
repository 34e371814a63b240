"""Every reader on the real files where they are, and on small wrong files everywhere."""

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.dataset_stats import (
    DatasetStatistics,
    dataset_statistics,
    statistics_markdown,
    word_statistics,
    write_histograms,
)
from kbnav.evaluation.datasets import load_dataset, load_file, load_stark
from kbnav.evaluation.datasets.records import Dataset

COUNTS = {  # questions, with a gold query, with a stored answer, boolean answers
    "spinach-dev": (155, 155, 0, 0),
    "qald-7-train": (100, 100, 100, 4),
    "qald-9-plus-train": (371, 371, 0, 0),
    "qald-10": (394, 394, 394, 61),
    "wikiwebquestions-dev": (454, 454, 454, 0),
    "stark-amazon-test": (1642, 0, 0, 0),
    "stark-mag-test": (2665, 0, 0, 0),
    "stark-prime-test": (2801, 0, 0, 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_published_file_is_read_whole(shared_data, name):
    dataset = load_dataset(name, shared_data / "benchmarks")
    answers = [question.answers for question in dataset.questions if question.answers is not None]
    booleans = sum(answer.boolean is not None for answer in answers)
    assert (len(dataset), sum(bool(q.query) for q in dataset.questions), len(answers), booleans) == COUNTS[name]
    assert all(bool(question.nodes) == name.startswith("stark") for question in dataset.questions)
    assert all(question.text().strip() for question in dataset.questions)
    assert len(dataset.sha256) == 64
    assert dataset.name == name


def test_qald_10_has_four_languages_and_one_empty_gold_answer(shared_data):
    questions = {q.id: q for q in load_dataset("qald-10", shared_data / "benchmarks").questions}
    assert sum(set(q.texts) == {"en", "zh", "de", "ru"} for q in questions.values()) == 382
    assert [q.id for q in questions.values() if not q.answers] == ["313"]
    first = questions["0"]
    assert first.text("de") == "Nach wem ist die Riemannsche Geometrie benannt?"
    assert first.text("fr") == first.text("en") == "After whom is the Riemannian geometry named?"
    assert first.answers == AnswerTable(("result",), ((Term("uri", "http://www.wikidata.org/entity/Q42299"),),))


def test_stark_answers_keep_their_order_and_have_at_most_twenty_nodes(shared_data):
    questions = {q.id: q for q in load_dataset("stark-prime-test", shared_data / "benchmarks").questions}
    assert questions["6517"].nodes == ("56241", "55842", "56174", "56263")
    assert questions["6517"].meta["mor_plan"]["Restriction"] == {"drug": ["Travoprost"]}
    assert max(len(q.nodes) for q in questions.values()) == 20


@pytest.fixture
def stark_folder(tmp_path: Path) -> Path:
    (tmp_path / "stark_qa").mkdir()
    (tmp_path / "split").mkdir()
    write(
        tmp_path / "stark_qa" / "stark_qa.csv",
        'id,query,answer_ids\n7,"Which, one?","[3, 1]"\n2,Two?,[5]\n9,Nine?,[1]\n',
    )
    write(tmp_path / "stark_qa" / "stark_qa_human_generated_eval.csv", "id,query,answer_ids\n0,By hand?,[8]\n")
    write(tmp_path / "split" / "test.index", "9\n7\n")
    return tmp_path


def test_stark_csv_and_split_index(stark_folder):
    dataset = load_stark("prime", stark_folder)
    assert [(q.id, q.text(), q.nodes) for q in dataset.questions] == [
        ("7", "Which, one?", ("3", "1")),
        ("9", "Nine?", ("1",)),
    ]
    assert dataset.name == "stark-prime-test"
    human = load_stark("prime", stark_folder, human=True)
    assert [(q.id, q.text(), q.nodes) for q in human.questions] == [("0", "By hand?", ("8",))]
    write(stark_folder / "split" / "val.index", "7\n11\n")
    with pytest.raises(DataError, match=r"val\.index: 1 question ids are not in stark_qa\.csv, the first is 11"):
        load_stark("prime", stark_folder, split="val")
    table = stark_folder / "stark_qa" / "stark_qa.csv"
    for rows, said in (("id,query\n1,Q?\n", "1: no field"), ("id,query,answer_ids\n1,Q?,[1]\n2,Q?,one\n", "2:")):
        write(table, rows)
        with pytest.raises(DataError, match=rf"record {said} 'answer_ids'"):
            load_stark("mag", stark_folder)


@pytest.mark.parametrize("parent", ["", "stark/qa"])
def test_starks_published_folder_is_read_by_name(stark_folder, tmp_path, parent):
    data = tmp_path / "data"
    (data / parent).mkdir(parents=True)
    (stark_folder / "stark_qa").rename(data / parent / "moved")
    (data / parent / "prime").mkdir()
    (data / parent / "moved").rename(data / parent / "prime" / "stark_qa")
    (stark_folder / "split").rename(data / parent / "prime" / "split")
    write(data / parent / "prime" / "split" / "test-0.1.index", "2\n")
    write(data / parent / "prime" / "split" / "train.index", "".join(f"{n}\n" for n in (9, 2, 7)))
    assert [q.id for q in load_stark("prime", data / parent / "prime", split="train-0.7").questions] == ["2", "9"]
    ids = {name: [q.id for q in load_dataset(f"stark-prime-{name}", data).questions] for name in ("test", "test-0.1")}
    assert ids == {"test": ["7", "9"], "test-0.1": ["2"]}
    human = load_dataset("stark-prime-human", data)
    assert (human.name, [q.nodes for q in human.questions]) == ("stark-prime-human", [("8",)])
    with pytest.raises(
        UsageError, match=r"val\.index is not there; kbnav eval dataset fetch stark-prime-val downloads it"
    ):
        load_dataset("stark-prime-val", data)
    with pytest.raises(
        UsageError, match=r"stark/qa/mag/stark_qa/stark_qa_human_generated_eval\.csv is not there; kbnav"
    ):
        load_dataset("stark-mag-human", data)


def test_togs_subset_of_qald_10_has_the_ids_of_qald_10(shared_data, tmp_path, caplog):
    (tmp_path / "qald-10").mkdir()
    source = shared_data / "benchmarks/qald-10/qald_10.json.gz"
    (tmp_path / "qald-10" / "qald_10.json.gz").write_bytes(source.read_bytes())
    asked = [
        "On which stock exchanges are  Siemens AG shares traded?",
        "After whom is the Riemannian geometry named?",
        "?",
    ]
    write(tmp_path / "qald-10" / "qald_10-en.json", json.dumps([{"question": text} for text in asked]))
    assert [q.id for q in load_dataset("qald-10-tog", tmp_path).questions] == ["0", "5"]
    assert "1 of 3 questions are not in QALD-10 under this wording" in caplog.text


def test_qald_json_takes_missing_parts_and_stray_columns(tmp_path):
    row = {"uri": {"type": "uri", "value": "a"}}
    questions = [
        {
            "id": "1",
            "question": [{"language": "de", "string": "Wer?"}, {"language": "en"}],
            "query": {"sparql": "SELECT"},
            "answers": [{"head": {"vars": ["x"]}, "results": {"bindings": [row]}}],
        },
        {"id": 2, "question": [{"language": "en", "string": "Who?"}], "query": {}},
    ]
    first, second = load_file("qald-9-plus", write(tmp_path / "q.json", json.dumps({"questions": questions}))).questions
    assert first.texts == {"de": "Wer?"}
    assert first.answers.bindings() == [row]
    assert (second.id, second.query, second.answers) == ("2", "", None)


def test_own_questions(tmp_path):
    row = {"x": {"type": "literal", "value": "1", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}}
    records = [
        {"id": "a", "question": "One?", "sparql": "ASK { }", "answers": True},
        {"id": 2, "question": {"fr": "Deux ?"}, "answers": [row], "meta": {"hops": 2}},
        {"id": "c", "question": "Three?", "nodes": [4, "n5"]},
        {"id": "d", "question": "Four?", "answers": {"head": {"vars": ["x"]}, "results": {"bindings": []}}},
    ]
    path = write(tmp_path / "own.jsonl", "\n\n".join(map(json.dumps, records)))
    a, b, c, d = load_file("jsonl", path, name="mine").questions
    assert (a.answers, a.query) == (AnswerTable(boolean=True), "ASK { }")
    assert (b.id, b.text(), b.meta) == ("2", "Deux ?", {"hops": 2})
    assert b.answers.bindings() == [row]
    assert (c.nodes, c.answers) == (("4", "n5"), None)
    assert d.answers == AnswerTable(("x",))


GOOD = '{"id": "1", "question": "Q?", "sparql": "ASK { }"}'
WRONG = [
    ("jsonl", GOOD + "\n{", r"record 2: not JSON"),
    ("jsonl", GOOD + "\n" + GOOD, r"record 2: the id '1' was used before"),
    ("jsonl", '{"id": "1", "question": "Q?", "answers": [{"x": 1}]}', r"record 1: the stored answer is not a SPARQL"),
    ("jsonl", '{"id": "who", "question": "Q?", "answers": [""]}', r"record 1: an answer of question 'who' is empty"),
    ("jsonl", '{"id": "1", "question": "Q?", "nodes": [1.5]}', r"record 1: 'nodes' must be ids"),
    ("spinach", f"[{GOOD}, {{}}]", r"record 2: no field 'id'"),
    ("qald-10", "{}", r"expected an object with 'questions'"),
    ("qald-10", '{"questions": [{"id": 1, "question": []}]}', r"record 1: a question without a text"),
    ("stark-mag", '{"id": 1, "query": "Q?", "answer_ids": ["x"]}', r"record 1: 'answer_ids' is not a list of node"),
]


@pytest.mark.parametrize(("form", "content", "message"), WRONG)
def test_a_wrong_file_gets_an_error_with_the_record_number(tmp_path, form, content, message):
    path = write(tmp_path / "wrong.json", content)
    with pytest.raises(DataError, match=message) as caught:
        load_file(form, path)
    assert str(caught.value).startswith(str(path))


def test_a_missing_broken_or_unknown_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"spinach/dev\.json is not there; kbnav eval dataset fetch spinach-dev downl"):
        load_dataset("spinach-dev", tmp_path)
    with pytest.raises(UsageError, match="no dataset 'spinach'"):
        load_dataset("spinach", tmp_path)
    renamed = write(tmp_path / "w.json", '[{"id": "1", "utterance": "Who?", "sparql": "ASK {}"}]')
    assert load_file("wikiwebquestions", renamed).questions[0].text() == "Who?"
    cut = tmp_path / "q.jsonl.gz"
    cut.write_bytes(gzip.compress(b"x" * 1000)[:-20])
    with pytest.raises(DataError, match="cut off"):
        load_file("jsonl", cut)


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


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


def test_words_of_a_file_and_of_a_set_from_the_command_line(tmp_path, kbnav):
    own(tmp_path, '{"id": 1, "question": "a b a"}')
    (tmp_path / "page.txt").write_text("a b\nc d")
    names = [str(tmp_path / "own.jsonl"), str(tmp_path / "page.txt")]
    lines = kbnav.out("eval", "dataset", "stats", *names, "--of", "words", "--tokens", "3").splitlines()
    assert [line.split(" | ", 1)[1] for line in lines[2:]] == ["3 | 2 | 0.92 | 0.667 |", "3 | 3 | 1.58 | 1.000 |"]
