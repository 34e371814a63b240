"""Questions that people write and judge on pages, in a real browser, and what the harness makes of them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from kbnav.apps.web.routes.evaluation import collect_router as collect
from kbnav.apps.web.routes.evaluation import judge_router as judge
from kbnav.apps.web.routes.explore import explorer_of
from kbnav.apps.web.routes.explore import router as explore
from kbnav.apps.web.server import small_app
from kbnav.apps.web.service import open_service
from kbnav.errors import UnknownId, UsageError
from kbnav.evaluation.datasets import Dataset, load_file
from kbnav.evaluation.human_evaluation import (
    ASPECTS,
    Rating,
    compare_questions,
    likeness,
    open_collection,
    open_judging,
    rating_rates,
    ratings_markdown,
)
from kbnav.knowledge.skb.exploring import Explorer
from kbnav.runs.journal import read_journal
from tests.apps.web.parts import Served, web_settings
from tests.apps.web.test_accessibility import faults, look  # noqa: F401 - a fixture
from tests.knowledge.skb.sources import write_jsonl

LETTER = "What string thing with uneven holes hides a letter of love?"
PUBLISHED = {  # of how many people, and how many rated above the middle and at it or above: STaRK's Table 5
    "amazon": (19, (14, 17), (13, 17), (17, 18)),
    "mag": (19, (18, 19), (14, 16), (13, 16)),
    "prime": (28, (19, 26), (20, 23), (20, 25)),
}
TABLE_5 = {
    "amazon": ((73.6, 89.5), (68.4, 89.5), (89.5, 94.7)),
    "mag": ((94.7, 100.0), (73.7, 84.2), (68.4, 84.2)),
    "prime": ((67.8, 92.8), (71.4, 82.1), (71.4, 89.3)),
    "Average": ((78.7, 94.1), (71.2, 85.3), (76.4, 89.4)),  # printed there as 71.0, which is not its rows' mean
}


@pytest.fixture
def collecting(web_home: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a page on which questions of instruments are written, and the file that they go to."""
    settings, out = web_settings(web_home, "demo"), tmp_path / "demo-human.jsonl"
    with open_service(settings) as service:
        explorer = explorer_of(service.kb("demo"))
        with open_collection(out, explorer, ["instrument"], seed=1) as collection:
            app = small_app(settings, [collect, explore], service, collection=collection, count=60)
            with Served(app) as server:
                yield server.url, out


