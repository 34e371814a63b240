"""Gold answers: stored, frozen from a knowledge base, and taken again."""

import hashlib
import json
import re
import threading
from pathlib import Path

import pytest

from kbnav.errors import BadResponse, Banned, DataError, ServiceError, UsageError
from kbnav.evaluation.datasets import NAMES, ORIGINS, Remote, fetch, find_dataset, load_dataset, load_file
from kbnav.evaluation.datasets.records import Dataset, File
from kbnav.evaluation.evaluate import EvaluationPlan, evaluate, score_folder
from kbnav.evaluation.gold import collect_gold, given_of_gold, gold_file, take_gold
from kbnav.evaluation.records import GoldAnswer, SavedRun, read_gold, read_saved_run
from kbnav.evaluation.report import load_report, scores_table
from kbnav.evaluation.runner import System, agent_system
from kbnav.evaluation.scoring import normalised, score_run
from kbnav.models.cancellation import current_cancellation
from kbnav.runs.trajectory import Trace, Usage
from kbnav.settings.model import Settings
from tests.agents.parts import NumbersKB, Script, walker
from tests.evaluation.parts import table
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
    answers = take_gold(dataset, dataset.questions[:1], path)
    assert list(answers) == ["two"]
    with pytest.raises(UsageError, match="no gold answer of 4 questions, the first is wrong"):
        take_gold(dataset, dataset.questions, path)


def test_an_endpoint_that_stays_down_ends_it(tmp_path):
    path = tmp_path / "down.jsonl"
    lines = [{"id": str(number), "question": "?", "sparql": "SELECT down"} for number in range(15)]
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ServiceError, match="10 failures in a row"):
        collect(load_file("jsonl", path), NumbersKB(), tmp_path / "gold.jsonl")


def test_what_is_under_way_when_it_fails_is_stopped(dataset, tmp_path):
    begun, stopped = threading.Event(), threading.Event()

    class Held(NumbersKB):
        def execute_query(self, query, *, language="en"):
            if query != "SELECT 2":
                assert begun.wait(60)
                raise Banned("banned")
            with current_cancellation().on_cancel(stopped.set):
                begun.set()
                stopped.wait(60)
            return super().execute_query(query)

    with pytest.raises(Banned):
        collect(dataset, Held(), tmp_path / "gold.jsonl", jobs=2)
    assert stopped.is_set()


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
        by_hand = re.escape(f"{publisher.url}/dev.json elsewhere, and put it there: {tmp_path}/other/spinach/dev.json")
        with pytest.raises(ServiceError, match=by_hand):
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


DISCOVERED = "SELECT ?x { ?x wdt:P61 wd:Q7186 }"
GIVEN = [
    {"id": "curie", "question": "Which elements were discovered by Marie Curie?", "sparql": DISCOVERED},
    {"id": "number", "question": "What is the number of tungsten?", "sparql": "SELECT ?n { wd:Q743 wdt:P1086 ?n }"},
    {"id": "all", "question": "Which elements are there?", "sparql": "SELECT ?x { ?x wdt:P31 wd:Q11344 }"},
    {"id": "is", "question": "Is polonium an element?", "sparql": "ASK { wd:Q979 wdt:P31 wd:Q11344 }"},
]


@pytest.fixture
def run(mini_home: Path, tmp_path: Path):
    """Evaluates a baseline with a scripted model over some of these questions."""

    def work(name: str, script, ids: list[str], **options: object) -> SavedRun:
        file = tmp_path / "q.jsonl"
        file.write_text("\n".join(json.dumps(one) for one in GIVEN if one["id"] in ids) + "\n")
        settings = Settings(kb="mini", home=mini_home, model="scripted", language="en", options=options)

        def build(name: str, kb, own: Settings) -> System:
            return agent_system(walker(name, kb, own, ask=script))

        plan = EvaluationPlan(name, find_dataset(str(file), tmp_path), settings, seed=7)
        assert evaluate(plan, tmp_path / "run", build=build) == "done"
        return read_saved_run(tmp_path / "run")

    return work


def test_the_gold_querys_entities_are_in_the_prompt_and_the_run_is_marked(run, tmp_path):
    script = Script([f"```\n{DISCOVERED}\n```"])
    saved = run("one-query", script, ["curie"], entities="gold")
    assert "The query needs these entities:\n- wd:Q7186 (Marie Curie)\n\n" in script.prompts[0]
    assert "P61" not in script.prompts[0]
    assert (saved.info.from_gold, saved.info.settings["options"]) == ("entities", {"entities": "gold"})
    assert "Q7186" in saved.records["curie"].run.path[0].call.thought
    marked = "one-query (given the gold query's entities)"
    report = load_report([tmp_path / "run"])
    assert marked in scores_table(report, "markdown")
    assert score_run(saved).all.values["em"] == 1


