"""Running a system over questions: bounds, limits, failures, resuming."""

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from kbnav.answers.tables import Ranked, Ranking
from kbnav.errors import Banned, CredentialsError, ServiceError, UsageError
from kbnav.evaluation.datasets import find_dataset
from kbnav.evaluation.evaluate import EvaluationPlan, evaluate, score_folder
from kbnav.evaluation.records import QUESTIONS, read_records, read_saved_run
from kbnav.evaluation.runner import Progress, System, begin_run, run_questions
from kbnav.evaluation.scoring import score_run, stark_compat
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.models.cancellation import current_cancellation
from kbnav.retrieval.base import RetrievalOptions, candidate_ranges
from kbnav.settings.model import Settings
from tests.evaluation.parts import Script, info_of, table

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
    assert len((tmp_path / QUESTIONS).read_text().splitlines()) == 12


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


def test_what_is_under_way_when_a_run_fails_is_stopped(tmp_path):
    begun, stopped = threading.Event(), threading.Event()

    def held(question: str):
        if question == ASKED["q1"]:
            assert begun.wait(60)
            return Banned("banned")
        with current_cancellation().on_cancel(stopped.set):
            begun.set()
            stopped.wait(60)
        return table("Q1")

    with pytest.raises(Banned):
        run_questions(Script(held).system, ASKED, tmp_path, jobs=2)
    assert stopped.is_set()


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

    chosen = plan.pop("options", {})
    settings = Settings(kb="demo", home=data.parent / "home", options=chosen)
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
