"""Gold answers, stored, frozen and taken again; and runs over questions: bounds, limits, failures, resuming."""

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from kbnav.answers.tables import Ranked, Ranking
from kbnav.errors import BadResponse, Banned, CredentialsError, DataError, ServiceError, UsageError
from kbnav.evaluation.datasets import NAMES, ORIGINS, Remote, fetch, find_dataset, load_dataset, load_file
from kbnav.evaluation.datasets.records import Dataset, File
from kbnav.evaluation.evaluate import EvaluationPlan, evaluate, score_folder
from kbnav.evaluation.gold import collect_gold, given_of_gold, gold_file, take_gold
from kbnav.evaluation.records import QUESTIONS as RECORDS
from kbnav.evaluation.records import GoldAnswer, SavedRun, read_gold, read_records, read_saved_run
from kbnav.evaluation.report import load_report, scores_table
from kbnav.evaluation.runner import Progress, System, agent_system, begin_run, run_questions
from kbnav.evaluation.scoring import normalised, score_run, stark_compat
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.models.cancellation import current_cancellation
from kbnav.retrieval.base import RetrievalOptions, candidate_ranges
from kbnav.runs.trajectory import Trace, Usage
from kbnav.settings.model import Settings
from tests.agents.parts import NumbersKB, walker
from tests.agents.parts import Script as Writer
from tests.evaluation.parts import Script, info_of, table
from tests.knowledge.parts import Over
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

    with pytest.raises(UsageError, match="of another knowledge base"):
        collect(dataset, Over(NumbersKB(), state=lambda: {"kb": "elsewhere"}), path)


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


@pytest.mark.parametrize("what", ["gold answers", "a run"])
def test_what_is_under_way_when_one_fails_is_stopped(dataset, tmp_path, what):
    begun, stopped = threading.Event(), threading.Event()

    def held(first: bool):
        if first:
            assert begun.wait(60)
            return Banned("banned")
        with current_cancellation().on_cancel(stopped.set):
            begun.set()
            stopped.wait(60)
        return None

    def before(query: str) -> None:
        if error := held(query != "SELECT 2"):
            raise error

    script = Script(lambda question: held(question == ASKED["q1"]) or table("Q1"))
    fails = {
        "gold answers": lambda: collect(dataset, NumbersKB(before), tmp_path / "gold.jsonl", jobs=2),
        "a run": lambda: run_questions(script.system, ASKED, tmp_path, jobs=2),
    }
    with pytest.raises(Banned):
        fails[what]()
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
    assert set(ORIGINS) == set(NAMES)
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
    script = Writer([f"```\n{DISCOVERED}\n```"])
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
    script = Writer(["1: 1", "1: 1", "yes\n- Polonium (Q979)\n- Radium (Q1128)"])
    saved = run("tog", script, ["curie"], topics="gold-results", width=1)
    steps = saved.records["curie"].run.path
    assert [step.call.tool for step in steps[:2]] == ["search_relations", "follow_relations"]
    assert set(steps[0].call.arguments["entity_ids"]) == {"Q979", "Q1128"}
    assert "Polonium" in script.prompts[0].title()
    assert "Radium" in script.prompts[0].title()
    assert saved.info.display_name == "tog (given entities of the gold answer)"
    changed = {"budget": None, "options": {"without": [{"a": 1}]}}
    assert replace(saved.info, settings=changed, from_gold="").display_name == "tog (without {'a': 1})"
    assert saved.info.topics == {"most": 20, "seed": 7}


def test_from_the_gold_answer_tog_falls_back_on_the_models_own_answer(run):
    script = Writer(["1: 0", "- Radium"])
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


ASKED = {f"q{number}": f"question {number}?" for number in range(12)}


def right(question: str):
    return table("Q1")


def test_as_many_questions_are_under_way_as_there_are_jobs_and_no_more(tmp_path):
    together = threading.Barrier(3, timeout=20)

    def meet(question: str):
        together.wait()
        return table("Q1")

    script = Script(meet)
    assert run_questions(script.system, ASKED, tmp_path, jobs=3) == "done"
    assert script.most == 3
    assert set(read_records(tmp_path)) == set(ASKED)


