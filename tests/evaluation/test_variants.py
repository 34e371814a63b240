"""Copies of data changed by rule, and questions for them: no credit for the right answer by a wrong way."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyoxigraph import RdfFormat, Store

from kbnav.errors import UsageError
from kbnav.evaluation.datasets import Question
from kbnav.evaluation.variants import Graph, Opaque, changed, empty, silenced, swapped, write
from kbnav.knowledge.serving import RdfServer
from kbnav.knowledge.sparql.prefixes import STANDARD_PREFIXES
from tests.apps.parts import Cli

NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gert", "Hana", "Ivo", "Jule", "Kim", "Lea"]
CITIES = ["Arles", "Bonn", "Cork"]
HEAD = """
@prefix v: <http://firm.example/v/> . @prefix d: <http://firm.example/d/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
v:Person a owl:Class ; rdfs:label "person" . v:boss a owl:ObjectProperty .
d:p99 a v:Person ; rdfs:label "Zoe" .
"""
"""Everybody but Zoe has a boss and a city; a boss is one of the first three, and lives where the place number says."""


def company() -> str:
    lines = [
        f'd:p{place} a v:Person ; rdfs:label "{name}" ; v:boss d:p{(place + 1) % 3} ; v:city "{CITIES[place % 3]}" ; '
        f"v:age {30 + place} ; v:knows d:p{(place * 5 + 1) % 12} ."
        for place, name in enumerate(NAMES)
    ]
    return HEAD + "\n".join(lines)


QUESTIONS = [
    {"id": "boss", "question": "Who is the boss of Ada?", "sparql": "SELECT ?x {<http://firm.example/d/p0> v:boss ?x}"},
    {"id": "city", "question": "Who lives in Bonn?", "sparql": 'SELECT ?x { ?x v:city "Bonn" }'},
    {"id": "age", "question": "How old is Ben?", "sparql": "SELECT ?x { <http://firm.example/d/p1> v:age ?x }"},
    {"id": "many", "question": "How many people are there?", "sparql": "SELECT (COUNT(?p) AS ?n) { ?p a v:Person }"},
]  # fmt: skip
PREFIX = "PREFIX v: <http://firm.example/v/> "


@pytest.fixture
def firm(tmp_path: Path) -> Path:
    (tmp_path / "firm.ttl").write_text(company())
    lines = [json.dumps({**one, "sparql": PREFIX + one["sparql"]}) for one in QUESTIONS]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def kbnav(firm, monkeypatch, capsys) -> Cli:
    monkeypatch.chdir(firm)
    monkeypatch.setenv("KBNAV_HOME", str(firm / "home"))
    return Cli(monkeypatch, capsys)


def triples(path: Path) -> set[str]:
    return set(path.read_text().splitlines())


def test_on_wikidata_things_are_of_a_kind_that_are_instances_of_the_same(tmp_path: Path) -> None:
    kinds = {"Q5": ["Ada", "Ben", "Cleo", "Dan"], "Q515": ["Arles", "Bonn"]}
    lines = [
        f'wd:{kind}{place} a wikibase:Item ; wdt:P31 wd:{kind} ; rdfs:label "{name}"@en .'
        for kind, names in kinds.items()
        for place, name in enumerate(names)
    ]
    lines += [
        "wd:Q50 wdt:P19 wd:Q5150 .",
        "wd:Q51 wdt:P19 wd:Q5151 .",
        "wd:Q5 a wikibase:Item ; wdt:P31 wd:Q16889133 .",
    ]
    prefixes = "".join(f"@prefix {name}: <{STANDARD_PREFIXES[name]}> .\n" for name in ("wd", "wdt", "wikibase", "rdfs"))
    (tmp_path / "wikidata.ttl").write_text(prefixes + "\n".join(lines))
    graph = Graph.read([tmp_path / "wikidata.ttl"])
    assert {one.value.rpartition("/")[2] for one in graph.things} == {"Q50", "Q51", "Q52", "Q53", "Q5150", "Q5151"}
    asked = [Question(str(n), {"en": "Where was Ada born?"}, "SELECT ?x { wd:Q50 wdt:P19 ?x }") for n in range(20)]
    assert {one.text() for one in empty(graph, asked, 1)} == {"Where was Cleo born?", "Where was Dan born?"}
    copy, moved = changed(graph, 1)
    assert not any(name.endswith("P31") for name in moved)
    assert sum(one.predicate.value.endswith("P31") for one in copy) == 7  # a twentieth of six things is none


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_changed_copy_has_other_facts_of_the_same_kinds_about_the_same_things(firm, seed):
    graph = Graph.read([firm / "firm.ttl"])
    assert len(graph.things) == 13
    copy, moved = changed(graph, seed)
    write(graph.store, firm / "all.nt")
    write(copy, firm / "changed.nt")
    before, after = triples(firm / "all.nt"), triples(firm / "changed.nt")
    assert len(after) == len(copy)  # none is said twice
    gone = {str(one) for one in graph.things} - {line.split()[0] for line in after}
    assert len(gone) == 1  # a twentieth of thirteen
    assert {line for line in before if "label" in line or "type" in line} - after == {
        line for line in before if line.split()[0] in gone and ("label" in line or "type" in line)
    }
    for predicate in ("boss", "city", "age", "knows"):
        there, here = ([line for line in one if f"/v/{predicate}>" in line] for one in (after, before))
        left = [line for line in here if not any(name in line for name in gone)]
        # As many of each object as were there, each subject as often; some with another object.
        assert Counter(line.split()[0] for line in there) == Counter(line.split()[0] for line in left)
        assert Counter(line.split()[2] for line in there) == Counter(line.split()[2] for line in left)
        assert len(set(there) - before) == moved[f"http://firm.example/v/{predicate}"]
    assert moved["http://firm.example/v/age"] >= 4
    assert changed(graph, seed)[0] == copy


def test_opaque_data_is_the_same_under_iris_that_say_nothing(firm):
    graph = Graph.read([firm / "firm.ttl"])
    opaque = Opaque.of(graph, 1)
    write(opaque.data(graph), firm / "opaque.nt")
    text = (firm / "opaque.nt").read_text()
    assert "/d/p" not in text
    assert "/d/e" in text
    assert "http://firm.example/v/boss" in text
    assert '"Ada"' in text
    back = {new: old for old, new in opaque.names.items()}
    assert len(back) == 13
    for new, old in back.items():
        text = text.replace(f"<{new}>", f"<{old}>")
    write(graph.store, firm / "all.nt")
    assert set(text.splitlines()) == triples(firm / "all.nt")


def test_questions_without_an_answer_are_asked_of_another_thing_of_the_same_kind(firm, kbnav):
    code, out, error = kbnav("eval", "vary", "firm.ttl", "--dataset", "questions.jsonl", "--out", "made")
    assert code == 0, error
    assert "opaque.jsonl: 13 things under new IRIs, 4 questions" in out
    made = [json.loads(line) for line in (firm / "made" / "empty.jsonl").read_text().splitlines()]
    # Zoe alone has no boss and no age; somebody lives in every city, and a count always has a row.
    assert [(one["id"], one["question"]["en"]) for one in made] == [
        ("boss-empty", "Who is the boss of Zoe?"), ("age-empty", "How old is Zoe?"),
    ]  # fmt: skip
    store = Store()
    store.bulk_load(path=str(firm / "firm.ttl"), format=RdfFormat.TURTLE)
    assert [list(store.query(one["sparql"])) for one in made] == [[], []]
    opaque = Store()
    opaque.bulk_load(path=str(firm / "made" / "opaque.nt"), format=RdfFormat.N_TRIPLES)
    for line in (firm / "made" / "opaque.jsonl").read_text().splitlines():
        assert len(list(opaque.query(json.loads(line)["sparql"]))) == len(list(store.query(PREFIX + next(
            one["sparql"] for one in QUESTIONS if one["id"] == json.loads(line)["id"]))))  # fmt: skip


def test_data_without_what_every_second_question_is_about_answers_them_no_more(firm):
    graph = Graph.read([firm / "firm.ttl"])
    # A comment, a name of the vocabulary and a declaration are no things.
    asked = [
        Question(one["id"], {"en": one["question"]}, f"{PREFIX}# d:p0\n{one['sparql']}") for one in QUESTIONS
    ]  # fmt: skip
    seen = set()
    for seed in range(6):
        data, quiet = silenced(graph, asked, seed)
        store = Store()
        store.extend(data)
        assert {one.id for one in asked if not list(store.query(one.query))} == set(quiet)
        assert {str(one.subject) for one in data} == {str(one.subject) for one in graph.store}
        seen |= set(quiet)
    assert seen == {"boss", "city", "age"}  # a count always has a row


def test_queries_may_leave_out_wikidatas_prefixes_and_names_are_of_the_questions_language(tmp_path):
    lines = ["wd:Q1 rdfs:label 'Ada'@en, 'Adelaide'@fr ; wdt:P1 wd:Q2 .", "wd:Q2 rdfs:label 'Ben'@en, 'Benjamin'@fr ."]
    kinds = "wd:Q1 a wikibase:Item . wd:Q2 a wikibase:Item . wd:Q3 a wikibase:Item ; rdfs:label 'Claudine'@fr ."
    declared = "".join(f"PREFIX {name}: <{STANDARD_PREFIXES[name]}>\n" for name in ("wd", "wdt", "rdfs", "wikibase"))
    (tmp_path / "items.ttl").write_text(declared + "\n".join([*lines, kinds]))
    graph = Graph.read([tmp_path / "items.ttl"])
    asked = [Question("boss", {"en": "Who is the boss of Ada?"}, "SELECT ?x { wd:Q1 wdt:P1 ?x }")]
    assert silenced(graph, asked, 1)[1] == ["boss"]
    assert [(one.texts, one.query) for one in empty(graph, asked, 1)] == [
        ({"en": "Who is the boss of Ben?"}, "SELECT ?x { <http://www.wikidata.org/entity/Q2> wdt:P1 ?x }")
    ]
    # What a query declares itself goes before them.
    own = [Question("boss", {"en": "?"}, "PREFIX wd: <urn:other> SELECT ?x { wd:Q1 wdt:P1 ?x }")]
    assert silenced(graph, own, 1)[1] == []


def test_queries_are_renamed_but_for_their_declarations_and_comments(firm):
    query = "PREFIX d: <http://firm.example/d/> # of d:p0\nSELECT ?x { d:p0 <http://firm.example/v/boss> ?x }"
    assert swapped(query, lambda _, iri: "<urn:x>" if "/d/" in iri else "") == query.replace("{ d:p0", "{ <urn:x>")


def test_the_right_answer_by_a_wrong_way_has_no_credit(firm, kbnav):
    assert kbnav("eval", "vary", "firm.ttl", "--dataset", "questions.jsonl", "--out", "made")[0] == 0
    right = {one["id"]: PREFIX + one["sparql"] for one in QUESTIONS}
    # Two that answer rightly on the data alone: one names its answers, one counts what happens to be as many.
    theirs = {
        **right,
        "city": PREFIX + "SELECT ?x { VALUES ?x { v:p } } LIMIT 0",
        "many": PREFIX + "SELECT (COUNT(?l) AS ?n) { ?s ?p ?l FILTER(isNumeric(?l)) }",
    }
    graph = Graph.read([firm / "firm.ttl"])
    cities = " ".join(f"<{row['x'].value}>" for row in graph.store.query(right["city"]))
    theirs["city"] = f"SELECT ?x {{ VALUES ?x {{ {cities} }} }}"
    theirs["many"] = PREFIX + "SELECT (COUNT(*) AS ?n) { VALUES ?x { 1 2 3 4 5 6 7 8 9 10 11 12 13 } }"
    (firm / "theirs.jsonl").write_text(
        "\n".join(json.dumps({"id": one, "sparql": text}) for one, text in theirs.items())
    )
    with (
        RdfServer([firm / "firm.ttl"], workers=1) as data,
        RdfServer([firm / "made" / "changed.nt"], workers=1) as copy,
    ):
        imported = ["theirs.jsonl", "questions.jsonl", "--kb", data.url, "--out", "run"]
        code, _, error = kbnav("eval", "import", *imported)
        assert code == 0, error
        assert json.loads(kbnav("eval", "score", "run", "--json")[1])["all"]["values"] == {"f1": 1.0, "em": 1.0}
        code, out, error = kbnav("eval", "score", "run", "--copy", copy.url)
    assert code == 0, error
    assert (
        "the queries of 4 questions were asked of a changed copy too, the lower score counts: 2 scored less there"
        in out
    )
    assert "(city, many)" in out
    kept = json.loads((firm / "run" / "copy.json").read_text())["questions"]
    assert {name for name, one in kept.items() if one["em"] == 1.0} == {"boss", "age"}
    # A file is a copy as well.
    code, out, _ = kbnav("eval", "score", "run", "--copy", "made/changed.nt")
    assert "2 scored less there (city, many)" in out
    assert json.loads((firm / "run" / "copy.json").read_text())["kb"].startswith("made/changed.nt ")
    # What the copy said is kept: it need not be there any more, and the scores of each question say it.
    scores = json.loads(kbnav("eval", "score", "run", "--copy", "made/changed.nt", "--json")[1])
    assert {one["id"]: one["values"]["em"] for one in scores["questions"]} == {
        "boss": 1.0, "city": 0.0, "age": 1.0, "many": 0.0,
    }  # fmt: skip
    assert scores["only_here"] == ["city", "many"]


def test_what_cannot_be_varied_is_said(firm, kbnav):
    (firm / "bare.ttl").write_text("<http://a/> <http://b/> <http://c/> .")
    assert "no thing with a type" in kbnav("eval", "vary", "bare.ttl", "--dataset", "questions.jsonl", "--out", "m")[2]
    (firm / "none.jsonl").write_text('{"id": "a", "question": "b?", "answers": ["c"]}')
    assert (
        "no question with a gold query" in kbnav("eval", "vary", "firm.ttl", "--dataset", "none.jsonl", "--out", "m")[2]
    )
    with pytest.raises(UsageError, match="no such file"):
        Graph.read([firm / "absent.ttl"])
