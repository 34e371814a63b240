"""The offline policy on a SPARQL endpoint: what it answers, and where it says that it does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.agents.common.agent import Agent
from kbnav.agents.spinach import build_spinach
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
    if table.boolean is not None:
        return [str(table.boolean)]
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
        ('Is "Lumen & Söhne" the supplier of the Desk Lamp 12?', ["True"]),
        ('Is "Lumen & Söhne" the supplier of the Screwdriver Set?', ["False"]),
    ],
)
def test_a_class_what_it_is_linked_to_and_whether_two_things_are_linked_are_answered(agent, question, answer):
    run = ask(agent, question)
    assert (run.outcome.status, run.outcome.understood.unused) == ("answered", ())
    assert values(run) == answer


PREFIXES = "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix v: <urn:v:> . @prefix d: <urn:d:> ."
PLACES = 'd:o1 a v:Ort ; rdfs:label "Kraków" . d:o2 a v:Ort ; rdfs:label "Wien" .'
MADE = "".join(f"d:w{one} v:made [ a v:Ort ; v:place d:o{one % 2 + 1} ] ." for one in range(9))
PEOPLE = """
    d:b a v:Manager ; rdfs:label "Berlin Schulz" . d:o a v:Employee ; rdfs:label "Otto Kern" ; v:manager d:b .
    d:p a v:Employee ; rdfs:label "Pia Horn" ; v:manager d:b .
"""
FRANCE = """
    d:a a v:Supplier ; rdfs:label "Air France" ; v:country "France" ; v:partner d:v .
    d:v a v:Supplier ; rdfs:label "Vins de France" ; v:country "Spain" ; v:partner d:a .
"""
MOZART = """
    d:w1 a v:Work ; v:composer d:m . d:w2 a v:Work ; v:keyword "Mozart" ; v:composer d:o .
    d:w3 a v:Work ; v:composer d:m . d:m a v:Person ; rdfs:label "Wolfgang Mozart" .