def test_tog_begins_at_entities_of_the_gold_answer_and_the_run_is_marked(run):
    # Relations, links, "is it enough?": from both elements at once, though the beam is one wide.
    script = Script(["1: 1", "1: 1", "yes\n- Polonium (Q979)\n- Radium (Q1128)"])
    saved = run("tog", script, ["curie"], topics="gold-results", width=1)
    steps = saved.records["curie"].run.path
    assert [step.call.tool for step in steps[:2]] == ["search_relations", "follow_relations"]
    assert set(steps[0].call.arguments["entity_ids"]) == {"Q979", "Q1128"}
    assert "Polonium" in script.prompts[0].title()
    assert "Radium" in script.prompts[0].title()
    assert saved.info.display_name == "tog (given entities of the gold answer)"
    assert saved.info.topics == {"most": 20, "seed": 7}


def test_from_the_gold_answer_tog_falls_back_on_the_models_own_answer(run):
    script = Script(["1: 0", "- Radium"])
    saved = run("tog", script, ["all"], topics="gold-results")
    assert script.purposes == ["score relations", "recall"]
    first, second, _ = saved.records["all"].run.path
    assert len(first.call.arguments["entity_ids"]) == 20
    assert len({fact.source for fact in first.facts}) == 20
    assert second.call.tool == "recall"


def test_topics_are_twenty_at_most_drawn_with_the_seed(mini_kb):
    ids = [f"Q{number}" for number in range(1, 61)]
    gold = [GoldAnswer("many", "?", "stored", table=table(*ids)), GoldAnswer("few", "?", "stored", table=table("Q979"))]
    given = given_of_gold("results", gold, mini_kb, 1)
    assert len(given["many"]) == 20
    assert set(given["many"]) < set(ids)
    assert given["few"] == {"Q979": "polonium"}
    assert given == given_of_gold("results", gold, mini_kb, 1)
    assert set(given["many"]) != set(given_of_gold("results", gold, mini_kb, 2)["many"])
    with pytest.raises(UsageError, match="no question has the gold query's entities to give"):
        given_of_gold("entities", gold, mini_kb)


@pytest.mark.parametrize(
    ("system", "option", "what"),
    [
        ("one-query", "entities=gold", "the gold query's entities"),
        ("tog", "topics=gold-results", "entities of the gold answer"),
    ],
)
def test_ask_has_no_gold_answer_to_give(mini_home, monkeypatch, kbnav, system, option, what):
    monkeypatch.setenv("KBNAV_HOME", str(mini_home))
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    code, _, error = kbnav("ask", "--model", "gpt-4o", "--system", system, "--set", option, "Who?")
    assert (code, f"{system} is given {what} by kbnav eval alone" in " ".join(error.split())) == (2, True)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("The  U.S. Congress", "us congress"),
        ("Jean-Paul “Sartre”", "jean paul sartre"),
        ("1,500.0", "1500"),
        ("1898-07-18T00:00:00Z", "1898-07-18"),
        ("The A", "the a"),
        ("?!", "?!"),
    ],
)
def test_labels_are_compared_without_what_a_writer_may_vary(text, same):
    assert normalised(text) == normalised(same)


def test_words_are_scored_by_labels_that_are_kept_with_the_run(run, tmp_path, monkeypatch, kbnav, mini_home):
    said = {"elements": "- Radium\n- The Polonium!", "number": "- 74", "Is": "- true"}

    def model(prompt: str, trace: Trace, **_: object) -> str:
        trace.spend(Usage(calls=1))
        return next(text for word, text in said.items() if word in prompt.split("Question:")[1].split("?")[0])

    saved = run("direct", model, ["curie", "number", "is"])
    by_id = {one.id: one.values["em"] for one in score_run(saved).questions}
    assert by_id == {"curie": 0, "number": 0, "is": 0}
    monkeypatch.setenv("KBNAV_HOME", str(mini_home))
    line = ("eval", "score", str(tmp_path / "run"), "--by", "labels")
    shown = kbnav(*line)[1]
    assert "by labels: English labels are compared" in shown
    monkeypatch.setenv("KBNAV_KB", "no-such")
    assert kbnav(*line, "--kb", "nowhere")[1] == shown  # nothing is left to ask
    assert json.loads((tmp_path / "run" / "labels.json").read_text()) == {"Q1128": "radium", "Q979": "polonium"}
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert scores["by"] == "labels"
    assert {one["id"]: one["values"]["em"] for one in scores["questions"]} == {"curie": 1, "number": 1, "is": 1}
    assert score_folder(tmp_path / "run").by == "ids"