def test_what_was_answered_is_not_asked_again(tmp_path):
    first = Script(right)
    run_questions(first.system, dict(list(ASKED.items())[:5]), tmp_path)
    second = Script(right)
    heard: list[Progress] = []
    assert run_questions(second.system, ASKED, tmp_path, listener=heard.append) == "done"
    assert second.asked == list(ASKED.values())[5:]
    assert (heard[0].done, heard[0].resumed, heard[-1].done, heard[-1].total) == (5, 5, 12, 12)
    assert len((tmp_path / RECORDS).read_text().splitlines()) == 12


def test_a_failure_is_kept_with_its_reason_and_asked_again_only_on_request(tmp_path):
    def broken(question: str):
        if "3" in question:
            return ServiceError("the query service is down")
        if "4" in question:
            raise KeyError("a bug")
        return table("Q1")

    assert run_questions(Script(broken).system, ASKED, tmp_path) == "done"
    records = read_records(tmp_path)
    assert {name: record.error for name, record in records.items() if record.error} == {
        "q3": "ServiceError",
        "q4": "KeyError",
    }
    assert records["q3"].run.outcome.note == "the query service is down"
    assert records["q4"].run.outcome.note == "KeyError: 'a bug'"
    assert records["q4"].run.outcome.status == "failed"
    again = Script(right)
    run_questions(again.system, ASKED, tmp_path)
    assert again.asked == []
    run_questions(again.system, ASKED, tmp_path, retry_failed=True)
    assert again.asked == [ASKED["q3"], ASKED["q4"]]
    assert not any(record.error for record in read_records(tmp_path).values())


@pytest.mark.parametrize("error", [CredentialsError("no key"), Banned("banned")])
def test_without_a_key_or_after_a_ban_the_run_ends_and_nothing_is_recorded_of_it(tmp_path, error):
    def after_two(question: str):
        return error if question == ASKED["q2"] else table("Q1")

    with pytest.raises(type(error)):
        run_questions(Script(after_two).system, ASKED, tmp_path)
    assert set(read_records(tmp_path)) == {"q0", "q1"}


def test_a_service_that_stays_down_ends_the_run_after_ten_failures(tmp_path):
    with pytest.raises(ServiceError, match=r"10 failures in a row.*--retry-failed.*down"):
        run_questions(Script(lambda question: ServiceError("down")).system, ASKED, tmp_path)
    assert len(read_records(tmp_path)) == 10


def test_it_stops_at_the_cost_of_the_whole_run(tmp_path):
    script = Script(right, cost=0.5)
    assert run_questions(script.system, ASKED, tmp_path, max_cost=1.5) == "cost limit"
    assert len(script.asked) == 3
    assert run_questions(script.system, ASKED, tmp_path, max_cost=1.5) == "cost limit"
    assert len(script.asked) == 3
    heard: list[Progress] = []
    run_questions(script.system, ASKED, tmp_path, max_cost=2.5, listener=heard.append)
    assert heard[-1].cost == 2.5


def test_when_stopped_the_questions_under_way_end_and_are_kept(tmp_path):
    stop = threading.Event()

    def asks_to_stop(question: str):
        stop.set()
        return table("Q1")

    assert run_questions(Script(asks_to_stop).system, ASKED, tmp_path, stopped=stop.is_set) == "interrupted"
    assert set(read_records(tmp_path)) == {"q0"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"questions": ("q1",)}, "questions"),
        ({"dataset_sha256": "11"}, "dataset"),
        ({"prompts": {"policy.md": "22"}}, "prompts"),
        ({"gold_sha256": "33"}, "gold"),
        ({"settings": {"budget": {"steps": 3}}}, "setting budget.steps"),
    ],
)
def test_a_run_is_not_gone_on_with_under_other_conditions(tmp_path, change, named):
    begin_run(tmp_path, info_of(["q0"]))
    with pytest.raises(UsageError, match=f"differs in: {named};"):
        begin_run(tmp_path, replace(info_of(["q0"]), **change))


