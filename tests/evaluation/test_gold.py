"""Gold answers: stored, frozen from a knowledge base, and taken again."""

import hashlib
import json
from pathlib import Path

import pytest

from kbnav.errors import BadResponse, DataError, ServiceError, UsageError
from kbnav.evaluation.datasets import NAMES, Dataset, load_file
from kbnav.evaluation.datasets.catalogue import ORIGINS, Remote, load_dataset
from kbnav.evaluation.datasets.fetch import fetch
from kbnav.evaluation.datasets.records import File
from kbnav.evaluation.gold import collect_gold, gold_file, take_gold
from kbnav.evaluation.records import GoldAnswer, read_gold
from tests.agents.parts import NumbersKB
from tests.knowledge.wikidata.serving import Answer, Served, in_turn, serving


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


QUESTIONS = json.dumps(
    [{"id": str(number), "question": f"Who is {number}?", "sparql": "SELECT ?x {}"} for number in range(4000)]
).encode()
DIGEST = hashlib.sha256(QUESTIONS).hexdigest()


FILE = Answer(QUESTIONS)


def cut(length: int) -> Answer:
    """The file's beginning, as where the connection ends then."""
    return Answer(QUESTIONS[:length], headers={"X-Length": str(len(QUESTIONS))})


def moved(to: str) -> Answer:
    return Answer(status=302, headers={"Location": to})


def origins(publisher: Served):
    return {"spinach-dev": (Remote(publisher.url + "/dev.json", "spinach/dev.json", len(QUESTIONS), DIGEST),)}


def test_a_dataset_is_downloaded_checked_and_read(tmp_path):
    told: list[tuple[str, int, int]] = []
    with serving(in_turn(FILE)) as publisher:
        (file,) = fetch("spinach-dev", tmp_path, origins=origins(publisher), progress=lambda *one: told.append(one))
        (again,) = fetch("spinach-dev", tmp_path, origins=origins(publisher))
    assert (file.path, file.size, file.sha256) == (tmp_path / "spinach" / "dev.json", len(QUESTIONS), DIGEST)
    assert (file.new, again.new, len(publisher.asked)) == (True, False, 1)
    assert told[-1] == ("spinach/dev.json", len(QUESTIONS), len(QUESTIONS))
    assert len(load_dataset("spinach-dev", tmp_path)) == 4000


def test_what_was_cut_off_is_asked_for_again_a_few_times(tmp_path):
    with serving(in_turn(cut(98_304), cut(49_152), FILE, cut(1))) as publisher:
        (file,) = fetch("spinach-dev", tmp_path, origins=origins(publisher))
        assert (file.sha256, len(publisher.asked)) == (DIGEST, 3)
        assert [path.name for path in file.path.parent.iterdir()] == ["dev.json"]
        with pytest.raises(ServiceError, match="cannot be reached"):
            fetch("spinach-dev", tmp_path / "other", origins=origins(publisher), retries=1)


def test_another_file_than_the_known_one_is_refused_and_none_of_it_kept(tmp_path):
    with serving(in_turn(Answer(QUESTIONS.replace(b"Who", b"Wha")))) as publisher:
        with pytest.raises(DataError, match="not the file that is known"):
            fetch("spinach-dev", tmp_path, origins=origins(publisher))
        assert not (tmp_path / "spinach").exists()
        (tmp_path / "spinach").mkdir()
        (tmp_path / "spinach" / "dev.json").write_bytes(b"[]")
        with pytest.raises(DataError, match="move it away and fetch again"):
            fetch("spinach-dev", tmp_path, origins=origins(publisher))
    assert (tmp_path / "spinach" / "dev.json").read_bytes() == b"[]"
    with serving(in_turn(Answer(QUESTIONS * 2))) as publisher, pytest.raises(BadResponse, match="sends more than"):
        fetch("spinach-dev", tmp_path / "other", origins=origins(publisher))


def test_a_redirect_is_followed_on_the_same_host_only(tmp_path):
    with serving(in_turn(moved("/moved.json"), FILE)) as publisher:
        (file,) = fetch("spinach-dev", tmp_path, origins=origins(publisher))
    assert file.sha256 == DIGEST
    with serving(in_turn(FILE)) as elsewhere, serving(in_turn(moved(elsewhere.url))) as publisher:
        with pytest.raises(BadResponse, match="only the same host is followed"):
            fetch("spinach-dev", tmp_path / "other", origins=origins(publisher))
        assert elsewhere.asked == []


def test_the_environments_proxy_is_used(tmp_path, monkeypatch):
    with serving(in_turn(FILE)) as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.delenv(name.replace("HTTP", "NO").replace("http", "no"), raising=False)
        remote = Remote("http://data.example/dev.json", "spinach/dev.json", len(QUESTIONS), DIGEST)
        fetch("spinach-dev", tmp_path, origins={"spinach-dev": (remote,)})
    assert [asked.headers["host"] for asked in proxy.asked] == ["data.example"]


def test_what_is_not_known_is_refused_and_every_address_is_one_of_a_commit(tmp_path):
    with pytest.raises(UsageError, match="no dataset 'spinach-deb'; did you mean 'spinach-dev'"):
        fetch("spinach-deb", tmp_path)
    assert set(ORIGINS) <= set(NAMES)
    urls = [remote.url for remotes in ORIGINS.values() for remote in remotes]
    assert all(url.startswith("https://") and len(url.split("/")[5]) == 40 for url in urls)


def test_the_known_digests_are_those_of_the_published_files(shared_data):
    """Held against copies of the published files, unpacked."""
    held = 0
    for remote in (remote for remotes in ORIGINS.values() for remote in remotes):
        plain = shared_data / "benchmarks" / remote.path
        packed = plain.with_name(plain.name + ".gz")
        path = packed if packed.exists() else plain
        if remote.sha256 and path.exists():
            content = File.open(path).data
            assert (len(content), hashlib.sha256(content).hexdigest()) == (remote.size, remote.sha256)
            held += 1
    assert held >= 3
