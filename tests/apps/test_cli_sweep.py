"""--system and --set on the command line, and ``kbnav eval sweep``: each value's numbers, repeats and costs."""

import json
import threading
import tomllib
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from kbnav.errors import ServiceError
from kbnav.evaluation.records import read_records
from kbnav.knowledge.checking import Finding, broken, check_kb
from kbnav.knowledge.open import bundled_mirror, open_kb
from kbnav.knowledge.serving import MirrorServer
from kbnav.knowledge.wikidata.kb import WikidataKB, endpoints_of
from kbnav.settings.model import Settings
from tests.apps.parts import Cli
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import serving as endpoint
from tests.knowledge.skb.sources import write_jsonl
from tests.knowledge.wikidata.foreign import BASE, build_foreign
from tests.knowledge.wikidata.serving import Answer, serving
from tests.models.stub import Canned, ModelStub, completion

QUESTION = "Which ship built by Marit Skarrow was painted yellow?"
QUESTIONS = [("1", QUESTION, ["ship:keeper"]), ("2", "What did Marit Skarrow build?", ["ship:little-auk"])]


def write_questions(rows: Iterable[tuple[str, str, list[str]]]) -> None:
    write_jsonl(Path("q.jsonl"), [{"id": name, "question": text, "nodes": nodes} for name, text, nodes in rows])


@pytest.fixture
def kbnav(capfd, monkeypatch, tmp_path, demo_home):
    """Run a command as a person would, where two questions are; gives exit code, output and error output."""
    monkeypatch.setenv("KBNAV_HOME", str(demo_home))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    write_questions(QUESTIONS)
    return Cli(monkeypatch, capfd)


def rows_of(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["name"].partition("=")[2]: row for row in json.loads((folder / "sweep.json").read_text())}


def test_every_value_has_its_own_numbers_and_its_own_options(kbnav, tmp_path):
    given = ("eval", "sweep", "q.jsonl", "--system", "bm25", "--kb", "demo", "--out", "sweep")
    code, out, error = kbnav(*given, "--vary", "candidates=ship,instrument+name_weight=2.0", "--repeat", "2")
    assert (code, error.count("Traceback")) == (0, 0)
    found = rows_of(tmp_path / "sweep")
    assert list(found) == ["ship", "instrument+name_weight=2.0"]
    for value, row in found.items():
        runs = [tmp_path / "sweep" / f"candidates={value}{number}" for number in ("", ".2")]
        scores = [json.loads((one / "scores.json").read_text())["all"]["values"]["hit@1"] for one in runs]
        seconds = [fmean(one.run.seconds for one in read_records(folder).values()) for folder in runs]
        assert float(row["hit@1"]) == pytest.approx(fmean(scores))
        assert float(row["seconds"]) == pytest.approx(fmean(seconds))
        assert float(row["seconds_sd"]) == pytest.approx(stdev(seconds))
        assert (row["runs"], row["questions"], row["cost"]) == (2, 2, None)
    assert [float(row["hit@1"]) for row in found.values()] == [0.5, 0.0]  # so that one's are not the other's
    options = json.loads((tmp_path / "sweep" / "candidates=instrument+name_weight=2.0" / "run.json").read_text())
    assert options["settings"]["options"]["name_weight"] == 2.0
    last = out.strip().splitlines()[-2:]
    for printed, (value, row) in zip(last, found.items(), strict=True):
        assert printed.startswith(f"| candidates={value} |")
        assert f"| {100 * float(row['hit@1']):.2f} ±" in printed


class Planning(ModelStub):
    """Plans, answers and words, by what it is asked."""

    def reply(self, asked: dict[str, Any]) -> Canned:
        text = asked["messages"][-1]["content"]
        if "You plan how to answer" in text:
            return completion("<PATH>^built by</PATH>\n<PATH>built by</PATH>")
        return completion("- Keeper (ship:keeper)" if "from what a graph shows" in text else "The Keeper.")