def test_settings_that_change_no_answer_may_change(tmp_path):
    settings = Settings(home=tmp_path)
    begin_run(tmp_path, info_of(["q0"], settings=settings.public(), started="monday"))
    moved = settings.model_copy(
        update={"home": tmp_path / "b", "cache_age": 0.0, "model_retries": 9, "database": SecretStr("postgresql://a/b")}
    )
    assert begin_run(tmp_path, info_of(["q0"], settings=moved.public(), started="tuesday")).started == "monday"
    hotter = settings.model_copy(update={"temperature": 0.3})
    with pytest.raises(UsageError, match="setting temperature"):
        begin_run(tmp_path, info_of(["q0"], settings=hotter.public()))


@pytest.fixture
def data(tmp_path: Path, demo_home: Path) -> Path:
    (tmp_path / "home").symlink_to(demo_home)
    folder = tmp_path / "data" / "prime" / "stark_qa"
    folder.mkdir(parents=True)
    lines = "".join(f"{n},Question {n}?,[{n}]\n" for n in range(40))
    (folder / "stark_qa.csv").write_text("id,query,answer_ids\n" + lines)
    (folder / "stark_qa_human_generated_eval.csv").write_text("id,query,answer_ids\n0,By hand?,[3]\n")
    (folder.parent / "split").mkdir()
    (folder.parent / "split" / "test.index").write_text("".join(f"{n}\n" for n in range(40)))
    return tmp_path / "data"


def asked(data: Path, out: Path, name: str, system: str = "bm25", **plan: Any) -> tuple[list[str], Mapping[str, Any]]:
    """The questions that a run over a set asks, and the options of its system."""
    script = Script(lambda _: Ranking((Ranked("3", 1.0),)))
    options: dict[str, Any] = {}

    def build(_: str, __: KnowledgeBase, settings: Settings) -> System:
        options.update(settings.options)
        return script.system

    settings = Settings(kb="demo", home=data.parent / "home", options=plan.pop("options", {}))
    assert evaluate(EvaluationPlan(system, find_dataset(name, data), settings, **plan), out, build=build) == "done"
    return script.asked, options


def test_a_sample_is_drawn_by_its_seed_and_kept_with_the_run(data, tmp_path):
    first, _ = asked(data, tmp_path / "a", "stark-prime-test", sample=0.1, seed=1)
    again, _ = asked(data, tmp_path / "b", "stark-prime-test", sample=0.1, seed=1)
    other, _ = asked(data, tmp_path / "c", "stark-prime-test", sample=0.1, seed=2)
    whole, _ = asked(data, tmp_path / "d", "stark-prime-test")
    assert first == again != other
    assert len(first) == len(set(first)) == 4
    assert first == [question for question in whole if question in first]
    assert len(whole) == 40
    kept = json.loads((tmp_path / "a" / "run.json").read_text())
    assert kept["sample"] == {"share": 0.1, "seed": 1}
    assert len(kept["questions"]) == 4
    with pytest.raises(UsageError, match="differs in: questions, sample"):
        asked(data, tmp_path / "a", "stark-prime-test", sample=0.1, seed=2)
    with pytest.raises(UsageError, match="above 0 and up to 1, not 2"):
        asked(data, tmp_path / "e", "stark-prime-test", sample=2)


def test_human_questions_have_no_recall_at_20_and_ten_nodes_are_scored(data, tmp_path, caplog):
    _, options = asked(data, tmp_path / "h", "stark-prime-human", "rerank")
    assert options["top_v"] == 10
    scores = score_folder(tmp_path / "h")
    assert scores.metrics == ("hit@1", "hit@5", "mrr")
    assert scores.all.values == {"hit@1": 1.0, "hit@5": 1.0, "mrr": 1.0}
    assert score_folder(tmp_path / "h", metrics=["recall@20"]).all.values["recall@20"] == 1.0  # KAR, Table 3
    assert asked(data, tmp_path / "i", "stark-prime-human", "rerank", options={"top_v": 7})[1]["top_v"] == 7
    caplog.clear()
    assert asked(data, tmp_path / "t", "stark-prime-test", "rerank")[1]["top_v"] == 20
    assert "40 of 40 answers in the gold, such as 0, are not in demo" in caplog.text  # the demo has no nodes of Prime
    assert "recall@20" in score_folder(tmp_path / "t").metrics
    assert read_saved_run(tmp_path / "t").info.sample == {}


