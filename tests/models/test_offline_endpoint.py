"""The offline policy on a SPARQL endpoint: what it answers, and where it says that it does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.agents.common.agent import Agent
from kbnav.agents.spinach import build_spinach
from kbnav.knowledge.endpoint.kb import EndpointKB
from kbnav.knowledge.open import open_kb
from kbnav.runs.trajectory import Run, Turn
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings, SparqlSource
from tests.knowledge.endpoint.conftest import COMPANY
from tests.knowledge.endpoint.served import serving
from tests.models.library import library


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    home = tmp_path_factory.mktemp("home")
    with serving(COMPANY) as served:
        settings = Settings(kb=served.url, home=home)
        with open_kb(settings) as kb:
            yield build_spinach(kb, settings)


def values(run: Run) -> list[str]:
    table = run.outcome.table
    assert table is not None
    return sorted(table.entity(row[0]) or row[0].value for row in table.rows if row[0])


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who is the supplier of the Desk Lamp 12?", ["data:s1"]),
        ("Which suppliers are in France?", ["data:s1", "data:s3"]),
        ("How many suppliers are in Germany?", ["1"]),
        ("How many Lamp are there?", ["2"]),
        ("How many SUPPLIERS are in Germany?", ["1"]),
        ("What is the heaviest lamp?", ["data:p2"]),
        ("Which lamps have a supplier in Germany?", ["data:p2"]),
        ("How many weight does the Desk Lamp 12 have?", ["900"]),
    ],
)
def test_a_class_and_what_it_is_linked_to_are_answered(agent, question, answer):
    run = ask(agent, question)
    assert run.outcome.status == "answered"
    assert values(run) == answer


@pytest.mark.parametrize(
    ("question", "true"),
    [
        ('Is "Lumen & Söhne" the supplier of the Desk Lamp 12?', "true"),
        ('Is "Lumen & Söhne" the supplier of the Screwdriver Set?', "false"),
    ],
)
def test_two_things_are_linked_as_asked_or_not(agent: Agent, question: str, true: str):
    outcome = ask(agent, question).outcome
    assert outcome.table is not None
    assert str(outcome.table.boolean).lower() == true


def test_a_name_with_a_comma_and_a_number_is_one_name(tmp_path: Path):
    people = "".join(
        f'd:x{one} a v:Person ; rdfs:label "Schulz, Max ({one})" . d:w{one} a v:Werk ; v:creator d:x{one} .'
        for one in range(5)
    )
    prefixes = "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix v: <urn:v:> . @prefix d: <urn:d:> ."
    with serving(f'{prefixes} v:creator rdfs:label "creator" . {people}') as served:
        settings = Settings(kb=served.url, home=tmp_path)
        with open_kb(settings) as kb:
            run = ask(build_spinach(kb, settings), 'Which Werk has creator "Schulz, Max (4)"?')
    assert [one.rpartition(":")[2] for one in values(run)] == ["w4"]


@pytest.mark.parametrize("question", ["Which Ort is named Kraków?", "Which Ort is called Kraków?"])
def test_what_is_named_so_is_the_thing_itself_and_no_node_without_a_name(tmp_path: Path, question: str):
    made = "".join(f"d:w{one} v:made [ a v:Ort ; v:place d:o{one % 2 + 1} ] ." for one in range(9))
    prefixes = "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix v: <urn:v:> . @prefix d: <urn:d:> ."
    places = 'd:o1 a v:Ort ; rdfs:label "Kraków" . d:o2 a v:Ort ; rdfs:label "Wien" .'
    with serving(f"{prefixes} {places} {made}") as served:
        settings = Settings(kb=served.url, home=tmp_path)
        with open_kb(settings) as kb:
            run = ask(build_spinach(kb, settings), question)
    assert values(run) == ["<urn:d:o1>"]


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("Which suppliers are not in France?", "what is not the case"),
        ("What is the weight of each lamp?", "of each"),
        ("Who wrote this?", "names no class"),
        ("Who wrote the Iliad?", "nothing here is named “Iliad”"),
        ("Which suppliers did he visit?", "earlier question"),
        ("How many lamps are from 1990?", "year"),
        ("Where are all suppliers?", "of Supplier alone"),
        ("Which supplier is the longest?", "of Supplier alone"),
    ],
)
def test_what_is_beyond_its_rules_is_no_answer_and_says_why(agent: Agent, tmp_path: Path, question: str, why: str):
    run = ask(agent, question)
    assert run.outcome.status == "no answer"
    assert run.outcome.query == ""
    assert run.outcome.absence is None  # nothing that was asked for was looked for
    assert why in run.path[-1].call.thought


def test_what_goes_on_from_an_earlier_question_is_no_answer_and_says_so(agent: Agent):
    before = ask(agent, "Who is the supplier of the Desk Lamp 12?")
    run = ask(agent, "And when?", history=[Turn(before.question, before.path, before.outcome)])
    assert "ask it whole" in run.outcome.note


def test_the_words_that_are_left_over_are_told(agent: Agent):
    for question, unused in (
        ("Which lamps have a supplier in Germany?", ()),
        ("Which suppliers are in beautiful France?", ("beautiful",)),
    ):
        read = ask(agent, question).outcome.understood
        assert read is not None
        assert read.unused == unused


@pytest.mark.parametrize(
    "question", ["Which suppliers in France deliver fragile furniture overnight?", "How many cheerful lamps are there?"]
)
def test_an_answer_that_leaves_out_too_much_is_refused(agent: Agent, question: str):
    refused = ask(agent, question).outcome
    assert (refused.status, refused.query) == ("no answer", "")
    assert refused.understood is not None
    assert refused.understood.unused


@pytest.fixture(scope="module", params=["labels", "name index"])
def librarian(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Agent]:
    home = tmp_path_factory.mktemp("library")
    with serving(library()) as served:
        settings = Settings(kb=served.url, home=home)
        if request.param == "name index":
            with open_kb(settings) as kb:
                assert isinstance(kb, EndpointKB)
                kb.index_names(home / "names", lambda count, last: None)
            source = SparqlSource(url=served.url, index=str(home / "names"))
            settings = Settings(kb="library", home=home, sparql={"library": source})
        with open_kb(settings) as kb:
            yield build_spinach(kb, settings)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Liste aller Verlage", ["v0", "v1", "v2"]),
        ("Welche Verlage gibt es?", ["v0", "v1", "v2"]),
        ("List all Ort", ["o0", "o1", "o2", "o3"]),
        ("Give me all persons", [f"p{number}" for number in range(30)]),
        ("Liste alle Personen auf", [f"p{number}" for number in range(30)]),
        ("Wie viele Fachbücher gibt es?", ["34"]),
        ("Wie viele Werke gibt es?", ["100"]),
        ('Welche Werke hat "Schulz, Max (4)" verfasst?', ["w12", "w34", "w56"]),
        ('What is the Geburtsdatum of "Schulz, Max (4)"?', ["1912-05-06"]),
        ('Welches Erscheinungsjahr hat "Der Garten für Anfänger"?', ["1966"]),
        ('Welches Erscheinungsjahr hat "Handbuch der Pilze"?', ["1967"]),
        ('Wer ist der Verfasser von "Die Brücke"?', ["p1"]),
        ('Wann erschien "Handbuch der Pilze"?', ["1967"]),
        ('Wann wurde "Schulz, Max (4)" geboren?', ["1912-05-06"]),
        ('Wo wurde "Schulz, Max (4)" geboren?', ["o0"]),
        ("Welcher Roman hat das größte Erscheinungsjahr?", ["w49"]),
        ("Welches Fachbuch ist das früheste?", ["w66"]),
        ("Welche Verlage sitzen in Leipzig?", ["v1"]),
    ],
)
def test_a_library_with_german_classes_is_asked(librarian: Agent, question: str, answer: list[str]):
    run = ask(librarian, question)
    assert run.outcome.status == "answered"
    assert [one.rpartition(":")[2].rstrip(">") for one in values(run)] == sorted(answer)


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ('Welche Fachbücher hat "Meier, Luise" verfasst?', "“Meier, Luise” is not linked to Fachbuch"),
        ('Welche Zeitschriften hat "Meier, Luise" verfasst?', "nothing here is named “Zeitschriften”"),
        ("Welche Werke hat Goethe verfasst?", "nothing here is named “Goethe"),
        ('Welche Romane hat "Schultz, Max (4)" verfasst?', "is “Schulz, Max (4)” meant?"),
        ('Welche Romane hat "Meyer, Luise" verfasst?', "is “Meier, Luise” meant?"),
        ("Welche Romane hat Schulz, Max (99) verfasst?", "“Schulz, Max (99)” may be one name"),
        ('Wer ist der Autor von "Die Brücke"?', "no property of “Die Brücke” fits the words; there are: "),
        ('Wann starb "Schulz, Max (4)"?', "there are: Geburtsdatum"),
        ("Welcher Autor hat die meisten Romane?", "“Autor” is no class here"),
        ("Welcher Roman ist der längste?", "there are: Erscheinungsjahr"),
    ],
)
def test_what_a_library_does_not_have_is_named(librarian: Agent, question: str, why: str):
    run = ask(librarian, question)
    assert run.outcome.status == "no answer"
    assert why in run.path[-1].call.thought
