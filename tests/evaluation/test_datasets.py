"""Every reader on the real files where they are, and on small wrong files everywhere."""

import gzip
import json
from pathlib import Path

import pytest

from kbnav.answers.tables import AnswerTable, Term
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.datasets import load_dataset, load_file, load_stark

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


def test_stark_split_must_name_questions_of_the_table(stark_folder):
    write(stark_folder / "split" / "val.index", "7\n11\n")
    with pytest.raises(DataError, match=r"val\.index: 1 question ids are not in stark_qa\.csv, the first is 11"):
        load_stark("prime", stark_folder, split="val")


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
    assert first.answers is not None
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
    assert b.answers is not None
    assert b.answers.bindings() == [row]
    assert (c.nodes, c.answers) == (("4", "n5"), None)
    assert d.answers == AnswerTable(("x",))


GOOD = '{"id": "1", "question": "Q?", "sparql": "ASK { }"}'
WRONG = [
    ("jsonl", GOOD + "\n{", r"record 2: not JSON"),
    ("jsonl", GOOD + "\n" + GOOD, r"record 2: the id '1' was used before"),
    ("jsonl", '{"id": "1", "question": "Q?", "answers": [{"x": 1}]}', r"record 1: the stored answer is not a SPARQL"),
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


def test_wrong_csv_names_header_and_row(stark_folder):
    table = stark_folder / "stark_qa" / "stark_qa.csv"
    write(table, "id,query\n1,Q?\n")
    with pytest.raises(DataError, match="record 1: no field 'answer_ids'"):
        load_stark("mag", stark_folder)
    write(table, "id,query,answer_ids\n1,Q?,[1]\n2,Q?,one\n")
    with pytest.raises(DataError, match="record 2: 'answer_ids' is not a list of node ids"):
        load_stark("mag", stark_folder)


def test_a_missing_broken_or_unknown_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"spinach/dev\.json is not there; kbnav eval dataset fetch spinach-dev downl"):
        load_dataset("spinach-dev", tmp_path)
    with pytest.raises(UsageError, match=r"train\.jsonl is not there; get it from its publisher"):
        load_dataset("wikiwebquestions-train", tmp_path)
    with pytest.raises(UsageError, match="no dataset 'spinach'"):
        load_dataset("spinach", tmp_path)
    cut = tmp_path / "q.jsonl.gz"
    cut.write_bytes(gzip.compress(b"x" * 1000)[:-20])
    with pytest.raises(DataError, match="cut off"):
        load_file("jsonl", cut)


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path