@pytest.fixture
def demo_run(demo_home: Path, tmp_path: Path) -> tuple[Path, list[str]]:
    """A run on the demo with two equal scores, and one of 100 nodes without the answer; and the SKB's ids in order."""
    settings = Settings(kb="demo", home=demo_home)
    with open_kb(settings) as kb:
        skb = kb.skb  # type: ignore[attr-defined]
        ids = [skb.id(node) for node in range(len(skb.nodes))]
    records = [
        {"id": "tie", "question": "tie?", "nodes": [ids[3]]},
        {"id": "deep", "question": "deep?", "nodes": [ids[9]]},
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    rankings = {
        "tie?": Ranking((Ranked(ids[7], 2.0), Ranked(ids[5], 1.0), Ranked(ids[3], 1.0))),
        "deep?": Ranking(tuple(Ranked(one, -float(place)) for place, one in enumerate(ids[100:200]))),
    }
    dataset = find_dataset(str(tmp_path / "q.jsonl"), tmp_path)
    build = lambda *_: Script(rankings.__getitem__).system  # noqa: E731
    assert evaluate(EvaluationPlan("bm25", dataset, settings), tmp_path / "run", build=build) == "done"
    return tmp_path / "run", ids


def test_a_run_is_scored_as_starks_code_does(demo_run, demo_home):
    folder, ids = demo_run
    run = read_saved_run(folder)
    standard = score_run(run)
    assert [one.values["mrr"] for one in standard.questions] == [pytest.approx(1 / 3), 0.0]
    assert (standard.mode, standard.cut) == ("standard", 1)
    assert (
        "1 question has no answer there, and of whole rankings it may be higher by 0.50 at most" in standard.notes()[0]
    )
    like_stark = stark_compat(run, Settings(home=demo_home))
    assert list(like_stark.candidates) == ids
    scores = score_run(like_stark)
    # ids[3] comes before its equal ids[5]; ids[9] is the tenth of those behind the 100 that were listed.
    assert [one.values["mrr"] for one in scores.questions] == [pytest.approx(1 / 2), pytest.approx(1 / 110)]
    assert (scores.mode, scores.cut, len(scores.notes())) == ("stark-compat", 0, 1)


def test_the_commands_say_how_rankings_were_scored(demo_run, demo_home, monkeypatch, kbnav):
    folder, _ = demo_run
    monkeypatch.setenv("KBNAV_HOME", str(demo_home))
    out = kbnav("eval", "score", str(folder), "--stark-compat")[1]
    assert "mrr        25.45" in out
    assert "stark-compat: all candidates are ranked" in out
    assert json.loads((folder / "scores.json").read_text())["mode"] == "stark-compat"
    assert "| 25.5 |" in kbnav("eval", "report", str(folder), "--stark-compat")[1]
    assert kbnav("eval", "score", str(folder), "--kb", "demo")[0] == 2


@pytest.mark.parametrize(
    ("style", "answers"), [("stark-amazon", ["product"]), ("stark-mag", ["paper"]), ("stark-prime", []), ("plain", [])]
)
def test_products_answer_on_amazon_papers_on_mag_and_any_node_elsewhere(style, answers):
    """STaRK, section 2.3; no range stands for all nodes."""
    ranges = {"product": (0, 4), "brand": (4, 6), "author": (6, 9), "paper": (9, 12)}
    skb = SimpleNamespace(meta=SimpleNamespace(style=style), type_names=[*ranges], type_range=ranges.__getitem__)
    assert candidate_ranges(skb, RetrievalOptions()) == ([ranges[one] for one in answers] or None)
    assert candidate_ranges(skb, RetrievalOptions(candidates=("author",))) == [(6, 9)]
