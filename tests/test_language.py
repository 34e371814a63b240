"""Question language: on real questions of benchmarks, on names, and on anything at all."""

import gzip
import json
import re

import pytest

from kbnav.answers.language import question_language
from tests.data import MINI_QUESTIONS

QUESTIONS = {
    "en": "Who discovered polonium?",
    "de": "Wer hat Polonium entdeckt?",
    "fr": "Qui a découvert le polonium ?",
    "es": "¿Quién descubrió el polonio?",
    "pl": "Kto odkrył polon?",
    "ru": "Кто открыл полоний?",
    "uk": "Хто відкрив полоній?",
    "zh": "谁发现了钋？",
    "ja": "ポロニウムを発見したのは誰ですか？",
    "ko": "폴로늄은 누가 발견했습니까?",
    "ar": "من اكتشف البولونيوم؟",
    "fa": "چه کسی پولونیوم را کشف کرد؟",
    "he": "מי גילה את הפולוניום?",
    "el": "Ποιος ανακάλυψε το πολώνιο;",
    "hi": "पोलोनियम की खोज किसने की?",
    "th": "ใครค้นพบพอโลเนียม",
}


@pytest.mark.parametrize("language", QUESTIONS)
def test_one_plain_question_in_each_language(language):
    assert question_language(QUESTIONS[language]) == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Marie Curie", "de"),
        ("Q7186", "de"),
        ("\u037e\u037e", "de"),  # Greek question marks
        ("", "de"),
        ("谁是 Angela Merkel 的丈夫?", "zh"),
        ("Кто написал «Prototypical Networks for Few-shot Learning»?", "ru"),
        ("Who wrote 'The Name of the Rose'?", "en"),
        ("Wer führte bei The Lord of the Rings Regie?", "de"),
        ("WHO DISCOVERED POLONIUM?", "en"),
        ("Was Frida Kahlo a surrealist?", "en"),
        ("Was war Ada Lovelaces Adelstitel?", "de"),
        ("Was für ein Tier ist Dolly?", "de"),
        ("Was kostet Zelt Fjord 77?", "de"),
    ],
)
def test_names_and_titles_in_other_languages_do_not_decide(text, language):
    assert question_language(text, default="de") == language


def test_questions_of_the_mini_mirror():
    told = [question_language(row["question"], default="xx") for row in MINI_QUESTIONS]
    assert told == [row["language"] for row in MINI_QUESTIONS]


@pytest.mark.parametrize(
    "text", ["\ud800 who is it \udfff", "\x00\x1b[31m", "x" * 100_000, '"' * 100_000, "q'" * 50_000]
)
def test_broken_and_huge_texts_do_no_harm(text):
    assert question_language(text) == "en"


def accuracy(texts: list[str], language: str, default: str = "en") -> float:
    return sum(question_language(text, default) == language for text in texts) / len(texts)


@pytest.mark.parametrize(
    ("language", "count", "floor"), [("en", 394, 0.995), ("de", 394, 0.995), ("ru", 394, 0.995), ("zh", 382, 0.995)]
)
def test_questions_of_qald_10(shared_data, language, count, floor):
    with gzip.open(shared_data / "benchmarks" / "qald-10" / "qald_10.json.gz", "rt", encoding="utf-8") as file:
        rows = json.load(file)["questions"]
    texts = [each["string"] for row in rows for each in row["question"] if each["language"] == language]
    assert len(texts) == count
    assert accuracy(texts, language) >= floor
    if language != "en":  # the default does not carry it
        assert accuracy(texts, language, default="xx") >= floor


def test_no_english_question_is_taken_for_another_language(shared_data):
    benchmarks = shared_data / "benchmarks"
    web: list[str] = []
    for split in ("dev", "train"):
        with gzip.open(benchmarks / "wikiwebquestions" / f"{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
            web += [json.loads(line)["question"] for line in lines]
    curated = [row["question"] for row in json.loads((benchmarks / "qald-9-plus" / "train.json").read_text())]
    assert (len(web), len(curated)) == (2885, 371)
    assert [text for text in web + curated if question_language(text, default="xx") not in ("en", "xx")] == []


def test_bare_names_of_entities_give_the_default(shared_data):
    label = re.compile(r'^\S+ <http://www\.w3\.org/2000/01/rdf-schema#label> "(.*)"@en \.$')
    with gzip.open(shared_data / "wikidata-slice" / "5_fb15k_labels.nt.gz", "rt", encoding="utf-8") as lines:
        names = [match[1] for line in lines if (match := label.match(line))]
    assert len(names) > 14_000
    assert accuracy(names, "en") >= 0.995