def test_a_value_costs_the_same_on_a_warm_cache(kbnav, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    (tmp_path / "kbnav.toml").write_text("[prices.stub]\nprompt = 10000.0\ncompletion = 50000.0\n")
    vary = ("--vary", "paths=1,2")
    with Planning([]) as stub:
        model = ("--model", "stub", "--base-url", stub.base_url)
        given = ("eval", "sweep", "q.jsonl", "--limit", "1", "--system", "rog", "--kb", "demo", *model, *vary)
        out = kbnav.out(*given, "--out", "cold")
        asked = len(stub.requests)
        out = kbnav.out(*given, "--out", "warm")
        assert len(stub.requests) - asked < asked  # the cache was warm
    cold, warm = rows_of(tmp_path / "cold"), rows_of(tmp_path / "warm")
    for value in ("1", "2"):
        # a plan, an answer and its wording: 100 tokens in at a cent each and 20 out at five, three times
        assert (float(cold[value]["calls"]), float(cold[value]["cost"])) == (3.0, pytest.approx(6.0))
        assert [cold[value][name] for name in ("calls", "tokens", "cost", "f1")] == [
            warm[value][name] for name in ("calls", "tokens", "cost", "f1")
        ]
    assert (cold["1"]["calls_replayed"], cold["2"]["calls_replayed"] > 0) == (0, True)
    assert "Replayed calls" in out
    _, out, _ = kbnav("eval", "report", "cold/paths=2", "warm/paths=2", "--json")
    first, second = json.loads(out)["runs"]
    assert [first[name] for name in ("cost", "tokens")] == [second[name] for name in ("cost", "tokens")]
    assert first["cost"] == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kb", "demo", "--system", "tog"], "the system tog needs a model: name one with --model"),
        (["--kb", "demo", "--system", "gog", "--model", "replay:run.json"], "the system gog needs a model"),
        (["--kb", "demo", "--system", "pasemiqa", "--set", "width=3"], "pasemiqa has no option 'width'; there are: "),
        (["--kb", "demo", "--system", "pasemiqa", "--set", "k=none"], "pasemiqa: k: Input should be a valid integer"),
        (["--kb", "demo", "--set", "bm25.depth=3"], "skb is not made of other systems, so no option of it begins"),
    ],
)
def test_what_cannot_be_is_refused_with_one_line(kbnav, arguments, message):
    error = kbnav.refused("ask", "--quiet", *arguments, "Which ship?")
    assert (message in error, len(error.splitlines())) == (True, 1)


def test_agents_that_name_their_answer_are_scored_by_macro_f1_too(kbnav):
    # The same two ships are named for both questions. Of the first they are the gold answer, F1 1, of the second not.
    asked = [("1", ["ship:keeper", "ship:little-auk"]), ("2", ["ship:heron", "ship:gannet"])]
    write_questions((name, QUESTION, nodes) for name, nodes in asked)
    out = kbnav.out("eval", "run", "--system", "pasemiqa", "q.jsonl", "--kb", "demo", "--out", "r")
    assert "f1         50.00" in out
    out = kbnav.out("eval", "run", "--system", "bm25", "q.jsonl", "--kb", "demo", "--out", "b")
    assert "mrr" in out
    assert "f1 " not in out
    assert "mrr" in kbnav.out("eval", "compare", "r", "b")


LABELLED = """
@prefix ex: <http://data.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:one a ex:Thing ; rdfs:label "the first"@en ; ex:next ex:two .
ex:two a ex:Thing ; rdfs:label "the second"@en .
"""


def checked(settings: Settings) -> tuple[dict[str, Finding], list[str]]:
    """What was found of a knowledge base, by what it is, and what agents lack."""
    with open_kb(settings) as kb:
        found = list(check_kb(kb, settings))
        return {one.what: one for one in found}, broken(found, kb)


def test_the_bundled_mirror_has_all_that_agents_need(kbnav):
    out = kbnav.out("check")
    assert "✓ search" in out
    assert "- vectors" in out
    assert "set endpoints.vector" in out
    assert "agents have what they need" in out


def test_what_cannot_be_opened_is_exit_code_3_and_no_name_is_2(kbnav, monkeypatch):
    monkeypatch.setenv("KBNAV_LIMITS__RETRIES", "0")
    assert kbnav("check", "--kb", "http://127.0.0.1:9")[0] == 3
    assert "no knowledge base 'nowhere'" in kbnav.refused("check", "--kb", "nowhere")


def test_an_endpoint_is_tried_as_what_it_is_and_told_by_its_label_predicates_and_its_classes(tmp_path):
    with endpoint(LABELLED) as served:
        found, lacks = checked(Settings(kb=served.url, home=tmp_path))
    assert ([found[one].verdict for one in ("queries", "search", "entry", "labels")], lacks) == (["works"] * 4, [])
    assert "rdfs:label" in found["labels"].says
    assert found["classes"].says == "1 seen, the largest: thing (2)"


NAMELESS = """
@prefix v: <http://v.example/> . @prefix d: <http://d.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
v:Ort rdfs:label "Ort" . v:Werk rdfs:label "Werk" .
""" + "".join(f'd:w{n} a v:Werk ; v:kurz "{"ab"[n % 2]}" ; v:in d:o{n} . d:o{n} a v:Ort .' for n in range(6))