"""

MOON = """d:m1 a v:Map ; v:subject d:moon ; v:shown d:moon . d:m2 a v:Map ; v:shown d:moon .
    d:moon rdfs:label "Moon" . d:mars rdfs:label "Mars" ."""


@pytest.mark.parametrize(
    ("graph", "question", "found"),
    [
        (FRANCE, "Which suppliers are in France?", ["a"]),
        (MOZART, "Which works have the composer Mozart?", ["w1", "w3"]),
        (MOZART, "Which works have the keyword Mozart?", ["w2"]),
        (MOZART, "Which works are by Mozart?", []),
        (PEOPLE, "Which employees work in Berlin?", []),
        (PEOPLE, "Who is the manager of Berlin Schulz?", []),
        (MOON, "Which maps are about the Moon?", ["m1"]),
        (MOON, "Which maps are about Mars?", []),
        (PLACES + MADE, "Which Ort is named Kraków?", ["o1"]),
    ],
)
def test_values_and_things_are_told_from_longer_names_and_from_nodes_without_one(tmp_path, graph, question, found):
    with serving(PREFIXES + graph) as served, open_kb(Settings(kb=served.url, home=tmp_path)) as kb:
        run = ask(build_spinach(kb, Settings(kb=served.url, home=tmp_path)), question)
    assert [one.rpartition(":")[2].rstrip(">") for one in (values(run) if run.outcome.table else [])] == found


@pytest.mark.parametrize(
    ("question", "unused"),
    [
        ("Which suppliers are not in France?", ("not",)),
        ("What is the weight of each lamp?", ("weight", "each")),
        ("Who wrote this?", ("wrote",)),
        ("Who wrote the Iliad?", ("Iliad",)),
        ("Which suppliers did he visit?", ("visit",)),
        ("How many lamps are from 1990?", ("1990",)),
        ("Where are all suppliers?", ()),
        ("Which supplier is the longest?", ("longest",)),
        (
            "Which suppliers in France deliver fragile furniture overnight?",
            ("deliver", "fragile", "furniture", "overnight"),
        ),
        ("How many cheerful lamps are there?", ("cheerful",)),
        ("Which country is the supplier of the Desk Lamp 12 in?", ("country",)),
    ],
)
def test_what_is_beyond_its_rules_is_no_answer_and_says_which_words(agent, question, unused):
    outcome = ask(agent, question).outcome
    assert (outcome.status, outcome.query) == ("no answer", "")
    assert outcome.absence is None  # nothing that was asked for was looked for
    assert outcome.understood.unused == unused
    assert all(word in outcome.note for word in unused)


@pytest.mark.parametrize(
    ("question", "whole"),
    [("And when?", False), ("And of the Desk Lamp 12?", False), ("Who wrote the Desk Lamp 12?", True)],
)
def test_what_goes_on_from_an_earlier_question_is_no_answer_and_says_so(agent, question, whole):
    before = ask(agent, "Who is the supplier of the Desk Lamp 12?")
    outcome = ask(agent, question, history=[Turn(before.question, before.path, before.outcome)]).outcome
    assert (outcome.status, "ask the whole question" in outcome.note) == ("no answer", not whole)


def test_the_words_that_are_left_over_are_told(agent):
    assert ask(agent, "Which suppliers are in beautiful France?").outcome.understood.unused == ("beautiful",)


@pytest.fixture(scope="module", params=["labels", "name index"])
def librarian(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Agent]:
    home = tmp_path_factory.mktemp("library")
    with serving(library()) as served:
        settings = Settings(kb=served.url, home=home)
        if request.param == "name index":
            with open_kb(settings) as kb:
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
        ('Wer ist der Verfasser von "Die Brücke"?', ["p1"]),
        ('Wann erschien "Handbuch der Pilze"?', ["1967"]),
        ('Wann wurde "Schulz, Max (4)" geboren?', ["1912-05-06"]),
        ('Wo wurde "Schulz, Max (4)" geboren?', ["o0"]),
        ("Welcher Roman hat das größte Erscheinungsjahr?", ["w49"]),
        ("Welches Fachbuch ist das früheste?", ["w66"]),
        ("Welche Verlage sitzen in Leipzig?", ["v1"]),
        ("Welche Romane erschienen 1967?", ["w17"]),
        ("Wie viele Werke erschienen 1967?", ["2"]),
        ("Wie viele Werke erschienen vor 1967?", ["34"]),
        ("Welche Personen wurden 1912 geboren?", ["p12"]),
        ("Welche Romane sind von Luise Meier?", ["w1", "w23", "w45"]),
        ("Welche Romane hat Max Schulz verfasst?", ["w0", "w22", "w44"]),
        ("Welche Romane haben den Verfasser Anna Weber?", ["w2", "w24", "w46"]),
        ("Welche Personen heißen Max Schulz?", ["p0"]),
        ("Wie viele Werke haben wir?", ["100"]),
    ],
)
def test_a_library_with_german_classes_is_asked(librarian, question, answer):
    run = ask(librarian, question)
    assert run.outcome.status == "answered"
    assert [one.rpartition(":")[2].rstrip(">") for one in values(run)] == sorted(answer)


@pytest.mark.parametrize(
    ("question", "unused", "instead"),
    [
        ('Welche Fachbücher hat "Meier, Luise" verfasst?', "verfasst", ""),
        ('Welche Zeitschriften hat "Meier, Luise" verfasst?', "Zeitschriften", ""),
        ("Welche Werke hat Goethe verfasst?", "Goethe", ""),
        ('Welche Romane hat "Schultz, Max (4)" verfasst?', "Schultz, Max (4)", "Schulz, Max (4)"),
        ("Welche Romane hat Schulz, Max (99) verfasst?", "Schulz, Max (99)", ""),
        ('Wer ist der Autor von "Die Brücke"?', "Autor", ""),
        ('Wann starb "Schulz, Max (4)"?', "starb", ""),
        ("Welcher Autor hat die meisten Romane?", "Autor", ""),
        ("Wer ist der Verfasser von Brückke?", "Brückke", "Die Brücke"),
        ("Welche Romane hat Schulz verfasst?", "Schulz verfasst", ""),
        ("Welche Werke verschwanden 1967?", "verschwanden", ""),
        ("Welcher Roman ist der längste?", "längste", ""),
        ("Welche Werke sind von Luise Meyer?", "Luise Meyer", '"Meier, Luise"'),
    ],
)
def test_what_a_library_does_not_have_is_named(librarian, question, unused, instead):
    outcome = ask(librarian, question).outcome
    assert (outcome.status, outcome.note.split()[0] in ("Hier", "Ohne")) == ("no answer", True)
    assert " ".join(outcome.understood.unused) == unused
    assert outcome.understood.instead == ((question.replace(unused, instead),) if instead else ())


CATALOGUE = Path(__file__).with_name("catalogue.ttl").read_text(encoding="utf-8")
NEW = 'k:p2 a b:Person ; rdfs:label "Lena Neu"@de . k:w4 a b:Werk ; rdfs:label "Der Fährmann"@de ; b:verfasser k:p2 .'


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A German catalogue with a name index that is older than its last person."""
    home = tmp_path_factory.mktemp("catalogue")
    with serving(CATALOGUE) as served, open_kb(Settings(kb=served.url, home=home)) as kb:
        kb.index_names(home / "names", lambda count, last: None)
    with serving(CATALOGUE + NEW) as served:
        source = SparqlSource(url=served.url, index=str(home / "names"))
        settings = Settings(kb="k", home=home, sparql={"k": source})
        with open_kb(settings) as kb:
            yield build_spinach(kb, settings)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Wer ist der Verfasser von Das Haus am Deich?", "Hanna Möller"),
        ("Wer hat Das Haus am Deich verfasst?", "Hanna Möller"),
        ("Who is the author of Der stille Gipfel?", "Hanna Möller"),
        ("Welcher Verlag hat Das Haus am Deich verlegt?", "Rheinbuch"),
        ("Welche Werke haben den Verlag Rheinbuch?", "Das Haus am Deich, Der stille Gipfel"),
        ("Welche Werke hat Lena Neu verfasst?", "Der Fährmann"),
        ("Who is the author of Der Fährmann?", "Lena Neu"),
        ("Welche Werke hat Lena Alt verfasst?", ""),
        ("Ist Hanna Möller in Köln geboren?", "✓ (Geburtsort: Köln)"),
        ("Ist Hanna Möller in Kiel geboren?", "✗ (keine solche Aussage hier)"),
        ("Ist Hanna Möller in Köln verstorben?", ""),
        ("Ist Hanna Möller der Verfasser von Das Haus am Deich?", "✓ (Verfasser: Hanna Möller)"),
        ("Ist Hanna Möller der Verfasser von Nebel?", "✓ (Verfasser: Hanna Möller)"),
        ("Wer ist Hanna Möller?", "Person"),
        ("Wer wurde in Köln geboren?", "Hanna Möller"),
        ("Wie viele Bücher gibt es?", "3"),
        ("Wie viele Bilder gibt es?", "1"),
        ("Who is the author of Erna's Tagebuch?", "Hanna Möller"),
        ("Which books were published in the 19th century?", ""),
        ("Welche Bücher sind von Hanna Möller?", "Honig und Wachs, Nebel"),
        ("How many people are there?", "2"),
        ("Welches Schlagwort hat Honig und Wachs?", "Bienenzucht@de"),
        ("Welches Schlagwort hat das Buch Nebel?", "Wetter@de"),
        ("Welches Schlagwort hat das Zunftbuch der Imker?", "Handwerk@de"),
        ("Who is the author of Honig und Wachs?", "Hanna Möller"),
        ("Welches Buch hat die Signatur Mu 3/1945?", "Honig und Wachs"),
        ("Which book has the shelf mark Mu 4/1945?", "Nebel"),
        ("Which books have the year of publication 1975?", "Honig und Wachs"),
        ("Which books have the year of publication 1976?", ""),
        ("Welche Bücher haben das Erscheinungsjahr 1981?", "Nebel"),
        ("Wer hat Honig und Wachs geschrieben?", "Hanna Möller"),
        ("Who wrote Nebel?", "Hanna Möller"),
        ("Which books from 1975 are by Hanna Möller?", ""),
        ("Which books were published in 1981?", "Nebel"),
        ("Which books were lost in 1981?", ""),
        ('Which book has the binding "Half leather"?', "Nebel"),
    ],
)
def test_a_german_catalogue_is_asked_as_its_readers_do(catalogue, question, text):
    outcome = ask(catalogue, question).outcome
    assert (outcome.status, ", ".join(sorted(outcome.text.split(", ")))) == ("answered" if text else "no answer", text)


def test_a_superlative_gives_all_that_tie_and_says_of_how_many(catalogue):
    outcome = ask(catalogue, "Welche Werke haben die meisten Seiten?").outcome
    assert sorted(outcome.text.removesuffix(" (312)").split(", ")) == ["Der stille Gipfel", "Die Grüße"]
    assert [(one.kind, one.about) for one in outcome.doubts] == [("compared", "3 / 5 / Seitenzahl"), ("tie", "2")]


@pytest.mark.parametrize(
    ("question", "told", "not_told"),
    [
        ("Welches Schlagwort hat Wachs und Honig?", "Wachs", "heißt nichts „Schlagwort“"),
        ("Welche Werke haben keinen Verlag?", "was fehlt", "„Verlag“"),
        ("Welche Bilder sind von Hanna Möller?", "Hier gibt es „Bild“, „Hanna Möller“", "Sprachmodell"),
    ],
)
def test_a_refusal_says_what_would_help(catalogue, question, told, not_told):
    outcome = ask(catalogue, question).outcome
    assert outcome.status == "no answer"
    assert told in outcome.note
    assert not_told not in outcome.note
