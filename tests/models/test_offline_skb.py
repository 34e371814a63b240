"""The policy for SKBs without a model: what it reads in a question, which paths it follows, how well it does."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.skb_metapaths import TEMPLATES, Edges, questions
from hypothesis import given
from hypothesis import strategies as st

from kbnav.agents.skb import skb_offline
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import read
from kbnav.knowledge.skb.store import SKB
from kbnav.runs.trajectory import Turn
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings
from tests.data import DEMO_QUESTIONS
from tests.knowledge.skb.conftest import clinic, clinic_path
from tests.knowledge.skb.sources import small_skb

__all__ = ["clinic", "clinic_path"]
NODES = """\
{"id": "1", "type": "person", "name": "Ann Reed"}
{"id": "2", "type": "person", "name": "Bob Lisk", "aliases": ["WALL"]}
{"id": "3", "type": "house", "name": "The Mill", "description": "A red house with a wheel."}
{"id": "4", "type": "house", "name": "Long Barn", "description": "A green house."}
{"id": "5", "type": "house", "name": "Old Forge", "description": "A red house by the sea."}
{"id": "6", "type": "town", "name": "Coldwick"}
{"id": "7", "type": "town", "name": "Mew"}
{"id": "8", "type": "house", "name": "The Last of Them Without Doors", "ownership": "freehold"}
{"id": "9", "type": "house", "name": "The Barn"}
"""
EDGES = [
    ("1", "owns", "3"), ("1", "owns", "4"), ("2", "owns", "4"), ("2", "owns", "5"), ("1", "painted", "5"),
    ("3", "located in", "6"), ("4", "located in", "6"), ("5", "located in", "7"),
    ("1", "painted", "8"), ("8", "located in", "6"), ("9", "located in", "6"),
    ("8", "adjoins", "3"), ("8", "adjoins", "4"), ("9", "adjoins", "4"),
]  # fmt: skip


@pytest.fixture(scope="module")
def village(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SkbKB]:
    """Nine nodes."""
    nodes = map(json.loads, NODES.splitlines())
    with closing(SkbKB(small_skb(tmp_path_factory.mktemp("village"), nodes, EDGES, sparql=True))) as kb:
        yield kb


def answers(kb: SkbKB, question: str, home: Path) -> list[str]:
    run = ask(skb_offline(kb, Settings(home=home, language="en")), question)
    return list(run.outcome.ranking.ids) if run.outcome.ranking else []


@pytest.mark.parametrize(
    ("question", "houses"),
    [
        ("Which house that Ann Reed owns has a wheel?", ["3", "4"]),
        ("Which houses that Ann Reed owns have a wheel and doors?", ["3", "4"]),
        ("Which houses does 1 own?", []),  # a number is an id behind its type alone
        ("Which houses does the person 2 own?", ["4", "5"]),
        ("Old Forge", ["5"]),
        ("Which person painted The Last of Them Without Doors?", ["1"]),
        ("who painted the last of them without doors?", ["1"]),
        ("Show the persons of those that own Old Forge", ["2"]),
        ("Which houses without doors adjoin The Mill?", []),
        ("Which houses adjoin Long Barn and The Mill and are in the same town?", ["8"]),
        ("Who owns Old Forge?", ["2"]),
    ],
)
def test_what_a_question_says_besides_ranks_what_was_found(village, tmp_path, question, houses):
    assert sorted(answers(village, question, tmp_path)) == houses


def test_a_part_that_nothing_meets_is_given_up_and_that_is_said(village, tmp_path):
    agent = skb_offline(village, Settings(home=tmp_path, language="en"))
    for question, lost, told in (
        ("Which house painted by Bob Lisk is located in Mew?", ("painted", "Bob", "Lisk"), "“Bob Lisk”"),
        ("Which house of Bob Lisk is in Coldwick and Mew?", ("Mew",), "“Mew”"),
    ):
        outcome = ask(agent, question).outcome
        assert (outcome.understood.unused, told in outcome.note) == (lost, True)


def test_a_name_that_is_nowhere_is_no_answer(village, tmp_path):
    agent = skb_offline(village, Settings(home=tmp_path, language="en"))
    refused = ask(agent, "Which house of Ann Reed did Zebulon visit?").outcome
    assert (refused.status, "Zebulon" in refused.note) == ("no answer", True)
    assert refused.understood.unused == ("Zebulon",)
    assert ask(agent, "Which house did Zebulon visit?").outcome.status == "no answer"
    assert "“B-7”" in ask(agent, "What is the price of B-7?").outcome.note


def test_an_earlier_answer_is_meant_only_where_the_question_points_back(village, tmp_path):
    agent = skb_offline(village, Settings(home=tmp_path, language="en"))
    before = ask(agent, "Who is the person that owns a house located in Mew?")
    history = [Turn(before.question, before.path, replace(before.outcome, table=None))]
    pointed = ask(agent, "And which houses does he own?", history=history).outcome
    assert set(pointed.ranking.ids) == {"4", "5"}
    other = ask(agent, "And which houses are there?", history=history).outcome
    assert other.understood is None or "Bob Lisk" not in other.understood.text


@pytest.mark.parametrize(
    "question", ["Which of them are in Lamps?", "Of these, which are in Lamps?", "Which orders are theirs?"]
)
def test_what_asks_for_some_of_the_answers_before_is_declined(shop, tmp_path, question):
    agent = skb_offline(shop, Settings(home=tmp_path, kb="s", language="en"))
    before = ask(agent, "Which products are supplied by Acme Ltd?")
    outcome = ask(agent, question, history=[Turn(before.question, before.path, before.outcome)]).outcome
    assert (outcome.status, outcome.text) == ("no answer", "")


def test_names_are_found_longest_first_and_plain_words_are_no_abbreviations(village):
    reading = read("Who, of Ann Reed's and The Mill's people, built the wall?", village.skb, "en")
    assert [mention.text for mention in reading.mentions] == ["Ann Reed", "The Mill"]
    assert [mention.text for mention in read("Who is WALL?", village.skb, "en").mentions] == ["WALL"]
    misspelled = read("Which Coldwikkers are in Coldwikk?", village.skb, "en")
    assert [misspelled.tokens[one.first].text for one in misspelled.mentions] == ["Coldwikk"]


@given(st.text(max_size=80))
def test_any_text_is_read_and_no_place_is_taken_twice(village, text):
    reading = read(text, village.skb, "en")
    taken = [place for one in (*reading.mentions, *reading.types) for place in range(one.first, one.end)]
    places = [*taken, *reading.words]
    assert len(places) == len(set(places))
    assert all(0 <= place < len(reading.tokens) for place in places)
    assert all(text[token.start : token.end].startswith(token.text) for token in reading.tokens)


def test_on_the_demos_questions_it_does_as_the_guide_says(demo_kb, tmp_path):
    """28 first and 30 among the first twenty, of 37; a little less is a change to look at, not yet a fault."""
    agent = skb_offline(demo_kb, Settings(home=tmp_path, kb="demo", language="en"))
    first = among = 0
    for row in DEMO_QUESTIONS:
        run = ask(agent, row["question"])
        ids = list(run.outcome.ranking.ids) if run.outcome.ranking else []
        first += ids[:1] != [] and ids[0] in row["answer"]
        among += any(answer in ids[:20] for answer in row["answer"])
    assert len(DEMO_QUESTIONS) == 37
    assert first >= 26
    assert among >= 30


@pytest.mark.parametrize(
    ("question", "listed", "total"),
    [
        ("Which tunes are there?", 34, 34),
        ("Which instruments are made of Hartsworth spruce?", 20, 20),
        ("Which instruments are there?", 52, 52),
    ],
)
def test_a_list_is_whole_or_its_total_is_said(demo_kb, tmp_path, question, listed, total):
    outcome = ask(skb_offline(demo_kb, Settings(home=tmp_path, kb="demo", language="en")), question).outcome
    assert len(set(outcome.ranking.ids)) >= listed
    assert len(outcome.ranking.ids) == total or str(total) in outcome.note


@pytest.mark.parametrize(
    ("question", "answer", "nodes"),
    [  # by hand from nodes.jsonl and edges.tsv, and by `grep -c`
        ("How many instruments are there?", "52", 0),
        ("How many persons are there?", "57", 0),
        ("How many instruments are made of Hartsworth spruce?", "20", 0),  # 21 edges, one of them twice
        ("How many ships were built at Abbot's Dock?", "11", 0),
        ("How many persons are members of the Company of Stringers?", "9", 0),
        ("Who made the most instruments?", "", 0),
        ("Where was Marit Skarrow born?", "Little Mew", 1),  # "born" is a field, too: a year
        ("Which violins are there?", "", 0),
        ("Which instrument is the oldest?", "", 0),
        ("What is the total of the years that the ships were launched?", "", 0),
    ],
)
def test_things_are_counted_and_neither_compared_nor_summed(demo_kb, tmp_path, question, answer, nodes):
    outcome = ask(skb_offline(demo_kb, Settings(home=tmp_path, kb="demo", language="en")), question).outcome
    assert outcome.text == answer
    assert len(outcome.ranking.ids if outcome.ranking else ()) == nodes


@pytest.mark.parametrize(
    ("kind", "question"),
    [
        ("number", "How many numbers are there?"),
        ("Lieferant", "Wie viele Lieferanten gibt es?"),
        ("haus", "Wie viele Häuser gibt es?"),
        ("Händler", "Wie viele Händler gibt es?"),
        ("Bauer", "Wie viele Bauer gibt es?"),
        ("Bauer", "Wie viele Bauern gibt es?"),
    ],
)
def test_a_type_may_be_called_as_what_counts_it_and_in_the_plural_of_german(tmp_path, kind, question):
    nodes = [{"id": name, "type": "Bau", "name": name} for name in ("Mill", "Barn")]
    nodes.append({"id": "n1", "type": kind, "name": "Ann"})
    with closing(SkbKB(small_skb(tmp_path, nodes, (), sparql=True))) as kb:
        language = "en" if question.startswith("How") else "de"
        outcome = ask(skb_offline(kb, Settings(home=tmp_path, language=language)), question).outcome
        assert ("COUNT" in outcome.query, outcome.text) == (True, "1")


def test_a_type_and_a_number_are_one_name_and_a_code_is_one(tmp_path):
    nodes = [{"id": at, "type": "order", "placed": f"2024-05-0{at[-1]}"} for at in ("1", "2", "02")]
    nodes.append({"id": "p", "type": "product", "name": "Red Train"})
    with closing(SkbKB(small_skb(tmp_path, nodes, [("1", "contains", "p")], sparql=True))) as kb:
        agent = skb_offline(kb, Settings(home=tmp_path, language="en"))
        assert {ask(agent, f"When was {one} placed?").outcome.text for one in ("order 2", "02")} == {"2024-05-02"}


def test_a_column_that_became_edges_is_not_called_empty(tmp_path):
    nodes = [{"id": one, "type": "produkt", "name": f"Zelt {one}"} for one in ("Fjord", "Berg")]
    nodes += [{**nodes[1], "id": "x", "name": "Lampe Sol", "lieferant": "L9"}, {"id": "a", "type": "firma"}]
    with closing(SkbKB(small_skb(tmp_path, nodes, [("Fjord", "verkauft durch", "a")], sparql=False))) as kb:
        agent = skb_offline(kb, Settings(home=tmp_path, language="de"))
        said = [ask(agent, f"Wer liefert Zelt {one}?").outcome.note for one in ("Fjord", "Berg")]
        assert ["leer" in one for one in said] == [False, True]


BY_TEXT = "The nearest by their texts, not checked: "
LINKS = [
    ("1", "supplied by", "s1"), ("A-2", "supplied by", "s1"), ("3", "supplied by", "s3"), ("4", "supplied by", "s2"),
    ("1", "category", "Lamps"), ("A-2", "category", "Lamps"), ("3", "category", "Chairs"),
    ("r1", "about", "1"), ("r2", "about", "A-2"), ("r1", "written by", "c1"), ("r2", "written by", "c2"),
    ("o1", "of product", "A-2"), ("o1", "ordered by", "c1"),
]  # fmt: skip


def shop_in(folder: Path, options: Options) -> SkbKB:
    """Four products, one without a price, with suppliers, categories, two reviews and an order."""
    shutil.copy(Path(__file__).with_name("shop.csv"), folder / "n.csv")
    lines = ["source,relation,target", *(",".join(link) for link in LINKS)]
    (folder / "e.csv").write_text("\n".join(lines) + "\n")
    build(TableSource([folder / "n.csv"], [folder / "e.csv"]), folder / "s.skb", options)
    return SkbKB(SKB.open(folder / "s.skb"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SkbKB]:
    with closing(shop_in(tmp_path_factory.mktemp("shop"), Options())) as kb:
        yield kb


def test_without_sparql_fields_are_read_and_texts_ranked(tmp_path):
    with closing(shop_in(tmp_path, Options(sparql=False))) as kb:
        agent = skb_offline(kb, Settings(home=tmp_path, kb="s", language="en"))
        assert ask(agent, "What is the price of A-2?").outcome.text == "12.5"
        assert answers(kb, "Which suppliers are in Leeds?", tmp_path) == ["s1"]
        assert ask(agent, "How many products cost less than 20?").outcome.status == "no answer"


@pytest.mark.parametrize(
    ("question", "answer", "told", "unused"),
    [
        ("Which product has the lowest price?", "", "“price”", ("price", "lowest")),
        ("What is the average price of the products?", "", "“average”", ("average", "price")),
        ("top 2 products by price", "", "“2”", ("2", "price", "top")),
        ("most expensive product supplied by Acme Inc", "", "“expensive”", ("expensive", "supplied", "most")),
        ("What is the price of Nordic lamp 1?", "30", "Nordic lamp 1", ()),
        ("What is the price of A-2?", "12.5", "Steel lamp 2", ()),
        ("Who supplies A-2?", "Acme Ltd", "", ()),
        ("What is Acme Ltd?", "Acme Ltd", "", ()),
        ("Where is Acme Ltd?", "", "", ()),
        ("What is order o1?", "o1", "This is what it names.", ()),
        ("When was Acme Ltd founded?", "", "“founded”", ("founded",)),
        ("Which suppliers are in Leeds?", f"{BY_TEXT}Acme Ltd", "listed", ()),
        ("Which products did Acme Ltd recall?", "", "“recall”", ("recall",)),
        ("Which product has the best price?", "", "“best”", ("best", "price")),
        ("What is the cheapest fair product?", "", "“fair”", ("fair", "cheapest")),
        ("Which products have a price below 20?", "", "“below 20”", ("below 20",)),
        ("How many products cost at least 12.5?", "", "“at least 12.5”", ("at least 12.5",)),
        ("Which products cost less than 1.000?", "", "“less than 1.000”", ("less than 1.000",)),
        ("Which reviews have a rating of 5?", "", "“rating”", ("rating", "5")),
        ("What is the price of lamp 7?", "", "“price”", ("price", "7")),
        ("Which reviews are from 2024?", "", "“2024”", ("2024",)),
        ("Which products since 2012 cost less than 20?", "", "“less than 20”", ("less than 20",)),
        ("Which reviews of Steel lamp 2 are from 2024?", "", "“2024”", ("2024",)),
        ("Which products are supplied by Acme Ltd or Rossi S.p.A.?", "", "“supplied”", ("supplied", "or")),
        ("What is the total price?", "", "“total”", ("total", "price")),
        ("In which city is Rossi S.p.A.?", "Milano", "Rossi S.p.A.", ()),
        ("In which city is the supplier of Nordic lamp 1?", "", "“city”", ("city",)),
        ("Which products are supplied by Rossi?", "", "“Rossi”", ("supplied", "Rossi")),
        ("Which lamps are supplied by Acme Inc?", f"{BY_TEXT}Pine chair 4", "", ("lamps",)),
        ("How many lamps are supplied by Acme Ltd?", "2", "", ()),
        ("How many lamps in Chairs are there?", "", "“Chairs”", ("Chairs",)),
        ("How many products are in the category Lamps?", "2", "", ()),
        ("How many products are in the supplier Lamps?", "", "“supplier”", ("supplier",)),
        ("How many products does each supplier have?", "", "“each”", ("each",)),
        ("Which products have reviews about wobbles?", "", "“wobbles”", ("wobbles",)),
        (
            "Which products with a price are supplied by Acme Ltd?",
            f"{BY_TEXT}Steel lamp 2, Nordic lamp 1",
            "The nearest text comes first.",
            ("price",),
        ),
        ("Which reviews are about Nordic lamp 1?", "It wobbles a bit", "", ()),
        ("Which products are supplied by Acme?", "", "“Acme”", ("supplied", "Acme")),
        ("What is the telephone of Acme Ltd?", "", "“telephone”", ("telephone",)),
        ("Which products are not in stock?", "", "“not”", ("not",)),
        ("Which products have no reviews?", "", "“no”", ("no",)),
        ("Which products did Bo Lind order?", "Steel lamp 2", "order → ordered by", ()),
        ("How many products did Ann Reed order?", "", "", ("order",)),
        ("Which products supplied by Acme Ltd did Bo Lind order?", "Steel lamp 2", "order → ordered by", ()),
        ("Which customers did Nordic lamp 1 order and review?", f"{BY_TEXT}Bo Lind", "", ("order",)),
        ("Which customers ordered Nordic lamp 1?", "", "“ordered”", ("ordered",)),
        ("Which green products does Acme Ltd supply?", f"{BY_TEXT}Nordic lamp 1, Steel lamp 2", "", ("green",)),
        ("Which steel products does Acme Ltd supply?", f"{BY_TEXT}Steel lamp 2, Nordic lamp 1", "", ()),
        ("Which products supplied by Acme Ltd have a Foot?", f"{BY_TEXT}Steel lamp 2, Nordic lamp 1", "", ()),
        ("Which products by Acme Ltd work at fair cost?", "", "“work”", ("work",)),
        ("What is the price of Pine chair 4?", "", "“price” of Pine chair 4 is empty", ()),
        ("What is the colour of Pine chair 4?", "", "“colour” could not", ("colour",)),
        ("Which products are cheaper than 10?", "", "“cheaper than 10”", ("cheaper than 10",)),
        ("Which are the two cheapest products?", "", "“two”", ("two", "cheapest")),
        ("Which suppliers are in Leeds since 2005?", "", "“Leeds”", ("Leeds", "since", "2005")),
        ("Which lamp is no longer in stock?", "", "“no”", ("no",)),  # "no" is in Nordic, and no word of it
        ("How many products have stock?", "", "“stock”", ("stock",)),
        ("List all lamps", "Nordic lamp 1, Steel lamp 2", "", ()),
    ],
)
def test_words_that_were_used_are_told_and_what_was_not_understood_is_declined(
    shop, tmp_path, question, answer, told, unused
):
    outcome = ask(skb_offline(shop, Settings(home=tmp_path, kb="s", language="en")), question).outcome
    read = outcome.understood.text if outcome.understood else ""
    assert (outcome.text, told in f"{outcome.note} {read}") == (answer, True), outcome.note
    assert (outcome.understood and outcome.understood.unused) == unused
    assert (outcome.status == "no answer") == (not answer)
    assert outcome.absence is None  # a refusal looked for nothing


@pytest.mark.parametrize(
    ("question", "answer", "told"),
    [
        ("Where was Rowlock made?", "", "“made”"),  # not what it is made of
        ("What did Jory Pellow make?", "", "“make”"),  # not all that is linked to him
        ("Who owns The Shepherdess?", "Susanna Oram", "only one"),
        ("Which instruments are named after ships?", "", "“ships”"),
        ("What can I ask?", "", "place, workshop, society"),
        ("Who is Wenna Pellow?", "A shepherd's daughter", "what it names"),
    ],
)
def test_a_relation_that_is_named_is_followed_and_no_other(demo_kb, tmp_path, question, answer, told):
    outcome = ask(skb_offline(demo_kb, Settings(home=tmp_path, kb="demo", language="en")), question).outcome
    assert (outcome.text[: len(answer) or None], told in outcome.note) == (answer, True), outcome


@pytest.mark.slow
def test_metapath_questions_on_real_data_get_exactly_the_answers_counted_from_its_file(clinic, shared_data, tmp_path):
    edges = Edges(shared_data)
    wanted = {
        "disease - drug - disease",
        "disease - disease - effect/phenotype",
        "drug - disease - drug and drug - drug",
    }
    assert wanted <= {template.prime for template in TEMPLATES}
    asked = [question for question in questions(edges, 3) if question.template.prime in wanted]
    assert len(asked) == 9
    agent = skb_offline(clinic, Settings(home=tmp_path, language="en"))
    for question in asked:
        run = ask(agent, question.template.ask(question.names))
        assert set(run.outcome.ranking.ids) == question.answers, question.names