@pytest.mark.parametrize(
    ("more", "verdict", "lacks"),
    [("", "fails", ["labels"]), ('d:w1 rdfs:label "One" . d:o1 rdfs:label "Ulm" .', "fails", ["labels"]),
     ("".join(f'd:w{n} rdfs:label "Work {n}" .' for n in range(6)), "partly", [])],
)  # fmt: skip
def test_things_without_names_are_told_by_class_with_a_table_that_can_be_pasted(tmp_path, more, verdict, lacks):
    with endpoint(NAMELESS + more) as served:
        found, lacked = checked(Settings(kb=served.url, home=tmp_path))
        labels = found["labels"]
        assert lacked == lacks
        assert (labels.verdict, "Ort" in labels.says, "Werk" in labels.says) == (verdict, True, verdict == "fails")
        if verdict == "fails":  # a property of Werk holds texts, of Ort none does
            pasted = tomllib.loads(labels.remedy.partition("\n")[2])["sparql"]
            assert pasted == {"mine": {"url": served.url, "labels": ["http://v.example/kurz"]}}
            with open_kb(Settings(kb="mine", sparql=pasted, home=tmp_path)) as kb:
                assert kb.labels(["d:w2"]) == {"d:w2": "a"}


def test_an_endpoint_whose_data_are_in_named_graphs_is_told_how_they_are_asked(tmp_path):
    with endpoint("<urn:g> { <urn:a> <urn:p> 'b' }") as served:
        settings = Settings(kb=served.url, home=tmp_path)
        with open_kb(settings) as kb:
            [found] = check_kb(kb, settings)
    assert tomllib.loads(found.remedy.partition("\n")[2])["sparql"]["mine"]["graph"] == ["urn:g"]


def test_another_wikibase_is_told_by_its_iris_and_what_it_lacks(tmp_path):
    found, lacks = checked(Settings(kb=str(build_foreign(tmp_path / "mirror")), home=tmp_path))
    assert BASE in found["IRIs"].says
    assert "instance of is P1, subclass of is P2" in found["properties"].says
    assert "director" in found["properties"].remedy
    assert "wikibase.ids" in found["properties"].remedy
    assert (found["search"].requests > 0, lacks) == (True, [])


def test_a_wrong_concept_base_is_found_and_the_right_one_named(tmp_path, kbnav, monkeypatch):
    mirror = build_foreign(tmp_path / "mirror")
    monkeypatch.setenv("KBNAV_WIKIBASE__CONCEPT_BASE", "https://wrong.example/entity/")
    code, out, _ = kbnav("check", "--kb", str(mirror))
    assert code == 1
    assert "agents lack: IRIs" in out
    assert f'wikibase.concept_base = "{BASE}"' in out


@pytest.mark.parametrize("gone", ["/sparql", "/w/api.php"])
def test_what_is_down_says_which_setting_it_is(gone, mini_home, tmp_path):
    with (
        MirrorServer(bundled_mirror(mini_home)) as mini,
        serving(lambda _: Answer("down", 404, "text/plain")) as served,
    ):
        real = mini.endpoints.model_dump()
        name = "sparql" if gone == "/sparql" else "api"
        endpoints = endpoints_of(served.url).model_copy(update={**real, name: f"{served.url}{gone}"})
        settings = Settings(endpoints=endpoints, home=tmp_path, limits={"retries": 0})
        kb = WikidataKB.by_http(settings)
        findings = list(check_kb(kb, settings))
        lacking = broken(findings, kb)
        kb.close()
    assert name == "api" or [one.what for one in findings] == ["queries", "vectors"]
    assert any(f"endpoints.{name}" in one.remedy for one in findings if one.what in lacking)


@pytest.mark.parametrize("reply", [Answer("down", 404, "text/plain"), Answer("<html>Welcome</html>", 200, "text/html")])
@pytest.mark.parametrize(("path", "usual"), [("", "/sparql"), ("/sparql", "/query")])
def test_an_address_without_a_query_service_is_told_the_usual_paths_and_its_own_settings(tmp_path, reply, path, usual):
    with serving(lambda _: reply) as served:
        settings = Settings(kb=f"{served.url}{path}", home=tmp_path, limits={"retries": 0})
        findings = list(checked(settings)[0].values())
        with open_kb(settings) as kb, pytest.raises(ServiceError, match=f"{served.url}{usual}"):
            kb.execute_query("ASK { ?s ?p ?o }")
    assert f"{served.url}{usual}" in findings[0].says
    assert "[sparql.NAME]" in findings[0].remedy
    assert not any("endpoints." in one.remedy for one in findings)


def test_a_slow_endpoint_is_tried_for_what_matters_first_and_no_longer_than_it_may(tmp_path):
    over = threading.Event()
    with endpoint(COMPANY) as served, open_kb(settings := Settings(kb=served.url, home=tmp_path)) as kb:
        list(check_kb(kb, settings))
        served.refuse = lambda query: over.wait(9) and None if query.startswith("SELECT ?p ?x") else None
        findings = list(check_kb(kb, settings, seconds=0.3))
        over.set()
    told = {one.what: one.verdict for one in findings}
    assert (told["queries"], told["entry"]) == ("works", "works")
    assert told["neighbours"] == "not tried"
    assert broken(findings, kb) == []
    assert sum(one.seconds for one in findings) < 5