def test_somebody_writes_a_question_and_the_harness_asks_it(page, collecting, kbnav, web_home, tmp_path, monkeypatch):
    url, out = collecting
    page.goto(url)
    page.fill("#name", "Ada L.")
    page.press("#name", "Enter")
    page.wait_for_selector(".todo[open]")
    assert page.locator(".drawn li").count() == 52  # all instruments there are
    assert set(page.locator(".drawn small").all_inner_texts()) == {"instrument"}
    page.click(".drawn a:has-text('The Brown Eye')")
    page.wait_for_selector("h2 >> text=The Brown Eye")
    assert "love letter" in page.inner_text(".document")
    assert page.inner_text(".kin:has-text('made_by') li") == "Marit Skarrow person"
    assert page.locator(".ways li").count() >= 3
    beside = page.locator("main a[target=_blank]").count()  # what was written so far is not left
    assert beside == page.locator("main a").count() - 1
    page.fill("#question", "Who made the brown  eye?")
    page.click("text=Go on")
    page.wait_for_selector("#problem >> text=The Brown Eye")
    assert page.input_value("#question") == "Who made the brown eye?"
    page.fill("#question", LETTER)
    page.click("text=Go on")
    page.wait_for_selector(".fits")
    assert page.inner_text("blockquote") == LETTER
    assert 2 <= page.locator("input[name=fits]").count() <= 20
    other = page.get_attribute("input[name=fits] >> nth=1", "value")
    page.check("input[name=fits] >> nth=1")
    page.click("text=Save the question")
    page.wait_for_selector("[role=status] >> text=1 question by Ada L.")
    assert LETTER in page.inner_text(".drawn li:has-text('The Brown Eye')")
    (question,) = load_file("jsonl", out).questions
    assert (question.text(), question.nodes) == (LETTER, ("instrument:the-brown-eye", other))
    assert (question.meta["by"], question.meta["kb"], question.meta["node"]) == (
        *("Ada L.", "demo", "instrument:the-brown-eye"),
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", question.meta["when"])
    monkeypatch.setenv("KBNAV_HOME", str(web_home))
    monkeypatch.chdir(tmp_path)
    kbnav.out("eval", "run", str(out), "--kb", "demo", "--system", "bm25", "--out", "run")
    head = kbnav.out("eval", "report", "run").split("| Run ")[1].splitlines()[0]
    assert all(one in head for one in ("Hit@1", "Hit@5", "MRR"))
    assert "Recall@20" not in head  # Table 8: people's questions may have more answers than that


@pytest.mark.slow
def test_axe_finds_nothing_where_questions_are_written_and_judged(
    look,  # noqa: F811 - the fixture
    collecting,
    sets,
    tmp_path,
):
    url, _ = collecting
    look.context.set_extra_http_headers({"Accept-Language": "es"})
    look.goto(url)
    look.fill("#name", "x")
    look.press("#name", "Enter")
    look.wait_for_selector(".drawn")
    look.click(".drawn a >> nth=0")
    look.fill("#question", "¿Qué?")
    assert look.viewport_size["width"] > 400 or faults(look) == []
    look.click(".ask-people button")
    look.wait_for_selector(".fits")
    assert look.viewport_size["width"] < 400 or faults(look) == []
    assert look.evaluate("document.documentElement.scrollWidth <= innerWidth")
    with (
        open_judging(tmp_path / "ratings.jsonl", sets, count=10, seed=0) as judging,
        Served(small_app(web_settings(tmp_path), [judge], judging=judging)) as server,
    ):
        look.goto(server.url)  # the name is known: it is the same host
        look.wait_for_selector(".sample")
        assert faults(look) == []


def test_nodes_are_drawn_for_each_person_and_names_give_answers_away(demo_kb, tmp_path):
    with open_collection(tmp_path / "q.jsonl", Explorer(demo_kb), ["ship", "tune"], seed=3) as found:
        drawn = [node.id for node in found.drawn("a", 0, 10)]
        assert drawn == [node.id for node in found.drawn("a", 0, 10)]
        assert drawn != [node.id for node in found.drawn("b", 0, 10)]
        assert set(drawn) != {node.id for node in found.drawn("a", 1, 10)}
        every = {node.id for node in found.drawn("a", 0, 1000)}
        assert every == {node.id for kind in ("ship", "tune") for node in Explorer(demo_kb).of_type(kind, 0, 99).nodes}
        assert found.names("What is THE HERON, please?", "tune:the-heron")
        assert not found.names("What do herons eat?", "tune:the-heron")
        found.add("a", "One?", "ship:heron", ["tune:the-heron", "ship:heron"], ["tune:the-heron"])
        with pytest.raises(UnknownId):
            found.add("a", "Two?", "ship:heron", ["ship:none"], [])
        with (
            pytest.raises(UsageError, match="is being written"),
            open_collection(tmp_path / "q.jsonl", Explorer(demo_kb)),
        ):
            pass
    with open_collection(tmp_path / "q.jsonl", Explorer(demo_kb)) as again:
        assert [one.nodes for one in again.of("a")] == [("ship:heron", "tune:the-heron")]
        assert again.add("b", "Three?", "ship:heron", [], []).id == "human-2"
    with pytest.raises(UnknownId), open_collection(tmp_path / "q.jsonl", Explorer(demo_kb), ["none"]):
        pass


def test_what_is_sent_by_others_or_has_no_name_is_not_kept(collecting):
    url, out = collecting
    form = {"node": "instrument:heron", "question": "What?", "looked": "1"}
    requests.post(f"{url}/write", form, timeout=60)
    named = requests.Session()
    named.post(f"{url}/name", {"name": "Zoë; Path=/x"}, timeout=60)
    assert named.post(f"{url}/write", form, headers={"Origin": "https://evil.example"}, timeout=60).status_code == 403
    assert named.post(f"{url}/write", {**form, "node": "none"}, timeout=60).status_code == 404
    assert out.read_bytes() == b""
    assert named.post(f"{url}/write", form, timeout=60).status_code == 200
    assert json.loads(out.read_text("utf-8"))["meta"]["by"] == "Zoë; Path=/x"
    assert named.get(f"{url}/entry/demo/instrument%3Aheron?run=x", timeout=60).status_code == 200


def rating(dataset: str, by: str, *scores: int) -> Rating:
    return Rating(dataset, by, "now", ("1",), *scores)


def test_the_rates_are_those_of_table_5():
    """Each figure there is a whole number of 19 or 28 people, cut off or rounded."""
    ratings = [
        rating(name, f"{name} {one}", *(4 if one < high else 3 if one < middle else 2 for high, middle in counts))
        for name, (people, *counts) in PUBLISHED.items()
        for one in range(people)
    ]
    rows = {row.dataset: row for row in rating_rates(ratings)}
    assert list(rows) == list(TABLE_5)
    for name, published in TABLE_5.items():
        for aspect, (positive, non_negative) in zip(ASPECTS, published, strict=True):
            rate = rows[name].rates[aspect]
            assert 100 * rate.positive == pytest.approx(positive, abs=0.11), (name, aspect)
            assert 100 * rate.non_negative == pytest.approx(non_negative, abs=0.11), (name, aspect)
    assert "| mag | 19 | 94.7 / 100.0 | 73.7 / 84.2 | 68.4 / 84.2 |" in ratings_markdown(list(rows.values()))
    twice = rating_rates([rating("a", "x", 1, 1, 1), rating("a", "x", 5, 4, 3)])
    assert [(row.people, *row.rates.values()) for row in twice] == [(1, (1.0, 1.0), (1.0, 1.0), (0.0, 1.0))]


def dataset(file: Path, questions: list[str]) -> Dataset:
    write_jsonl(file, [{"id": str(n), "question": text} for n, text in enumerate(questions)])
    return load_file("jsonl", file)


@pytest.fixture
def sets(tmp_path: Path) -> list[Dataset]:
    """Two sets of questions, of people and made."""
    people = dataset(tmp_path / "shop-human.jsonl", [f"Which ship sank {n} times?" for n in range(12)])
    return [people, dataset(tmp_path / "shop.jsonl", [f"<b>Item {n}</b> of what?" for n in range(3)])]


def test_people_rate_a_sample_of_each_set_and_the_command_prints_the_rates(page, sets, tmp_path, kbnav):
    out = tmp_path / "ratings.jsonl"
    with (
        open_judging(out, sets, count=10, seed=0) as judging,
        Served(small_app(web_settings(tmp_path), [judge], judging=judging)) as server,
    ):
        page.goto(server.url)
        page.fill("#name", "Bo")
        page.press("#name", "Enter")
        for turn in (1, 2):
            page.wait_for_selector(f"text=Sample {turn} of 2")
            made = page.locator(".sample li").count() == 3
            assert page.locator(".sample li").count() in (3, 10)
            assert page.locator(".sample b").count() == 0
            for aspect in ASPECTS:
                page.check(f"input[name={aspect}][value='{2 if made else 4}']")
            page.click(".rate button")
        page.wait_for_selector("text=Thank you, Bo.")
        named = {"Cookie": "kbnav_name=Cy"}
        left = judging.left("Cy")[0]
        for scores in ({}, {"naturalness": "6", "diversity": "1", "practicality": "1"}):
            sent = requests.post(f"{server.url}/rate", {"dataset": left, **scores}, headers=named, timeout=60)
            assert sent.status_code == 422
    assert {(one.dataset, one.naturalness, len(one.questions)) for one in read_journal(out, Rating)} == {
        *(("shop", 2, 3), ("shop-human", 4, 10))
    }
    printed = kbnav.out("eval", "judge", "--rates", "--out", str(out))
    assert "| shop-human | 1 | 100.0 / 100.0 | 100.0 / 100.0 | 100.0 / 100.0 |" in printed
    assert printed.splitlines()[-1] == "| Average | 1 | 50.0 / 50.0 | 50.0 / 50.0 | 50.0 / 50.0 |"
    printed = kbnav.out("eval", "judge", "--rates", "--json", "--out", str(out))
    told = {row["dataset"]: row["rates"]["diversity"]["positive"] for row in json.loads(printed)}
    assert told == {"shop": 0.0, "shop-human": 1.0, "Average": 0.5}
    assert kbnav("eval", "judge", "--out", str(out))[0] == 2


def test_pairs_are_alike_and_each_question_is_in_one(tmp_path):
    people = [
        "Red sweatshirt for proud fans",
        "Find me papers on better condensers by Stojan Hrnjak",
        "Help me. My patient has pain in the joints, a bone dies for want of blood, what is this sneaky thing?",
    ]
    made = [
        "Red mount for bikes",
        "Show me papers on separability by Seung Hyeok Kye",
        "My joints have pain, and I think about what my blood does, what is a thing that helps against all this?",
    ]
    found = compare_questions(dataset(tmp_path / "p-human.jsonl", people), dataset(tmp_path / "m.jsonl", made), 2)
    assert [(one.human, one.made) for one in found] == list(zip(people, made, strict=True))
    assert [one.kind.split()[0] for one in found] == ["short", "names", "long,"]
    assert likeness("a b c d", "a b x y") == pytest.approx(2 / 6)
    assert likeness("a b", "a b c d") == pytest.approx(2 / 4 * 0.5)
