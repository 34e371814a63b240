"""Answers to pass on: a page that fetches nothing, a citation, which kind of nothing an answer is, no secret."""

import csv
import html
import io
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import kbnav
from kbnav.answers.tables import Absence, AnswerTable, Ranked, Ranking, Term, node_term
from kbnav.apps.bot.wikitext import reply_text
from kbnav.apps.console import answer_record, call_lines, print_answer
from kbnav.apps.secrets import Secrets
from kbnav.apps.sharing import shared_page
from kbnav.apps.texts import Texts
from kbnav.errors import ServiceError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.evidence import Evidence, Provenance
from kbnav.library.asking import Answer
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Call, Outcome, Run, Step, citation, load_run, to_json
from kbnav.settings.model import Settings
from tests.agents.parts import NumbersKB
from tests.evaluation.test_report import Tags

HOSTILE = """</script><script>alert(1)</script><img src=x onerror=alert(1)>"&'{{ 7*7 }}"""
WD = "http://www.wikidata.org/entity/"
TABLE = AnswerTable(("x",), ((Term("uri", f"{WD}Q1"),), (Term("literal", HOSTILE),)), labels={"Q1": HOSTILE})
RUN = Run(
    "run-1", f"Which {HOSTILE}?", "spinach", "gpt-x", "en",
    (Step(1, Call("execute_query", {"query": HOSTILE}, HOSTILE), HOSTILE),), (),
    Outcome("answered", "finish", "SELECT ?x { ?x wdt:P61 wd:Q2 }", TABLE, text=HOSTILE, note=HOSTILE,
            error="a secret"),
    seconds=2.0, started="2026-01-02T03:04:05+00:00", kb={"kind": "wikidata", "endpoints": {
        "sparql": "https://query.wikidata.org/sparql", "api": "https://www.wikidata.org/w/api.php"}},
    settings={"kb": "wikidata", "home": "/somewhere/of/mine"}, versions={"kbnav": "1.2.3", "python": "3.11"},
)  # fmt: skip
STATED = Evidence(Term("uri", f"{WD}Q1"), "P61", Term("literal", HOSTILE), f"{WD}statement/Q1-a")
TOLD = (RUN, Provenance(((STATED,), ()), labels={"Q1": HOSTILE, "P61": "found by"}))


def test_a_page_fetches_nothing_and_nothing_in_it_acts():
    found = Tags(shared_page([TOLD]))
    assert not {"script", "img"} & set(found.tags)
    assert not {"src", "srcset", "onerror", "onclick"} & {name for name, _ in found.attributes}
    assert all(link.startswith("https://query.wikidata.org/") for name, link in found.attributes if name == "href")
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in found.attributes
    text = " ".join(found.texts)
    assert text.count("{{ 7*7 }}") >= 6
    assert "found by" in text
    assert "no reference is stated" in text
    assert "a secret" not in shared_page([TOLD])


def test_a_citation_names_query_knowledge_base_date_and_versions():
    told = citation(replace(RUN, question="Who found it?"), "https://query.wikidata.org/#")
    for part in ("“Who found it?”", "kbnav 1.2.3", "gpt-x", "2026-01-02", "https://query.wikidata.org/sparql",
                 RUN.outcome.query, "https://query.wikidata.org/#SELECT", "run-1"):  # fmt: skip
        assert part in told


@pytest.mark.parametrize(
    ("mirror", "date"),
    [({"built": "2026-11-26T12:00:00Z", "newest": "2026-11-01T00:00:00Z"}, "2026-11-01"),
     ({"built": "2026-11-26T12:00:00Z", "newest": ""}, "2026-11-26")],
)  # fmt: skip
def test_a_copy_is_cited_by_the_date_of_its_data_where_that_is_known(mirror, date):
    told = citation(replace(RUN, question="Who?", kb={"mirror": mirror}, settings={"kb": "mini"}))
    assert [one for one in ("2026-11-01", "2026-11-26") if one in told] == [date]


@pytest.mark.parametrize(("turn", "thoughts"), [(1, 0), (2, 1)])
def test_a_thought_of_several_calls_is_told_once_in_its_turn(turn, thoughts):
    out = io.StringIO()
    Console(file=out).print(call_lines(Call("look", {}, "Look.", "b", turn), Call("look", {}, "Look.", "a", 1)))
    assert out.getvalue().count("Look.") == thoughts


@pytest.fixture
def saved(mini_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> kbnav.Answer:
    monkeypatch.setenv("KBNAV_HOME", str(mini_home))
    monkeypatch.chdir(tmp_path)
    return kbnav.ask("Who discovered polonium?", settings=kbnav.Settings(home=mini_home, language="en"))


def test_a_saved_run_is_exported_with_its_statements_and_cited(kbnav, saved, tmp_path):
    name = saved.run.id
    assert "answer.html" in kbnav.out("export", name, "answer.html", "--evidence")
    assert "discoverer or inventor" in (tmp_path / "answer.html").read_text()
    assert json.loads(kbnav.out("export", name, "answer.json", "--json", "--evidence"))["bytes"] > 100
    assert json.loads((tmp_path / "answer.json").read_text())["evidence"]["rows"]
    kbnav.out("export", name, "answer.wiki", "--evidence")
    assert "Q7186 (Marie Curie)<sup>1</sup>" in (tmp_path / "answer.wiki").read_text()
    assert (tmp_path / "answer.wiki").read_text() == kbnav.out("bot", "preview")
    gone = replace(saved.run, settings={**saved.run.settings, "kb": "gone"})
    (tmp_path / "gone.json").write_text(to_json(gone))
    assert "Q7186 (Marie Curie)" in kbnav.out("bot", "preview", "gone.json")
    kbnav.out("export", "gone.json", "moved.json", "--evidence", "--kb", "mini")
    assert json.loads((tmp_path / "moved.json").read_text())["evidence"]["rows"]
    kbnav.out("export", "last", "answer.csv")
    with (tmp_path / "answer.csv").open(encoding="utf-8-sig", newline="") as rows:
        assert next(csv.DictReader(rows)) == {"answer": "Marie Curie", "answer id": "Q7186"}
    assert saved.citation == citation(saved.run, saved.query_page)
    kbnav.out("ask", "Which elements are there?")
    kbnav.out("export", "last", "many.html", "--evidence")
    assert (tmp_path / "many.html").read_text().count("<tr>") == 40


def test_an_export_asks_no_address_that_only_the_runs_file_names(kbnav, saved, tmp_path, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr("kbnav.knowledge.open.open_kb", lambda settings: opened.append(settings.kb) or nullcontext())
    monkeypatch.setattr("kbnav.apps.cli.ask.node_fields", lambda base, ranking: [])
    outcome = replace(saved.run.outcome, ranking=Ranking((Ranked("n1", 1.0, "One"),)))
    for kb in ("mini + s3://theirs/skb", "demo", "http://127.0.0.1:9"):
        forged = replace(saved.run, outcome=outcome, settings={**saved.run.settings, "kb": kb})
        (tmp_path / "forged.json").write_text(to_json(forged))
        kbnav.out("export", "forged.json", "forged.csv")
        if "://" in kb:
            kbnav.out("bot", "preview", "forged.json")
            assert f"names kb {kb}: " in kbnav.refused("export", "forged.json", "forged.html", "--evidence")
    monkeypatch.setenv("KBNAV_WEB__KBS", json.dumps([kb]))
    kbnav.out("export", "forged.json", "forged.csv")
    assert opened == ["demo", kb]


NO = "ASK { wd:Q979 wdt:P61 wd:Q937 }"
ZERO = "SELECT (COUNT(?x) AS ?n) { ?x wdt:P61 wd:Q937 }"
EMPTY = "SELECT ?x { wd:Q7186 wdt:P61 ?x }"


def asked(home: Path, query: str, *ends: dict, kb: KnowledgeBase) -> Answer:
    finishes = [says(("finish", one)) for one in (*ends, {"no_answer": True})]
    model = ScriptedModel(replies=[says(("execute_query", {"query": query})), *finishes])
    return kbnav.ask("Did he?", kb=kb, model=model, settings=kbnav.Settings(home=home, language="en"))


@pytest.mark.parametrize(
    ("query", "ends", "kind"), [(NO, [{}], "partial copy"), (ZERO, [{}], "partial copy"), (EMPTY, [], "asks wrongly")]
)
def test_no_zero_and_nothing_say_which_on_every_door(mini_home, mini_kb, query, ends, kind):
    answer = asked(mini_home, query, *ends, kb=mini_kb)
    run, absence = answer.run, answer.absence
    assert absence.kind == kind
    said = Texts("en")(f"absent.{kind.replace(' ', '_')}")
    assert answer_record(run, "")["absence"]["kind"] == kind
    out = io.StringIO()
    print_answer(Console(file=out, width=400), run, "")
    assert said in out.getvalue()
    assert said in html.unescape(reply_text(run, Settings(), marker="m"))
    assert load_run(mini_home / "runs" / f"{run.id}.json").outcome.absence == absence


def test_nodes_that_were_only_seen_on_the_way_are_counted_and_not_shown():
    nodes = (Ranked("a", 1.0, "Ann"), Ranked("b", 0.5, "Ben", "", "seen"))
    found = AnswerTable(("x", "n"), tuple((node_term(one), Term("literal", one * 3)) for one in "ab"))
    for ranking, shown in ((Ranking(nodes, found), "aaa"), (Ranking(nodes[1:]), "")):
        out = io.StringIO()
        outcome = Outcome("answered", "finish", ranking=ranking)
        print_answer(Console(file=out, width=400), replace(RUN, outcome=outcome), "")
        assert shown in out.getvalue()
        assert "1 more node seen on the way" in out.getvalue()
        assert "bbb" not in out.getvalue()


def test_an_answer_that_says_something_has_none(mini_home, mini_kb):
    assert asked(mini_home, "SELECT ?x { wd:Q979 wdt:P61 ?x }", {}, kb=mini_kb).absence is None


def test_a_run_that_failed_says_that_a_service_did(mini_home, mini_kb):
    def down(query: str) -> None:
        raise ServiceError("the query service is down")

    with pytest.raises(ServiceError):
        asked(mini_home, NO, {}, kb=NumbersKB(down))
    runs = sorted((mini_home / "runs").glob("*.json"), key=lambda path: path.stat().st_mtime)
    assert load_run(runs[-1]).outcome.absence == Absence("service failed")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize("secret", ["question", "123456", "answer"])
def test_a_key_that_equals_a_field_or_a_number_is_hidden_in_texts_alone(secret):
    data = {"question": f"is it {secret}?", "answer": {"question": [1234567, True, None, ("a", secret)]}}
    assert Secrets([secret]).hidden_in(data) == {
        "question": "is it [hidden]?",
        "answer": {"question": [1234567, True, None, ["a", "[hidden]"]]},
    }


def test_a_key_that_json_escapes_is_hidden_too():
    secret = 'a"b\\c\né'
    assert Secrets([secret]).hidden_in({"text": f"<{secret}>"}) == {"text": "<[hidden]>"}


@given(st.dictionaries(st.text(), JSON, max_size=4), st.text(min_size=6))
def test_what_holds_no_secret_stays_as_it_is(data, secret):
    hidden = Secrets([secret]).hidden_in(data)
    assert hidden.keys() == data.keys()
    assert json.loads(json.dumps(hidden)) == hidden
    assert hidden == data or any(secret in text for text in _texts(data))


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []
